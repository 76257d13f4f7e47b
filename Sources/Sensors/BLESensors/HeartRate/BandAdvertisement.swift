public import BLEWire

/// The heart rate in advertisements of Xiaomi and Amazfit bands and watches, if the owner has enabled sharing
/// and exercises.
///
/// The maker has not published the format; theengs/decoder (`Miband_json.h`) and ble_monitor (`amazfit.py`)
/// decode it in the same way. According to theengs, a rate is present only after `57 01 02`: some watches,
/// such as the Amazfit Bip S, send scrambled bytes of the same length.
public struct BandAdvertisement: Hashable, Sendable, BitwiseCopyable {
  /// Anhui Huami.
  public static let company: UInt16 = 0x0157
  private static let byteCount = 26
  /// The byte after the company identifier if a rate follows.
  private static let rateKind: UInt8 = 2
  private static let rateOffset = 5
  private static let addressOffset = 20

  /// Beats per minute; `nil` if not shared.
  public let beatsPerMinute: UInt8?

  /// - Parameters:
  ///   - value: manufacturer-specific data, including the company identifier.
  ///   - address: the advertiser's address. It must match the address at the end of the data, which
  ///     identifies the format.
  /// - Throws: `lengthMismatch` unless there are 26 bytes; `invalidValue` for another company, another device
  ///   or another kind.
  public init(decoding value: Span<UInt8>, from address: DeviceAddress) throws(WireError) {
    guard value.count == Self.byteCount else {
      throw WireError(.heartRate, offset: 0, .lengthMismatch(claimed: Self.byteCount, available: value.count))
    }
    guard value.u16(at: 0) == Self.company else {
      throw WireError(.heartRate, offset: 0, .invalidValue(UInt32(value.u16(at: 0))))
    }
    guard value[2] == Self.rateKind else {
      throw WireError(.heartRate, offset: 2, .invalidValue(UInt32(value[2])))
    }
    let own = value.extracting(Self.addressOffset...)
    // Neither source states the byte order.
    guard
      own.indices.allSatisfy({ own[$0] == address.octet($0) })
        || own.indices.allSatisfy({ own[$0] == address.octet(5 - $0) })
    else { throw WireError(.heartRate, offset: Self.addressOffset, .invalidValue(UInt32(own[0]))) }
    let rate = value[Self.rateOffset]
    beatsPerMinute = rate == 0 || rate >= 0xF0 ? nil : rate
  }
}

public import BLEWire

/// The remaining charge.
///
/// Battery Service 1.1, 3.1; Battery Level (0x2A19).
public struct BatteryLevel: CharacteristicValue, BitwiseCopyable {
  /// Charge in percent, 0 … 100.
  public let percent: UInt8

  /// - Parameter percent: 0 … 100.
  public init(percent: UInt8) {
    precondition(percent <= 100, "a battery is at most full")
    self.percent = percent
  }

  /// - Throws: `truncated`; `invalidValue` above 100, which is reserved.
  public init(decoding value: Span<UInt8>) throws(WireError) {
    var reader = FieldReader(value, .battery)
    let percent = try reader.u8()
    guard percent <= 100 else { throw WireError(.battery, offset: 0, .invalidValue(UInt32(percent))) }
    self.percent = percent
  }

  public var encodedByteCount: Int { 1 }
  public func encode(into output: inout OutputSpan<UInt8>) { output.append(percent) }
}

/// Four two-bit codes for the state of a battery. They come from early drafts of the service; some devices
/// still have them.
///
/// Battery Power State (0x2A1A).
public struct BatteryPowerState: CharacteristicValue, RawRepresentable, BitwiseCopyable {
  public let rawValue: UInt8
  public init(rawValue: UInt8) { self.rawValue = rawValue }

  public init(decoding value: Span<UInt8>) throws(WireError) {
    var reader = FieldReader(value, .battery)
    rawValue = try reader.u8()
  }

  /// 0 unknown, 1 not supported, 2 not present, 3 present.
  public var present: UInt8 { rawValue & 3 }
  /// 0 unknown, 1 not supported, 2 not discharging, 3 discharging.
  public var discharging: UInt8 { rawValue >> 2 & 3 }
  /// 0 unknown, 1 not chargeable, 2 not charging, 3 charging.
  public var charging: UInt8 { rawValue >> 4 & 3 }
  /// 0 unknown, 1 not supported, 2 good, 3 critically low.
  public var level: UInt8 { rawValue >> 6 }

  public var encodedByteCount: Int { 1 }
  public func encode(into output: inout OutputSpan<UInt8>) { output.append(rawValue) }
}

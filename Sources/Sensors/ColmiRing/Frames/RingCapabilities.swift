import BLEWire

/// Features reported by a ring. Check them before sending a request: firmware does not answer unsupported
/// requests.
///
/// Bits 0 to 31 come from the reply to setting the time (section 3, 0x01), the other bits from the reply to
/// 0x3C. The names are from published notes. The effect of most bits has not been observed.
public struct RingCapabilities: OptionSet, Hashable, Sendable, BitwiseCopyable {
  public let rawValue: UInt64
  public init(rawValue: UInt64) { self.rawValue = rawValue }

  private static func bit(_ index: UInt64) -> RingCapabilities { RingCapabilities(rawValue: 1 << index) }

  // Byte 4.
  public static let customWallpaper = bit(0)
  public static let bloodOxygen = bit(1)
  public static let bloodPressure = bit(2)
  public static let feature = bit(3)
  public static let oneKeyCheck = bit(4)
  public static let weather = bit(5)
  /// One published program inverts this bit.
  public static let weChat = bit(6)
  public static let avatar = bit(7)
  // Byte 11.
  public static let contacts = bit(8)
  public static let lyrics = bit(9)
  public static let album = bit(10)
  public static let gps = bit(11)
  public static let jieLiMusic = bit(12)
  // Byte 12.
  public static let manualHeartRate = bit(16)
  public static let eCard = bit(17)
  public static let location = bit(18)
  public static let music = bit(20)
  public static let rtkMCU = bit(21)
  public static let eBook = bit(22)
  public static let bloodSugar = bit(23)
  // Byte 14.
  public static let bloodPressureSettings = bit(25)
  public static let mobileNetwork = bit(26)
  public static let navigationPicture = bit(27)
  public static let stress = bit(28)
  public static let heartRateVariability = bit(29)
  // One byte each.
  public static let temperature = bit(32)
  public static let plate = bit(33)
  public static let menstruation = bit(34)
  /// Sleep logs are requested with big data message 0x27.
  public static let newSleepProtocol = bit(35)
  // The reply to 0x3C; two bits are known.
  /// The ring requires a bond with the operating system.
  public static let bond = bit(40)
  /// Temperatures are requested with big data message 0x77.
  public static let intervalTemperature = bit(41)
}

/// Reply to setting the time. Ring protocol, section 3, 0x01.
public struct RingTimeReply: Hashable, Sendable, BitwiseCopyable {
  public let capabilities: RingCapabilities
  /// Width of the display in pixels, probably little-endian. It is 0 in every capture.
  public let displayWidth: UInt16
  public let displayHeight: UInt16
  public let maximumWatchFaces: UInt8
  public let maximumContacts: Int

  init(_ bytes: Span<UInt8>) {
    var bits = UInt64(bytes[4]) | UInt64(bytes[11]) << 8 | UInt64(bytes[12]) << 16 | UInt64(bytes[14]) << 24
    let flags: [(Int, RingCapabilities)] = [
      (1, .temperature), (2, .plate), (3, .menstruation), (9, .newSleepProtocol),
    ]
    for (offset, capability) in flags where bytes[offset] == 1 { bits |= capability.rawValue }
    capabilities = RingCapabilities(rawValue: bits)
    displayWidth = bytes.u16(at: 5)
    displayHeight = bytes.u16(at: 7)
    maximumWatchFaces = bytes[10]
    maximumContacts = bytes[13] == 0 ? 20 : Int(bytes[13]) * 10
  }
}

extension RingCapabilities {
  /// Decodes the reply to 0x3C: byte 2, bit 3, and byte 9, bit 7.
  init(deviceSupport bytes: Span<UInt8>) {
    self = []
    if bytes[2] & 0x08 != 0 { insert(.bond) }
    if bytes[9] & 0x80 != 0 { insert(.intervalTemperature) }
  }
}

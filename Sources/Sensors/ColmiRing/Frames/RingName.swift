public import BLEWire

/// Recognises a ring by its advertised name. Most rings advertise nothing else.
///
/// Two forms of names match:
/// - the vendor's, such as `R02_3A4F`, `COLMI R10_01FE`, `Colmi R06`: `R01` to `R12`, then at most four
///   hexadecimal digits, optionally preceded by `_` or `-`;
/// - brand names under which the same ring is sold, alone or with such a suffix after `_` or `-`.
///
/// Similar names of devices with other protocols do not match: a space before the suffix (`R99 54DC`), a
/// letter after the number (`R10M`), `SMART_RING`. To use such a device anyway, connect by address.
public enum RingName {
  /// Brand names of the same hardware. The published list also has `R01` to `R10`, which match the vendor's
  /// form.
  private static let brands: [String] = [
    "VK-5098", "MERLIN", "Hello Ring", "RING1", "boAtring", "TR-R02", "SE", "EVOLVEO", "GL-SR2",
    "Blaupunkt", "KSIX RING", "iGET", "Kogan", "FITNESS", "Fyri", "OneRing SR01", "BOK", "9FSM", "STF",
    "Newgen", "SSR", "SEEKEN", "MXSR",
  ]
  private static let makers: [String] = ["COLMI ", "Colmi "]

  /// Returns whether a name is a ring's.
  ///
  /// - Parameter name: local name in UTF-8.
  public static func matches(_ name: Span<UInt8>) -> Bool {
    for maker in makers where name.starts(with: maker) {
      return isModel(name.extracting(maker.utf8.count...))
    }
    if isModel(name) { return true }
    for brand in brands where name.starts(with: brand) {
      let rest = name.extracting(brand.utf8.count...)
      if rest.isEmpty || (rest[0].isSuffixSeparator && isSuffix(rest.extracting(1...))) { return true }
    }
    return false
  }

  public static func matches(_ name: String) -> Bool {
    // Keep the array in a variable: the lifetime of a temporary's bytes depends on the optimiser.
    let octets = Array(name.utf8)
    return matches(octets.span)
  }

  /// Returns whether the name is `R01` to `R12` with a suffix.
  private static func isModel(_ name: Span<UInt8>) -> Bool {
    guard name.count >= 3, name[0] == UInt8(ascii: "R"), let tens = name[1].decimal,
      let units = name[2].decimal, 1...12 ~= tens * 10 + units
    else { return false }
    let rest = name.extracting(3...)
    // A trailing space without a suffix is accepted.
    if rest.count == 1, rest[0] == UInt8(ascii: " ") { return true }
    let hasSeparator = !rest.isEmpty && rest[0].isSuffixSeparator
    return isSuffix(hasSeparator ? rest.extracting(1...) : rest)
  }

  private static func isSuffix(_ text: Span<UInt8>) -> Bool {
    guard text.count <= 4 else { return false }
    for index in text.indices where !text[index].isHexadecimalDigit { return false }
    return true
  }
}

extension Span where Element == UInt8 {
  fileprivate func starts(with prefix: String) -> Bool {
    guard count >= prefix.utf8.count else { return false }
    var index = 0
    for octet in prefix.utf8 {
      if self[index] != octet { return false }
      index += 1
    }
    return true
  }
}

extension UInt8 {
  fileprivate var decimal: Int? {
    UInt8(ascii: "0")...UInt8(ascii: "9") ~= self ? Int(self - UInt8(ascii: "0")) : nil
  }

  fileprivate var isSuffixSeparator: Bool { self == UInt8(ascii: "_") || self == UInt8(ascii: "-") }

  fileprivate var isHexadecimalDigit: Bool {
    let lower = self | 0x20
    return decimal != nil || UInt8(ascii: "a")...UInt8(ascii: "f") ~= lower
  }
}

/// Services and characteristics of COLMI rings. All except Device Information are vendor-specific.
///
/// Rings rarely advertise a service UUID, so search for them by name (`RingName`). Handles differ between
/// firmware versions, so they must be discovered.
public enum RingUUID {
  /// Service for commands and replies, including the raw stream. It is not the Nordic UART service, but
  /// reuses the UUIDs of that service's two characteristics.
  public static let commandService = BluetoothUUID(high: 0x6E40_FFF0_B5A3_F393, low: 0xE0A9_E50E_24DC_CA9E)
  /// Frames of 16 bytes from host to ring; write or write without response.
  public static let commandWrite = BluetoothUUID(high: 0x6E40_0002_B5A3_F393, low: 0xE0A9_E50E_24DC_CA9E)
  /// Frames of 16 bytes from ring to host; notify.
  public static let commandNotify = BluetoothUUID(high: 0x6E40_0003_B5A3_F393, low: 0xE0A9_E50E_24DC_CA9E)

  /// Service for long logs and firmware updates.
  public static let bigDataService = BluetoothUUID(high: 0xDE5B_F728_D711_4E47, low: 0xAF26_65E3_012A_5DC7)
  /// Messages from host to ring, which begin with 0xBC; write without response.
  public static let bigDataWrite = BluetoothUUID(high: 0xDE5B_F72A_D711_4E47, low: 0xAF26_65E3_012A_5DC7)
  /// Frames from ring to host that begin with 0xBC; notify. Some rings repeat the raw stream here.
  public static let bigDataNotify = BluetoothUUID(high: 0xDE5B_F729_D711_4E47, low: 0xAF26_65E3_012A_5DC7)
}

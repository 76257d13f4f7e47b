/// Commands, events and advertising data without identifying data. Packets that are neither listed here nor
/// rewritten by `AnonymityTable` are unknown, and are blanked.
///
/// Core 5.4, Vol 4, Part E, 7; Core Specification Supplement, Part A; Assigned Numbers, 2.3.
enum KnownPackets {
  /// Opcodes of commands without parameters, or with only numbers and connection handles.
  ///
  /// Excluded are vendor commands, addresses (which have their own rules), keys of AMP and of broadcasts,
  /// contents of locations and broadcasts, and vendor-defined configurations.
  private static let commands: [ClosedRange<UInt16>] = [
    0x0401...0x0404, 0x0406...0x0407, 0x040F...0x0417, 0x041B...0x0420, 0x0428...0x0428, 0x0437...0x043D,
    0x0441...0x0441, 0x0443...0x0443, 0x0801...0x080A, 0x080C...0x0811, 0x0C01...0x0C03, 0x0C08...0x0C0B,
    0x0C14...0x0C51, 0x0C53...0x0C5F, 0x0C61...0x0C63, 0x0C66...0x0C75, 0x0C77...0x0C82, 0x1001...0x100F,
    0x1401...0x1409, 0x140C...0x140D, 0x1801...0x180A, 0x2001...0x2004, 0x2007...0x2007, 0x200A...0x200C,
    0x200E...0x2010, 0x2013...0x2016, 0x2018...0x2018, 0x201B...0x2025, 0x2029...0x202A, 0x202D...0x2034,
    0x2039...0x203E, 0x2040...0x2042, 0x2045...0x2046, 0x2049...0x204D, 0x204F...0x2050, 0x2059...0x205D,
    0x2060...0x2067, 0x206A...0x206A, 0x206C...0x206D, 0x206F...0x2074, 0x2076...0x207A, 0x207D...0x207F,
  ]

  static func isHarmless(command opcode: UInt16) -> Bool { commands.contains { $0.contains(opcode) } }

  static func isHarmless(event code: UInt8) -> Bool {
    switch code {
    case 0x01, 0x05, 0x06, 0x08...0x11, 0x13, 0x14, 0x1A...0x1F, 0x21, 0x23, 0x2D, 0x2E, 0x30, 0x38, 0x39,
      0x40...0x4F,
      0x54...0x59:
      true
    default: false
    }
  }

  static func isHarmless(subevent code: UInt8) -> Bool {
    switch code {
    case 0x03, 0x04, 0x06, 0x07, 0x0C, 0x10...0x12, 0x14...0x17, 0x19...0x23: true
    default: false
    }
  }

  /// Types whose values describe a kind of device rather than a device, and service and manufacturer data,
  /// which are the subject of the log.
  static func isHarmless(advertisingDataType type: UInt8) -> Bool {
    switch type {
    case 0x01...0x07, 0x0A, 0x0D, 0x11, 0x12, 0x14...0x16, 0x19, 0x1A, 0x1C, 0x1F...0x21, 0x27, 0x28, 0x2C,
      0x2F,
      0x32, 0x34, 0x3D, 0xFF:
      true
    default: false
    }
  }

  /// Opcodes of ATT. Core 5.4, Vol 3, Part F, 3.4.8.
  static func isKnown(att opcode: UInt8) -> Bool {
    switch opcode {
    case 0x01...0x13, 0x16...0x19, 0x1B, 0x1D, 0x1E, 0x20, 0x21, 0x23, 0x52, 0xD2: true
    default: false
    }
  }

  /// L2CAP channels that are parsed: signalling, ATT, Security Manager. Others carry profile data: files,
  /// contacts, calls, streams.
  static func isRead(channel: UInt16) -> Bool {
    switch channel {
    case 0x0001, 0x0004...0x0007: true
    default: false
    }
  }

  /// Returns whether bytes may be personal text: printable, with at least three letters.
  static func isText(_ octets: ArraySlice<UInt8>) -> Bool {
    var letters = 0
    for scalar in String(decoding: octets, as: UTF8.self).unicodeScalars {
      // Invalid UTF-8 becomes the replacement character.
      guard scalar != "\u{FFFD}" else { return false }
      if scalar.properties.isAlphabetic {
        letters += 1
      } else if scalar.value < 0x20, ![0x00, 0x09, 0x0A, 0x0D].contains(scalar.value) {
        return false
      }
    }
    return letters >= 3
  }
}

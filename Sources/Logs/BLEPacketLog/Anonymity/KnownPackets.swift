/// Advertising data, PDUs and channels without identifying data. What is neither listed here nor rewritten by
/// `AnonymityTable` is unknown, and is blanked. HCI packets are in `HCICommandTable` and `HCIEventTable`.
///
/// Core Specification Supplement, Part A; Assigned Numbers, 2.3.
enum KnownPackets {
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

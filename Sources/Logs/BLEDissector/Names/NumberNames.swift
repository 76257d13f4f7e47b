import BLEPacketLog
import BLEWire
internal import CNumberNames

/// Names of the SIG's company identifiers and appearances. Bluetooth Assigned Numbers, 7.1 and 2.6.
package enum NumberNames {
  static let companies: [UInt16: String] = {
    var count = 0
    return unsafe names(ringtap_company_names(&count), count)
  }()

  static let appearances: [UInt16: String] = {
    var count = 0
    return unsafe names(ringtap_appearance_names(&count), count)
  }()

  /// Returns the name of a company.
  ///
  /// - Returns: `nil` for an identifier without a name.
  package static func company(_ number: UInt16) -> String? { companies[number] }

  /// Returns the name of an appearance; if only its category has a name, returns the name of the category.
  ///
  /// - Returns: `nil` for an unknown category, and for 0, which is "Unknown".
  package static func appearance(_ number: UInt16) -> String? {
    appearances[number] ?? appearances[number & ~0x3F]
  }

  /// Reads lines of four hexadecimal digits, a space and a name.
  private static func names(_ text: UnsafePointer<UInt8>?, _ count: Int) -> [UInt16: String] {
    // SAFETY: the text is constant, has `count` bytes and lives as long as the program.
    let bytes = unsafe Array(UnsafeBufferPointer(start: text, count: count))
    var names: [UInt16: String] = [:]
    names.reserveCapacity(count / 24)
    for line in bytes.split(separator: UInt8(ascii: "\n")) {
      guard let number = UInt16(String(decoding: line.prefix(4), as: UTF8.self), radix: 16) else { continue }
      names[number] = String(decoding: line.dropFirst(5), as: UTF8.self)
    }
    return names
  }
}

/// HCI error codes, spelled as in `btmon` 5.66.
enum HCIStatusNames {
  static func name(of status: HCIStatus) -> String {
    if let name = names[UInt16(status.rawValue)] { return name }
    let name = "\(status.name)"
    guard name == "other" else { return name }
    return status.rawValue > 0x45 ? "Unknown" : "Reserved"
  }

  /// Names that differ from `HCIStatus.name`.
  private static let names = PacketLayout.names(text)

  private static let text = """
    0b ACL Connection Already Exists
    14 Remote Device Terminated due to Low Resources
    15 Remote Device Terminated due to Power Off
    16 Connection Terminated By Local Host
    1a Unsupported Remote Feature / Unsupported LMP Feature
    1e Invalid LMP Parameters / Invalid LL Parameters
    20 Unsupported LMP Parameter Value / Unsupported LL Parameter Value
    22 LMP Response Timeout / LL Response Timeout
    23 LMP Error Transaction Collision
    30 Parameter Out Of Manadatory Range
    """
}

/// Names for the class of a BR/EDR device. Bluetooth Assigned Numbers, 2.8; names are from `btmon` 5.66.
enum DeviceClassNames {
  /// Returns major class, minor class and services.
  static func names(of number: UInt32) -> [String] {
    let (major, minor) = (UInt16(number >> 8 & 0x1F), UInt16(number >> 2 & 0x3F))
    var names = [
      "Major class: " + (majors[major] ?? "0x" + hexadecimal(major)),
      "Minor class: " + (minors[major]?[minor] ?? "0x" + hexadecimal(minor)),
    ]
    for bit in 13..<24 as Range<UInt32> where number & 1 << bit != 0 {
      names.append(services[UInt16(bit)] ?? "bit \(bit)")
    }
    return names
  }

  private static func hexadecimal(_ number: UInt16) -> String {
    PacketText.hex(UInt64(number), digits: 2).dropFirst(2).description
  }

  private static let services = PacketLayout.names(
    """
    0d Limited Discoverable Mode
    10 Positioning (Location identification)
    11 Networking (LAN, Ad hoc)
    12 Rendering (Printing, Speaker)
    13 Capturing (Scanner, Microphone)
    14 Object Transfer (v-Inbox, v-Folder)
    15 Audio (Speaker, Microphone, Headset)
    16 Telephony (Cordless telephony, Modem, Headset)
    17 Information (WEB-server, WAP-server)
    """)

  private static let majors = PacketLayout.names(
    """
    00 Miscellaneous
    01 Computer (desktop, notebook, PDA, organizers)
    02 Phone (cellular, cordless, payphone, modem)
    03 LAN /Network Access point
    04 Audio/Video (headset, speaker, stereo, video, vcr)
    05 Peripheral (mouse, joystick, keyboards)
    06 Imaging (printing, scanner, camera, display)
    07 Wearable
    08 Toy
    09 Health
    1f Uncategorized, specific device code not specified
    """)

  private static let minors: [UInt16: [UInt16: String]] = [
    0x01: PacketLayout.names(
      """
      00 Uncategorized, code for device not assigned
      01 Desktop workstation
      02 Server-class computer
      03 Laptop
      04 Handheld PC/PDA (clam shell)
      05 Palm sized PC/PDA
      06 Wearable computer (Watch sized)
      07 Tablet
      """),
    0x02: PacketLayout.names(
      """
      00 Uncategorized, code for device not assigned
      01 Cellular
      02 Cordless
      03 Smart phone
      04 Wired modem or voice gateway
      05 Common ISDN Access
      """),
    0x04: PacketLayout.names(
      """
      00 Uncategorized, code for device not assigned
      01 Wearable Headset Device
      02 Hands-free Device
      04 Microphone
      05 Loudspeaker
      06 Headphones
      07 Portable Audio
      08 Car audio
      09 Set-top box
      0a HiFi Audio Device
      0b VCR
      0c Video Camera
      0d Camcorder
      0e Video Monitor
      0f Video Display and Loudspeaker
      10 Video Conferencing
      12 Gaming/Toy
      """),
    0x07: PacketLayout.names(
      """
      01 Wrist Watch
      02 Pager
      03 Jacket
      04 Helmet
      05 Glasses
      """),
  ]
}

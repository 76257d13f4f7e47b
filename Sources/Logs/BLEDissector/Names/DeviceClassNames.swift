import BLEPacketLog

/// Names for the class of a BR/EDR device. Bluetooth Assigned Numbers, 2.8; names are those of `btmon` 5.66.
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

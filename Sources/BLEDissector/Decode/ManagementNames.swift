import BLEPacketLog
import BLECore
import BLEWire
import JSONText

extension MonitorOpcode {
  /// The value of `packetType` in JSON.
  var name: String {
    switch self {
    case .newIndex: "newIndex"
    case .deleteIndex: "deleteIndex"
    case .openIndex: "openIndex"
    case .closeIndex: "closeIndex"
    case .indexInformation: "indexInformation"
    case .vendorDiagnostics: "vendorDiagnostics"
    case .systemNote: "systemNote"
    case .userLogging: "userLogging"
    case .controlOpen: "controlOpen"
    case .controlClose: "controlClose"
    case .controlCommand: "controlCommand"
    case .controlEvent: "controlEvent"
    default: "unknown"
    }
  }
}

extension MonitorNotes {
  /// Prints what the monitor says between packets as the members of an object.
  ///
  /// A note is of no direction, and one of the whole system is of no adapter.
  mutating func print(_ record: borrowing PacketRecord, into line: inout JSONLine) {
    guard let opcode = record.note else { return }
    line.member("index", record.index)
    line.member("timeNs", record.time.nanoseconds)
    line.member("packetType", opcode.name)
    if opcode.name == "unknown" { line.member("opcode", opcode.rawValue) }
    if record.adapter != 0xFFFF { line.member("adapter", record.adapter) }
    let octets = record.packet
    switch opcode {
    case .newIndex: printNewIndex(octets, record.adapter, into: &line)
    case .deleteIndex, .openIndex, .closeIndex, .indexInformation:
      printAddress(octets, at: 0, record.adapter, into: &line)
      guard opcode == .indexInformation, octets.count >= 8 else { return }
      line.member("manufacturer", octets.u16(at: 6))
      if let name = FieldWords.byName["company"]?[octets.u16(at: 6)] { line.member("manufacturerName", name) }
    case .systemNote: line.member("text", PacketText.string(octets))
    case .userLogging: Self.printLogging(octets, into: &line)
    case .controlOpen: printOpen(octets, into: &line)
    case .controlClose: printClose(octets, into: &line)
    case .controlCommand: printControl(octets, ManagementNames.commands, into: &line)
    case .controlEvent: printControl(octets, ManagementNames.events, into: &line)
    default: line.member("octets", hex: octets)
    }
  }

  private mutating func printAddress(
    _ octets: Span<UInt8>, at offset: Int, _ adapter: UInt16, into line: inout JSONLine
  ) {
    if let address = knownAddress(octets, at: offset, adapter) { line.member("address", "\(address)") }
  }

  /// Type, bus, address, name.
  private mutating func printNewIndex(
    _ octets: Span<UInt8>, _ adapter: UInt16, into line: inout JSONLine
  ) {
    printAddress(octets, at: 2, adapter, into: &line)
    guard octets.count >= 8 else { return line.member("octets", hex: octets) }
    line.member("type", octets[0])
    line.member("typeName", Self.word(Self.types, octets[0]))
    line.member("bus", octets[1])
    line.member("busName", Self.word(Self.buses, octets[1]))
    line.member("name", PacketText.string(FieldText.untilZero(octets.extracting(8...))))
  }

  private static func printLogging(_ octets: Span<UInt8>, into line: inout JSONLine) {
    guard octets.count >= 2, octets.count >= 2 + Int(octets[1]) else {
      return line.member("octets", hex: octets)
    }
    let end = 2 + Int(octets[1])
    line.member("priority", octets[0])
    line.member("program", PacketText.string(octets.extracting(2..<end)))
    line.member("text", PacketText.string(octets.extracting(end...)))
  }

  private mutating func printOpen(_ octets: Span<UInt8>, into line: inout JSONLine) {
    guard octets.count >= 14 else { return line.member("octets", hex: octets) }
    let (kind, program) = noteOpen(octets)
    line.member("cookie", octets.u32(at: 0))
    line.member("channel", octets.u16(at: 4))
    line.member("channelName", kind)
    line.member("program", program)
    line.member("version", "\(octets[6]).\(octets.u16(at: 7))")
    line.member("privileged", octets.u32(at: 9) & 1 != 0)
  }

  private mutating func printClose(_ octets: Span<UInt8>, into line: inout JSONLine) {
    guard octets.count >= 4 else { return line.member("octets", hex: octets) }
    let cookie = octets.u32(at: 0)
    let channel = noteClose(cookie)
    line.member("cookie", cookie)
    if let channel {
      line.member("channelName", channel.kind)
      line.member("program", channel.program)
    }
  }

  private func printControl(_ octets: Span<UInt8>, _ names: [UInt16: String], into line: inout JSONLine) {
    guard octets.count >= 6 else { return line.member("octets", hex: octets) }
    let cookie = octets.u32(at: 0)
    let number = octets.u16(at: 4)
    line.member("cookie", cookie)
    if let program = channels[cookie]?.program { line.member("program", program) }
    line.member("opcode", number)
    if let name = names[number] { line.member("opcodeName", name) }
    line.member("octets", hex: octets.extracting(6...))
  }
}

/// The commands and events of the kernel's management interface. `doc/mgmt-api.txt` and `monitor/packet.c`'s names of
/// BlueZ 5.66.
enum ManagementNames {
  static let commands = PacketLayout.names(
    """
    0001 Read Management Version Information
    0002 Read Management Supported Commands
    0003 Read Controller Index List
    0004 Read Controller Information
    0005 Set Powered
    0006 Set Discoverable
    0007 Set Connectable
    0008 Set Fast Connectable
    0009 Set Bondable
    000a Set Link Security
    000b Set Secure Simple Pairing
    000c Set High Speed
    000d Set Low Energy
    000e Set Device Class
    000f Set Local Name
    0010 Add UUID
    0011 Remove UUID
    0012 Load Link Keys
    0013 Load Long Term Keys
    0014 Disconnect
    0015 Get Connections
    0016 PIN Code Reply
    0017 PIN Code Negative Reply
    0018 Set IO Capability
    0019 Pair Device
    001a Cancel Pair Device
    001b Unpair Device
    001c User Confirmation Reply
    001d User Confirmation Negative Reply
    001e User Passkey Reply
    001f User Passkey Negative Reply
    0020 Read Local Out Of Band Data
    0021 Add Remote Out Of Band Data
    0022 Remove Remote Out Of Band Data
    0023 Start Discovery
    0024 Stop Discovery
    0025 Confirm Name
    0026 Block Device
    0027 Unblock Device
    0028 Set Device ID
    0029 Set Advertising
    002a Set BR/EDR
    002b Set Static Address
    002c Set Scan Parameters
    002d Set Secure Connections
    002e Set Debug Keys
    002f Set Privacy
    0030 Load Identity Resolving Keys
    0031 Get Connection Information
    0032 Get Clock Information
    0033 Add Device
    0034 Remove Device
    0035 Load Connection Parameters
    0036 Read Unconfigured Controller Index List
    0037 Read Controller Configuration Information
    0038 Set External Configuration
    0039 Set Public Address
    003a Start Service Discovery
    003b Read Local Out Of Band Extended Data
    003c Read Extended Controller Index List
    003d Read Advertising Features
    003e Add Advertising
    003f Remove Advertising
    0040 Get Advertising Size Information
    0041 Start Limited Discovery
    0042 Read Extended Controller Information
    0043 Set Appearance
    0044 Get PHY Configuration
    0045 Set PHY Configuration
    0046 Load Blocked Keys
    0047 Set Wideband Speech
    0048 Read Controller Capabilities
    0049 Read Experimental Features Information
    004a Set Experimental Feature
    004b Read Default System Configuration
    004c Set Default System Configuration
    004d Read Default Runtime Configuration
    004e Set Default Runtime Configuration
    004f Get Device Flags
    0050 Set Device Flags
    0051 Read Advertisement Monitor Features
    0052 Add Advertisement Patterns Monitor
    0053 Remove Advertisement Monitor
    0054 Add Extended Advertising Parameters
    0055 Add Extended Advertising Data
    0056 Add Advertisement Patterns Monitor With RSSI Threshold
    0057 Set Mesh Receiver
    0058 Read Mesh Features
    0059 Mesh Send
    """)

  static let events = PacketLayout.names(
    """
    0001 Command Complete
    0002 Command Status
    0003 Controller Error
    0004 Index Added
    0005 Index Removed
    0006 New Settings
    0007 Class Of Device Changed
    0008 Local Name Changed
    0009 New Link Key
    000a New Long Term Key
    000b Device Connected
    000c Device Disconnected
    000d Connect Failed
    000e PIN Code Request
    000f User Confirmation Request
    0010 User Passkey Request
    0011 Authentication Failed
    0012 Device Found
    0013 Discovering
    0014 Device Blocked
    0015 Device Unblocked
    0016 Device Unpaired
    0017 Passkey Notify
    0018 New Identity Resolving Key
    0019 New Signature Resolving Key
    001a Device Added
    001b Device Removed
    001c New Connection Parameter
    001d Unconfigured Index Added
    001e Unconfigured Index Removed
    001f New Configuration Options
    0020 Extended Index Added
    0021 Extended Index Removed
    0022 Local Out Of Band Extended Data Updated
    0023 Advertising Added
    0024 Advertising Removed
    0025 Extended Controller Information Changed
    0026 PHY Configuration Changed
    0027 Experimental Feature Changed
    002a Device Flags Changed
    002b Advertisement Monitor Added
    002c Advertisement Monitor Removed
    002d Controller Suspended
    002e Controller Resumed
    002f ADV Monitor Device Found
    0030 ADV Monitor Device Lost
    0031 Mesh Device Found
    0032 Mesh Packet Complete
    """)
}

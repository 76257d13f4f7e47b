import BLEPacketLog
import BLEWire
import JSONText

/// Dissects records of format 2001 other than HCI packets, as text in the style of `btmon` and as JSON
/// members.
///
/// `doc/btsnoop-protocol.rst` and `src/shared/btsnoop.h` of BlueZ. The dissector stores the address of each
/// adapter and the program of each channel, because later records contain only the number of the adapter or
/// channel.
struct MonitorNotes {
  /// Maximum number of channels stored.
  static let maximumChannels = 256

  private var addresses: [UInt16: DeviceAddress] = [:]
  /// Type and program of each open channel, by the channel's cookie.
  private var channels: [UInt32: (kind: String, program: String)] = [:]

  /// Dissects a record.
  ///
  /// - Returns: the title of the record, and its fields. In text, most fields are part of the title and have
  ///   no separate lines.
  mutating func dissect(
    _ opcode: MonitorOpcode, _ octets: Span<UInt8>, adapter: UInt16
  ) -> (title: String, fields: [Field]) {
    var fields = FieldList()
    let title =
      switch opcode {
      case .newIndex: newIndex(octets, adapter, &fields)
      case .deleteIndex: "= Delete Index" + address(octets, at: 0, adapter, &fields)
      case .openIndex: "= Open Index" + address(octets, at: 0, adapter, &fields)
      case .closeIndex: "= Close Index" + address(octets, at: 0, adapter, &fields)
      case .indexInformation:
        "= Index Info" + address(octets, at: 0, adapter, &fields) + Self.manufacturer(octets, &fields)
      case .vendorDiagnostics: Self.unknown("= Vendor Diagnostic", octets, &fields)
      case .systemNote: "= Note: " + fields.said("text", PacketText.string(octets))
      case .userLogging: Self.logging(octets, &fields)
      case .controlOpen: open(octets, &fields)
      case .controlClose: close(octets, &fields)
      case .controlCommand: control("Command", ManagementTable.commands, octets, &fields)
      case .controlEvent: control("Event", ManagementTable.events, octets, &fields)
      default: Self.unknown("= Record \(opcode.rawValue)", octets, &fields)
      }
    return (title, fields.fields)
  }

  private static func unknown(_ title: String, _ octets: Span<UInt8>, _ fields: inout FieldList) -> String {
    fields.octets(octets, 0..<octets.count)
    return "\(title) (len \(octets.count))"
  }

  /// Returns the adapter's address, which is at `offset` in this record, or was in an earlier record.
  private mutating func address(
    _ octets: Span<UInt8>, at offset: Int, _ adapter: UInt16, _ fields: inout FieldList
  ) -> String {
    if octets.count >= offset + 6 { addresses[adapter] = octets.address(at: offset, type: .public) }
    guard let address = addresses[adapter] else { return "" }
    return ": " + fields.said("address", "\(address)")
  }

  /// Dissects type, bus, address and name. The title ends with, for example, `(Primary,Virtual,hci0)`.
  private mutating func newIndex(
    _ octets: Span<UInt8>, _ adapter: UInt16, _ fields: inout FieldList
  ) -> String {
    let title = "= New Index" + address(octets, at: 2, adapter, &fields)
    guard octets.count >= 8 else {
      fields.member("octets", hex: octets, .hidden)
      return title
    }
    fields.member("type", octets[0], .hidden)
    let type = fields.said("typeName", Self.word(Self.types, octets[0]))
    fields.member("bus", octets[1], .hidden)
    let bus = fields.said("busName", Self.word(Self.buses, octets[1]))
    let name = fields.said("name", PacketText.string(FieldText.untilZero(octets.extracting(8...))))
    return "\(title) (\(type),\(bus),\(name))"
  }

  private static let types = ["Primary", "AMP"]
  private static let buses = [
    "Virtual", "USB", "PCCARD", "UART", "RS232", "PCI", "SDIO", "SPI", "I2C", "SMD", "VIRTIO",
  ]
  private static let channelKinds = ["RAW", "USER", "MGMT"]

  private static func word(_ words: [String], _ number: UInt8) -> String {
    Int(number) < words.count ? words[Int(number)] : "Unknown"
  }

  private static func manufacturer(_ octets: Span<UInt8>, _ fields: inout FieldList) -> String {
    guard octets.count >= 8 else { return "" }
    let number = octets.u16(at: 6)
    fields.member("manufacturer", number, .hidden)
    guard let name = NumberNames.company(number) else { return " (manufacturer \(number))" }
    return " (\(fields.said("manufacturerName", name)))"
  }

  /// Dissects a log message: priority, length of the identifier, identifier, text.
  private static func logging(_ octets: Span<UInt8>, _ fields: inout FieldList) -> String {
    guard octets.count >= 2, octets.count >= 2 + Int(octets[1]) else {
      fields.member("octets", hex: octets, .hidden)
      return "= User Logging (len \(octets.count))"
    }
    let end = 2 + Int(octets[1])
    fields.member("priority", octets[0], .hidden)
    let program = fields.said("program", PacketText.string(octets.extracting(2..<end)))
    return "= \(program): \(fields.said("text", PacketText.string(octets.extracting(end...))))"
  }

  /// Dissects an opened channel: cookie, channel type, version, revision, flags, length of the program's
  /// name, name.
  private mutating func open(_ octets: Span<UInt8>, _ fields: inout FieldList) -> String {
    guard octets.count >= 14 else { return Self.unknown("@ Open", octets, &fields) }
    let cookie = octets.u32(at: 0)
    let number = Int(octets.u16(at: 4))
    let kind = number < Self.channelKinds.count ? Self.channelKinds[number] : "Channel \(number)"
    let program = PacketText.string(octets.extracting(14..<min(octets.count, 14 + Int(octets[13]))))
    if channels.count < Self.maximumChannels { channels[cookie] = (kind, program) }
    fields.member("cookie", cookie, .hidden)
    fields.member("channel", number, .hidden)
    fields.member("channelName", kind, .hidden)
    fields.member("program", program, .hidden)
    let version = fields.said("version", "\(octets[6]).\(octets.u16(at: 7))")
    let isPrivileged = octets.u32(at: 9) & 1 != 0
    fields.member("privileged", isPrivileged, .hidden)
    let privilege = isPrivileged ? " (privileged)" : ""
    return "@ \(kind) Open: \(program)\(privilege) version \(version) \(Self.mark(cookie))"
  }

  private mutating func close(_ octets: Span<UInt8>, _ fields: inout FieldList) -> String {
    guard octets.count >= 4 else { return Self.unknown("@ Close", octets, &fields) }
    let cookie = octets.u32(at: 0)
    let channel = channels.removeValue(forKey: cookie)
    fields.member("cookie", cookie, .hidden)
    if let channel {
      fields.member("channelName", channel.kind, .hidden)
      fields.member("program", channel.program, .hidden)
    }
    let rest = octets.indices.dropFirst(4).map { octets[$0] }
    fields.append(Field(nil, .octets(rest), .none))
    return "@ \(channel?.kind ?? "Channel") Close: \(channel?.program ?? "unknown") \(Self.mark(cookie))"
  }

  /// Dissects a management message: cookie, number and parameters.
  private func control(
    _ word: String, _ layouts: [UInt16: PacketLayout], _ octets: Span<UInt8>, _ fields: inout FieldList
  ) -> String {
    guard octets.count >= 6 else { return Self.unknown("@ \(word)", octets, &fields) }
    let (cookie, number) = (octets.u32(at: 0), octets.u16(at: 4))
    fields.member("cookie", cookie, .hidden)
    if let program = channels[cookie]?.program { fields.member("program", program, .hidden) }
    fields.member("opcode", number, .hidden)
    let layout = layouts[number]
    if let layout { fields.member("opcodeName", layout.name, .hidden) }
    let parameters = octets.extracting(6...)
    let described =
      word == "Event" ? ManagementTable.fields(ofEvent: number, parameters) : layout?.fields
    Self.dissect(described, parameters, &fields)
    let name = "\(layout?.name ?? "Unknown") (\(PacketText.hex(UInt64(number), digits: 4)))"
    let kind = channels[cookie]?.kind ?? "MGMT"
    return "@ \(kind) \(word): \(name) plen \(octets.count - 6) \(Self.mark(cookie))"
  }

  /// Dissects the parameters of a management message.
  private static func dissect(_ described: [PacketField]?, _ octets: Span<UInt8>, _ fields: inout FieldList) {
    guard let described else { return fields.octets(octets, 0..<octets.count) }
    fields.member("octets", hex: octets, .hidden)
    var list = FieldList(for: fields.reader)
    LayoutDissector.dissect(described, octets, into: &list)
    fields.append(Field("parameters", .object, .none, children: list.fields))
  }

  /// Returns a channel's cookie as text, such as `{0x0002}`.
  private static func mark(_ cookie: UInt32) -> String { "{\(PacketText.hex(UInt64(cookie), digits: 4))}" }
}

extension FieldList {
  /// Adds a member to JSON only, and returns the member's text for use in the title.
  fileprivate mutating func said(_ name: String, _ text: String) -> String {
    member(name, text, .hidden)
    return text
  }
}

extension MonitorOpcode {
  /// Value of `packetType` in JSON.
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

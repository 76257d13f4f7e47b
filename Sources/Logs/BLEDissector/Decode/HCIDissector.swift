import BLEPacketLog
import BLEWire
import JSONText

/// Parameters of a command or an event, with the fields of their layout.
struct HCIParameters: ~Escapable {
  /// Number of further commands that the controller accepts; `nil` if the packet does not contain this
  /// number.
  private(set) var credits: UInt8?
  private(set) var summary = HCISummary()
  /// The fields; `nil` if the layout is unknown.
  private(set) var fields: [PacketField]?
  /// The bytes of the fields, and any bytes after them.
  let octets: Span<UInt8>

  /// Reads the parameters of a command.
  ///
  /// - Parameter packet: a command without its H4 type byte.
  @_lifetime(copy packet)
  init(command packet: Span<UInt8>) throws(WireError) {
    let command = try HCICommandPacket(validating: packet)
    octets = command.parameters
    summary.opcode = command.opcode
    let layout = HCICommandTable.layouts[command.opcode.rawValue]
    fields = layout?.fields
    summary.read(fields, layout?.minimumByteCount, octets, .hciCommand)
  }

  /// Reads the parameters of an event.
  ///
  /// - Parameter packet: an event without its H4 type byte.
  @_lifetime(copy packet)
  init(event packet: Span<UInt8>) throws(WireError) {
    let event = try HCIEventPacket(validating: packet)
    let parameters = event.parameters
    switch event.code {
    case .commandComplete:
      let complete = try CommandComplete(validating: parameters)
      octets = complete.returnParameters
      answer(complete.opcode, complete.credits)
      readReturned()
    case .commandStatus:
      let status = try CommandStatus(validating: parameters)
      octets = parameters.extracting(..<1)
      answer(status.opcode, status.credits)
      takeStatusOnly()
    case .leMeta:
      try parameters.require(1, .hciEvent)
      octets = parameters.extracting(1...)
      let subevent = LESubevent(rawValue: parameters[0])
      summary.subevent = subevent
      read(HCIEventTable.subevents[UInt16(subevent.rawValue)])
    default:
      octets = parameters
      read(HCIEventTable.layouts[UInt16(event.code.rawValue)])
    }
    summary.event = event.code
  }

  /// The line of text above the fields, which names the completed command or the subevent; `nil` for other
  /// packets.
  var title: String? {
    if let subevent = summary.subevent { return "\(subevent.logName) (0x\(hexadecimal(subevent.rawValue)))" }
    guard let credits, let opcode = summary.opcode else { return nil }
    return "\(opcode.logName) \(opcode.logNumber) ncmd \(credits)"
  }

  private mutating func answer(_ opcode: HCIOpcode, _ credits: UInt8) {
    summary.opcode = opcode
    self.credits = credits
  }

  private mutating func read(_ layout: PacketLayout?) {
    fields = layout?.fields
    summary.read(fields, layout?.minimumByteCount, octets, .hciEvent)
  }

  private mutating func readReturned() {
    guard let layout = summary.opcode.flatMap({ HCICommandTable.layouts[$0.rawValue] }) else {
      // Nearly every command returns a status as its first parameter.
      if !octets.isEmpty { takeStatusOnly() }
      return
    }
    fields = layout.returned
    guard !octets.isEmpty else { return }
    if octets[0] == 0 {
      summary.read(fields, layout.minimumReturnedByteCount, octets, .hciEvent)
    } else if octets.count < layout.minimumReturnedByteCount {
      // The controller may return only a status if a command fails.
      takeStatusOnly()
    } else {
      summary.status = HCIStatus(rawValue: octets[0])
    }
  }

  private mutating func takeStatusOnly() {
    fields = PacketLayout.status
    summary.status = HCIStatus(rawValue: octets[0])
  }
}

/// Dissects commands and events.
enum HCIDissector {
  /// Dissects a packet.
  ///
  /// - Parameter packet: a command or an event.
  /// - Returns: a line of text above the fields, and the fields, which are the members of `parameters` in
  ///   JSON.
  static func dissect(
    _ packet: borrowing DecodedPacket, for reader: FieldList.Reader
  ) -> (title: String?, fields: [Field]) {
    let octets = packet.packet
    var list = FieldList(for: reader)
    do throws(WireError) {
      let parameters =
        packet.type == .command
        ? try HCIParameters(command: octets) : try HCIParameters(event: octets)
      if let credits = parameters.credits { list.member("numHciCommandPackets", credits, .hidden) }
      LayoutDissector.dissect(parameters.fields, parameters.octets, into: &list)
      return (list.words(parameters.title), list.fields)
    } catch {
      // In JSON, the problem and the header are separate members, so list only the other bytes.
      let start = headerByteCount(packet.type)
      list.append(Field(nil, .problem("\(error)"), .none))
      list.append(Field(nil, .octets(octets.indices.map { octets[$0] }), .none))
      let rest = octets.indices.dropFirst(start).map { octets[$0] }
      if !rest.isEmpty { list.member("octets", hex: rest, .hidden) }
      return (nil, list.fields)
    }
  }

  static func headerByteCount(_ type: HCIPacketType) -> Int {
    type == .command ? HCICommandPacket.headerByteCount : HCIEventPacket.headerByteCount
  }

  /// Returns the packet's header line.
  static func title(_ packet: borrowing DecodedPacket) -> String {
    let octets = packet.packet
    switch packet.type {
    case .command where octets.count >= 3:
      let opcode = HCIOpcode(rawValue: octets.u16(at: 0))
      return "HCI Command: \(opcode.logName) \(opcode.logNumber) plen \(octets[2])"
    case .event where octets.count >= 2:
      let code = HCIEventCode(rawValue: octets[0])
      return "HCI Event: \(code.logName) (0x\(hexadecimal(code.rawValue))) plen \(octets[1])"
    case .command, .event: return packet.type == .command ? "HCI Command:" : "HCI Event:"
    default: return dataTitle(packet)
    }
  }

  private static func dataTitle(_ packet: borrowing DecodedPacket) -> String {
    var title = "\(packet.type.title) \(packet.direction == .hostToController ? "TX" : "RX"):"
    if let handle = packet.connectionHandle {
      title += " Handle \(handle.rawValue)"
      if packet.packet.count >= 2 {
        title += " flags 0x\(hexadecimal(UInt8(packet.packet.u16(at: 0) >> 12)))"
      }
    }
    return title + " dlen \(max(0, packet.packet.count - (packet.connectionHandle == nil ? 0 : 4)))"
  }
}

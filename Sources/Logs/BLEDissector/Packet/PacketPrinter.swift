package import BLEPacketLog
package import BLEWire
import JSONText

/// Prints decoded packets into a buffer, as JSON or text. The caller writes the buffer to the output and
/// empties it.
package struct PacketPrinter {
  package enum Style: Hashable, Sendable {
    /// One JSON object per line, with the keys of `log show --json`.
    case json
    /// A header line and the contents of each packet, in the style of `btmon`.
    case text
    /// Text with terminal escape sequences.
    case coloredText
  }

  /// Times of packets in text. JSON has nanoseconds since the Unix epoch.
  package enum Times: String, Hashable, Sendable, CaseIterable {
    /// Seconds since the log's first record.
    case relative
    /// Date and time of day in UTC.
    case absolute
    /// Seconds since the previous printed packet.
    case delta
  }

  private let style: Style
  private let columns: Int?
  private let times: Times
  /// Whether to print the bytes of each packet.
  private let showsBytes: Bool
  private var line = JSONLine()
  private var text: PacketText
  /// The start of relative times in text.
  private var firstTime: Int64?
  private var notes = MonitorNotes()
  /// Whether the log contains adapter numbers.
  private var namesAdapters = false

  /// Creates a printer.
  ///
  /// - Parameters:
  ///   - isBrief: whether text has one line per packet.
  ///   - showsBytes: whether to print the bytes of each packet: in text below its lines, in JSON as `bytes`.
  ///   - columns: width of the terminal, to which header lines are shortened; `nil` for no limit.
  package init(
    style: Style, isBrief: Bool = false, showsBytes: Bool = false, times: Times = .relative,
    columns: Int? = nil
  ) {
    self.style = style
    self.columns = columns
    self.times = times
    self.showsBytes = showsBytes
    text = PacketText(isColored: style == .coloredText, isBrief: isBrief, columns: columns)
  }

  /// Output since the last `removeAll`.
  package var octets: [UInt8] { style == .json ? line.octets : text.octets }

  package mutating func removeAll() {
    line.removeAll()
    text.removeAll()
  }

  /// Makes `time` the start of relative times in text, instead of the time of the first printed packet.
  package mutating func start(at time: ReceiveTime) { firstTime = time.nanoseconds }

  package mutating func print(_ packet: borrowing DecodedPacket) {
    switch style {
    case .json: printJSON(packet)
    case .text, .coloredText:
      printText(packet)
      end(packet.packet)
    }
  }

  /// Ends the packet's line in brief text, and prints its bytes.
  private mutating func end(_ packet: Span<UInt8>) {
    text.endPacket()
    if showsBytes { text.dump(8, packet) }
  }

  /// Prints a record that is not a packet. Notes have no direction. Notes about the whole system have no
  /// adapter.
  package mutating func print(note record: borrowing PacketRecord) {
    if let air = record.header.air { return print(air, record) }
    let opcode = record.note ?? MonitorOpcode(rawValue: UInt16(truncatingIfNeeded: record.header.flags))
    let (title, fields) = notes.dissect(opcode, record.packet, adapter: record.adapter)
    guard style == .json else {
      namesAdapters = true
      begin(
        title, brief: String(title.dropFirst(2)), record.index, record.time, record.adapter, color: .note)
      text.print(fields, 8)
      return end(record.packet)
    }
    line.object { line in
      line.member("index", record.index)
      line.member("timeNs", record.time)
      line.member("packetType", opcode.name)
      if opcode.name == "unknown" { line.member("opcode", opcode.rawValue) }
      if record.adapter != 0xFFFF { line.member("adapter", record.adapter) }
      line.members(fields)
      if showsBytes { line.member("bytes", hex: record.packet) }
    }
    line.endLine()
  }

  /// Prints an air packet that has no HCI equivalent.
  private mutating func print(_ air: AirPacket, _ record: borrowing PacketRecord) {
    let parameters = AirDissector.parameters(air, record.packet, for: style == .json ? .programs : .anyone)
    guard style == .json else {
      let title = AirDissector.title(air, record.packet)
      begin(
        title, brief: String(title.dropFirst(2)), record.index, record.time, record.adapter,
        color: air.crc == .bad ? .problem : .note)
      text.line(6, AirDissector.words(air))
      text.print(parameters, 8)
      return end(record.packet)
    }
    line.object { line in
      line.member("index", record.index)
      line.member("timeNs", record.time)
      line.member("packetType", "air")
      Self.print(air, into: &line)
      line.key("parameters")
      line.object { $0.members(parameters) }
      if showsBytes { line.member("bytes", hex: record.packet) }
    }
    line.endLine()
  }

  private static func print(_ air: AirPacket, into line: inout JSONLine) {
    line.key("air")
    line.object { $0.members(AirDissector.dissect(air, for: .programs)) }
  }

  /// Prints a separator between groups of packets that are not consecutive, as `grep` does.
  package mutating func printGap() {
    if style != .json { text.line(0, "--") }
  }

  // MARK: JSON

  private mutating func printJSON(_ packet: borrowing DecodedPacket) {
    line.object { line in
      line.member("index", packet.index)
      line.member("timeNs", packet.time)
      line.member("direction", packet.direction.name)
      line.member("packetType", packet.type.name)
      line.member("adapter", packet.adapter)
      if let handle = packet.connectionHandle {
        line.member("connectionHandle", handle.rawValue)
      }
      if let air = packet.air { Self.print(air, into: &line) }
      if let hci = packet.hci { Self.print(hci, packet, into: &line) }
      if packet.hci != nil, let data = packet.payload {
        let advertisement = AdvertisingDissector.joined(data, for: .programs)
        line.key("advertisement")
        line.object { $0.members(advertisement) }
      }
      if let channelID = packet.channelID, let payload = packet.payload {
        Self.print(channelID, payload, into: &line)
      }
      if let att = packet.att { Self.print(att, into: &line) }
      if let att = packet.cutATT { Self.print(att, isCut: true, into: &line) }
      if packet.isCut {
        line.key("cut")
        line.object { line in
          line.member("keptOctets", packet.packet.count)
          line.member("octets", packet.originalByteCount)
        }
      }
      if let problem = packet.problem { line.member("problem", problem.description) }
      if showsBytes { line.member("bytes", hex: packet.packet) }
    }
    line.endLine()
  }

  private static func print(
    _ hci: HCISummary, _ packet: borrowing DecodedPacket, into line: inout JSONLine
  ) {
    if let event = hci.event {
      line.member("event", event.rawValue)
      line.member("eventName", event.logName)
    }
    if let subevent = hci.subevent {
      line.member("subevent", subevent.rawValue)
      line.member("subeventName", subevent.logName)
    }
    if let opcode = hci.opcode {
      line.member("opcode", opcode.rawValue)
      line.member("opcodeName", opcode.logName)
    }
    if let status = hci.status {
      line.member("status", status.rawValue)
      line.member("statusName", HCIStatusNames.name(of: status))
    }
    guard packet.packet.count > HCIDissector.headerByteCount(packet.type) else { return }
    line.key("parameters")
    line.object { $0.members(HCIDissector.dissect(packet, for: .programs).fields) }
  }

  private static func print(_ channelID: UInt16, _ payload: Span<UInt8>, into line: inout JSONLine) {
    let said = ChannelDissector.dissect(payload, of: channelID, for: .programs)
    let isSMP = channelID == L2CAPFrame.FixedChannel.securityManager
    line.key("l2cap")
    line.object { line in
      line.member("cid", channelID)
      if let said, !isSMP { line.members(said.fields) }
      if channelID != ATT.channelID { line.member("payload", hex: payload) }
    }
    guard isSMP, let said, !payload.isEmpty else { return }
    line.key("smp")
    line.object { $0.members(said.fields) }
  }

  /// Prints an ATT PDU.
  ///
  /// - Parameter isCut: whether the value may be incomplete. An incomplete value is not decoded.
  private static func print(_ att: borrowing DecodedATT, isCut: Bool = false, into line: inout JSONLine) {
    line.key("att")
    line.object { line in
      line.member("opcode", att.opcode.rawValue)
      if let handle = att.handle { line.member("handle", handle.rawValue) }
      if let uuid = att.uuid {
        line.key("uuid")
        line.value(uuid)
      }
      if let offset = att.offset { line.member("offset", offset) }
      if let value = att.value { line.member("value", hex: value) }
      if att.hasOtherParameters { line.member("parameters", hex: att.parameters) }
      if !isCut, let said = att.said(for: .programs) { line.members([said]) }
    }
  }

  // MARK: Text

  private mutating func printText(_ packet: borrowing DecodedPacket) {
    let mark = packet.direction == .hostToController ? "<" : ">"
    let color: PacketText.Color =
      switch packet.type {
      case .command: .command
      case .event: .event
      default: .data
      }
    begin(
      "\(mark) \(HCIDissector.title(packet))", brief: Self.brief(packet), packet.index, packet.time,
      packet.adapter, handle: packet.connectionHandle, color: color)
    if let air = packet.air { text.line(6, "Air: \(air.pdu.name), \(AirDissector.words(air))") }
    if packet.isCut, packet.payload == nil { return printCut(packet) }
    switch packet.type {
    case .command, .event:
      let (title, fields) = HCIDissector.dissect(packet, for: .anyone)
      if let title { text.line(6, title) }
      text.print(fields, 8)
      if let data = packet.payload {
        text.line(6, "Joined from several reports: \(counted(data.count, "byte")) of data")
        text.print(AdvertisingDissector.joined(data, for: .anyone), 8)
      }
    case .acl where packet.payload != nil: printChannel(packet)
    case .acl:
      // The packet is a fragment, whose contents are printed with the packet that completes the frame.
      if let problem = packet.problem { text.malformed(8, "\(problem)", packet.packet) }
    default: text.dump(8, packet.packet)
    }
  }

  /// Prints a truncated packet.
  private mutating func printCut(_ packet: borrowing DecodedPacket) {
    if let att = packet.cutATT, let handle = att.handle {
      text.line(
        6,
        "ATT: \(ATTNames.pdu(att.opcode.rawValue)) (0x\(hexadecimal(att.opcode.rawValue))), its first octets")
      text.line(8, "Handle: \(ATTText.attribute(handle, att.uuid))")
    }
    let kept = packet.packet.count
    text.line(
      8, "! cut: the log's writer kept \(kept) of \(counted(packet.originalByteCount, "byte"))",
      color: .problem)
    text.dump(8, packet.packet)
  }

  private mutating func printChannel(_ packet: borrowing DecodedPacket) {
    guard let channelID = packet.channelID, let payload = packet.payload else { return }
    if let att = packet.att {
      ATTText.print(att, into: &text)
    } else if let (title, fields) = ChannelDissector.dissect(payload, of: channelID, for: .anyone) {
      text.line(6, title)
      text.print(fields, 8)
    } else {
      text.line(6, "Channel: \(channelID) len \(payload.count)")
      text.dump(8, payload)
    }
  }

  /// Width of the header line, as in `btmon`.
  private static let usualColumns = 80

  /// Starts a packet. In full text, prints a header line with number and time at its end. In brief text,
  /// prints number, time, mark and link before the title.
  ///
  /// - Parameters:
  ///   - title: the title, after its mark (`<`, `>`, `=` or `@`) and a space.
  ///   - brief: the title in brief text; `nil` if the next line is the title.
  private mutating func begin(
    _ title: String, brief: String?, _ index: Int, _ time: ReceiveTime, _ adapter: UInt16,
    handle: ConnectionHandle? = nil, color: PacketText.Color
  ) {
    let isNamed = (adapter != 0 || namesAdapters) && adapter != 0xFFFF
    let device = isNamed ? "[hci\(adapter)] " : ""
    let clock = clock(time)
    guard text.isBrief else {
      return text.line(0, Self.header(title, "#\(index) \(device)\(clock)", columns), color: color)
    }
    let link = Self.padded(handle.map { "\($0.rawValue)" } ?? "", 4)
    text.begin(
      "\(Self.padded("\(index)", 6)) \(Self.padded(clock, 11)) \(title.prefix(1)) \(device)\(link)  ", brief,
      color: color)
  }

  /// Returns the title in brief text; `nil` if the first line of the packet's contents serves as the title.
  private static func brief(_ packet: borrowing DecodedPacket) -> String? {
    switch packet.type {
    case .command, .event:
      return packet.hci?.subevent == nil || packet.isCut
        ? String(HCIDissector.title(packet).trimmingPrefix("HCI ")) : nil
    case .acl where packet.payload != nil: return nil
    case .acl: return "ACL fragment of \(counted(max(0, packet.packet.count - 4), "byte"))"
    default: return HCIDissector.title(packet)
    }
  }

  private static func padded(_ text: String, _ count: Int) -> String {
    String(repeating: " ", count: max(0, count - text.utf8.count)) + text
  }

  private mutating func clock(_ time: ReceiveTime) -> String {
    if times == .absolute { return UTCText(time.nanoseconds).rfc3339 }
    let start = firstTime ?? time.nanoseconds
    firstTime = times == .delta ? time.nanoseconds : start
    let (elapsed, overflow) = time.nanoseconds.subtractingReportingOverflow(start)
    return overflow ? "?" : PacketText.decimal(elapsed / 1_000, places: 6)
  }

  /// Returns a header line, with number and time at the end of the line.
  private static func header(_ title: String, _ clock: String, _ columns: Int?) -> String {
    let title = columns.map { shortened(title, to: $0 - clock.utf8.count - 1) } ?? title
    let gap = max(1, (columns ?? usualColumns) - title.utf8.count - clock.utf8.count)
    return title + String(repeating: " ", count: gap) + clock
  }

  /// Shortens a long name as `btmon` does, but keeps the number after the name.
  private static func shortened(_ title: String, to count: Int) -> String {
    let excess = title.utf8.count - count
    guard excess > 0, let number = title.lastIndex(of: "(") else { return title }
    let name = title[..<number].dropLast()
    let kept = name.utf8.count - excess - 2
    guard kept >= 16, name.utf8.count == name.count else { return title }
    return "\(name.prefix(kept)).. \(title[number...])"
  }
}

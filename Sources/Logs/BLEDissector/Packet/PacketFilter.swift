package import BLEPacketLog
package import BLEWire

/// Selects the packets of a log that meet all conditions.
package struct PacketFilter: Sendable {
  /// A protocol layer. A packet belongs to each layer of which it contains a complete unit.
  package enum Layer: String, CaseIterable, Sendable {
    /// Commands and events.
    case hci
    /// Frames of any L2CAP channel.
    case l2cap
    case att, smp
    /// Air packets with any contents.
    case ll
  }

  package enum Instant: Hashable, Sendable {
    /// Nanoseconds since the Unix epoch.
    case absolute(Int64)
    /// Nanoseconds since the log's first record.
    case fromStart(Int64)
  }

  package enum Attribute: Hashable, Sendable {
    case handle(AttributeHandle)
    case uuid(BluetoothUUID)
  }

  package var since: Instant?
  /// The end of the time range, inclusive.
  package var until: Instant?
  package var adapter: UInt16?
  package var handle: ConnectionHandle?
  /// Peer of the packet's link, or an address in a command or event. The address type is ignored.
  package var address: DeviceAddress?
  package var direction: HCIDirection?
  package var layers: [Layer] = []
  package var attOpcodes: [ATTOpcode] = []
  package var attributes: [Attribute] = []
  /// Bytes to find in the packet, or in the frame that the packet completes.
  package var pattern: [UInt8] = []

  private var firstTime: Int64?

  package init() {}

  /// Sets the time of the first record. Times `fromStart` are relative to it.
  package mutating func start(at time: ReceiveTime) { firstTime = time.nanoseconds }

  /// Returns whether a record that is not a packet passes the filter.
  package func passesNote(_ record: borrowing PacketRecord) -> Bool {
    let isOfLayer = layers.isEmpty || layers.contains(.ll) && record.header.air != nil
    return isInTime(record.time) && isOf(record.adapter) && isOfLayer && handle == nil && address == nil
      && direction == nil && attOpcodes.isEmpty && attributes.isEmpty
      && (pattern.isEmpty || record.header.air != nil && Self.contains(record.packet, pattern))
  }

  package func passes(_ packet: borrowing DecodedPacket) -> Bool {
    guard isInTime(packet.time), isOf(packet.adapter) else { return false }
    if let handle, packet.connectionHandle != handle { return false }
    if let direction, packet.direction != direction { return false }
    if let address, !concerns(packet, address) { return false }
    if !layers.isEmpty, !layers.contains(where: { Self.isOf($0, packet) }) { return false }
    if !attOpcodes.isEmpty {
      guard let opcode = packet.att?.opcode, attOpcodes.contains(opcode) else { return false }
    }
    if !attributes.isEmpty, !concernsAttribute(packet) { return false }
    return pattern.isEmpty || containsPattern(packet)
  }

  private func isInTime(_ time: ReceiveTime) -> Bool {
    if let since, time.nanoseconds < nanoseconds(since) { return false }
    if let until, time.nanoseconds > nanoseconds(until) { return false }
    return true
  }

  private func nanoseconds(_ instant: Instant) -> Int64 {
    switch instant {
    case .absolute(let nanoseconds): return nanoseconds
    case .fromStart(let nanoseconds):
      let (sum, overflow) = (firstTime ?? 0).addingReportingOverflow(nanoseconds)
      return overflow ? .max : sum
    }
  }

  private func isOf(_ adapter: UInt16) -> Bool { self.adapter == nil || self.adapter == adapter }

  private static func isOf(_ layer: Layer, _ packet: borrowing DecodedPacket) -> Bool {
    switch layer {
    case .hci: packet.type == .command || packet.type == .event
    case .l2cap: packet.channelID != nil
    case .att: packet.att != nil
    case .smp: packet.channelID == L2CAPFrame.FixedChannel.securityManager
    case .ll: packet.air != nil
    }
  }

  private func concerns(_ packet: borrowing DecodedPacket, _ address: DeviceAddress) -> Bool {
    if let peer = packet.peer, peer.bits == address.bits { return true }
    guard packet.type == .command || packet.type == .event else { return false }
    let octets = packet.packet
    guard octets.count >= 6 else { return false }
    for offset in 0...octets.count - 6 where octets.address(at: offset, type: .public).bits == address.bits {
      return true
    }
    return false
  }

  private func concernsAttribute(_ packet: borrowing DecodedPacket) -> Bool {
    guard let att = packet.att else { return false }
    for attribute in attributes {
      switch attribute {
      case .handle(let handle): if att.handle == handle { return true }
      case .uuid(let uuid): if att.uuid == uuid { return true }
      }
    }
    return false
  }

  private func containsPattern(_ packet: borrowing DecodedPacket) -> Bool {
    if Self.contains(packet.packet, pattern) { return true }
    guard let payload = packet.payload else { return false }
    return Self.contains(payload, pattern)
  }

  private static func contains(_ octets: Span<UInt8>, _ pattern: [UInt8]) -> Bool {
    guard octets.count >= pattern.count else { return false }
    for start in 0...octets.count - pattern.count {
      if pattern.indices.allSatisfy({ octets[start + $0] == pattern[$0] }) { return true }
    }
    return false
  }
}

// Parsing of conditions from command-line text.

extension PacketFilter {
  /// Parses an opcode: its number, decimal or with `0x`, or its name in any spelling, such as `write-request`
  /// or `WriteRequest`. `notification` is short for Handle Value Notification.
  package static func attOpcode(_ text: String) -> ATTOpcode? {
    let number = text.hasPrefix("0x") ? UInt8(text.dropFirst(2), radix: 16) : UInt8(text)
    if let number { return ATTOpcode(rawValue: number) }
    let wanted = letters(text)
    for opcode in (0...255).map({ ATTOpcode(rawValue: $0) }) where opcode.isKnown {
      let names = [letters(ATTNames.pdu(opcode.rawValue)), letters(opcode.name.description)]
      if names.contains(wanted) || names.contains("handlevalue" + wanted) { return opcode }
    }
    return nil
  }

  private static func letters(_ text: String) -> String { text.lowercased().filter(\.isLetter) }
}

extension PacketFilter.Attribute {
  /// Parses a handle with `0x`, or a UUID. Four digits without `0x` form a UUID.
  package init?(_ text: String) {
    if text.hasPrefix("0x") {
      guard let number = UInt16(text.dropFirst(2), radix: 16) else { return nil }
      self = .handle(AttributeHandle(number))
    } else {
      guard let uuid = BluetoothUUID(text) else { return nil }
      self = .uuid(uuid)
    }
  }
}

extension PacketFilter.Instant {
  /// Parses a time in one of three forms: seconds from the start, also as `1:30` or `1:02:03.5`; an ISO 8601
  /// date and time, in UTC without an offset, such as `2026-11-21T06:50:00.25` or
  /// `2026-11-21T07:50:00+01:00`; or the format of ringtap's output, `2026-11-21 06:50:00.250 UTC`.
  package init?(_ text: String) {
    if let nanoseconds = Self.nanoseconds(text[...], limit: 1_000_000_000) {
      self = .fromStart(nanoseconds)
    } else if let nanoseconds = Self.clock(text) {
      self = .fromStart(nanoseconds)
    } else if let nanoseconds = Self.date(Self.isoForm(text)) {
      self = .absolute(nanoseconds)
    } else {
      return nil
    }
  }

  /// Parses a decimal number of seconds without rounding.
  private static func nanoseconds(_ text: Substring, limit: Int64) -> Int64? {
    let digits = text.hasPrefix("-") ? text.dropFirst() : text
    let parts = digits.split(separator: ".", maxSplits: 1, omittingEmptySubsequences: false)
    guard let first = parts.first, let seconds = number(first), seconds < limit else { return nil }
    var total = seconds * 1_000_000_000
    if parts.count == 2 {
      guard (1...9).contains(parts[1].utf8.count), var fraction = number(parts[1]) else { return nil }
      for _ in parts[1].utf8.count..<9 { fraction *= 10 }
      total += fraction
    }
    return text.hasPrefix("-") ? -total : total
  }

  /// Parses a time such as `1:30` or `1:02:03.5`.
  private static func clock(_ text: String) -> Int64? {
    let parts = text.split(separator: ":", omittingEmptySubsequences: false)
    guard (2...3).contains(parts.count), let last = parts.last,
      let seconds = nanoseconds(last, limit: 60), seconds >= 0, let first = number(parts[0]), first < 100_000,
      parts.dropFirst().allSatisfy({ $0.prefix { $0 != "." }.utf8.count == 2 })
    else { return nil }
    guard parts.count == 3 else { return first * 60_000_000_000 + seconds }
    guard let minutes = number(parts[1]), minutes < 60 else { return nil }
    return (first * 60 + minutes) * 60_000_000_000 + seconds
  }

  private static func isoForm(_ text: String) -> String {
    guard text.hasSuffix(" UTC"), text.utf8.count > 14 else { return text }
    return String(text.dropLast(4).map { $0 == " " ? "T" : $0 })
  }

  /// Parses a string of digits only.
  private static func number(_ text: Substring) -> Int64? {
    text.utf8.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) } ? Int64(text) : nil
  }

  private static func date(_ text: String) -> Int64? {
    let halves = text.split(separator: "T", omittingEmptySubsequences: false)
    guard halves.count == 2 else { return nil }
    let day = halves[0].split(separator: "-", omittingEmptySubsequences: false).map(number)
    let zone = halves[1].firstIndex { "Z+-".contains($0) } ?? halves[1].endIndex
    let clock = halves[1][..<zone].split(separator: ":", omittingEmptySubsequences: false)
    guard day.count == 3, let year = day[0], let month = day[1], let date = day[2], clock.count == 3,
      let hour = number(clock[0]), let minute = number(clock[1]),
      let seconds = nanoseconds(clock[2], limit: 61),
      let offset = offset(halves[1][zone...]), (1970...2200).contains(year), (1...12).contains(month),
      (1...31).contains(date), hour < 24, minute < 60, seconds >= 0
    else { return nil }
    let minutes = (days(year, month, date) * 24 + hour) * 60 + minute - offset
    return minutes * 60_000_000_000 + seconds
  }

  /// Parses an offset from UTC in minutes: empty, `Z` or `+01:00`.
  private static func offset(_ text: Substring) -> Int64? {
    if text.isEmpty || text == "Z" { return 0 }
    let parts = text.dropFirst().split(separator: ":", omittingEmptySubsequences: false).map(number)
    guard text.first != "Z", parts.count == 2, let hours = parts[0], let minutes = parts[1], hours < 24,
      minutes < 60
    else { return nil }
    return (hours * 60 + minutes) * (text.first == "-" ? -1 : 1)
  }

  /// Returns days since 1 January 1970 in the Gregorian calendar. Years start in March, so that the leap day
  /// is last.
  private static func days(_ year: Int64, _ month: Int64, _ day: Int64) -> Int64 {
    let shifted = month > 2 ? year : year - 1
    let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
    return shifted * 365 + shifted / 4 - shifted / 100 + shifted / 400 + dayOfYear - 719_468
  }
}

import BLEStack
import BLEWire

/// The controller's side of a recorded conversation: the order in which its packets are delivered, and the
/// packets that ringtap's host is expected to send.
///
/// A packet of the controller is delivered when ringtap's host has sent all earlier packets of the recorded
/// host, in any order. Each packet of ringtap's host is matched against the packets that are still expected.
/// The replay therefore continues if ringtap's host omits a packet, adds a packet, or sends different bytes.
/// A request that the log cannot answer gets an Error Response, as from a server that lacks the attribute.
struct ReplayScript: Sendable {
  /// Reaction to a packet that ringtap's host sent.
  enum Outcome: Hashable, Sendable {
    case none
    /// Deliver this response now, before its turn in the log.
    case answer(ReplayPacket)
    /// The log has no reply to the command, and the reply cannot be simulated.
    case unanswered(String)
  }

  private struct ATTPlace: Hashable {
    var link: ConnectionHandle
    var attribute: UInt16
  }

  /// Maximum number of expected packets that are searched for a packet of ringtap's host.
  static let lookAhead = 4096

  private let packets: [ReplayPacket]
  private let roles: [ReplayRole]
  /// For each packet, whether it was sent by ringtap's host, delivered, or skipped.
  private var isDone: [Bool]
  /// Index of the response, by the index of the request or command.
  private var answers: [Int: Int] = [:]
  /// Responses without a request or command in the log.
  private var unasked: Set<Int> = []
  /// Index of the last response to each request.
  private var known: [[UInt8]: Int] = [:]
  /// Attributes that the recorded peer indicates. A write to such an attribute is a control point procedure,
  /// and gets the response to this procedure.
  private var controlPoints: Set<ATTPlace> = []
  /// Attributes of the servers known from the log, by link.
  private var servers: [ConnectionHandle: RecordedAttributes] = [:]
  /// Number of the peer's notifications and indications, in total and delivered.
  private var values = (count: 0, delivered: 0)
  /// Whether values are held back until ringtap's host subscribes, because the recorded host subscribed
  /// before the log starts.
  private(set) var awaitsSubscription = false
  /// Index of the first packet that is neither sent, delivered nor skipped.
  private var cursor = 0
  private(set) var findings = ReplayFindings()

  /// Prepares the replay of packets.
  ///
  /// - Parameter servers: attributes learned from other packets.
  init(_ packets: [ReplayPacket], servers: [ConnectionHandle: RecordedAttributes] = [:]) {
    self.packets = packets
    self.servers = servers
    roles = packets.map { ReplayRole($0.octets) }
    isDone = [Bool](repeating: false, count: packets.count)
    values.count = packets.indices.count { isValue($0) }
    pair()
    let first = packets.indices.first { isValue($0) || Self.isSubscription(packets[$0].octets) }
    awaitsSubscription = first.map { isValue($0) } ?? false
  }

  private func isValue(_ index: Int) -> Bool {
    guard packets[index].direction == .controllerToHost, case .att(_, let opcode) = roles[index] else {
      return false
    }
    return opcode.kind == .notification || opcode.kind == .indication
  }

  /// Returns whether the packet is a Write Request of a descriptor with the value 1 or 2. Core 5.4, Vol 3,
  /// Part G, 3.3.3.3.
  private static func isSubscription(_ octets: [UInt8]) -> Bool {
    guard case .att(_, .writeRequest) = ReplayRole(octets), octets.count == 14 else { return false }
    return octets[12] == 1 && octets[13] == 0 || octets[12] == 2 && octets[13] == 0
  }

  /// Pairs requests and commands with their responses.
  private mutating func pair() {
    var requests: [ConnectionHandle: Int] = [:]
    var commands: [HCIOpcode: [Int]] = [:]
    for index in packets.indices {
      let isFromHost = packets[index].direction == .hostToController
      switch roles[index] {
      case .command(let opcode): commands[opcode, default: []].append(index)
      // Opcode 0 only gives command credits.
      case .answer(let opcode) where opcode.rawValue != 0:
        guard let question = commands[opcode]?.first else {
          unasked.insert(index)
          break
        }
        commands[opcode]?.removeFirst()
        answers[question] = index
      case .att(let handle, let opcode) where isFromHost && opcode.kind == .request:
        requests[handle] = index
      case .att(let handle, let opcode) where !isFromHost && opcode.kind == .response:
        if let question = requests[handle], roles[question].isAnswered(by: packets[index].octets) {
          answers[question] = index
          requests[handle] = nil
          servers[handle, default: RecordedAttributes()].learn(packets[question], packets[index])
        } else {
          unasked.insert(index)
        }
      case .att(let handle, .handleValueIndication) where !isFromHost:
        let octets = packets[index].octets
        guard octets.count > 11 else { break }
        controlPoints.insert(ATTPlace(link: handle, attribute: octets.span.u16(at: 10)))
      case .disconnection(let handle): requests[handle] = nil
      default: break
      }
    }
  }

  // MARK: To our host

  var isAtEnd: Bool { cursor == packets.count }

  /// Whether at most a tenth of the peer's values remains. The remaining packets of the recorded host belong
  /// to its shutdown.
  var isNearEnd: Bool { 10 * (values.count - values.delivered) <= values.count }

  /// The controller's packet that is due next; `nil` if no packet is due.
  var next: ReplayPacket? {
    guard cursor < packets.count, packets[cursor].direction == .controllerToHost,
      !(awaitsSubscription && isValue(cursor))
    else { return nil }
    return packets[cursor]
  }

  /// Whether `next` is a disconnection.
  var endsLink: Bool {
    guard next != nil, case .disconnection = roles[cursor] else { return false }
    return true
  }

  /// The packet that ringtap's host must send before the replay continues.
  var awaited: ReplayPacket? {
    guard cursor < packets.count, packets[cursor].direction == .hostToController else { return nil }
    return packets[cursor]
  }

  /// Marks `next` as delivered.
  mutating func deliver() {
    findings.played += 1
    if isValue(cursor) { values.delivered += 1 }
    isDone[cursor] = true
    advance()
  }

  /// Stops waiting for `awaited`: skips this packet and the response to it.
  mutating func skip(_ why: String? = nil) {
    skip(cursor, why)
    advance()
  }

  private mutating func skip(_ index: Int, _ why: String?) {
    findings.played += 1
    findings.add(ReplayDifference(.missing, packets[index], why: why))
    isDone[index] = true
    guard let answer = answers[index], !isDone[answer] else { return }
    isDone[answer] = true
    known[packets[index].octets] = answer
  }

  /// Advances past packets that were sent, delivered or skipped, and past responses without a request.
  private mutating func advance() {
    while cursor < packets.count {
      if !isDone[cursor] {
        guard unasked.contains(cursor) else { return }
        findings.played += 1
        findings.add(ReplayDifference(.unasked, packets[cursor]))
      }
      cursor += 1
    }
  }

  // MARK: From our host

  /// Delivers values although ringtap's host has not subscribed.
  mutating func ceaseToAwaitSubscription() { awaitsSubscription = false }

  /// Handles a packet that ringtap's host sends.
  mutating func take(_ octets: [UInt8]) -> Outcome {
    defer { advance() }
    if Self.isSubscription(octets) { awaitsSubscription = false }
    let role = ReplayRole(octets)
    if let index = find({ packets[$0].octets == octets }) {
      findings.reproduced += 1
      return settle(index, role, octets)
    }
    if let index = findCounterpart(octets) {
      findings.add(ReplayDifference(.different, packets[index], ours: octets))
      return settle(index, role, octets)
    }
    let expected = find { _ in true }.map { packets[$0] }
    let why = expected.map { "the log continues with packet \($0.index): \(ReplayWords.name($0.octets))" }
    if isAtEnd {
      findings.afterEnd += 1
    } else {
      findings.add(ReplayDifference(.unexpected, ours: octets, why: why))
    }
    guard role.asks else { return .none }
    if let index = unasked.sorted().first(where: { role.isAnswered(by: packets[$0].octets) }) {
      unasked.remove(index)
      isDone[index] = true
      return .answer(packets[index])
    }
    if let index = known[octets] { return .answer(packets[index]) }
    if let answer = answer(octets, role) { return .answer(answer) }
    // Only commands remain, because every ATT request has been answered above.
    let name = ReplayWords.name(octets)
    return .unanswered(
      expected == nil
        ? "the log ends before \(name) (\(ReplayWords.hexadecimal(octets)))"
        : "the log has no \(name) (\(ReplayWords.hexadecimal(octets))); \(why ?? "")")
  }

  /// Returns the server's response to a request that is not in the log, or an Error Response if the log
  /// cannot answer it.
  private func answer(_ octets: [UInt8], _ role: ReplayRole) -> ReplayPacket? {
    guard case .att(let handle, _) = role, let request = ReplayRole.attributePDU(octets),
      let answer = servers[handle]?.answer(request) ?? RecordedAttributes.refusal(request)
    else { return nil }
    return packet(answer, role)
  }

  /// Wraps an ATT PDU of the peer in an ACL packet, on the link to which a packet of ringtap's host belongs.
  private func packet(_ answer: [UInt8], _ role: ReplayRole) -> ReplayPacket? {
    guard case .att(let handle, _) = role, let last = packets.last else { return nil }
    let packet = [UInt8](encoding: 9 + answer.count) {
      $0.append(HCIPacketType.acl.rawValue)
      $0.append(u16: handle.rawValue | UInt16(ACLPacket.Boundary.firstFlushable.rawValue) << 12)
      $0.append(u16: UInt16(L2CAPFrame.headerByteCount + answer.count))
      $0.append(u16: UInt16(answer.count))
      $0.append(u16: ATT.channelID)
      $0.append(answer.span)
    }
    return ReplayPacket(
      time: packets[min(cursor, packets.count - 1)].time, .controllerToHost, adapter: last.adapter, packet)
  }

  /// Marks the packet at this index as sent.
  private mutating func settle(_ index: Int, _ role: ReplayRole, _ octets: [UInt8]) -> Outcome {
    findings.played += 1
    isDone[index] = true
    if goesOn(with: index, octets) { skipAll(before: index) }
    if case .att(let handle, let opcode) = roles[index], opcode.kind == .request {
      if role.asks, let answer = answers[index], !isDone[answer], isAhead(of: handle, index) {
        findings.played += 1
        isDone[answer] = true
        known[octets] = answer
        return .answer(packets[answer])
      }
      skipRequests(of: handle, before: index)
    }
    skipWrites(like: octets, before: index)
    guard role.asks else {
      // The recorded host sent a request at this place and got a response.
      if let answer = answers[index], !isDone[answer] {
        findings.played += 1
        isDone[answer] = true
      }
      return .none
    }
    guard let answer = answers[index] else {
      if case .att(_, .writeCommand) = roles[index], let answer = packet([0x13], role) {
        return .answer(answer)
      }
      findings.add(ReplayDifference(.unanswered, packets[index]))
      if let answer = self.answer(octets, role) { return .answer(answer) }
      return .unanswered(
        "the log has no response to packet \(packets[index].index), \(ReplayWords.name(octets))"
          + " (\(ReplayWords.hexadecimal(octets)))")
    }
    known[octets] = answer
    return .none
  }

  /// Returns whether ringtap's host now writes a value that the recorded host, a different host, wrote later.
  /// The peer's reaction then follows all earlier expected packets.
  private func goesOn(with index: Int, _ ours: [UInt8]) -> Bool {
    guard findings.counts[.unexpected] != nil, !Self.isSubscription(ours), let (_, value) = written(ours),
      let (_, recorded) = written(packets[index].octets)
    else { return false }
    return value == recorded
  }

  private mutating func skipAll(before end: Int) {
    for index in cursor..<end where !isDone[index] && packets[index].direction == .hostToController {
      skip(index, "ringtap continued with packet \(packets[end].index)")
    }
  }

  /// Returns whether the recorded host sent this request only after values that other requests of ringtap's
  /// host must still trigger. Waiting for the request's turn would skip these values.
  private func isAhead(of handle: ConnectionHandle, _ end: Int) -> Bool {
    let open = (cursor..<end).first { index in
      guard !isDone[index], case .att(handle, let opcode) = roles[index] else { return false }
      return packets[index].direction == .hostToController && opcode.kind == .request
    }
    guard let open else { return false }
    return (open..<end).contains { !isDone[$0] && isValue($0) }
  }

  /// Skips earlier requests, which will not be sent because only one request may be pending. Core 5.4, Vol 3,
  /// Part F, 3.3.2.
  private mutating func skipRequests(of handle: ConnectionHandle, before end: Int) {
    for index in cursor..<end where !isDone[index] {
      guard case .att(handle, let opcode) = roles[index], opcode.kind == .request else { continue }
      skip(index, "ringtap continued with packet \(packets[end].index)")
    }
  }

  /// Skips earlier writes to the same attribute, which will not be sent.
  private mutating func skipWrites(like octets: [UInt8], before end: Int) {
    guard let (place, _) = written(octets) else { return }
    for index in cursor..<end where !isDone[index] {
      guard let (other, _) = written(packets[index].octets), other == place else { continue }
      skip(index, "ringtap continued with packet \(packets[end].index)")
    }
  }

  /// Returns the first matching packet of the recorded host that ringtap's host has not sent yet.
  private func find(_ isMeant: (Int) -> Bool) -> Int? {
    var looked = 0
    for index in cursor..<packets.count {
      guard !isDone[index], packets[index].direction == .hostToController else { continue }
      if isMeant(index) { return index }
      looked += 1
      if looked == Self.lookAhead { return nil }
    }
    return nil
  }

  /// Finds the recorded packet with the same purpose as a packet of ringtap's host, so that the recorded
  /// response fits. For writes to an attribute, prefers a write of the same value, then a write with the same
  /// first byte, which is the opcode in control point procedures and ring commands.
  private func findCounterpart(_ ours: [UInt8]) -> Int? {
    guard let (place, value) = written(ours) else {
      return find { Self.isCounterpart(packets[$0].octets, ours) }
    }
    let isProcedure = controlPoints.contains(place)
    func findWrite(_ isMeant: (ArraySlice<UInt8>) -> Bool) -> Int? {
      find { index in
        guard let (other, recorded) = written(packets[index].octets) else { return false }
        return other == place && isMeant(recorded)
      }
    }
    return findWrite { $0 == value } ?? findWrite { $0.first == value.first }
      ?? (isProcedure ? nil : findWrite { _ in true })
  }

  /// Returns the attribute and the value of a Write Request or Write Command.
  private func written(_ octets: [UInt8]) -> (ATTPlace, ArraySlice<UInt8>)? {
    guard case .att(let link, let opcode) = ReplayRole(octets), octets.count > 11,
      opcode == .writeRequest || opcode == .writeCommand
    else { return nil }
    return (ATTPlace(link: link, attribute: octets.span.u16(at: 10)), octets[12...])
  }

  private static func isCounterpart(_ recorded: [UInt8], _ ours: [UInt8]) -> Bool {
    switch (ReplayRole(recorded), ReplayRole(ours)) {
    case (.command(let a), .command(let b)): return a == b
    case (.att(let link, let a), .att(let other, let b)):
      guard link == other, a.kind == b.kind else { return false }
      switch b.kind {
      // The server's response to the peer.
      case .response, .confirmation: return true
      case .notification, .indication: return a == b
      case .request: return a == b && b == .exchangeMTURequest
      default: return false
      }
    default: return false
    }
  }
}

import BLEStack
import BLEWire

/// The controller's side of a recorded conversation: which of its packets come when, and what our host was to say.
///
/// A packet of the controller's comes when all that the recorded host sent before it were sent by ours, in whatever
/// order. What ours sends is looked for among what is still to be sent; so a host that leaves something out, adds
/// something or says it otherwise does not stop the play. A request that nothing in the log answers is refused, as a server
/// does that lacks what is asked for.
struct ReplayScript: Sendable {
  /// What has to be done about a packet of our host's.
  enum Outcome: Hashable, Sendable {
    case none
    /// Not in the log's order: this answers it, at once.
    case answer(ReplayPacket)
    /// A command that the log has no answer to: no controller of its kind can be made up.
    case unanswered(String)
  }

  private struct ATTPlace: Hashable {
    var link: ConnectionHandle
    var attribute: UInt16
  }

  /// Packets of the recorded host that are looked at for one that ours sends.
  static let lookAhead = 4096

  private let packets: [ReplayPacket]
  private let roles: [ReplayRole]
  /// Sent by ours, delivered, or given up.
  private var isDone: [Bool]
  /// The packet that answers a question, by the question's place.
  private var answers: [Int: Int] = [:]
  /// Answers to questions that the log does not have.
  private var unasked: Set<Int> = []
  /// What answered a question the last time it was asked.
  private var known: [[UInt8]: Int] = [:]
  /// Attributes that the recorded peer indicates: what is written to one of them is a procedure, and is answered so.
  private var controlPoints: Set<ATTPlace> = []
  /// What the log lets us know of the servers, by link.
  private var servers: [ConnectionHandle: RecordedAttributes] = [:]
  /// Notifications and indications of the peer's, in all and delivered.
  private var values = (count: 0, delivered: 0)
  /// Whether the peer tells values before the recorded host has subscribed to any, since it had done so before the log
  /// begins: they wait for a subscription of ours.
  private(set) var awaitsSubscription = false
  /// All before it are done.
  private var cursor = 0
  private(set) var findings = ReplayFindings()

  /// - Parameter servers: what is known of them beside these packets.
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

  /// A Write Request of a descriptor's value, 1 or 2. Core 5.4, Vol 3, Part G, 3.3.3.3.
  private static func isSubscription(_ octets: [UInt8]) -> Bool {
    guard case .att(_, .writeRequest) = ReplayRole(octets), octets.count == 14 else { return false }
    return octets[12] == 1 && octets[13] == 0 || octets[12] == 2 && octets[13] == 0
  }

  /// Finds the answer of each question.
  private mutating func pair() {
    var requests: [ConnectionHandle: Int] = [:]
    var commands: [HCIOpcode: [Int]] = [:]
    for index in packets.indices {
      let isFromHost = packets[index].direction == .hostToController
      switch roles[index] {
      case .command(let opcode): commands[opcode, default: []].append(index)
      // Opcode 0 answers nothing: it brings credits.
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

  /// Of what the peer has to tell, at most a tenth is still to come: what the recorded host did from here on, it did to
  /// end.
  var isNearEnd: Bool { 10 * (values.count - values.delivered) <= values.count }

  /// The packet of the controller's whose turn it is.
  var next: ReplayPacket? {
    guard cursor < packets.count, packets[cursor].direction == .controllerToHost,
      !(awaitsSubscription && isValue(cursor))
    else { return nil }
    return packets[cursor]
  }

  /// Whether `next` tells that a link ended.
  var endsLink: Bool {
    guard next != nil, case .disconnection = roles[cursor] else { return false }
    return true
  }

  /// The packet that our host has to send before anything more comes.
  var awaited: ReplayPacket? {
    guard cursor < packets.count, packets[cursor].direction == .hostToController else { return nil }
    return packets[cursor]
  }

  /// `next` is delivered.
  mutating func deliver() {
    findings.played += 1
    if isValue(cursor) { values.delivered += 1 }
    isDone[cursor] = true
    advance()
  }

  /// `awaited` will not come: it and what answers it are left out.
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

  /// Passes what is done, and answers that nobody has asked for.
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

  /// Nobody subscribes: values come all the same.
  mutating func ceaseToAwaitSubscription() { awaitsSubscription = false }

  /// Our host sends this.
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
    let why = expected.map { "the log goes on with packet \($0.index): \(ReplayWords.name($0.octets))" }
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
    // Only a command comes as far as here: each ATT request has an answer by now.
    let name = ReplayWords.name(octets)
    return .unanswered(
      expected == nil
        ? "the log ends before \(name) (\(ReplayWords.hexadecimal(octets)))"
        : "the log has no \(name) (\(ReplayWords.hexadecimal(octets))); \(why ?? "")")
  }

  /// What the server would have answered to a request of another kind than those in the log, or would have said to one that
  /// it cannot answer.
  private func answer(_ octets: [UInt8], _ role: ReplayRole) -> ReplayPacket? {
    guard case .att(let handle, _) = role, let request = ReplayRole.attributePDU(octets),
      let answer = servers[handle]?.answer(request) ?? RecordedAttributes.refusal(request)
    else { return nil }
    return packet(answer, role)
  }

  /// An ATT PDU of the peer's, on the link of a packet of ours.
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

  /// The packet at this place was sent.
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
      // The recorded host asked for an answer to it.
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
        "the log has no answer to packet \(packets[index].index), \(ReplayWords.name(octets))"
          + " (\(ReplayWords.hexadecimal(octets)))")
    }
    known[octets] = answer
    return .none
  }

  /// Whether a host that is another one than the recorded writes now what that one wrote later: what the peer says to it is
  /// behind all that was said before.
  private func goesOn(with index: Int, _ ours: [UInt8]) -> Bool {
    guard findings.counts[.unexpected] != nil, !Self.isSubscription(ours), let (_, value) = written(ours),
      let (_, recorded) = written(packets[index].octets)
    else { return false }
    return value == recorded
  }

  private mutating func skipAll(before end: Int) {
    for index in cursor..<end where !isDone[index] && packets[index].direction == .hostToController {
      skip(index, "ours went on with packet \(packets[end].index)")
    }
  }

  /// Whether the recorded host sent this request only after values that requests of ours have yet to bring about: to wait
  /// for its turn would be to let them pass.
  private func isAhead(of handle: ConnectionHandle, _ end: Int) -> Bool {
    let open = (cursor..<end).first { index in
      guard !isDone[index], case .att(handle, let opcode) = roles[index] else { return false }
      return packets[index].direction == .hostToController && opcode.kind == .request
    }
    guard let open else { return false }
    return (open..<end).contains { !isDone[$0] && isValue($0) }
  }

  /// One request at a time: those before will not come any more. Core 5.4, Vol 3, Part F, 3.3.2.
  private mutating func skipRequests(of handle: ConnectionHandle, before end: Int) {
    for index in cursor..<end where !isDone[index] {
      guard case .att(handle, let opcode) = roles[index], opcode.kind == .request else { continue }
      skip(index, "ours went on with packet \(packets[end].index)")
    }
  }

  /// What was written to an attribute before will not come any more.
  private mutating func skipWrites(like octets: [UInt8], before end: Int) {
    guard let (place, _) = written(octets) else { return }
    for index in cursor..<end where !isDone[index] {
      guard let (other, _) = written(packets[index].octets), other == place else { continue }
      skip(index, "ours went on with packet \(packets[end].index)")
    }
  }

  /// The first packet of the recorded host that ours has not sent, and that is meant.
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

  /// The packet that serves the same purpose as one of ours, so that the answer to one fits the other. Of writes to an
  /// attribute, one of the same value, else one that begins with the same octet, as procedures and commands of rings do.
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

  /// What a Write Request or Command writes where.
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
      // The server's word on what the peer asked.
      case .response, .confirmation: return true
      case .notification, .indication: return a == b
      case .request: return a == b && b == .exchangeMTURequest
      default: return false
      }
    default: return false
    }
  }
}

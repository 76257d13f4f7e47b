import BLEStack
import BLEWire

/// A host of ours on one adapter of a log that is played.
final class PlayedHost {
  private let facts: ReplayFacts
  /// The log's commands are played: else nothing is known of what ours says by itself.
  private let comparesCommands: Bool
  private var host = HCIHost()
  private var isStarted = false
  private var commands = ReplayComparison()
  private var links: [ConnectionHandle: PlayedLink] = [:]
  /// Commands of the recorded host that wait for their answers, by opcode.
  private var waiting: [HCIOpcode: [ReplayPacket]] = [:]
  private var now = MonotonicTime(nanoseconds: 0)

  init(_ facts: ReplayFacts, comparesCommands: Bool) {
    self.facts = facts
    self.comparesCommands = comparesCommands
  }

  func isReset(_ packet: ReplayPacket) -> Bool {
    packet.direction == .hostToController && ReplayRole(packet.octets) == .command(.reset)
  }

  /// - Parameter beginsAsOurs: a Reset with which a host of ours starts.
  func play(
    _ packet: ReplayPacket, beginsAsOurs: Bool, _ findings: inout ReplayFindings,
    _ notification: LogPlayer.NotificationSink
  ) {
    // Far from the ends of the range: deadlines are added to it.
    now = MonotonicTime(nanoseconds: max(0, min(packet.time.nanoseconds, .max / 2)))
    if beginsAsOurs {
      restart(&findings)
      host.start()
      pump(packet, &findings)
    } else if !isStarted || isReset(packet) {
      restart(&findings)
      bringUp()
    }
    switch packet.direction {
    case .hostToController: record(packet, &findings)
    case .controllerToHost: receive(packet, &findings, notification)
    }
    pump(packet, &findings)
  }

  /// Tells what is left.
  func finish(_ findings: inout ReplayFindings) {
    for handle in links.keys.sorted(by: { $0.rawValue < $1.rawValue }) {
      links[handle]?.finish(isLogOver: true, &findings)
    }
    links = [:]
    commands.finish(&findings)
    for packet in waiting.values.joined().sorted(by: { $0.index < $1.index }) {
      findings.add(ReplayDifference(.unanswered, packet))
    }
    waiting = [:]
  }

  // MARK: Start

  private func restart(_ findings: inout ReplayFindings) {
    isStarted = true
    host = HCIHost()
    for link in links.values { link.finish(isLogOver: false, &findings) }
    links = [:]
    commands.finish(&findings)
    waiting = [:]
  }

  /// Brings our host up where the log has another one's start-up, or none: by a controller that has what the log says
  /// of its own.
  private func bringUp() {
    host = HCIHost()
    var standIn = StandInController(peer: nil, handle: ConnectionHandle(0))
    standIn.buffers = facts.buffers
    host.start()
    while let command = host.nextPacket(now: now) {
      guard case .events(let events) = standIn.answer(command) else { continue }
      for event in events { feed(event) }
    }
    _ = host.takeEvents()
  }

  /// An event that no log has: it breaks no format.
  private func feed(_ event: [UInt8]) {
    let octets = event.span
    try? host.receive(octets, now: now) { _ in
    } attribute: { _, _ in
    }
  }

  // MARK: The recorded host

  private func record(_ packet: ReplayPacket, _ findings: inout ReplayFindings) {
    switch HCIPacketType(rawValue: packet.octets[0]) {
    case .command: record(command: packet, &findings)
    case .acl: record(data: packet, &findings)
    default: findings.notPlayed += 1
    }
  }

  private func record(command packet: ReplayPacket, _ findings: inout ReplayFindings) {
    let unit = ReplayUnit(packets: [packet.octets], cause: packet)
    let octets = packet.octets.span
    guard let opcode = unit.opcode, (try? HCICommandPacket(validating: octets.extracting(1...))) != nil else {
      findings.notPlayed += 1
      return
    }
    waiting[opcode, default: []].append(packet)
    if commands.match(unit, &findings) { return }
    if !host.isReady {
      findings.add(
        ReplayDifference(.missing, packet, why: "our start-up had not come so far; a stand-in ends it"))
      bringUp()
    }
    if commands.differ(unit, why: { _ in "ours answers by itself" }, &findings) { return }
    if opcode == .leRemoteConnectionParameterRequestReply
      || opcode == .leRemoteConnectionParameterRequestNegativeReply
    {
      findings.add(ReplayDifference(.missing, packet))
      return
    }
    guard host.submit(recorded: octets.extracting(1...)) else {
      findings.add(ReplayDifference(.missing, packet, why: "too many commands wait for the controller"))
      return
    }
    pump(packet, &findings)
    if !commands.match(unit, &findings) {
      commands.wait(unit, why: "the controller has not said that it takes another command", &findings)
    }
  }

  private func record(data packet: ReplayPacket, _ findings: inout ReplayFindings) {
    guard let link = link(of: packet) else {
      findings.notPlayed += 1
      return
    }
    guard let unit = link.record(packet) else { return }
    if link.data.match(unit, &findings) { return }
    guard begins(unit) else {
      if !link.data.differ(unit, why: { Self.reason(unit, $0) }, &findings) {
        findings.add(ReplayDifference(.missing, packet, recorded: unit.packets, why: Self.reason(unit, nil)))
      }
      return
    }
    link.begin(unit, now: now, &findings)
    let payload = unit.payload.span
    guard host.send(recorded: payload, on: unit.channelID, of: link.handle) else {
      findings.add(
        ReplayDifference(.missing, packet, recorded: unit.packets, why: "too much waits on the link"))
      return
    }
    pump(packet, &findings)
    if link.data.match(unit, &findings) || link.data.differ(unit, why: { Self.reason(unit, $0) }, &findings) {
      return
    }
    link.data.wait(unit, why: "the controller has not said that it has room", &findings)
  }

  /// Whether the recorded host says it of its own accord, not because somebody asked.
  private func begins(_ unit: ReplayUnit) -> Bool {
    guard let first = unit.payload.first else { return true }
    switch unit.channelID {
    case ATT.channelID:
      switch ATTOpcode(rawValue: first).kind {
      case .request, .command, .notification, .indication: return true
      case .response, .confirmation: return false
      }
    case L2CAPFrame.FixedChannel.signalling: return !L2CAPSignal.isResponse(first)
    case L2CAPFrame.FixedChannel.securityManager: return false
    default: return true
    }
  }

  private static func reason(_ unit: ReplayUnit, _ ours: ReplayUnit?) -> String? {
    if let ours, ours.payload == unit.payload { return "the same in other fragments" }
    switch unit.channelID {
    case ATT.channelID: return ours == nil ? "ours does not say it" : "another server database"
    case L2CAPFrame.FixedChannel.securityManager: return "our stack does not pair"
    default: return nil
    }
  }

  // MARK: The controller

  private func receive(
    _ packet: ReplayPacket, _ findings: inout ReplayFindings, _ notification: LogPlayer.NotificationSink
  ) {
    noteAnswer(packet, &findings)
    if packet.octets[0] == HCIPacketType.acl.rawValue, link(of: packet) == nil {
      findings.notPlayed += 1
      return
    }
    var pdus: [(handle: ConnectionHandle, pdu: [UInt8])] = []
    let octets = packet.octets.span
    do throws(WireError) {
      try host.receive(octets, now: now) { _ in
        findings.reports += 1
      } attribute: { handle, pdu in
        pdus.append((handle, [UInt8](encoding: pdu.count) { $0.append(pdu) }))
      }
    } catch { findings.add(ReplayDifference(.refused, packet, why: "\(error)")) }
    let events = host.takeEvents()
    for case .connected(let description) in events {
      links[description.handle] = PlayedLink(description.handle)
    }
    for (handle, pdu) in pdus {
      guard let answer = links[handle]?.receive(pdu, in: packet, &findings, notification), !answer.isEmpty
      else { continue }
      let span = answer.span
      _ = host.send(span, on: handle)
    }
    for event in events { take(event, packet, &findings) }
  }

  private func take(_ event: HCIHostEvent, _ packet: ReplayPacket, _ findings: inout ReplayFindings) {
    switch event {
    case .disconnected(let handle, _): links.removeValue(forKey: handle)?.finish(isLogOver: false, &findings)
    case .failed(let failure):
      findings.add(ReplayDifference(.refused, packet, why: "our host gives the controller up: \(failure)"))
      restart(&findings)
      bringUp()
    default: break
    }
  }

  /// Tells an answer without command, and knows which commands are left without answer.
  private func noteAnswer(_ packet: ReplayPacket, _ findings: inout ReplayFindings) {
    guard case .answer(let opcode) = ReplayRole(packet.octets), opcode.rawValue != 0 else { return }
    guard waiting[opcode]?.isEmpty == false else {
      findings.add(ReplayDifference(.unasked, packet))
      return
    }
    waiting[opcode]?.removeFirst()
  }

  /// The link of an ACL packet. One that is older than the log begins with the first frame of an LE channel.
  private func link(of packet: ReplayPacket) -> PlayedLink? {
    guard packet.octets.count > 4 else { return nil }
    let handle = ConnectionHandle(packet.octets.span.u16(at: 1))
    if let link = links[handle] { return link }
    guard packet.octets.count > 8, packet.octets[2] & 0x30 != 0x10,
      4...6 ~= packet.octets.span.u16(at: 7)
    else { return nil }
    feed(ReplayLink.start(handle, peer: nil, at: packet.time, adapter: packet.adapter).octets)
    _ = host.takeEvents()
    guard host.isUp(handle) else { return nil }
    let link = PlayedLink(handle, isOlder: true)
    links[handle] = link
    return link
  }

  // MARK: Our host

  /// Hears what ours says.
  private func pump(_ cause: ReplayPacket, _ findings: inout ReplayFindings) {
    while let octets = host.nextPacket(now: now) {
      switch HCIPacketType(rawValue: octets[0]) {
      case .command:
        if comparesCommands { commands.say(ReplayUnit(packets: [octets], cause: cause), &findings) }
      default:
        let handle = ConnectionHandle(octets.span.u16(at: 1))
        links[handle]?.say(octets, after: cause, &findings)
        if !facts.hasCompletions { feed(StandInController(peer: nil, handle: handle).completion) }
      }
    }
  }
}

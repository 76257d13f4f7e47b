import BLEReplay
import BLEStack
import BLEWire

/// Our host on one adapter of a log that is played.
final class PlayedHost {
  private let facts: ReplayFacts
  /// True if the log's commands are played. Otherwise the commands that our host sends by itself are unknown.
  private let comparesCommands: Bool
  private var host = HCIHost()
  private var isStarted = false
  private var commands = ReplayComparison()
  private var links: [ConnectionHandle: PlayedLink] = [:]
  /// Commands of the recorded host that have no reply yet, by opcode.
  private var waiting: [HCIOpcode: [ReplayPacket]] = [:]
  private var now = MonotonicTime(nanoseconds: 0)

  init(_ facts: ReplayFacts, comparesCommands: Bool) {
    self.facts = facts
    self.comparesCommands = comparesCommands
  }

  func isReset(_ packet: ReplayPacket) -> Bool {
    packet.direction == .hostToController && ReplayRole(packet.octets) == .command(.reset)
  }

  /// - Parameter beginsAsOurs: the packet is a Reset that starts the start-up sequence of our host.
  func play(
    _ packet: ReplayPacket, beginsAsOurs: Bool, _ findings: inout ReplayFindings,
    _ notification: LogPlayer.NotificationSink
  ) {
    // Clamped away from the ends of the range, because deadlines are added to it.
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

  /// Reports everything that is still open.
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

  /// Starts our host if the log has no start-up sequence, or that of another host. The stand-in controller
  /// uses the values that the log gives for the real one.
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

  /// Feeds an event that is not in the log. It is always well-formed.
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
        ReplayDifference(
          .missing, packet, why: "ringtap had not finished its start-up; a stand-in finishes it"))
      bringUp()
    }
    if commands.differ(unit, why: { _ in "ringtap responds by itself" }, &findings) { return }
    if opcode == .leRemoteConnectionParameterRequestReply
      || opcode == .leRemoteConnectionParameterRequestNegativeReply
    {
      findings.add(ReplayDifference(.missing, packet))
      return
    }
    guard host.submit(recorded: octets.extracting(1...)) else {
      findings.add(ReplayDifference(.missing, packet, why: "too many commands are queued for the controller"))
      return
    }
    pump(packet, &findings)
    if !commands.match(unit, &findings) {
      commands.wait(unit, why: "the controller has not allowed another command", &findings)
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
        ReplayDifference(.missing, packet, recorded: unit.packets, why: "too much is queued on the link"))
      return
    }
    pump(packet, &findings)
    if link.data.match(unit, &findings) || link.data.differ(unit, why: { Self.reason(unit, $0) }, &findings) {
      return
    }
    link.data.wait(unit, why: "the controller has not reported a free buffer", &findings)
  }

  /// Returns whether the recorded host initiated the unit rather than responding to the peer.
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
    if let ours, ours.payload == unit.payload { return "the same in different fragments" }
    switch unit.channelID {
    case ATT.channelID: return ours == nil ? "ringtap does not send it" : "another server database"
    case L2CAPFrame.FixedChannel.securityManager: return "ringtap does not pair in a replay"
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
      findings.add(ReplayDifference(.refused, packet, why: "ringtap gives up the controller: \(failure)"))
      restart(&findings)
      bringUp()
    default: break
    }
  }

  /// Reports a reply that has no command, and keeps track of the commands that have no reply yet.
  private func noteAnswer(_ packet: ReplayPacket, _ findings: inout ReplayFindings) {
    guard case .answer(let opcode) = ReplayRole(packet.octets), opcode.rawValue != 0 else { return }
    guard waiting[opcode]?.isEmpty == false else {
      findings.add(ReplayDifference(.unasked, packet))
      return
    }
    waiting[opcode]?.removeFirst()
  }

  /// Returns the link of an ACL packet. A link that was up before the log starts is added at its first frame
  /// on an LE channel.
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

  /// Collects the packets that our host sends.
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

import BLEHost
import BLEStack
import BLEWire

/// One link of a played host: what a `Connection` is to a live one, without its I/O.
final class PlayedLink {
  let handle: ConnectionHandle
  private var machine: ATTClientMachine
  private var server: LocalServer
  /// The request of the recorded host's client that waits for its answer.
  private var request: ReplayPacket?
  /// The recorded host's server has indicated.
  private var expectsConfirmation = false
  private var recorded = ReplayFragments()
  private var said = ReplayFragments()
  var data = ReplayComparison()

  /// - Parameter isOlder: than the log.
  init(_ handle: ConnectionHandle, isOlder: Bool = false) {
    self.handle = handle
    machine = ATTClientMachine(mayBeOlder: isOlder)
    machine.holdsDoubtful = false
    server = LocalServer(receiveMTU: ATT.maximumMTU)
  }

  /// A packet of the recorded host's.
  ///
  /// - Returns: the frame that it completes.
  func record(_ packet: ReplayPacket) -> ReplayUnit? {
    var unit = recorded.take(packet.octets)
    unit?.cause = packet
    return unit
  }

  /// A packet of ours.
  func say(_ octets: [UInt8], after cause: ReplayPacket, _ findings: inout ReplayFindings) {
    guard var unit = said.take(octets) else { return }
    unit.cause = cause
    data.say(unit, &findings)
  }

  // MARK: As client

  /// The recorded host's client or server sends a PDU that nobody asked for.
  func begin(_ unit: ReplayUnit, now: MonotonicTime, _ findings: inout ReplayFindings) {
    guard unit.channelID == ATT.channelID, let first = unit.payload.first else { return }
    let opcode = ATTOpcode(rawValue: first)
    switch opcode.kind {
    case .indication: expectsConfirmation = true
    case .request:
      if let request {
        findings.add(ReplayDifference(.unanswered, request))
        // One request at a time: the log has lost the answer, or that host broke the rule.
        _ = machine.expire(now: MonotonicTime(nanoseconds: .max))
      }
      if opcode == .exchangeMTURequest, unit.payload.count == ExchangeMTU.byteCount {
        // What that host offers is what it can take.
        let offered = Int(unit.payload.span.u16(at: 1))
        machine = ATTClientMachine(receiveMTU: max(ATT.defaultMTU, min(ATT.maximumMTU, offered)))
        machine.holdsDoubtful = false
      }
      machine.begin(unit.payload.span, now: now)
      request = unit.cause
    default: break
    }
  }

  /// A PDU of the peer's.
  ///
  /// - Returns: what ours answers; empty where nothing is due.
  func receive(
    _ pdu: [UInt8], in packet: ReplayPacket, _ findings: inout ReplayFindings,
    _ notification: LogPlayer.NotificationSink
  ) -> [UInt8] {
    let octets = pdu.span
    let reaction: ATTClientMachine.Reaction
    do throws(WireError) {
      reaction = try machine.receive(octets, now: MonotonicTime(nanoseconds: 0)) {
        notification(handle, $0, packet.time)
      }
    } catch {
      findings.add(ReplayDifference(.refused, packet, why: "\(error)"))
      return []
    }
    switch reaction {
    case .none, .held: return []
    case .confirm: return [HandleValueIndication.confirmation]
    case .completed, .refused:
      request = nil
      return []
    case .failed(let error):
      request = nil
      findings.add(ReplayDifference(.refused, packet, why: "no answer to what was asked: \(error)"))
      return []
    case .serve: return server.answer(octets, mtu: machine.mtu)
    case .stray:
      noteStray(pdu, packet, &findings)
      return []
    }
  }

  private func noteStray(_ pdu: [UInt8], _ packet: ReplayPacket, _ findings: inout ReplayFindings) {
    if pdu == [HandleValueIndication.confirmation], expectsConfirmation {
      expectsConfirmation = false
      return
    }
    let error = WireError(.att, offset: 0, .unexpectedOpcode(pdu.first ?? 0))
    findings.add(ReplayDifference(.unasked, packet, why: "\(error)"))
  }

  /// The link is gone, or the log.
  func finish(isLogOver: Bool, _ findings: inout ReplayFindings) {
    data.finish(&findings)
    if isLogOver, let request { findings.add(ReplayDifference(.unanswered, request, why: "the log ends")) }
    request = nil
  }
}

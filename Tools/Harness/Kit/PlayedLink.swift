import BLEHost
import BLEReplay
import BLEStack
import BLEWire

/// One link of a played host: a `Connection` without its I/O.
final class PlayedLink {
  let handle: ConnectionHandle
  private var machine: ATTClientMachine
  private var server: LocalServer
  /// The recorded client's pending request.
  private var request: ReplayPacket?
  /// True while the recorded server's indication awaits its confirmation.
  private var expectsConfirmation = false
  private var recorded = ReplayFragments()
  private var said = ReplayFragments()
  var data = ReplayComparison()

  /// - Parameter isOlder: the link was up before the log starts.
  init(_ handle: ConnectionHandle, isOlder: Bool = false) {
    self.handle = handle
    machine = ATTClientMachine(mayBeOlder: isOlder)
    machine.holdsDoubtful = false
    server = LocalServer(receiveMTU: ATT.maximumMTU)
  }

  /// Adds a packet of the recorded host.
  ///
  /// - Returns: the frame that the packet completes, if any.
  func record(_ packet: ReplayPacket) -> ReplayUnit? {
    var unit = recorded.take(packet.octets)
    unit?.cause = packet
    return unit
  }

  /// Adds a packet of our host.
  func say(_ octets: [UInt8], after cause: ReplayPacket, _ findings: inout ReplayFindings) {
    guard var unit = said.take(octets) else { return }
    unit.cause = cause
    data.say(unit, &findings)
  }

  // MARK: As client

  /// Handles a PDU that the recorded host's client or server initiated.
  func begin(_ unit: ReplayUnit, now: MonotonicTime, _ findings: inout ReplayFindings) {
    guard unit.channelID == ATT.channelID, let first = unit.payload.first else { return }
    let opcode = ATTOpcode(rawValue: first)
    switch opcode.kind {
    case .indication: expectsConfirmation = true
    case .request:
      if let request {
        findings.add(ReplayDifference(.unanswered, request))
        // Only one request may be pending. Either the log lost the response or the recorded host broke the
        // rule.
        _ = machine.expire(now: MonotonicTime(nanoseconds: .max))
      }
      if opcode == .exchangeMTURequest, unit.payload.count == ExchangeMTU.byteCount {
        // The MTU that the recorded host offers is the size it can receive.
        let offered = Int(unit.payload.span.u16(at: 1))
        machine = ATTClientMachine(receiveMTU: max(ATT.defaultMTU, min(ATT.maximumMTU, offered)))
        machine.holdsDoubtful = false
      }
      machine.begin(unit.payload.span, now: now)
      request = unit.cause
    default: break
    }
  }

  /// Handles a PDU from the peer.
  ///
  /// - Returns: the response of our host; empty if none is due.
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
      findings.add(ReplayDifference(.refused, packet, why: "no response to the request: \(error)"))
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

  /// Ends the comparison when the link is disconnected or the log ends.
  func finish(isLogOver: Bool, _ findings: inout ReplayFindings) {
    data.finish(&findings)
    if isLogOver, let request { findings.add(ReplayDifference(.unanswered, request, why: "the log ends")) }
    request = nil
  }
}

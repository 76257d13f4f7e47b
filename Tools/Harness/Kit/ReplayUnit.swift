import BLEReplay
import BLEWire

/// A host's unit of output: a command, or an L2CAP frame with its fragments.
struct ReplayUnit {
  /// Packets with the H4 type byte first.
  var packets: [[UInt8]]
  /// Channel and payload of a frame.
  var channelID: UInt16 = 0
  var payload: [UInt8] = []
  /// The log packet that completes the unit. For output of our host, the log packet that preceded it.
  var cause: ReplayPacket?
  /// True once the unit was reported as held back.
  var isHeldBack = false

  var opcode: HCIOpcode? {
    if case .command(let opcode) = ReplayRole(packets[0]) { opcode } else { nil }
  }

  /// Returns whether both units serve the same purpose.
  func isCounterpart(of other: ReplayUnit) -> Bool {
    if let opcode {
      let replies: [HCIOpcode?] = [
        .leRemoteConnectionParameterRequestReply, .leRemoteConnectionParameterRequestNegativeReply,
      ]
      return opcode == other.opcode || replies.contains(opcode) && replies.contains(other.opcode)
    }
    guard other.opcode == nil, channelID == other.channelID, let first = payload.first,
      let otherFirst = other.payload.first
    else { return false }
    guard channelID == ATT.channelID else { return true }
    return ATTOpcode(rawValue: first).kind == ATTOpcode(rawValue: otherFirst).kind
  }
}

/// Reassembles the fragments of one direction of one link, and keeps them.
struct ReplayFragments {
  private var packets: [[UInt8]] = []
  private var frame: [UInt8] = []

  /// - Parameter packet: an ACL packet with its H4 type byte.
  /// - Returns: the frame that the packet completes, if any.
  mutating func take(_ packet: [UInt8]) -> ReplayUnit? {
    guard packet.count >= 1 + ACLPacket.headerByteCount else { return nil }
    if packet[2] & 0x30 != 0x10 {
      packets = []
      frame = []
    } else if packets.isEmpty {
      return nil
    }
    packets.append(packet)
    frame += packet[(1 + ACLPacket.headerByteCount)...]
    guard frame.count >= L2CAPFrame.headerByteCount,
      frame.count >= L2CAPFrame.headerByteCount + Int(frame.span.u16(at: 0))
    else { return nil }
    defer {
      packets = []
      frame = []
    }
    return ReplayUnit(
      packets: packets, channelID: frame.span.u16(at: 2), payload: Array(frame[L2CAPFrame.headerByteCount...])
    )
  }
}

/// Compares what the recorded host and our host send to the controller.
struct ReplayComparison {
  /// Maximum number of pending units on either side; the oldest is reported as a difference.
  private static let limit = 256

  /// Units that the recorded host sent and for which our host still lacks controller buffers.
  private(set) var recorded: [ReplayUnit] = []
  /// Units that our host sent and the recorded host has not sent yet.
  private(set) var ours: [ReplayUnit] = []

  /// Adds a unit that our host sends.
  mutating func say(_ unit: ReplayUnit, _ findings: inout ReplayFindings) {
    if let index = recorded.firstIndex(where: { $0.packets == unit.packets }) {
      recorded.remove(at: index)
      findings.reproduced += unit.packets.count
      return
    }
    if ours.count == Self.limit { Self.tell(ours.removeFirst(), &findings) }
    ours.append(unit)
  }

  /// Adds a unit that the recorded host sends.
  ///
  /// - Returns: whether our host sent the same bytes.
  mutating func match(_ unit: ReplayUnit, _ findings: inout ReplayFindings) -> Bool {
    guard let index = ours.firstIndex(where: { $0.packets == unit.packets }) else { return false }
    ours.remove(at: index)
    findings.reproduced += unit.packets.count
    return true
  }

  /// Reports a unit of the recorded host for which our host sent different bytes.
  mutating func differ(_ unit: ReplayUnit, why: (ReplayUnit) -> String?, _ findings: inout ReplayFindings)
    -> Bool
  {
    guard let index = ours.firstIndex(where: { $0.isCounterpart(of: unit) }) else { return false }
    let said = ours.remove(at: index)
    findings.add(
      ReplayDifference(.different, unit.cause, recorded: unit.packets, ours: said.packets, why: why(said)))
    return true
  }

  /// Adds a unit of the recorded host that our host cannot send yet for lack of controller buffers.
  mutating func wait(_ unit: ReplayUnit, why: String, _ findings: inout ReplayFindings) {
    findings.add(ReplayDifference(.heldBack, unit.cause, recorded: unit.packets, why: why))
    if recorded.count == Self.limit { recorded.removeFirst() }
    recorded.append(unit)
  }

  /// Ends the comparison. Remaining units of our host are reported as differences.
  mutating func finish(_ findings: inout ReplayFindings) {
    for unit in ours { Self.tell(unit, &findings) }
    ours = []
    recorded = []
  }

  private static func tell(_ unit: ReplayUnit, _ findings: inout ReplayFindings) {
    let place = unit.cause.map { "after packet \($0.index)" }
    findings.add(ReplayDifference(.unexpected, nil, recorded: nil, ours: unit.packets, why: place))
  }
}

extension ReplayDifference {
  init(
    _ kind: Kind, _ packet: ReplayPacket?, recorded: [[UInt8]]?, ours: [[UInt8]]? = nil, why: String? = nil
  ) {
    self.init(
      kind: kind, index: packet?.index, recorded: recorded.map { Self.joined($0) },
      ours: ours.map { Self.joined($0) }, why: why)
  }

  /// Joins fragments: the first with its headers, the others without.
  private static func joined(_ packets: [[UInt8]]) -> [UInt8] {
    (packets.first ?? []) + packets.dropFirst().flatMap { $0.dropFirst(1 + ACLPacket.headerByteCount) }
  }
}

import BLEWire

/// What a host says in one go: a command, or a frame with its fragments.
struct ReplayUnit {
  /// H4 type octet first.
  var packets: [[UInt8]]
  /// Channel and payload of a frame.
  var channelID: UInt16 = 0
  var payload: [UInt8] = []
  /// The packet of the log that it ends with; for what ours says, the one that it came after.
  var cause: ReplayPacket?
  /// It was told that ours waits for room.
  var isHeldBack = false

  var opcode: HCIOpcode? {
    if case .command(let opcode) = ReplayRole(packets[0]) { opcode } else { nil }
  }

  /// Whether both serve the same purpose.
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

/// Puts the fragments of one direction of one link together, and keeps them.
struct ReplayFragments {
  private var packets: [[UInt8]] = []
  private var frame: [UInt8] = []

  /// - Parameter packet: an ACL packet with its H4 type octet.
  /// - Returns: the frame that it completes.
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

/// What the recorded host and ours say on one way to the controller, side by side.
struct ReplayComparison {
  /// What may wait on either side; older things are told as differences.
  private static let limit = 256

  /// The recorded host has sent them, ours waits for room.
  private(set) var recorded: [ReplayUnit] = []
  /// Ours has said them, the recorded host not yet.
  private(set) var ours: [ReplayUnit] = []

  /// Ours says something.
  mutating func say(_ unit: ReplayUnit, _ findings: inout ReplayFindings) {
    if let index = recorded.firstIndex(where: { $0.packets == unit.packets }) {
      recorded.remove(at: index)
      findings.reproduced += unit.packets.count
      return
    }
    if ours.count == Self.limit { Self.tell(ours.removeFirst(), &findings) }
    ours.append(unit)
  }

  /// The recorded host says something.
  ///
  /// - Returns: whether ours has said the same.
  mutating func match(_ unit: ReplayUnit, _ findings: inout ReplayFindings) -> Bool {
    guard let index = ours.firstIndex(where: { $0.packets == unit.packets }) else { return false }
    ours.remove(at: index)
    findings.reproduced += unit.packets.count
    return true
  }

  /// The recorded host said what ours should have said otherwise.
  mutating func differ(_ unit: ReplayUnit, why: (ReplayUnit) -> String?, _ findings: inout ReplayFindings)
    -> Bool
  {
    guard let index = ours.firstIndex(where: { $0.isCounterpart(of: unit) }) else { return false }
    let said = ours.remove(at: index)
    findings.add(
      ReplayDifference(.different, unit.cause, recorded: unit.packets, ours: said.packets, why: why(said)))
    return true
  }

  /// The recorded host said what ours wants to say, but has no room for.
  mutating func wait(_ unit: ReplayUnit, why: String, _ findings: inout ReplayFindings) {
    findings.add(ReplayDifference(.heldBack, unit.cause, recorded: unit.packets, why: why))
    if recorded.count == Self.limit { recorded.removeFirst() }
    recorded.append(unit)
  }

  /// Nothing more will be said: what is left are differences.
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

  /// Fragments one after the other: the first with its headers, of the others the data.
  private static func joined(_ packets: [[UInt8]]) -> [UInt8] {
    (packets.first ?? []) + packets.dropFirst().flatMap { $0.dropFirst(1 + ACLPacket.headerByteCount) }
  }
}

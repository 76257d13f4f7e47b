import BLEEmulation
import BLEHost
import BLEWire
import ColmiRing
import Recording
import SensorSessions

/// Accounts for each raw frame that a ring has sent.
///
/// The rings count the frames that they send. This type records each frame where it is lost, or where it
/// becomes a sample. Nothing is inferred: if a frame is recorded nowhere, the two counts differ.
final class FrameLedger: @unchecked Sendable {
  // Needs no lock: used on the event loop's thread only.

  enum Place: String, CaseIterable {
    /// Queued in the ring when the link ended.
    case linkEnd
    case silentController
    /// Left the controller while there was no host.
    case noHost
    /// Dropped, damaged or truncated between controller and host.
    case transportDropped, transportDamaged, transportEnded
    /// Reached the host after the bearer had ended.
    case afterEnd
    case unclaimed
    /// Sent by the ring with a wrong checksum, or truncated.
    case malformed
    case other, repeated
  }

  private(set) var received = 0
  /// Extra copies caused by a fault between controller and host.
  private(set) var duplicated = 0
  private(set) var lost: [Place: Int] = [:]
  /// Number of samples of receptions that have ended.
  private var formerSamples = 0
  private var receptions: [SampleSink<RingRawReading>] = []
  /// Whether the next packet is a raw frame that was damaged in transit.
  private var isDamaged = false
  /// A frame that was recorded nowhere, or more than once.
  private(set) var fault: String?
  /// Whether the host has a link with this handle.
  var isUp: (ConnectionHandle) -> Bool = { _ in false }

  var lostCount: Int { lost.values.reduce(0, +) }

  /// Whether both counts agree for all frames that are not in transit.
  func isBalanced(sent: Int) -> Bool { sent + duplicated == received + lostCount }

  func begin(_ reception: SampleSink<RingRawReading>) { receptions.append(reception) }

  func end(_ reception: SampleSink<RingRawReading>) {
    receptions.removeAll { $0 === reception }
    formerSamples += reception.counts.values
  }

  private func lose(_ place: Place, _ count: Int = 1) { lost[place, default: 0] += count }

  // MARK: Places

  /// Records a frame that was lost in the emulation.
  ///
  /// - Parameter octets: an L2CAP frame, or an ACL packet without its H4 type byte.
  func lostInEmulation(_ loss: FrameLoss, _ octets: Span<UInt8>) {
    switch loss {
    case .linkEnd: if Self.isRaw(frame: octets) { lose(.linkEnd) }
    case .silentController:
      if octets.count > 4, Self.isRaw(frame: octets.extracting(4...)) { lose(.silentController) }
    }
  }

  func left(_ packet: Span<UInt8>, hasHost: Bool) {
    if !hasHost, Self.isRaw(packet: packet) { lose(.noHost) }
  }

  func hit(_ action: PacketFault.Action, _ packet: Span<UInt8>) {
    guard Self.isRaw(packet: packet) else { return }
    switch action {
    case .drop: lose(.transportDropped)
    case .duplicate: duplicated += 1
    case .corrupt, .truncate: isDamaged = true
    case .end: lose(.transportEnded)
    case .delay, .reorder: break
    }
  }

  /// Records a packet that reaches the host.
  ///
  /// - Parameter deliver: passes the packet to the host, which delivers all of its frames.
  func arrived(_ packet: Span<UInt8>, _ deliver: () -> Void) {
    let isDamaged = isDamaged
    self.isDamaged = false
    guard isDamaged || Self.isRaw(packet: packet) else { return deliver() }
    let before = samples
    let countsBefore = counts
    deliver()
    switch samples - before {
    case 1: received += 1
    case 0 where isDamaged: lose(.transportDamaged)
    case 0: lose(place(countsBefore, ConnectionHandle(packet.u16(at: 1) & 0x0FFF)))
    case let count: fault = "\(count) samples came of one frame"
    }
  }

  private func place(_ before: SampleCounts, _ handle: ConnectionHandle) -> Place {
    let after = counts
    if after.malformed > before.malformed { return .malformed }
    if after.other > before.other { return .other }
    if after.repeated > before.repeated { return .repeated }
    return isUp(handle) ? .unclaimed : .afterEnd
  }

  private var samples: Int { receptions.reduce(0) { $0 + $1.counts.values } }

  private var counts: SampleCounts {
    receptions.reduce(into: SampleCounts()) { sum, reception in
      let counts = reception.counts
      sum.malformed += counts.malformed
      sum.other += counts.other
      sum.repeated += counts.repeated
    }
  }

  /// Number of samples that the sinks have counted, independently of `received`.
  var sampleCount: Int { formerSamples + samples }

  // MARK: Raw frames

  /// Whether a packet, with its H4 type byte, contains a raw frame. The rings have the lowest handles.
  private static func isRaw(packet: Span<UInt8>) -> Bool {
    guard packet.count > 5, packet[0] == HCIPacketType.acl.rawValue, packet[2] & 0x30 != 0x10,
      packet.u16(at: 1) & 0x0FFF < 0x0E00
    else { return false }
    return isRaw(frame: packet.extracting(5...))
  }

  /// Whether a frame contains a raw frame: after L2CAP header, opcode and handle comes the ring's own opcode.
  private static func isRaw(frame: Span<UInt8>) -> Bool {
    frame.count > 7 && frame.u16(at: 2) == ATT.channelID
      && frame[4] == ATTOpcode.handleValueNotification.rawValue && frame[7] == RingCommand.rawStreamOpcode
  }
}

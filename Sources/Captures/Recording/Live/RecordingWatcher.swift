import BLEHost
import BLELinux
import BLEWire
package import ColmiRing
package import SensorSessions

/// Somebody who watches a recording: a view in a terminal, the status of a daemon, whoever gets its samples at once.
///
/// The writer's thread tells what it writes; the receive thread knows nothing of it.
package protocol RecordingWatcher: AnyObject, Sendable {
  /// - Parameter counts: what has come and what was lost; it does not wait.
  func follow(_ session: DeviceSession, _ counts: @escaping @Sendable () -> ReceiveCounts)
  /// The stream runs, for the first time or again.
  func begin()
  /// What a sensor tells of itself.
  func note(_ facts: SensorFacts)
  /// A link was lost, or the stream runs again on another one. The writer's thread begins a turn afterwards: samples that came
  /// before are among those it takes then.
  func take(_ gap: SessionGap, _ change: GapChange)
  /// The recording is over: the writer's thread has told all.
  ///
  /// - Parameters:
  ///   - reason: as in `session.json`, or what kept it from starting.
  ///   - lost: what had come and was lost.
  func end(_ reason: String, lost: Int)

  // On the writer's thread:

  /// For how long, in milliseconds, samples may gather before they are taken; `nil`: for as long as costs least. Asked at each
  /// turn.
  var gatherMilliseconds: Int? { get }
  /// Rows come until `endTurn`: those of all that waits, and more.
  func beginTurn()
  func endTurn()

  /// A sample, behind its rows.
  func take(sample: some BitwiseCopyable & Sendable)
  func open(_ tables: [RecordedTable])
  /// The columns of a table that was opened without.
  func open(_ table: Int, with columns: [RecordedColumn])
  func take(_ row: some RecordedRow, _ table: Int)
  func take(_ placed: PlacedTick)
  /// A PDU of the packet log.
  func take(_ pdu: Span<UInt8>)
  /// A few times a second at most.
  func take(_ ticks: TickReport?, byteCount: Int)
}

/// What is told of a gap.
package enum GapChange: Hashable, Sendable {
  case lost
  /// The stream runs again.
  case back
}

extension RecordingWatcher {
  package func take(_ gap: SessionGap, _ change: GapChange) {}
  package func end(_ reason: String, lost: Int) {}
  package var gatherMilliseconds: Int? { nil }
  package func beginTurn() {}
  package func endTurn() {}
  package func take(sample: some BitwiseCopyable & Sendable) {}
}

/// What came of a device, and what of that was lost.
package struct ReceiveCounts: Hashable, Sendable {
  /// Raw samples of a ring, values of a sensor.
  package var samples = 0
  /// Notifications.
  package var received = 0
  package var malformed = 0
  package var kernelQueueDrops = 0
  package var sampleQueueDrops = 0
  package var packetLogDrops = 0

  package init() {}

  package var lost: Int { kernelQueueDrops + sampleQueueDrops + packetLogDrops }
}

extension ReceiveCounts {
  init(_ counts: SampleCounts, _ packets: PacketQueue) {
    samples = counts.values
    received = counts.received
    malformed = counts.malformed
    sampleQueueDrops = counts.dropped
    packetLogDrops = packets.dropped
  }
}

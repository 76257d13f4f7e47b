import BLECore
import BLEHost
import BLELinux
package import ColmiRing
package import SensorSessions

/// Somebody who watches a recording: a view in a terminal, the status of a daemon.
///
/// The writer's thread tells what it writes; the receive thread knows nothing of it.
package protocol RecordingWatcher: AnyObject, Sendable {
  /// - Parameter counts: what has come and what was lost; it does not wait.
  func follow(_ session: DeviceSession, _ counts: @escaping @Sendable () -> ReceiveCounts)
  /// The stream runs, for the first time or again.
  func begin()
  /// What a sensor tells of itself.
  func note(_ facts: SensorFacts)

  // On the writer's thread:

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

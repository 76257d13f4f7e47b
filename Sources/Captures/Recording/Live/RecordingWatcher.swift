import BLEHost
import BLELinux
import BLEWire
package import ColmiRing
package import SensorSessions

/// Observer of a recording: the live view of a terminal, the status of a daemon, or a reader of live samples.
///
/// The writer's thread calls it with the written data. The receive thread is not involved.
package protocol RecordingWatcher: AnyObject, Sendable {
  /// Follows the session of the recording.
  ///
  /// - Parameter counts: returns the numbers of received and lost data without blocking.
  func follow(_ session: DeviceSession, _ counts: @escaping @Sendable () -> ReceiveCounts)
  /// Called when the stream starts, for the first time or again.
  func begin()
  /// Called when the sensor has reported facts about itself.
  func note(_ facts: SensorFacts)
  /// Called when a link was lost, or the stream restarted on another link. The writer's thread then begins a
  /// turn that processes the samples received before the change.
  func take(_ gap: SessionGap, _ change: GapChange)
  /// Called when the recording has ended and the writer's thread has made all other calls.
  ///
  /// - Parameters:
  ///   - reason: reason in `session.json`, or the error that prevented the start.
  ///   - lost: number of items that were received and then lost.
  func end(_ reason: String, lost: Int)

  // Called on the writer's thread:

  /// Maximum time in milliseconds that samples may wait in the queue; `nil` for the most efficient time. Read
  /// in each turn.
  var gatherMilliseconds: Int? { get }
  /// Begins a turn. All data that is queued now is passed on before `endTurn`.
  func beginTurn()
  func endTurn()

  /// Receives a sample. The rows of the sample have been passed on before.
  func take(sample: some BitwiseCopyable & Sendable)
  func open(_ tables: [RecordedTable])
  /// Sets the columns of a table that was opened without columns.
  func open(_ table: Int, with columns: [RecordedColumn])
  func take(_ row: some RecordedRow, _ table: Int)
  func take(_ placed: PlacedTick)
  /// Receives a PDU of the packet log.
  func take(_ pdu: Span<UInt8>)
  /// Receives the state of the sensor's clock and the number of bytes written. Called at most a few times a
  /// second.
  func take(_ ticks: TickReport?, byteCount: Int)
}

/// Kind of change of a gap.
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

/// Numbers of received and lost data.
package struct ReceiveCounts: Hashable, Sendable {
  /// Number of raw samples of a ring, or of values of another sensor.
  package var samples = 0
  /// Number of notifications.
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

/// Forwards a recording to several watchers.
package final class RecordingWatchers: RecordingWatcher {
  private let watchers: [any RecordingWatcher]

  private init(_ watchers: [any RecordingWatcher]) { self.watchers = watchers }

  /// Combines several watchers.
  ///
  /// - Returns: `nil` if the array is empty. A single watcher is returned directly, without forwarding.
  package static func of(_ watchers: [any RecordingWatcher]) -> (any RecordingWatcher)? {
    watchers.count > 1 ? RecordingWatchers(watchers) : watchers.first
  }

  // Iterates over indices, because an iterator allocates on each step in unoptimised builds.

  package func follow(_ session: DeviceSession, _ counts: @escaping @Sendable () -> ReceiveCounts) {
    for place in watchers.indices { watchers[place].follow(session, counts) }
  }

  package func begin() { for place in watchers.indices { watchers[place].begin() } }

  package func note(_ facts: SensorFacts) { for place in watchers.indices { watchers[place].note(facts) } }

  package func take(_ gap: SessionGap, _ change: GapChange) {
    for place in watchers.indices { watchers[place].take(gap, change) }
  }

  package func end(_ reason: String, lost: Int) {
    for place in watchers.indices { watchers[place].end(reason, lost: lost) }
  }

  // MARK: The writer's thread

  /// Shortest time that any watcher requires.
  package var gatherMilliseconds: Int? {
    var least: Int?
    for place in watchers.indices {
      guard let wanted = watchers[place].gatherMilliseconds else { continue }
      least = min(least ?? wanted, wanted)
    }
    return least
  }

  package func beginTurn() { for place in watchers.indices { watchers[place].beginTurn() } }

  package func endTurn() { for place in watchers.indices { watchers[place].endTurn() } }

  package func take(sample: some BitwiseCopyable & Sendable) {
    for place in watchers.indices { watchers[place].take(sample: sample) }
  }

  package func open(_ tables: [RecordedTable]) {
    for place in watchers.indices { watchers[place].open(tables) }
  }

  package func open(_ table: Int, with columns: [RecordedColumn]) {
    for place in watchers.indices { watchers[place].open(table, with: columns) }
  }

  package func take(_ row: some RecordedRow, _ table: Int) {
    for place in watchers.indices { watchers[place].take(row, table) }
  }

  package func take(_ placed: PlacedTick) {
    for place in watchers.indices { watchers[place].take(placed) }
  }

  package func take(_ pdu: Span<UInt8>) { for place in watchers.indices { watchers[place].take(pdu) } }

  package func take(_ ticks: TickReport?, byteCount: Int) {
    for place in watchers.indices { watchers[place].take(ticks, byteCount: byteCount) }
  }
}

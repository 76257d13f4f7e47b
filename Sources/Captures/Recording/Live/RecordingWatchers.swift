package import ColmiRing
package import SensorSessions

/// Forwards a recording to several watchers.
package final class RecordingWatchers: RecordingWatcher {
  private let watchers: [any RecordingWatcher]

  private init(_ watchers: [any RecordingWatcher]) { self.watchers = watchers }

  /// - Returns: `nil` for an empty array, and the only watcher of an array of one, to avoid the cost of
  ///   forwarding.
  package static func of(_ watchers: [any RecordingWatcher]) -> (any RecordingWatcher)? {
    watchers.count > 1 ? RecordingWatchers(watchers) : watchers.first
  }

  // Iterates over indices: in unoptimised builds, each step of an iterator allocates.

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

  /// The shortest time that any watcher asks for.
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

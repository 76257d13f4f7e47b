package import ColmiRing
package import Recording
package import SensorSessions
import Synchronization

/// Delivers the rows of one recording to outputs.
///
/// A row is encoded into cells once for all outputs, in reused memory. Link events come from other threads.
/// They are queued until the thread that writes the files runs again, so that they follow the rows that
/// arrived before them.
package final class SampleTap: RecordingWatcher {
  private struct Table: Sendable {
    var description: SampleTable
    var cells: WordRow

    init(_ description: SampleTable) {
      self.description = description
      cells = WordRow(description.columns, wordCapacity: description.columns.count)
    }
  }

  /// State used by the thread that writes the files; at the end also by the thread that ends the recording.
  private struct State: Sendable {
    var tables: [Table] = []
    var rows = 0
    /// Events that were queued before this turn.
    var due: [SampleEvent] = []
  }

  private let outputs: [any SampleOutput]
  private let state = Mutex(State())
  private let events = Mutex<[SampleEvent]>([])
  /// Whether events are queued. Lets a turn without events avoid the lock.
  private let hasEvents = Atomic<Bool>(false)

  /// - Parameter outputs: one or more outputs for the recording's device.
  package init(into outputs: [any SampleOutput]) { self.outputs = outputs }

  package func take(_ gap: SessionGap, _ change: GapChange) {
    events.withLock { $0.append(change == .lost ? .lost(gap) : .back(gap)) }
    hasEvents.store(true, ordering: .releasing)
  }

  package func end(_ reason: String, lost: Int) {
    beginTurn()
    state.withLock { $0.due.append(.end(reason: reason, rows: $0.rows, lost: lost)) }
    endTurn()
  }

  package func follow(_ session: DeviceSession, _ counts: @escaping @Sendable () -> ReceiveCounts) {}
  package func begin() {}
  package func note(_ facts: SensorFacts) {}

  // MARK: The writer's thread

  package var gatherMilliseconds: Int? {
    var least: Int?
    for place in outputs.indices {
      guard let wanted = outputs[place].gatherMilliseconds else { continue }
      least = min(least ?? wanted, wanted)
    }
    return least
  }

  package func beginTurn() {
    guard hasEvents.exchange(false, ordering: .acquiring) else { return }
    let events = events.withLock { events in
      defer { events = [] }
      return events
    }
    state.withLock { $0.due += events }
  }

  package func endTurn() {
    let due = state.withLock { state in
      defer { if !state.due.isEmpty { state.due = [] } }
      return state.due
    }
    for place in outputs.indices {
      for event in due { outputs[place].take(event) }
      outputs[place].endTurn()
    }
  }

  package func open(_ tables: [RecordedTable]) {
    state.withLock { state in
      state.tables = tables.enumerated().map { number, table in
        Table(SampleTable(number: number, name: table.name, columns: table.columns, rateHz: table.rateHz))
      }
    }
    for (number, table) in tables.enumerated() where !table.columns.isEmpty { open(number) }
  }

  package func open(_ table: Int, with columns: [RecordedColumn]) {
    state.withLock { state in
      var description = state.tables[table].description
      description.columns = columns
      state.tables[table] = Table(description)
    }
    open(table)
  }

  private func open(_ number: Int) {
    let table = state.withLock { $0.tables[number].description }
    for output in outputs { output.open(table) }
  }

  package func take(_ row: some RecordedRow, _ table: Int) {
    state.withLock { state in
      state.rows += 1
      state.tables[table].cells.removeAll()
      row.encode(into: &state.tables[table].cells)
      state.tables[table].cells.endRow()
      for place in outputs.indices { outputs[place].take(state.tables[table].cells.words, of: table) }
    }
  }

  package func take(_ placed: PlacedTick) {}
  package func take(_ pdu: Span<UInt8>) {}
  package func take(_ ticks: TickReport?, byteCount: Int) {}
}

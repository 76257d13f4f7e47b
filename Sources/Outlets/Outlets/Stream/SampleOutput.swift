package import BLEWire
package import ColmiRing
package import Recording
package import SensorSessions
import Synchronization

/// Live destination of one device's samples, in addition to the files: lines for other programs, LSL streams,
/// or a database.
///
/// An output receives the tables and then their rows, with the names and columns of the recording's files.
/// `SampleTap` passes the rows of a recording to the output. Calls are sequential, and most calls come from
/// the thread that writes the files. An implementation must not block this thread, because blocking delays
/// the recording.
package protocol SampleOutput: AnyObject, Sendable {
  /// Time in milliseconds for which samples may be queued before delivery; `nil` for the most efficient time,
  /// a quarter of a second. The property is read in each turn.
  var gatherMilliseconds: Int? { get }
  /// Announces a table before its first row, and again if its columns change.
  func open(_ table: SampleTable)
  /// Delivers a row of the table with this number.
  ///
  /// - Parameter cells: one per column, encoded as `TableCell`. The array is reused, so do not keep it.
  func take(_ cells: [UInt64], of table: Int)
  /// Delivers an event, after the rows that precede it.
  func take(_ event: SampleEvent)
  /// Ends a turn, which is one pass of the thread that writes the files. All pending samples have been
  /// delivered and may be sent.
  func endTurn()
}

/// A device whose samples are delivered.
package struct SampleDevice: Hashable, Sendable {
  package var address: DeviceAddress
  /// The device kind that commands use, such as `heart-rate`.
  package var kind: String
  /// The advertised name, if known, as untrusted text.
  package var name: String?

  package init(_ address: DeviceAddress, kind: String, name: String? = nil) {
    (self.address, self.kind, self.name) = (address, kind, name)
  }
}

/// The rows of a recording that are delivered. A ring's values are in one table per stream and, up to 8 s
/// later, also in the table of ticks.
package enum SampleRows: String, CaseIterable, Hashable, Sendable {
  /// The table of each stream.
  case tables
  /// The table of ticks; for a device without ticks, the table of each stream.
  case ticks
  /// The tables of the streams and the table of ticks.
  case all

  func selects(_ table: RecordedTable, among tables: [RecordedTable]) -> Bool {
    switch self {
    case .tables: table.content == .samples
    case .ticks: table.content == .derived || !tables.contains { $0.content == .derived }
    case .all: true
    }
  }
}

/// Description of a table.
package struct SampleTable: Hashable, Sendable {
  /// Index among the device's tables, from 0.
  package var number: Int
  /// Name in `session.json`.
  package var name: String
  package var columns: [RecordedColumn]
  /// Requested sample rate in hertz; `nil` if the rate is irregular.
  package var rateHz: Double?

  package init(number: Int, name: String, columns: [RecordedColumn], rateHz: Double? = nil) {
    (self.number, self.name, self.columns, self.rateHz) = (number, name, columns, rateHz)
  }
}

/// Events of a device's recording that are not rows.
package enum SampleEvent: Sendable {
  /// The link was lost.
  case lost(SessionGap)
  /// The link is back and the stream has resumed. The first rows of the new link may precede this event.
  case back(SessionGap)
  /// The recording ended.
  ///
  /// - Parameters:
  ///   - reason: the reason from `session.json`, or the error that prevented the start.
  ///   - rows: number of rows that were delivered.
  ///   - lost: number of samples that were received but are not in any file.
  case end(reason: String, rows: Int, lost: Int)
}

/// Delivers the rows of one recording to outputs.
///
/// A row is encoded into cells once for all outputs, in reused memory. Link events come from other threads. A
/// link event is queued until the thread that writes the files runs again, so that the event follows earlier
/// rows.
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
    /// Index in `tables` of each of the recording's tables; `nil` for a table that is not delivered.
    var places: [Int?] = []
    var rows = 0
    /// Events that were queued before this turn.
    var due: [SampleEvent] = []
  }

  private let outputs: [any SampleOutput]
  private let rows: SampleRows
  private let state = Mutex(State())
  private let events = Mutex<[SampleEvent]>([])
  /// Whether events are queued. A turn without events avoids the lock.
  private let hasEvents = Atomic<Bool>(false)

  /// Creates a tap of a recording.
  ///
  /// - Parameter outputs: one or more outputs for the recording's device.
  package init(into outputs: [any SampleOutput], _ rows: SampleRows = .tables) {
    (self.outputs, self.rows) = (outputs, rows)
  }

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
    let delivered = tables.indices.filter { rows.selects(tables[$0], among: tables) }
    state.withLock { state in
      state.tables = delivered.enumerated().map { number, place in
        let table = tables[place]
        return Table(
          SampleTable(number: number, name: table.name, columns: table.columns, rateHz: table.rateHz))
      }
      state.places = tables.indices.map { delivered.firstIndex(of: $0) }
    }
    for (number, place) in delivered.enumerated() where !tables[place].columns.isEmpty { open(number) }
  }

  package func open(_ table: Int, with columns: [RecordedColumn]) {
    let number = state.withLock { state in
      state.places[table].map { number in
        var description = state.tables[number].description
        description.columns = columns
        state.tables[number] = Table(description)
        return number
      }
    }
    if let number { open(number) }
  }

  private func open(_ number: Int) {
    let table = state.withLock { $0.tables[number].description }
    for output in outputs { output.open(table) }
  }

  package func take(_ row: some RecordedRow, _ table: Int) {
    state.withLock { state in
      guard let number = state.places[table] else { return }
      state.rows += 1
      state.tables[number].cells.removeAll()
      row.encode(into: &state.tables[number].cells)
      state.tables[number].cells.endRow()
      for place in outputs.indices { outputs[place].take(state.tables[number].cells.words, of: number) }
    }
  }

  package func take(_ placed: PlacedTick) {}
  package func take(_ pdu: Span<UInt8>) {}
  package func take(_ ticks: TickReport?, byteCount: Int) {}
}

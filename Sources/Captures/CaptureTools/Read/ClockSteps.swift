package import BLEWire
package import ColmiRing
package import JSONText
package import Recording

/// Steps of the wall clock during a capture, from `session.json`.
///
/// Returns the setting of the clock for a row, and converts times to and from the clock as it was set at the
/// start.
package struct ClockSteps: Sendable {
  private struct Step: Sendable {
    /// Time of the step on the clock after the step, in nanoseconds since the Unix epoch.
    var seenAt: Int64
    /// Size of the step in nanoseconds; 0 if unknown.
    var span: Int64
    var isKnown: Bool
    /// Number of rows in each table before the step.
    var rows: [String: Int]
  }

  /// Steps with their positions in the tables, in order.
  private var steps: [Step] = []
  /// Whether the list is incomplete because there were too many steps.
  private(set) var isIncomplete = false

  /// Creates an empty list, for a capture without steps.
  package init() {}

  /// Reads the steps of a capture.
  ///
  /// - Parameter session: `session.json`; `nil` if the file is missing.
  package init(_ session: JSONDocument?) {
    for name in ["clockSteps", "clockDoubts"] {
      for step in session?[name]?.array ?? [] {
        guard case .object(let members)? = step["rows"], let seenAt = step["seenAtNs"]?.nanoseconds else {
          continue
        }
        var rows: [String: Int] = [:]
        for (table, count) in members { rows[table] = count.integer() }
        let isKnown = step["elapsedKnown"]?.flag ?? true
        let span = isKnown ? step["stepMs"]?.real ?? 0 : 0
        steps.append(
          Step(seenAt: seenAt, span: Int64(min(max(span * 1e6, -4e18), 4e18)), isKnown: isKnown, rows: rows))
      }
    }
    let listed = session?["clockSteps"]?.array?.count ?? 0
    isIncomplete = listed < (session?["clockStepCount"]?.integer(Int.self) ?? 0)
  }

  package var isEmpty: Bool { steps.isEmpty }

  /// Returns the setting of the clock for a row.
  ///
  /// - Parameters:
  ///   - table: name of the table.
  ///   - row: number of the row in its table, from 0.
  package func setting(_ table: String, row: Int) -> ClockSetting {
    var setting = ClockSetting()
    for step in steps {
      guard let rows = step.rows[table], row >= rows else { continue }
      setting.offset &+= step.span
      if !step.isKnown { setting.unknownCount += 1 }
    }
    return setting
  }

  /// Converts a time on the clock as it was set at the start to the time that the clock showed.
  package func shown(_ time: ReceiveTime) -> ReceiveTime {
    var offset: Int64 = 0
    for step in steps where time.nanoseconds >= step.seenAt &- offset &- step.span { offset &+= step.span }
    return ReceiveTime(nanoseconds: time.nanoseconds &+ offset)
  }

  /// Converts a time in `session.json` to the clock as it was set at the start.
  package func steady(_ time: Int64) -> Int64 {
    var (offset, begin) = (0 as Int64, Int64.min)
    for step in steps {
      let end = step.seenAt &- offset &- step.span
      if (begin...max(begin, end)).contains(time &- offset) { return time &- offset }
      offset &+= step.span
      begin = end
    }
    return time &- offset
  }
}

/// Reader that converts the times of a table to the clock as it was set at the start of the capture.
package final class SteadyReader: TableReader {
  package var table: RecordedTable { reader.table }
  package private(set) var words: [UInt64] = []
  package var rows: Int { reader.rows }
  package var problem: String? { reader.problem }
  private let reader: any TableReader
  private let steps: ClockSteps
  /// Indices of the columns with wall-clock times.
  private let places: [Int]

  package init(_ reader: any TableReader, _ steps: ClockSteps) {
    self.reader = reader
    self.steps = steps
    places = reader.table.columns.indices.filter {
      ["time_ns", "frame_time_ns"].contains(reader.table.columns[$0].name)
    }
  }

  package func next() -> Bool {
    guard reader.next() else { return false }
    words = reader.words
    let offset = steps.setting(table.name, row: reader.rows - 1).offset
    guard offset != 0 else { return true }
    for place in places { words[place] = UInt64(bitPattern: Int64(bitPattern: words[place]) &- offset) }
    return true
  }
}

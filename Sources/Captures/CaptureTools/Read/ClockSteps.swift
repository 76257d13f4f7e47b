package import BLEWire
package import ColmiRing
package import JSONText
package import Recording

/// Where the wall clock was set while a capture was made, by `session.json`: which setting of it the times in a row are by, and when
/// that was by the clock as it was at the start.
package struct ClockSteps: Sendable {
  private struct Step: Sendable {
    /// By the clock as it was set: nanoseconds since the Unix epoch.
    var seenAt: Int64
    /// Nanoseconds; 0 if it is not known.
    var span: Int64
    var isKnown: Bool
    /// Rows of each table before it.
    var rows: [String: Int]
  }

  /// Those that the tables show, in order.
  private var steps: [Step] = []
  /// Whether there were more than are listed.
  private(set) var isIncomplete = false

  /// A clock that was not set.
  package init() {}

  /// - Parameter session: `session.json`; `nil` if there is none.
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

  /// - Parameter row: number of the row in its table, from 0.
  package func setting(_ table: String, row: Int) -> ClockSetting {
    var setting = ClockSetting()
    for step in steps {
      guard let rows = step.rows[table], row >= rows else { continue }
      setting.offset &+= step.span
      if !step.isKnown { setting.unknownCount += 1 }
    }
    return setting
  }

  /// A time by the clock as it was at the start, by the clock as it was then.
  package func shown(_ time: ReceiveTime) -> ReceiveTime {
    var offset: Int64 = 0
    for step in steps where time.nanoseconds >= step.seenAt &- offset &- step.span { offset &+= step.span }
    return ReceiveTime(nanoseconds: time.nanoseconds &+ offset)
  }

  /// A time of `session.json` by the clock as it was at the start: by the setting that was in force then.
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

/// The rows of a table with times by the clock as it was at the start of the capture.
package final class SteadyReader: TableReader {
  package var table: RecordedTable { reader.table }
  package private(set) var words: [UInt64] = []
  package var rows: Int { reader.rows }
  package var problem: String? { reader.problem }
  private let reader: any TableReader
  private let steps: ClockSteps
  /// Columns of the wall clock.
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

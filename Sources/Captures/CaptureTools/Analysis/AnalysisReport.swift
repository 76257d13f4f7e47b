package import BLEHost
package import BLEWire
package import ColmiRing
package import JSONText
import Physiology
package import Recording

/// Results of the analysis of a capture.
package struct AnalysisReport: Sendable {
  package struct Table: Sendable {
    package var name: String
    package var rows: Int
    /// Number of rows without a light reading; `nil` for a table without light.
    package var dropouts: Int?
    /// Reason why rows at the end, or all rows, are missing.
    package var problem: String?
    /// Statistics of this table's frames, if the table is of a ring.
    package var part: TickReport.Part?
    /// Columns of a user-defined sensor.
    package var columns: [Column] = []
  }

  package var tables: [Table] = []
  /// Time of the first row, on the wall clock as it was set at the start.
  package var start: ReceiveTime?
  /// Time of the last row, on the wall clock as it was set at the start.
  package var end: ReceiveTime?
  /// Steps of the wall clock.
  package var clockSteps = ClockSteps()
  /// Kinds of results that the tables contain. Other kinds are not reported.
  package var contents: Set<Content> = []
  package var ticks = TickReport()
  package var pulse = Pulse()
  package var ecg = ECG()
  package var heartRate = HeartRate()
  /// Variability of the beat intervals, with one element per source.
  package var variability: [Variation] = []
  package var temperature = Temperature()
  package var cycling = Cycling()
  package var activity = Activity()

  package enum Content: Hashable, Sendable {
    case ticks, pulse, ecg, heartRate, temperature, cycling, activity
  }

  /// Counts of received and lost values, from `session.json`; `nil` if unknown.
  package var ledger: Ledger?
  /// Encryption states of the links, from `session.json`. Each state is listed once, in order of appearance.
  package var security: [LinkSecurity] = []
  /// Reason why the number of lost values is unknown.
  package var unknownLoss: String?
  package var lacksSession = false
  /// Facts about an imported capture that were inferred only from the format of its values.
  package var knownByPayload = PayloadKnowledge([])

  /// Parts of the capture that exist but cannot be read.
  package var captureProblems: [String] = []
  /// Number of times the wall clock was set during the capture, from `session.json`.
  package var clockStepCount = 0

  /// Number of values known to be lost.
  package var lostCount: Int { ledger?.loss.total ?? 0 }

  /// Problems of the tables and of `session.json`.
  package var problems: [String] { tables.compactMap(\.problem) + captureProblems }

  /// Whether a part could not be read, or `session.json` is missing.
  package var isIncomplete: Bool { !problems.isEmpty || lacksSession }

  /// Writes the report as one line of JSON.
  ///
  /// - Parameter directory: directory of the capture, to be included if several captures are analysed.
  package func encode(into line: inout JSONLine, of directory: String? = nil) {
    line.object { line in
      if let directory { line.member("directory", directory) }
      encodeTables(&line)
      if let ledger { ledger.encode(into: &line) }
      knownByPayload.encode(into: &line)
      if !security.isEmpty {
        line.member(
          "security", array: { line in for each in security { line.object { $0.members(of: each) } } })
      }
      if contents.contains(.ticks) {
        line.member("ticks", ticks.ticks)
        line.member("wholeTicks", ticks.wholeTicks)
      }
      if let start { line.member("startNs", start) }
      if let end { line.member("endNs", clockSteps.shown(end)) }
      if clockStepCount > 0 { line.member("clockStepCount", clockStepCount) }
      if contents.contains(.ticks) {
        if let rate = ticks.rate { line.member("rateHz", rate) }
        line.member("clock") { line in ticks.encodeClock(into: &line) }
      }
      if contents.contains(.pulse) { line.member("pulse") { pulse.encode(into: &$0) } }
      if contents.contains(.ecg) { line.member("ecg") { ecg.encode(into: &$0) } }
      if contents.contains(.heartRate) { line.member("heartRate") { heartRate.encode(into: &$0) } }
      if !variability.isEmpty {
        line.member("variability") { line in
          for variation in variability {
            line.member(variation.source.rawValue) { variation.encode(into: &$0) }
          }
        }
      }
      if contents.contains(.temperature) { line.member("temperature") { temperature.encode(into: &$0) } }
      if contents.contains(.cycling) { line.member("cycling") { cycling.encode(into: &$0) } }
      if contents.contains(.activity) { line.member("activity") { activity.encode(into: &$0) } }
    }
    line.endLine()
  }

  private func encodeTables(_ line: inout JSONLine) {
    line.member("streams") { line in
      for table in tables {
        line.member(table.name) { line in
          line.member("samples", table.rows)
          if let dropouts = table.dropouts { line.member("dropouts", dropouts) }
          if let problem = table.problem { line.member("problem", problem) }
          table.part?.encode(into: &line)
          if !table.columns.isEmpty {
            line.member("columns") { line in for column in table.columns { column.encode(into: &line) } }
          }
        }
      }
    }
  }
}

/// Mean and range of a series of numbers. Missing numbers and magnitudes of 1e12 or more are ignored.
package struct NumberRange: Hashable, Sendable {
  package private(set) var count = 0
  package private(set) var lowest: Double?
  package private(set) var highest: Double?
  package private(set) var last: Double?
  private var sum = 0.0

  package var mean: Double? { count > 0 ? sum / Double(count) : nil }

  mutating func add(_ number: Double?) {
    guard let number, abs(number) < 1e12 else { return }
    count += 1
    sum += number
    lowest = min(lowest ?? number, number)
    highest = max(highest ?? number, number)
    last = number
  }

  /// Limits all values and the mean to at most `largest`.
  mutating func limit(to largest: Double) {
    sum = min(sum, largest * Double(count))
    (lowest, highest) = (lowest.map { min($0, largest) }, highest.map { min($0, largest) })
    last = last.map { min($0, largest) }
  }

  /// Writes the members `meanUnit`, `lowestUnit` and `highestUnit`; writes nothing if there are no numbers.
  func encode(_ unit: String, into line: inout JSONLine) {
    guard let mean, let lowest, let highest else { return }
    line.member("mean" + unit, mean)
    line.member("lowest" + unit, lowest)
    line.member("highest" + unit, highest)
  }
}

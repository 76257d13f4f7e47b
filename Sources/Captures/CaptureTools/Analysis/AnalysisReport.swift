package import BLEHost
package import BLEWire
package import ColmiRing
package import JSONText
import Physiology
package import Recording

/// What is in a capture, in numbers.
package struct AnalysisReport: Sendable {
  package struct Table: Sendable {
    package var name: String
    package var rows: Int
    /// Of these, those without a reading of the light; `nil` for what has none.
    package var dropouts: Int?
    /// Why its rows end before the file does, or why there are none.
    package var problem: String?
    /// Its share of a ring's ticks.
    package var part: TickReport.Part?
    /// Of a sensor that a program described itself.
    package var columns: [Column] = []
  }

  package var tables: [Table] = []
  package var start: ReceiveTime?
  package var end: ReceiveTime?
  /// What the tables bear; the rest stays empty, and is not told.
  package var contents: Set<Content> = []
  package var ticks = TickReport()
  package var pulse = Pulse()
  package var ecg = ECG()
  package var heartRate = HeartRate()
  /// Of each source of intervals.
  package var variability: [Variation] = []
  package var temperature = Temperature()
  package var cycling = Cycling()
  package var activity = Activity()

  package enum Content: Hashable, Sendable {
    case ticks, pulse, ecg, heartRate, temperature, cycling, activity
  }

  /// What came and what was lost, by `session.json`; `nil` if that is not known.
  package var ledger: Ledger?
  /// What `session.json` tells of the links' encryption: each once, in the order in which it came.
  package var security: [LinkSecurity] = []
  /// Why that is not known.
  package var unknownLoss: String?
  package var lacksSession = false
  /// What only the form of the values tells of an imported capture.
  package var knownByPayload = PayloadKnowledge([])

  /// What of the capture cannot be read though it is there.
  package var captureProblems: [String] = []
  /// Times at which the wall clock was set while the capture was made, as `session.json` has it.
  package var clockStepCount = 0

  /// How much is known to be lost.
  package var lostCount: Int { ledger?.loss.total ?? 0 }

  /// What is wrong with the tables, and with `session.json`.
  package var problems: [String] { tables.compactMap(\.problem) + captureProblems }

  /// Whether something could not be read, or what was lost is in no file.
  package var isIncomplete: Bool { !problems.isEmpty || lacksSession }

  /// - Parameter directory: of which capture it is, where there are several.
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
      if let end { line.member("endNs", end) }
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

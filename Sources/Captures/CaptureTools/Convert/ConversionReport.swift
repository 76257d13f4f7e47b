package import JSONText
package import Recording

/// What a conversion wrote.
package struct ConversionReport: Sendable {
  package struct Table: Hashable, Sendable {
    package var name: String
    package var rows: Int
  }

  package struct Signal: Hashable, Sendable {
    package var label: String
    package var unit: String
    package var values: Int
    /// Of what is in the file, in the unit.
    package var resolution: Double
    /// Whether the file has each value as it was recorded.
    package var isExact: Bool
    /// Samples a second, as the file says them and by the sensor's clock.
    package var rate: Double
    package var sensorRate: Double
  }

  /// The signals of one table in a file of signals.
  package struct Stream: Hashable, Sendable {
    package var table: String
    package var signals: Int
    /// Of each signal, those that did not come included.
    package var samples: Int
    /// Samples a second, as the file says them.
    package var rate: Double
    /// Stretches in which something did not come.
    package var gaps: Int
    /// Samples that the sensor sent without their reading.
    package var dropouts: Int
  }

  package var format: ConversionFormat
  package var output: String
  package var tables: [Table] = []
  /// Of files of signals.
  package var signals: [Signal] = []
  /// Likewise, of each table, the fastest first.
  package var streams: [Stream] = []
  /// Samples a second of the first of them, as the file says them.
  package var rate: Double? { streams.first?.rate }
  /// Samples a second of it by the sensor's clock.
  package var sensorRate: Double?
  package var recordSeconds: Double?
  /// Of the first sample, in nanoseconds since the Unix epoch.
  package var start: Int64?
  /// Of each signal of it, those that did not come included.
  package var samples: Int { streams.first?.samples ?? 0 }
  /// Stretches in which something did not come, of all.
  package var gaps: Int { streams.reduce(0) { $0 + $1.gaps } }
  /// Samples that the sensor sent without their reading, of all.
  package var dropouts: Int { streams.reduce(0) { $0 + $1.dropouts } }
  /// What stands for what did not come.
  package var missing: String?
  package var notes = 0
  /// Tables that the format does not hold, and files that are no tables of a recording, such as those of an analysis.
  package var leftOut: [String] = []
  /// Where a table breaks off.
  package var problems: [String] = []
  /// What came and what was lost, by `session.json`; `nil` if that is not known.
  package var ledger: Ledger?
  /// Why that is not known.
  package var unknownLoss: String?
  package var lacksSession = false

  init(_ format: ConversionFormat, _ output: String) {
    self.format = format
    self.output = output
  }

  /// Takes a table of a file of signals; the fastest comes first.
  ///
  /// - Parameter rate: as the file says it.
  mutating func take(_ table: SignalTable, _ scan: SignalScan, _ channels: [SignalChannel], rate: Double) {
    tables.append(Table(name: table.table.name, rows: scan.rows))
    signals += channels.map {
      Signal(
        label: $0.signal.label, unit: $0.signal.unit, values: $0.values, resolution: $0.scale.step,
        isExact: $0.scale.isExact, rate: rate, sensorRate: scan.rate)
    }
    streams.append(
      Stream(
        table: table.table.name, signals: channels.count, samples: scan.length, rate: rate,
        gaps: scan.gapCount, dropouts: scan.dropouts))
    sensorRate = sensorRate ?? scan.rate
    start = min(start ?? scan.start, scan.start)
    if let problem = scan.problem { problems.append(problem) }
  }

  /// One JSON object and a line feed.
  package func encode(into line: inout JSONLine) {
    line.object { line in
      line.member("format", format.rawValue)
      line.member("output", output)
      line.member("tables") { line in for table in tables { line.member(table.name, table.rows) } }
      if !signals.isEmpty { encodeSignals(&line) }
      if let ledger { ledger.encode(into: &line) }
      line.member("leftOut", array: { line in for file in leftOut { line.value(file) } })
      line.member("problems", array: { line in for problem in problems { line.value(problem) } })
    }
    line.endLine()
  }

  private func encodeSignals(_ line: inout JSONLine) {
    if let start { line.member("startNs", nanoseconds: start) }
    if let rate { line.member("rateHz", rate) }
    if let sensorRate { line.member("sensorRateHz", sensorRate) }
    if let recordSeconds { line.member("recordSeconds", recordSeconds) }
    line.member("samples", samples)
    line.member("gaps", gaps)
    line.member("dropouts", dropouts)
    if let missing { line.member("missing", missing) }
    line.member("annotations", notes)
    line.member(
      "signals",
      array: { line in
        for signal in signals {
          line.object { line in
            line.member("label", signal.label)
            line.member("unit", signal.unit)
            line.member("values", signal.values)
            line.member("resolution", signal.resolution)
            line.member("exact", signal.isExact)
            line.member("rateHz", signal.rate)
            line.member("sensorRateHz", signal.sensorRate)
          }
        }
      })
  }
}

/// How far a conversion is, for a person.
package struct ConversionProgress: Sendable {
  /// What is done with what, such as "ppg".
  package var what: String
  package var rows: Int

  init(_ what: String, _ rows: Int) {
    self.what = what
    self.rows = rows
  }
}

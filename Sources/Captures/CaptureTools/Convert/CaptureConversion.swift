package import BLELinux
package import JSONText
package import Recording

/// Output format of a conversion.
package enum ConversionFormat: String, CaseIterable, Sendable {
  case csv, npy, edf, bdf, wfdb, ndjson, influx

  /// Returns the default output path for a capture.
  package func output(of directory: String) -> String {
    // Resolve paths such as "." to the real name.
    var name = Substring(directory.hasSuffix(".") ? Files.absolute(directory) ?? directory : directory)
    while name.count > 1, name.hasSuffix("/") { name = name.dropLast() }
    return switch self {
    case .csv, .npy, .wfdb: "\(name)-\(rawValue)"
    case .edf, .bdf, .ndjson: "\(name).\(rawValue)"
    case .influx: "\(name).line"
    }
  }

  /// Whether the output is a folder.
  fileprivate var isFolder: Bool {
    switch self {
    case .csv, .npy, .wfdb: true
    case .edf, .bdf, .ndjson, .influx: false
    }
  }
}

/// Converts the tables of a capture to other formats. Existing files are never overwritten.
package enum CaptureConversion {
  /// Converts a capture.
  ///
  /// - Parameters:
  ///   - directory: directory of the capture, with tables as text or as arrays.
  ///   - output: path of a folder or file, depending on the format; `-` is standard output for line formats.
  ///   - progress: called from time to time.
  package static func run(
    _ directory: String, to format: ConversionFormat, output: String,
    progress: (ConversionProgress) -> Void
  ) throws(ConversionError) -> ConversionReport {
    let capture = try RecordedCapture(directory)
    // An empty folder lists "." and ".."; a file lists no names.
    let isTaken =
      format.isFolder
      ? Files.names(in: output).count != 2 && Files.isOccupied(output) : Files.isOccupied(output)
    guard !isTaken else { throw .outputExists(output) }
    var report = ConversionReport(format, output)
    report.leftOut = capture.leftOut
    report.ledger = capture.ledger
    report.unknownLoss = capture.unknownLoss
    report.lacksSession = SessionDocument.isMissing(in: directory)
    report.problems += capture.problems
    switch format {
    case .csv: try TableConversion.run(capture, to: output, .csv, &report, progress: progress)
    case .npy: try TableConversion.run(capture, to: output, .npy, &report, progress: progress)
    case .ndjson, .influx: try TableConversion.writeLines(capture, to: output, &report, progress: progress)
    case .edf: try EDFConversion.run(capture, to: output, .edf, &report, progress: progress)
    case .bdf: try EDFConversion.run(capture, to: output, .bdf, &report, progress: progress)
    case .wfdb: try WFDBConversion.run(capture, to: output, &report, progress: progress)
    }
    return report
  }
}

/// Results of a conversion.
package struct ConversionReport: Sendable {
  package struct Table: Hashable, Sendable {
    package var name: String
    package var rows: Int
  }

  package struct Signal: Hashable, Sendable {
    package var label: String
    package var unit: String
    package var values: Int
    /// Smallest step between values in the file, in the signal's unit.
    package var resolution: Double
    /// Whether the file contains every value exactly as it was recorded.
    package var isExact: Bool
    /// Sample rate in the file, in samples per second.
    package var rate: Double
    /// Sample rate on the sensor's clock, in samples per second.
    package var sensorRate: Double
  }

  /// Signals of one table in a signal file.
  package struct Stream: Hashable, Sendable {
    package var table: String
    package var signals: Int
    /// Number of samples of each signal, including missing samples.
    package var samples: Int
    /// Sample rate in the file, in samples per second.
    package var rate: Double
    /// Number of gaps: periods with missing samples.
    package var gaps: Int
    /// Number of samples that the sensor sent without a reading.
    package var dropouts: Int
  }

  package var format: ConversionFormat
  package var output: String
  package var tables: [Table] = []
  /// Signals, for signal files.
  package var signals: [Signal] = []
  /// Tables, for signal files; highest rate first.
  package var streams: [Stream] = []
  /// Sample rate of the first stream in the file, in samples per second.
  package var rate: Double? { streams.first?.rate }
  /// Sample rate of the first stream on the sensor's clock, in samples per second.
  package var sensorRate: Double?
  package var recordSeconds: Double?
  /// Time of the first sample, in nanoseconds since the Unix epoch.
  package var start: Int64?
  /// Number of samples of each signal of the first stream, including missing samples.
  package var samples: Int { streams.first?.samples ?? 0 }
  /// Number of gaps in all streams.
  package var gaps: Int { streams.reduce(0) { $0 + $1.gaps } }
  /// Number of samples that the sensor sent without a reading, in all streams.
  package var dropouts: Int { streams.reduce(0) { $0 + $1.dropouts } }
  /// Representation of missing samples.
  package var missing: String?
  package var notes = 0
  /// Tables that the format cannot represent, and files that are not recorded tables, for example of an
  /// analysis.
  package var leftOut: [String] = []
  /// Tables that end early, with the position.
  package var problems: [String] = []
  /// Numbers of received and lost values, from `session.json`; `nil` if unknown.
  package var ledger: Ledger?
  /// Reason why the loss is unknown.
  package var unknownLoss: String?
  package var lacksSession = false

  init(_ format: ConversionFormat, _ output: String) {
    self.format = format
    self.output = output
  }

  /// Adds a table to the report on a signal file. The table with the highest rate must be added first.
  ///
  /// - Parameters:
  ///   - table: the table.
  ///   - scan: properties of the table's signals.
  ///   - channels: signals in the file.
  ///   - rate: sample rate in the file, in samples per second.
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

  /// Encodes the report as one JSON object and a line feed.
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

/// Progress of a conversion, for display.
package struct ConversionProgress: Sendable {
  /// Name of the current table or step, such as "ppg".
  package var what: String
  package var rows: Int

  init(_ what: String, _ rows: Int) {
    self.what = what
    self.rows = rows
  }
}

/// Error that prevents a conversion.
package enum ConversionError: Error, Sendable, CustomStringConvertible {
  /// The directory is not a capture.
  case noCapture(directory: String, why: String)
  /// The tables have format 1, which cannot be converted.
  ///
  /// - Parameter log: path of the capture's packet log; `nil` if it has no packet log.
  case oldFormat(directory: String, tables: [String], log: String?)
  case outputExists(String)
  /// The tables contain nothing that the format can represent.
  case unsuitable(String)
  case output(SystemError)

  package var description: String {
    switch self {
    case .noCapture(let directory, let why): "\(directory) is not a capture's directory: \(why)"
    case .oldFormat(let directory, let tables, let log):
      "\(directory) has tables of format 1 (\(tables.joined(separator: ", "))), which no release wrote and this version cannot read; "
        + (log.map { "create new ones from its packet log: ringtap import \($0) --output NEW" }
          ?? "import its packet log again, or build ringtap from commit a430ec80, the last that reads them")
    case .outputExists(let path): "\(path) already exists; choose another --output"
    case .unsuitable(let why): why
    case .output(let error): "\(error)"
    }
  }
}

import BLEHost
package import BLELinux
import BLEWire
import ColmiRing
import JSONText
import Physiology
import Recording
import SensorSessions

/// Error that prevents an analysis.
package enum AnalysisError: Error, Sendable, CustomStringConvertible {
  /// No table can be read.
  case noTables(ConversionError)
  /// The readable tables have no rows.
  case noRows(directory: String, problems: [String])
  /// The tables could not be written.
  case output(SystemError)

  package var description: String {
    switch self {
    case .noTables(let error): "\(error)"
    case .noRows(let directory, let problems):
      "nothing to analyse in \(directory)" + problems.map { "; \($0)" }.joined()
    case .output(let error): "\(error)"
    }
  }
}

/// Analyses a capture in one pass over its tables. Reports a ring's ticks, clock, pulse, movement and rest,
/// and the heart rate, beats, variability, temperature and cadence of other sensors. Memory use does not
/// depend on the length of the capture.
package struct CaptureAnalysis: ~Copyable {
  /// Tables of a ring.
  private var streams: [any SampleTable] = []
  /// Index of the stream that supplied the last row.
  private var lastStream = 0
  /// Time of the first sample of each link except the first, ascending, on the wall clock as it was set at
  /// the start.
  private var linkStarts: [Int64] = []
  private var clockSteps = ClockSteps()
  /// Tables of other sensors.
  private var sources: [any TableSource] = []
  private var results = AnalysisResults()

  private init() {}

  /// Analyses a capture.
  ///
  /// - Parameters:
  ///   - directory: directory of the capture. Missing or damaged tables are reported, and the other tables
  ///     are analysed.
  ///   - output: directory for the result tables; `nil` to write no tables.
  package static func run(_ directory: String, output: String?) throws(AnalysisError) -> AnalysisReport {
    var analysis = CaptureAnalysis()
    try analysis.open(directory)
    do throws(SystemError) {
      if let output {
        analysis.results.tables = try AnalysisTables(
          analysis.wanted, in: output, samples: output == directory ? .keepIfThere : .make)
      }
      try analysis.readAll()
    } catch { throw .output(error) }
    return analysis.results.report
  }

  /// Analyses a capture and also returns the findings. Memory use grows with the number of findings.
  static func findings(of directory: String) throws(AnalysisError) -> (AnalysisReport, AnalysisFindings) {
    var analysis = CaptureAnalysis()
    try analysis.open(directory)
    return try analysis.findings()
  }

  /// Analyses the contents of a packet log: a ring's samples in order, and the tables of other sensors.
  ///
  /// - Parameter clockSets: indices of the samples before which the log's clock was set or may have been set.
  static func findings(
    of samples: [RingRawReading], clockSets: [Int] = [], _ sources: [any TableSource]
  ) throws(AnalysisError) -> (AnalysisReport, AnalysisFindings) {
    var analysis = CaptureAnalysis()
    analysis.sources = sources
    analysis.results.findings = AnalysisFindings()
    do throws(SystemError) {
      if !samples.isEmpty {
        var ring = RingAnalysis()
        var clock = ClockSetting()
        for (place, sample) in samples.enumerated() {
          while clock.unknownCount < clockSets.count, clockSets[clock.unknownCount] <= place {
            clock.unknownCount += 1
          }
          try ring.take(sample, link: sample.link, clock, to: &analysis.results)
        }
        try ring.finish(&analysis.results)
      }
    } catch { throw .output(error) }
    return try analysis.findings()
  }

  private mutating func findings() throws(AnalysisError) -> (AnalysisReport, AnalysisFindings) {
    if results.findings == nil { results.findings = AnalysisFindings() }
    do throws(SystemError) { try readAll() } catch { throw .output(error) }
    return (results.report, results.findings ?? AnalysisFindings())
  }

  // MARK: Opening

  private mutating func open(_ directory: String) throws(AnalysisError) {
    let capture: RecordedCapture
    do throws(ConversionError) { capture = try RecordedCapture(directory) } catch {
      throw .noTables(error)
    }
    results.report.captureProblems = capture.problems
    let clockSteps = ClockSteps(capture.session)
    (self.clockSteps, results.clockSteps, results.report.clockSteps) = (clockSteps, clockSteps, clockSteps)
    linkStarts = (capture.session?["gaps"]?.array ?? []).compactMap { $0["firstSampleAtNs"]?.nanoseconds }
      .map { clockSteps.steady($0) }.sorted()
    results.report.ledger = capture.ledger
    results.report.security = LinkSecurity.all(in: capture.session)
    results.report.unknownLoss = capture.unknownLoss
    results.report.lacksSession = SessionDocument.isMissing(in: directory)
    results.report.knownByPayload = PayloadKnowledge(capture.session)
    results.report.clockStepCount = capture.session?["clockStepCount"]?.integer() ?? 0
    let others = capture.tables.filter { table in
      table.content == .samples && !RingStream.allCases.contains { Self.isTable(table, of: $0) }
    }
    sources = others.map { CapturedTable(capture: capture, table: $0, clockSteps: clockSteps) }
    if capture.tables.contains(where: { table in
      RingStream.allCases.contains { Self.isTable(table, of: $0) }
    }) {
      openStreams(directory)
    }
    guard streams.contains(where: { $0.next != nil }) || sources.contains(where: \.hasRows) else {
      let problems = results.report.problems + streams.compactMap(\.problem)
      throw .noRows(directory: directory, problems: problems)
    }
  }

  /// Returns whether the table holds samples of this ring stream. The columns are compared too, because other
  /// tables can have the same name.
  private static func isTable(_ table: RecordedTable, of stream: RingStream) -> Bool {
    table.name == stream.name && table.columns == stream.table.columns
  }

  private mutating func openStreams(_ directory: String) {
    let isOfArrays = Files.exists(directory + "/" + ColumnIndex.fileName)
    for stream in RingStream.allCases {
      do throws(SystemError) {
        let table: any SampleTable =
          isOfArrays ? try CaptureArrays(stream, in: directory) : try CaptureTable(stream, in: directory)
        streams.append(table)
      } catch {
        results.report.tables.append(
          AnalysisReport.Table(name: stream.name, rows: 0, problem: "\(error)"))
      }
    }
  }

  /// Tables to write, according to the tables of the capture.
  private var wanted: [AnalysisTables.Table] {
    var tables: [AnalysisTables.Table] =
      streams.isEmpty ? [] : [.ticks, .pulse, .beatWindows, .beats, .respiration, .variability, .activity]
    for source in sources { tables += SensorAnalysis.tables(of: source.table) }
    return AnalysisTables.Table.allCases.filter(tables.contains)
  }

  // MARK: Reading

  private mutating func readAll() throws(SystemError) {
    if !streams.isEmpty { try readStreams() }
    for source in sources {
      let others = sources
      try SensorAnalysis.run(source, beside: others, to: &results)
    }
    try results.tables?.finish()
  }

  /// Reads all tables merged by time, on the wall clock as it was set at the start. Rows with the same
  /// timestamp are read in the order in which a ring sends them.
  private mutating func readStreams() throws(SystemError) {
    var ring = RingAnalysis()
    var link = 0
    while let place = earliest(), let row = streams[place].next {
      let clock = setting(place)
      while link < linkStarts.count, row.time.nanoseconds &- clock.offset >= linkStarts[link] { link += 1 }
      streams[place].advance()
      lastStream = place
      try ring.take(row, link: link, clock, to: &results)
    }
    try ring.finish(&results)
    let parts = results.report.ticks.parts
    results.report.tables += streams.map { table in
      AnalysisReport.Table(
        name: table.stream.name, rows: table.rows,
        dropouts: table.stream.hasDropouts ? ring.dropouts[table.stream.rawValue] : nil,
        problem: table.problem, part: parts[table.stream.part.rawValue])
    }
    let order = RingStream.allCases.map(\.name)
    results.report.tables.sort { (order.firstIndex(of: $0.name) ?? 0) < (order.firstIndex(of: $1.name) ?? 0) }
  }

  /// Returns the clock setting of the next row in a ring's table.
  private func setting(_ place: Int) -> ClockSetting {
    clockSteps.isEmpty
      ? ClockSetting() : clockSteps.setting(streams[place].stream.name, row: streams[place].rows - 1)
  }

  /// Returns the index of the table with the next row; `nil` at the end of all tables.
  private func earliest() -> Int? {
    var found: Int?
    // Before and after a step of unknown size, times cannot be compared.
    var least = (steps: Int.max, time: Int64.max)
    // `streams` is in the opposite order of a tick's frames, so the search runs backwards from the last
    // stream.
    for step in 1...streams.count {
      let place = (lastStream - step + streams.count) % streams.count
      guard let stamp = streams[place].next?.time.nanoseconds else { continue }
      let setting = setting(place)
      let key = (steps: setting.unknownCount, time: stamp &- setting.offset)
      guard key < least else { continue }
      (found, least) = (place, key)
    }
    return found
  }
}

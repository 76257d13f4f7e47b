import BLECore
package import BLELinux
package import CaptureTables
import ColmiRing
import Physiology
import Recording
import SensorSessions

/// Why there is no analysis.
package enum AnalysisError: Error, Sendable, CustomStringConvertible {
  /// None of the three tables can be opened; what the first one says.
  case noTables(directory: String, SystemError)
  /// Those that can be opened have no rows.
  case noRows(directory: String, problems: [String])
  /// The tables to write.
  case output(SystemError)

  package var description: String {
    switch self {
    case .noTables(let directory, let error):
      "\(directory) is not a capture's directory: \(error)"
    case .noRows(let directory, let problems):
      "nothing to analyse in \(directory)" + problems.map { "; \($0)" }.joined()
    case .output(let error): "\(error)"
    }
  }
}

/// Reads the tables of a capture once, from start to end, and turns them into numbers: ticks, the sensor's clock,
/// pulse, movement, rest. Memory does not grow with the capture.
package struct CaptureAnalysis: ~Copyable {
  private var tables: [any SampleTable] = []
  /// The place of the one that the last row was taken from.
  private var lastTable = 0
  private var output: AnalysisTables?
  /// What was found, where it is wanted.
  private var findings: AnalysisFindings?
  private var stream = TickStream()
  /// Of which a sample has come.
  private var seen: Set<RingStream> = []
  /// By `RingStream.rawValue`.
  private var dropouts: InlineArray<3, Int> = .init(repeating: 0)
  private var pulse: PulseRateMeter?
  private var motion: MotionMeter?
  private var rest = SleepRule()
  /// Minutes that wait for their state of rest; `nil` for one that was not measured.
  private var minutes: [ActivityEpoch?] = []
  private var lastMinute: Int64?
  private var hasMeters = false
  private var report = AnalysisReport()

  /// Minutes by which the rule's answers lag.
  private static let minutesAhead = 2
  /// Minutes without measurement that the rule is told of: it looks no further.
  private static let maximumMissingMinutes: Int64 = 7

  private init() {}

  /// - Parameters:
  ///   - directory: of the capture. A table that is missing or broken is reported, the others are analysed.
  ///   - output: where to write tables, if at all.
  package static func run(
    _ directory: String, output: String?
  ) throws(AnalysisError) -> AnalysisReport {
    var analysis = CaptureAnalysis()
    try analysis.open(directory)
    do throws(SystemError) {
      if let output {
        analysis.output = try AnalysisTables(
          in: output, samples: output == directory ? .keepIfThere : .make)
      }
      try analysis.readAll()
      try analysis.finish()
    } catch { throw .output(error) }
    return analysis.report
  }

  /// Likewise, with what was found: memory grows with that.
  static func findings(
    of directory: String
  ) throws(AnalysisError) -> (AnalysisReport, AnalysisFindings) {
    var analysis = CaptureAnalysis()
    analysis.findings = AnalysisFindings()
    try analysis.open(directory)
    do throws(SystemError) {
      try analysis.readAll()
      try analysis.finish()
    } catch { throw .output(error) }
    return (analysis.report, analysis.findings ?? AnalysisFindings())
  }

  /// Likewise, of samples that were found in order, as in a packet log.
  static func findings(
    of samples: [RingRawReading]
  ) throws(AnalysisError) -> (AnalysisReport, AnalysisFindings) {
    var analysis = CaptureAnalysis()
    analysis.findings = AnalysisFindings()
    do throws(SystemError) {
      for sample in samples { try analysis.take(sample) }
      try analysis.finish()
    } catch { throw .output(error) }
    return (analysis.report, analysis.findings ?? AnalysisFindings())
  }

  private mutating func open(_ directory: String) throws(AnalysisError) {
    var failure: SystemError?
    let isOfArrays = Files.exists(directory + "/" + ColumnIndex.fileName)
    for stream in RingStream.allCases {
      do throws(SystemError) {
        let table: any SampleTable =
          isOfArrays ? try CaptureArrays(stream, in: directory) : try CaptureTable(stream, in: directory)
        tables.append(table)
      } catch {
        failure = failure ?? error
        report.tables.append(AnalysisReport.Table(stream: stream, rows: 0, problem: "\(error)"))
      }
    }
    if tables.isEmpty, let failure { throw .noTables(directory: directory, failure) }
    guard tables.contains(where: { $0.next != nil }) else {
      throw .noRows(directory: directory, problems: report.problems + tables.compactMap(\.problem))
    }
  }

  /// Merges the tables by time. Of rows with the same stamp the one that a ring sends after the last one is next.
  private mutating func readAll() throws(SystemError) {
    while let place = earliest(), let row = tables[place].next {
      tables[place].advance()
      lastTable = place
      try take(row)
    }
  }

  private mutating func take(_ row: RingRawReading) throws(SystemError) {
    if report.start == nil { report.start = row.time }
    report.end = row.time
    if let kind = row.stream {
      seen.insert(kind)
      if row.sample.isDropout { dropouts[kind.rawValue] += 1 }
    }
    stream.take(row.sample, at: row.time)
    try takeTicks()
  }

  /// The place of the table whose row comes next; `nil` at the end of all.
  private func earliest() -> Int? {
    var found: Int?
    var foundTime: Int64 = .max
    // The tables stand in the opposite order of the frames of a tick: backwards from the one taken last.
    for step in 1...tables.count {
      let place = (lastTable - step + tables.count) % tables.count
      guard let time = tables[place].next?.time.nanoseconds, time < foundTime else { continue }
      (found, foundTime) = (place, time)
    }
    return found
  }

  private mutating func takeTicks() throws(SystemError) {
    while let placed = stream.next() { try take(placed) }
  }

  private mutating func take(_ placed: PlacedTick) throws(SystemError) {
    makeMeters()
    try output?.append(placed)
    findings?.take(placed)
    if let window = pulse?.take(placed.signal) { try take(window) }
    try takeRates()
    if let epoch = motion?.take(placed.signal) { try take(epoch) }
  }

  /// Once the rate is known.
  private mutating func makeMeters() {
    guard !hasMeters, let period = stream.period else { return }
    hasMeters = true
    let rate = 1e9 / period
    if has(.ppg) {
      do throws(PulseMeter.Refusal) { pulse = try PulseRateMeter(rate: rate) } catch {
        report.pulse.refusal = "\(error)"
      }
    } else {
      report.pulse.refusal = "no samples of the green light"
    }
    motion = has(.accelerometer) ? MotionMeter(rate: rate) : nil
    if motion == nil {
      report.activity.refusal =
        has(.accelerometer) ? "too few samples a second for movement" : "no samples of the accelerometer"
    }
  }

  private func has(_ stream: RingStream) -> Bool { seen.contains(stream) }

  // MARK: Results

  private mutating func take(_ window: PulseWindow) throws(SystemError) {
    report.pulse.add(window)
    try output?.append(window)
    findings?.windows.append(window)
    for index in 0..<(pulse?.windowBeatCount ?? 0) {
      guard let beat = pulse?.beat(index) else { return }
      if beat.isAccepted { report.pulse.acceptedIntervals += 1 }
      try output?.append(beat)
      findings?.beats.append(beat)
    }
  }

  private mutating func takeRates() throws(SystemError) {
    while let window = pulse?.next() {
      report.pulse.rate.add(window)
      try output?.append(window)
      findings?.rates.append(window)
    }
  }

  private mutating func take(_ epoch: ActivityEpoch) throws(SystemError) {
    report.activity.add(epoch)
    findings?.minutes.append(epoch)
    if let lastMinute {
      let nanoseconds = Double(epoch.start.nanoseconds - lastMinute)
      let missing = Int64(nanoseconds / (MotionMeter.epochSeconds * 1e9) + 0.5) - 1
      for _ in 0..<min(max(0, missing), Self.maximumMissingMinutes) { try take(minute: nil) }
    }
    lastMinute = epoch.start.nanoseconds
    try take(minute: epoch)
  }

  private mutating func take(minute: ActivityEpoch?) throws(SystemError) {
    minutes.append(minute)
    guard let state = rest.take(counts: minute?.counts) else { return }
    guard let scored = minutes.removeFirst() else { return }
    report.activity.rest[state, default: 0] += 1
    try output?.append(scored, state)
  }

  private mutating func finish() throws(SystemError) {
    stream.finish()
    try takeTicks()
    if let window = pulse?.finish() { try take(window) }
    try takeRates()
    if let epoch = motion?.finish() { try take(epoch) }
    for _ in 0..<Self.minutesAhead { try take(minute: nil) }
    try output?.finish()
    report.activity.steps = motion?.stepCount
    let ticks = stream.report
    report.ticks = ticks
    report.tables += tables.map {
      AnalysisReport.Table(
        stream: $0.stream, rows: $0.rows,
        dropouts: $0.stream.hasDropouts ? dropouts[$0.stream.rawValue] : nil,
        problem: $0.problem, part: ticks.parts[$0.stream.part.rawValue])
    }
    report.tables.sort { $0.stream.rawValue < $1.stream.rawValue }
  }
}

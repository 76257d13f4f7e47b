import BLEDissector
import BLEHost
import BLESensors
import BLEWire
import ColmiRing
import Recording
import SensorSessions

/// Samples from one device's notifications in a log, in the tables that a recording would have.
struct LogStreams {
  var tables: [ReportTable] { gathered.tables }
  /// Samples of a ring, in order.
  var ringSamples: [RingRawReading] { gathered.ringSamples }
  /// Indices of the samples in `ringSamples` before which the clock was set or may have been set.
  var clockSets: [Int] { gathered.clockSets }
  /// Tables of other sensors.
  var sources: [any TableSource] { gathered.sources }
  func ledger(_ isGap: (Int64, Int64) -> Bool) -> Ledger { gathered.ledger(isGap) }
  /// Number of restarts of a cycling sensor's counts.
  var restarts: Int { gathered.restarts }
  private var gathered = LogTables()
  /// Attributes that were inferred only from the format of their values.
  var knownByPayload: PayloadKnowledge {
    PayloadKnowledge(readings.ringAttributes.map { ($0, RingUUID.commandNotify) })
  }
  private var readings = LogReadings()

  mutating func take(_ packet: borrowing DecodedPacket) { readings.take(packet, into: &gathered) }

  /// Records that the clock was set or may have been set before the next packet.
  mutating func noteClockStep() { gathered.noteClockStep() }

  /// Ends the input.
  mutating func finish() { gathered.finish() }
}

/// Collects readings of all kinds into tables.
struct LogTables {
  private(set) var tables: [ReportTable] = []
  private var rows: [WordRow] = []
  /// Tables whose rows are kept for the analysis.
  private var kept: [KeptTable] = []
  private(set) var ringSamples: [RingRawReading] = []
  private(set) var clockSets: [Int] = []
  var restarts: Int { pace.restarts }
  private var pace = CyclingPace()
  private var polar: [PolarMeasurementType: PolarRows] = [:]
  /// Numbers of received values, and of values that are in no table. A ring's missing ticks are not counted
  /// here; the analysis finds them.
  private var counts = Ledger()
  /// Number of truncated notifications that contained a complete reading.
  private var usedCuts = 0
  private var ticks = TickStream()
  private var ringLosses = RingLosses()
  private var repeats = RingRepeats()

  /// Returns the numbers of received values and of values in no table.
  ///
  /// - Parameter isGap: returns whether there was no link between two times, in nanoseconds since the Unix
  ///   epoch.
  func ledger(_ isGap: (Int64, Int64) -> Bool) -> Ledger {
    var ledger = counts
    let isAlone = tables.allSatisfy { table in polar.keys.contains { PolarRows.name($0) == table.name } }
    let ring = ringLosses.account(ticks.report)
    let inGaps = ring.stretches.filter { isGap($0.after.nanoseconds, $0.before.nanoseconds) }
    let missing = max(0, ring.missing - inGaps.reduce(0) { $0 + $1.count })
    ledger.loss.missing += ring.missing(
      missing, besides: counts.loss.cut - usedCuts + counts.loss.malformed)
    ledger.isNumbered =
      ring.isNumbered || isAlone && !polar.isEmpty && polar.values.allSatisfy(\.account.isNumbered)
    ledger.isImported = true
    for rows in polar.values {
      ledger.loss.missing += rows.account.missing(
        rows.account.missing, besides: counts.loss.cut + counts.loss.malformed)
      ledger.loss.late += rows.account.late
      ledger.loss.unplaced += rows.account.unplaced
      ledger.repeated += rows.account.repeated
    }
    return ledger
  }

  var sources: [any TableSource] { kept.filter(\.isAnalysed) }

  mutating func append(_ row: borrowing some RecordedRow, to table: RecordedTable) {
    let place = tables.firstIndex { $0.name == table.name } ?? tables.count
    if place == tables.count {
      tables.append(ReportTable(table))
      rows.append(WordRow(table.columns, wordCapacity: 0))
      kept.append(KeptTable(table))
    }
    rows[place].removeAll()
    row.encode(into: &rows[place])
    rows[place].endRow()
    tables[place].append(rows[place].words)
    if kept[place].isAnalysed { kept[place].words += rows[place].words }
  }
}

extension LogTables: LogReadingSink {
  mutating func noteClockStep() { clockSets.append(ringSamples.count) }

  mutating func take(_ sample: HeartRateSample) {
    counts.received += 1
    append(HeartRateRow(sample), to: HeartRateTables.tables[0])
    let intervals = sample.measurement.rrIntervals
    for index in intervals.indices {
      append(RRIntervalRow(time: sample.time, ticks: intervals[index]), to: HeartRateTables.tables[1])
    }
  }

  mutating func take(_ sample: TemperatureSample) {
    counts.received += 1
    append(TemperatureRow(sample), to: TemperatureTables.tables[0])
  }

  mutating func take(_ sample: CyclingSample) {
    counts.received += 1
    append(CyclingRow(sample: sample, pace: pace.take(sample)), to: CyclingTables.tables[0])
  }

  mutating func take(_ sample: RingRawReading) {
    counts.received += 1
    guard let stream = sample.stream else { return }
    guard !repeats.isRepeat(sample.sample, link: sample.link) else { return counts.repeated += 1 }
    ringSamples.append(sample)
    ticks.take(
      sample.sample, at: sample.time, link: sample.link, clock: ClockSetting(unknownCount: clockSets.count))
    while let placed = ticks.next() { ringLosses.take(placed) }
    append(sample, to: stream.table)
  }

  mutating func take(_ frame: Span<UInt8>, of stream: PolarLogStreams.Stream, at time: ReceiveTime) {
    guard let sample = try? PolarFrameSample(decoding: frame, at: time, link: stream.link) else { return }
    counts.received += 1
    var rows =
      polar[stream.type] ?? PolarRows(stream.type, sampleRate: stream.sampleRate, factor: stream.factor)
    rows.take(sampleRate: stream.sampleRate, factor: stream.factor)
    rows.take(sample) { row, _ in append(row) }
    polar[stream.type] = rows
  }

  private mutating func append(_ row: borrowing PolarRow) {
    let columns = PolarRows.columns(row.type, row.channelCount)
    append(row, to: RecordedTable(name: PolarRows.name(row.type), columns: columns))
  }

  /// Ends the input.
  mutating func finish() {
    ticks.finish()
    while let placed = ticks.next() { ringLosses.take(placed) }
    for type in polar.keys.sorted(by: { $0.rawValue < $1.rawValue }) {
      var rows = polar[type]
      rows?.finish { row, _ in append(row) }
      polar[type] = rows
    }
  }

  mutating func leaveOut(_ reason: LogReadings.Reason) {
    counts.received += 1
    switch reason {
    case .malformed: counts.loss.malformed += 1
    case .repeated: counts.repeated += 1
    case .unplaced: counts.loss.unplaced += 1
    case .other: break
    }
  }

  mutating func noteCut() {
    counts.received += 1
    counts.loss.cut += 1
  }

  mutating func take(cut sample: HeartRateSample) {
    take(sample)
    counts.received -= 1
    usedCuts += 1
  }

  mutating func take(cut sample: RingRawReading) {
    take(sample)
    counts.received -= 1
    usedCuts += 1
  }
}

/// Rows of a table in memory.
private struct KeptTable: TableSource {
  let table: RecordedTable
  let isAnalysed: Bool
  /// Cells of all rows, row after row.
  var words: [UInt64] = []

  init(_ table: RecordedTable) {
    self.table = table
    isAnalysed = SensorAnalysis.isAnalysed(table)
  }

  var hasRows: Bool { !words.isEmpty }
  func reader() -> any TableReader { Reader(self) }

  private final class Reader: TableReader {
    let table: RecordedTable
    private(set) var words: [UInt64] = []
    private(set) var rows = 0
    let problem: String? = nil
    private let all: [UInt64]

    init(_ kept: KeptTable) { (table, all) = (kept.table, kept.words) }

    func next() -> Bool {
      let start = rows * table.columns.count
      guard start < all.count else { return false }
      words = Array(all[start..<start + table.columns.count])
      rows += 1
      return true
    }
  }
}

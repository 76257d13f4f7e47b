import BLECore
import BLEDissector
import BLEHost
import BLESensors
import BLEWire
import CaptureTables
import ColmiRing
import Recording
import SensorSessions

/// The samples that one device's notifications in a log carry, as the tables that a recording of them would have.
struct LogStreams {
  var tables: [ReportTable] { gathered.tables }
  /// Of a ring, in order, for an analysis.
  var ringSamples: [RingRawReading] { gathered.ringSamples }
  /// Of other sensors, likewise.
  var sources: [any TableSource] { gathered.sources }
  private var gathered = LogTables()
  private var readings = LogReadings()

  mutating func take(_ packet: borrowing DecodedPacket) { readings.take(packet, into: &gathered) }
}

/// Tables that rows of several kinds are put into.
struct LogTables {
  private(set) var tables: [ReportTable] = []
  private var rows: [WordRow] = []
  /// What an analysis reads again.
  private var kept: [KeptTable] = []
  private(set) var ringSamples: [RingRawReading] = []
  private var pace = CyclingPace()
  private var polar: [PolarMeasurementType: (stream: PolarLogStreams.Stream, rows: PolarRows)] = [:]

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
  mutating func take(_ sample: HeartRateSample) {
    append(HeartRateRow(sample), to: HeartRateTables.tables[0])
    let intervals = sample.measurement.rrIntervals
    for index in intervals.indices {
      append(RRIntervalRow(time: sample.time, ticks: intervals[index]), to: HeartRateTables.tables[1])
    }
  }

  mutating func take(_ sample: TemperatureSample) {
    append(TemperatureRow(sample), to: TemperatureTables.tables[0])
  }

  mutating func take(_ sample: CyclingSample) {
    append(CyclingRow(sample: sample, pace: pace.take(sample)), to: CyclingTables.tables[0])
  }

  mutating func take(_ sample: RingRawReading) {
    guard let stream = sample.stream else { return }
    ringSamples.append(sample)
    append(sample, to: stream.table)
  }

  mutating func take(_ frame: Span<UInt8>, of stream: PolarLogStreams.Stream, at time: ReceiveTime) {
    guard let frame = try? PolarFrame(validating: frame) else { return }
    var rows = PolarRows(stream.type, sampleRate: stream.sampleRate, factor: stream.factor)
    if let known = polar[stream.type], known.stream == stream { rows = known.rows }
    if let layout = rows.accept(frame) {
      let columns = PolarRows.columns(stream.type, layout.channelCount)
      let table = RecordedTable(name: PolarRows.name(stream.type), columns: columns)
      rows.forEach(of: frame, at: time) { append($0, to: table) }
    }
    polar[stream.type] = (stream, rows)
  }

  mutating func leaveOut(_ reason: LogReadings.Reason) {}
}

/// The rows of a table, in memory.
private struct KeptTable: TableSource {
  let table: RecordedTable
  let isAnalysed: Bool
  /// Row after row.
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

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
  private(set) var ringSamples: [RingRawReading] = []
  /// Of other sensors, likewise.
  var sources: [any TableSource] { gathered.sources }
  private var gathered = LogTables()
  private var source = RawSource()
  private var connection: ConnectionHandle?
  private var pace = CyclingPace()
  private var polar = PolarLogStreams()

  mutating func take(_ packet: borrowing DecodedPacket) {
    guard let att = packet.att, let value = att.value, let handle = att.handle else { return }
    // On another link the ring may stream by another attribute.
    if packet.connectionHandle != connection {
      source = RawSource()
      polar = PolarLogStreams()
    }
    connection = packet.connectionHandle
    if att.opcode == .writeRequest, att.uuid == PolarUUID.controlPoint { polar.takeRequest(value) }
    guard att.opcode == .handleValueNotification || att.opcode == .handleValueIndication else { return }
    switch att.uuid {
    case .some(.heartRateMeasurement): takeHeartRate(value, at: packet.time)
    case .some(.temperatureMeasurement):
      guard let measurement = try? TemperatureMeasurement(decoding: value) else { return }
      take(TemperatureSample(.result(measurement), at: packet.time))
    case .some(.intermediateTemperature):
      guard let measurement = try? TemperatureMeasurement(decoding: value) else { return }
      take(TemperatureSample(.intermediate(measurement), at: packet.time))
    case .some(CoreUUID.bodyTemperature):
      guard let temperature = try? CoreBodyTemperature(decoding: value) else { return }
      take(TemperatureSample(.core(temperature), at: packet.time))
    case .some(.cscMeasurement):
      guard let sample = try? CyclingSample(decoding: value, at: packet.time) else { return }
      gathered.append(CyclingRow(sample: sample, pace: pace.take(sample)), to: CyclingTables.tables[0])
    case .some(PolarUUID.controlPoint): polar.takeAnswer(value)
    case .some(PolarUUID.data):
      polar.takeFrame(value, at: packet.time, into: &gathered)
    default: takeRing(value, handle, at: packet.time)
    }
  }

  private mutating func takeHeartRate(_ value: Span<UInt8>, at time: ReceiveTime) {
    guard let sample = try? HeartRateSample(decoding: value, at: time) else { return }
    gathered.append(HeartRateRow(sample), to: HeartRateTables.tables[0])
    let intervals = sample.measurement.rrIntervals
    for index in intervals.indices {
      gathered.append(RRIntervalRow(time: time, ticks: intervals[index]), to: HeartRateTables.tables[1])
    }
  }

  private mutating func take(_ sample: TemperatureSample) {
    gathered.append(TemperatureRow(sample), to: TemperatureTables.tables[0])
  }

  /// A frame has a checksum, so that its attribute need not be known.
  private mutating func takeRing(_ value: Span<UInt8>, _ handle: AttributeHandle, at time: ReceiveTime) {
    guard let frame = try? RingFrame(validating: value), let sample = RingRawSample(raw: frame),
      let stream = RingStream(sample), source.isFirst(handle)
    else { return }
    let stamped = RingRawReading(time: time, sample: sample)
    ringSamples.append(stamped)
    gathered.append(stamped, to: stream.table)
  }
}

/// Tables that rows of several kinds are put into.
struct LogTables {
  private(set) var tables: [ReportTable] = []
  private var rows: [WordRow] = []
  /// What an analysis reads again.
  private var kept: [KeptTable] = []
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

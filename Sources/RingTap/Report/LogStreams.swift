import BLECore
import BLEPacketLog
import BLESensors
import BLEWire

/// The samples that one device's notifications in a log carry, as the tables that a recording of them would have.
struct LogStreams {
  private(set) var tables: [ReportTable] = []
  /// Of a ring, in order, for an analysis.
  private(set) var ringSamples: [StampedSample] = []
  private var rows: [WordRow] = []
  private let source = RawSource()
  private var connection: ConnectionHandle?
  private var pace = CyclingPace()

  mutating func take(_ packet: borrowing DecodedPacket) {
    guard let att = packet.att, let value = att.value, let handle = att.handle else { return }
    guard att.opcode == .handleValueNotification || att.opcode == .handleValueIndication else { return }
    // On another link the ring may stream by another attribute.
    if packet.connectionHandle != connection { source.forget() }
    connection = packet.connectionHandle
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
      append(CyclingRow(sample: sample, pace: pace.take(sample)), to: CyclingTables.tables[0])
    default: takeRing(value, handle, at: packet.time)
    }
  }

  private mutating func takeHeartRate(_ value: Span<UInt8>, at time: ReceiveTime) {
    guard let sample = try? HeartRateSample(decoding: value, at: time) else { return }
    append(HeartRateRow(sample), to: HeartRateTables.tables[0])
    let intervals = sample.measurement.rrIntervals
    for index in intervals.indices {
      append(RRIntervalRow(time: time, ticks: intervals[index]), to: HeartRateTables.tables[1])
    }
  }

  private mutating func take(_ sample: TemperatureSample) {
    append(TemperatureRow(sample), to: TemperatureTables.tables[0])
  }

  /// A frame has a checksum, so that its attribute need not be known.
  private mutating func takeRing(_ value: Span<UInt8>, _ handle: AttributeHandle, at time: ReceiveTime) {
    guard let frame = try? RingFrame(validating: value), frame.opcode == RingCommand.rawStreamOpcode,
      !frame.isError, let sample = try? RingRawSample(decoding: frame)
    else { return }
    let stamped = StampedSample(time: time, sample: sample)
    guard let stream = stamped.stream, source.isFirst(handle) else { return }
    ringSamples.append(stamped)
    append(stamped, to: stream.table)
  }

  private mutating func append(_ row: some RecordedRow, to table: RecordedTable) {
    let place = tables.firstIndex { $0.name == table.name } ?? tables.count
    if place == tables.count {
      tables.append(ReportTable(table))
      rows.append(WordRow(table.columns, wordCapacity: 0))
    }
    rows[place].removeAll()
    row.encode(into: &rows[place])
    rows[place].endRow()
    tables[place].append(rows[place].words)
  }
}

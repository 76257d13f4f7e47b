package import BLELinux
import BLEWire
import ColmiRing

/// Tables of recorded ring traffic: history, battery, and measurements on demand.
struct RingStoryTables {
  /// Maximum number of history rows: ten months of all data that a ring stores.
  static let historyRows = Limit(
    131_072, "rows of a ring's history from a packet log", by: .file,
    whenFull: "rows of other times are left out",
    counted: "`droppedRows` of the import")
  /// Maximum number of battery rows and of measurement rows: a day and a half of continuous measurement.
  static let momentRows = Limit(
    262_144, "rows of a ring's battery and of its measurements from a packet log, each", by: .file,
    whenFull: "later ones are left out", counted: "`droppedRows` of the import")

  private var history = RingHistoryKind.allCases.map { RingTable($0) }
  private var batteries: [BatteryRow] = []
  private var measurements: [MeasurementRow] = []

  private struct BatteryRow {
    let time: ReceiveTime
    let battery: RingBattery
  }

  private struct MeasurementRow {
    enum Result {
      case frame(RingMeasurementFrame.Fault)
      /// The host stopped the measurement.
      case stopped
      /// The ring reported that it stored the value, without a request.
      case stored
    }

    let time: ReceiveTime
    let measurement: RingMeasurement
    /// Measured value; 0 without a value.
    let value: UInt8
    /// Interval between two beats in milliseconds; 0 without an interval.
    let pulseIntervalMilliseconds: UInt16
    let result: Result
  }

  // MARK: Rows

  /// Adds rows to the table of their kind.
  ///
  /// - Returns: the number of rows dropped because the tables are full.
  mutating func keep(
    _ kind: RingHistoryKind, _ rows: [RingTable.Row], _ conflict: RingTable.Conflict
  ) -> Int {
    guard let index = history.firstIndex(where: { $0.kind == kind }) else { return rows.count }
    var dropped = 0
    for row in rows {
      let isFull = history.reduce(0) { $0 + $1.rowCount } >= Self.historyRows.count
      if isFull, !history[index].has(row) {
        dropped += 1
      } else {
        _ = history[index].merge([row], conflict)
      }
    }
    return dropped
  }

  /// Stores a battery level or a measurement.
  ///
  /// - Returns: the number of rows dropped because the tables are full.
  mutating func take(_ reply: RingReply, at time: ReceiveTime) -> Int {
    switch reply {
    case .battery(let battery), .notification(.battery(let battery)):
      guard batteries.count < Self.momentRows.count else { return 1 }
      batteries.append(BatteryRow(time: time, battery: battery))
      return 0
    case .measurement(let frame):
      return keep(frame.measurement, frame.value, frame.pulseIntervalMilliseconds, .frame(frame.fault), time)
    case .measurementStopped(let measurement, let value):
      return keep(measurement, value, 0, .stopped, time)
    case .notification(.stressStored(let value)): return keep(.stress, value, 0, .stored, time)
    default: return 0
    }
  }

  private mutating func keep(
    _ measurement: RingMeasurement, _ value: UInt8, _ interval: UInt16, _ result: MeasurementRow.Result,
    _ time: ReceiveTime
  ) -> Int {
    guard measurements.count < Self.momentRows.count else { return 1 }
    measurements.append(
      MeasurementRow(
        time: time, measurement: measurement, value: value, pulseIntervalMilliseconds: interval,
        result: result))
    return 0
  }

  // MARK: Files

  var isEmpty: Bool { batteries.isEmpty && measurements.isEmpty && history.allSatisfy { $0.rowCount == 0 } }

  func write(in directory: String) throws(SystemError) -> [RingStory.WrittenTable] {
    var written: [RingStory.WrittenTable] = []
    for table in history {
      try table.write(in: directory)
      written.append(RingStory.WrittenTable(fileName: table.kind.fileName, rows: table.rowCount))
    }
    let others = [
      ("battery.csv", "time_ns,level_percent,charging", batteries.map(Self.line)),
      ("measurements.csv", "time_ns,kind,value,unit,pulse_interval_ms,result", measurements.map(Self.line)),
    ]
    for (name, header, lines) in others {
      let text = Array(([header] + lines).joined(separator: "\n").utf8) + [UInt8(ascii: "\n")]
      try Files.replace(directory + "/" + name, with: text.span)
      written.append(RingStory.WrittenTable(fileName: name, rows: lines.count))
    }
    return written
  }

  private static func line(_ row: BatteryRow) -> String {
    "\(row.time.nanoseconds),\(row.battery.percent),\(row.battery.isCharging ? 1 : 0)"
  }

  private static func line(_ row: MeasurementRow) -> String {
    let value = row.value == 0 ? "" : String(row.value)
    let interval = row.pulseIntervalMilliseconds == 0 ? "" : String(row.pulseIntervalMilliseconds)
    return "\(row.time.nanoseconds),\(row.measurement.name),\(value),\(row.measurement.unit),\(interval),"
      + result(row)
  }

  private static func result(_ row: MeasurementRow) -> String {
    switch row.result {
    case .stopped: "stopped"
    case .stored: "stored"
    case .frame(.none): row.value == 0 ? "warming-up" : "value"
    case .frame(.contact): "not-worn"
    case .frame(.temporary): "temporary-fault"
    case .frame(let fault): "fault-\(fault.rawValue)"
    }
  }
}

extension RingStory {
  package struct WrittenTable: Hashable, Sendable {
    package let fileName: String
    package let rows: Int
  }

  /// Whether all tables are empty.
  package var hasNoRows: Bool { tables.isEmpty }

  /// Writes the tables of `ring sync`, battery.csv and measurements.csv, and replaces existing files. A table
  /// without rows consists of its header. Call `finish` first.
  package func write(in directory: String) throws(SystemError) -> [WrittenTable] {
    try tables.write(in: directory)
  }
}

extension RingMeasurement {
  /// Name of the measurement in measurements.csv.
  fileprivate var name: String {
    switch self {
    case .heartRate: "heart-rate"
    case .bloodPressure: "blood-pressure"
    case .spO2: "spo2"
    case .fatigue: "fatigue"
    case .healthCheck: "health-check"
    case .realtimeHeartRate: "realtime-heart-rate"
    case .electrocardiogram: "ecg"
    case .stress: "stress"
    case .bloodSugar: "blood-sugar"
    case .heartRateVariability: "hrv"
    default: "type-\(rawValue)"
    }
  }

  /// Unit in measurements.csv; empty if there is no unit or it is unknown.
  fileprivate var unit: String {
    switch self {
    case .heartRate, .realtimeHeartRate: "bpm"
    case .spO2: "percent"
    case .heartRateVariability: "ms"
    default: ""
    }
  }
}

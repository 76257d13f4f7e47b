package import BLELinux
import BLEWire
import ColmiRing

/// Table of a ring's history: a CSV file that grows with each sync.
///
/// The first column is `time_ns`. The first one or two columns are the key of a row. A newer row replaces an
/// existing row with the same key, because today's counters grow.
struct RingTable: Sendable {
  struct Row: Hashable, Sendable {
    let time: ReceiveTime
    /// Columns after the time.
    let columns: [String]

    init(_ time: ReceiveTime, _ columns: [String]) {
      self.time = time
      self.columns = columns
    }

    init(_ time: ReceiveTime, _ columns: String...) { self.init(time, columns) }

    /// Line of the row in the file, without line feed.
    fileprivate var line: String { ([String(time.nanoseconds)] + columns).joined(separator: ",") }
  }

  /// Result of merging rows into a table.
  struct Merge: Hashable, Sendable {
    var rows = 0
    var added = 0
    var changed = 0
  }

  let kind: RingHistoryKind
  /// Lines without line feeds, by key.
  private var lines: [String: String] = [:]

  var rowCount: Int { lines.count }

  /// Creates an empty table.
  init(_ kind: RingHistoryKind) { self.kind = kind }

  /// Reads the table from its file.
  ///
  /// - Throws: an error if the file cannot be read. A file with another header is not an error; it sets
  ///   `isForeign`.
  init(_ kind: RingHistoryKind, in directory: String) throws(SystemError) {
    self.kind = kind
    let path = directory + "/" + kind.fileName
    guard Files.exists(path) else { return }
    var octets: [UInt8] = []
    try Files.read(path) { piece in
      for index in piece.indices { octets.append(piece[index]) }
      return true
    }
    let text = String(decoding: octets, as: UTF8.self)
    let rows = text.split(separator: "\n").map(String.init)
    isForeign = rows.first.map { $0 != kind.header } ?? false
    for row in rows.dropFirst() { lines[key(row)] = row }
  }

  /// Whether the file has another header. Such a file must not be overwritten.
  private(set) var isForeign = false

  /// Action for a row whose key already exists.
  enum Conflict {
    case replace, keep
  }

  /// Merges rows into the table. Call `write` to store them.
  mutating func merge(_ rows: [Row], _ conflict: Conflict = .replace) -> Merge {
    var merge = Merge()
    for row in rows {
      let line = row.line
      let key = key(line)
      if conflict == .keep, lines[key] != nil { continue }
      let former = lines.updateValue(line, forKey: key)
      if former == nil { merge.added += 1 } else if former != line { merge.changed += 1 }
    }
    merge.rows = lines.count
    return merge
  }

  /// Returns whether a row with the same key exists.
  func has(_ row: Row) -> Bool { lines[key(row.line)] != nil }

  func write(in directory: String) throws(SystemError) {
    let sorted = lines.values.map { (Self.time($0), $0) }.sorted { $0 < $1 }
    var octets = Array((kind.header + "\n").utf8)
    for (_, line) in sorted {
      octets += Array(line.utf8)
      octets.append(UInt8(ascii: "\n"))
    }
    // Replace the file atomically: a ring deletes its data after a week, so the file may be the only copy.
    try Files.replace(directory + "/" + kind.fileName, with: octets.span)
  }

  private func key(_ line: String) -> String {
    line.split(separator: ",", omittingEmptySubsequences: false).prefix(kind.keyColumnCount)
      .joined(separator: ",")
  }

  private static func time(_ line: String) -> Int64 {
    line.split(separator: ",").first.flatMap { Int64($0) } ?? 0
  }
}

/// Tables of a ring's history.
public enum RingHistoryKind: String, CaseIterable, Hashable, Sendable {
  case heartRate = "heart-rate"
  case steps, stress, hrv, spo2, sleep, temperature

  public var fileName: String { rawValue + ".csv" }

  /// Header line. The time of a row is the start of its slot.
  var header: String {
    switch self {
    case .heartRate: "time_ns,source,beats_per_minute"
    case .steps: "time_ns,steps,distance_m,calories_cal"
    case .stress: "time_ns,stress"
    case .hrv: "time_ns,hrv_ms"
    case .spo2: "time_ns,minimum_percent,maximum_percent"
    case .sleep: "time_ns,kind,minutes,stage"
    case .temperature: "time_ns,celsius"
    }
  }

  /// Number of key columns: time, or time and source.
  var keyColumnCount: Int { self == .heartRate || self == .sleep ? 2 : 1 }
}

/// Converts a ring's stored data to rows of its history tables.
struct RingRows: Sendable {
  typealias Row = RingTable.Row

  /// The time zone of the ring's clock.
  let calendar: RingCalendar
  /// Time that the ring's clock showed when it answered. "Days ago" are counted from it.
  let now: RingDateTime

  /// Returns the rows of a day's log.
  ///
  /// - Parameters:
  ///   - log: the log.
  ///   - date: the requested day.
  func of(_ log: RingDayLog, on date: RingDate) -> [Row] {
    // Today's slots after the current time may have stale values.
    let last = date == now.date ? Int(now.hour) * 60 + Int(now.minute) : 1440
    return log.entries.filter { $0.slot * log.intervalMinutes <= last }.map { entry in
      let value = String(entry.value)
      return Row(
        calendar.time(date, minute: entry.slot * log.intervalMinutes),
        log.kind == .heartRate ? ["log", value] : [value])
    }
  }

  func of(_ log: RingActivityLog) -> [Row] {
    log.records.compactMap { record in
      guard case .valid(let date) = record.date, let minute = record.startMinute else { return nil }
      let calories = log.calorieUnit == .tenCalories ? String(Int(record.calories) * 10) : ""
      return Row(
        calendar.time(date, minute: minute), String(record.steps), String(record.distanceMeters), calories)
    }
  }

  func of(_ log: RingManualHeartRate) -> [Row] {
    log.entries.map { Row(time(log.daysAgo, Int($0.minute)), "manual", String($0.beatsPerMinute)) }
  }

  func of(_ day: RingSpO2Day) -> [Row] {
    day.hours.map {
      Row(time(day.daysAgo, Int($0.hour) * 60), String($0.minimum), String($0.maximum))
    }
  }

  func of(night: RingSleep) -> [Row] { of(night, "night") }
  func of(nap: RingSleep) -> [Row] { of(nap, "nap") }

  private func of(_ sleep: RingSleep, _ kind: String) -> [Row] {
    var minute = sleep.startMinuteOfEndDay
    return sleep.stages.map { span in
      defer { minute += Int(span.minutes) }
      return Row(time(sleep.daysAgo, minute), kind, String(span.minutes), span.stage.text)
    }
  }

  func of(_ day: RingTemperatureDay) -> [Row] {
    day.readings.map { Row(time(day.daysAgo, $0.minute), String($0.celsius)) }
  }

  func of(_ log: RingIntervalTemperatureLog) -> [Row] {
    log.readings.map { Row(time(log.daysAgo, $0.minute), String($0.celsius)) }
  }

  private func time(_ daysAgo: UInt8, _ minute: Int) -> ReceiveTime {
    calendar.time(now.date.before(days: Int(daysAgo)), minute: minute)
  }
}

extension RingSleep.Stage {
  /// Name of the stage in the sleep table.
  package var text: String {
    switch self {
    case .none: "none"
    case .error: "error"
    case .light: "light"
    case .deep: "deep"
    case .rapidEyeMovement: "rem"
    case .awake: "awake"
    default: String(rawValue)
    }
  }
}

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

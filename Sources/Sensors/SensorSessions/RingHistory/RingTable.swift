import BLELinux
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

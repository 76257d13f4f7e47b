import BLELinux
import BLEWire

/// A table of a ring's history: a CSV file that grows with each sync.
///
/// The first column is `time_ns`; the first columns together are the row's key. A newer row replaces an
/// existing one with the same key, because today's counters grow.
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

    /// The row's line in the file, without line feed.
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

  /// Creates a table without rows.
  init(_ kind: RingHistoryKind) { self.kind = kind }

  /// Reads the table from its file.
  ///
  /// - Throws: an error if the file cannot be read. A file of another kind sets `isForeign`.
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

  /// Whether the file has another header, so that it must not be written.
  private(set) var isForeign = false

  /// Action for a row whose key exists.
  enum Conflict {
    case replace, keep
  }

  /// Merges rows into the table; call `write` to store them.
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

  /// Whether a row with the same key exists.
  func has(_ row: Row) -> Bool { lines[key(row.line)] != nil }

  func write(in directory: String) throws(SystemError) {
    let sorted = lines.values.map { (Self.time($0), $0) }.sorted { $0 < $1 }
    var octets = Array((kind.header + "\n").utf8)
    for (_, line) in sorted {
      octets += Array(line.utf8)
      octets.append(UInt8(ascii: "\n"))
    }
    // A ring deletes its data after a week, so the file may be the only copy.
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

/// The tables of a ring's history.
public enum RingHistoryKind: String, CaseIterable, Hashable, Sendable {
  case heartRate = "heart-rate"
  case steps, stress, hrv, spo2, sleep, temperature

  public var fileName: String { rawValue + ".csv" }

  /// Header line. The row of a slot has the time of the slot's start.
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

  /// Number of columns in the key: the time, or time and source.
  var keyColumnCount: Int { self == .heartRate || self == .sleep ? 2 : 1 }
}

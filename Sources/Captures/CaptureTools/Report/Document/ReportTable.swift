import BLEDissector
import Recording

/// Times of a table's rows, in nanoseconds since the Unix epoch.
struct TableTimes: Sendable {
  private(set) var count = 0
  private(set) var first: Int64?
  /// The latest time.
  private(set) var last: Int64 = .min
  /// Differences from the first time.
  private(set) var packed = PackedColumn()
  /// Intervals between rows.
  private(set) var intervals = LogLinearHistogram()
  private var previous: Int64 = 0

  mutating func append(_ time: Int64) {
    if first == nil {
      first = time
      packed = PackedColumn(from: time)
    } else {
      intervals.add(time &- previous)
    }
    previous = time
    last = max(last, time)
    packed.append(time)
    count += 1
  }
}

/// Recorded table in the form used by the page: times and numeric columns.
struct ReportTable: Sendable {
  struct Column: Sendable {
    var name: String
    /// Unit for display; empty for a column without a unit.
    var unit: String
    /// Factor by which numbers are multiplied before they are stored as integers.
    var divisor: Int
    fileprivate(set) var numbers = PackedColumn()
    fileprivate(set) var values = 0
    fileprivate(set) var smallest = Double.infinity
    fileprivate(set) var largest = -Double.infinity
  }

  let name: String
  private(set) var columns: [Column] = []
  /// Times for plots: on the sensor's own clock if known, otherwise arrival times.
  private var rowTimes = TableTimes()
  var count: Int { rowTimes.count }
  /// Time of the first row, in nanoseconds since the Unix epoch.
  var first: Int64? { rowTimes.first }
  /// Time of the latest row, in nanoseconds since the Unix epoch.
  var last: Int64 { rowTimes.last }
  /// Times relative to the first time.
  var times: PackedColumn { rowTimes.packed }
  /// Histogram of the intervals between arrival times of rows.
  var intervals: LogLinearHistogram { arrivals ?? rowTimes.intervals }
  /// Histogram of the intervals between arrival times; `nil` while `rowTimes` contains arrival times.
  private var arrivals: LogLinearHistogram?
  /// Index and description of each of `columns` in the recorded table.
  private var places: [(place: Int, column: RecordedColumn)] = []

  /// Creates a table that is filled from a recorded table.
  init(_ table: RecordedTable) {
    name = table.name
    for (place, column) in table.columns.enumerated() where Self.isShown(column, of: table) {
      columns.append(
        Column(
          name: Self.label(column), unit: Self.unit(column.unit), divisor: Self.divisor(column.kind)
        ))
      places.append((place, column))
    }
  }

  /// Creates a table that is filled by `append(at:_:)`.
  init(_ name: String, _ columns: [Column]) {
    self.name = name
    self.columns = columns
  }

  /// Appends a row of a recorded table.
  ///
  /// - Parameter words: the cells of the row (`TableCell`).
  mutating func append(_ words: [UInt64]) {
    let places = places
    append(at: Int64(bitPattern: words[0])) { places[$0].column.number(words[places[$0].place]) }
  }

  /// Appends a row with a number for each column.
  mutating func append(at time: Int64, _ numbers: [Double?]) { append(at: time) { numbers[$0] } }

  private mutating func append(at time: Int64, _ number: (Int) -> Double?) {
    rowTimes.append(time)
    for index in columns.indices {
      let value = number(index)
      columns[index].append(value)
    }
  }

  /// Replaces the times of all rows by times on the sensor's own clock. Does nothing if the number of times
  /// differs from the number of rows.
  mutating func place(at times: TableTimes) {
    guard times.count == count else { return }
    (arrivals, rowTimes) = (intervals, times)
  }

  /// Maximum interval between two rows that a line in a plot spans, in nanoseconds. `data.js` uses the same
  /// rule.
  var longestStep: Int64 { (rowTimes.intervals.percentile(perMille: 950) ?? 0) &* 5 }

  /// Returns the pauses longer than `longestStep`, at most `limit`.
  func pauses(limit: Int) -> [Range<Int64>] {
    guard var last = first else { return [] }
    var times = PackedColumn.Reader(times, from: last)
    var pauses: [Range<Int64>] = []
    let longest = longestStep
    while pauses.count < limit, let time = times.next() {
      if time &- last > longest, time > last { pauses.append(last..<time) }
      last = time
    }
    return pauses
  }

  /// Mean number of rows per second; `nil` if all rows have the same time.
  var rate: Double? {
    guard let first, count > 1, last > first else { return nil }
    return Double(count - 1) * 1e9 / Double(last &- first)
  }

  // MARK: Rows of a stretch

  /// Returns the rows in a period of time. If the clock was set back, affected rows count with the latest
  /// time before them.
  func rows(in stretch: ClosedRange<Int64>) -> Range<Int> {
    guard let first else { return 0..<0 }
    var times = PackedColumn.Reader(times, from: first)
    var (latest, begin, end) = (Int64.min, 0, 0)
    for row in 0..<count {
      latest = max(latest, times.next() ?? latest)
      if latest < stretch.lowerBound { begin = row + 1 }
      if latest > stretch.upperBound { break }
      end = row + 1
    }
    return begin..<max(begin, end)
  }

  /// Returns the numbers of a column; NaN for a missing number.
  func numbers(_ column: Int, in rows: Range<Int>) -> [Double] {
    var reader = PackedColumn.Reader(columns[column].numbers)
    let divisor = Double(columns[column].divisor)
    for _ in 0..<rows.lowerBound { _ = reader.next() }
    return rows.map { _ in reader.next().map { Double($0) / divisor } ?? .nan }
  }

  func times(in rows: Range<Int>) -> [Int64] {
    guard let first else { return [] }
    var reader = PackedColumn.Reader(times, from: first)
    var latest = Int64.min
    for _ in 0..<rows.lowerBound { latest = max(latest, reader.next() ?? latest) }
    return rows.map { _ in
      latest = max(latest, reader.next() ?? latest)
      return latest
    }
  }

  // MARK: Columns

  /// Returns whether a column is shown. Times and words are not shown, because they are not numbers. If a
  /// value is stored both as counts and in a unit, only the column with the unit is shown.
  private static func isShown(_ column: RecordedColumn, of table: RecordedTable) -> Bool {
    func has(_ unit: String) -> Bool { table.columns.contains { $0.unit == unit } }
    if case .word = column.kind { return false }
    return switch column.unit {
    case "ns": false
    case "counts": !has("g")
    case "s/1024": !has("ms")
    default: true
    }
  }

  /// Returns the column's name without its unit, for display.
  private static func label(_ column: RecordedColumn) -> String {
    var words = column.name.split(separator: "_")
    if words.count > 1, !column.unit.isEmpty { words.removeLast() }
    return words.joined(separator: " ")
  }

  private static func unit(_ unit: String) -> String {
    switch unit {
    case "Cel": "°C"
    case "uV": "µV"
    case "1/min": "per minute"
    default: unit
    }
  }

  /// Returns the factor that converts a cell's number to an integer.
  private static func divisor(_ kind: RecordedColumn.Kind) -> Int {
    switch kind {
    case .int16, .uint16, .int32, .int64, .word: 1
    // Counts of 1/512 g.
    case .float32(decimals: 6): 512
    case .float32(let decimals), .float64(let decimals): (0..<decimals).reduce(1) { power, _ in power * 10 }
    }
  }
}

extension ReportTable.Column {
  fileprivate mutating func append(_ value: Double?) {
    guard let value, value.isFinite, abs(value) < 1e12 else { return numbers.append(nil) }
    let number = Int64((value * Double(divisor)).rounded())
    numbers.append(number)
    values += 1
    smallest = min(smallest, Double(number) / Double(divisor))
    largest = max(largest, Double(number) / Double(divisor))
  }
}

/// Integers in the form that `data.js` reads. A missing number is the byte 0. For any other number, the
/// difference from the previous number is zigzag-encoded and increased by 1. The result is stored as a
/// little-endian varint with seven bits per byte.
struct PackedColumn: Sendable {
  private(set) var octets: [UInt8] = []
  private var last: Int64

  /// Creates an empty column.
  ///
  /// - Parameter start: base of the first difference.
  init(from start: Int64 = 0) { last = start }

  mutating func append(_ number: Int64?) {
    guard let number else {
      octets.append(0)
      return
    }
    let difference = number &- last
    last = number
    var code = UInt64(bitPattern: difference << 1 ^ difference >> 63) &+ 1
    while code >= 0x80 {
      octets.append(UInt8(truncatingIfNeeded: code) | 0x80)
      code >>= 7
    }
    octets.append(UInt8(code))
  }

  /// Decodes the numbers in order.
  struct Reader {
    private let octets: [UInt8]
    private var place = 0
    private var last: Int64

    init(_ column: PackedColumn, from start: Int64 = 0) {
      octets = column.octets
      last = start
    }

    mutating func next() -> Int64? {
      var (code, shift) = (0 as UInt64, 0 as UInt64)
      while place < octets.count {
        let octet = octets[place]
        place += 1
        code |= UInt64(octet & 0x7F) << shift
        shift += 7
        if octet < 0x80 { break }
      }
      guard code > 0 else { return nil }
      let zigzag = code - 1
      last = last &+ (Int64(bitPattern: zigzag >> 1) ^ -Int64(bitPattern: zigzag & 1))
      return last
    }
  }
}

import BLEDissector
import Recording

/// The times of a table's rows: nanoseconds since the Unix epoch.
struct TableTimes: Sendable {
  private(set) var count = 0
  private(set) var first: Int64?
  /// The latest of all.
  private(set) var last: Int64 = .min
  /// From the first on.
  private(set) var packed = PackedColumn()
  /// From row to row.
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

/// A recorded table as a page has it: its times, and those of its columns that are numbers.
struct ReportTable: Sendable {
  struct Column: Sendable {
    var name: String
    /// For people; empty where there is none.
    var unit: String
    /// Numbers are kept as whole ones: so many times what they are.
    var divisor: Int
    fileprivate(set) var numbers = PackedColumn()
    fileprivate(set) var values = 0
    fileprivate(set) var smallest = Double.infinity
    fileprivate(set) var largest = -Double.infinity
  }

  let name: String
  private(set) var columns: [Column] = []
  /// The times that plots have: of arrival, or on the sensor's own clock where that is known.
  private var rowTimes = TableTimes()
  var count: Int { rowTimes.count }
  /// Nanoseconds since the Unix epoch, of the first row; and the latest of all.
  var first: Int64? { rowTimes.first }
  var last: Int64 { rowTimes.last }
  /// From the first on.
  var times: PackedColumn { rowTimes.packed }
  /// From row to row, as they came.
  var intervals: LogLinearHistogram { arrivals ?? rowTimes.intervals }
  /// `nil` where `rowTimes` has them.
  private var arrivals: LogLinearHistogram?
  /// Places of `columns` among those of the recorded table, and these.
  private var places: [(place: Int, column: RecordedColumn)] = []
  private var clock: FrameClock?

  /// One that is filled from a recorded table.
  init(_ table: RecordedTable) {
    name = table.name
    for (place, column) in table.columns.enumerated() where Self.isShown(column, of: table) {
      columns.append(
        Column(
          name: Self.label(column, of: name), unit: Self.unit(column.unit), divisor: Self.divisor(column.kind)
        ))
      places.append((place, column))
    }
    // In an old table a row's time is its frame's.
    if table.columns.count > 1, table.columns[1].name == "device_time_ns" { clock = FrameClock() }
  }

  /// One that is filled by `append(at:_:)`.
  init(_ name: String, _ columns: [Column]) {
    self.name = name
    self.columns = columns
  }

  /// A row of a recorded table (`TableCell`).
  mutating func append(_ words: [UInt64]) {
    var time = Int64(bitPattern: words[0])
    if clock != nil { time = clock?.time(ofFrameAt: time, device: Int64(bitPattern: words[1])) ?? time }
    let places = places
    append(at: time) { places[$0].column.number(words[places[$0].place]) }
  }

  /// A row with a number for each column.
  mutating func append(at time: Int64, _ numbers: [Double?]) { append(at: time) { numbers[$0] } }

  private mutating func append(at time: Int64, _ number: (Int) -> Double?) {
    rowTimes.append(time)
    for index in columns.indices {
      let value = number(index)
      columns[index].append(value)
    }
  }

  /// Gives all rows other times: those of the sensor's own clock, one for each row. Ignored if there are more or fewer.
  mutating func place(at times: TableTimes) {
    guard times.count == count else { return }
    (arrivals, rowTimes) = (intervals, times)
  }

  /// Nanoseconds: more between two rows, and no line may lead over it. `data.js` says the same.
  var longestStep: Int64 { (rowTimes.intervals.percentile(perMille: 950) ?? 0) &* 5 }

  /// The first stretches that are longer than that.
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

  /// Rows a second on average; `nil` where no time passes.
  var rate: Double? {
    guard let first, count > 1, last > first else { return nil }
    return Double(count - 1) * 1e9 / Double(last &- first)
  }

  // MARK: Rows of a stretch

  /// The rows whose times lie in it. A clock that was set back must not confuse: such rows stand where the one before does.
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

  /// Numbers of a column, NaN where a row has none.
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

  /// Times and words are no numbers; of what stands there twice, as counts and in a unit, the unit is enough.
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

  /// The name without its unit, for people.
  private static func label(_ column: RecordedColumn, of table: String) -> String {
    var words = OldTables.presentName(column, of: table).split(separator: "_")
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

  /// What makes a cell's number a whole one.
  private static func divisor(_ kind: RecordedColumn.Kind) -> Int {
    switch kind {
    case .int16, .uint16, .int32, .int64, .word: 1
    // Counts, 512 to the g.
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

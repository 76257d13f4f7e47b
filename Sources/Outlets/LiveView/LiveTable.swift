import ColmiRing
import Recording

/// State of one recorded table for the live view, in fixed memory.
struct LiveTable: Sendable {
  private static let columnSeconds: [Double] = [
    0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000,
  ]
  /// Minimum number of samples per wave column.
  private static let samplesEach = 0.85
  /// Fraction of an arrival's delay by which the waveform's clock is adjusted.
  private static let pull = 0.05
  /// Delay in nanoseconds at which the waveform's clock restarts.
  private static let longestLateness = 500_000_000.0
  /// Maximum duration in nanoseconds of a pause that does not shift the waveform: the recording delivers rows
  /// only a few times per second.
  private static let patience: Int64 = 1_500_000_000
  /// Capacity for rows without a time on a ring's clock, more than the rows that arrive before their time is
  /// known.
  private static let waitingCapacity = 4096

  private var stream: LiveStream
  private var columns: [RecordedColumn] = []
  private var row = WordRow([], wordCapacity: 0)
  /// Indexes of the columns that form the displayed value.
  private var shown: [Int] = []
  /// Index of the column with the time for the waveform.
  private var timeColumn = 0
  private var rate = LiveRate()
  private var trace = LiveTrace()
  /// Time of the last row on the waveform's clock, in nanoseconds.
  private var lastTime: Int64?
  /// Whether rows get their time from a ring's clock, a few seconds after arrival. Rows without a time are
  /// drawn evenly spaced.
  private let isPlacedLater: Bool
  private var waiting = LiveRowQueue()
  /// Time of the last row on this machine's clock, in nanoseconds.
  private var lastRow: Int64 = 0

  init(_ table: RecordedTable) {
    stream = LiveStream(table.name)
    isPlacedLater = RingStream.allCases.contains { $0.table == table }
    if isPlacedLater { waiting.reserve(Self.waitingCapacity) }
    open(table.columns)
  }

  /// Sets the table's columns.
  mutating func open(_ columns: [RecordedColumn]) {
    guard !columns.isEmpty else { return }
    self.columns = columns
    row = WordRow(columns, wordCapacity: columns.count)
    timeColumn = max(0, columns.prefix { $0.unit == "ns" }.count - 1)
    shown = Self.choose(columns)
    guard let first = shown.first else { return }
    stream.unit = columns[first].unit
    switch columns[first].kind {
    case .float32(let decimals), .float64(let decimals):
      stream.decimals = min(decimals, shown.count > 1 ? 3 : 2)
    case .int16, .uint16, .int32, .int64, .word: stream.decimals = 0
    }
  }

  /// Returns the displayed columns: the three axes of an acceleration, otherwise the first number with a
  /// unit, otherwise the first number.
  private static func choose(_ columns: [RecordedColumn]) -> [Int] {
    let numbers = columns.indices.filter { place in
      if case .word = columns[place].kind { false } else { columns[place].unit != "ns" }
    }
    let axes = numbers.filter { ["g", "mg"].contains(columns[$0].unit) }
    if axes.count == 3 { return axes }
    let measured = numbers.first { place in
      switch columns[place].kind {
      case .float32, .float64: !columns[place].unit.isEmpty
      case .int16, .uint16, .int32, .int64, .word: false
      }
    }
    return (measured ?? numbers.first).map { [$0] } ?? []
  }

  /// Adds a row that has just arrived.
  ///
  /// - Parameter now: nanoseconds on this machine's clock.
  mutating func take(_ next: some RecordedRow, now: Int64) {
    guard !columns.isEmpty else { return }
    next.encode(into: &row)
    row.endRow()
    defer { row.removeAll() }
    stream.count += 1
    lastRow = now
    guard let arrival = time(0) else { return }
    rate.add(at: arrival)
    stream.last = value
    if isPlacedLater {
      if waiting.count == Self.waitingCapacity, let row = waiting.pop() { add(row, at: row.arrival) }
      waiting.push(LiveRowQueue.Row(arrival: arrival, value: Float(stream.last ?? .nan)))
      return
    }
    let period = rate.perSecond.map { 1e9 / $0 }
    let time = timeColumn > 0 ? time(timeColumn) ?? arrival : even(arrival, after: lastTime, period)
    add(LiveRowQueue.Row(arrival: arrival, value: Float(stream.last ?? .nan)), at: time)
  }

  private mutating func add(_ row: LiveRowQueue.Row, at time: Int64) {
    lastTime = time
    trace.add(Double(row.value), at: time)
  }

  /// Sets the time of a row that arrived earlier.
  ///
  /// - Parameters:
  ///   - time: time on the sensor's clock, in nanoseconds since the Unix epoch.
  ///   - arrival: the row's timestamp.
  mutating func place(at time: Int64, cameAt arrival: Int64) {
    guard isPlacedLater, waiting.rows.contains(where: { $0.arrival == arrival }) else { return }
    while let row = waiting.pop() {
      guard row.arrival != arrival else { return add(row, at: time) }
    }
  }

  /// Returns an evenly spaced time for a sample. Samples arrive in bursts, one burst for each connection
  /// event.
  ///
  /// - Parameters:
  ///   - last: time of the previous sample; `nil` for the first sample.
  ///   - period: sample period in nanoseconds; `nil` if unknown.
  ///   - pull: fraction of the delay by which to adjust; 0 if `last` is on the sensor's clock.
  private func even(
    _ arrival: Int64, after last: Int64?, _ period: Double?, pull: Double = Self.pull
  ) -> Int64 {
    guard let last, let period, period > 0, period.isFinite else { return arrival }
    let lateness = Double(arrival &- last) - period
    guard abs(lateness) < Self.longestLateness + period else { return arrival }
    // Times never decrease.
    return last &+ max(0, Int64(min(period + pull * lateness, 1e18)))
  }

  /// Returns the waiting rows with estimated times that follow the last row with a final time.
  private func rowsWaiting(_ period: Double?) -> [(time: Int64, value: Float)] {
    let pull = lastTime == nil ? Self.pull : 0
    var last = lastTime
    return waiting.rows.map { row in
      let time = even(row.arrival, after: last, period, pull: pull)
      last = time
      return (time, row.value)
    }
  }

  private var value: Double? {
    guard shown.count > 1 else { return shown.first.flatMap { number($0) } }
    var square = 0.0
    for place in shown {
      guard let part = number(place) else { return nil }
      square += part * part
    }
    return square.squareRoot()
  }

  private func time(_ place: Int) -> Int64? {
    let word = row.words[place]
    return TableCell.isMissing(word, columns[place].kind) ? nil : Int64(bitPattern: word)
  }

  private func number(_ place: Int) -> Double? { TableCell.number(row.words[place], columns[place].kind) }

  /// Returns the state for the view.
  ///
  /// - Parameters:
  ///   - count: number of columns of the waveform.
  ///   - now: nanoseconds on this machine's clock. After a long pause the waveform scrolls on with an empty
  ///     end.
  ///   - ticks: tick rate of a ring in hertz; `nil` while it is unknown.
  func stream(columns count: Int, now: Int64, ticks: Double? = nil) -> LiveStream {
    var stream = stream
    stream.rate = rate.perSecond
    let newer = rowsWaiting((ticks ?? rate.perSecond).map { 1e9 / $0 })
    guard let lastTime = newer.last?.time ?? lastTime else { return stream }
    let period = min(stream.rate.map { Self.samplesEach / $0 } ?? 0, Self.columnSeconds.last ?? 1)
    stream.columnSeconds = Self.columnSeconds.first { $0 >= period } ?? 1
    let silence = now - lastRow
    stream.silence = silence
    let isSilent = silence > Self.patience + Int64(2e9 * period)
    if isSilent { stream.rate = nil }
    let end = isSilent ? lastTime &+ silence : lastTime
    let slots = Int64(stream.columnSeconds * 1e9) / LiveTrace.slotNanoseconds
    stream.wave = trace.columns(count, slotsEach: slots, until: end, newer)
    return stream
  }
}

/// Queue of rows in order of arrival. The queue allocates only when capacity is reserved.
struct LiveRowQueue: Sendable {
  struct Row: Sendable {
    /// Timestamp in nanoseconds since the Unix epoch.
    var arrival: Int64
    /// NaN if the row has no value.
    var value: Float
  }

  private var slots: [Row] = []
  private var head = 0
  private(set) var count = 0

  mutating func reserve(_ capacity: Int) {
    slots = [Row](repeating: Row(arrival: 0, value: 0), count: capacity)
  }

  /// The rows, oldest first.
  var rows: some Sequence<Row> { (0..<count).lazy.map { slots[(head + $0) % slots.count] } }

  /// Adds a row. The queue must not be full.
  mutating func push(_ row: Row) {
    slots[(head + count) % slots.count] = row
    count += 1
  }

  mutating func pop() -> Row? {
    guard count > 0 else { return nil }
    defer { (head, count) = ((head + 1) % slots.count, count - 1) }
    return slots[head]
  }
}

/// Sample rate during the last seconds, measured by arrival times in fixed memory.
struct LiveRate: Sendable {
  /// Length of the window, in seconds.
  static let seconds: Int64 = 10
  /// Maximum pause in sample periods. A pause that exceeds both limits is an interruption, and earlier
  /// samples are ignored.
  private static let longestPeriods = 3.0
  /// Maximum pause in nanoseconds.
  private static let longestPause: Int64 = 1_500_000_000

  /// The first arrival within one second.
  private struct Mark {
    var second: Int64 = .min
    var time: Int64 = 0
    /// Number of samples before the arrival.
    var count = 0
  }

  /// Marks of the last seconds. The mark of second s is at index s modulo the array's length.
  private var marks = [Mark](repeating: Mark(), count: Int(Self.seconds) + 1)
  private var count = 0
  private var last: Int64?
  /// Samples per second, updated once per second; `nil` before the second sample.
  private(set) var perSecond: Double?

  /// Counts a sample.
  ///
  /// - Parameter time: arrival time in nanoseconds since the Unix epoch.
  mutating func add(at time: Int64) {
    if let last, isOver(after: time &- last) { self = LiveRate() }
    defer { (count, last) = (count + 1, time) }
    let second = time / 1_000_000_000
    let place = Int(second.magnitude % UInt64(marks.count))
    guard marks[place].second != second else { return }
    let mark = Mark(second: second, time: time, count: count)
    measure(until: mark)
    marks[place] = mark
  }

  private func isOver(after pause: Int64) -> Bool {
    guard let perSecond, pause > Self.longestPause else { return false }
    return Double(pause) * perSecond > Self.longestPeriods * 1e9
  }

  /// Computes the rate from the first arrival within the window. For a slow stream, uses the last arrival
  /// before the window.
  private mutating func measure(until last: Mark) {
    var first: Mark?
    for mark in marks where mark.second != .min && mark.time < last.time {
      let isRecent = mark.second >= last.second - Self.seconds
      guard let other = first else {
        first = mark
        continue
      }
      let isOtherRecent = other.second >= last.second - Self.seconds
      let isBetter = isRecent == isOtherRecent ? isRecent == (mark.time < other.time) : isRecent
      if isBetter { first = mark }
    }
    perSecond = first.map { Double(last.count - $0.count) * 1e9 / (Double(last.time) - Double($0.time)) }
  }
}

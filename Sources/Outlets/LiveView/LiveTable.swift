import ColmiRing
import Recording

/// What the live view shows of one recorded table. Fixed memory.
struct LiveTable: Sendable {
  private static let columnSeconds: [Double] = [
    0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000,
  ]
  /// Samples in a column of the wave, at least.
  private static let samplesEach = 0.85
  /// How much of an arrival's lateness moves the wave's clock, and how far off the clock may be before it begins anew.
  private static let pull = 0.05
  private static let longestLateness = 500_000_000.0
  /// Below this time without a row the wave stands still: the writer takes rows a few times a second only.
  private static let patience: Int64 = 1_500_000_000
  /// Rows that wait for their place on a ring's clock: more than it ever holds back.
  private static let waitingCapacity = 4096

  private var stream: LiveStream
  private var columns: [RecordedColumn] = []
  private var row = WordRow([], wordCapacity: 0)
  /// The columns that make the value.
  private var shown: [Int] = []
  /// The column that is the wave's time.
  private var timeColumn = 0
  private var rate = LiveRate()
  private var trace = LiveTrace()
  /// On the wave's clock, in nanoseconds.
  private var lastTime: Int64?
  /// Whether a ring's clock places the rows, some seconds after they came. Until then they lie behind each other.
  private let isPlacedLater: Bool
  private var waiting = LiveRowQueue()
  /// On ours.
  private var lastRow: Int64 = 0

  init(_ table: RecordedTable) {
    stream = LiveStream(table.name)
    isPlacedLater = RingStream.allCases.contains { $0.table == table }
    if isPlacedLater { waiting.reserve(Self.waitingCapacity) }
    open(table.columns)
  }

  /// Learns the columns.
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

  /// The three axes of an acceleration in its unit; else the first number that has one; else the first number.
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

  /// Takes a row that came now.
  ///
  /// - Parameter now: nanoseconds on our clock.
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

  /// Puts a row that came before on the clock of its sensor.
  ///
  /// - Parameters:
  ///   - time: on that clock: nanoseconds since the Unix epoch.
  ///   - arrival: the row's timestamp.
  mutating func place(at time: Int64, cameAt arrival: Int64) {
    guard isPlacedLater, waiting.rows.contains(where: { $0.arrival == arrival }) else { return }
    while let row = waiting.pop() {
      guard row.arrival != arrival else { return add(row, at: time) }
    }
  }

  /// Samples come in bunches, one each connection event: their times for the wave lie evenly, as those of the sensor did.
  ///
  /// - Parameters:
  ///   - last: time of the sample before; `nil` without one.
  ///   - period: nanoseconds; `nil` while it is not known.
  ///   - pull: 0 where `last` is on the sensor's clock.
  private func even(
    _ arrival: Int64, after last: Int64?, _ period: Double?, pull: Double = Self.pull
  ) -> Int64 {
    guard let last, let period, period > 0, period.isFinite else { return arrival }
    let lateness = Double(arrival &- last) - period
    guard abs(lateness) < Self.longestLateness + period else { return arrival }
    // Never back.
    return last &+ max(0, Int64(min(period + pull * lateness, 1e18)))
  }

  /// The rows that wait, where they lie as far as is known: behind the last one that was placed.
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

  /// - Parameters:
  ///   - count: columns of the wave.
  ///   - now: as above. Where nothing has come for long, the wave moves on and leaves its end empty.
  ///   - ticks: ticks a second of a ring, once they are known.
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

/// Rows in the order in which they came. Allocates at its start only.
struct LiveRowQueue: Sendable {
  struct Row: Sendable {
    /// Nanoseconds since the Unix epoch.
    var arrival: Int64
    /// NaN where the row has none.
    var value: Float
  }

  private var slots: [Row] = []
  private var head = 0
  private(set) var count = 0

  mutating func reserve(_ capacity: Int) {
    slots = [Row](repeating: Row(arrival: 0, value: 0), count: capacity)
  }

  /// The oldest first.
  var rows: some Sequence<Row> { (0..<count).lazy.map { slots[(head + $0) % slots.count] } }

  /// There must be room.
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

import BLELinux
import BLEWire
import JSONText
import Recording

/// Properties of a table's signals, determined from all its rows: rate, length, ranges, gaps.
struct SignalScan {
  struct Signal {
    var smallest = Double.infinity
    var largest = -Double.infinity
    var values = 0
  }

  /// Period with missing samples.
  struct Gap: Hashable {
    var position: Int
    var length: Int
    /// Names of the groups with missing samples; `nil` if all groups are missing.
    var groups: [String]?
    /// Whether the sensor sent the samples, but without a reading.
    var isDropout = false
  }

  /// Sample period in nanoseconds.
  private(set) var period = 0.0
  /// Time of the first sample, in nanoseconds since the Unix epoch.
  private(set) var start: Int64 = 0
  /// Time of the first sample on the sensor's clock in nanoseconds, or the number of a ring's first tick.
  private(set) var startClock: Int64?
  /// Number of samples of each signal, including missing samples.
  private(set) var length = 0
  private(set) var signals: [Signal]
  private(set) var gaps: [Gap] = []
  /// Number of gaps without dropouts, including gaps beyond `gapLimit`.
  private(set) var gapCount = 0
  /// Number of samples that the sensor sent without a reading.
  private(set) var dropouts = 0
  /// Positions where the sensor's clock restarted.
  private(set) var restarts: [Int] = []
  private(set) var rows = 0
  /// Reason why reading ended before the end of the table.
  private(set) var problem: String?

  private static let gapLimit = 1 << 16
  private static let filledLimit = Limit(
    4_000_000, "values filled in over all signals of a table, plus 64 for each recorded one",
    by: .file, whenFull: "the capture is not converted to EDF, BDF or WFDB",
    counted: "message and exit status")
  private static let filledPerValue = 64
  /// Minimum length of a pause that is not filled, in seconds: one day.
  static let fillLimit = 86_400.0

  var rate: Double { 1e9 / period }

  /// Reads the table twice, first to measure the rate, then to scan the signals.
  init(
    _ capture: RecordedCapture, _ table: SignalTable, progress: (Int) -> Void
  ) throws(ConversionError) {
    signals = table.signals.map { _ in Signal() }
    try measureRate(capture, table)
    guard SignalTable.rates.contains(rate) else {
      throw .unsuitable(
        "\(rate) rows a second in the table '\(table.table.name)' are not the rate of a sensor")
    }
    var walk = SignalWalk(table, period: period)
    problem = try Self.forEachRow(capture, table) { words in
      rows += 1
      if rows.isMultiple(of: 65_536) { progress(rows) }
      let position = walk.next(words)
      // If a pause is too long, the conversion fails, so nothing is filled.
      if walk.longestPause < Self.fillLimit { take(words, at: position, isRestart: walk.isRestart, table) }
    }
    let way =
      "formats without times cannot store that: ringtap convert \(capture.directory) --to npy (or csv)"
    guard walk.longestPause < Self.fillLimit else {
      throw .unsuitable(
        "the clock of the table '\(table.table.name)' jumps by \(Self.days(walk.longestPause)) after row "
          + "\(walk.rowsBeforePause); \(way)")
    }
    guard mayFill(length - rows) else {
      throw .unsuitable(
        "the table '\(table.table.name)' has \(counted(rows, "row")) in \(counted(Int(Double(length) / rate / 3600), "hour")), "
          + "with a pause of \(counted(Int(walk.longestPause / 60), "minute")) after row \(walk.rowsBeforePause); \(way)"
      )
    }
  }

  /// Returns whether this number of positions without rows may be filled.
  func mayFill(_ places: Int) -> Bool {
    let recorded = rows.multipliedReportingOverflow(by: Self.filledPerValue)
    let limit = recorded.overflow ? Int.max : recorded.partialValue
    return places <= Self.filledLimit.count / max(1, signals.count) + min(limit, Int.max / 2)
  }

  private static func days(_ seconds: Double) -> String {
    let days = (seconds / 86_400).rounded()
    return days < 1e15 ? "\(Int(days)) \(days == 1 ? "day" : "days")" : "\(days) days"
  }

  /// Calls `body` with each row.
  ///
  /// - Returns: the reason why reading ended before the end of the table, or `nil`.
  @discardableResult private static func forEachRow(
    _ capture: RecordedCapture, _ table: SignalTable, _ body: ([UInt64]) throws(SystemError) -> Void
  ) throws(ConversionError) -> String? {
    do throws(SystemError) {
      let reader = try capture.reader(table.table)
      while reader.next() { try body(reader.words) }
      return reader.problem
    } catch { throw .output(error) }
  }

  /// Sets the sample period to the mean over all continuous steps. The first pass uses the median; the second
  /// pass excludes jumps of the clock, and steps of several periods.
  private mutating func measureRate(
    _ capture: RecordedCapture, _ table: SignalTable
  ) throws(ConversionError) {
    var begin: SignalTable.Moment?
    for _ in 0..<2 {
      var (nanoseconds, periods) = (0.0, 0.0)
      var last: SignalTable.Moment?
      var shortest: [Double] = []
      try Self.forEachRow(capture, table) { words in
        let moment = table.moment(words)
        if begin == nil { begin = moment }
        if let last, let interval = table.interval(from: last, to: moment, period: period > 0 ? period : nil)
        {
          nanoseconds += interval.nanoseconds
          periods += interval.periods
          if shortest.count < 1024 { shortest.append(interval.nanoseconds / interval.periods) }
        }
        last = moment
      }
      guard let begin, periods > 0 else {
        throw .unsuitable("the table '\(table.table.name)' has too few rows for a rate")
      }
      shortest.sort()
      period = period > 0 ? nanoseconds / periods : shortest[shortest.count / 2]
      (start, startClock) = (begin.time, begin.clock)
    }
  }

  private mutating func take(
    _ words: [UInt64], at position: Int, isRestart: Bool, _ table: SignalTable
  ) {
    if position > length { note(Gap(position: length, length: position - length, groups: nil)) }
    if isRestart, restarts.count < Self.gapLimit { restarts.append(position) }
    var (missing, present): ([String], [String]) = ([], [])
    for (index, signal) in table.signals.enumerated() {
      guard let value = table.table.columns[signal.place].number(words[signal.place]) else {
        if missing.last != signal.group { missing.append(signal.group) }
        continue
      }
      if present.last != signal.group { present.append(signal.group) }
      signals[index].smallest = min(signals[index].smallest, value)
      signals[index].largest = max(signals[index].largest, value)
      signals[index].values += 1
    }
    length = position + 1
    // If one signal of a frame has a value, the frame arrived, so its other signals are dropouts.
    let droppedOut = missing.filter(present.contains)
    if !droppedOut.isEmpty {
      dropouts += droppedOut.count
      note(Gap(position: position, length: 1, groups: droppedOut, isDropout: true))
      missing.removeAll(where: droppedOut.contains)
    }
    if !missing.isEmpty { note(Gap(position: position, length: 1, groups: missing)) }
  }

  private mutating func note(_ gap: Gap) {
    let before = gaps.lastIndex { $0.isDropout == gap.isDropout }
    if let before, gaps[before].groups == gap.groups,
      gaps[before].position + gaps[before].length == gap.position
    {
      gaps[before].length += gap.length
      return
    }
    if !gap.isDropout { gapCount += 1 }
    if gaps.count < Self.gapLimit { gaps.append(gap) }
  }
}

/// Assigns each row a position on a regular grid.
package struct SignalWalk {
  /// Whether the clock restarted at the last row.
  package private(set) var isRestart = false
  /// Longest time between two rows, in seconds.
  private(set) var longestPause = 0.0
  /// Number of rows before the longest pause.
  private(set) var rowsBeforePause = 0
  private var rows = 0
  private let table: SignalTable
  private let period: Double
  private var last: SignalTable.Moment?
  private var position = -1

  package init(_ table: SignalTable, period: Double) {
    self.table = table
    self.period = period
  }

  package mutating func next(_ words: [UInt64]) -> Int {
    let moment = table.moment(words)
    isRestart = false
    defer { rows += 1 }
    guard let last else {
      self.last = moment
      position = 0
      return 0
    }
    self.last = moment
    if let steps = table.steps(from: last, to: moment, period: period) {
      note(pause: Double(steps) * period)
      position += steps
      isRestart = moment.fit != last.fit
      return position
    }
    // Rows of one frame have the same arrival time.
    isRestart = moment.arrival != last.arrival
    let pause = Double(moment.time) - Double(last.time)
    note(pause: pause)
    position += max(1, Int((min(pause, SignalScan.fillLimit * 1e9) / period).rounded()))
    return position
  }

  private mutating func note(pause nanoseconds: Double) {
    if nanoseconds / 1e9 > longestPause { (longestPause, rowsBeforePause) = (nanoseconds / 1e9, rows) }
  }
}

/// Iterates over the positions of a table's grid, with one value for each signal.
struct SignalPlaces {
  /// Values at the current position; NaN for a missing value.
  private(set) var values: [Double]
  private let table: SignalTable
  private let reader: any TableReader
  private let nothing: [Double]
  private var walk: SignalWalk
  private var place = 0
  /// Position of the row that was read ahead; `nil` if the row has been returned.
  private var upcoming: Int?

  init(_ capture: RecordedCapture, _ table: SignalTable, period: Double) throws(SystemError) {
    self.table = table
    reader = try capture.reader(table.table)
    walk = SignalWalk(table, period: period)
    nothing = [Double](repeating: .nan, count: table.signals.count)
    values = nothing
  }

  /// Advances to the next position.
  ///
  /// - Returns: `false` after the last position.
  mutating func next() -> Bool {
    if upcoming == nil {
      guard reader.next() else { return false }
      upcoming = walk.next(reader.words)
    }
    guard let position = upcoming, place >= position else {
      values = nothing
      place += 1
      return true
    }
    for (index, signal) in table.signals.enumerated() {
      values[index] = table.table.columns[signal.place].number(reader.words[signal.place]) ?? .nan
    }
    place += 1
    upcoming = nil
    return true
  }
}

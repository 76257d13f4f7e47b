package import BLELinux
import BLEWire
import Physiology
package import Recording

/// Computes the measurement times of a sensor with its own clock by fitting one straight line to all frame
/// timestamps.
///
/// During a recording, times are fitted only to the frames so far, so they can vary by a few hundredths of a
/// second in the first minute. This fit uses the whole recording, and all tables with times on the sensor's
/// clock. All times still include a constant delay from the sensor to the kernel.
package struct StraightClock: Sendable {
  package enum Unit: Hashable, Sendable {
    case seconds
    /// Ticks of unknown duration.
    case ticks
  }

  /// Unit of the sensor's clock.
  package let counts: Unit
  /// Seconds on the kernel's clock per unit of the sensor's clock.
  package let pace: Double
  private let fit: ClockFit
  private let first: Int64
  /// Number of counts of the sensor's clock per index of the fit.
  private let unit: Int64
  private var tables: [String: Table] = [:]

  private struct Table: Sendable {
    let signals: SignalTable
    /// Indices of the columns with arrival timestamps.
    let stamps: [Int]
    /// Difference between the fitted and the recorded time, in nanoseconds, about twice per second.
    var shifts: [(recorded: Int64, shift: Int64)] = []

    init?(_ table: RecordedTable) {
      guard let signals = SignalTable(table) else { return nil }
      self.signals = signals
      let names =
        signals.hasDeviceClock ? ["frame_time_ns"] : RingStream.allCases.map { "\($0.name)_time_ns" }
      stamps = table.columns.indices.filter { names.contains(table.columns[$0].name) }
    }

    func stamp(_ words: [UInt64]) -> Int64? {
      stamps.map { Int64(bitPattern: words[$0]) }.filter { $0 != .min }.min()
    }
  }

  /// Nanoseconds on the sensor's clock per index of the fit: 1 ms.
  private static let step: Int64 = 1_000_000
  private static let shiftSpacing: Int64 = 500_000_000
  /// Minimum lateness of a frame relative to the line, in nanoseconds (negative: early). An earlier frame
  /// means that a clock was set or is not linear.
  private static let tolerance = -5e6

  /// Fits the clock. Reads all tables twice.
  ///
  /// - Returns: `nil` for a capture without a sensor clock, or if the clock restarted or was not linear.
  package init?(of capture: RecordedCapture) throws(SystemError) {
    var tables: [String: Table] = [:]
    for table in capture.tables { tables[table.name] = Table(table) }
    guard let any = tables.values.first,
      tables.values.allSatisfy({ $0.signals.hasDeviceClock == any.signals.hasDeviceClock })
    else { return nil }
    let counts = any.signals.hasDeviceClock ? Unit.seconds : .ticks
    let unit = any.signals.hasDeviceClock ? Self.step : 1
    var (fit, first, last) = (ClockFit?.none, 0 as Int64, SignalTable.Moment?.none)
    var isStraight = true
    try Self.forEachRow(of: capture, tables) { table, words in
      let moment = table.signals.moment(words)
      guard isStraight, let clock = moment.clock, let stamp = table.stamp(words) else { return }
      guard let before = last, let known = before.clock else {
        (first, last) = (clock, moment)
        return
      }
      // If several tables have the same sensor time, it counts once.
      if clock == known { return }
      guard clock > known, moment.fit == before.fit, (clock - first) / unit < Int64(Int32.max) else {
        isStraight = false
        return
      }
      last = moment
      let index = Int((clock - first) / unit)
      let guess =
        counts == .seconds ? Double(unit) : Double(moment.time &- before.time) / Double(clock - known)
      if fit == nil {
        fit = ClockFit(index: index, time: stamp, period: max(1, guess), isKnown: counts == .seconds)
      }
      let rest = Double((clock - first) % unit) / Double(unit) * (fit?.period ?? 0)
      fit?.take(stamp &- Int64(rest), at: index)
    }
    guard isStraight, let fit else { return nil }
    (self.counts, self.unit, self.fit, self.first) = (counts, unit, fit, first)
    self.tables = tables
    pace = fit.period / (counts == .seconds ? Double(unit) : 1e9)
    guard try takeShifts(of: capture) else { return nil }
  }

  /// Calls `body` with the rows of all tables, in order of the sensor's clock.
  private static func forEachRow(
    of capture: RecordedCapture, _ tables: [String: Table], _ body: (Table, [UInt64]) -> Void
  ) throws(SystemError) {
    var readers: [(table: Table, reader: any TableReader, clock: Int64)] = []
    for table in capture.tables {
      guard let known = tables[table.name] else { continue }
      let reader = try capture.reader(table)
      if let clock = advance(reader, known) { readers.append((known, reader, clock)) }
    }
    while let next = readers.indices.min(by: { readers[$0].clock < readers[$1].clock }) {
      body(readers[next].table, readers[next].reader.words)
      if let clock = advance(readers[next].reader, readers[next].table) {
        readers[next].clock = clock
      } else {
        readers.remove(at: next)
      }
    }
  }

  /// Advances to the next row with a time on the sensor's clock, and returns this time.
  private static func advance(_ reader: any TableReader, _ table: Table) -> Int64? {
    while reader.next() {
      if let clock = table.signals.moment(reader.words).clock { return clock }
    }
    return nil
  }

  /// Computes `shifts` for all tables.
  ///
  /// - Returns: `false` if a frame is earlier than the line.
  private mutating func takeShifts(of capture: RecordedCapture) throws(SystemError) -> Bool {
    for name in tables.keys.sorted() {
      guard var table = tables[name] else { continue }
      let reader = try capture.reader(table.signals.table)
      while reader.next() {
        let moment = table.signals.moment(reader.words)
        guard let time = time(moment), let stamp = table.stamp(reader.words) else { continue }
        guard Double(stamp &- time) >= Self.tolerance else { return false }
        if let last = table.shifts.last, moment.time &- last.recorded < Self.shiftSpacing { continue }
        table.shifts.append((moment.time, time &- moment.time))
      }
      tables[name] = table
    }
    return tables.values.contains { !$0.shifts.isEmpty }
  }

  private func time(_ moment: SignalTable.Moment) -> Int64? {
    guard let clock = moment.clock, clock >= first else { return nil }
    let rest = Double((clock - first) % unit) / Double(unit) * fit.period
    return fit.time(of: Int((clock - first) / unit)) &+ Int64(rest)
  }

  /// Returns the measurement time of a row, in nanoseconds since the Unix epoch; the recorded time if the row
  /// has no time on the sensor's clock.
  package func time(ofRow words: [UInt64], in table: RecordedTable) -> Int64 {
    guard let moment = tables[table.name]?.signals.moment(words) else { return Int64(bitPattern: words[0]) }
    return time(moment) ?? moment.time
  }

  /// Converts a recorded time, such as the time of a heartbeat in a table's signal, to measurement time. Both
  /// are in nanoseconds since the Unix epoch.
  package func time(recorded: Int64, in table: RecordedTable) -> Int64 {
    guard let shifts = tables[table.name]?.shifts, !shifts.isEmpty else { return recorded }
    var (low, high) = (0, shifts.count)
    while low < high {
      let middle = (low + high) / 2
      if shifts[middle].recorded <= recorded { low = middle + 1 } else { high = middle }
    }
    guard low > 0 else { return recorded &+ shifts[0].shift }
    guard low < shifts.count else { return recorded &+ shifts[shifts.count - 1].shift }
    let (before, after) = (shifts[low - 1], shifts[low])
    let share = Double(recorded - before.recorded) / Double(max(1, after.recorded - before.recorded))
    return recorded &+ before.shift &+ Int64(Double(after.shift - before.shift) * share)
  }
}

import BLELinux
package import Recording

/// Table with a steady rate, interpreted as signals.
package struct SignalTable {
  /// Accepted sample rates, in samples per second.
  package static let rates = 0.001...100_000.0

  struct Signal {
    /// Name of the column. It fits into EDF's 16 ASCII characters.
    let label: String
    let unit: String
    let grain: SignalGrain
    /// Index of the column.
    let place: Int
    /// Stream that contains the signal.
    let group: String
  }

  package let table: RecordedTable
  let signals: [Signal]
  /// Description of the sensor for a file's header.
  let transducer: String
  private let clock: Clock
  /// Whether the wall clock was set during the capture. If so, times from different fits cannot be compared,
  /// and only tick numbers give the distance between them.
  private var numbersGoOn = false

  /// Columns with a row's measurement time.
  private enum Clock: Hashable {
    /// Ticks with number, fitted time, and number of the fit.
    case ticks
    /// Sensor times with frame times.
    case device(place: Int, frame: Int)
  }

  /// Returns the tables of a capture that have a steady rate: the ticks of a ring, or the raw streams of a
  /// Polar sensor.
  ///
  /// - Throws: an error if no table has a steady rate.
  static func all(of capture: RecordedCapture) throws(ConversionError) -> [SignalTable] {
    var steady = capture.tables.compactMap { SignalTable($0) }
    if !ClockSteps(capture.session).isEmpty {
      for place in steady.indices { steady[place].numbersGoOn = true }
    }
    guard !steady.isEmpty else {
      let names = capture.tables.map(\.name)
      throw .unsuitable(
        names.contains(RingStream.ppg.name) || names.contains(RingStream.accelerometer.name)
          ? "\(capture.directory) has no table 'samples', which has the steady rate that signals need; "
            + "create it: ringtap analyse \(capture.directory) --output \(capture.directory)"
          : "no table in \(capture.directory) has the steady rate that signals need "
            + "(\(names.joined(separator: ", "))); convert to csv, npy or ndjson")
    }
    // A ring's ticks contain the data of its other tables.
    return steady.first { $0.clock == .ticks }.map { [$0] } ?? steady
  }

  /// Interprets a table as signals.
  ///
  /// - Returns: `nil` if the table has no steady rate.
  package init?(_ table: RecordedTable) {
    guard let clock = Self.clock(of: table) else { return nil }
    self.table = table
    self.clock = clock
    signals = table.columns.enumerated().compactMap { place, column in
      Self.signal(column, place, table)
    }
    transducer = clock == .ticks ? "ring, raw stream" : "sensor, raw stream"
  }

  private static func clock(of table: RecordedTable) -> Clock? {
    if table.name == TickRows.table.name { return .ticks }
    let names = table.columns.map(\.name)
    guard let device = names.firstIndex(of: "device_time_ns"),
      let frame = names.firstIndex(of: "frame_time_ns")
    else { return nil }
    return .device(place: device, frame: frame)
  }

  /// Returns the signal of a column; `nil` if the column is not a signal.
  private static func signal(_ column: RecordedColumn, _ place: Int, _ table: RecordedTable) -> Signal? {
    func signal(_ grain: SignalGrain) -> Signal {
      let group = table.name == TickRows.table.name ? stream(of: place, in: table) : table.name
      return Signal(label: column.name, unit: column.unit, grain: grain, place: place, group: group)
    }
    switch column.unit {
    case "ns": return nil
    case "g": return signal(.acceleration)
    case "uV": return signal(.integers)
    // An acceleration is stored as counts and in a unit. Only the columns with a unit are used.
    case "counts": return isAxis(column) ? nil : signal(.integers)
    case "mg": return signal(.decimals(3))
    default: return column.name.hasPrefix("channel") ? signal(.decimals(3)) : nil
    }
  }

  private static func isAxis(_ column: RecordedColumn) -> Bool {
    RingStream.accelerometer.columns.contains { $0.name == column.name }
  }

  /// Returns the stream of the last time column before a column.
  private static func stream(of place: Int, in table: RecordedTable) -> String {
    let time = table.columns[...place].last { $0.unit == "ns" }
    return String(time?.name.dropLast("_time_ns".count) ?? "")
  }

  // MARK: Time

  /// Time of a row, on the sensor's clock if it has one, otherwise on the kernel's clock.
  package struct Moment {
    /// Fitted time, in nanoseconds since the Unix epoch.
    package let time: Int64
    /// Arrival time, in nanoseconds since the Unix epoch. It is equal for all samples of a frame.
    package let arrival: Int64
    /// Number of the tick, or time on the sensor's clock in nanoseconds; `nil` if the sensor does not report
    /// it.
    package let clock: Int64?
    /// Number of the fit, which changes when the clock restarts.
    let fit: Int64
  }

  package func moment(_ words: [UInt64]) -> Moment {
    let time = Int64(bitPattern: words[0])
    func number(_ place: Int) -> Int64 { Int64(bitPattern: words[place]) }
    switch clock {
    case .ticks: return Moment(time: time, arrival: time, clock: number(1), fit: number(3))
    case .device(let place, let frame):
      let device = number(place)
      return Moment(
        time: time, arrival: number(frame), clock: device == .min ? nil : device, fit: 0)
    }
  }

  /// Returns the number of periods between two rows on a continuous clock. `nil` if it must be computed from
  /// the rows' times, for example because the clock jumped but the times did not.
  ///
  /// - Parameter period: sample period in nanoseconds.
  func steps(from old: Moment, to new: Moment, period: Double) -> Int? {
    let ofOneFit = distance(old, new)
    guard let distance = ofOneFit ?? ticks(old, new) else { return nil }
    let steps = clock == .ticks ? distance : (distance / period).rounded()
    let time = Double(new.time) - Double(old.time)
    if ofOneFit != nil, Self.exceeds(steps * period, time, by: Self.wander) { return nil }
    return steps * period < SignalScan.fillLimit * 1e9 ? max(1, Int(steps)) : nil
  }

  /// Maximum difference between the fitted times of two rows and the sensor's clock, in nanoseconds. In the
  /// first minute, the fit varies by hundredths of a second.
  private static let wander = 0.5e9

  /// Returns whether a pause is so much longer on one clock than on the other that a clock must have jumped.
  /// Half of the pause is tolerated, because a fit may be based on a few frames.
  private static func exceeds(_ one: Double, _ other: Double, by slack: Double) -> Bool {
    one > 1.5 * max(other, 0) + slack
  }

  /// Returns the time in nanoseconds and the number of periods between two rows, for measuring the rate;
  /// `nil` if the rows are not suitable.
  ///
  /// - Parameter period: sample period in nanoseconds; `nil` if not yet known.
  package func interval(from old: Moment, to new: Moment, period: Double?) -> (
    nanoseconds: Double, periods: Double
  )? {
    guard let distance = distance(old, new) else { return nil }
    switch clock {
    case .ticks:
      let (time, isTooLong) = new.time.subtractingReportingOverflow(old.time)
      guard time > 0, !isTooLong else { return nil }
      let byTime = Double(time)
      if let period,
        Self.exceeds(distance * period, byTime, by: Self.wander)
          || Self.exceeds(byTime, distance * period, by: Self.wander)
      {
        return nil
      }
      return (byTime, distance)
    case .device:
      if let period, distance > 1.5 * period { return nil }
      return (distance, 1)
    }
  }

  /// Returns the distance between two rows on the sensor's clock; `nil` if the clock stopped, was set back or
  /// restarted.
  private func distance(_ old: Moment, _ new: Moment) -> Double? {
    guard old.fit == new.fit, let first = old.clock, let second = new.clock, second > first else {
      return nil
    }
    let (distance, isTooFar) = second.subtractingReportingOverflow(first)
    return isTooFar ? nil : Double(distance)
  }

  /// Returns the distance in ticks between rows of any fits; `nil` unless the wall clock was set during a
  /// ring's capture.
  private func ticks(_ old: Moment, _ new: Moment) -> Double? {
    guard numbersGoOn, clock == .ticks, let first = old.clock, let second = new.clock, second > first else {
      return nil
    }
    let (distance, isTooFar) = second.subtractingReportingOverflow(first)
    return isTooFar ? nil : Double(distance)
  }

  /// Whether the sensor has its own clock, which is valid only between samples.
  var hasDeviceClock: Bool { clock != .ticks }
}

import BLELinux
import BLEWire
import Physiology
import Recording

/// Analyses the rows of one recorded table, in order.
protocol RowAnalysis {
  /// Processes the next row.
  ///
  /// - Parameter words: the cells of the row (`TableCell`).
  mutating func take(_ words: [UInt64], to results: inout AnalysisResults) throws(SystemError)
  /// Ends the input.
  mutating func finish(_ results: inout AnalysisResults) throws(SystemError)
}

extension RowAnalysis {
  mutating func finish(_ results: inout AnalysisResults) throws(SystemError) {}
}

/// Analyses a raw acceleration stream.
struct AccelerationAnalysis: RowAnalysis {
  private var clock: RowClock
  private var activity: ActivityAnalysis

  /// Creates an analysis for one table.
  ///
  /// - Returns: `nil` if the sample rate is too low.
  init?(_ clock: RowClock) {
    guard let activity = ActivityAnalysis(rate: clock.rate) else { return nil }
    self.clock = clock
    self.activity = activity
  }

  mutating func take(_ words: [UInt64], to results: inout AnalysisResults) throws(SystemError) {
    let place = clock.place(words)
    results.take(place.time)
    guard let acceleration = Self.acceleration(words) else { return }
    let sample = SignalSample(
      index: place.index, time: place.time, isRestart: place.isRestart, acceleration: acceleration)
    try activity.take(sample, to: &results)
  }

  mutating func finish(_ results: inout AnalysisResults) throws(SystemError) {
    try activity.finish(&results)
  }

  /// Returns the acceleration in the last three columns of a row, which are in units of 0.001 g.
  static func acceleration(_ words: [UInt64]) -> Acceleration? {
    let axes = words.suffix(3).compactMap { TableCell.number($0, .float64(decimals: 3)) }
    return axes.count == 3
      ? Acceleration(x: axes[0] / 1_000, y: axes[1] / 1_000, z: axes[2] / 1_000) : nil
  }
}

/// Analyses a raw light stream together with the acceleration recorded at the same time.
struct LightAnalysis: RowAnalysis {
  private var clock: RowClock
  private var pulse: PulseAnalysis
  private let column: Int
  /// Reader of the acceleration table, in step with the light.
  private let acceleration: (any TableReader)?
  private var accelerationClock: RowClock?
  /// Last acceleration at or before the time of the light sample.
  private var held: Acceleration?
  /// First acceleration after the light sample, and its time.
  private var upcoming: (time: Int64, acceleration: Acceleration?)?

  /// Creates an analysis for one table.
  ///
  /// - Parameters:
  ///   - clock: clock of the light table's rows.
  ///   - column: index of the light column.
  ///   - acceleration: reader of the acceleration table, positioned before its first row, and the clock of
  ///     its rows.
  init(
    _ clock: RowClock, column: Int, _ acceleration: (reader: any TableReader, clock: RowClock)?
  ) throws(PulseMeter.Refusal) {
    self.clock = clock
    self.column = column
    self.acceleration = acceleration?.reader
    accelerationClock = acceleration?.clock
    pulse = try PulseAnalysis(rate: clock.rate)
    readAcceleration()
  }

  mutating func take(_ words: [UInt64], to results: inout AnalysisResults) throws(SystemError) {
    let place = clock.place(words)
    results.take(place.time)
    while let next = upcoming, next.time <= place.time.nanoseconds {
      held = next.acceleration
      readAcceleration()
    }
    let sample = SignalSample(
      index: place.index, time: place.time, isRestart: place.isRestart,
      light: TableCell.number(words[column], .int32), acceleration: held)
    try pulse.take(sample, to: &results)
  }

  mutating func finish(_ results: inout AnalysisResults) throws(SystemError) {
    try pulse.finish(&results)
  }

  private mutating func readAcceleration() {
    upcoming = nil
    guard let acceleration else { return }
    repeat {
      guard acceleration.next() else { return }
    } while !CaptureTable.times.contains(Int64(bitPattern: acceleration.words[0]))
    guard let place = accelerationClock?.place(acceleration.words) else { return }
    upcoming = (place.time.nanoseconds, AccelerationAnalysis.acceleration(acceleration.words))
  }
}

/// Converts the rows of a raw stream to the sensor's clock: index, time, and whether the stream was
/// interrupted.
struct RowClock {
  struct Place {
    /// Index of the sample since the first sample. Lost samples are counted too.
    let index: Int
    let time: ReceiveTime
    /// Whether the time since the previous sample is unknown.
    let isRestart: Bool
  }

  /// Sample rate, in samples per second.
  let rate: Double
  private let table: SignalTable
  private var walk: SignalWalk

  /// Number of rows used to measure the rate.
  private static let measuredRows = 4_096

  /// Measures the rate.
  ///
  /// - Parameter reader: reader of the table, positioned before the first row. The initializer reads some
  ///   rows.
  /// - Returns: `nil` if the rows have no steady rate, or if there are too few rows.
  init?(_ reader: any TableReader) {
    guard let table = SignalTable(reader.table) else { return nil }
    var steps: [Double] = []
    var last: SignalTable.Moment?
    while steps.count < Self.measuredRows, reader.next() {
      let moment = table.moment(reader.words)
      if let last, let step = table.interval(from: last, to: moment, period: nil) {
        steps.append(step.nanoseconds / step.periods)
      }
      last = moment
    }
    steps.sort()
    guard !steps.isEmpty, SignalTable.rates.contains(1e9 / steps[steps.count / 2]) else { return nil }
    rate = 1e9 / steps[steps.count / 2]
    self.table = table
    walk = SignalWalk(table, period: steps[steps.count / 2])
  }

  /// Returns the index and time of the next row.
  mutating func place(_ words: [UInt64]) -> Place {
    let moment = table.moment(words)
    let index = walk.next(words)
    return Place(index: index, time: ReceiveTime(nanoseconds: moment.time), isRestart: walk.isRestart)
  }
}

public import BLEWire

/// Activity in a minute: counts, ENMO and steps.
public struct ActivityEpoch: Hashable, Sendable {
  /// Start time, on the sensor's clock.
  public var start: ReceiveTime
  /// Measured time in seconds; below 60 if samples are missing.
  public var seconds: Double
  /// Activity counts of the epoch; see `MotionMeter`.
  public var counts: Double
  /// ENMO (Euclidean norm minus one): mean of max(|a| − 1 g, 0), in milli-g.
  public var enmo: Double
  /// Number of steps; `nil` if the sample rate is too low for step counting.
  public var steps: Int?
}

/// Converts acceleration to activity counts, minute by minute. It does not allocate memory.
///
/// A high-pass filter on each axis removes gravity. The counts follow Neishabouri, Nguyen, Samuelsson et al.,
/// Quantification of acceleration as activity counts in ActiGraph wearable, Sci. Rep. 12, 11958, 2022:
/// band-pass 0.29 … 1.63 Hz; magnitude in levels of 2.13/128 g, zero below four levels (0.068 g), clipped
/// above 128 levels; summed as if sampled ten times a second. The result is the length of the vector of the
/// three sums. The filters are Butterworth filters instead of ActiGraph's, so these counts have the same
/// scale but are not ActiGraph's counts. ENMO is computed as in van Hees et al., PLoS ONE 8(4), e61691, 2013.
///
/// Limits: the device is worn on a finger, but published thresholds are for the wrist or hip. At a sample
/// rate below 4 Hz, there is no low-pass filter, so faster movement is aliased into the band. At 1 Hz, counts
/// only distinguish rest from movement.
public struct MotionMeter: Sendable {
  public static let epochSeconds = 60.0
  public static let band = 0.29...1.63
  static let level = 2.13 / 128
  static let deadLevels = 4.0
  static let largestLevel = 128.0
  /// Minimum measured time for an epoch to be reported, in seconds.
  static let leastSeconds = 30.0
  /// Minimum sample rate at which the lower edge of the band can be filtered, in samples per second.
  public static let minimumRate = 0.7

  private let period: Double
  private let levelShare: Double
  private var axes: InlineArray<3, BandPass>
  private var sums: InlineArray<3, Double> = [0, 0, 0]
  private var excess = 0.0
  private var samples = 0
  private var steps: StepCounter?
  private var stepsBefore = 0
  private var epochStart: Int64?
  private var lastIndex: Int?

  /// Creates a meter for one sample rate.
  ///
  /// - Parameter rate: approximate sample rate, in samples per second.
  /// - Returns: `nil` below `minimumRate`, and if only invalid timestamps can explain the rate.
  public init?(rate: Double) {
    guard rate >= Self.minimumRate, !SampleRate.isTooHigh(rate) else { return nil }
    period = 1 / rate
    levelShare = 10 / rate
    axes = .init(repeating: BandPass(Self.band, rate: rate))
    steps = StepCounter(rate: rate)
  }

  /// Number of steps so far; `nil` if the rate is too low.
  public var stepCount: Int? { steps?.count }

  /// Processes the next sample. A sample without acceleration is ignored.
  ///
  /// - Returns: the previous epoch, if this sample starts a new epoch.
  public mutating func take(_ sample: SignalSample) -> ActivityEpoch? {
    guard let acceleration = sample.acceleration else { return nil }
    let time = sample.time.nanoseconds
    if let lastIndex, sample.isRestart || Double(sample.index &- lastIndex) * period > 2 {
      for axis in axes.indices { axes[axis].reset() }
      steps?.pause()
    }
    lastIndex = sample.index
    var finished: ActivityEpoch?
    if let start = epochStart, TimeSpan(from: start, to: time).seconds >= Self.epochSeconds || time < start {
      finished = finish()
    }
    if epochStart == nil { epochStart = time }
    add(acceleration, time)
    return finished
  }

  /// Ends the current epoch, for example at the end of the stream. Returns `nil` if less than half a minute
  /// was measured.
  public mutating func finish() -> ActivityEpoch? {
    guard let start = epochStart else { return nil }
    let total = steps?.count
    let seconds = min(Self.epochSeconds, Double(samples) * period)
    let squares = sums[0] * sums[0] + sums[1] * sums[1] + sums[2] * sums[2]
    let epoch = ActivityEpoch(
      start: ReceiveTime(nanoseconds: start), seconds: seconds,
      counts: squares.squareRoot() * levelShare, enmo: samples > 0 ? 1_000 * excess / Double(samples) : 0,
      steps: total.map { $0 - stepsBefore })
    sums = [0, 0, 0]
    (excess, samples, epochStart, stepsBefore) = (0, 0, nil, total ?? 0)
    return seconds >= Self.leastSeconds ? epoch : nil
  }

  private mutating func add(_ a: Acceleration, _ time: Int64) {
    let axisG: InlineArray<3, Double> = [a.x, a.y, a.z]
    for axis in 0..<3 {
      let levels = (abs(axes[axis].filter(axisG[axis])) / Self.level).rounded(.down)
      if levels >= Self.deadLevels { sums[axis] += min(levels, Self.largestLevel) }
    }
    let magnitude = a.magnitude
    excess += max(0, magnitude - 1)
    samples += 1
    steps?.take(magnitude, at: time)
  }
}

/// Counts steps in the magnitude of the acceleration.
///
/// Method: Zhao, Full-Featured Pedometer Design Realized with 3-Axis Digital Accelerometer, Analog Dialogue
/// 44-06, 2010. A step is counted when the signal falls below the mean of the highest and the lowest value of
/// the last second, if the difference is large enough. Steps must be 0.2 … 2 s apart, and count only after
/// four in a row. Unlike in the article, the input is the vector's magnitude after a 3 Hz low-pass filter
/// instead of the most active axis, and the minimum difference is `leastSwing`.
///
/// Limits: the method is designed for the waist. On a finger, it also counts arm swings and other rhythmic
/// movement, and misses steps while the hand is held still.
public struct StepCounter: Sendable {
  public static let minimumRate = 15.0
  /// Minimum difference between the highest and the lowest value in a second, in g.
  public static let leastSwing = 0.1
  public static let intervalSeconds = 0.2...2.0
  public static let stepsInARow = 4

  private var low: Biquad
  private let window: Int
  private var samples = 0
  private var highest = -Double.infinity
  private var lowest = Double.infinity
  private var threshold: Double?
  private var previous = 0.0
  private var lastCrossing: Int64?
  private var row = 0
  public private(set) var count = 0

  /// Creates a step counter for a sample rate, in samples per second.
  ///
  /// - Returns: `nil` below `minimumRate`, and if only invalid timestamps can explain the rate.
  public init?(rate: Double) {
    guard rate >= Self.minimumRate, !SampleRate.isTooHigh(rate) else { return nil }
    low = .lowPass(cutOff: 3, rate: rate)
    window = Int(rate.rounded())
  }

  /// Processes the next sample.
  ///
  /// - Parameters:
  ///   - magnitude: magnitude of the acceleration, in g.
  ///   - time: time of the sample, in nanoseconds.
  public mutating func take(_ magnitude: Double, at time: Int64) {
    let value = low.filter(magnitude)
    highest = max(highest, value)
    lowest = min(lowest, value)
    if let threshold, previous >= threshold, value < threshold { cross(time) }
    previous = value
    samples += 1
    guard samples == window else { return }
    threshold = highest - lowest >= Self.leastSwing ? (highest + lowest) / 2 : nil
    (samples, highest, lowest) = (0, value, value)
  }

  /// Resets the row of steps. Call this after a gap in the samples.
  public mutating func pause() {
    lastCrossing = nil
    row = 0
  }

  private mutating func cross(_ time: Int64) {
    guard let last = lastCrossing else {
      (lastCrossing, row) = (time, 1)
      return
    }
    let interval = TimeSpan(from: last, to: time).seconds
    guard interval >= Self.intervalSeconds.lowerBound else { return }
    lastCrossing = time
    guard interval <= Self.intervalSeconds.upperBound else {
      row = 1
      return
    }
    row += 1
    if row == Self.stepsInARow { count += row } else if row > Self.stepsInARow { count += 1 }
  }
}

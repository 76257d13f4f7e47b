/// Evidence that the tracked line is a pulse, and not noise or steps that the accelerometer left.
///
/// It uses two values of each window, at the rate that was found for it. The contrast is the evidence for
/// that rate divided by the evidence for the rates beside it. The kept share is the power of the light at
/// that rate after removing the accelerometer's part, divided by the power before. Noise is tracked like a
/// pulse, but its lines are hardly higher than their surroundings. Residual steps stand out, but little of
/// their power is kept. Both values are averaged over `slowMemory`, and the contrast over the last few
/// windows, too.
///
/// The averages are a gate: a line that does not pass has a quality of at most `largestDoubtfulQuality`, and
/// noise has no pulse. The quality of a line that passes is a step function of the model's own probability.
/// The module's guide has the measurements.
struct TrackedLine {
  /// Factor by which the weight of a window decreases with each further window: the slow memory lasts half a
  /// minute, the fast one four seconds.
  static let slowMemory = 0.93
  static let fastMemory = 0.5
  /// Below this contrast, light is considered noise: nearly all windows of white noise are below 1.95.
  static let leastContrast = 2.0
  /// A line is accepted from this contrast on, until its contrast falls below `leastContrast`.
  static let believedContrast = 2.3
  /// The same two contrasts for rates below `oneSidedRate`: the neighbouring rates are all on one side of the
  /// line, so noise stands out, too.
  static let oneSidedContrasts = (least: 3.0, believed: 3.4)
  /// Rate in beats per minute.
  static let oneSidedRate = 66.0
  /// Minimum kept share. Less is kept of pure steps.
  static let leastKept = 0.34
  static let largestDoubtfulQuality = 0.4
  static let keptShares = 0.01...1.0
  /// Contrast and share before the first window, with the weight of `usualWindows`.
  private static let usual = (contrast: 1.7, kept: 0.64)
  private static let usualWindows = 4.0
  /// Thresholds of the model's own probability, and the shares of windows within 5 beats per minute between
  /// them (`shares`). `CalibrationTests` fits the shares to six runs; they are rounded.
  static let probabilities = (poor: 0.4, fair: 0.6, good: 0.72)
  static let shares = (none: 0.25, poor: 0.66, fair: 0.88, good: 0.98)

  private struct Mean {
    var slow: Double
    var fast: Double

    init(_ value: Double) { (slow, fast) = (value, value) }

    mutating func take(_ value: Double, share: Double) {
      slow += (value - slow) * max(1 - slowMemory, share)
      fast += (value - fast) * (1 - fastMemory)
    }
  }

  private var contrast = Mean(usual.contrast)
  private var kept = Mean(usual.kept)
  private var windows = usualWindows
  /// Whether the line has been higher than its surroundings for a long time.
  private(set) var standsOut = false

  mutating func reset() { self = TrackedLine() }

  /// Processes the next window with a pulse.
  mutating func take(contrast: Double, kept: Double, beatsPerMinute: Double) {
    windows += 1
    self.contrast.take(contrast, share: 1 / windows)
    self.kept.take(max(Self.keptShares.lowerBound, min(Self.keptShares.upperBound, kept)), share: 1 / windows)
    let limits =
      beatsPerMinute < Self.oneSidedRate
      ? Self.oneSidedContrasts : (least: Self.leastContrast, believed: Self.believedContrast)
    if self.contrast.slow >= limits.believed { standsOut = true }
    if self.contrast.slow < limits.least { standsOut = false }
  }

  /// Whether the line is not a residue of steps.
  var isKept: Bool { kept.slow >= Self.leastKept }

  /// Whether the light is considered noise, both for a long time and in the last windows.
  var isNoise: Bool { max(contrast.slow, contrast.fast) < Self.leastContrast }

  /// Share of windows within 5 beats per minute, for a line that is accepted.
  ///
  /// - Parameter probability: the model's own probability that the pulse is within 5 beats per minute.
  static func quality(_ probability: Double) -> Double {
    if probability >= probabilities.good { return shares.good }
    if probability >= probabilities.fair { return shares.fair }
    return probability >= probabilities.poor ? shares.poor : shares.none
  }
}

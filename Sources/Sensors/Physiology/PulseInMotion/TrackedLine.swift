/// Evidence that the tracked line is a pulse, and not noise or steps that the accelerometer left.
///
/// Two figures of each window, at the rate that was found for it: the contrast, its evidence over that of the rates
/// beside it, and the share kept, the power that the light has at that rate after the accelerometer was taken out over
/// that before. Noise is tracked as well as a pulse, but its lines are hardly higher than what is beside them; what leaks
/// of steps stands out, but little of it was kept. Each counts by its mean of the last `slowMemory`, the contrast by
/// that of the last few windows, too. They are a gate: what does not pass has a quality of at most `largestDoubtfulQuality`, and
/// noise has no pulse. Of what passes the quality is a step of the model's own probability. The module's guide has what was measured.
struct TrackedLine {
  /// Remaining weight of a window at the next one: for half a minute, and for four seconds.
  static let slowMemory = 0.93
  static let fastMemory = 0.5
  /// Below this contrast, light is considered noise: nearly all windows of white noise are below 1.95.
  static let leastContrast = 2.0
  /// From here on a line is believed, until its contrast is less than `leastContrast`.
  static let believedContrast = 2.3
  /// The same below `oneSidedRate`, where the rates beside a line are on one side of it, so that noise stands out as well.
  static let oneSidedContrasts = (least: 3.0, believed: 3.4)
  /// Beats a minute.
  static let oneSidedRate = 66.0
  /// Of steps alone the accelerometer leaves less.
  static let leastKept = 0.34
  static let largestDoubtfulQuality = 0.4
  static let keptShares = 0.01...1.0
  /// Contrast and share before the first window, with the weight of `usualWindows`.
  private static let usual = (contrast: 1.7, kept: 0.64)
  private static let usualWindows = 4.0
  /// Shares of windows that are within 5 a minute, by the model's own probability of it: from each of `probabilities` on. Fitted by
  /// `CalibrationTests` to six runs, and rounded.
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
  /// Whether the line is higher than what is beside it, for long.
  private(set) var standsOut = false

  mutating func reset() { self = TrackedLine() }

  /// Takes the next window with a pulse.
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

  /// Whether the line is not what is left of steps.
  var isKept: Bool { kept.slow >= Self.leastKept }

  /// Whether the light is considered noise, for long and in the last windows.
  var isNoise: Bool { max(contrast.slow, contrast.fast) < Self.leastContrast }

  /// Share of windows that are within 5 a minute, where the line is believed.
  ///
  /// - Parameter probability: the model's own, that the pulse is within 5 a minute.
  static func quality(_ probability: Double) -> Double {
    if probability >= probabilities.good { return shares.good }
    if probability >= probabilities.fair { return shares.fair }
    return probability >= probabilities.poor ? shares.poor : shares.none
  }
}

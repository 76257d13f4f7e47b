/// Evidence that the tracked line is a pulse, and not noise or steps that the accelerometer left.
///
/// There are two values for each window at its rate. The contrast is its evidence relative to that of
/// neighbouring rates. The share kept is the power of the light at that rate after removing the
/// accelerometer's part, relative to that before. Noise is tracked as well as a pulse, but its lines are
/// hardly higher than their surroundings. Remains of steps stand out, but little of them was kept. Each value
/// counts by its mean with `slowMemory`, or by that of the last few windows if that is less: a pulse is lost
/// at once and found again slowly. The module's guide has the measurements.
struct TrackedLine {
  /// Remaining weight of a window at the next one: for half a minute, and for four seconds.
  static let slowMemory = 0.93
  static let fastMemory = 0.5
  /// Below this contrast, light is considered noise: nearly all windows of white noise are below 1.95.
  static let leastContrast = 2.0
  static let largestNoiseQuality = 0.4
  /// Number of windows after noise in which a line is not yet trusted: half a minute. Noise has a line now
  /// and then, but none that lasts.
  static let windowsAfterNoise = 15
  static let largestQuality = 0.98
  static let keptShares = 0.01...1.0
  /// Contrast and share before the first window, with the weight of `usualWindows`.
  private static let usual = (contrast: 1.7, kept: 0.64)
  private static let usualWindows = 4.0
  /// Scales the odds to those of the treadmill runs.
  private static let scale = 1.28

  private struct Mean {
    var slow: Double
    var fast: Double
    var least: Double { min(slow, fast) }

    init(_ value: Double) { (slow, fast) = (value, value) }

    mutating func take(_ value: Double, share: Double) {
      slow += (value - slow) * max(1 - slowMemory, share)
      fast += (value - fast) * (1 - fastMemory)
    }
  }

  private var contrast = Mean(usual.contrast)
  private var kept = Mean(usual.kept)
  private var windows = usualWindows
  private var sinceNoise = windowsAfterNoise

  mutating func reset() { self = TrackedLine() }

  /// Takes the next window with a pulse.
  mutating func take(contrast: Double, kept: Double) {
    windows += 1
    self.contrast.take(contrast, share: 1 / windows)
    self.kept.take(max(Self.keptShares.lowerBound, min(Self.keptShares.upperBound, kept)), share: 1 / windows)
    sinceNoise = isNoise ? 0 : sinceNoise + 1
  }

  /// Share of such windows that are within 5 a minute: the odds are those of the model times the contrast, to
  /// the power of 3/2, times the square of the share kept.
  ///
  /// - Parameter probability: the model's probability that the pulse is within 5 a minute; below 1.
  func quality(_ probability: Double) -> Double {
    let model = probability / max(1 - probability, 1e-6) * contrast.least
    let odds = Self.scale * model * model.squareRoot() * kept.least * kept.least
    let isDoubtful = contrast.slow < Self.leastContrast || sinceNoise < Self.windowsAfterNoise
    let limit = isDoubtful ? Self.largestNoiseQuality : Self.largestQuality
    return min(limit, odds / (1 + odds))
  }

  /// Whether the light is considered noise, for long and in the last windows.
  var isNoise: Bool { max(contrast.slow, contrast.fast) < Self.leastContrast }
}

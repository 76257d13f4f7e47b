/// What speaks for the line that is tracked being a pulse: neither noise nor what the accelerometer left of steps.
///
/// Two figures of each window, at the rate that was found for it: the contrast, its evidence over that of the rates
/// beside it, and the share kept, the power that the light has at that rate after the accelerometer was taken out over
/// that before. Noise is tracked as well as a pulse, but its lines are hardly higher than what is beside them; what leaks
/// of steps stands out, but little of it was kept. Each counts by its mean of the last `slowMemory`, or by that of
/// the last few windows if that is less: a pulse is lost at once and found again slowly. The module's guide has what
/// was measured.
struct TrackedLine {
  /// What is left of the weight of a window at the next one: half a minute, and four seconds.
  static let slowMemory = 0.93
  static let fastMemory = 0.5
  /// Below it light is taken for noise: nearly all windows of white noise are below 1.95.
  static let leastContrast = 2.0
  static let largestNoiseQuality = 0.4
  /// Windows after one of noise in which a line is not yet believed: half a minute. Noise has a line now and then, but none that lasts.
  static let windowsAfterNoise = 15
  static let largestQuality = 0.98
  static let keptShares = 0.01...1.0
  /// Contrast and share of what was before the first window, which counts as much as `usualWindows`.
  private static let usual = (contrast: 1.7, kept: 0.64)
  private static let usualWindows = 4.0
  /// Makes the odds those of the treadmill runs.
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

  /// Share of such windows that are within 5 a minute: the odds are those of the model times the contrast, to the power of
  /// 3/2, times the square of the share kept.
  ///
  /// - Parameter probability: the model's own, that the pulse is within 5 a minute: below 1.
  func quality(_ probability: Double) -> Double {
    let model = probability / max(1 - probability, 1e-6) * contrast.least
    let odds = Self.scale * model * model.squareRoot() * kept.least * kept.least
    let isDoubtful = contrast.slow < Self.leastContrast || sinceNoise < Self.windowsAfterNoise
    let limit = isDoubtful ? Self.largestNoiseQuality : Self.largestQuality
    return min(limit, odds / (1 + odds))
  }

  /// Whether the light is taken for noise: for long, and in the last windows.
  var isNoise: Bool { max(contrast.slow, contrast.fast) < Self.leastContrast }
}

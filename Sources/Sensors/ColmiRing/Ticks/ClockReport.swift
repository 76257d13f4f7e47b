/// Quality of the clock's fit over the ticks that were returned.
public struct ClockReport: Hashable, Sendable {
  public private(set) var ticks = 0
  /// Ticks known to be missing.
  public private(set) var missing = 0
  /// Upper bound of missing ticks, including `missing`. It counts ticks for which the later timestamps cannot
  /// tell a loss from clock drift. `nil` if the timestamps give no bound: the link was or may have been too
  /// slow for the ring, or ticks missed the next event so often that any rate is possible.
  public internal(set) var missingAtMost: Int? = 0
  /// Whether the link could not carry all frames. If so, the ring's rate and the number of missing ticks are
  /// unknown.
  public internal(set) var isLinkTooSlow = false
  /// Stretches with missing ticks.
  public private(set) var gaps = 0
  /// Length of the longest gap, in ticks.
  public private(set) var longestGap = 0
  /// Number of times that the fit was restarted.
  public private(set) var restarts = 0
  private var sum = 0.0
  private var sumOfSquares = 0.0
  /// Smallest and largest difference between kernel timestamp and fitted time, in nanoseconds.
  public private(set) var earliest = 0.0
  public private(set) var latest = 0.0
  /// Relative uncertainty of the rate. `nil` before anything is known, or if `missingAtMost` is `nil`.
  public internal(set) var rateUncertainty: Double?
  /// Possible common lateness of all fitted times, in nanoseconds: the constant part of the delay. It is at
  /// most a connection interval, estimated as the shortest usual pause between arrivals. `nil` before there
  /// were two arrivals, if `missingAtMost` is `nil`, and after a pause in which the ring may have restarted
  /// its timer.
  public internal(set) var offsetUncertainty: Double?

  public init() {}

  /// Mean lateness of a tick, in nanoseconds.
  public var meanLateness: Double { ticks > 0 ? sum / Double(ticks) : 0 }

  /// Root mean square deviation of the residuals from their mean, in nanoseconds.
  public var residual: Double {
    guard ticks > 0 else { return 0 }
    return max(0, sumOfSquares / Double(ticks) - meanLateness * meanLateness).squareRoot()
  }

  mutating func takeLinkTooSlow() {
    isLinkTooSlow = true
    takeRateUnknown()
  }

  /// Marks the number of missing ticks and the rate as unknown.
  mutating func takeRateUnknown() {
    (missingAtMost, rateUncertainty, offsetUncertainty) = (nil, nil, nil)
  }

  mutating func add(residual: Double, missing: Int, isRestart: Bool) {
    earliest = ticks == 0 ? residual : min(earliest, residual)
    latest = ticks == 0 ? residual : max(latest, residual)
    ticks += 1
    sum += residual
    sumOfSquares += residual * residual
    self.missing += missing
    if missing > 0 { gaps += 1 }
    longestGap = max(longestGap, missing)
    if isRestart { restarts += 1 }
  }
}

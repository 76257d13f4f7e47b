/// How well the clock fits, over the ticks that came out.
public struct ClockReport: Hashable, Sendable {
  public private(set) var ticks = 0
  /// Ticks that never came.
  public private(set) var missing = 0
  /// Ticks that may never have come, those of `missing` included: where the stamps of later ticks cannot tell whether some are
  /// missing or the clocks have drifted, they are counted here alone. `nil` if the stamps set no bound: the link was too slow
  /// for the ring, or may have been, or ticks waited so often for more than the next event that any rate is possible.
  public internal(set) var missingAtMost: Int? = 0
  /// Whether the link could not carry all frames: the ring's rate, and how many of its ticks never came, are unknown.
  public internal(set) var isLinkTooSlow = false
  /// Stretches in which ticks are missing.
  public private(set) var gaps = 0
  /// The longest of them, in ticks.
  public private(set) var longestGap = 0
  /// Times the fit had to begin anew.
  public private(set) var restarts = 0
  private var sum = 0.0
  private var sumOfSquares = 0.0
  /// Kernel stamp less fitted time, the extremes: nanoseconds.
  public private(set) var earliest = 0.0
  public private(set) var latest = 0.0
  /// By how much the rate may be off: a share of it. `nil` before anything is known, and
  /// if `missingAtMost` is.
  public internal(set) var rateUncertainty: Double?
  /// By how much all fitted times may be late: nanoseconds. It is the constant part of the delay, at most a connection
  /// interval, and here the shortest usual pause between arrivals. `nil` before there were
  /// two, if `missingAtMost` is, and after a pause in which the ring may have begun its timer anew.
  public internal(set) var offsetUncertainty: Double?

  public init() {}

  /// How late a tick is on average: nanoseconds.
  public var meanLateness: Double { ticks > 0 ? sum / Double(ticks) : 0 }

  /// Root mean square of the residuals about their mean: nanoseconds.
  public var residual: Double {
    guard ticks > 0 else { return 0 }
    return max(0, sumOfSquares / Double(ticks) - meanLateness * meanLateness).squareRoot()
  }

  mutating func takeLinkTooSlow() {
    isLinkTooSlow = true
    takeRateUnknown()
  }

  /// Nothing tells whether the ring made more ticks than came.
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

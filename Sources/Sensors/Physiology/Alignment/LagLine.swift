/// Straight line through measured lags: the offset of one clock from another, and its drift.
///
/// The first line has the median slope of all pairs of points (the Theil–Sen estimator), which is correct
/// even if a quarter of the points are outliers (Theil 1950; Sen, Estimates of the Regression Coefficient
/// Based on Kendall's Tau, J. Am. Stat. Assoc. 63(324), 1968). It is refined by weighted least squares over
/// the points near the line. The uncertainties are computed from the scatter of these points.
public struct LagLine: Hashable, Sendable {
  /// Lag measured around a time. Time and lag are in seconds.
  public struct Point: Hashable, Sendable, BitwiseCopyable {
    public var seconds: Double
    public var lag: Double
    /// Weight of the point, above 0: the reciprocal of its variance, in the same unit for all points.
    public var weight: Double

    public init(seconds: Double, lag: Double, weight: Double) {
      (self.seconds, self.lag, self.weight) = (seconds, lag, weight)
    }
  }

  /// Time at which the lag is most accurate, in seconds: the centre of the points.
  public let center: Double
  /// Lag at `center`, in seconds; positive if the second clock is later.
  public let lag: Double
  /// Change of the lag, in seconds per second; 0 if there are too few points or they are too close together.
  public let drift: Double
  /// Half the width of the lag's 95 % interval, in seconds.
  public let lagUncertainty: Double
  /// Half the width of the drift's 95 % interval; `nil` if the drift cannot be determined.
  public let driftUncertainty: Double?
  /// Root mean square residual of the points used, in seconds.
  public let residual: Double
  /// Number of points used.
  public let used: Int

  public static let leastPoints = 3
  static let leastPointsOfDrift = 6
  static let leastSecondsOfDrift = 60.0
  /// Largest drift that is common between two sensors, in seconds per second.
  private static let usualDrift = 1e-4
  /// Maximum number of points for the first line, because the number of pairs grows with the square of the
  /// number of points.
  private static let pairedPoints = 256
  /// Maximum distance of a point from the line, as a multiple of the median distance.
  private static let farthest = 3.5
  /// Minimum error of a lag, in seconds.
  static let grain = 2e-5

  public func lag(at seconds: Double) -> Double { lag + drift * (seconds - center) }

  /// Fits a line.
  ///
  /// - Parameter points: measured lags, in any order.
  /// - Returns: `nil` if fewer than `leastPoints` lie near a common line.
  public init?(_ points: [Point]) {
    guard points.count >= Self.leastPoints else { return nil }
    let seconds = points.map(\.seconds)
    let span = (seconds.max() ?? 0) - (seconds.min() ?? 0)
    let hasDrift = points.count >= Self.leastPointsOfDrift && span >= Self.leastSecondsOfDrift
    var slope = hasDrift ? Self.medianSlope(points) : 0
    var level = median(points.map { $0.lag - slope * $0.seconds })
    var near = points
    var sums = Sums()
    for _ in 0..<4 {
      let scale = max(Self.grain, 1.4826 * median(points.map { abs($0.lag - level - slope * $0.seconds) }))
      near = points.filter { abs($0.lag - level - slope * $0.seconds) <= Self.farthest * scale }
      sums = Sums(near)
      slope = hasDrift ? sums.slope : 0
      level = sums.lag - slope * sums.seconds
    }
    guard near.count >= Self.leastPoints, 2 * near.count > points.count else { return nil }
    let unknowns = hasDrift ? 2 : 1
    var (squares, plain) = (0.0, 0.0)
    for point in near {
      let distance = point.lag - level - slope * point.seconds
      squares += point.weight * distance * distance
      plain += distance * distance
    }
    let variance =
      max(squares / Double(near.count - unknowns), Self.grain * Self.grain * sums.meanWeight)
      * Self.inflation(near, level: level, slope: slope)
    let quantile = Self.quantile(near.count - unknowns)
    center = sums.seconds
    lag = sums.lag
    drift = slope
    // Allows for a drift that is too small to be determined.
    let hidden = hasDrift ? 0 : Self.usualDrift * span / 4
    let bend = hasDrift ? Self.bend(near, level: level, slope: slope, sums) : 0
    lagUncertainty = quantile * (variance / sums.weight).squareRoot() + hidden + bend
    driftUncertainty =
      hasDrift ? quantile * (variance / sums.spread).squareRoot() + (span > 0 ? 6 * bend / span : 0) : nil
    residual = (plain / Double(near.count)).squareRoot()
    used = near.count
  }

  /// Creates a line from values that were determined in another way.
  public init(
    center: Double, lag: Double, drift: Double, lagUncertainty: Double, driftUncertainty: Double?,
    residual: Double,
    used: Int
  ) {
    (self.center, self.lag, self.drift, self.lagUncertainty) = (center, lag, drift, lagUncertainty)
    (self.driftUncertainty, self.residual, self.used) = (driftUncertainty, residual, used)
  }

  /// Returns the factor by which the correlation between successive points increases the variance of a mean.
  private static func inflation(_ points: [Point], level: Double, slope: Double) -> Double {
    let off = points.sorted { $0.seconds < $1.seconds }.map { $0.lag - level - slope * $0.seconds }
    let squares = off.reduce(0) { $0 + $1 * $1 }
    guard squares > 0, off.count > 3 else { return 1 }
    let products = zip(off.dropFirst(), off).reduce(0) { $0 + $1.0 * $1.1 }
    // The residuals of a fitted line have an inherent correlation of −1/n.
    let correlation = min(0.8, max(0, products / squares + 1 / Double(off.count)))
    return (1 + correlation) / (1 - correlation)
  }

  /// Returns the distance in seconds, at the centre, between the line and a parabola through the points; 0
  /// unless the parabola fits clearly better.
  private static func bend(_ points: [Point], level: Double, slope: Double, _ sums: Sums) -> Double {
    guard points.count >= 8 else { return 0 }
    // Component of the parabola that is orthogonal to a line.
    var plain = Sums()
    let squared = points.map {
      Point(seconds: $0.seconds, lag: square($0.seconds - sums.seconds), weight: $0.weight)
    }
    plain = Sums(squared)
    var (spread, product, squares) = (0.0, 0.0, 0.0)
    for point in squared {
      let rest = point.lag - plain.lag - plain.slope * (point.seconds - plain.seconds)
      spread += point.weight * rest * rest
    }
    for (point, other) in zip(points, squared) {
      let rest = other.lag - plain.lag - plain.slope * (other.seconds - plain.seconds)
      let off = point.lag - level - slope * point.seconds
      product += point.weight * rest * off
      squares += point.weight * off * off
    }
    guard spread > 0 else { return 0 }
    let curvature = product / spread
    let left = max(0, squares - product * curvature) / Double(points.count - 3)
    guard curvature * curvature * spread > 9 * left else { return 0 }
    return abs(curvature * plain.lag)
  }

  private static func square(_ number: Double) -> Double { number * number }

  /// Weighted sums for a linear fit.
  private struct Sums {
    var weight = 0.0
    var seconds = 0.0
    var lag = 0.0
    /// Weighted sum of squared time differences from the centre.
    var spread = 0.0
    var slope = 0.0
    var meanWeight = 1.0

    init() {}

    init(_ points: [Point]) {
      for point in points {
        weight += point.weight
        seconds += point.weight * point.seconds
        lag += point.weight * point.lag
      }
      (seconds, lag) = (seconds / weight, lag / weight)
      var product = 0.0
      for point in points {
        let distance = point.seconds - seconds
        spread += point.weight * distance * distance
        product += point.weight * distance * (point.lag - lag)
      }
      slope = spread > 0 ? product / spread : 0
      meanWeight = weight / Double(points.count)
    }
  }

  private static func medianSlope(_ points: [Point]) -> Double {
    let step = max(1, points.count / pairedPoints)
    let some = stride(from: 0, to: points.count, by: step).map { points[$0] }
    var slopes: [Double] = []
    for first in some.indices {
      for second in some[(first + 1)...] where second.seconds != some[first].seconds {
        slopes.append((second.lag - some[first].lag) / (second.seconds - some[first].seconds))
      }
    }
    return slopes.isEmpty ? 0 : median(slopes)
  }

  /// Returns the 97.5 % quantile of Student's t distribution, from the first terms of its expansion around
  /// the normal quantile (Abramowitz and Stegun, 26.7.5).
  ///
  /// - Parameter degrees: degrees of freedom.
  static func quantile(_ degrees: Int) -> Double {
    let (x, n) = (1.959964, Double(max(1, degrees)))
    if degrees <= 1 { return 12.706 }
    if degrees == 2 { return 4.303 }
    let cube = x * x * x
    return x + (cube + x) / (4 * n) + (5 * cube * x * x + 16 * cube + 3 * x) / (96 * n * n)
  }
}

/// Returns the median of the numbers; for an even count, the mean of the middle two. At least one number is
/// required.
func median(_ numbers: [Double]) -> Double {
  let sorted = numbers.sorted()
  let middle = sorted.count / 2
  return sorted.count.isMultiple(of: 2) ? (sorted[middle - 1] + sorted[middle]) / 2 : sorted[middle]
}

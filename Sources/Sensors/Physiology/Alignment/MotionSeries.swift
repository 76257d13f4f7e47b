/// Magnitudes of a sensor's acceleration, with their times. The magnitudes do not depend on the sensor's
/// orientation.
public struct MotionSeries: Sendable {
  /// Times of the samples, ascending, in seconds since an epoch that all compared series share.
  public private(set) var seconds: [Double] = []
  /// Magnitudes of the acceleration, in g.
  public private(set) var magnitudes: [Float] = []

  public init() {}

  /// Appends a sample.
  ///
  /// - Returns: `false` if the sample was ignored because its time is not later than the last sample's or its
  ///   magnitude is not finite.
  @discardableResult
  public mutating func append(_ acceleration: Acceleration, at time: Double) -> Bool {
    guard time > seconds.last ?? -.infinity, acceleration.magnitude.isFinite else { return false }
    seconds.append(time)
    magnitudes.append(Float(acceleration.magnitude))
    return true
  }

  /// Median time between samples, in seconds.
  var spacing: Double {
    guard seconds.count > 1 else { return 0 }
    let step = max(1, seconds.count / 4096)
    let steps = stride(from: 1, to: seconds.count, by: step).map { seconds[$0] - seconds[$0 - 1] }
    return median(steps)
  }
}

/// Movement resampled at a uniform rate: the changes of a series within a second.
///
/// Cubic interpolation through four samples does not shift the signal (Keys, Cubic Convolution Interpolation
/// for Digital Image Processing, IEEE Trans. Acoust. 29(6), 1981). Nor do the two filters, which are
/// symmetric.
struct MotionGrid {
  /// Samples of the grid.
  private(set) var values: [Float]
  /// Whether each sample was measured.
  private(set) var isMeasured: [Bool]

  /// Maximum step between two samples, in sample intervals of the series. A longer step is a gap.
  private static let longestStep = 2.5
  /// Duration in seconds above which a change is attributed to gravity and removed.
  private static let slowest = 1.0
  /// Minimum duration of a change, in sample intervals of the slowest series. Faster changes are removed,
  /// because that series cannot represent them.
  private static let fastest = 3.0

  /// Resamples and filters a series.
  ///
  /// - Parameters:
  ///   - start: time of the grid's first sample, in seconds of the series.
  ///   - count: number of samples of the grid.
  ///   - rate: sample rate of the grid, in samples per second.
  ///   - spacing: seconds between samples in the slowest of the compared series.
  init(_ series: MotionSeries, from start: Double, count: Int, rate: Double, spacing: Double) {
    values = [Float](repeating: 0, count: count)
    isMeasured = [Bool](repeating: false, count: count)
    resample(series, from: start, rate: rate)
    let high = Self.smoothed(values, isMeasured, radius: max(1, Int(Self.slowest * rate / 2)))
    for place in values.indices { values[place] = isMeasured[place] ? values[place] - high[place] : 0 }
    let radius = Int((Self.fastest * spacing * rate / 4).rounded())
    if radius > 0 {
      // Two box filters in sequence are a triangular filter.
      let once = Self.smoothed(values, isMeasured, radius: radius)
      let twice = Self.smoothed(once, isMeasured, radius: radius)
      for place in values.indices where isMeasured[place] { values[place] = twice[place] }
    }
  }

  private mutating func resample(_ series: MotionSeries, from start: Double, rate: Double) {
    let (seconds, magnitudes) = (series.seconds, series.magnitudes)
    let longest = Self.longestStep * series.spacing
    var before = 0
    for place in values.indices {
      let time = start + Double(place) / rate
      while before + 1 < seconds.count, seconds[before + 1] <= time { before += 1 }
      guard before + 1 < seconds.count, seconds[before] <= time else { continue }
      let step = seconds[before + 1] - seconds[before]
      guard step <= longest else { continue }
      isMeasured[place] = true
      let share = Float((time - seconds[before]) / step)
      let (first, second) = (magnitudes[before], magnitudes[before + 1])
      let left = before > 0 ? magnitudes[before - 1] : first
      let right = before + 2 < seconds.count ? magnitudes[before + 2] : second
      values[place] = Self.cubic(left, first, second, right, share)
    }
  }

  private static func cubic(_ left: Float, _ first: Float, _ second: Float, _ right: Float, _ x: Float)
    -> Float
  {
    let slopes = (first: (second - left) / 2, second: (right - first) / 2)
    let rise = second - first
    let (square, cube) = (
      3 * rise - 2 * slopes.first - slopes.second, slopes.first + slopes.second - 2 * rise
    )
    return first + x * (slopes.first + x * (square + x * cube))
  }

  /// Returns the moving average of the measured samples within `radius` samples on either side.
  private static func smoothed(_ values: [Float], _ isMeasured: [Bool], radius: Int) -> [Float] {
    var (sum, count) = (0.0, 0)
    var result = [Float](repeating: 0, count: values.count)
    func add(_ place: Int, _ sign: Int) {
      guard values.indices.contains(place), isMeasured[place] else { return }
      sum += Double(sign) * Double(values[place])
      count += sign
    }
    for place in 0..<min(radius, values.count) { add(place, 1) }
    for place in values.indices {
      add(place + radius, 1)
      add(place - radius - 1, -1)
      result[place] = count > 0 ? Float(sum / Double(count)) : 0
    }
    return result
  }
}

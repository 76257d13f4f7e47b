/// How much a sensor was accelerated, whichever way it was worn: magnitudes with their times.
public struct MotionSeries: Sendable {
  /// Rising: seconds since any moment, the same for all that are compared.
  public private(set) var seconds: [Double] = []
  /// g.
  public private(set) var magnitudes: [Float] = []

  public init() {}

  /// - Returns: whether it was taken: what is not later than the last sample is not.
  @discardableResult
  public mutating func append(_ acceleration: Acceleration, at time: Double) -> Bool {
    guard time > seconds.last ?? -.infinity, acceleration.magnitude.isFinite else { return false }
    seconds.append(time)
    magnitudes.append(Float(acceleration.magnitude))
    return true
  }

  /// The usual time from sample to sample: seconds.
  var spacing: Double {
    guard seconds.count > 1 else { return 0 }
    let step = max(1, seconds.count / 4096)
    let steps = stride(from: 1, to: seconds.count, by: step).map { seconds[$0] - seconds[$0 - 1] }
    return median(steps)
  }
}

/// Movement on a grid: what of a series changes within a second, at any steady rate.
///
/// Between samples a cubic goes through four of them, which shifts nothing (Keys, Cubic Convolution Interpolation for Digital Image
/// Processing, IEEE Trans. Acoust. 29(6), 1981). Both filters are symmetric, so that they shift nothing either.
struct MotionGrid {
  /// Samples of the grid, and whether they were measured.
  private(set) var values: [Float]
  private(set) var isMeasured: [Bool]

  /// Of a gap, in samples of the series, that is no gap yet.
  private static let longestStep = 2.5
  /// What is slower belongs to gravity: seconds.
  private static let slowest = 1.0
  /// What is faster is not the same in a slower series: samples of that.
  private static let fastest = 3.0

  /// - Parameters:
  ///   - start: of the grid's first sample, in seconds of the series.
  ///   - rate: samples a second.
  ///   - spacing: the larger one of the series that are compared: seconds from sample to sample.
  init(_ series: MotionSeries, from start: Double, count: Int, rate: Double, spacing: Double) {
    values = [Float](repeating: 0, count: count)
    isMeasured = [Bool](repeating: false, count: count)
    resample(series, from: start, rate: rate)
    let high = Self.smoothed(values, isMeasured, radius: max(1, Int(Self.slowest * rate / 2)))
    for place in values.indices { values[place] = isMeasured[place] ? values[place] - high[place] : 0 }
    let radius = Int((Self.fastest * spacing * rate / 4).rounded())
    if radius > 0 {
      // A box twice is a triangle.
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

  /// The mean of what was measured within so many samples either way.
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

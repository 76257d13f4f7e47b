/// Computes the spectral power of heart rate variability (LF and HF). `Variability.Spectrum` documents the
/// method. Memory is allocated only in the initializer.
struct VariabilitySpectrum: Sendable {
  private static let rate = 4.0
  private static let low = 0.04
  private static let middle = 0.15
  private static let high = 0.4
  /// Spacing of the points that fill a gap by linear interpolation, in seconds.
  private static let bridgeSeconds = 1.0

  /// Times of the spline's data points, in seconds.
  private var times: [Double]
  /// Intervals at the spline's data points, in milliseconds.
  private var values: [Double]
  private var count = 0
  /// Coefficients of the spline, and working memory to compute them.
  private var coefficients: [Double]
  private var factors: [Double]
  private var samples: [Double]
  private var weights: [Double]

  /// Allocates the memory.
  ///
  /// - Parameters:
  ///   - points: maximum number of data points.
  ///   - seconds: maximum length of a segment, in seconds.
  init(points: Int, seconds: Double) {
    times = [Double](repeating: 0, count: points)
    (values, coefficients, factors) = (times, times, times)
    samples = [Double](repeating: 0, count: Int(seconds * Self.rate) + 2)
    weights = samples
  }

  /// Computes the spectrum of a segment.
  ///
  /// - Parameter intervals: intervals with at least 30 s from the end of the first to the end of the last.
  mutating func measure(_ intervals: Span<NormalInterval>) -> Variability.Spectrum {
    count = 0
    for index in intervals.indices {
      let interval = intervals[index]
      if index > 0, !interval.isContinued { bridge(to: interval.end, 1000 * interval.seconds) }
      add(interval.end, 1000 * interval.seconds)
    }
    fitSpline()
    return power(sample(times[count - 1] - times[0]), Windows(from: times[0], to: times[count - 1]))
  }

  /// The windows of Welch's method, computed exactly as neurokit2 computes them with its 100 values per
  /// second. The number of values decides where the bands end and whether a third window fits.
  private struct Windows {
    /// Reciprocal of the frequency step, in seconds.
    let period: Double
    let count: Int

    init(from start: Double, to end: Double) {
      let values = Int(((end + 0.01 - start) / 0.01).rounded(.up))
      let width = min(Int(2 / (200 / (Double(values) / 2)) * 100), values / 2)
      period = Double(2 * width) / 100
      count = (values - width / 2) / (width - width / 2)
    }
  }

  private mutating func bridge(to end: Double, _ value: Double) {
    let (start, first) = (times[count - 1], values[count - 1])
    let steps = Int((end - start) / Self.bridgeSeconds)
    guard steps > 1 else { return }
    for step in 1..<steps {
      let share = Double(step) / Double(steps)
      add(start + (end - start) * share, first + (value - first) * share)
    }
  }

  private mutating func add(_ time: Double, _ value: Double) {
    guard count < times.count, count == 0 || time > times[count - 1] else { return }
    (times[count], values[count]) = (time, value)
    count += 1
  }

  // MARK: The spline

  /// Fits an interpolating quadratic spline, with knots halfway between the points except for the first two
  /// and the last two (de Boor, A Practical Guide to Splines, 1978, chapters 10 and 13). Each point affects
  /// three coefficients.
  private mutating func fitSpline() {
    let last = count - 1
    coefficients[0] = values[0]
    factors[0] = 0
    for index in 1..<last {
      let basis = basis(at: times[index], piece: index - 1)
      let pivot = basis.1 - basis.0 * factors[index - 1]
      factors[index] = basis.2 / pivot
      coefficients[index] = (values[index] - basis.0 * coefficients[index - 1]) / pivot
    }
    coefficients[last] = values[last]
    for index in stride(from: last - 1, through: 1, by: -1) {
      coefficients[index] -= factors[index] * coefficients[index + 1]
    }
  }

  /// Returns the start of piece `index` of the spline.
  private func knot(_ index: Int) -> Double {
    if index <= 0 { return times[0] }
    if index >= count - 2 { return times[count - 1] }
    return (times[index] + times[index + 1]) / 2
  }

  /// Returns the values of the three B-splines that are not zero in a piece.
  private func basis(at time: Double, piece: Int) -> (Double, Double, Double) {
    let (before, start, end, after) = (knot(piece - 1), knot(piece), knot(piece + 1), knot(piece + 2))
    let falling = (end - time) * (end - time) / ((end - before) * (end - start))
    let rising = (time - start) * (time - start) / ((after - start) * (end - start))
    return (falling, 1 - falling - rising, rising)
  }

  /// Samples the spline and subtracts the mean.
  ///
  /// - Returns: the number of samples.
  private mutating func sample(_ duration: Double) -> Int {
    let taken = min(samples.count, Int(duration * Self.rate + 1e-9) + 1)
    var piece = 0
    var sum = 0.0
    for index in 0..<taken {
      let time = min(times[count - 1], times[0] + Double(index) / Self.rate)
      while piece < count - 3, time >= knot(piece + 1) { piece += 1 }
      let basis = basis(at: time, piece: piece)
      let value =
        basis.0 * coefficients[piece] + basis.1 * coefficients[piece + 1] + basis.2 * coefficients[piece + 2]
      samples[index] = value
      sum += value
    }
    for index in 0..<taken { samples[index] -= sum / Double(taken) }
    return taken
  }

  // MARK: Power

  private mutating func power(_ taken: Int, _ windows: Windows) -> Variability.Spectrum {
    let period = windows.period
    let width = taken / 2
    var squares = 0.0
    for index in 0..<width {
      weights[index] = 0.5 - 0.5 * sineAndCosine(turns: Double(index) / Double(width)).cosine
      squares += weights[index] * weights[index]
    }
    var (low, high) = (0.0, 0.0)
    var before: Double?
    var step = Int((Self.low * period).rounded(.up))
    while Double(step) < Self.high * period {
      let density = density(step: step, windows, width, taken) * 2 / (Self.rate * squares)
      let isHigh = Double(step) >= Self.middle * period
      // The area between the last step of LF and the first step of HF belongs to neither band.
      if isHigh, Double(step - 1) < Self.middle * period { before = nil }
      if let before {
        let area = (before + density) / 2 / period
        if isHigh { high += area } else { low += area }
      }
      before = density
      step += 1
    }
    return Variability.Spectrum(lowFrequency: low, highFrequency: high)
  }

  /// Returns the squared magnitude of the spectrum at a frequency step, as the mean over the windows. The
  /// second window is in the middle, the third at the end.
  private func density(step: Int, _ windows: Windows, _ width: Int, _ taken: Int) -> Double {
    let turn = sineAndCosine(turns: Double(step) / windows.period / Self.rate)
    var sum = 0.0
    for window in 0..<windows.count {
      let start = window * (taken - width) / 2
      var (cosine, sine) = (1.0, 0.0)
      var (real, imaginary) = (0.0, 0.0)
      for index in 0..<width {
        let value = weights[index] * samples[start + index]
        real += value * cosine
        imaginary += value * sine
        (cosine, sine) = (cosine * turn.cosine - sine * turn.sine, sine * turn.cosine + cosine * turn.sine)
      }
      sum += real * real + imaginary * imaginary
    }
    return sum / Double(windows.count)
  }
}

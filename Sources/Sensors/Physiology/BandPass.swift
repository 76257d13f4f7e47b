/// Second-order filter section (biquad) in transposed direct form II: two poles, two zeros.
///
/// The coefficients come from the bilinear transform of a Butterworth filter (Q = 1/√2) with a prewarped
/// cut-off (Oppenheim and Schafer, Discrete-Time Signal Processing, 3rd ed., 7.3; the closed forms are those
/// of R. Bristow-Johnson, Audio EQ Cookbook, W3C Note 2021).
public struct Biquad: Sendable {
  private let b0, b1, b2, a1, a2: Double
  private var s1 = 0.0
  private var s2 = 0.0

  private init(_ b: (Double, Double, Double), _ a: (Double, Double, Double)) {
    (b0, b1, b2) = (b.0 / a.0, b.1 / a.0, b.2 / a.0)
    (a1, a2) = (a.1 / a.0, a.2 / a.0)
  }

  /// Creates a Butterworth low-pass filter.
  ///
  /// - Parameters:
  ///   - cutOff: −3 dB frequency in hertz, below half the rate.
  ///   - rate: sample rate in samples per second.
  public static func lowPass(cutOff: Double, rate: Double) -> Biquad {
    let (cosine, alpha) = design(cutOff, rate)
    let gain = (1 - cosine) / 2
    return Biquad((gain, 2 * gain, gain), (1 + alpha, -2 * cosine, 1 - alpha))
  }

  public static func highPass(cutOff: Double, rate: Double) -> Biquad {
    let (cosine, alpha) = design(cutOff, rate)
    let gain = (1 + cosine) / 2
    return Biquad((gain, -2 * gain, gain), (1 + alpha, -2 * cosine, 1 - alpha))
  }

  private static func design(_ cutOff: Double, _ rate: Double) -> (cosine: Double, alpha: Double) {
    precondition(cutOff > 0 && cutOff < rate / 2, "a cut-off lies between 0 and half the rate")
    let (sine, cosine) = sineAndCosine(2 * .pi * cutOff / rate)
    // sin ω / 2Q
    return (cosine, sine * 0.5.squareRoot())
  }

  public mutating func filter(_ x: Double) -> Double {
    let y = b0 * x + s1
    s1 = b1 * x - a1 * y + s2
    s2 = b2 * x - a2 * y
    return y
  }

  /// Sets the state to the steady state for a constant input `x`, so that an offset does not cause a step.
  public mutating func settle(at x: Double) {
    let y = x * (b0 + b1 + b2) / (1 + a1 + a2)
    s2 = b2 * x - a2 * y
    s1 = b1 * x - a1 * y + s2
  }
}

/// Second-order Butterworth high-pass filter, followed by a low-pass filter.
///
/// The filter is causal, so the phase delay depends on the frequency. With a band of 0.5 … 8 Hz at 50 samples
/// per second, a sine of 1 Hz is 94 ms early, a sine of 2 Hz is 2 ms early, and a sine of 3 Hz is 15 ms late
/// (computed with SciPy). Each beat of a steady pulse has the same delay, so the beat intervals are correct.
/// If the pulse changes, the delay changes slightly from beat to beat.
public struct BandPass: Sendable {
  private var high: Biquad
  private var low: Biquad?
  private var isSettled = false

  /// Creates a band-pass filter.
  ///
  /// - Parameters:
  ///   - band: −3 dB frequencies in hertz. An upper edge above 0.4 times the sample rate is ignored, because
  ///     sampling already limits the band there.
  ///   - rate: sample rate in samples per second, more than twice the lower edge.
  public init(_ band: ClosedRange<Double>, rate: Double) {
    high = .highPass(cutOff: band.lowerBound, rate: rate)
    low = band.upperBound <= 0.4 * rate ? .lowPass(cutOff: band.upperBound, rate: rate) : nil
  }

  public mutating func filter(_ x: Double) -> Double {
    if !isSettled {
      high.settle(at: x)
      isSettled = true
    }
    let y = high.filter(x)
    return low?.filter(y) ?? y
  }

  /// Resets the filter. The next sample counts as the first sample.
  public mutating func reset() {
    isSettled = false
    low?.settle(at: 0)
  }
}

/// Returns the sine and cosine of an angle from −π to π, accurate to 1e-15. Both are computed as power
/// series, because this module does not link a mathematics library.
func sineAndCosine(_ angle: Double) -> (sine: Double, cosine: Double) {
  // The series converges quickly for a quarter of the angle. The double-angle formulas are applied twice.
  let x = angle / 4
  var sine = 0.0
  var cosine = 0.0
  var term = 1.0
  for power in 0..<20 {
    switch power % 4 {
    case 0: cosine += term
    case 1: sine += term
    case 2: cosine -= term
    default: sine -= term
    }
    term *= x / Double(power + 1)
  }
  for _ in 0..<2 { (sine, cosine) = (2 * sine * cosine, cosine * cosine - sine * sine) }
  return (sine, cosine)
}

/// Band-pass filter with finite impulse response (FIR) and linear phase. The filter delays all frequencies
/// equally, so a wave keeps its shape.
///
/// The filter is an ideal band-pass with a raised-cosine window (Oppenheim and Schafer, Discrete-Time Signal
/// Processing, 3rd ed., 7.5). The gain is 0 at frequency zero and 1 at the band's geometric mean. With an
/// impulse response of a quarter of a second, the edges are as soft as the edges of a second-order
/// Butterworth filter.
struct LinearPhaseBandPass: Sendable {
  /// Delay of the output, in samples.
  let delay: Int
  private let taps: [Double]
  /// The last inputs minus the first input, which removes an offset. Each is stored twice, so that the filter
  /// reads a contiguous range.
  private var inputs: [Double]
  private var next = 0
  private var first: Double?

  /// Creates a linear-phase band-pass filter.
  ///
  /// - Parameters:
  ///   - band: frequencies of half the amplitude, in hertz.
  ///   - seconds: length of the impulse response, in seconds.
  ///   - rate: sample rate in samples per second.
  init(_ band: ClosedRange<Double>, seconds: Double, rate: Double) {
    delay = Int((seconds * rate / 2).rounded())
    var taps: [Double] = []
    var window: [Double] = []
    for number in -delay...delay {
      let weight = 0.5 + 0.5 * sineAndCosine(turns: Double(number) / Double(2 * (delay + 1))).cosine
      let ideal =
        Self.lowPass(band.upperBound / rate, number) - Self.lowPass(band.lowerBound / rate, number)
      window.append(weight)
      taps.append(weight * ideal)
    }
    let share = taps.reduce(0, +) / window.reduce(0, +)
    for index in taps.indices { taps[index] -= share * window[index] }
    let middle = (band.lowerBound * band.upperBound).squareRoot() / rate
    var gain = 0.0
    for index in taps.indices {
      gain += taps[index] * sineAndCosine(turns: middle * Double(index - delay)).cosine
    }
    self.taps = taps.map { $0 / gain }
    inputs = [Double](repeating: 0, count: 2 * taps.count)
  }

  /// Returns sample `number` of an ideal low-pass filter's impulse response; `cutOff` is in cycles per
  /// sample.
  private static func lowPass(_ cutOff: Double, _ number: Int) -> Double {
    guard number != 0 else { return 2 * cutOff }
    return sineAndCosine(turns: cutOff * Double(number)).sine / (.pi * Double(number))
  }

  mutating func filter(_ x: Double) -> Double {
    let first = first ?? x
    self.first = first
    inputs[next] = x - first
    inputs[next + taps.count] = x - first
    next = next + 1 == taps.count ? 0 : next + 1
    var sum = 0.0
    for index in taps.indices { sum += taps[index] * inputs[next + index] }
    return sum
  }

  mutating func reset() {
    for index in inputs.indices { inputs[index] = 0 }
    first = nil
  }
}

/// Returns the sine and cosine of an angle given in turns (full circles).
package func sineAndCosine(turns: Double) -> (sine: Double, cosine: Double) {
  sineAndCosine(2 * .pi * (turns - turns.rounded()))
}

/// A band-pass with finite impulse response. It delays all frequencies equally, so a wave keeps its shape and
/// position.
///
/// An ideal band-pass truncated by a raised cosine (Oppenheim and Schafer, Discrete-Time Signal Processing,
/// 3rd ed., 7.5), with the remaining gain at frequency zero removed, and a gain of one at the band's
/// geometric mean. With a length of a quarter of a second, its edges are as soft as those of a second-order
/// Butterworth filter.
struct LinearPhaseBandPass: Sendable {
  /// Delay of the output, in samples.
  let delay: Int
  private let taps: [Double]
  /// The last inputs, stored twice so that they are contiguous. The first input is subtracted from them, to
  /// remove an offset.
  private var inputs: [Double]
  private var next = 0
  private var first: Double?

  /// - Parameters:
  ///   - band: frequencies of half the amplitude, in hertz.
  ///   - seconds: length of the impulse response.
  ///   - rate: samples per second.
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

  /// Sample `number` of an ideal low-pass's impulse response; `cutOff` is in cycles per sample.
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

/// Sine and cosine of an angle in turns.
package func sineAndCosine(turns: Double) -> (sine: Double, cosine: Double) {
  sineAndCosine(2 * .pi * (turns - turns.rounded()))
}

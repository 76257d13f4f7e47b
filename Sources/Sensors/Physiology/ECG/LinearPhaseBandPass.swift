/// A band-pass of finite impulse response: it delays all frequencies alike, so a wave keeps its shape and its place.
///
/// An ideal band cut off by a raised cosine (Oppenheim and Schafer, Discrete-Time Signal Processing, 3rd ed., 7.5),
/// with what is left at frequency zero taken out, and a gain of one at the band's geometric middle. A quarter of a second
/// long its edges are as soft as those of a Butterworth filter of second order.
struct LinearPhaseBandPass: Sendable {
  /// Samples by which what comes out is later than what goes in.
  let delay: Int
  private let taps: [Double]
  /// The last inputs, each twice, so that they lie in a row: without the first one, which an offset has no part of.
  private var inputs: [Double]
  private var next = 0
  private var first: Double?

  /// - Parameters:
  ///   - band: half the height, in hertz.
  ///   - seconds: length of the impulse response.
  ///   - rate: samples a second.
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

  /// Sample `number` of the impulse response of an ideal low-pass; `cutOff` is in turns a sample.
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

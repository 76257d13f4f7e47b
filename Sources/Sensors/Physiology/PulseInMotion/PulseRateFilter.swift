/// Tracks the pulse from window to window with a hidden Markov model over rates: forward filtering and
/// fixed-lag smoothing. Memory is allocated only in the initializer.
///
/// From one window to the next, the change of the pulse has a Laplace distribution of scale `changeScale`.
/// With probability `jumpShare`, any rate can follow. The probability of each rate is multiplied by the
/// window's evidence, and the smoothing uses later windows like earlier ones (Rabiner, A tutorial on hidden
/// Markov models, Proc. IEEE 77(2), 1989, forward-backward algorithm). Others have published similar trackers
/// of a pulse in motion (Temko 2017 with the Viterbi path; Bieri et al., BeliefPPG, UAI 2023).
struct PulseRateFilter {
  /// Number of rates: 40, 42 … 220 beats per minute.
  static let count = 91
  static let lowest = 40.0
  static let spacing = 2.0
  /// Number of later windows that are used to decide a window.
  static let lag = 3
  /// Scale of the change between two windows, which are two seconds apart, in beats per minute.
  static let changeScale = 4.0
  /// Decay of the distribution from one rate to the next: exp(−spacing / changeScale).
  private static let decay = 0.606_530_659_712_633_4
  /// Probability of an arbitrary change.
  static let jumpShare = 1e-3
  /// Most likely initial rate, in beats per minute.
  static let firstRate = 90.0
  /// Distance from `firstRate` at which an initial rate is half as likely, in beats per minute.
  static let firstSpread = 30.0

  /// Probabilities of the rates in each of the last `lag` + 1 windows, given all windows up to it.
  private var forward = [Double](repeating: 0, count: (lag + 1) * count)
  /// Likelihoods of the rates in each of the last `lag` + 1 windows.
  private var likelihood = [Double](repeating: 1, count: (lag + 1) * count)
  private var state = [Double](repeating: 0, count: count)
  private var scratch = [Double](repeating: 0, count: count)
  /// Column sums of the transition matrix.
  private var reach = [Double](repeating: 1, count: count)
  /// Number of windows since the start.
  private(set) var taken = 0

  init() {
    for index in scratch.indices { scratch[index] = 1 }
    Self.blur(scratch, to: &reach)
  }

  mutating func reset() { taken = 0 }

  static func rate(_ index: Int) -> Double { lowest + spacing * Double(index) }

  /// Returns the index of the nearest rate.
  static func index(_ rate: Double) -> Int {
    max(0, min(count - 1, Int(((rate - lowest) / spacing).rounded())))
  }

  /// Processes the evidence of the next window; `nil` if the window has no evidence.
  mutating func take(_ evidence: [Double]?) {
    let slot = taken % (Self.lag + 1) * Self.count
    if taken == 0 {
      for index in state.indices {
        let distance = (Self.rate(index) - Self.firstRate) / Self.firstSpread
        state[index] = 1 / (1 + distance * distance)
      }
    } else {
      for index in scratch.indices { scratch[index] = state[index] / reach[index] }
      Self.blur(scratch, to: &state)
      for index in state.indices {
        state[index] = (1 - Self.jumpShare) * state[index] + Self.jumpShare / Double(Self.count)
      }
    }
    for index in state.indices {
      let level = evidence.map { $0[index] + PulseSpectrum.floor } ?? 1
      likelihood[slot + index] = level * level
      state[index] *= level * level
    }
    Self.normalise(&state)
    for index in state.indices { forward[slot + index] = state[index] }
    taken += 1
  }

  /// Estimates the pulse of a window from all received windows.
  ///
  /// - Parameter window: number of the window; at most `lag` later windows were received.
  /// - Returns: the pulse, and the probability that it is within about 5 beats per minute.
  mutating func estimate(window: Int) -> (beatsPerMinute: Double, probability: Double) {
    precondition(taken - 1 - window <= Self.lag && window < taken, "that window is forgotten")
    for index in state.indices { state[index] = 1 }
    var later = taken - 1
    while later > window {
      let slot = later % (Self.lag + 1) * Self.count
      for index in state.indices { scratch[index] = state[index] * likelihood[slot + index] }
      Self.normalise(&scratch)
      Self.blur(scratch, to: &state)
      let jump = Self.jumpShare / Double(Self.count)
      for index in state.indices {
        state[index] = (1 - Self.jumpShare) * state[index] / reach[index] + jump
      }
      later -= 1
    }
    let slot = window % (Self.lag + 1) * Self.count
    for index in state.indices { state[index] *= forward[slot + index] }
    Self.normalise(&state)
    let result = Self.summary(state)
    // Restore the state, because the forward pass continues from the last window.
    let last = (taken - 1) % (Self.lag + 1) * Self.count
    for index in state.indices { state[index] = forward[last + index] }
    return result
  }

  /// Returns the ratio of a window's evidence for a rate to its mean evidence for the rates 16 to 40 beats
  /// per minute away. The spectral lines of an 8 s window are narrower. The window must be one of those that
  /// `estimate` accepts.
  func contrast(window: Int, at index: Int) -> Double {
    let slot = window % (Self.lag + 1) * Self.count
    var (sum, places) = (0.0, 0.0)
    for place in max(0, index - 20)..<min(Self.count, index + 21) where abs(place - index) >= 8 {
      sum += evidence(slot + place)
      places += 1
    }
    return evidence(slot + index) / max(sum / places, 0.05)
  }

  private func evidence(_ place: Int) -> Double { likelihood[place].squareRoot() - PulseSpectrum.floor }

  /// Returns the mean of the nine rates around the most probable five neighbouring rates, weighted by
  /// probability, and the probability of these five rates.
  private static func summary(_ state: [Double]) -> (beatsPerMinute: Double, probability: Double) {
    var best = 0
    var most = -1.0
    for index in 0..<count {
      var sum = 0.0
      for near in max(0, index - 2)..<min(count, index + 3) { sum += state[near] }
      if sum > most { (best, most) = (index, sum) }
    }
    var (mass, mean) = (0.0, 0.0)
    for near in max(0, best - 4)..<min(count, best + 5) {
      mass += state[near]
      mean += state[near] * rate(near)
    }
    return (mean / mass, min(1, most))
  }

  /// Convolves the input with `decay` to the power of the distance, in one pass upwards and one downwards.
  private static func blur(_ input: [Double], to output: inout [Double]) {
    let input = input.span
    var output = output.mutableSpan
    var sum = 0.0
    for index in 0..<count {
      sum = sum * decay + input[index]
      output[index] = sum
    }
    sum = 0
    for index in stride(from: count - 1, through: 0, by: -1) {
      output[index] += sum
      sum = (sum + input[index]) * decay
    }
  }

  private static func normalise(_ values: inout [Double]) {
    var sum = 0.0
    for index in values.indices { sum += values[index] }
    for index in values.indices { values[index] /= sum }
  }
}

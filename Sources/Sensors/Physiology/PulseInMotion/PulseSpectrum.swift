/// Evidence of a window for each rate of `PulseRateFilter`, computed from amplitude spectra of the light
/// after motion cancellation and of the acceleration.
///
/// The light's amplitude at each frequency is multiplied by a Wiener gain: light divided by the sum of light
/// and weighted acceleration, both relative to their maximum (Temko, Accurate Heart Rate Monitoring During
/// Physical Exercises Using PPG, IEEE Trans. Biomed. Eng. 64(9), 2017). Half of the amplitude at the second
/// harmonic is then added.
struct PulseSpectrum {
  static let windowSamples = 200
  /// Weight of the acceleration's spectrum in the Wiener gain.
  static let accelerationShare = 0.25
  static let harmonicShare = 0.5
  /// Acceleration amplitude in g, below which the acceleration's spectrum has less weight.
  static let leastAcceleration = 0.01
  /// Constant added to the evidence for each rate, as a multiple of the mean evidence.
  static let floor = 0.2
  /// Number of frequencies: 40, 42 … 422 per minute. 422 is included to make the count a multiple of four.
  static let count = 192
  /// Sum of the window function's values.
  private static let gain = Double(windowSamples + 1) / 2

  /// Goertzel coefficient of each frequency: twice the cosine of the phase step per sample.
  private let turns: [Double]
  private let taper: [Double]
  private var tapered = [Double](repeating: 0, count: windowSamples)
  private var spectrum = [Double](repeating: 0, count: count)
  private var motion = [Double](repeating: 0, count: count)
  /// Evidence for each rate; the mean over all rates is 1.
  private(set) var evidence = [Double](repeating: 1, count: PulseRateFilter.count)
  /// Amplitude at each rate, in the first light signal that was added. Not divided by the sum of the window
  /// function.
  private(set) var cleaned = [Double](repeating: 0, count: PulseRateFilter.count)
  private var isFirst = true

  init() {
    turns = (0..<Self.count).map { index in
      2 * sineAndCosine(2 * .pi * Double(40 + 2 * index) / (60 * SampleGrid.rate)).cosine
    }
    taper = (0..<Self.windowSamples).map { index in
      // Hann window: the square of a half sine, without its zeros.
      let sine = sineAndCosine(.pi * Double(index + 1) / Double(Self.windowSamples + 1)).sine
      return sine * sine
    }
  }

  /// Starts a new window: clears the acceleration and the evidence.
  mutating func begin() {
    for index in motion.indices { motion[index] = 0 }
    for index in evidence.indices { evidence[index] = 0 }
    isFirst = true
  }

  /// Adds one axis of the acceleration.
  mutating func addAcceleration(_ signal: [Double]) {
    transform(signal)
    let largest = max(largest, Self.leastAcceleration / 2 * Self.gain)
    for index in motion.indices { motion[index] += spectrum[index] / largest / 3 }
  }

  /// Adds the light from which the accelerometer's part was removed. Call this after adding the acceleration.
  /// If several fits were made, add each result with its share of the evidence.
  mutating func addLight(_ signal: [Double], share: Double) {
    transform(signal)
    if isFirst {
      for index in cleaned.indices { cleaned[index] = spectrum[index] }
      isFirst = false
    }
    let largest = largest
    guard largest > 0 else {
      for index in evidence.indices { evidence[index] += share }
      return
    }
    for index in spectrum.indices {
      let level = spectrum[index] / largest
      spectrum[index] = level * level / (level + Self.accelerationShare * motion[index] + 1e-9)
    }
    var sum = 0.0
    for index in evidence.indices { sum += weighted(index) }
    let scale = share * Double(evidence.count) / sum
    for index in evidence.indices { evidence[index] += scale * weighted(index) }
  }

  /// Returns the amplitude of a signal at one rate, not divided by the sum of the window function.
  func amplitude(_ signal: [Double], at index: Int) -> Double {
    var (last, before) = (0.0, 0.0)
    for sample in signal.indices {
      (last, before) = (turns[index] * last + (taper[sample] * signal[sample] - before), last)
    }
    return Self.amplitude(last, before, turns[index])
  }

  /// Maximum of the spectrum over the pulse rates, without the second harmonics above them.
  private var largest: Double {
    var largest = 0.0
    for index in 0..<PulseRateFilter.count { largest = max(largest, spectrum[index]) }
    return largest
  }

  private func weighted(_ index: Int) -> Double {
    // The second harmonic of rate 40 + 2i has index 20 + 2i.
    let double = 20 + 2 * index
    return spectrum[index] + (double < Self.count ? Self.harmonicShare * spectrum[double] : 0)
  }

  /// Computes the amplitude spectrum of a windowed signal.
  private mutating func transform(_ signal: [Double]) {
    for index in tapered.indices { tapered[index] = taper[index] * signal[index] }
    Self.transform(tapered, turns, to: &spectrum)
  }

  /// Computes four frequencies at a time, so that the processor can execute them in parallel, by Goertzel's
  /// recursion (An Algorithm for the Evaluation of Finite Trigonometric Series, Am. Math. Monthly 65(1),
  /// 1958).
  private static func transform(_ signal: [Double], _ turns: [Double], to spectrum: inout [Double]) {
    let (signal, turns) = (signal.span, turns.span)
    var spectrum = spectrum.mutableSpan
    for index in stride(from: 0, to: count, by: 4) {
      let (ta, tb, tc, td) = (turns[index], turns[index + 1], turns[index + 2], turns[index + 3])
      // Last two values of each recursion.
      var (a, b, c, d) = (0.0, 0.0, 0.0, 0.0)
      var (a1, b1, c1, d1) = (0.0, 0.0, 0.0, 0.0)
      for sample in 0..<windowSamples {
        let value = signal[sample]
        (a, a1) = (ta * a + (value - a1), a)
        (b, b1) = (tb * b + (value - b1), b)
        (c, c1) = (tc * c + (value - c1), c)
        (d, d1) = (td * d + (value - d1), d)
      }
      spectrum[index] = amplitude(a, a1, ta)
      spectrum[index + 1] = amplitude(b, b1, tb)
      spectrum[index + 2] = amplitude(c, c1, tc)
      spectrum[index + 3] = amplitude(d, d1, td)
    }
  }

  private static func amplitude(_ last: Double, _ before: Double, _ turn: Double) -> Double {
    max(0, last * last + before * before - turn * last * before).squareRoot()
  }
}

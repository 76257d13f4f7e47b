/// Measures how periodic a signal is, and its period, by autocorrelation. A pulse of 24 to 250 beats per
/// minute is periodic; noise is not. Memory is allocated only in the initializer.
///
/// Method: McLeod, Wyvill, A smarter way to find pitch, Proc. Int. Computer Music Conf., 2005. The normalised
/// square difference function is 1 if the signal is unchanged after a lag, and −1 if it is inverted. The
/// first peak that is nearly as high as the highest peak is the period. A second wave in each beat makes a
/// lower peak at half the period, and there are equally high peaks at multiples of the period. The choice
/// between a period, its half and its double therefore follows from the signal, not from a range of permitted
/// rates.
struct Periodicity: Sendable {
  static let beatsPerMinute = 24.0...250.0
  /// Threshold of `isSine`: minimum ratio of the inverted correlation at half a period to the correlation at
  /// a whole period. It is (1 − h²)/(1 + h²) for a second harmonic of h = 0.12.
  static let sineShare = 0.97
  /// Threshold of `hasHarmonic`: like `sineShare`, for a second harmonic of h = 0.23. The ratio was below
  /// this threshold in 95 of 100 windows of light from people at rest, and in none of 100 windows of
  /// narrow-band noise.
  static let harmonicShare = 0.9
  /// Period above which the two waves of a beat are detected separately, in seconds; corresponds to 50 beats
  /// per minute.
  static let slowPeriod = 1.2
  /// Period above which a rival peak makes the result doubtful, in seconds; corresponds to 45 beats per
  /// minute.
  static let doubtfulPeriod = 60.0 / 45
  /// Maximum height of the rival peak, as a fraction of the chosen peak, for a result that is not doubtful.
  static let largestRival = 0.5
  /// Minimum height of the peak that determines the period, as a fraction of the highest peak.
  static let peakShare = 0.75
  /// Maximum sample rate used, in samples per second. A pulse has no content above 8 Hz.
  private static let mostRate = 60.0

  /// Period of a signal, and how well the signal repeats.
  struct Found: Sendable, BitwiseCopyable {
    /// Period in seconds.
    var period: Double
    /// Autocorrelation at a lag of one period: −1 … 1.
    var strength: Double
    /// Autocorrelation at a lag of half a period: −1 … 1.
    var halfStrength: Double
    /// Height of the highest peak at a lag shorter than the period; 0 if there is no peak.
    var rival = 0.0
    /// Whether the period is longer than that of most pulses and there is also a high peak at a shorter lag.
    /// Steps with an irregular pattern have such peaks. A slow pulse does not, because its second wave
    /// differs from its first wave.
    var isDoubtful: Bool {
      period > Periodicity.doubtfulPeriod && rival > Periodicity.largestRival * strength
    }
    /// Whether the signal is nearly a sine, as from a lamp, breathing or filtered noise. A sine is inverted
    /// after half a period. A pulse rises faster than it falls, so its second harmonic has more than a tenth
    /// of the fundamental's amplitude.
    var isSine: Bool { halfStrength < -Periodicity.sineShare * strength }

    /// Whether the signal clearly differs from a sine. Narrow-band noise deviates from a sine by less than a
    /// tenth.
    var hasHarmonic: Bool { halfStrength > -Periodicity.harmonicShare * strength }

    var beatsPerMinute: Double { 60 / period }
  }

  private let rate: Double
  /// Decimation factor: number of input samples per sample used.
  private let step: Int
  private var samples: [Double]
  /// Normalised autocorrelation for each lag.
  private var likeness: [Double]

  /// Creates a meter for signals of one sample rate.
  ///
  /// - Parameters:
  ///   - rate: sample rate of the input, in samples per second.
  ///   - seconds: maximum length of the analysed range, in seconds.
  init(rate: Double, seconds: Double) {
    step = max(1, Int(rate / Self.mostRate))
    self.rate = rate / Double(step)
    samples = [Double](repeating: 0, count: Int(seconds * self.rate) + 2)
    likeness = [Double](repeating: 0, count: Int(60 / Self.beatsPerMinute.lowerBound * self.rate) + 3)
  }

  /// Measures the period of a range of a signal.
  ///
  /// - Parameters:
  ///   - signal: a ring buffer; sample n is at n modulo its length.
  ///   - range: numbers of the samples to analyse.
  /// - Returns: `nil` if the range is too short, or if the signal is constant or has no peak.
  mutating func find(_ signal: Span<Double>, _ range: Range<Int>) -> Found? {
    let count = min(samples.count, range.count / step)
    let lags = min(likeness.count, count / 2)
    guard lags > 4 else { return nil }
    var mean = 0.0
    for index in 0..<count {
      samples[index] = signal[(range.lowerBound + index * step) % signal.count]
      mean += samples[index] / Double(count)
    }
    var power = 0.0
    for index in 0..<count {
      samples[index] -= mean
      power += 2 * samples[index] * samples[index]
    }
    guard power > 0 else { return nil }
    Self.compare(samples, count, power, to: &likeness, lags)
    return peak(lags)
  }

  private static func compare(
    _ samples: [Double], _ count: Int, _ total: Double, to likeness: inout [Double], _ lags: Int
  ) {
    let samples = samples.span
    var power = total
    for lag in 0..<lags {
      if lag > 0 {
        power -= samples[lag - 1] * samples[lag - 1] + samples[count - lag] * samples[count - lag]
      }
      var sum = 0.0
      for index in 0..<count - lag { sum += samples[index] * samples[index + lag] }
      likeness[lag] = power > 1e-9 * total ? 2 * sum / power : 0
    }
  }

  /// Returns the first peak, between the shortest and the longest period, that is nearly as high as the
  /// highest peak.
  private func peak(_ lags: Int) -> Found? {
    let first = max(1, Int(60 / Self.beatsPerMinute.upperBound * rate))
    guard first < lags - 1 else { return nil }
    var highest = 0.0
    for lag in first..<lags - 1 where isPeak(lag) { highest = max(highest, refined(lag).strength) }
    var rival = 0.0
    for lag in first..<lags - 1 where isPeak(lag) {
      var found = refined(lag)
      found.rival = rival
      if found.strength >= Self.peakShare * highest { return found }
      rival = max(rival, found.strength)
    }
    return nil
  }

  private func isPeak(_ lag: Int) -> Bool {
    likeness[lag] > 0 && likeness[lag] >= likeness[lag - 1] && likeness[lag] > likeness[lag + 1]
  }

  /// Refines a peak by a parabola through the peak and its neighbours.
  private func refined(_ lag: Int) -> Found {
    let (before, here, after) = (likeness[lag - 1], likeness[lag], likeness[lag + 1])
    let bend = before - 2 * here + after
    let shift = bend < 0 ? max(-0.5, min(0.5, 0.5 * (before - after) / bend)) : 0
    let place = (Double(lag) + shift) / 2
    return Found(
      period: 2 * place / rate, strength: here - 0.25 * (before - after) * shift,
      halfStrength: likeness(at: place))
  }

  /// Interpolates the autocorrelation with a cubic through four lags. If a beat is only six samples long, the
  /// peak is too sharp for linear interpolation.
  private func likeness(at place: Double) -> Double {
    let (low, x) = (Int(place), place - place.rounded(.down))
    // Autocorrelation is symmetric in the lag.
    let before = likeness[abs(low - 1)]
    let (here, next, after) = (likeness[low], likeness[low + 1], likeness[low + 2])
    let (ends, middle) = (x * (x - 1), (x + 1) * (x - 2))
    return (after * ends * (x + 1) - before * ends * (x - 2)) / 6
      + (here * middle * (x - 1) - next * middle * x) / 2
  }
}

/// Measures how exactly a signal repeats itself, and with what period. A pulse of 24 to 250 beats per minute
/// repeats itself; noise does not. It allocates only at the start.
///
/// Method: McLeod, Wyvill, A smarter way to find pitch, Proc. Int. Computer Music Conf., 2005. The normalised
/// square difference function is 1 if the signal is the same after a lag, and −1 if it is inverted. The first
/// peak that is nearly as high as the highest one is the period: a second wave of the same beat makes a lower
/// peak at half the period, and at twice the period the signal repeats itself again. The octave therefore
/// follows from the signal, not from a range of permitted rates.
struct Periodicity: Sendable {
  static let beatsPerMinute = 24.0...250.0
  /// Threshold of `isSine`: minimum ratio of the inverted correlation after half a period to the correlation
  /// after a whole one. It is (1 − h²)/(1 + h²) for a second harmonic of h = 0.12.
  static let sineShare = 0.97
  /// Threshold of `hasHarmonic`: like `sineShare`, for a second harmonic of h = 0.23. In 95 of 100 windows of
  /// people at rest the light is below this share; in a hundred windows, narrow-band noise never was.
  static let harmonicShare = 0.9
  /// The two waves of a pulse are found separately only if its period is longer than this, in seconds: 50
  /// beats per minute.
  static let slowPeriod = 1.2
  /// Period above which a rival peak makes the result doubtful: that of 45 beats per minute.
  static let doubtfulPeriod = 60.0 / 45
  /// Maximum height of such a rival peak, as a share of the highest peak.
  static let largestRival = 0.5
  /// The period is at the first peak that reaches this share of the highest one.
  static let peakShare = 0.75
  /// Maximum sample rate used. A pulse contains nothing above 8 Hz.
  private static let mostRate = 60.0

  /// The best period of a signal.
  struct Found: Sendable, BitwiseCopyable {
    /// Period in seconds.
    var period: Double
    /// Correlation of the signal with itself one period later: −1 … 1.
    var strength: Double
    /// Correlation of the signal with itself half a period later: −1 … 1.
    var halfStrength: Double
    /// Height of the highest peak at a shorter lag; 0 without such a peak.
    var rival = 0.0
    /// Whether the signal is slower than most pulses and nearly repeats itself at a shorter lag, as steps in
    /// a pattern do. The second wave of a slow pulse is unlike the first one.
    var isDoubtful: Bool {
      period > Periodicity.doubtfulPeriod && rival > Periodicity.largestRival * strength
    }
    /// Whether the signal is a sine, like that of a lamp, breathing or filtered noise, which is inverted
    /// after half a period. A pulse rises faster than it falls, so its second harmonic has more than a tenth
    /// of the fundamental's amplitude.
    var isSine: Bool { halfStrength < -Periodicity.sineShare * strength }

    /// Whether the signal is certainly not a sine. Narrow-band noise deviates from a sine by less than a
    /// tenth.
    var hasHarmonic: Bool { halfStrength > -Periodicity.harmonicShare * strength }

    var beatsPerMinute: Double { 60 / period }
  }

  private let rate: Double
  /// Number of input samples per sample used.
  private let step: Int
  private var samples: [Double]
  /// Correlation for each lag.
  private var likeness: [Double]

  /// - Parameters:
  ///   - rate: samples per second.
  ///   - seconds: maximum length of a stretch.
  init(rate: Double, seconds: Double) {
    step = max(1, Int(rate / Self.mostRate))
    self.rate = rate / Double(step)
    samples = [Double](repeating: 0, count: Int(seconds * self.rate) + 2)
    likeness = [Double](repeating: 0, count: Int(60 / Self.beatsPerMinute.lowerBound * self.rate) + 3)
  }

  /// - Parameters:
  ///   - signal: a ring buffer; sample n is at n modulo its length.
  ///   - range: the stretch.
  /// - Returns: `nil` if the stretch is too short or constant.
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
  /// highest.
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

  /// Interpolates a parabola through a peak and its neighbours.
  private func refined(_ lag: Int) -> Found {
    let (before, here, after) = (likeness[lag - 1], likeness[lag], likeness[lag + 1])
    let bend = before - 2 * here + after
    let shift = bend < 0 ? max(-0.5, min(0.5, 0.5 * (before - after) / bend)) : 0
    let place = (Double(lag) + shift) / 2
    return Found(
      period: 2 * place / rate, strength: here - 0.25 * (before - after) * shift,
      halfStrength: likeness(at: place))
  }

  /// Interpolates a cubic through four lags: a beat of six samples is too curved for a straight line.
  private func likeness(at place: Double) -> Double {
    let (low, x) = (Int(place), place - place.rounded(.down))
    // The correlation is symmetric in the lag.
    let before = likeness[abs(low - 1)]
    let (here, next, after) = (likeness[low], likeness[low + 1], likeness[low + 2])
    let (ends, middle) = (x * (x - 1), (x + 1) * (x - 2))
    return (after * ends * (x + 1) - before * ends * (x - 2)) / 6
      + (here * middle * (x - 1) - next * middle * x) / 2
  }
}

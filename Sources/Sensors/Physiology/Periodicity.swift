/// How exactly a stretch of a signal repeats itself, and after which time: what a pulse does at 24 to 250 a minute, and
/// noise does not. No allocation after the start.
///
/// Method: McLeod, Wyvill, A smarter way to find pitch, Proc. Int. Computer Music Conf., 2005: the normalised square difference
/// function, 1 where the signal is the same a lag later, −1 where it is turned over. Of its peaks the first one counts that is
/// nearly as high as the highest: at half the period a second wave of the same beat makes a lower peak, and at twice the
/// period all is the same again. So the octave is decided by what is seen, not by a range.
struct Periodicity: Sendable {
  static let beatsPerMinute = 24.0...250.0
  /// (1 − h²)/(1 + h²) for a second harmonic of h = 0.12.
  static let sineShare = 0.97
  /// Seconds: a pulse has two waves that are found one by one only where it is slower than this, 50 a minute.
  static let slowPeriod = 1.2
  /// Below 45 a minute a rival that is half as high is too much.
  static let doubtfulPeriod = 60.0 / 45
  static let largestRival = 0.5
  /// Of the highest peak: the first peak as high is the period.
  static let peakShare = 0.75
  /// Samples a second that are looked at: a pulse has nothing above 8 Hz.
  private static let mostRate = 60.0

  /// What was found.
  struct Found: Sendable, BitwiseCopyable {
    /// Seconds.
    var period: Double
    /// −1 … 1.
    var strength: Double
    /// How alike the signal is to itself half a period later: −1 … 1.
    var halfStrength: Double
    /// The highest peak at a shorter lag; zero where there is none.
    var rival = 0.0
    /// Whether it is slower than what most pulses are, and as good as repeats itself sooner, as steps do whose pattern lasts for
    /// several of them: the second wave of a slow pulse is unlike the first one.
    var isDoubtful: Bool {
      period > Periodicity.doubtfulPeriod && rival > Periodicity.largestRival * strength
    }
    /// Whether it has the form of a sine, as a lamp, breathing or filtered noise has: then it is turned over after half
    /// a period. A pulse rises faster than it falls, so its second harmonic has more than a tenth of the first one's amplitude.
    var isSine: Bool { halfStrength < -Periodicity.sineShare * strength }

    var beatsPerMinute: Double { 60 / period }
  }

  private let rate: Double
  /// Every so many samples one is taken.
  private let step: Int
  private var samples: [Double]
  /// By lag.
  private var likeness: [Double]

  /// - Parameters:
  ///   - rate: samples a second.
  ///   - seconds: of a stretch, at most.
  init(rate: Double, seconds: Double) {
    step = max(1, Int(rate / Self.mostRate))
    self.rate = rate / Double(step)
    samples = [Double](repeating: 0, count: Int(seconds * self.rate) + 2)
    likeness = [Double](repeating: 0, count: Int(60 / Self.beatsPerMinute.lowerBound * self.rate) + 3)
  }

  /// - Parameters:
  ///   - signal: a ring; sample n is at n modulo its length.
  ///   - range: the stretch.
  /// - Returns: `nil` where the stretch is too short or does not change.
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

  /// The first peak that is nearly as high as the highest one between the shortest and the longest period.
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

  /// By a parabola through a peak and its neighbours.
  private func refined(_ lag: Int) -> Found {
    let (before, here, after) = (likeness[lag - 1], likeness[lag], likeness[lag + 1])
    let bend = before - 2 * here + after
    let shift = bend < 0 ? max(-0.5, min(0.5, 0.5 * (before - after) / bend)) : 0
    let place = (Double(lag) + shift) / 2
    let (low, part) = (Int(place), place - place.rounded(.down))
    return Found(
      period: 2 * place / rate, strength: here - 0.25 * (before - after) * shift,
      halfStrength: likeness[low] + (likeness[low + 1] - likeness[low]) * part)
  }
}

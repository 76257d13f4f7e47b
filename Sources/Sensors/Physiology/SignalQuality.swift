/// Reason why a window of a plethysmogram has no pulse.
public enum PulseRejection: String, Hashable, Sendable, CaseIterable {
  /// The stream was interrupted or ended within the window.
  case interrupted
  /// More than a tenth of the samples is missing.
  case missingSamples
  /// The accelerometer shows that the hand moved, even if the light looks like a pulse.
  case motion
  case tooFewBeats
  /// The light is not periodic like a pulse: noise, no finger, or a sine, for example from a lamp.
  case noise
  /// The rate of the beats differs from the frequency of the light.
  case octave
  /// The rate is outside 24 … 250 beats per minute.
  case rateOutOfRange
  /// More than 3 s without a beat.
  case pause
  /// The longest interval is at least 2.2 times the shortest interval.
  case irregular
  /// The beats differ too much in shape.
  case shape
}

/// Decides whether a ten-second window of a plethysmogram shows a pulse.
///
/// Method: Orphanidou, Bonnici, Charlton, Clifton, Vallance, Tarassenko, Signal-Quality Indices for the
/// Electrocardiogram and Photoplethysmogram, IEEE J. Biomed. Health Inform. 19(3), 832–838, 2015. The rules
/// are a rate of 24 … 250 beats per minute (in the article 40 … 180), no pause above 3 s, the longest
/// interval less than 2.2 times the shortest, and a mean correlation of at least 0.86 between the beats and
/// the average beat. A beat consists of the samples around its peak, for the duration of the median interval.
/// The published sensitivity is 91 % and the specificity 95 %, for plethysmograms of patients.
///
/// Two rules and one measure are added. The light must be periodic (`Periodicity`) at the rate of the beats.
/// The skewness of the window (Elgendi, Optimal Signal Quality Index for Photoplethysmogram Signals,
/// Bioengineering 3(4), 21, 2016) is reported but does not affect the decision, because its sign changes with
/// the polarity of the sensor. A window in which the hand moved is rejected, because steady steps look like
/// steady beats in the light; the threshold for this motion is not from a publication.
public struct SignalQuality: Sendable {
  public static let windowSeconds = 10.0
  public static let beatsPerMinute = 24.0...250.0
  public static let longestPauseSeconds = 3.0
  public static let largestRatio = 2.2
  public static let leastCorrelation = 0.86
  /// Maximum root mean square of the acceleration of all axes, 0.5 … 8 Hz, in g. It is about 0.01 for a hand
  /// at rest.
  public static let largestMotion = 0.1
  public static let largestMissingShare = 0.1
  /// Minimum autocorrelation of a window's light at a lag of one beat, −1 … 1. Nearly all windows of white
  /// and pink noise have less.
  public static let leastPeriodicity = 0.5
  /// Maximum relative difference between the mean interval and the light's period.
  static let periodTolerance = 0.2

  /// The average beat.
  private var template: [Double]

  /// Creates an evaluator for one sample rate.
  ///
  /// - Parameter rate: sample rate in samples per second.
  init(rate: Double) {
    template = [Double](repeating: 0, count: Int(2.5 * rate) + 4)
  }

  /// Checks periodicity, rate, pauses and intervals. Returns `nil` if all rules are satisfied.
  ///
  /// - Parameters:
  ///   - beats: ascending positions in samples, inside the window.
  ///   - window: range of samples.
  ///   - found: period of the window's light.
  static func rejection(
    beats: Span<DetectedBeat>, window: Range<Int>, rate: Double, _ found: Periodicity.Found?
  ) -> PulseRejection? {
    guard beats.count >= 3 else { return .tooFewBeats }
    let last = beats.count - 1
    var shortest = Double.infinity
    var longest = 0.0
    for index in 1...last {
      let interval = (beats[index].position - beats[index - 1].position) / rate
      shortest = min(shortest, interval)
      longest = max(longest, interval)
    }
    let mean = (beats[last].position - beats[0].position) / rate / Double(last)
    guard let found, found.strength >= leastPeriodicity, !found.isSine else { return .noise }
    guard abs(mean - found.period) <= periodTolerance * found.period, !found.isDoubtful else {
      return .octave
    }
    guard beatsPerMinute.contains(60 / mean) else { return .rateOutOfRange }
    let start = (beats[0].position - Double(window.lowerBound)) / rate
    let end = (Double(window.upperBound) - beats[last].position) / rate
    guard max(longest, start, end) <= longestPauseSeconds else { return .pause }
    return longest < largestRatio * shortest ? nil : .irregular
  }

  /// Returns the mean correlation of the beats with the average beat, −1 … 1; `nil` for fewer than two
  /// complete beats.
  ///
  /// - Parameters:
  ///   - signal: a ring buffer; sample n is at n modulo its length.
  ///   - available: range of samples in the ring buffer.
  ///   - width: number of samples per beat, centred on its peak.
  mutating func correlation(
    beats: Span<DetectedBeat>, signal: Span<Double>, available: Range<Int>, width: Int
  ) -> Double? {
    let whole = average(beats: beats, signal: signal, available: available, width: width)
    guard whole >= 2 else { return nil }
    var sum = 0.0
    for beat in beats.indices {
      sum += correlation(of: beats[beat], signal: signal, available: available, width: width) ?? 0
    }
    return sum / Double(whole)
  }

  /// Averages the beats into the template.
  ///
  /// - Returns: the number of complete beats.
  mutating func average(
    beats: Span<DetectedBeat>, signal: Span<Double>, available: Range<Int>, width: Int
  ) -> Int {
    let width = min(width, template.count)
    for index in 0..<width { template[index] = 0 }
    var whole = 0
    for beat in beats.indices {
      guard let start = Self.start(of: beats[beat], width, available) else { continue }
      whole += 1
      for index in 0..<width { template[index] += signal[(start + index) % signal.count] }
    }
    return whole
  }

  /// Returns the correlation of a beat with the template, −1 … 1; `nil` if the buffer does not contain the
  /// whole beat.
  func correlation(
    of beat: DetectedBeat, signal: Span<Double>, available: Range<Int>, width: Int
  ) -> Double? {
    let width = min(width, template.count)
    return Self.start(of: beat, width, available).map { correlation(signal, $0, width) }
  }

  private static func start(of beat: DetectedBeat, _ width: Int, _ available: Range<Int>) -> Int? {
    let start = Int(beat.position.rounded()) - width / 2
    return start >= available.lowerBound && start + width <= available.upperBound ? start : nil
  }

  /// Returns the Pearson correlation of the template with the same number of samples of the signal.
  private func correlation(_ signal: Span<Double>, _ start: Int, _ width: Int) -> Double {
    var (meanX, meanY) = (0.0, 0.0)
    for index in 0..<width {
      meanX += template[index]
      meanY += signal[(start + index) % signal.count]
    }
    meanX /= Double(width)
    meanY /= Double(width)
    var (xx, yy, xy) = (0.0, 0.0, 0.0)
    for index in 0..<width {
      let x = template[index] - meanX
      let y = signal[(start + index) % signal.count] - meanY
      xx += x * x
      yy += y * y
      xy += x * y
    }
    let scale = (xx * yy).squareRoot()
    return scale > 0 ? xy / scale : 0
  }

  /// Returns the skewness (third standardised moment) of the signal in a window.
  static func skewness(signal: Span<Double>, window: Range<Int>) -> Double {
    var mean = 0.0
    for index in window { mean += signal[index % signal.count] }
    mean /= Double(window.count)
    var (second, third) = (0.0, 0.0)
    for index in window {
      let distance = signal[index % signal.count] - mean
      second += distance * distance
      third += distance * distance * distance
    }
    second /= Double(window.count)
    third /= Double(window.count)
    return second > 0 ? third / (second * second.squareRoot()) : 0
  }
}

/// Why a window of a plethysmogram gives no pulse.
public enum PulseRejection: String, Hashable, Sendable, CaseIterable {
  /// The stream was interrupted, or ended before the window did.
  case interrupted
  /// More than a tenth of the samples never came.
  case missingSamples
  /// The hand moved: the accelerometer says so, whatever the pulse looks like.
  case motion
  case tooFewBeats
  /// The light does not repeat itself as a pulse does: noise, no finger, or what has the form of a sine, as a lamp.
  case noise
  /// Beats were found at another pace than that at which the light repeats itself.
  case octave
  /// Not 24 … 250 beats a minute.
  case rateOutOfRange
  /// More than 3 s without a beat.
  case pause
  /// The longest interval is 2.2 times the shortest or more.
  case irregular
  /// The beats do not look alike.
  case shape
}

/// Whether a pulse can be read off ten seconds of a plethysmogram.
///
/// Method: Orphanidou, Bonnici, Charlton, Clifton, Vallance, Tarassenko, Signal-Quality Indices for the
/// Electrocardiogram and Photoplethysmogram, IEEE J. Biomed. Health Inform. 19(3), 832–838, 2015: a rate of 24 … 250
/// a minute (40 … 180 there), no pause above 3 s, longest and shortest interval within 2.2 of each other, and a mean correlation
/// of at least 0.86 of the beats with their average, each cut out as wide as the median interval, centred on its
/// peak. Published sensitivity 91 %, specificity 95 % for plethysmograms of patients.
///
/// Three things are added. The light has to repeat itself (`Periodicity`), at the pace of the beats. The skewness of the window (Elgendi, Optimal Signal Quality Index for
/// Photoplethysmogram Signals, Bioengineering 3(4), 21, 2016) is given but decides nothing, since it changes its
/// sign with the polarity of the sensor. And a window in which the hand moved is rejected: steady steps look like
/// steady beats, and no index that sees the light alone can tell them apart. That threshold is ours.
public struct SignalQuality: Sendable {
  public static let windowSeconds = 10.0
  public static let beatsPerMinute = 24.0...250.0
  public static let longestPauseSeconds = 3.0
  public static let largestRatio = 2.2
  public static let leastCorrelation = 0.86
  /// Root mean square of the acceleration, 0.5 … 8 Hz, all axes: g. A hand at rest has some 0.01.
  public static let largestMotion = 0.1
  public static let largestMissingShare = 0.1
  /// How alike the light of a window is to itself a beat later, −1 … 1: of white and pink noise nearly all windows have less.
  public static let leastPeriodicity = 0.5
  /// How far the median interval may be from the time after which the light repeats itself: a share of it.
  static let periodTolerance = 0.2

  /// The average beat.
  private var template: [Double]

  /// - Parameter rate: samples a second.
  init(rate: Double) {
    template = [Double](repeating: 0, count: Int(2.5 * rate) + 4)
  }

  /// The rules about time: `nil` if all are kept.
  ///
  /// - Parameters:
  ///   - beats: positions in samples, rising, inside the window.
  ///   - window: in samples.
  ///   - found: how the light of the window repeats itself.
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

  /// The mean correlation of the beats with their average: −1 … 1; `nil` with fewer than two whole beats.
  ///
  /// - Parameters:
  ///   - signal: a ring; sample n is at n modulo its length.
  ///   - available: the samples that are in the ring.
  ///   - width: samples cut out of each beat.
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

  /// Makes the average of the beats the template.
  ///
  /// - Returns: how many of them are whole.
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

  /// Of a beat with the template: −1 … 1; `nil` where the signal does not have all of it.
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

  /// Pearson's, of the template with as many samples of the signal.
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

  /// Third standardised moment of a stretch of the signal.
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

public import BLEWire

/// Heart rate variability in a segment: time-domain and frequency-domain measures.
///
/// Names and definitions follow the Task Force of the European Society of Cardiology and the North American
/// Society of Pacing and Electrophysiology, Heart Rate Variability: Standards of Measurement, Circulation
/// 93(5), 1043–1065, 1996; SD1 and SD2 follow Brennan, Palaniswami, Kamen, IEEE Trans. Biomed. Eng. 48(11),
/// 1342–1347, 2001. Standard deviations are sample standard deviations (n − 1). Differences are computed only
/// between successive intervals without a gap.
public struct Variability: Hashable, Sendable {
  /// Reason why the variability cannot be computed.
  public enum Refusal: Error, Hashable, Sendable, CustomStringConvertible {
    /// There are fewer good intervals than `needed`.
    case tooFewIntervals(count: Int, needed: Int)
    /// The sum of the good intervals is below `needed`.
    case tooShort(seconds: Double, needed: Double)
    /// The share of corrected or omitted intervals exceeds `Variability.largestCorrectedShare`.
    case tooManyCorrected(share: Double)
    /// The share of accepted intervals is below `Variability.leastAcceptedShare`.
    case fewAccepted(share: Double)
    /// The share of intervals that differ from the previous interval by more than
    /// `Variability.irregularChange` exceeds `Variability.largestIrregularShare`.
    case irregular(share: Double)
    /// The intervals suddenly doubled or halved and kept their new length, `count` times.
    case leaps(count: Int)
    /// The share of time without good intervals exceeds `Variability.largestGapShare`.
    case gaps(share: Double)

    public var description: String {
      switch self {
      case .tooFewIntervals(let count, let needed):
        "\(count) good \(count == 1 ? "interval is" : "intervals are") too few: \(needed) are needed"
      case .tooShort(let seconds, let needed):
        "\(Int(seconds)) s of intervals are too short: \(Int(needed)) s are needed"
      case .tooManyCorrected(let share):
        "\(Self.perCent(share)) % of the intervals are artefacts: the limit is "
          + "\(Self.perCent(Variability.largestCorrectedShare)) %"
      case .fewAccepted(let share):
        "\(Int(share * 100)) % of the intervals are good: \(Self.perCent(Variability.leastAcceptedShare)) % are needed"
      case .irregular(let share):
        "irregular: \(Self.perCent(share)) % of the intervals differ by more than a fifth from the one "
          + "before; the limit is \(Self.perCent(Variability.largestIrregularShare)) %. These numbers are "
          + "for a regular rhythm"
      case .leaps(let count):
        "irregular: \(count) \(count == 1 ? "time" : "times") the intervals doubled or halved at once and "
          + "stayed so. These numbers are for a regular rhythm"
      case .gaps(let share):
        "\(Self.perCent(share)) % of the time is without good intervals: the limit is "
          + "\(Self.perCent(Variability.largestGapShare)) %"
      }
    }

    private static func perCent(_ share: Double) -> Int { Int((share * 100).rounded(.up)) }
  }

  /// Spectral power of the variability in the bands LF and HF.
  ///
  /// Method: the intervals are interpolated by a quadratic spline and sampled four times a second, and the
  /// mean is subtracted. The power spectral density is estimated by Welch's method with three Hann windows
  /// (two if neurokit2 uses two). Each window is half the segment, and windows overlap by half. The frequency
  /// step is 1 / duration. The power is integrated by the trapezoidal rule from a band's lower edge to below
  /// its upper edge. These are the definitions of neurokit2 0.2's `hrv_frequency` (which samples 100 times a
  /// second and by default returns powers as shares of the largest). heartpy and other programs use other
  /// windows and splines, and their powers differ by tens of per cent.
  @frozen public struct Spectrum: Hashable, Sendable, BitwiseCopyable {
    /// Power from 0.04 to 0.15 Hz, in ms².
    public let lowFrequency: Double
    /// Power from 0.15 to 0.4 Hz, in ms².
    public let highFrequency: Double

    /// LF/HF.
    public var ratio: Double { lowFrequency / highFrequency }
  }

  public static let leastCount = 30
  /// Minimum total of the good intervals for any result, in seconds.
  public static let leastSeconds = 60.0
  /// Minimum duration of a segment for the spectrum, in seconds. LF contains waves with periods of up to 25
  /// s, and Welch's windows last half of the segment.
  public static let leastSpectrumSeconds = 240.0
  /// Maximum share of corrected intervals, as usual for the correction method. Up to this share, RMSSD is
  /// still accurate.
  public static let largestCorrectedShare = 0.05
  /// Minimum share of accepted intervals. If it is lower, the variability in the remaining time may differ.
  public static let leastAcceptedShare = 2.0 / 3
  /// Maximum relative change between successive intervals in a regular rhythm: Malik et al., Eur. Heart J.
  /// 10(12), 1060-1074, 1989, exclude larger changes.
  public static let irregularChange = 0.2
  /// Maximum share of irregular changes. Equals the maximum share of corrected intervals.
  public static let largestIrregularShare = largestCorrectedShare
  /// Share of irregular changes above which the rhythm is irregular, not a regular rhythm with ectopic beats.
  /// If one beat in ten is ectopic, three intervals in ten change.
  public static let clearlyIrregularShare = 1.0 / 3
  /// Maximum ratio between the medians of five intervals and of the next five intervals. A larger ratio means
  /// that the detector began or stopped missing every second beat, not that the heart rate changed.
  public static let leapRatio = 1.6
  /// Maximum share of gaps for the spectrum. The gaps are filled by linear interpolation.
  public static let largestGapShare = 0.1

  /// Number of intervals used.
  public let count: Int
  public let meanMilliseconds: Double
  /// SDNN, in milliseconds.
  public let deviationMilliseconds: Double
  /// RMSSD, in milliseconds.
  public let successiveMilliseconds: Double
  /// pNN50: share of pairs of successive intervals that differ by more than 50 ms, 0 … 1.
  public let over50Share: Double
  /// SD1: standard deviation across the diagonal of the Poincaré plot, in milliseconds.
  public let sd1Milliseconds: Double
  /// SD2: standard deviation along the diagonal of the Poincaré plot, in milliseconds.
  public let sd2Milliseconds: Double
  public let spectrum: Result<Spectrum, Refusal>

  public var beatsPerMinute: Double { 60_000 / meanMilliseconds }
  /// SD1/SD2.
  public var sdRatio: Double { sd1Milliseconds / sd2Milliseconds }

  /// Computes the time-domain measures.
  ///
  /// - Parameters:
  ///   - intervals: at least `leastCount` intervals.
  ///   - spectrum: the frequency-domain measures, or the reason why they are missing.
  init(_ intervals: Span<NormalInterval>, spectrum: Result<Spectrum, Refusal>) {
    var (all, differences, sums) = (Moments(), Moments(), Moments())
    var (squares, over50) = (0.0, 0)
    for index in intervals.indices {
      let value = 1000 * intervals[index].seconds
      all.add(value)
      guard index > 0, intervals[index].isContinued else { continue }
      let before = 1000 * intervals[index - 1].seconds
      let difference = value - before
      squares += difference * difference
      // Tolerates the rounding error of a difference of 50 ms.
      if abs(difference) > 50 + 1e-6 { over50 += 1 }
      differences.add(difference * 0.5.squareRoot())
      sums.add((value + before) * 0.5.squareRoot())
    }
    let pairs = Double(max(1, differences.count))
    count = intervals.count
    meanMilliseconds = all.mean
    deviationMilliseconds = all.deviation
    successiveMilliseconds = (squares / pairs).squareRoot()
    over50Share = Double(over50) / pairs
    sd1Milliseconds = differences.deviation
    sd2Milliseconds = sums.deviation
    self.spectrum = spectrum
  }
}

/// Results of a segment: five minutes, or less at the end of the stream.
public struct VariabilitySegment: Hashable, Sendable {
  public var start: ReceiveTime
  /// End of the segment: five minutes after its start, or the end of the last interval.
  public var end: ReceiveTime
  /// Number of intervals received, good or not.
  public var intervals: Int
  /// Number of intervals that the source did not accept or that are outside
  /// `VariabilityMeter.intervalSeconds`.
  public var unaccepted: Int
  public var artefacts: ArtefactCounts
  /// Share of accepted intervals that differ from the previous interval by more than
  /// `Variability.irregularChange`, before correction: 0 … 1. `nil` if there is no pair of successive
  /// intervals. A high share means an irregular heart rhythm or missed beats.
  public var irregularShare: Double?
  /// Number of times that the intervals suddenly doubled or halved and kept their new length
  /// (`Variability.leapRatio`).
  public var leaps: Int
  public var result: Result<Variability, Variability.Refusal>
}

/// Interval between two normal beats, measured or corrected.
struct NormalInterval: Sendable, BitwiseCopyable {
  /// End of the interval, in seconds since the start of the segment.
  var end: Double
  var seconds: Double
  /// Whether the interval begins with the beat that ends the previous interval.
  var isContinued: Bool
}

/// Running mean and sample standard deviation (Welford 1962).
private struct Moments {
  private(set) var count = 0
  private(set) var mean = 0.0
  private var squares = 0.0

  var deviation: Double { count > 1 ? (squares / Double(count - 1)).squareRoot() : 0 }

  mutating func add(_ value: Double) {
    count += 1
    let distance = value - mean
    mean += distance / Double(count)
    squares += distance * (value - mean)
  }
}

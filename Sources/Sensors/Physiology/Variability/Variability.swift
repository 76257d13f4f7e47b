public import BLEWire

/// How much the intervals between the beats of a segment vary, by time and by frequency.
///
/// Names and definitions of the Task Force of the European Society of Cardiology and the North American Society of Pacing
/// and Electrophysiology, Heart Rate Variability: Standards of Measurement, Circulation 93(5), 1043–1065, 1996;
/// SD1 and SD2 by Brennan, Palaniswami, Kamen, IEEE Trans. Biomed. Eng. 48(11), 1342–1347, 2001. Deviations are those of
/// a sample (n − 1). Differences are taken only between intervals that follow each other without a gap.
public struct Variability: Hashable, Sendable {
  /// Why intervals say nothing about variability.
  public enum Refusal: Error, Hashable, Sendable, CustomStringConvertible {
    /// Fewer good intervals than `needed`.
    case tooFewIntervals(count: Int, needed: Int)
    /// The good intervals last for less than `needed`.
    case tooShort(seconds: Double, needed: Double)
    /// More of them had to be corrected or left out than `Variability.largestCorrectedShare`.
    case tooManyCorrected(share: Double)
    /// Less of the intervals that came was accepted than `Variability.leastAcceptedShare`.
    case fewAccepted(share: Double)
    /// More of them differ from the one before than `Variability.largestIrregularShare` bears.
    case irregular(share: Double)
    /// The intervals doubled or halved at once and stayed so, this many times.
    case leaps(count: Int)
    /// More of the time is without good intervals than `Variability.largestGapShare`.
    case gaps(share: Double)

    public var description: String {
      switch self {
      case .tooFewIntervals(let count, let needed):
        "\(count) good intervals are too few: \(needed) are needed"
      case .tooShort(let seconds, let needed):
        "\(Int(seconds)) s of intervals are too short: \(Int(needed)) s are needed"
      case .tooManyCorrected(let share):
        "\(Self.perCent(share)) % of the intervals are artefacts: at most "
          + "\(Self.perCent(Variability.largestCorrectedShare)) % may be"
      case .fewAccepted(let share):
        "\(Int(share * 100)) % of the intervals are good: \(Self.perCent(Variability.leastAcceptedShare)) % are needed"
      case .irregular(let share):
        "irregular: \(Self.perCent(share)) % of the intervals differ by more than a fifth from the one before, at most "
          + "\(Self.perCent(Variability.largestIrregularShare)) % may. These numbers are for a regular rhythm"
      case .leaps(let count):
        "irregular: \(count) \(count == 1 ? "time" : "times") the intervals doubled or halved at once and "
          + "stayed so. These numbers are for a regular rhythm"
      case .gaps(let share):
        "\(Self.perCent(share)) % of the time is without good intervals: at most "
          + "\(Self.perCent(Variability.largestGapShare)) % may be"
      }
    }

    private static func perCent(_ share: Double) -> Int { Int((share * 100).rounded(.up)) }
  }

  /// The power of the variation in two bands.
  ///
  /// Method: the intervals over their times, joined by a quadratic spline, sampled four times a second without their mean;
  /// Welch's average of three windows of half the segment (two where neurokit2 takes two; Hann, half overlapping), at
  /// steps of 1 / duration; the sum from the lower edge to below the upper by trapezoids. These are the definitions of neurokit2 0.2's
  /// `hrv_frequency` (which samples 100 times a second and by default gives powers as shares of the largest). heartpy
  /// and others take other windows and splines: their powers differ by tens of per cent.
  @frozen public struct Spectrum: Hashable, Sendable, BitwiseCopyable {
    /// 0.04 … 0.15 Hz: ms².
    public let lowFrequency: Double
    /// 0.15 … 0.4 Hz: ms².
    public let highFrequency: Double

    /// LF/HF.
    public var ratio: Double { lowFrequency / highFrequency }
  }

  public static let leastCount = 30
  /// For what is told by time.
  public static let leastSeconds = 60.0
  /// For the spectrum: LF has waves of 25 s, and a window of Welch's is half of this.
  public static let leastSpectrumSeconds = 240.0
  /// Usual for the method of correction, and low enough for RMSSD to mean the heart.
  public static let largestCorrectedShare = 0.05
  /// Of the intervals that came; those of the rest of the time are not like these.
  public static let leastAcceptedShare = 2.0 / 3
  /// A change of an interval by more is not made by breathing or by the nerves of the heart: Malik et al., Eur. Heart J.
  /// 10(12), 1060-1074, 1989, leave such intervals out.
  public static let irregularChange = 0.2
  /// As many as may be corrected.
  public static let largestIrregularShare = largestCorrectedShare
  /// A rhythm that is no regular one with single ectopic beats: of ten beats an ectopic one changes three intervals.
  public static let clearlyIrregularShare = 1.0 / 3
  /// From the median of five intervals to that of the next five: more is no change of the heart's pace, but every
  /// second beat that began to be missing.
  public static let leapRatio = 1.6
  /// For the spectrum, which bridges gaps.
  public static let largestGapShare = 0.1

  /// Intervals that it is made of.
  public let count: Int
  public let meanMilliseconds: Double
  /// SDNN.
  public let deviationMilliseconds: Double
  /// RMSSD.
  public let successiveMilliseconds: Double
  /// pNN50: of the pairs of successive intervals, how many differ by more than 50 ms: 0 … 1.
  public let over50Share: Double
  /// SD1: across the diagonal of the Poincaré plot.
  public let sd1Milliseconds: Double
  /// SD2: along it.
  public let sd2Milliseconds: Double
  public let spectrum: Result<Spectrum, Refusal>

  public var beatsPerMinute: Double { 60_000 / meanMilliseconds }
  /// SD1/SD2.
  public var sdRatio: Double { sd1Milliseconds / sd2Milliseconds }

  /// - Parameter intervals: at least `leastCount`.
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
      // What counts is 50 ms, not the last digit of a sum.
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

/// Five minutes, or what there was of them.
public struct VariabilitySegment: Hashable, Sendable {
  public var start: ReceiveTime
  /// Five minutes after the start, or when the last interval ended.
  public var end: ReceiveTime
  /// Intervals that came, good or not.
  public var intervals: Int
  /// Those of them that the source did not accept, or that no heart can have.
  public var unaccepted: Int
  public var artefacts: ArtefactCounts
  /// Of the accepted intervals that follow on another one, before correction, how many differ from it by more than
  /// `Variability.irregularChange` of it: 0 … 1; `nil` without such a pair. It tells an irregular rhythm, whatever is the cause
  /// of it: the heart, or beats that were missed.
  public var irregularShare: Double?
  /// How many times the intervals doubled or halved at once and stayed so (`Variability.leapRatio`).
  public var leaps: Int
  public var result: Result<Variability, Variability.Refusal>
}

/// An interval between two normal beats, measured or corrected.
struct NormalInterval: Sendable, BitwiseCopyable {
  /// When it ended: seconds since the segment's first interval began.
  var end: Double
  var seconds: Double
  /// Whether it begins with the beat with which the one before ends.
  var isContinued: Bool
}

/// Mean and deviation of a sample (Welford 1962).
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

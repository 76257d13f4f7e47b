/// A beat in a plethysmogram or an electrocardiogram.
@frozen public struct DetectedBeat: Hashable, Sendable, BitwiseCopyable {
  /// Number of the sample at the systolic or R peak since the detector was made; between two samples by a parabola
  /// through the highest and its neighbours.
  public let position: Double
  /// In the unit of the signal: of the filtered plethysmogram, or of the R peak over its baseline.
  public let height: Double
}

/// Finds systolic peaks in a plethysmogram by two moving averages. No allocation after the start.
///
/// Method: Elgendi, Norton, Brearley, Abbott, Schuurmans, Systolic Peak Detection in Acceleration
/// Photoplethysmograms Measured from Emergency Responders in Tropical Conditions, PLoS ONE 8(10), e76585, 2013. The
/// signal, 0.5 … 8 Hz, is clipped below zero and squared; where its average over 111 ms (the systolic peak) is above
/// that over 667 ms (a beat) plus 2 % of the mean, for at least 111 ms, lies one peak: the highest sample.
///
/// What differs, because it streams: the filter runs forwards only; the mean is that of the last ten seconds or so;
/// a peak within 220 ms of the one before is dropped. The peak's place is refined by a parabola.
///
/// Limits: below `minimumRate` 111 ms are not two samples; an inverted signal gives the feet of the pulses.
public struct PulseDetector: Sendable {
  public static let band = 0.5...8.0
  public static let peakSeconds = 0.111
  public static let beatSeconds = 0.667
  public static let offsetShare = 0.02
  public static let refractorySeconds = 0.22
  /// Samples a second below which the method means nothing.
  public static let minimumRate = 18.0

  private let rate: Double
  /// Odd numbers of samples: the averages are centred.
  private let peakWidth: Int
  private let beatWidth: Int
  /// The filtered signal and its clipped square, the last `size` samples.
  private var filtered: [Double]
  private var squared: [Double]
  private let size: Int
  private var taken = 0
  private var peakSum = 0.0
  private var beatSum = 0.0
  private var mean = 0.0
  /// First sample of the block that is above the threshold.
  private var blockStart: Int?
  private var lastPeak = -Double.infinity

  /// - Parameter rate: samples a second, at least `minimumRate`.
  public init(rate: Double) {
    precondition(rate >= Self.minimumRate, "too few samples a second for the method")
    self.rate = rate
    peakWidth = Self.odd(Self.peakSeconds * rate)
    beatWidth = Self.odd(Self.beatSeconds * rate)
    // A block is at most as long as the average that is its threshold.
    size = 3 * beatWidth
    filtered = [Double](repeating: 0, count: size)
    squared = filtered
  }

  private static func odd(_ samples: Double) -> Int { 2 * Int((samples - 1) / 2 + 0.5) + 1 }

  /// Samples that have been decided: peaks before this one were given.
  public var decided: Int { min(blockStart ?? .max, taken - beatWidth / 2 - 1) }

  /// Takes the next sample of the signal, band-passed.
  ///
  /// - Returns: the beat that it completes, two thirds of a second or so back.
  public mutating func take(_ sample: Double) -> DetectedBeat? {
    let clipped = max(0, sample)
    let square = clipped * clipped
    let centre = taken - beatWidth / 2
    // Sums of the two windows around `centre`; what is before the first sample is zero.
    beatSum += square - (taken >= beatWidth ? squared[(taken - beatWidth) % size] : 0)
    filtered[taken % size] = sample
    squared[taken % size] = square
    let entering = centre + peakWidth / 2
    let leaving = centre - peakWidth / 2 - 1
    if entering >= 0 { peakSum += squared[entering % size] }
    if leaving >= 0 { peakSum -= squared[leaving % size] }
    taken += 1
    mean += (square - mean) / min(Double(taken), 10 * rate)
    guard centre >= 0 else { return nil }
    let threshold = beatSum / Double(beatWidth) + Self.offsetShare * mean
    let isAbove = peakSum / Double(peakWidth) > threshold
    if isAbove, let start = blockStart, centre - start < beatWidth { return nil }
    if isAbove, blockStart == nil {
      blockStart = centre
      return nil
    }
    guard let start = blockStart else { return nil }
    blockStart = nil
    return centre - start >= peakWidth ? beat(in: start..<centre) : nil
  }

  private mutating func beat(in block: Range<Int>) -> DetectedBeat? {
    var peak = block.lowerBound
    for index in block where filtered[index % size] > filtered[peak % size] { peak = index }
    guard peak > 0 else { return nil }
    let (before, height, after) = (
      filtered[(peak - 1) % size], filtered[peak % size], filtered[(peak + 1) % size]
    )
    let bend = before - 2 * height + after
    let shift = bend < 0 ? max(-0.5, min(0.5, 0.5 * (before - after) / bend)) : 0
    let position = Double(peak) + shift
    guard position - lastPeak >= Self.refractorySeconds * rate else { return nil }
    lastPeak = position
    return DetectedBeat(position: position, height: height)
  }
}

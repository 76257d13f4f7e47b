/// Beat in a plethysmogram or an electrocardiogram.
@frozen public struct DetectedBeat: Hashable, Sendable, BitwiseCopyable {
  /// Position of the systolic or R peak, in samples since the detector was created. The fraction comes from a
  /// parabola through the highest sample and its neighbours.
  public let position: Double
  /// Height of the systolic peak in the filtered plethysmogram, or of the R peak above its baseline, in the
  /// unit of the signal.
  public let height: Double
}

/// Detects systolic peaks in a plethysmogram with two moving averages. Memory is allocated only in the
/// initializer.
///
/// Method: Elgendi, Norton, Brearley, Abbott, Schuurmans, Systolic Peak Detection in Acceleration
/// Photoplethysmograms Measured from Emergency Responders in Tropical Conditions, PLoS ONE 8(10), e76585,
/// 2013. The signal is filtered to 0.5 … 8 Hz, clipped below zero and squared. A block begins where the
/// average over 111 ms (a systolic peak) exceeds the average over 667 ms (a beat) plus 2 % of the mean. If
/// the block lasts at least 111 ms, its highest sample is a peak.
///
/// Streaming requires some changes: the filter is causal, and the mean covers about the last ten seconds. A
/// peak within 220 ms of the previous peak is dropped. A parabola locates the peak between samples.
///
/// Limits: below `minimumRate`, 111 ms are less than two samples. In an inverted signal, the detector finds
/// the feet of the pulses.
public struct PulseDetector: Sendable {
  public static let band = 0.5...8.0
  public static let peakSeconds = 0.111
  public static let beatSeconds = 0.667
  public static let offsetShare = 0.02
  public static let refractorySeconds = 0.22
  /// Minimum sample rate for the method, in samples per second.
  public static let minimumRate = 18.0

  private let rate: Double
  /// Width of the average over a peak, in samples; odd, so that the average is centred.
  private let peakWidth: Int
  /// Width of the average over a beat, in samples; odd, so that the average is centred.
  private let beatWidth: Int
  /// Last `size` samples of the filtered signal.
  private var filtered: [Double]
  /// Squares of the last `size` samples, 0 for negative samples.
  private var squared: [Double]
  private let size: Int
  private var taken = 0
  private var peakSum = 0.0
  private var beatSum = 0.0
  private var mean = 0.0
  /// First sample of the current block above the threshold.
  private var blockStart: Int?
  private var lastPeak = -Double.infinity

  /// Creates a detector for one sample rate.
  ///
  /// - Parameter rate: sample rate in samples per second, at least `minimumRate`.
  public init(rate: Double) {
    precondition(rate >= Self.minimumRate, "too few samples a second for the method")
    self.rate = rate
    peakWidth = Self.odd(Self.peakSeconds * rate)
    beatWidth = Self.odd(Self.beatSeconds * rate)
    // A block is at most `beatWidth` samples long.
    size = 3 * beatWidth
    filtered = [Double](repeating: 0, count: size)
    squared = filtered
  }

  private static func odd(_ samples: Double) -> Int { 2 * Int((samples - 1) / 2 + 0.5) + 1 }

  /// Number of the first undecided sample. All peaks before it have been returned.
  public var decided: Int { min(blockStart ?? .max, taken - beatWidth / 2 - 1) }

  /// Processes the next sample of the band-passed signal.
  ///
  /// - Returns: a beat, if this sample completes one. Its peak is about two thirds of a second earlier.
  public mutating func take(_ sample: Double) -> DetectedBeat? {
    let clipped = max(0, sample)
    let square = clipped * clipped
    let centre = taken - beatWidth / 2
    // Sums of the two windows around `centre`; samples before the first sample count as zero.
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

public import BLEWire

/// A sample of an electrocardiogram, with its position on the sensor's own clock.
@frozen public struct ECGSample: Hashable, Sendable, BitwiseCopyable {
  /// Number of the sample since the first one, counting missing samples.
  public let index: Int
  /// Time of the sample by the sensor's clock, in nanoseconds since the Unix epoch.
  public let time: ReceiveTime
  /// Whether the time since the previous sample is unknown.
  public let isRestart: Bool
  public let microvolts: Double

  @inlinable public init(index: Int, time: ReceiveTime, isRestart: Bool = false, microvolts: Double) {
    self.index = index
    self.time = time
    self.isRestart = isRestart
    self.microvolts = microvolts
  }
}

/// A heart beat in an electrocardiogram, with the interval that ends with it.
@frozen public struct ECGBeat: Hashable, Sendable, BitwiseCopyable {
  /// Time of the R peak, on the sensor's clock; no filter shifts it.
  public var time: ReceiveTime
  /// Seconds since the previous R peak; `nil` for the first one after an interruption or after missing
  /// samples.
  public let interval: Double?
  /// Height of the R peak over the baseline, in microvolts; negative if the lead is inverted.
  public let height: Double
  /// Correlation with the average beat of its window, −1 … 1; `nil` if the window does not contain the whole
  /// beat. This is the beat's quality: an ectopic beat or noise is unlike the others.
  public let correlation: Double?
  /// Whether the interval is good: both its beats look like the others of their windows, and neither window
  /// is rejected.
  public let isAccepted: Bool
}

/// Results of ten seconds of an electrocardiogram.
public struct ECGWindow: Hashable, Sendable {
  /// Start time by the sensor's clock.
  public var start: ReceiveTime
  public var end: ReceiveTime
  /// Number of beats found, good or not.
  public var beats: Int
  /// Rate from the count of all beats (`ECGMeter`); `nil` if the window is rejected.
  public var beatsPerMinute: Double?
  /// Median correlation of the beats with their average, −1 … 1. This is the window's quality.
  public var correlation: Double?
  /// Share of missing samples: 0 … 1.
  public var missingShare: Double
  /// Share of good intervals between the beats, 0 … 1; `nil` without an interval.
  public var acceptedShare: Double?
  /// Median height of the R peaks divided by the root mean square of the signal; `nil` without a beat. At
  /// most 1.41 for a sine.
  public var crest: Double?
  public var rejection: ECGRejection?
}

/// Why a window of an electrocardiogram has no heart rate.
public enum ECGRejection: String, Hashable, Sendable, CaseIterable {
  /// The stream was interrupted, or ended before the window did.
  case interrupted
  /// More than a fifth of the samples is missing.
  case missingSamples
  /// The signal is constant for a second or more: no electrode has contact, or the amplifier is saturated.
  case contact
  case tooFewBeats
  /// The beats found do not stand out from the signal: mains hum or noise.
  case noise
  /// The rate is outside 24 … 250 beats per minute.
  case rateOutOfRange
  /// More than 3 s without a beat.
  case pause
  /// The beats do not look alike: noise, or not a heart.
  case shape
  /// Less than four fifths of the intervals are between beats that look like the others.
  case fewAccepted

  /// The reason in a few words.
  public var words: String {
    switch self {
    case .interrupted: "the signal ended or was interrupted"
    case .missingSamples: "samples missing"
    case .contact: "no contact"
    case .tooFewBeats: "too few beats"
    case .noise: "no clear beats in the signal"
    case .rateOutOfRange: "an impossible heart rate"
    case .pause: "more than 3 s without a beat"
    case .shape: "the beats do not look alike"
    case .fewAccepted: "too many beats unlike the others"
    }
  }
}

public import BLEWire

/// A sample of an electrocardiogram, with its place on the sensor's own clock.
@frozen public struct ECGSample: Hashable, Sendable, BitwiseCopyable {
  /// Number of the sample since the first one; those that never came have theirs too.
  public let index: Int
  /// On the sensor's clock: nanoseconds since the Unix epoch.
  public let time: ReceiveTime
  /// Whether nothing is known of the time since the sample before.
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
  /// Of the R peak, on the sensor's clock; no filter shifts it.
  public var time: ReceiveTime
  /// Seconds since the R peak before; `nil` for the first one after an interruption or after samples that never came.
  public let interval: Double?
  /// Of the R peak over the baseline; below zero where the lead is upside down: microvolts.
  public let height: Double
  /// With the average beat of its window: −1 … 1; `nil` where the window does not have all of it. This is the beat's
  /// quality: an ectopic beat or noise is unlike the others.
  public let correlation: Double?
  /// Whether the interval is good: both its beats look like the others of their windows, which are not rejected.
  public let isAccepted: Bool
}

/// Ten seconds of an electrocardiogram and what can be said of them.
public struct ECGWindow: Hashable, Sendable {
  /// On the sensor's clock.
  public var start: ReceiveTime
  public var end: ReceiveTime
  /// Beats found, good or not.
  public var beats: Int
  /// By the count of all beats (`ECGMeter`); `nil` where the window is rejected.
  public var beatsPerMinute: Double?
  /// Median correlation of the beats with their average: −1 … 1. This is the window's quality.
  public var correlation: Double?
  /// Of the samples, how many never came: 0 … 1.
  public var missingShare: Double
  /// Of the intervals between the beats, how many are good: 0 … 1; `nil` without an interval.
  public var acceptedShare: Double?
  /// Median height of the R peaks over the root mean square of the signal; `nil` without a beat. A sine has at most 1.41.
  public var crest: Double?
  public var rejection: ECGRejection?
}

/// Why a window of an electrocardiogram gives no heart rate.
public enum ECGRejection: String, Hashable, Sendable, CaseIterable {
  /// The stream was interrupted, or ended before the window did.
  case interrupted
  /// More than a fifth of the samples never came.
  case missingSamples
  /// The signal stands still for a second or more: no electrode has contact, or the amplifier is at its end.
  case contact
  case tooFewBeats
  /// What was taken for beats does not stand out of the signal: the mains, or noise.
  case noise
  /// Not 24 … 250 beats a minute.
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
    case .noise: "no beats stand out of the signal"
    case .rateOutOfRange: "no rate that a heart can have"
    case .pause: "more than 3 s without a beat"
    case .shape: "the beats do not look alike"
    case .fewAccepted: "too many beats unlike the others"
    }
  }
}

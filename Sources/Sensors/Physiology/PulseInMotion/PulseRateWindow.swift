public import BLEWire

/// The method by which a pulse was found.
public enum PulseMethod: String, Hashable, Sendable, CaseIterable {
  /// Single beats were found: `PulseMeter`.
  case beats
  /// The frequency was tracked, with the accelerometer's part removed: `PulseTracker`.
  case tracking
}

/// A pulse, which always has a quality.
public struct PulseEstimate: Hashable, Sendable {
  /// Minimum quality of a pulse for consumers that cannot evaluate it: `HomeAssistant`, a bike computer.
  public static let goodQuality = 0.8

  public var beatsPerMinute: Double
  /// Measured share of windows of this quality whose pulse is within 5 beats per minute: 0 … 1.
  public var quality: Double
  public var method: PulseMethod

  public init(beatsPerMinute: Double, quality: Double, method: PulseMethod) {
    self.beatsPerMinute = beatsPerMinute
    self.quality = quality
    self.method = method
  }
}

/// Why a window has no pulse.
public enum PulseAbsence: String, Hashable, Sendable, CaseIterable {
  /// More than a third of the samples is missing or has no light.
  case missingSamples
  /// The light jumped, for example because the sensor was lifted, and more than a third of it was missing or
  /// not settled.
  case unsettled
  /// The light is constant.
  case noSignal
  /// The light does not repeat itself like a pulse: noise, no finger, or a sine, for example of a lamp.
  case noise
  /// The light repeats itself at a rate that differs from the tracked one, often half or twice that rate.
  case octave
  /// No beats were found, and a tracked pulse cannot be distinguished from movement without an accelerometer.
  case noAccelerometer
  /// Beats were found only in some windows, and there is no accelerometer: the beats may be steps.
  case unsteadyBeats

  /// A short description of the reason.
  public var words: String {
    switch self {
    case .missingSamples: "samples missing"
    case .unsettled: "the light jumped"
    case .noSignal: "the light does not change"
    case .noise: "no pulse in the light"
    case .octave: "no clear pace"
    case .noAccelerometer: "no beats and no accelerometer"
    case .unsteadyBeats: "unsteady beats and no accelerometer"
    }
  }
}

/// Eight seconds of a plethysmogram. The next window begins two seconds later.
public struct PulseRateWindow: Hashable, Sendable {
  public static let seconds = 8.0
  public static let stepSeconds = 2.0

  /// Start time by the sensor's clock.
  public var start: ReceiveTime
  public var end: ReceiveTime
  /// The pulse; `nil` if, and only if, `absence` is set.
  public var pulse: PulseEstimate?
  public var absence: PulseAbsence?
  /// Root mean square of the acceleration of all axes, 0.5 … 5 Hz, in g. `nil` without an accelerometer.
  public var motion: Double?
  /// Correlation of the light with itself one beat later, at the best rate: −1 … 1. `nil` if the light is
  /// constant.
  public var periodicity: Double?
  /// The model's own probability that a tracked pulse is within 5 beats per minute, if its line passed the
  /// gate (`TrackedLine`). The quality is derived from it.
  package var trackingProbability: Double?

  public init(
    start: ReceiveTime, end: ReceiveTime, pulse: PulseEstimate? = nil, absence: PulseAbsence? = nil,
    motion: Double? = nil, periodicity: Double? = nil
  ) {
    (self.start, self.end, self.pulse, self.absence) = (start, end, pulse, absence)
    (self.motion, self.periodicity) = (motion, periodicity)
  }
}

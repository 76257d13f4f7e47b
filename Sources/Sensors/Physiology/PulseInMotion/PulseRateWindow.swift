public import BLEWire

/// Which method a pulse is from.
public enum PulseMethod: String, Hashable, Sendable, CaseIterable {
  /// Single beats were found: `PulseMeter`.
  case beats
  /// The frequency was tracked and the accelerometer taken out: `PulseTracker`.
  case tracking
}

/// A pulse, which is never given without its quality.
public struct PulseEstimate: Hashable, Sendable {
  /// From this quality on a pulse is told to who cannot weigh it: `HomeAssistant`, a bike computer.
  public static let goodQuality = 0.8

  public var beatsPerMinute: Double
  /// Share of windows of this quality whose pulse is within 5 a minute, by what was measured: 0 … 1.
  public var quality: Double
  public var method: PulseMethod

  public init(beatsPerMinute: Double, quality: Double, method: PulseMethod) {
    self.beatsPerMinute = beatsPerMinute
    self.quality = quality
    self.method = method
  }
}

/// Why a window has no pulse at all.
public enum PulseAbsence: String, Hashable, Sendable, CaseIterable {
  /// More than a third of the samples never came or had no light.
  case missingSamples
  /// The light jumped, as where the sensor is lifted, and more than a third of it was missing or not settled.
  case unsettled
  /// The light did not change.
  case noSignal
  /// The light does not repeat itself as a pulse does: noise, no finger, or what has the form of a sine, as a lamp.
  case noise
  /// The light repeats itself at another pace than the one that was tracked, often half or twice of it.
  case octave
  /// No beats were found, and only an accelerometer tells a tracked pulse from movement.
  case noAccelerometer

  /// The reason in a few words.
  public var words: String {
    switch self {
    case .missingSamples: "samples missing"
    case .unsettled: "the light jumped"
    case .noSignal: "the light does not change"
    case .noise: "no pulse in the light"
    case .octave: "no clear pace"
    case .noAccelerometer: "no beats and no accelerometer"
    }
  }
}

/// Eight seconds of a plethysmogram; the next window begins two seconds later.
public struct PulseRateWindow: Hashable, Sendable {
  public static let seconds = 8.0
  public static let stepSeconds = 2.0

  /// On the sensor's clock.
  public var start: ReceiveTime
  public var end: ReceiveTime
  /// `nil` exactly where `absence` is not.
  public var pulse: PulseEstimate?
  public var absence: PulseAbsence?
  /// Root mean square of the acceleration, 0.5 … 5 Hz, all axes: g. `nil` without an accelerometer.
  public var motion: Double?
  /// How alike the light is to itself a beat later, at the best of all paces: −1 … 1. `nil` where it did not change.
  public var periodicity: Double?

  public init(
    start: ReceiveTime, end: ReceiveTime, pulse: PulseEstimate? = nil, absence: PulseAbsence? = nil,
    motion: Double? = nil, periodicity: Double? = nil
  ) {
    (self.start, self.end, self.pulse, self.absence) = (start, end, pulse, absence)
    (self.motion, self.periodicity) = (motion, periodicity)
  }
}

/// A simulated person who wears an emulated sensor: heartbeat, movement, and the fit of the sensor.
///
/// All signals are functions of time, except for small noise from a generator with a fixed seed.
public struct Wearer: Hashable, Sendable {
  /// An activity with its usual steps per minute and a matching pulse. Tudor-Locke et al., Br. J. Sports Med.
  /// 52(12), 776–788, 2018: 100 is a moderate walk, and from 130 on people tend to run.
  public enum Motion: String, CaseIterable, Hashable, Sendable {
    case rest, walk, run

    var stepsPerMinute: Double { self == .run ? 160 : 105 }

    var beatsPerMinute: ClosedRange<Double> {
      switch self {
      case .rest: 64...80
      case .walk: 86...98
      case .run: 138...152
      }
    }
  }

  /// Reason why an option's value is invalid, for the user.
  public struct Refusal: Error, Hashable, Sendable {
    /// The valid range.
    public let range: String
  }

  /// Heart rate. Rises from the lower to the upper bound and falls back each minute; `nil` for the motion's
  /// default.
  public var beatsPerMinute: ClosedRange<Double>?
  /// Amplitude of the heart rate's variation by breathing and a slow wave, as a fraction of the rate: 0 …
  /// 0.4.
  public var variability = 0.05
  /// Fraction of premature beats: 0 … 0.5.
  public var ectopicShare = 0.0
  public var motion = Motion.rest
  /// Steps per minute, 30 … 240; `nil` for the motion's default.
  public var stepsPerMinute: Double?
  /// Duration of alternating periods of rest and motion; `nil` for constant motion.
  public var boutSeconds: Double?
  /// Amplitude of the optical pulse relative to that of a warm finger: 0 … 1. The noise is a hundredth of a
  /// warm finger's pulse.
  public var perfusion = 1.0
  /// Interval in seconds at which the sensor is off the skin for `liftSeconds`; `nil` for never.
  public var liftedEverySeconds: Double?
  /// Time after which the sensor is taken off for good; `nil` for never.
  public var takenOffAfterSeconds: Double?
  /// Time from an R wave to the foot of its pulse at the finger.
  public var transitSeconds = 0.2
  /// Degree to which breathing modulates the light: 1, or 0 for none.
  var breathing = 1.0

  public static let liftSeconds = 5.0
  /// Options of a sensor that only has a heart rate; then all options.
  static let heartOptions = ["heart-rate", "variability", "ectopic"]
  static let options =
    heartOptions + ["motion", "cadence", "bout", "perfusion", "lifted-every", "taken-off-after"]

  public init() {}

  /// A wearer at rest with a pulse of exactly 72 per minute and the first beat at the start.
  public static let even: Wearer = {
    var wearer = Wearer()
    (wearer.beatsPerMinute, wearer.variability, wearer.breathing) = (72...72, 0, 0)
    wearer.transitSeconds = 0
    return wearer
  }()

  public var rhythm: HeartRhythm {
    var rhythm = HeartRhythm(beatsPerMinute: beatsPerMinute ?? motion.beatsPerMinute)
    (rhythm.breathingShare, rhythm.slowShare) = (variability * 0.6, variability * 2 / 5)
    rhythm.ectopicShare = ectopicShare
    return rhythm
  }

  /// Sets an option of `virtual:` or `ringtap emulate`, such as `heart-rate` to `64-80`.
  ///
  /// - Throws: the valid range.
  public mutating func set(_ option: String, _ text: String) throws(Refusal) {
    switch option {
    case "heart-rate":
      let wanted = "beats a minute, 30 … 220, such as 72 or 64-80,"
      let ends = text.split(separator: "-", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
      let lower = try Self.number(ends[0], 30...220, wanted)
      beatsPerMinute = lower...(try Self.number(ends[ends.count - 1], lower...220, wanted))
    case "variability": variability = try Self.number(text, 0...0.4)
    case "ectopic": ectopicShare = try Self.number(text, 0...0.5)
    case "motion":
      guard let motion = Motion(rawValue: text) else { throw Refusal(range: "one of rest, walk, run") }
      self.motion = motion
    case "cadence": stepsPerMinute = try Self.number(text, 30...240, "steps a minute, 30 … 240,")
    case "bout": boutSeconds = try Self.number(text, 5...86_400, "seconds, 5 … 86400,")
    case "perfusion": perfusion = try Self.number(text, 0...1)
    case "lifted-every": liftedEverySeconds = try Self.number(text, 10...86_400, "seconds, 10 … 86400,")
    case "taken-off-after": takenOffAfterSeconds = try Self.number(text, 0...86_400, "seconds, 0 … 86400,")
    default: preconditionFailure("no option of a wearer")
    }
  }

  static func number(
    _ text: String, _ range: ClosedRange<Double>, _ wanted: String? = nil
  ) throws(Refusal) -> Double {
    guard let number = Double(text), range.contains(number) else {
      func short(_ bound: Double) -> String { bound == bound.rounded() ? "\(Int(bound))" : "\(bound)" }
      throw Refusal(range: wanted ?? "\(short(range.lowerBound)) … \(short(range.upperBound))")
    }
    return number
  }
}

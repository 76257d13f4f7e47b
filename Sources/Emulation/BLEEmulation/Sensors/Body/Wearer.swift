/// A made-up person who wears an emulated sensor: how the heart beats, how the body moves, how the sensor sits.
///
/// All that comes of it is a formula of time, but for small noise from a generator that starts the same each time.
public struct Wearer: Hashable, Sendable {
  /// What somebody does, with the usual steps a minute (Tudor-Locke et al., Br. J. Sports Med. 52(12), 776–788, 2018:
  /// 100 is a moderate walk, from 130 on people tend to run) and a pulse that goes with it.
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

  /// Why an option cannot be, in words for the user.
  public struct Refusal: Error, Hashable, Sendable {
    /// What is wanted.
    public let range: String
  }

  /// From the lower to the upper one and back each minute; `nil`: as the motion has it.
  public var beatsPerMinute: ClosedRange<Double>?
  /// How far breathing and a slow wave raise and lower the heart rate: a share of it, 0 … 0.4.
  public var variability = 0.05
  /// Share of the beats that are premature: 0 … 0.5.
  public var ectopicShare = 0.0
  public var motion = Motion.rest
  /// 30 … 240; `nil`: as the motion has it.
  public var stepsPerMinute: Double?
  /// By turns at rest and in motion for so long each; `nil`: always in motion.
  public var boutSeconds: Double?
  /// The pulse in the light as a share of a warm finger's: 0 … 1. Noise is a hundredth of a warm finger's pulse.
  public var perfusion = 1.0
  /// The sensor is off the skin for `liftSeconds`, each time so many seconds have passed; `nil`: never.
  public var liftedEverySeconds: Double?
  /// The sensor is taken off then, and stays off; `nil`: never.
  public var takenOffAfterSeconds: Double?
  /// From an R wave to the foot of its pulse at the finger.
  public var transitSeconds = 0.2
  /// How much breathing moves the light: 1, or 0 for not at all.
  var breathing = 1.0

  public static let liftSeconds = 5.0
  /// Options of a sensor that has a heart rate only, then all.
  static let heartOptions = ["heart-rate", "variability", "ectopic"]
  static let options =
    heartOptions + ["motion", "cadence", "bout", "perfusion", "lifted-every", "taken-off-after"]

  public init() {}

  /// At rest with a pulse of 72 a minute to the last digit, the first of it at the start.
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

  /// Sets what an option of `virtual:` or `ringtap emulate` says: `heart-rate` to `64-80`.
  ///
  /// - Throws: what is wanted instead.
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

import BLEWire
import Physiology

/// A simulated person who wears an emulated sensor: heartbeat, movement, and the fit of the sensor.
///
/// All signals are functions of time, except for small noise from a generator with a fixed seed.
public struct Wearer: Hashable, Sendable {
  /// An activity with its usual steps per minute and a matching pulse. 100 steps per minute are a moderate
  /// walk, and from 130 on people tend to run: Tudor-Locke et al., Br. J. Sports Med. 52(12), 776–788, 2018.
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

  /// Reason why an option's value is invalid. Shown to the user.
  public struct Refusal: Error, Hashable, Sendable {
    /// The valid range.
    public let range: String
  }

  /// Heart rate in beats per minute. Rises from the lower to the upper bound and falls back each minute;
  /// `nil` for the motion's default.
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
  /// Interval in seconds at which the sensor is lifted off the skin for `liftSeconds`; `nil` for never.
  public var liftedEverySeconds: Double?
  /// Time in seconds after which the sensor is permanently taken off; `nil` for never.
  public var takenOffAfterSeconds: Double?
  /// Time in seconds from an R wave to the foot of its pulse at the finger.
  public var transitSeconds = 0.2
  /// Degree to which breathing modulates the light: 1, or 0 for no modulation.
  var breathing = 1.0

  public static let liftSeconds = 5.0
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
  /// - Throws: A refusal with the valid range.
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

// MARK: - Light

/// The effect of a wearer on a ring's optical signal.
struct WearerLight {
  /// Fraction of the light that remains when the ring is off the skin.
  private static let ambientShare = 0.12
  /// Fraction of a beat at which the systolic peak ends. The remaining fraction is stretched to the length of
  /// the beat.
  private static let systole = 0.25
  /// Height of an ectopic beat, before which the heart could not fill completely. `laterHeight` is the height
  /// of the beat after it.
  private static let ectopicHeight = 0.4
  private static let laterHeight = 1.15
  /// Modulation of pulse height and baseline by breathing, as fractions of the pulse.
  private static let breathing = (height: 0.1, baseline: 0.15)

  /// One beat of a finger plethysmogram, 0 … 1: steep rise, notch, slow fall.
  private static let beat: InlineArray<32, Double> = [
    0.00, 0.08, 0.28, 0.58, 0.85, 0.98, 1.00, 0.94, 0.85, 0.75, 0.66, 0.58, 0.52, 0.47, 0.44, 0.43,
    0.45, 0.47, 0.48, 0.46, 0.43, 0.39, 0.35, 0.31, 0.27, 0.23, 0.19, 0.16, 0.12, 0.09, 0.06, 0.03,
  ]

  private let wearer: Wearer
  private let rhythm: HeartRhythm
  private let motion: WearerMotion

  init(_ wearer: Wearer, _ motion: WearerMotion) {
    (self.wearer, rhythm, self.motion) = (wearer, wearer.rhythm, motion)
  }

  /// Returns the light at a time, in counts, without noise.
  ///
  /// - Parameters:
  ///   - low: the light at the foot of a pulse.
  ///   - swing: amplitude of a warm finger's pulse, from foot to peak.
  func counts(low: Double, swing: Double, at seconds: Double) -> Double {
    let lift = sinceLift(seconds)
    if let lift, lift < Wearer.liftSeconds {
      return low * Self.ambientShare + 0.1 * swing * sineAndCosine(turns: seconds / 3.1).sine
    }
    // After a lift the finger refills with blood, and the position of the ring settles.
    let settling = lift.map { 4 / square(1 + ($0 - Wearer.liftSeconds) / 0.5) } ?? 0
    let breath =
      wearer.breathing > 0
      ? wearer.breathing * sineAndCosine(turns: HeartRhythm.breathsPerSecond * seconds).sine : 0
    let blood =
      pulse(at: seconds - wearer.transitSeconds) * (1 + Self.breathing.height * breath)
      + Self.breathing.baseline * breath
    return low + swing * (wearer.perfusion * blood + motion.artefact(at: seconds) + settling)
  }

  /// Returns the number of seconds since the ring was last lifted, or `nil` if it was never lifted.
  private func sinceLift(_ seconds: Double) -> Double? {
    if let end = wearer.takenOffAfterSeconds, seconds >= end { return 0 }
    guard let every = wearer.liftedEverySeconds, seconds >= every else { return nil }
    return seconds - (seconds / every).rounded(.down) * every
  }

  /// Returns the relative blood volume at a time, 0 … `laterHeight`.
  private func pulse(at seconds: Double) -> Double {
    let phase = rhythm.phase(at: seconds)
    // Without ectopic beats all beats have the same length.
    guard rhythm.ectopicShare > 0 else { return Self.height(phase - phase.rounded(.down)) }
    var number = Int(phase.rounded(.down))
    if rhythm.place(number + 1) <= phase { number += 1 }
    let start = rhythm.place(number)
    var share = phase - start
    if share > Self.systole {
      let length = rhythm.place(number + 1) - start
      share = Self.systole + (share - Self.systole) * (1 - Self.systole) / (length - Self.systole)
    }
    let height = Self.height(max(0, share))
    if rhythm.isEctopic(number) { return Self.ectopicHeight * height }
    return rhythm.isEctopic(number - 1) ? Self.laterHeight * height : height
  }

  /// Returns the relative height of the pulse at a position within the beat.
  ///
  /// - Parameter share: position within the beat, 0 … 1.
  private static func height(_ share: Double) -> Double {
    let place = share * Double(beat.count)
    let index = Int(place)
    let part = place - Double(index)
    return beat[index % beat.count] * (1 - part) + beat[(index + 1) % beat.count] * part
  }
}

func square(_ x: Double) -> Double { x * x }

// MARK: - Motion

/// The movement of a wearer's hand, and its effect on the optical signal.
///
/// A stride is two steps: the arm swings once, the body rises with each step, and the impact has harmonics.
/// Strides vary in length by some 2 % and in strength by a fifth.
///
/// The same strides disturb the light, but not in proportion to any axis: tissue and ring respond differently
/// to each harmonic, and the fit of the ring drifts. The artefact is therefore correlated with the
/// acceleration without being a multiple of it. Artefact and acceleration also have independent components.
/// In root mean squares, the artefact is twice the pulse when walking and three times the pulse when running.
/// At four times, `PulseTracker` has twice the error that it has on real treadmill runs (the recordings of
/// Zhang, Pi, Liu, TROIKA, IEEE Trans. Biomed. Eng. 62(2), 2015).
struct WearerMotion {
  private typealias Harmonics = InlineArray<4, (size: Double, turns: Double)>

  /// Harmonics of the stride on the x axis: relative amplitudes and phases. The other axes and the light have
  /// their own harmonics.
  private static let x: Harmonics = [(0.60, 0.00), (0.50, 0.30), (0.15, 0.10), (0.20, 0.60)]
  private static let y: Harmonics = [(0.30, 0.40), (0.80, 0.05), (0.10, 0.75), (0.30, 0.20)]
  private static let z: Harmonics = [(0.20, 0.15), (0.40, 0.55), (0.20, 0.90), (0.15, 0.45)]
  private static let light: Harmonics = [(0.45, 0.22), (0.70, 0.48), (0.25, 0.67), (0.20, 0.11)]
  /// Time in seconds that a hand needs to start or stop moving.
  private static let rampSeconds = 2.0

  /// Amplitudes of the acceleration, in g, and of the artefact, relative to a warm finger's pulse.
  private let sizes: (acceleration: Double, light: Double)
  private let strideRate: Double
  private let boutSeconds: Double?

  init(_ wearer: Wearer) {
    sizes =
      switch wearer.motion {
      case .rest: (0, 0)
      case .walk: (0.3, 1)
      case .run: (0.9, 1.5)
      }
    strideRate = (wearer.stepsPerMinute ?? wearer.motion.stepsPerMinute) / 120
    boutSeconds = wearer.boutSeconds
  }

  /// Returns the acceleration of the hand in g, including gravity. The hand turns slowly, so that gravity
  /// shifts between the axes.
  func force(at seconds: Double) -> (x: Double, y: Double, z: Double) {
    let x = 0.5 * Self.sway(seconds / 7)
    let y = 0.4 * Self.sway(seconds / 5 + 0.3)
    let z = max(0, 1 - x * x - y * y).squareRoot()
    let moved = acceleration(at: seconds)
    return (x + moved.x, y + moved.y, z + moved.z)
  }

  /// Returns the value of a wave of amplitude 1 and period 1: one parabola per half, approximately a sine.
  private static func sway(_ turns: Double) -> Double {
    let phase = turns - turns.rounded(.down)
    let half = phase < 0.5 ? phase * 2 : phase * 2 - 1
    let arch = 4 * half * (1 - half)
    return phase < 0.5 ? arch : -arch
  }

  /// Returns the acceleration of the hand without gravity, in g.
  func acceleration(at seconds: Double) -> (x: Double, y: Double, z: Double) {
    let size = sizes.acceleration * strength(seconds)
    guard size > 0 else { return (0, 0, 0) }
    let strides = strides(seconds)
    return (
      size * Self.sum(Self.x, strides), size * Self.sum(Self.y, strides), size * Self.sum(Self.z, strides)
    )
  }

  /// Returns the motion artefact in the light, relative to a warm finger's pulse.
  fileprivate func artefact(at seconds: Double) -> Double {
    let size = sizes.light * strength(seconds)
    guard size > 0 else { return 0 }
    let fit = 1 + 0.3 * sineAndCosine(turns: seconds / 17).sine
    let late = 0.06 * sineAndCosine(turns: seconds / 23).sine
    let wave = Self.sum(Self.light, strides(seconds) - late)
    // Compressed tissue changes the light less.
    return size * fit * (wave - 0.15 * wave * abs(wave))
  }

  /// Returns the amplitudes of the independent noise: in the light, relative to a warm finger's pulse, and in
  /// the acceleration, in g.
  func noise(at seconds: Double) -> (light: Double, acceleration: Double) {
    let strength = strength(seconds)
    return (0.15 * sizes.light * strength, 0.1 * sizes.acceleration * strength)
  }

  /// Returns the number of strides since the start. May be fractional.
  private func strides(_ seconds: Double) -> Double {
    strideRate * seconds + 0.05 * sineAndCosine(turns: seconds / 11.3).sine
      + 0.015 * sineAndCosine(turns: seconds / 4.7).sine
  }

  /// Returns the strength of the motion: 0 at rest, around 1 in motion.
  private func strength(_ seconds: Double) -> Double {
    guard sizes.light > 0 else { return 0 }
    let uneven =
      1 + 0.12 * sineAndCosine(turns: seconds / 6.1).sine + 0.08 * sineAndCosine(turns: seconds / 2.3).sine
    guard let boutSeconds else { return uneven }
    let place = seconds - (seconds / (2 * boutSeconds)).rounded(.down) * 2 * boutSeconds - boutSeconds
    guard place > 0 else { return 0 }
    return uneven * min(1, min(place, boutSeconds - place) / Self.rampSeconds)
  }

  private static func sum(_ harmonics: Harmonics, _ strides: Double) -> Double {
    var sum = 0.0
    for index in harmonics.indices {
      let harmonic = harmonics[index]
      sum += harmonic.size * sineAndCosine(turns: Double(index + 1) * strides + harmonic.turns).sine
    }
    return sum
  }
}

// MARK: - Time

/// The relation between an emulated sensor's clock and the time of its wearer's body.
///
/// By default both times start with the sensor's stream. Sensors in the same virtual air with `isShared` are
/// on the same body: with the same wearer options they measure the same beats and the same steps.
public struct BodyTime: Hashable, Sendable {
  /// Whether the body's time is the time of the virtual air.
  public var isShared = false
  /// Delay between measuring and sending, in seconds.
  public var lateSeconds = 0.0
  /// Rate by which the sensor's clock is fast, as a fraction such as 28e-6.
  public var clockDrift = 0.0
  /// The body's time in seconds when the sensor's clock is 0.
  private(set) var start = 0.0

  public init() {}

  /// Sets a clock option of `virtual:`.
  ///
  /// - Returns: `false` if `option` is not a clock option.
  /// - Throws: A refusal with the valid range.
  mutating func set(_ option: String, _ text: String) throws(Wearer.Refusal) -> Bool {
    switch option {
    case "late": lateSeconds = try Wearer.number(text, 0...10_000, "milliseconds, 0 … 10000,") / 1_000
    case "clock-ppm":
      clockDrift = try Wearer.number(text, -500...500, "parts in a million, -500 … 500,") / 1e6
    default: return false
    }
    return true
  }

  /// Starts the sensor's clock at 0.
  mutating func begin(at now: MonotonicTime) { start = start(at: now) }

  /// Returns the value of `start` for a sensor's clock that starts now: the body's time at this moment, in
  /// seconds.
  func start(at now: MonotonicTime) -> Double {
    (isShared ? Double(now.nanoseconds) / 1e9 : 0) - lateSeconds
  }

  /// Converts a time of the sensor's clock to the body's time, in seconds.
  func seconds(_ own: Double) -> Double { start + own / (1 + clockDrift) }

  /// Converts a time of the body to the sensor's clock, in seconds.
  func own(_ seconds: Double) -> Double { (seconds - start) * (1 + clockDrift) }

  /// Duration of a second of the sensor's clock, in seconds of the virtual air.
  var pace: Double { 1 / (1 + clockDrift) }
}

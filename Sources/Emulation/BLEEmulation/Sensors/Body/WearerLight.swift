import Physiology

/// The effect of a wearer on a ring's optical signal.
struct WearerLight {
  /// Fraction of the light that remains when the ring is off the skin.
  private static let ambientShare = 0.12
  /// Fraction of a beat at which the systolic peak ends. The rest is stretched to the length of the beat.
  private static let systole = 0.25
  /// Heights of an ectopic beat, before which the heart could not fill completely, and of the beat after it.
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

  /// The light in counts, without noise.
  ///
  /// - Parameters:
  ///   - low: the light at the foot of a pulse.
  ///   - swing: amplitude of a warm finger's pulse, from foot to peak.
  func counts(low: Double, swing: Double, at seconds: Double) -> Double {
    let lift = sinceLift(seconds)
    if let lift, lift < Wearer.liftSeconds {
      return low * Self.ambientShare + 0.1 * swing * sineAndCosine(turns: seconds / 3.1).sine
    }
    // After a lift the finger refills with blood, and the ring settles.
    let settling = lift.map { 4 / square(1 + ($0 - Wearer.liftSeconds) / 0.5) } ?? 0
    let breath =
      wearer.breathing > 0
      ? wearer.breathing * sineAndCosine(turns: HeartRhythm.breathsPerSecond * seconds).sine : 0
    let blood =
      pulse(at: seconds - wearer.transitSeconds) * (1 + Self.breathing.height * breath)
      + Self.breathing.baseline * breath
    return low + swing * (wearer.perfusion * blood + motion.artefact(at: seconds) + settling)
  }

  /// Seconds since the ring was last lifted.
  private func sinceLift(_ seconds: Double) -> Double? {
    if let end = wearer.takenOffAfterSeconds, seconds >= end { return 0 }
    guard let every = wearer.liftedEverySeconds, seconds >= every else { return nil }
    return seconds - (seconds / every).rounded(.down) * every
  }

  /// Blood volume in the vessel at this distance from the heart: 0 … `laterHeight`.
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

  /// Height of the pulse.
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

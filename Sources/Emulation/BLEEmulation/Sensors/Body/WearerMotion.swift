import Physiology

/// The movement of a wearer's hand, and its effect on the optical signal.
///
/// A stride is two steps: the arm swings once, the body rises with each step, and the impact has harmonics.
/// Strides vary in length by some 2 % and in strength by a fifth.
///
/// The same strides disturb the light, but not in proportion to any axis: tissue and ring respond differently
/// to each harmonic, and the fit of the ring drifts. The artefact is therefore correlated with the
/// acceleration without being a multiple of it. Both also have an independent component. In root mean
/// squares, the artefact is twice the pulse when walking and three times when running. At four times,
/// `PulseTracker` has twice the error that it has on real treadmill runs (those of Zhang, Pi, Liu, TROIKA,
/// IEEE Trans. Biomed. Eng. 62(2), 2015).
struct WearerMotion {
  private typealias Harmonics = InlineArray<4, (size: Double, turns: Double)>

  /// Harmonics of the stride for each axis and for the light: relative amplitudes and phases.
  private static let x: Harmonics = [(0.60, 0.00), (0.50, 0.30), (0.15, 0.10), (0.20, 0.60)]
  private static let y: Harmonics = [(0.30, 0.40), (0.80, 0.05), (0.10, 0.75), (0.30, 0.20)]
  private static let z: Harmonics = [(0.20, 0.15), (0.40, 0.55), (0.20, 0.90), (0.15, 0.45)]
  private static let light: Harmonics = [(0.45, 0.22), (0.70, 0.48), (0.25, 0.67), (0.20, 0.11)]
  /// Time that a hand needs to start or stop moving.
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

  /// Acceleration of the hand in g, including gravity. The hand turns slowly, so that gravity shifts between
  /// the axes.
  func force(at seconds: Double) -> (x: Double, y: Double, z: Double) {
    let x = 0.5 * Self.sway(seconds / 7)
    let y = 0.4 * Self.sway(seconds / 5 + 0.3)
    let z = max(0, 1 - x * x - y * y).squareRoot()
    let moved = acceleration(at: seconds)
    return (x + moved.x, y + moved.y, z + moved.z)
  }

  /// A wave of amplitude 1 and period 1: one parabola per half, approximately a sine.
  private static func sway(_ turns: Double) -> Double {
    let phase = turns - turns.rounded(.down)
    let half = phase < 0.5 ? phase * 2 : phase * 2 - 1
    let arch = 4 * half * (1 - half)
    return phase < 0.5 ? arch : -arch
  }

  /// Acceleration without gravity, in g.
  func acceleration(at seconds: Double) -> (x: Double, y: Double, z: Double) {
    let size = sizes.acceleration * strength(seconds)
    guard size > 0 else { return (0, 0, 0) }
    let strides = strides(seconds)
    return (
      size * Self.sum(Self.x, strides), size * Self.sum(Self.y, strides), size * Self.sum(Self.z, strides)
    )
  }

  /// The artefact in the light, relative to a warm finger's pulse.
  func artefact(at seconds: Double) -> Double {
    let size = sizes.light * strength(seconds)
    guard size > 0 else { return 0 }
    let fit = 1 + 0.3 * sineAndCosine(turns: seconds / 17).sine
    let late = 0.06 * sineAndCosine(turns: seconds / 23).sine
    let wave = Self.sum(Self.light, strides(seconds) - late)
    // Compressed tissue yields less.
    return size * fit * (wave - 0.15 * wave * abs(wave))
  }

  /// Maximum of the independent noise: in the light, relative to a warm finger's pulse, and in g.
  func noise(at seconds: Double) -> (light: Double, acceleration: Double) {
    let strength = strength(seconds)
    return (0.15 * sizes.light * strength, 0.1 * sizes.acceleration * strength)
  }

  /// Number of strides since the start.
  private func strides(_ seconds: Double) -> Double {
    strideRate * seconds + 0.05 * sineAndCosine(turns: seconds / 11.3).sine
      + 0.015 * sineAndCosine(turns: seconds / 4.7).sine
  }

  /// Strength of the motion: 0 at rest, around 1 in motion.
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

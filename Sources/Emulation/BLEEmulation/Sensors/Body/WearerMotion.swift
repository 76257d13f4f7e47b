import Physiology

/// How a wearer's hand moves, and what that does to the light.
///
/// A stride is two steps; the arm swings once in it, the body rises with each step, and the impact has harmonics. No two strides
/// are alike: their length wanders by some 2 %, their strength by a fifth. The light is moved by the same strides,
/// but not in proportion to any axis: tissue and ring answer each harmonic in their own way, and how the ring sits
/// drifts; so the artefact is correlated with the acceleration and no multiple of it. Both have a rest that tells nothing
/// of the other. Walking, the artefact is twice the pulse (root mean squares), running three times; at four times
/// `PulseTracker` errs by twice as much as on real treadmill runs (those of Zhang, Pi, Liu, TROIKA, IEEE Trans. Biomed.
/// Eng. 62(2), 2015).
struct WearerMotion {
  private typealias Harmonics = InlineArray<4, (size: Double, turns: Double)>

  /// Of the stride: sizes relative to the whole and phases, by axis and in the light.
  private static let x: Harmonics = [(0.60, 0.00), (0.50, 0.30), (0.15, 0.10), (0.20, 0.60)]
  private static let y: Harmonics = [(0.30, 0.40), (0.80, 0.05), (0.10, 0.75), (0.30, 0.20)]
  private static let z: Harmonics = [(0.20, 0.15), (0.40, 0.55), (0.20, 0.90), (0.15, 0.45)]
  private static let light: Harmonics = [(0.45, 0.22), (0.70, 0.48), (0.25, 0.67), (0.20, 0.11)]
  /// A hand starts and stops in this time.
  private static let rampSeconds = 2.0

  /// Of the acceleration: g; of the light: warm pulses.
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

  /// What an accelerometer in the hand feels, in g: it turns slowly, so that the three axes keep to 1 g together, and it moves.
  func force(at seconds: Double) -> (x: Double, y: Double, z: Double) {
    let x = 0.5 * Self.sway(seconds / 7)
    let y = 0.4 * Self.sway(seconds / 5 + 0.3)
    let z = max(0, 1 - x * x - y * y).squareRoot()
    let moved = acceleration(at: seconds)
    return (x + moved.x, y + moved.y, z + moved.z)
  }

  /// −1 … 1 with period 1: a parabola for each half wave, near enough to a sine.
  private static func sway(_ turns: Double) -> Double {
    let phase = turns - turns.rounded(.down)
    let half = phase < 0.5 ? phase * 2 : phase * 2 - 1
    let arch = 4 * half * (1 - half)
    return phase < 0.5 ? arch : -arch
  }

  /// Besides gravity: g.
  func acceleration(at seconds: Double) -> (x: Double, y: Double, z: Double) {
    let size = sizes.acceleration * strength(seconds)
    guard size > 0 else { return (0, 0, 0) }
    let strides = strides(seconds)
    return (
      size * Self.sum(Self.x, strides), size * Self.sum(Self.y, strides), size * Self.sum(Self.z, strides)
    )
  }

  /// In the light: warm pulses.
  func artefact(at seconds: Double) -> Double {
    let size = sizes.light * strength(seconds)
    guard size > 0 else { return 0 }
    let fit = 1 + 0.3 * sineAndCosine(turns: seconds / 17).sine
    let late = 0.06 * sineAndCosine(turns: seconds / 23).sine
    let wave = Self.sum(Self.light, strides(seconds) - late)
    // Pressed harder the tissue gives less.
    return size * fit * (wave - 0.15 * wave * abs(wave))
  }

  /// Of what is neither stride nor pulse, the largest: in the light as a share of a warm pulse, and in g.
  func noise(at seconds: Double) -> (light: Double, acceleration: Double) {
    let strength = strength(seconds)
    return (0.15 * sizes.light * strength, 0.1 * sizes.acceleration * strength)
  }

  /// Strides since the start.
  private func strides(_ seconds: Double) -> Double {
    strideRate * seconds + 0.05 * sineAndCosine(turns: seconds / 11.3).sine
      + 0.015 * sineAndCosine(turns: seconds / 4.7).sine
  }

  /// 0 at rest, around 1 in motion.
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

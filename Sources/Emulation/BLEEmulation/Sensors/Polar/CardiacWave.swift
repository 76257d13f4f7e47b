import Physiology

/// The electrocardiogram of a rhythm: P, Q, R, S and T waves, as a function of time.
///
/// A sum of Gaussians over the phase of the beat, with the angles and widths of McSharry et al. 2003 (see
/// `HeartRhythm`), and a baseline that moves with breathing. The heights are those of a chest lead. Ectopic
/// beats are ventricular: wide and high, with an inverted T wave and no P wave.
struct CardiacWave: Sendable {
  private typealias Wave = (angle: Double, width: Double, height: Double)

  /// Angles and widths in fractions of a beat, heights in microvolts.
  private static let normal: [Wave] = [
    (-70 / 360, 0.25 / (2 * .pi), 120), (-15 / 360, 0.1 / (2 * .pi), -110), (0, 0.1 / (2 * .pi), 1_050),
    (15 / 360, 0.1 / (2 * .pi), -220), (100 / 360, 0.4 / (2 * .pi), 260),
  ]
  private static let ectopic: [Wave] = [
    (0, 0.25 / (2 * .pi), 1_350), (40 / 360, 0.25 / (2 * .pi), -450), (125 / 360, 0.4 / (2 * .pi), -330),
  ]
  private static let baselineMicrovolts = 60.0

  var rhythm: HeartRhythm

  func microvolts(at seconds: Double) -> Int32 {
    let phase = rhythm.phase(at: seconds)
    var sum = Self.baselineMicrovolts * sineAndCosine(turns: HeartRhythm.breathsPerSecond * seconds).sine
    let last = Int(phase.rounded(.down))
    for beat in last - 1...last + 2 {
      let distance = phase - rhythm.place(beat)
      for wave in rhythm.isEctopic(beat) ? Self.ectopic : Self.normal {
        sum += wave.height * Self.bell((distance - wave.angle) / wave.width)
      }
    }
    return Int32(sum.rounded())
  }

  /// exp(−x² / 2), from the series for a sixty-fourth of the exponent, squared six times.
  private static func bell(_ x: Double) -> Double {
    guard abs(x) < 6 else { return 0 }
    let exponent = -x * x / 128
    var term = 1.0
    var sum = 1.0
    for power in 1..<9 {
      term *= exponent / Double(power)
      sum += term
    }
    for _ in 0..<6 { sum *= sum }
    return sum
  }
}

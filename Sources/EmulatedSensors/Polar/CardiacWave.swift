import Physiology

/// The electrocardiogram of a rhythm: P, Q, R, S and T waves, a formula of time alone.
///
/// A sum of Gaussians over the phase of the beat, at the angles and with the widths of McSharry et al. 2003 (see
/// `HeartRhythm`), and a baseline that wanders with breathing. Heights are those of a chest lead.
struct CardiacWave: Sendable {
  /// Angles and widths in turns of a beat, heights in microvolts.
  private static let waves: [(angle: Double, width: Double, height: Double)] = [
    (-70 / 360, 0.25 / (2 * .pi), 120), (-15 / 360, 0.1 / (2 * .pi), -110), (0, 0.1 / (2 * .pi), 1_050),
    (15 / 360, 0.1 / (2 * .pi), -220), (100 / 360, 0.4 / (2 * .pi), 260),
  ]
  private static let baselineMicrovolts = 60.0

  var rhythm: HeartRhythm

  func microvolts(at seconds: Double) -> Int32 {
    let phase = rhythm.phase(at: seconds)
    var sum = Self.baselineMicrovolts * sineAndCosine(turns: HeartRhythm.breathsPerSecond * seconds).sine
    for wave in Self.waves {
      let distance = phase - wave.angle
      let widths = (distance - distance.rounded()) / wave.width
      sum += wave.height * Self.bell(widths)
    }
    return Int32(sum.rounded())
  }

  /// exp(−x² / 2): the series of a sixty-fourth of the exponent, squared six times.
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

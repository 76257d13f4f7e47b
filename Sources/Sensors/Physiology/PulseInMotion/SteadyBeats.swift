/// Whether beats without an accelerometer are a pulse at rest: steps look like beats, too, but come and go.
///
/// At rest nearly each window of ten seconds has beats, at nearly the same rate and as high as before. In people who run
/// some window has them now and then, at the pace of the steps, of every second or third of them, or of the pulse; nothing
/// in one window tells which. So a window counts by those before it, the last minute's. No allocation after the start.
struct SteadyBeats {
  /// Windows of the beat meter that are looked at: a minute.
  static let count = 6
  /// Rates differ by at most this share, and a little more for each window between them.
  static let rateTolerance = 0.2
  static let rateDrift = 0.02
  /// Amplitudes, the larger over the smaller.
  static let largestAmplitudeRatio = 2.2
  /// Of the windows that there are and two more, of which one is steady.
  static let leastShare = 0.6
  /// Faster beats may be steps, slower ones every second or third of them: they need this many alike windows, or all that there
  /// are.
  static let usualRates = 45.0..<100.0
  static let leastUnusual = 4

  private struct Past {
    var rate = 0.0
    var amplitude = 0.0
  }

  /// Window n at n modulo the count.
  private var past = [Past](repeating: Past(), count: count)
  private var taken = 0

  /// Takes the next window of the beat meter.
  ///
  /// - Returns: whether its beats are steady.
  mutating func take(_ window: PulseWindow) -> Bool {
    // A stretch that is cut off says nothing of the others.
    guard window.rejection != .interrupted else { return false }
    past[taken % Self.count] = Past(rate: window.beatsPerMinute ?? 0, amplitude: window.amplitude)
    taken += 1
    guard let rate = window.beatsPerMinute else { return false }
    let seen = min(taken, Self.count)
    var alike = 0
    for age in 0..<seen where isAlike(past[(taken - 1 - age) % Self.count], rate, window.amplitude, age) {
      alike += 1
    }
    guard Self.usualRates.contains(rate) else { return alike >= min(seen, Self.leastUnusual) }
    return Double(alike + 1) >= Self.leastShare * Double(seen + 2)
  }

  private func isAlike(_ other: Past, _ rate: Double, _ amplitude: Double, _ age: Int) -> Bool {
    let tolerance = Self.rateTolerance + Self.rateDrift * Double(age)
    guard other.rate > 0, abs(other.rate - rate) <= tolerance * rate else { return false }
    return max(other.amplitude, amplitude) <= Self.largestAmplitudeRatio * min(other.amplitude, amplitude)
  }
}

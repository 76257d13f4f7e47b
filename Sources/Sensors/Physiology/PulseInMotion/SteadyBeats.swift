/// Decides without an accelerometer whether beats are a pulse at rest. Steps also look like beats, but not in
/// every window.
///
/// At rest, nearly every window of ten seconds has beats, at nearly the same rate and height as before. While
/// a person runs, only some windows have beats, at the rate of the steps, of every second or third step, or
/// of the pulse. A single window does not show which of these it is, so a window is judged by those of the
/// last minute. It allocates only at the start.
struct SteadyBeats {
  /// Number of beat-meter windows that are compared: a minute.
  static let count = 6
  /// Largest difference between rates, as a share; `rateDrift` is added for each window of distance.
  static let rateTolerance = 0.2
  static let rateDrift = 0.02
  /// Largest ratio of two amplitudes.
  static let largestAmplitudeRatio = 2.2
  /// Minimum share of similar windows, after adding two windows to the total and one to the similar ones.
  static let leastShare = 0.6
  /// Faster beats may be steps, and slower ones every second or third step. Beats outside this range need
  /// `leastUnusual` similar windows, or all windows so far.
  static let usualRates = 45.0..<100.0
  static let leastUnusual = 4

  private struct Past {
    var rate = 0.0
    var amplitude = 0.0
  }

  /// The last windows; window n is at n modulo the count.
  private var past = [Past](repeating: Past(), count: count)
  private var taken = 0

  /// Processes the next window of the beat meter.
  ///
  /// - Returns: whether its beats are steady.
  mutating func take(_ window: PulseWindow) -> Bool {
    // An interrupted window gives no information about the others.
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

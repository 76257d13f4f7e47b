/// Sleep state of a minute, estimated from movement.
public enum RestState: String, Hashable, Sendable {
  case asleep, awake
  /// Too few of the surrounding minutes were measured.
  case unknown
}

/// Classifies each minute as asleep or awake from activity counts, with a delay of two minutes. It does not
/// allocate memory.
///
/// Method: Cole, Kripke, Gruen, Mullaney, Gillin, Automatic sleep/wake identification from wrist activity,
/// Sleep 15(5), 461–469, 1992, for one-minute epochs. A minute is "asleep" if 0.001 × (106 a₋₄ + 54 a₋₃ + 58
/// a₋₂ + 76 a₋₁ + 230 a₀ + 74 a₁ + 67 a₂) < 1. Each aᵢ is a hundredth of an epoch's counts, at most 300, as
/// is usual for counts on ActiGraph's scale.
///
/// Limits: the rule detects rest, not sleep; a person who lies still while awake is "asleep". The rule was
/// developed for the wrists of adults and the counts of another device. On a finger, it is not validated and
/// not medical advice.
public struct SleepRule: Sendable {
  /// Minimum number of minutes for a useful estimate.
  public static let minimumMinutes = 10
  private static let before = 4
  private static let after = 2
  private static let weights: InlineArray<7, Double> = [106, 54, 58, 76, 230, 74, 67]
  private static let scale = 0.001
  private static let countShare = 0.01
  private static let largestCount = 300.0

  /// Scaled counts of the last seven minutes, oldest first; negative if not measured.
  private var minutes: InlineArray<7, Double> = .init(repeating: -1)
  private var taken = 0

  public init() {}

  /// Processes the counts of the next minute, or `nil` if it was not measured.
  ///
  /// - Returns: the state of the minute two minutes earlier; `nil` for the first two calls.
  public mutating func take(counts: Double?) -> RestState? {
    for index in 1..<7 { minutes[index - 1] = minutes[index] }
    minutes[6] = counts.map { min($0 * Self.countShare, Self.largestCount) } ?? -1
    taken += 1
    guard taken > Self.after else { return nil }
    // As in the published rule, minutes before the first minute count as minutes without movement. A missing
    // minute makes the result unknown.
    let known = min(taken, 7)
    var sum = 0.0
    for index in 7 - known..<7 {
      guard minutes[index] >= 0 else { return .unknown }
      sum += Self.weights[index] * minutes[index]
    }
    return sum * Self.scale < 1 ? .asleep : .awake
  }
}

/// Sleep state of a minute, estimated from movement.
public enum RestState: String, Hashable, Sendable {
  case asleep, awake
  /// Too few of the surrounding minutes were measured.
  case unknown
}

/// Distinguishes minutes of sleep from minutes awake by activity counts, with a delay of two minutes. It does
/// not allocate.
///
/// Method: Cole, Kripke, Gruen, Mullaney, Gillin, Automatic sleep/wake identification from wrist activity,
/// Sleep 15(5), 461–469, 1992, for epochs of a minute: asleep if 0.001 × (106 a₋₄ + 54 a₋₃ + 58 a₋₂ + 76 a₋₁
/// + 230 a₀ + 74 a₁ + 67 a₂) < 1. The counts are a hundredth of the epoch's counts, and at most 300, as is
/// usual for counts on ActiGraph's scale.
///
/// Limits: the rule detects rest, not sleep; lying still awake is "asleep". It was made for the wrists of
/// adults and the counts of another device. On a finger it is an estimate without validation, and not medical
/// advice.
public struct SleepRule: Sendable {
  /// Minimum number of minutes for a useful estimate.
  public static let minimumMinutes = 10
  private static let before = 4
  private static let after = 2
  private static let weights: InlineArray<7, Double> = [106, 54, 58, 76, 230, 74, 67]
  private static let scale = 0.001
  private static let countShare = 0.01
  private static let largestCount = 300.0

  /// Scaled counts of the last seven minutes, the oldest first; negative if not measured.
  private var minutes: InlineArray<7, Double> = .init(repeating: -1)
  private var taken = 0

  public init() {}

  /// Processes the counts of the next minute, or `nil` if it was not measured.
  ///
  /// - Returns: the state two minutes earlier; `nil` for the first two minutes.
  public mutating func take(counts: Double?) -> RestState? {
    for index in 1..<7 { minutes[index - 1] = minutes[index] }
    minutes[6] = counts.map { min($0 * Self.countShare, Self.largestCount) } ?? -1
    taken += 1
    guard taken > Self.after else { return nil }
    // As in the published use of the rule, no movement is assumed before the first minute. A minute that was
    // not measured is unknown.
    let known = min(taken, 7)
    var sum = 0.0
    for index in 7 - known..<7 {
      guard minutes[index] >= 0 else { return .unknown }
      sum += Self.weights[index] * minutes[index]
    }
    return sum * Self.scale < 1 ? .asleep : .awake
  }
}

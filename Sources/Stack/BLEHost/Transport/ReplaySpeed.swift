/// How fast a log is played.
public enum ReplaySpeed: Hashable, Sendable {
  /// So many times as fast as it was recorded.
  case times(Int)
  /// As fast as the stack takes it.
  case max

  /// `1x`, `10x`, `max`.
  public init?(_ text: some StringProtocol) {
    if text == "max" {
      self = .max
    } else {
      guard text.last == "x", let factor = Int(text.dropLast()), (1...1_000_000).contains(factor) else {
        return nil
      }
      self = .times(factor)
    }
  }
}

extension ReplaySpeed: CustomStringConvertible {
  public var description: String {
    switch self {
    case .times(let factor): "\(factor)x"
    case .max: "max"
    }
  }
}

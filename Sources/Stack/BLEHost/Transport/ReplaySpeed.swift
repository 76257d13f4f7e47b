/// Playback speed of a log.
public enum ReplaySpeed: Hashable, Sendable {
  /// Multiple of the recorded speed.
  case times(Int)
  /// As fast as the stack accepts packets.
  case max

  /// Parses `1x`, `10x`, `max`.
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

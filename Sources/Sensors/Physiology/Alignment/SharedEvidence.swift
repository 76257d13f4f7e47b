/// Movement or heart beats that two sensors on the same body both measured, and the second one's lag.
public struct SharedEvidence: Hashable, Sendable {
  /// Kind of shared signal.
  public enum Kind: String, Hashable, Sendable {
    case movement, beats
  }

  /// Why no lag was found.
  public enum Refusal: Error, Hashable, Sendable, CustomStringConvertible {
    /// One of the sensors has no movement or no beats.
    case nothing(Kind)
    /// The signals are not similar at any lag.
    case unlike(Kind)
    /// The signals are almost as similar at another lag, this many seconds from the best one.
    case ambiguous(Kind, seconds: Double)
    /// The signals are more similar at a lag of this many seconds, which is beyond the search range.
    case beyond(Kind, seconds: Double)
    /// Too few places agree to fit a line.
    case tooFew(Kind)

    public var description: String {
      switch self {
      case .nothing(.movement): "no movement that both recorded"
      case .nothing(.beats): "no heartbeats that both recorded"
      case .unlike(.movement): "their movements do not match"
      case .unlike(.beats): "their beats are not from one heart"
      case .ambiguous(.movement, let seconds):
        "the movement matches as well \(Self.text(seconds)) s apart: shake both, or clap"
      case .ambiguous(.beats, let seconds):
        "the beats match as well \(Self.text(seconds)) s apart: record for longer"
      case .beyond(let kind, let seconds):
        "the \(kind.rawValue) of both match better with clocks \(Self.text(seconds)) s apart: if that is "
          + "possible, raise --search"
      case .tooFew(let kind): "too few places where their \(kind.rawValue) match"
      }
    }

    private static func text(_ seconds: Double) -> String { "\((seconds * 100).rounded() / 100)" }
  }

  public let kind: Kind
  public let line: LagLine
  /// Similarity, 0 … 1: the median correlation of movement, or the share of beats that both have.
  public let likeness: Double
  /// Times of the first and the last place used, in seconds.
  public let range: ClosedRange<Double>

  /// Default search range: maximum offset of the clocks in either direction, in seconds.
  public static let search = 10.0
  /// Factor by which the compared range exceeds the search range. Regular movement seems to match at a wrong
  /// lag if the right one is not tried.
  static let beyond = 3.0
  /// If another lag is better than the best one in more than this share of places, the result is ambiguous.
  static let rivals = 0.2
}

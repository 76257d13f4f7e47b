/// What two sensors have seen of the same body, and how much later the second one has it.
public struct SharedEvidence: Hashable, Sendable {
  /// What they share.
  public enum Kind: String, Hashable, Sendable {
    case movement, beats
  }

  /// Why there is none.
  public enum Refusal: Error, Hashable, Sendable, CustomStringConvertible {
    /// One of them has not moved, or has no beats.
    case nothing(Kind)
    /// They do not look alike at any lag.
    case unlike(Kind)
    /// They look as much alike at another lag: so many seconds from the best one.
    case ambiguous(Kind, seconds: Double)
    /// They look more alike at a lag that is so many seconds long, beyond those that are asked for.
    case beyond(Kind, seconds: Double)
    /// Fewer places agree than a line takes.
    case tooFew(Kind)

    public var description: String {
      switch self {
      case .nothing(.movement): "no movement that both have seen"
      case .nothing(.beats): "no heart beats that both have seen"
      case .unlike(.movement): "their movements are not alike"
      case .unlike(.beats): "their beats are not those of one heart"
      case .ambiguous(.movement, let seconds):
        "the movement is as alike \(Self.text(seconds)) s apart: shake both, or clap"
      case .ambiguous(.beats, let seconds):
        "the beats are as regular \(Self.text(seconds)) s apart: record for longer"
      case .beyond(let kind, let seconds):
        "the \(kind.rawValue) of both fit better with clocks \(Self.text(seconds)) s apart: if that may be, give a larger --search"
      case .tooFew(let kind): "too few places at which their \(kind.rawValue) agree"
      }
    }

    private static func text(_ seconds: Double) -> String { "\((seconds * 100).rounded() / 100)" }
  }

  public let kind: Kind
  public let line: LagLine
  /// How much alike they are: of movement the median correlation, of beats the share that both have; 0 … 1.
  public let likeness: Double
  /// Where that is, in seconds: the first and the last place.
  public let range: ClosedRange<Double>

  /// How far apart the clocks may be, either way, unless told otherwise: seconds.
  public static let search = 10.0
  /// So many times as far they are compared, as a regular movement looks alike at a wrong lag if the right one is not tried.
  static let beyond = 3.0
  /// Of a second lag with the best one, by place: where it is better in more than this share of places, nobody can tell.
  static let rivals = 0.2
}

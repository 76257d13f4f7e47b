/// A bound on what somebody outside can make grow: a queue, a table, a cache, a document.
///
/// A limit is declared where it holds, and nowhere twice. `Tools/tidy` reads the declarations and writes their table into the
/// threat model, so each is one `static let` of literals:
///
/// ```swift
/// static let advertisers = Limit(
///   4_096, "advertisers of a scan", by: .air, whenFull: "the one heard longest ago goes", counted: "`forgotten` of a scan")
/// ```
public struct Limit: Hashable, Sendable {
  /// Who can make it grow.
  public enum Source: Sendable {
    /// Whoever is in range, connected or not.
    case air
    /// A controller, or the kernel in its place.
    case controller
    /// A log, a capture or another file.
    case file
    /// A broker, and whoever publishes there.
    case broker
    /// Another program of this machine.
    case program
  }

  /// How many, or bytes where `what` says so.
  public let count: Int

  /// - Parameters:
  ///   - count: how many there may be.
  ///   - what: what is bounded, in a few words.
  ///   - source: who can make it grow.
  ///   - rule: what happens to what comes beyond it.
  ///   - counter: where a person sees that it happened.
  @inlinable public init(
    _ count: Int, _ what: StaticString, by source: Source, whenFull rule: StaticString,
    counted counter: StaticString
  ) {
    self.count = count
  }
}

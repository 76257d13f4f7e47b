/// Upper limit for data that grows with external input: a queue, a table, a cache, a document.
///
/// Declare each limit once, next to the code that enforces it, as a single `static let` of literals.
/// `Tools/tidy` reads the declarations and writes them as a table into the threat model.
/// ```swift
/// static let advertisers = Limit(
///   4_096, "advertisers of a scan", by: .air, whenFull: "the one heard longest ago is dropped",
///   counted: "`forgotten` of a scan")
/// ```
public struct Limit: Hashable, Sendable {
  /// Origin of the input.
  public enum Source: Sendable {
    /// Any device in range, connected or not.
    case air
    /// A controller, or the kernel if a program uses the kernel's host.
    case controller
    /// A log, a capture or another file.
    case file
    /// A broker, or a client that publishes there.
    case broker
    /// Another program on this machine.
    case program
  }

  /// Maximum number of items, or of bytes if the description counts bytes.
  public let count: Int

  /// Creates a limit.
  ///
  /// - Parameters:
  ///   - count: maximum number of items.
  ///   - what: the limited items, in a few words.
  ///   - source: origin of the input.
  ///   - rule: effect of exceeding the limit.
  ///   - counter: place where a user can see that the limit was exceeded.
  @inlinable public init(
    _ count: Int, _ what: StaticString, by source: Source, whenFull rule: StaticString,
    counted counter: StaticString
  ) {
    self.count = count
  }
}

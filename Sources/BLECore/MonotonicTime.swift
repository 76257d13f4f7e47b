/// A point on a clock that is never stepped, for deadlines: CLOCK_MONOTONIC, or virtual time.
public struct MonotonicTime: Hashable, Comparable, Sendable, BitwiseCopyable {
  public let nanoseconds: Int64

  @inlinable public init(nanoseconds: Int64) { self.nanoseconds = nanoseconds }

  @inlinable public static func < (a: MonotonicTime, b: MonotonicTime) -> Bool {
    a.nanoseconds < b.nanoseconds
  }

  @inlinable public func advanced(by duration: Duration) -> MonotonicTime {
    let parts = duration.components
    return MonotonicTime(
      nanoseconds: nanoseconds + parts.seconds * 1_000_000_000 + parts.attoseconds / 1_000_000_000)
  }

  @inlinable public func duration(to other: MonotonicTime) -> Duration {
    .nanoseconds(other.nanoseconds - nanoseconds)
  }

  /// The earlier of two deadlines; `nil` is none.
  @inlinable public static func earliest(_ a: MonotonicTime?, _ b: MonotonicTime?) -> MonotonicTime? {
    guard let a else { return b }
    guard let b else { return a }
    return min(a, b)
  }
}

/// A time for deadlines, on a clock that is never stepped: CLOCK_MONOTONIC, or virtual time.
public struct MonotonicTime: Hashable, Comparable, Sendable, BitwiseCopyable {
  public let nanoseconds: Int64

  @inlinable public init(nanoseconds: Int64) { self.nanoseconds = nanoseconds }

  @inlinable public static func < (a: MonotonicTime, b: MonotonicTime) -> Bool {
    a.nanoseconds < b.nanoseconds
  }

  /// The time after a duration. Saturates at the first or last representable time, about 292 years away.
  @inlinable public func advanced(by duration: Duration) -> MonotonicTime {
    let parts = duration.components
    let (whole, isTooLong) = parts.seconds.multipliedReportingOverflow(by: 1_000_000_000)
    let span = whole.addingReportingOverflow(parts.attoseconds / 1_000_000_000)
    let sum = nanoseconds.addingReportingOverflow(span.partialValue)
    guard !isTooLong, !span.overflow, !sum.overflow else {
      return MonotonicTime(nanoseconds: parts.seconds < 0 ? .min : .max)
    }
    return MonotonicTime(nanoseconds: sum.partialValue)
  }

  @inlinable public func duration(to other: MonotonicTime) -> Duration {
    .nanoseconds(TimeSpan(from: nanoseconds, to: other.nanoseconds).nanoseconds)
  }

  /// The earlier of two deadlines; `nil` means no deadline.
  @inlinable public static func earliest(_ a: MonotonicTime?, _ b: MonotonicTime?) -> MonotonicTime? {
    guard let a else { return b }
    guard let b else { return a }
    return min(a, b)
  }
}

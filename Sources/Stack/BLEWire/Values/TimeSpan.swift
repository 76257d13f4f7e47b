/// Difference of two times in nanoseconds; negative if the end is earlier than the start.
///
/// Times come from logs, devices and clocks that can be set, so they can have any value. No operation traps:
/// results saturate at the longest span, about 292 years.
public struct TimeSpan: Hashable, Comparable, Sendable, BitwiseCopyable {
  public let nanoseconds: Int64

  public static let zero = TimeSpan(nanoseconds: 0)

  @inlinable public init(nanoseconds: Int64) { self.nanoseconds = nanoseconds }

  /// The span between two times in nanoseconds on the same clock.
  @inlinable public init(from start: Int64, to end: Int64) {
    let (difference, isOver) = end.subtractingReportingOverflow(start)
    nanoseconds = !isOver ? difference : end < start ? .min : .max
  }

  @inlinable public var seconds: Double { Double(nanoseconds) / 1e9 }

  @inlinable public static func < (a: TimeSpan, b: TimeSpan) -> Bool { a.nanoseconds < b.nanoseconds }

  @inlinable public static func + (a: TimeSpan, b: TimeSpan) -> TimeSpan {
    let (sum, isOver) = a.nanoseconds.addingReportingOverflow(b.nanoseconds)
    return TimeSpan(nanoseconds: !isOver ? sum : a.nanoseconds < 0 ? .min : .max)
  }

  @inlinable public static func - (a: TimeSpan, b: TimeSpan) -> TimeSpan {
    TimeSpan(from: b.nanoseconds, to: a.nanoseconds)
  }
}

extension ReceiveTime {
  /// The span from `b` to `a`. Never traps, even if the clocks were stepped.
  @inlinable public static func - (a: ReceiveTime, b: ReceiveTime) -> TimeSpan {
    TimeSpan(from: b.nanoseconds, to: a.nanoseconds)
  }

  /// The time after a span. Saturates at the last representable time.
  @inlinable public static func + (a: ReceiveTime, span: TimeSpan) -> ReceiveTime {
    ReceiveTime(nanoseconds: (TimeSpan(nanoseconds: a.nanoseconds) + span).nanoseconds)
  }
}

extension MonotonicTime {
  /// The span from `b` to `a`.
  @inlinable public static func - (a: MonotonicTime, b: MonotonicTime) -> TimeSpan {
    TimeSpan(from: b.nanoseconds, to: a.nanoseconds)
  }
}

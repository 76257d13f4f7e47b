/// How long from one time to another: nanoseconds, below zero where the other is earlier.
///
/// Times come from logs, devices and clocks that are set, so they may be any number. No operation traps: what does not fit
/// becomes the longest span, some 292 years.
public struct TimeSpan: Hashable, Comparable, Sendable, BitwiseCopyable {
  public let nanoseconds: Int64

  public static let zero = TimeSpan(nanoseconds: 0)

  @inlinable public init(nanoseconds: Int64) { self.nanoseconds = nanoseconds }

  /// From one number of nanoseconds to another on the same clock.
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
  /// How long ago the second time was at the first: never traps, whatever the clocks did.
  @inlinable public static func - (a: ReceiveTime, b: ReceiveTime) -> TimeSpan {
    TimeSpan(from: b.nanoseconds, to: a.nanoseconds)
  }

  /// The time so much later, or the last one that there is.
  @inlinable public static func + (a: ReceiveTime, span: TimeSpan) -> ReceiveTime {
    ReceiveTime(nanoseconds: (TimeSpan(nanoseconds: a.nanoseconds) + span).nanoseconds)
  }
}

extension MonotonicTime {
  /// How long ago the second time was at the first.
  @inlinable public static func - (a: MonotonicTime, b: MonotonicTime) -> TimeSpan {
    TimeSpan(from: b.nanoseconds, to: a.nanoseconds)
  }
}

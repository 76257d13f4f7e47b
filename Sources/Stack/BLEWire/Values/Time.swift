/// The time at which the kernel received a packet from the driver: nanoseconds since the Unix epoch,
/// CLOCK_REALTIME.
///
/// Later than the transmission: USB adds up to one poll interval, a UART its transfer time (reference
/// `linux-bluetooth-kernel.md`, 10).
public struct ReceiveTime: Hashable, Comparable, Sendable, BitwiseCopyable {
  public let nanoseconds: Int64

  @inlinable public init(nanoseconds: Int64) { self.nanoseconds = nanoseconds }

  @inlinable public static func < (a: ReceiveTime, b: ReceiveTime) -> Bool {
    a.nanoseconds < b.nanoseconds
  }
}

/// A time for deadlines, on a clock that is never stepped: CLOCK_MONOTONIC, or virtual time.
public struct MonotonicTime: Hashable, Comparable, Sendable, BitwiseCopyable {
  public let nanoseconds: Int64

  @inlinable public init(nanoseconds: Int64) { self.nanoseconds = nanoseconds }

  @inlinable public static func < (a: MonotonicTime, b: MonotonicTime) -> Bool {
    a.nanoseconds < b.nanoseconds
  }

  /// Returns the time after a duration. Saturates at the first or last representable time, about 292 years
  /// away.
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

  /// Returns the earlier of two deadlines. `nil` means no deadline.
  @inlinable public static func earliest(_ a: MonotonicTime?, _ b: MonotonicTime?) -> MonotonicTime? {
    guard let a else { return b }
    guard let b else { return a }
    return min(a, b)
  }
}

/// Difference of two times in nanoseconds; negative if the end is earlier than the start.
///
/// Times come from logs, devices and clocks that can be set, so they can have any value. No operation traps:
/// results saturate at the longest span, about 292 years.
public struct TimeSpan: Hashable, Comparable, Sendable, BitwiseCopyable {
  public let nanoseconds: Int64

  public static let zero = TimeSpan(nanoseconds: 0)

  @inlinable public init(nanoseconds: Int64) { self.nanoseconds = nanoseconds }

  /// Creates the span between two times on the same clock, in nanoseconds.
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
  /// Returns the span from `b` to `a`. Never traps, even if the clocks were stepped.
  @inlinable public static func - (a: ReceiveTime, b: ReceiveTime) -> TimeSpan {
    TimeSpan(from: b.nanoseconds, to: a.nanoseconds)
  }

  /// Returns the time after a span. Saturates at the last representable time.
  @inlinable public static func + (a: ReceiveTime, span: TimeSpan) -> ReceiveTime {
    ReceiveTime(nanoseconds: (TimeSpan(nanoseconds: a.nanoseconds) + span).nanoseconds)
  }
}

extension MonotonicTime {
  /// Returns the span from `b` to `a`.
  @inlinable public static func - (a: MonotonicTime, b: MonotonicTime) -> TimeSpan {
    TimeSpan(from: b.nanoseconds, to: a.nanoseconds)
  }
}

#if !NO_ALLOCATIONS
  /// A time as text: date and time of day in UTC.
  package struct UTCText {
    private let days: Int64
    private let nanosecondsOfDay: Int64

    package init(_ nanoseconds: Int64) {
      let day: Int64 = 86_400_000_000_000
      let (quotient, remainder) = nanoseconds.quotientAndRemainder(dividingBy: day)
      days = remainder < 0 ? quotient - 1 : quotient
      nanosecondsOfDay = remainder < 0 ? remainder + day : remainder
    }

    /// `HH:MM:SS.ffffff DD/MM/YYYY`, as in the header of a WFDB record. WFDB Applications Guide, header(5).
    package var wfdb: String {
      let date = date
      return "\(clock(digits: 6)) \(digits(date.day, 2))/\(digits(date.month, 2))/\(digits(date.year, 4))"
    }

    /// `YYYY-MM-DDTHH:MM:SS.ffffffZ`. RFC 3339.
    package var rfc3339: String { "\(day)T\(clock(digits: 6))Z" }

    /// `YYYY-MM-DD HH:MM:SS.fff UTC`.
    package var iso: String { "\(day) \(clock(digits: 3)) UTC" }

    private var day: String {
      let date = date
      return "\(digits(date.year, 4))-\(digits(date.month, 2))-\(digits(date.day, 2))"
    }

    /// Returns the time of day. The fraction has `count` digits and is truncated.
    private func clock(digits count: Int) -> String {
      let seconds = nanosecondsOfDay / 1_000_000_000
      let fraction = digits(nanosecondsOfDay % 1_000_000_000, 9).prefix(count)
      return
        "\(digits(seconds / 3600, 2)):\(digits(seconds / 60 % 60, 2)):\(digits(seconds % 60, 2)).\(fraction)"
    }

    /// The Gregorian date, computed with years of 365.2425 days that begin in March, so that the leap day is
    /// the last day.
    private var date: (year: Int64, month: Int64, day: Int64) {
      let shifted = days + 719_468
      let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
      let dayOfEra = shifted - era * 146_097
      let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
      let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
      let monthFromMarch = (5 * dayOfYear + 2) / 153
      let month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
      let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
      return (year, month, dayOfYear - (153 * monthFromMarch + 2) / 5 + 1)
    }

    private func digits(_ number: Int64, _ count: Int) -> String {
      let text = String(number)
      return String(repeating: "0", count: max(0, count - text.count)) + text
    }
  }
#endif

public import BLEWire
public import ColmiRing

/// Converts between times on the ring's clock, which has no time zone, and instants.
public struct RingCalendar: Sendable {
  /// Returns the offset of the ring's clock from UTC in seconds, for an instant in seconds since 1970.
  private let offset: @Sendable (Int64) -> Int32

  /// Creates the calendar of a ring that keeps local time.
  ///
  /// - Parameter offset: returns the offset from UTC in seconds at a time in seconds since 1970. A ring does
  ///   not switch to daylight saving time by itself, so each day of a log is read with its own offset.
  public init(offset: @escaping @Sendable (Int64) -> Int32) { self.offset = offset }

  public static let utc = RingCalendar { _ in 0 }

  /// Returns the time that the ring's clock should show at an instant.
  ///
  /// - Throws: `dateOutOfRange` outside of 2000 … 2099.
  public func clock(at time: ReceiveTime) throws(RingValueError) -> RingDateTime {
    let seconds = time.nanoseconds / 1_000_000_000
    return try RingDateTime(
      secondsSince1970: seconds, convention: .local(utcOffsetSeconds: offset(seconds)))
  }

  /// Returns the offset from UTC at an instant, in seconds.
  public func utcOffset(at time: ReceiveTime) -> Int { Int(offset(time.nanoseconds / 1_000_000_000)) }

  /// Returns the instant at which the ring's clock showed this time.
  ///
  /// - Parameters:
  ///   - date: day on the ring's clock.
  ///   - minute: minutes after midnight; negative for the previous evening.
  func time(_ date: RingDate, minute: Int) -> ReceiveTime {
    let shown = Int64(date.timestamp) + Int64(minute) * 60
    let guess = shown - Int64(offset(shown))
    return ReceiveTime(nanoseconds: (shown - Int64(offset(guess))) * 1_000_000_000)
  }
}

extension RingDate {
  /// Returns the date a number of days earlier.
  ///
  /// - Parameter days: number of days; the result must not be before 2000.
  package func before(days: Int) -> RingDate {
    let date = CivilDate(
      daysSince1970: CivilDate(year: Int(year), month: Int(month), day: Int(day)).daysSince1970 - days)
    return (try? RingDate(year: date.year, month: date.month, day: date.day)) ?? self
  }

  /// Returns the number of days from this date to `other`; negative if `other` is earlier.
  package func days(before other: RingDate) -> Int {
    (Int(other.timestamp) - Int(timestamp)) / 86_400
  }
}

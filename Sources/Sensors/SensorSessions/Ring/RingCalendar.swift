public import BLEWire
public import ColmiRing

/// Turns the ring's clock, which knows no zone, into instants, and back.
public struct RingCalendar: Sendable {
  /// What is added to UTC at an instant (seconds since 1970) to get what the ring's clock shows, in seconds.
  private let offset: @Sendable (Int64) -> Int32

  /// For a ring that keeps local time. It does not follow daylight saving by itself: logs from before a change are
  /// read by the offset of their own day.
  public init(offset: @escaping @Sendable (Int64) -> Int32) { self.offset = offset }

  public static let utc = RingCalendar { _ in 0 }

  /// What the ring's clock should show at an instant.
  ///
  /// - Throws: `dateOutOfRange` outside of 2000 … 2099.
  public func clock(at time: ReceiveTime) throws(RingValueError) -> RingDateTime {
    let seconds = time.nanoseconds / 1_000_000_000
    return try RingDateTime(
      secondsSince1970: seconds, convention: .local(utcOffsetSeconds: offset(seconds)))
  }

  /// In seconds, at an instant.
  public func utcOffset(at time: ReceiveTime) -> Int { Int(offset(time.nanoseconds / 1_000_000_000)) }

  /// When the ring's clock showed so many minutes after the midnight of a day.
  ///
  /// - Parameter minute: may be negative, for the evening before.
  func time(_ date: RingDate, minute: Int) -> ReceiveTime {
    let shown = Int64(date.timestamp) + Int64(minute) * 60
    let guess = shown - Int64(offset(shown))
    return ReceiveTime(nanoseconds: (shown - Int64(offset(guess))) * 1_000_000_000)
  }
}

extension RingDate {
  /// - Parameter days: not so many that 2000 is passed.
  package func before(days: Int) -> RingDate {
    let date = CivilDate(
      daysSince1970: CivilDate(year: Int(year), month: Int(month), day: Int(day)).daysSince1970 - days)
    return (try? RingDate(year: date.year, month: date.month, day: date.day)) ?? self
  }

  /// How many days this lies before `other`; negative where it lies after it.
  package func days(before other: RingDate) -> Int {
    (Int(other.timestamp) - Int(timestamp)) / 86_400
  }
}

/// Calendar date on the ring's clock, which has no time zone. The years are 2000 to 2099.
@frozen public struct RingDate: Hashable, Comparable, Sendable, BitwiseCopyable {
  public let year: UInt16
  /// 1 to 12.
  public let month: UInt8
  /// 1 to 31.
  public let day: UInt8

  /// Creates a date.
  ///
  /// - Throws: `dateOutOfRange` for a date that does not exist or is outside 2000 to 2099.
  public init(year: Int, month: Int, day: Int) throws(RingValueError) {
    guard 2000...2099 ~= year, 1...12 ~= month, day >= 1,
      day <= CivilDate.dayCount(year: year, month: month)
    else { throw .dateOutOfRange }
    self.year = UInt16(year)
    self.month = UInt8(month)
    self.day = UInt8(day)
  }

  /// Midnight at the start of this day, in seconds since 1970, with the ring's clock interpreted as UTC.
  ///
  /// A request for a day's heart-rate log contains this value.
  public var timestamp: UInt32 {
    UInt32(CivilDate(year: Int(year), month: Int(month), day: Int(day)).daysSince1970 * 86_400)
  }

  public static func < (left: RingDate, right: RingDate) -> Bool {
    (left.year, left.month, left.day) < (right.year, right.month, right.day)
  }
}

/// Date of a log record. Rings whose clock was never set, or whose battery is low, send invalid dates.
public enum RingLogDate: Hashable, Sendable, BitwiseCopyable {
  case valid(RingDate)
  /// Invalid date, as received: year − 2000, month, day. Valid dates have binary-coded decimals.
  case impossible(year: UInt8, month: UInt8, day: UInt8)

  /// Decodes a date from binary-coded decimals.
  ///
  /// - Parameters: `year` counts from 2000.
  public init(year: UInt8, month: UInt8, day: UInt8) {
    guard let years = year.binaryCodedDecimal, let months = month.binaryCodedDecimal,
      let days = day.binaryCodedDecimal,
      let date = try? RingDate(year: 2000 + years, month: months, day: days)
    else {
      self = .impossible(year: year, month: month, day: day)
      return
    }
    self = .valid(date)
  }
}

/// Date and time of day on the ring's clock, which has no time zone.
public struct RingDateTime: Hashable, Comparable, Sendable, BitwiseCopyable {
  public let date: RingDate
  /// 0 to 23.
  public let hour: UInt8
  /// 0 to 59.
  public let minute: UInt8
  /// 0 to 59.
  public let second: UInt8

  /// Creates a date and time.
  ///
  /// - Throws: `timeOutOfRange`.
  public init(date: RingDate, hour: Int = 0, minute: Int = 0, second: Int = 0) throws(RingValueError) {
    guard 0...23 ~= hour, 0...59 ~= minute, 0...59 ~= second else { throw .timeOutOfRange }
    self.date = date
    self.hour = UInt8(hour)
    self.minute = UInt8(minute)
    self.second = UInt8(second)
  }

  /// Creates the time that a clock shows at an instant.
  ///
  /// - Parameters:
  ///   - secondsSince1970: the instant, in UTC.
  ///   - convention: convention by which the clock was set.
  /// - Throws: `dateOutOfRange` outside 2000 to 2099.
  public init(secondsSince1970: Int64, convention: RingClockConvention) throws(RingValueError) {
    // An overflow is also out of range.
    let (seconds, overflow) = secondsSince1970.addingReportingOverflow(Int64(convention.utcOffsetSeconds))
    guard !overflow, 0...Int64(UInt32.max) ~= seconds else { throw .dateOutOfRange }
    let day = CivilDate(daysSince1970: Int(seconds / 86_400))
    let rest = Int(seconds % 86_400)
    try self.init(
      date: RingDate(year: day.year, month: day.month, day: day.day), hour: rest / 3600,
      minute: rest / 60 % 60, second: rest % 60)
  }

  /// Time in seconds since 1970, with the ring's clock interpreted as UTC. The ring stores times in this
  /// form.
  public var timestamp: UInt32 {
    date.timestamp + UInt32(hour) * 3600 + UInt32(minute) * 60 + UInt32(second)
  }

  public static func < (left: RingDateTime, right: RingDateTime) -> Bool { left.timestamp < right.timestamp }
}

/// Convention by which a ring's clock was set. The ring uses the received time for all logs, so logs follow
/// the convention of the last program that set the clock. If unsure, choose `local`, as the vendor's app and
/// Gadgetbridge do.
public enum RingClockConvention: Hashable, Sendable, BitwiseCopyable {
  /// Wall-clock time. The offset is added to UTC and includes daylight saving time.
  case local(utcOffsetSeconds: Int32)
  case utc

  public var utcOffsetSeconds: Int32 {
    switch self {
    case .local(let seconds): seconds
    case .utc: 0
    }
  }
}

/// Detects shifted timestamps in a ring's logs. Timestamps are shifted after a program with another
/// convention has set the clock.
///
/// The best evidence is an entry that was just stored, such as a heart rate measured on demand. Without such
/// an entry, only entries from the future are evidence: if the newest entry is old, the ring may simply not
/// have been worn. Do not use today's heart-rate log as evidence: its slots after the current time may be
/// stale.
public struct RingClockCheck: Hashable, Sendable, BitwiseCopyable {
  public enum Evidence: Hashable, Sendable, BitwiseCopyable {
    /// The entry was stored within the last slot.
    case justStored
    /// The entry is the ring's newest entry.
    case newest
  }

  public enum Finding: Hashable, Sendable, BitwiseCopyable {
    case inStep
    /// The clock is shifted by the offset between local time and UTC, because it was set by the other
    /// convention. The value is in minutes, positive if the ring's clock is ahead.
    case otherConvention(minutes: Int)
    /// The clock is shifted by another amount, in minutes. Positive if the ring's clock is ahead.
    case shifted(minutes: Int)
    case undecided
  }

  /// Maximum difference between two clocks that count as equal, in addition to the length of a slot.
  public static let toleranceMinutes = 2

  /// Time that the ring's clock should show now.
  public let now: RingDateTime
  /// Offset of local time from UTC in minutes; may be 0.
  public let utcOffsetMinutes: Int
  /// Length of the log's slots in minutes. An entry has the start time of its slot.
  public let slotMinutes: Int

  public init(now: RingDateTime, utcOffsetMinutes: Int, slotMinutes: Int) {
    self.now = now
    self.utcOffsetMinutes = utcOffsetMinutes
    self.slotMinutes = slotMinutes
  }

  /// Judges the clock from a log entry.
  ///
  /// - Parameters:
  ///   - entry: start of the entry's slot on the ring's clock.
  ///   - evidence: the reason why the entry counts as recent.
  public func judge(_ entry: RingDateTime, _ evidence: Evidence) -> Finding {
    let minutes = (Int(entry.timestamp) - Int(now.timestamp)) / 60
    if isInStep(minutes) { return .inStep }
    guard minutes > 0 || evidence == .justStored else { return .undecided }
    for offset in [utcOffsetMinutes, -utcOffsetMinutes] where offset != 0 {
      if isInStep(minutes - offset) { return .otherConvention(minutes: offset) }
    }
    return .shifted(minutes: minutes)
  }

  private func isInStep(_ minutes: Int) -> Bool {
    minutes <= Self.toleranceMinutes && minutes >= -slotMinutes - Self.toleranceMinutes
  }
}

/// Date in the proleptic Gregorian calendar.
package struct CivilDate: Hashable, Sendable, BitwiseCopyable {
  package var year: Int
  package var month: Int
  package var day: Int

  package init(year: Int, month: Int, day: Int) {
    self.year = year
    self.month = month
    self.day = day
  }

  /// Creates a date.
  ///
  /// - Parameter days: number of days since 1970-01-01; must not be negative.
  package init(daysSince1970 days: Int) {
    var year = 1970 + days / 366
    while Self.days(before: year + 1) <= days { year += 1 }
    var rest = days - Self.days(before: year)
    var month = 1
    while rest >= Self.dayCount(year: year, month: month) {
      rest -= Self.dayCount(year: year, month: month)
      month += 1
    }
    self.init(year: year, month: month, day: rest + 1)
  }

  package var daysSince1970: Int {
    var days = Self.days(before: year) + day - 1
    for earlier in 1..<month { days += Self.dayCount(year: year, month: earlier) }
    return days
  }

  package static func dayCount(year: Int, month: Int) -> Int {
    switch month {
    case 2: isLeap(year) ? 29 : 28
    case 4, 6, 9, 11: 30
    default: 31
    }
  }

  private static func isLeap(_ year: Int) -> Bool {
    year.isMultiple(of: 4) && (!year.isMultiple(of: 100) || year.isMultiple(of: 400))
  }

  /// Returns the number of days from 1970-01-01 to January 1 of the year.
  private static func days(before year: Int) -> Int {
    let years = year - 1
    // 719,162 days lie between January 1 of the years 1 and 1970.
    return years * 365 + years / 4 - years / 100 + years / 400 - 719_162
  }
}

extension UInt8 {
  /// Decoded value of a byte with two binary-coded decimal digits; `nil` if a nibble is not a digit.
  var binaryCodedDecimal: Int? {
    let (tens, units) = (self >> 4, self & 0x0F)
    return tens <= 9 && units <= 9 ? Int(tens * 10 + units) : nil
  }

  /// Encodes a number as two binary-coded decimal digits.
  ///
  /// - Parameter number: 0 to 99.
  init(binaryCodedDecimal number: some BinaryInteger) {
    self = UInt8(number / 10) << 4 | UInt8(number % 10)
  }
}

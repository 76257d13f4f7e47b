/// A day of the calendar as the ring's clock counts it; the ring knows no time zone. 2000 … 2099.
@frozen public struct RingDate: Hashable, Comparable, Sendable, BitwiseCopyable {
  public let year: UInt16
  /// 1 … 12.
  public let month: UInt8
  /// 1 … 31.
  public let day: UInt8

  /// - Throws: `dateOutOfRange` for a day that no calendar has, and outside of 2000 … 2099.
  public init(year: Int, month: Int, day: Int) throws(RingValueError) {
    guard 2000...2099 ~= year, 1...12 ~= month, day >= 1,
      day <= CivilDate.dayCount(year: year, month: month)
    else { throw .dateOutOfRange }
    self.year = UInt16(year)
    self.month = UInt8(month)
    self.day = UInt8(day)
  }

  /// Midnight at which this day begins, the ring's clock read as UTC; seconds since 1970.
  ///
  /// This is what a request for a day's heart-rate log carries.
  public var timestamp: UInt32 {
    UInt32(CivilDate(year: Int(year), month: Int(month), day: Int(day)).daysSince1970 * 86_400)
  }

  public static func < (left: RingDate, right: RingDate) -> Bool {
    (left.year, left.month, left.day) < (right.year, right.month, right.day)
  }
}

/// A date of a log's record: rings with a clock that was never set, or a dying battery, send impossible ones.
public enum RingLogDate: Hashable, Sendable, BitwiseCopyable {
  case valid(RingDate)
  /// The octets as sent, which should be binary-coded decimals: year − 2000, month, day.
  case impossible(year: UInt8, month: UInt8, day: UInt8)

  /// - Parameters: binary-coded decimals; `year` counts from 2000.
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

/// What the ring's clock shows: a date and a time of day without a zone.
public struct RingDateTime: Hashable, Comparable, Sendable, BitwiseCopyable {
  public let date: RingDate
  /// 0 … 23.
  public let hour: UInt8
  /// 0 … 59.
  public let minute: UInt8
  /// 0 … 59.
  public let second: UInt8

  /// - Throws: `timeOutOfRange`.
  public init(date: RingDate, hour: Int = 0, minute: Int = 0, second: Int = 0) throws(RingValueError) {
    guard 0...23 ~= hour, 0...59 ~= minute, 0...59 ~= second else { throw .timeOutOfRange }
    self.date = date
    self.hour = UInt8(hour)
    self.minute = UInt8(minute)
    self.second = UInt8(second)
  }

  /// What a clock that keeps `convention` shows at an instant.
  ///
  /// - Parameters:
  ///   - secondsSince1970: the instant, in UTC.
  ///   - convention: what the clock is set to.
  /// - Throws: `dateOutOfRange` outside of 2000 … 2099.
  public init(secondsSince1970: Int64, convention: RingClockConvention) throws(RingValueError) {
    // A sum that overflows is outside of the range as well.
    let (seconds, overflow) = secondsSince1970.addingReportingOverflow(Int64(convention.utcOffsetSeconds))
    guard !overflow, 0...Int64(UInt32.max) ~= seconds else { throw .dateOutOfRange }
    let day = CivilDate(daysSince1970: Int(seconds / 86_400))
    let rest = Int(seconds % 86_400)
    try self.init(
      date: RingDate(year: day.year, month: day.month, day: day.day), hour: rest / 3600,
      minute: rest / 60 % 60, second: rest % 60)
  }

  /// This clock time read as UTC, in seconds since 1970: the ring's own way of counting.
  public var timestamp: UInt32 {
    date.timestamp + UInt32(hour) * 3600 + UInt32(minute) * 60 + UInt32(second)
  }

  public static func < (left: RingDateTime, right: RingDateTime) -> Bool { left.timestamp < right.timestamp }
}

/// What a ring's clock is set to. The ring stores what it is given and counts all logs by it, so logs are in
/// whichever convention the last writer used. If unsure choose `local`, as the maker's app and Gadgetbridge
/// do.
public enum RingClockConvention: Hashable, Sendable, BitwiseCopyable {
  /// Wall-clock time. The offset is what is added to UTC, daylight saving included.
  case local(utcOffsetSeconds: Int32)
  case utc

  public var utcOffsetSeconds: Int32 {
    switch self {
    case .local(let seconds): seconds
    case .utc: 0
    }
  }
}

/// Tells when a ring's logs look shifted, as they do after a program that keeps another convention set its
/// clock.
///
/// The best evidence is an entry that was stored a moment ago, such as a heart rate measured on demand.
/// Without one, only entries from the future tell: an old newest entry may mean no more than that nobody wore
/// the ring. Do not take today's heart-rate log as evidence: its slots after now may be stale.
public struct RingClockCheck: Hashable, Sendable, BitwiseCopyable {
  public enum Evidence: Hashable, Sendable, BitwiseCopyable {
    /// The entry was stored within the last slot.
    case justStored
    /// The newest entry that the ring has.
    case newest
  }

  public enum Finding: Hashable, Sendable, BitwiseCopyable {
    case inStep
    /// By the offset between local time and UTC, in minutes: the other convention. Positive where the ring's
    /// clock is ahead of the expected one.
    case otherConvention(minutes: Int)
    /// By something else, in minutes; likewise positive where the ring is ahead.
    case shifted(minutes: Int)
    case undecided
  }

  /// What two clocks that agree may differ by, beyond the length of a slot.
  public static let toleranceMinutes = 2

  /// What the ring's clock should show now.
  public let now: RingDateTime
  /// Between local time and UTC; 0 where both are the same.
  public let utcOffsetMinutes: Int
  /// Length of the log's slots: an entry stands at the start of its slot.
  public let slotMinutes: Int

  public init(now: RingDateTime, utcOffsetMinutes: Int, slotMinutes: Int) {
    self.now = now
    self.utcOffsetMinutes = utcOffsetMinutes
    self.slotMinutes = slotMinutes
  }

  /// - Parameters:
  ///   - entry: the start of its slot by the ring's clock.
  ///   - evidence: why the entry is taken for a recent one.
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

/// The proleptic Gregorian calendar, by arithmetic on the 400 years after which it repeats.
package struct CivilDate: Hashable, Sendable, BitwiseCopyable {
  package var year: Int
  package var month: Int
  package var day: Int

  package init(year: Int, month: Int, day: Int) {
    self.year = year
    self.month = month
    self.day = day
  }

  /// - Parameter days: not negative.
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

  /// Days from 1970 to the first of January.
  private static func days(before year: Int) -> Int {
    let years = year - 1
    // 719,162 days lie between the years 1 and 1970.
    return years * 365 + years / 4 - years / 100 + years / 400 - 719_162
  }
}

extension UInt8 {
  /// The number whose two decimal digits are the two nibbles; `nil` where a nibble is no digit.
  var binaryCodedDecimal: Int? {
    let (tens, units) = (self >> 4, self & 0x0F)
    return tens <= 9 && units <= 9 ? Int(tens * 10 + units) : nil
  }

  /// - Parameter number: 0 … 99.
  init(binaryCodedDecimal number: some BinaryInteger) {
    self = UInt8(number / 10) << 4 | UInt8(number % 10)
  }
}

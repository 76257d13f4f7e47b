import ColmiRing
import Foundation
import Testing

@Suite struct RingClockTests {
  /// Compared with Foundation's calendar: each day of the ring's hundred years, at varying times of day.
  @Test func agreesWithFoundation() throws {
    var calendar = Calendar(identifier: .gregorian)
    calendar.timeZone = try #require(TimeZone(secondsFromGMT: 0))
    // Collected first, because an expectation is slower than the check itself.
    var wrong: [Int] = []
    for day in 0..<36_525 {
      let seconds = 946_684_800 + day * 86_400 + day * 7919 % 86_400
      let parts = calendar.dateComponents(
        [.year, .month, .day, .hour, .minute, .second], from: Date(timeIntervalSince1970: Double(seconds)))
      let time = try RingDateTime(secondsSince1970: Int64(seconds), convention: .utc)
      let day = [Int(time.date.year), Int(time.date.month), Int(time.date.day)]
      let hour = [Int(time.hour), Int(time.minute), Int(time.second)]
      if day != [parts.year, parts.month, parts.day] || hour != [parts.hour, parts.minute, parts.second]
        || Int(time.timestamp) != seconds
      {
        wrong.append(seconds)
      }
    }
    #expect(wrong.isEmpty)
  }

  /// The capture's request at 22:54:17 by the ring's clock, an hour ahead of UTC.
  @Test func keepsLocalTimeAndUTC() throws {
    let utc: Int64 = 1_765_493_657 - 3600
    let local = try RingDateTime(secondsSince1970: utc, convention: .local(utcOffsetSeconds: 3600))
    #expect(local.timestamp == 1_765_493_657)
    #expect([local.hour, local.minute, local.second] == [22, 54, 17])
    let behind = try RingDateTime(secondsSince1970: utc, convention: .local(utcOffsetSeconds: -5 * 3600))
    #expect([behind.hour, behind.date.day] == [16, 11])
    let zone = try RingDateTime(secondsSince1970: utc, convention: .utc)
    #expect(zone.hour == 21)
    #expect(zone < local)
    #expect(local.date.timestamp == 1_765_411_200)
  }

  @Test func refusesTimesBeyondTheRing() {
    for seconds in [-1, 946_684_799, 4_102_444_800, Int64.max, .min] {
      #expect(throws: RingValueError.dateOutOfRange) {
        try RingDateTime(secondsSince1970: seconds, convention: .utc)
      }
    }
    #expect(throws: RingValueError.dateOutOfRange) {
      try RingDateTime(secondsSince1970: .max, convention: .local(utcOffsetSeconds: 1))
    }
    for (year, month, day) in [
      (1999, 12, 31), (2100, 1, 1), (2025, 0, 1), (2025, 13, 1), (2025, 2, 29), (2024, 2, 30), (2025, 4, 31),
      (2025, 1, 0),
    ] {
      #expect(throws: RingValueError.dateOutOfRange) { try RingDate(year: year, month: month, day: day) }
    }
    for (hour, minute, second) in [(24, 0, 0), (-1, 0, 0), (0, 60, 0), (0, 0, 60)] {
      #expect(throws: RingValueError.timeOutOfRange) {
        try RingDateTime(
          date: RingDate(year: 2025, month: 1, day: 1), hour: hour, minute: minute, second: second)
      }
    }
  }

  /// At 12:00 by a clock that is two hours ahead of UTC, with half-hour slots.
  @Test(
    arguments: [
      (12, 0, .justStored, .inStep), (11, 30, .justStored, .inStep), (12, 2, .newest, .inStep),
      (10, 0, .justStored, .otherConvention(minutes: -120)),
      (9, 35, .justStored, .otherConvention(minutes: -120)),
      (14, 0, .newest, .otherConvention(minutes: 120)), (13, 30, .newest, .otherConvention(minutes: 120)),
      (9, 0, .newest, .undecided), (10, 0, .newest, .undecided), (8, 0, .justStored, .shifted(minutes: -240)),
      (17, 0, .newest, .shifted(minutes: 300)),
    ] as [(Int, Int, RingClockCheck.Evidence, RingClockCheck.Finding)])
  func tellsShiftedLogs(
    hour: Int, minute: Int, evidence: RingClockCheck.Evidence, expected: RingClockCheck.Finding
  ) throws {
    let day = try RingDate(year: 2025, month: 12, day: 11)
    let check = RingClockCheck(
      now: try RingDateTime(date: day, hour: 12), utcOffsetMinutes: 120, slotMinutes: 30)
    #expect(check.judge(try RingDateTime(date: day, hour: hour, minute: minute), evidence) == expected)
  }

  /// Across midnight; and if local time is UTC, there is no other convention.
  @Test func tellsShiftsAcrossMidnight() throws {
    let now = try RingDateTime(date: RingDate(year: 2026, month: 1, day: 1), hour: 0, minute: 30)
    let entry = try RingDateTime(date: RingDate(year: 2025, month: 12, day: 31), hour: 23, minute: 30)
    let check = RingClockCheck(now: now, utcOffsetMinutes: 60, slotMinutes: 5)
    #expect(check.judge(entry, .justStored) == .otherConvention(minutes: -60))
    let zero = RingClockCheck(now: now, utcOffsetMinutes: 0, slotMinutes: 5)
    #expect(zero.judge(entry, .justStored) == .shifted(minutes: -60))
  }
}

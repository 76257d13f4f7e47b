import BLEEmulation
import BLEHost
import BLELinux
import BLEWire
import ColmiRing
import Foundation
import TestKit
import Testing

import SensorSessions

/// A ring's history in tables.
@Suite(.timeLimit(.minutes(2))) struct RingSyncTests {
  private static func sync(
    _ ring: RingConversation, _ folder: String, since: RingDate? = nil
  ) async throws -> [RingSync.Outcome] {
    let now = try RingCalendar.utc.clock(at: ring.connection.loop.clock.now())
    return try await RingSync(ring, calendar: .utc, now: now, since: since, directory: folder).run { _ in }
  }

  private static func rows(_ folder: String, _ name: String) throws -> [[String]] {
    try String(contentsOfFile: "\(folder)/\(name).csv", encoding: .utf8).split(separator: "\n")
      .dropFirst().map { $0.split(separator: ",").map(String.init) }
  }

  /// Nanoseconds of a time in December 2025.
  private static func time(day: Int, minute: Int) -> String {
    // 2025-12-01T00:00:00Z.
    String((1_764_547_200 + (day - 1) * 86_400 + minute * 60) * 1_000_000_000)
  }

  @Test func fetchesAllOfAWeek() async throws {
    try await withFolder { folder in
      let outcomes = try await withStoredRing { try await Self.sync($0, folder) }
      #expect(outcomes.allSatisfy { $0.note == nil && $0.added == $0.rows && $0.rows > 0 })
      #expect(outcomes.map(\.kind) == RingHistoryKind.allCases)
      let history = RingHistory()
      var expected: [[String]] = []
      for day in 5...11 {
        let date = try RingDate(year: 2025, month: 12, day: day)
        let samples = history.stress(date)
        for slot in 0..<(day == 11 ? 46 : 48) {
          expected.append([Self.time(day: day, minute: slot * 30), String(samples[slot])])
        }
      }
      #expect(try Self.rows(folder, "stress") == expected)
      #expect(try Self.rows(folder, "heart-rate").count { $0[1] == "manual" } >= 6)
      #expect(try Self.rows(folder, "sleep").count == 7 * 7)
    }
  }

  @Test func addsNothingTheSecondTime() async throws {
    try await withFolder { folder in
      try await withStoredRing { ring in
        let first = try await Self.sync(ring, folder)
        let tables = try RingHistoryKind.allCases.map {
          try String(contentsOfFile: "\(folder)/\($0.fileName)", encoding: .utf8)
        }
        let second = try await Self.sync(ring, folder)
        #expect(second.allSatisfy { $0.added == 0 && $0.changed == 0 && $0.note == nil })
        #expect(second.map(\.rows) == first.map(\.rows))
        let after = try RingHistoryKind.allCases.map {
          try String(contentsOfFile: "\(folder)/\($0.fileName)", encoding: .utf8)
        }
        #expect(after == tables)
      }
    }
  }

  /// Days that the ring no longer stores stay in the tables.
  @Test func addsADayLater() async throws {
    try await withFolder { folder in
      let first = try await withStoredRing { try await Self.sync($0, folder) }
      let later = try await withStoredRing {
        $0.clock = try? RingDateTime(date: RingDate(year: 2025, month: 12, day: 11), hour: 23, minute: 30)
      } _: { ring in
        let now = try RingDateTime(date: RingDate(year: 2025, month: 12, day: 11), hour: 23, minute: 30)
        return try await RingSync(ring, calendar: .utc, now: now, since: nil, directory: folder).run { _ in }
      }
      // Stress at 23:00 and 23:30.
      #expect(later[2].added == 2)
      #expect(later[2].rows == first[2].rows + 2)
    }
  }

  @Test func beginsWhereItIsTold() async throws {
    try await withFolder { folder in
      _ = try await withStoredRing {
        try await Self.sync($0, folder, since: RingDate(year: 2025, month: 12, day: 10))
      }
      let times = try Self.rows(folder, "stress").map { $0[0] }
      #expect(times.first == Self.time(day: 10, minute: 0))
      #expect(times.count == 48 + 46)
    }
  }

  /// Local time is an hour ahead of UTC: the ring's midnight is 23:00 UTC of the day before.
  @Test func readsLocalTime() async throws {
    try await withFolder { folder in
      _ = try await withStoredRing { ring in
        let now = try storedRingClock()
        let calendar = RingCalendar { _ in 3600 }
        return try await RingSync(
          ring, calendar: calendar, now: now, since: now.date, directory: folder
        ).run { _ in }
      }
      #expect(try Self.rows(folder, "stress").first?[0] == Self.time(day: 10, minute: 23 * 60))
    }
  }

  @Test func whatTheRingLacksIsNoted() async throws {
    try await withFolder { folder in
      let outcomes = try await withStoredRing {
        $0.features = .captured
      } _: {
        try await Self.sync($0, folder)
      }
      let notes = outcomes.filter { $0.note != nil }.map(\.kind)
      #expect(notes == [.hrv, .temperature])
    }
  }

  /// With 0x77, packet after packet; the emulated ring has a value every half hour.
  @Test func fetchesIntervalTemperatures() async throws {
    let (log, today) = try await withStoredRing { ring in
      (try await ring.intervalTemperature(daysAgo: 1), try await ring.intervalTemperature(daysAgo: 0))
    }
    let yesterday = try #require(log)
    let tenths = RingHistory().temperatures(try RingDate(year: 2025, month: 12, day: 10))
    #expect(yesterday.isComplete && yesterday.intervalMinutes == 30)
    #expect(yesterday.readings.map(\.minute) == (0..<48).map { $0 * 30 })
    #expect(yesterday.readings.map { Int(($0.celsius * 10).rounded()) } == tenths)
    // Until 22:54.
    #expect(try #require(today).readings.count == 46)
  }

  /// A ring that reports with 0x3C that it lacks them is not asked.
  @Test func intervalTemperaturesMayBeLacking() async throws {
    let (error, timeouts) = try await withStoredRing {
      $0.features = .captured
    } _: { ring in
      let error = await #expect(throws: RingError.self) { try await ring.intervalTemperature(daysAgo: 0) }
      return (error, await ring.counters.timeouts)
    }
    #expect(error == .lacking("interval temperature"))
    #expect(timeouts == 0)
  }

  /// A captured nap, before the nights: minute 774 of two days ago, five stages.
  @Test func napsAreSleep() async throws {
    try await withFolder { folder in
      let request = RingBigDataRequest.sleepLog(.day(daysAgo: 0xFF)).message
      let octets = [UInt8](encoding: request.byteCount) { request.encode(into: &$0) }
      let script = [
        RecordedRing.Exchange(
          request: octets,
          replies: RingProtocolVector.named("nap-rt11cr").packets
            + RingProtocolVector.named("sleep-rt11cr-2-records").packets)
      ]
      let counters = try await withConversation(
        RecordedRing.address, patience: .milliseconds(300), peripherals: { [RecordedRing(script)] }
      ) { ring in
        _ = try await RingSync(
          ring, calendar: .utc, now: storedRingClock(), since: nil, directory: folder
        ).run { _ in }
        return await ring.counters
      }
      #expect(counters.foreign == 0)
      #expect(counters.unasked == 1)
      let rows = try Self.rows(folder, "sleep")
      #expect(rows.count { $0[1] == "night" } == 13 + 10)
      let naps = rows.filter { $0[1] == "nap" }
      #expect(
        naps == [
          [Self.time(day: 9, minute: 774), "nap", "20", "light"],
          [Self.time(day: 9, minute: 794), "nap", "17", "rem"],
          [Self.time(day: 9, minute: 811), "nap", "33", "deep"],
          [Self.time(day: 9, minute: 844), "nap", "27", "light"],
          [Self.time(day: 9, minute: 871), "nap", "14", "light"],
        ])
    }
  }

  /// A table is replaced atomically: open readers keep the old one, and nothing else is left in the folder.
  @Test func replacesATableAsAWhole() async throws {
    try await withFolder { folder in
      _ = try await withStoredRing { try await Self.sync($0, folder, since: storedRingClock().date) }
      let before = try String(contentsOfFile: folder + "/stress.csv", encoding: .utf8)
      let reader = try #require(FileHandle(forReadingAtPath: folder + "/stress.csv"))
      _ = try await withStoredRing { try await Self.sync($0, folder) }
      #expect(String(decoding: try #require(try reader.readToEnd()), as: UTF8.self) == before)
      #expect(try String(contentsOfFile: folder + "/stress.csv", encoding: .utf8).count > before.count)
      let names = try FileManager.default.contentsOfDirectory(atPath: folder)
      #expect(Set(names) == Set(RingHistoryKind.allCases.map(\.fileName)))
    }
  }

  @Test func aTableOfAnotherKindIsLeftAlone() async throws {
    try await withFolder { folder in
      try "time_ns,x\n1,2\n".write(toFile: folder + "/stress.csv", atomically: true, encoding: .utf8)
      let outcomes = try await withStoredRing { try await Self.sync($0, folder) }
      #expect(outcomes[2].note?.contains("left unchanged") == true)
      #expect(try String(contentsOfFile: folder + "/stress.csv", encoding: .utf8) == "time_ns,x\n1,2\n")
    }
  }
}

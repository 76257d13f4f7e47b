import BLECore
import BLEEmulation
import BLEHost
import BLESensors
import BLESystem
import Foundation
import Testing

@testable import RingTap

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

  /// Days that the ring has forgotten stay in the tables.
  @Test func addsADayLater() async throws {
    try await withFolder { folder in
      let first = try await withStoredRing { try await Self.sync($0, folder) }
      let later = try await withStoredRing {
        $0.clock = try? RingDateTime(date: RingDate(year: 2025, month: 12, day: 11), hour: 23, minute: 30)
      } _: { ring in
        let now = try RingDateTime(date: RingDate(year: 2025, month: 12, day: 11), hour: 23, minute: 30)
        return try await RingSync(ring, calendar: .utc, now: now, since: nil, directory: folder).run { _ in }
      }
      // Stress of 23:00 and 23:30.
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

  @Test func aTableOfAnotherKindIsLeftAlone() async throws {
    try await withFolder { folder in
      try "time_ns,x\n1,2\n".write(toFile: folder + "/stress.csv", atomically: true, encoding: .utf8)
      let outcomes = try await withStoredRing { try await Self.sync($0, folder) }
      #expect(outcomes[2].note?.contains("left alone") == true)
      #expect(try String(contentsOfFile: folder + "/stress.csv", encoding: .utf8) == "time_ns,x\n1,2\n")
    }
  }
}

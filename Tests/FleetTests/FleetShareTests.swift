import BLELinux
import BLEWire
import Foundation
import TestKit
import Testing

@testable import Fleet

/// Limits on what one publisher may use of a collector, and the handling of what exceeds them, without a
/// broker.
@Suite struct FleetShareTests {
  private static let rows = Array("1\n".utf8)

  private static func batch(_ publisher: String, _ session: String, row: Int = 0, table: String = "t")
    -> Batch
  {
    Batch(
      publisher: publisher, session: session, table: table, header: "a", row: row, count: 1, from: 0,
      rows: rows)
  }

  private static func time(_ seconds: Int64) -> MonotonicTime {
    MonotonicTime(nanoseconds: 1_000_000_000 * (1000 + seconds))
  }

  private static func give(_ collector: inout Collector, _ batch: Batch, _ now: MonotonicTime) throws {
    try collector.take("fleet/\(batch.publisher)/\(batch.session)/\(batch.table)", batch.octets.span, now)
  }

  private static func rows(_ folder: String, _ publisher: String, _ session: String) -> Int {
    TestKit.rows("\(folder)/\(publisher)/\(session)/t.csv").count - 1
  }

  /// A publisher opens more sessions than there are places. It gets its share, which is half of 1,024 with
  /// one table each, and another publisher still finds room.
  @Test func onePublisherShutsNobodyOut() async throws {
    try withFolder { folder in
      var collector = Collector(folder, prefix: "fleet", name: "c")
      for number in 0..<5000 { try Self.give(&collector, Self.batch("evil", "\(number)"), Self.time(0)) }
      #expect(collector.places == 1024 && collector.received == 512)
      try Self.give(&collector, Self.batch("honest", "s"), Self.time(0))
      try collector.sync()
      #expect(Self.rows(folder, "honest", "s") == 1)
      #expect(collector.report.sessions.count == 513)
      #expect(collector.refusals.count == 4488)
      #expect(collector.refusals.entries.map(\.publisher) == ["evil"])
      #expect(collector.refusals.entries.map(\.reason) == [.share])
      // Sessions that received nothing for a minute make room; their files stay.
      try Self.give(&collector, Self.batch("evil", "late"), Self.time(59))
      #expect(collector.refusals.count == 4489)
      try Self.give(&collector, Self.batch("evil", "late"), Self.time(60))
      #expect(collector.refusals.count == 4489 && collector.places == 1026)
      #expect(collector.report.setAside == 1 && collector.report.received == 514)
      #expect(Files.names(in: folder + "/evil").count { !$0.hasPrefix(".") } == 513)
    }
  }

  /// Tables count against the limit as sessions do, so one session with many tables cannot evade it.
  @Test func tablesCountToo() async throws {
    try withFolder { folder in
      var collector = Collector(folder, prefix: "fleet", name: "c")
      for session in 0..<20 {
        for table in 0..<64 {
          try Self.give(&collector, Self.batch("evil", "\(session)", table: "t\(table)"), Self.time(0))
        }
      }
      // 15 sessions with 64 tables take 975 places; 48 tables of the next session fit.
      #expect(collector.places == 1024 && collector.received == 15 * 64 + 48)
      #expect(collector.refusals.count == 20 * 64 - (15 * 64 + 48))
    }
  }

  private static func small(_ folder: String) -> Collector {
    Collector(
      folder, prefix: "fleet", name: "c",
      HeldSessions(
        Limit(8, "places", by: .broker, whenFull: "-", counted: "-"),
        share: Limit(6, "places", by: .broker, whenFull: "-", counted: "-")))
  }

  /// When all places are taken, the publisher with the most gives way and later continues from its files.
  @Test func whoHasTheMostGivesWay() async throws {
    try withFolder { folder in
      var collector = Self.small(folder)
      for session in ["1", "2", "3"] { try Self.give(&collector, Self.batch("a", session), Self.time(0)) }
      try Self.give(&collector, Self.batch("a", "1", row: 1), Self.time(1))
      try Self.give(&collector, Self.batch("b", "1"), Self.time(1))
      #expect(collector.places == 8)
      try Self.give(&collector, Self.batch("c", "1"), Self.time(2))
      #expect(collector.refusals.count == 0 && collector.report.setAside == 1)
      #expect(
        collector.report.sessions.map { "\($0.publisher)/\($0.session)" }.count { $0.hasPrefix("a/") } == 2)
      #expect(collector.report.sessions.contains { $0.publisher == "a" && $0.session == "1" })
      // `a` still has two, more than `d` would have, so one more gives way. Then each has one, and none gives
      // way.
      try Self.give(&collector, Self.batch("d", "1"), Self.time(2))
      try Self.give(&collector, Self.batch("e", "1"), Self.time(2))
      #expect(collector.refusals.entries.map(\.publisher) == ["e"])
      #expect(collector.refusals.entries.map(\.reason) == [.full])
      #expect(collector.report.sessions.map(\.publisher) == ["a", "b", "c", "d"])
      // Rows that were pending when their session was set aside are still written.
      try collector.sync()
      #expect(Self.rows(folder, "a", "2") == 1)
      // No place is freed for `a` when it returns to a session that was set aside. One is freed for `c`,
      // because a minute has passed.
      try Self.give(&collector, Self.batch("a", "2", row: 1), Self.time(3))
      #expect(collector.refusals.count == 2)
      try Self.give(&collector, Self.batch("c", "1", row: 1), Self.time(61))
      try Self.give(&collector, Self.batch("a", "2", row: 1), Self.time(61))
      #expect(collector.refusals.count == 2)
      try collector.sync()
      #expect(Self.rows(folder, "a", "2") == 2)
      #expect(collector.report.received == 9 && collector.report.missing == 0)
    }
  }

  /// A session that gave way before it was complete is reported with what was missing.
  @Test func whatIsSetAsideIncompleteIsTold() async throws {
    try withFolder { folder in
      var collector = Self.small(folder)
      try Self.give(&collector, Self.batch("a", "1", row: 5), Self.time(0))
      #expect(collector.report.missing == 6)
      for session in ["2", "3", "4"] { try Self.give(&collector, Self.batch("a", session), Self.time(100)) }
      #expect(collector.report.setAside == 1 && collector.report.missing == 6)
    }
  }

  // MARK: Refusals

  /// Made-up names cannot fill the memory.
  @Test func refusalsAreBounded() {
    var refusals = Refusals()
    for number in 0..<1000 { refusals.add("p\(number)", .malformed, "junk", Self.time(Int64(number))) }
    #expect(refusals.entries.count == 64 && refusals.forgotten == 936 && refusals.count == 1000)
    #expect(refusals.entries.contains { $0.publisher == "p999" })
    #expect(!refusals.entries.contains { $0.publisher == "p935" })
  }

  @Test func refusalsAreToldAtOnceAndThenEachTenSeconds() {
    var refusals = Refusals()
    #expect(refusals.line(Self.time(0)) == nil)
    refusals.add("evil", .malformed, "fleet/evil/s/t: junk", Self.time(0))
    #expect(refusals.line(Self.time(0)) == "a message is refused: fleet/evil/s/t: junk")
    for _ in 0..<1_000 { refusals.add("evil", .share, "more", Self.time(1)) }
    refusals.add("other", .share, "the last", Self.time(1))
    #expect(refusals.line(Self.time(9)) == nil)
    #expect(
      refusals.line(Self.time(10))
        == "1001 messages are refused, 1000 of them from evil; the last: the last")
    #expect(refusals.line(Self.time(30)) == nil)
  }

  // MARK: Documents

  /// A document that arrives before its rows waits in a file, not in memory.
  @Test func aDocumentWaitsForItsRows() async throws {
    try withFolder { folder in
      var collector = Collector(folder, prefix: "fleet", name: "c")
      let end = SessionEnd(
        session: "s", tables: ["t": .init(header: "a", rows: 1, from: 0)], document: Array(#"{"a":1}"#.utf8))
      try collector.take("fleet/p/s/end", end.octets.span, Self.time(0))
      try collector.sync()
      #expect(!Files.exists(folder + "/p/s/session.json") && collector.completeCount == 0)
      try Self.give(&collector, Self.batch("p", "s"), Self.time(1))
      try collector.sync()
      #expect(contents(folder + "/p/s/session.json") == Array(#"{"a":1}"#.utf8))
      #expect(collector.completeCount == 1)
    }
  }
}

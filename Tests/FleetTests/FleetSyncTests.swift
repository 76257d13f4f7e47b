import BLELinux
import BLEWire
import CTestSystem
import Foundation
import TestKit
import Testing

@testable import Fleet

/// A receipt covers only rows that survive a power failure.
@Suite struct FleetSyncTests {
  private typealias Bench = FleetLogicTests.Bench

  private static func receipts(_ bench: inout Bench, after seconds: Int64 = 1) throws -> [Receipt] {
    bench.now = bench.now.advanced(by: .seconds(seconds))
    return try bench.collector.receipts(bench.now).map { receipt in
      let octets = receipt.octets
      return try Receipt(parsing: octets.span)
    }
  }

  /// Runs in its own process, because all of its syncs are counted.
  @Test func rowsAreSyncedBeforeTheyAreConfirmed() async {
    await #expect(processExitsWith: .success) {
      try withFolder { folder in
        var bench = try Bench(folder)
        let real = try #require(Files.absolute(folder))
        test_watch_syncs(real + "/collected")
        try bench.record(0..<10)
        try bench.give(try bench.sendings())
        #expect(try Self.receipts(&bench).allSatisfy { $0.tables["ppg"] ?? 0 == 0 })
        #expect(test_syncs("") == 0)
        try bench.collector.sync()
        #expect(test_syncs("/p/\(bench.session)/ppg.csv") == 1)
        #expect(try Self.receipts(&bench).map { $0.tables["ppg"] } == [10])
        // Without new rows there is no sync.
        try bench.collector.sync()
        #expect(test_syncs("") == 1)
      }
    }
  }

  /// Many files are synced with one call for their file system; the rows are just as safe.
  @Test func manyTablesAreOneSync() async {
    await #expect(processExitsWith: .success) {
      try withFolder { folder in
        let real = try #require(Files.absolute(folder))
        test_watch_syncs(real)
        var collector = Collector(folder, prefix: "fleet", name: "c")
        let now = MonotonicTime(nanoseconds: 1_000_000_000)
        for number in 0..<100 {
          try collector.take("fleet/p\(number)/s/t", Self.batch("p\(number)").octets.span, now)
        }
        try collector.sync()
        #expect(test_syncs("") == 0)
        let receipts = try collector.receipts(now).map { receipt in
          let octets = receipt.octets
          return try Receipt(parsing: octets.span)
        }
        #expect(receipts.count == 100 && receipts.allSatisfy { $0.tables == ["t": 1] })
      }
    }
  }

  /// Rows that arrive during a sync do not count as synced.
  @Test func aSyncHasWhatCameBeforeIt() async throws {
    try withFolder { folder in
      var bench = try Bench(folder)
      try bench.record(0..<10)
      try bench.give(try bench.sendings())
      let sync = bench.collector.beginSync()
      try bench.record(10..<20)
      try bench.give(try bench.sendings())
      bench.collector.endSync(sync, missing: try sync.run())
      #expect(try Self.receipts(&bench).map { $0.tables["ppg"] } == [10])
      #expect(bench.collector.isUnsynced)
      try bench.collector.sync()
      #expect(try Self.receipts(&bench).map { $0.tables["ppg"] } == [20])
    }
  }

  /// The end is confirmed only when session.json has been synced, too.
  @Test func completeMeansOnTheDisk() async throws {
    try withFolder { folder in
      var bench = try Bench(folder)
      try bench.record(0..<10)
      try "{}".write(toFile: folder + "/capture/session.json", atomically: false, encoding: .utf8)
      bench.publisher.end(bench.now)
      try bench.give(try bench.sendings())
      #expect(bench.collector.completeCount == 1 && bench.collector.isSyncUrgent)
      #expect(try Self.receipts(&bench).allSatisfy { !$0.isComplete })
      try bench.collector.sync()
      #expect(try Self.receipts(&bench, after: 0).map(\.isComplete) == [true])
      // A repeated end is answered again.
      try bench.give(try bench.sendings().filter { $0.purpose == .end })
      let end = SessionEnd(
        session: bench.session, tables: ["ppg": .init(header: "time_ns,value", rows: 10, from: 0)],
        document: [])
      try bench.collector.take("fleet/p/\(bench.session)/end", end.octets.span, bench.now)
      try bench.collector.sync()
      #expect(try Self.receipts(&bench).map(\.isComplete) == [true])
    }
  }

  /// The numbers of later rows depend on the size of the hole, so the rows before it are synced first.
  @Test func rowsBeforeAHoleAreSyncedFirst() async {
    await #expect(processExitsWith: .success) {
      try withFolder { folder in
        var bench = try Bench(folder)
        let real = try #require(Files.absolute(folder))
        try bench.record(0..<10)
        try bench.give(try bench.sendings())
        test_watch_syncs(real + "/collected")
        let batch = Batch(
          publisher: "p", session: bench.session, table: "ppg", header: "time_ns,value", row: 20, count: 1,
          from: 20, rows: Array(Bench.text(20..<21).utf8))
        try bench.collector.take("fleet/p/\(bench.session)/ppg", batch.octets.span, bench.now)
        #expect(bench.counts?.missing == 10 && bench.counts?.rows == 11)
        #expect(test_syncs("/p/\(bench.session)/ppg.csv") == 1)
      }
    }
  }

  /// Rows missing at the end are reported even though no rows follow them.
  @Test func anEndWithAHoleIsConfirmed() async throws {
    try withFolder { folder in
      var bench = try Bench(folder)
      try bench.record(0..<10)
      try bench.give(try bench.sendings())
      let end = SessionEnd(
        session: bench.session, tables: ["ppg": .init(header: "time_ns,value", rows: 30, from: 30)],
        document: [])
      try bench.collector.take("fleet/p/\(bench.session)/end", end.octets.span, bench.now)
      try bench.collector.sync()
      let receipts = try Self.receipts(&bench)
      #expect(receipts.map(\.isComplete) == [true] && receipts.map { $0.tables["ppg"] } == [30])
    }
  }

  /// A collector that ends does not wait for a sync, but everything that it reports has been written to
  /// files.
  @Test func allIsWrittenAtTheEnd() async throws {
    try withFolder { folder in
      var bench = try Bench(folder)
      try bench.record(0..<10)
      try bench.give(try bench.sendings())
      // The session has not ended.
      _ = try bench.collector.beginSync().run()
      try bench.record(10..<20)
      try "{}".write(toFile: folder + "/capture/session.json", atomically: false, encoding: .utf8)
      bench.publisher.end(bench.now)
      try bench.give(try bench.sendings())
      try bench.collector.write()
      #expect(bench.collected == bench.recorded)
      #expect(contents(folder + "/collected/p/\(bench.session)/session.json") == Array("{}".utf8))
      #expect(try Self.receipts(&bench).allSatisfy { !$0.isComplete && $0.tables["ppg"] ?? 0 == 0 })
    }
  }

  /// After a power failure ext4 may report a length that includes bytes it never wrote.
  @Test(arguments: ["\0\0\0\0\0\0\0\0", "9,6\0\0\0\0\0\0\0\n10,70\n", "\0\0\0\n\0\0\0\n"])
  func whatAPowerFailureLeftIsCutOff(_ rest: String) async throws {
    try withFolder { folder in
      var bench = try Bench(folder)
      try bench.record(0..<9)
      try bench.exchange()
      let path = folder + "/collected/p/\(bench.session)/ppg.csv"
      try Data(bench.collected + Array(rest.utf8)).write(to: URL(filePath: path))
      bench.collector = Collector(folder + "/collected", prefix: "fleet", name: "c")
      try bench.record(9..<20)
      for _ in 0..<3 { try bench.exchange() }
      #expect(bench.collected == bench.recorded)
      #expect(bench.counts?.missing == 0)
    }
  }

  /// A file is moved away before it is synced: its rows are not confirmed, all others are.
  @Test func aFileThatWasMovedIsNotConfirmed() async throws {
    try withFolder { folder in
      var bench = try Bench(folder)
      try bench.record(0..<10)
      try bench.record(0..<5, "spo2")
      try bench.deliver(try bench.sendings())
      // A new collector does not know what has been synced.
      bench.collector = Collector(folder + "/collected", prefix: "fleet", name: "c")
      for (table, rows) in [("ppg", 10), ("spo2", 5)] {
        let batch = Batch(
          publisher: "p", session: bench.session, table: table, header: "time_ns,value", row: 0, count: rows,
          from: 0, rows: Array(Bench.text(0..<rows).utf8))
        try bench.collector.take("fleet/p/\(bench.session)/\(table)", batch.octets.span, bench.now)
      }
      try Files.remove(folder + "/collected/p/\(bench.session)/ppg.csv")
      try bench.collector.sync()
      let receipt = try #require(try Self.receipts(&bench).first)
      #expect(receipt.tables["ppg"] == 0 && receipt.tables["spo2"] == 5)
    }
  }

  // MARK: Publishers

  /// A cursor that covers unsynced rows would keep them from being sent again after a power failure.
  @Test func tablesAreSyncedBeforeTheCursor() async {
    await #expect(processExitsWith: .success) {
      try withFolder { folder in
        var bench = try Bench(folder)
        try bench.record(0..<10)
        try bench.exchange()
        let real = try #require(Files.absolute(folder))
        test_watch_syncs(real + "/capture")
        try bench.publisher.writeCursor()
        #expect(test_syncs("/ppg.csv") == 1)
        try bench.publisher.writeCursor()
        #expect(test_syncs("/ppg.csv") == 1)
      }
    }
  }

  /// Rows are published before the capture's disk has them: after a power failure the collector has more rows
  /// than the publisher.
  @Test(arguments: ["12,", "", "12,84\0\0\0\0", String(repeating: "\0", count: 5000)])
  func aPublisherGoesOnWithATableThatAPowerFailureCut(_ rest: String) async throws {
    try withFolder { folder in
      var bench = try Bench(folder)
      try bench.record(0..<20)
      try bench.exchange()
      try bench.publisher.writeCursor()
      let path = folder + "/capture/ppg.csv"
      let whole = bench.recorded
      let left = Array((Bench.header + Bench.text(0..<12) + rest).utf8)
      try Data(left).write(to: URL(filePath: path))
      let session = bench.session
      bench.publisher = try Publisher(
        folder + "/capture", prefix: "fleet", name: nil, backlogByteCount: 1 << 30, now: bench.now)
      bench.publisher.connected(bench.now)
      bench.publisher.end(bench.now)
      for _ in 0..<4 { try bench.exchange() }
      #expect(bench.session == session && bench.publisher.isDone && bench.publisher.report.isConfirmed)
      #expect(bench.collected == whole)
      #expect(bench.counts?.missing == 0)
    }
  }

  /// Rows that wait in memory are written in one piece when the next sync begins.
  @Test func aSyncWritesWhatCame() async throws {
    try withFolder { folder in
      var bench = try Bench(folder)
      for part in 0..<5 {
        try bench.record(part * 10..<part * 10 + 10)
        try bench.give(try bench.sendings())
      }
      #expect(bench.collector.pendingByteCount == bench.recorded.count - Bench.header.utf8.count)
      let sync = bench.collector.beginSync()
      #expect(sync.writes.map(\.octets) == [bench.recorded] && bench.collector.pendingByteCount == 0)
      // A hole is found during a sync: the rows before it are synced before the hole is counted.
      let batch = Batch(
        publisher: "p", session: bench.session, table: "ppg", header: "time_ns,value", row: 60, count: 1,
        from: 60, rows: Array(Bench.text(60..<61).utf8))
      try bench.collector.take("fleet/p/\(bench.session)/ppg", batch.octets.span, bench.now)
      #expect(bench.collected == bench.recorded)
      bench.collector.endSync(sync, missing: try sync.run())
      try bench.collector.sync()
      #expect(bench.collected == bench.recorded + Array(Bench.text(60..<61).utf8))
      #expect(try Self.receipts(&bench).map { $0.tables["ppg"] } == [61])
    }
  }

  // MARK: Bounds

  private static func batch(_ publisher: String, row: Int = 0) -> Batch {
    Batch(
      publisher: publisher, session: "s", table: "t", header: "a", row: row, count: 1, from: 0,
      rows: Array("1\n".utf8))
  }

  /// Receipts wait in their sessions, which are bounded, not in an unbounded queue.
  @Test func receiptsComeAsManyAsThereIsRoomFor() async throws {
    try withFolder { folder in
      var collector = Collector(folder, prefix: "fleet", name: "c")
      let now = MonotonicTime(nanoseconds: 1_000_000_000)
      for number in 0..<300 {
        try collector.take("fleet/p\(number)/s/t", Self.batch("p\(number)").octets.span, now)
      }
      try collector.sync()
      let counts = [256, 256, 256].map { collector.receipts(now, limit: $0).count }
      #expect(counts == [256, 44, 0])
    }
  }

  /// Requests to a publisher that does not answer back off.
  @Test func requestsBackOff() async throws {
    try withFolder { folder in
      var collector = Collector(folder, prefix: "fleet", name: "c")
      try collector.take("fleet/p/s/t", Self.batch("p", row: 5).octets.span, MonotonicTime(nanoseconds: 0))
      try collector.sync()
      var asked: [Int64] = []
      for second in 0..<120 as Range<Int64> {
        let now = MonotonicTime(nanoseconds: second * 1_000_000_000)
        if !collector.receipts(now).isEmpty { asked.append(second) }
      }
      #expect(asked == [0, 1, 3, 7, 15, 31, 61, 91])
    }
  }

  /// Long names use more memory than short ones: the limit is in bytes.
  @Test func memoryIsBoundedInBytes() async throws {
    try withFolder { folder in
      let limit = Limit(100_000, "bytes", by: .broker, whenFull: "-", counted: "-")
      func taken(_ nameLength: Int) throws -> (count: Int, collector: Collector) {
        var collector = Collector(
          folder + "/\(nameLength)", prefix: "fleet", name: "c", HeldSessions(memory: limit))
        for number in 0..<200 {
          let name = "\(number)" + String(repeating: "x", count: nameLength - "\(number)".utf8.count)
          try collector.take("fleet/\(name)/s/t", Self.batch(name).octets.span, MonotonicTime(nanoseconds: 0))
        }
        return (collector.received, collector)
      }
      let (few, many) = (try taken(64), try taken(4))
      #expect(few.count < many.count && many.count < 100 && few.count > 40)
      #expect(few.collector.refusals.count == 200 - few.count)
      #expect(few.collector.refusals.last?.contains("of memory, the limit; start another collector") == true)
    }
  }

  /// Collecting into a removed file ends; it does not continue after a hole.
  @Test func collectsIntoNoHole() throws {
    try withFolder { folder in
      let path = folder + "/ppg.csv"
      var table = try CollectedTable(path, header: "time_ns,ppg_counts", missing: 0)
      let row = Array("1,2\n".utf8)
      func sync() throws {
        table.append(row[...], count: 1)
        let write = try #require(table.beginSync().write)
        _ = try CollectorSync(writes: [write]).run()
      }
      try sync()
      try Files.remove(path)
      #expect(throws: SystemError.self) { try sync() }
      #expect(!Files.exists(path))
    }
  }
}

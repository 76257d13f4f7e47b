import BLELinux
import BLEWire
import Foundation
import TestKit
import Testing

@testable import Fleet

/// Publisher and collector without a broker: the test delivers or drops each message itself.
@Suite struct FleetLogicTests {
  /// A publisher and a collector, their messages and their clock.
  struct Bench {
    let folder: String
    var now = MonotonicTime(nanoseconds: 1_000_000_000_000)
    var publisher: Publisher
    var collector: Collector
    private var message = 0

    init(_ folder: String, backlog: Int = 1 << 30) throws {
      self.folder = folder
      try Files.createDirectory(folder + "/capture")
      publisher = try Publisher(
        folder + "/capture", prefix: "fleet", name: "p", backlogByteCount: backlog, now: now)
      collector = Collector(folder + "/collected", prefix: "fleet", name: "c")
      publisher.connected(now)
    }

    var session: String { publisher.cursor.session }

    /// Numbered rows of `ppg.csv`.
    static func text(_ rows: Range<Int>) -> String { rows.map { "\($0),\($0 * 7)\n" }.joined() }
    static let header = "time_ns,value\n"

    func record(_ rows: Range<Int>, _ name: String = "ppg", rest: String = "") throws {
      let path = folder + "/capture/\(name).csv"
      let before = Files.exists(path) ? String(decoding: contents(path), as: UTF8.self) : Self.header
      try (before + Self.text(rows) + rest).write(toFile: path, atomically: false, encoding: .utf8)
    }

    var recorded: [UInt8] { contents(folder + "/capture/ppg.csv") }
    var collected: [UInt8] { contents(folder + "/collected/p/\(session)/ppg.csv") }
    var counts: CollectReport.Table? { collector.report.sessions.first?.tables.first { $0.name == "ppg" } }

    /// Everything that the publisher has to send now, acknowledged by the broker.
    mutating func sendings(reason: Int = 0) throws -> [Publisher.Outgoing] {
      now = now.advanced(by: .seconds(1))
      try publisher.look(now)
      var all: [Publisher.Outgoing] = []
      while let outgoing = try publisher.next(now) {
        message += 1
        publisher.left(message, outgoing)
        publisher.acknowledged(message, reason: reason, now)
        all.append(outgoing)
        if reason != 0 { break }
      }
      return all
    }

    /// Delivers messages to the collector, which syncs them to disk.
    mutating func deliver(_ messages: [Publisher.Outgoing]) throws {
      try give(messages)
      try collector.sync()
    }

    mutating func give(_ messages: [Publisher.Outgoing]) throws {
      for message in messages { try collector.take(message.topic, message.octets.span, now) }
    }

    /// Delivers the collector's receipts to the publisher.
    @discardableResult mutating func answer() throws -> Int {
      now = now.advanced(by: .seconds(1))
      let receipts = collector.receipts(now)
      for receipt in receipts { try publisher.receive(receipt.octets.span, now) }
      return receipts.count
    }

    mutating func exchange() throws {
      try deliver(try sendings())
      try answer()
    }
  }

  @Test func wholeLinesOnlyAndOctetForOctet() async throws {
    try withFolder { folder in
      var bench = try Bench(folder)
      try bench.record(0..<3, rest: "3,2")
      try bench.exchange()
      #expect(bench.collected == Array((Bench.header + Bench.text(0..<3)).utf8))
      // The rest of the line arrives.
      try Data(bench.recorded + Array("1\n".utf8)).write(to: URL(filePath: folder + "/capture/ppg.csv"))
      try bench.record(4..<9)
      try bench.record(0..<0, "spo2")
      try #"{"endReason":"count reached"}"#.write(
        toFile: folder + "/capture/session.json", atomically: false, encoding: .utf8)
      bench.publisher.end(bench.now)
      for _ in 0..<4 { try bench.exchange() }
      #expect(bench.publisher.isDone && bench.publisher.report.isConfirmed)
      #expect(bench.collected == bench.recorded)
      let path = folder + "/collected/p/\(bench.session)"
      #expect(contents(path + "/spo2.csv") == Array(Bench.header.utf8))
      #expect(contents(path + "/session.json") == contents(folder + "/capture/session.json"))
      #expect(bench.counts?.received == 9 && bench.counts?.duplicated == 0 && bench.counts?.missing == 0)
    }
  }

  /// A broker acknowledges messages and then loses them.
  @Test func whatTheBrokerForgetsIsSentAgain() async throws {
    try withFolder { folder in
      var bench = try Bench(folder)
      try bench.record(0..<10)
      try bench.exchange()
      try bench.record(10..<20)
      _ = try bench.sendings()
      #expect(bench.publisher.isDrained)
      try bench.record(20..<30)
      try bench.deliver(try bench.sendings())
      #expect(bench.counts?.rows == 10 && bench.counts?.missing == 20)
      try bench.answer()
      try bench.exchange()
      #expect(bench.collected == bench.recorded)
      #expect(bench.counts?.duplicated == 0 && bench.counts?.missing == 0 && bench.counts?.requests == 1)
      #expect(bench.publisher.report.sent == 50 && bench.publisher.report.resent == 1)
    }
  }

  /// The broker loses the last rows and the end. No later message would reveal the hole.
  @Test func aForgottenEndIsSentAgain() async throws {
    try withFolder { folder in
      var bench = try Bench(folder)
      try bench.record(0..<10)
      try bench.exchange()
      try bench.record(10..<20)
      bench.publisher.end(bench.now)
      // Only the end arrives.
      let end = try bench.sendings().filter { $0.purpose == .end }
      #expect(end.map(\.topic) == ["fleet/p/\(bench.session)/end"])
      try bench.deliver(end)
      #expect(bench.counts?.rows == 10 && bench.counts?.missing == 10)
      for _ in 0..<4 {
        try bench.answer()
        try bench.deliver(try bench.sendings())
      }
      #expect(bench.collected == bench.recorded)
      #expect(bench.publisher.isDone && bench.publisher.report.isConfirmed)
    }
  }

  @Test func whatComesTwiceIsRecognised() async throws {
    try withFolder { folder in
      var bench = try Bench(folder)
      try bench.record(0..<10)
      let first = try bench.sendings()
      try bench.deliver(first + first)
      #expect(bench.counts?.received == 10 && bench.counts?.duplicated == 10)
      // A batch of which some rows are already known.
      var batch = Batch(
        publisher: "p", session: bench.session, table: "ppg", header: "time_ns,value", row: 6, count: 7,
        from: 0,
        rows: Array(Bench.text(6..<13).utf8))
      try bench.collector.take("fleet/p/\(bench.session)/ppg", batch.octets.span, bench.now)
      try bench.collector.sync()
      #expect(bench.collected == Array((Bench.header + Bench.text(0..<13)).utf8))
      #expect(bench.counts?.received == 13 && bench.counts?.duplicated == 14)
      // Another table with the same name has another header.
      batch.header = "time_ns"
      try bench.collector.take("fleet/p/\(bench.session)/ppg", batch.octets.span, bench.now)
      #expect(bench.collector.refusals.count == 1 && bench.counts?.rows == 13)
    }
  }

  /// The connection is lost before the broker has acknowledged.
  @Test func unacknowledgedRowsAreSentAgain() async throws {
    try withFolder { folder in
      var bench = try Bench(folder)
      try bench.record(0..<5)
      try bench.exchange()
      try bench.record(5..<15)
      bench.now = bench.now.advanced(by: .seconds(1))
      try bench.publisher.look(bench.now)
      var lost: [Publisher.Outgoing] = []
      while let outgoing = try bench.publisher.next(bench.now) {
        bench.publisher.left(1000 + lost.count, outgoing)
        lost.append(outgoing)
      }
      #expect(bench.publisher.waitingByteCount > 0)
      bench.publisher.connected(bench.now)
      // An acknowledgement of a message from an earlier connection is ignored.
      bench.publisher.acknowledged(1000, reason: 0, bench.now)
      #expect(bench.publisher.waitingByteCount > 0)
      try bench.deliver(lost)
      try bench.exchange()
      #expect(bench.collected == bench.recorded)
      #expect(bench.counts?.duplicated == 10)
    }
  }

  @Test func rowsWaitWhereNobodyIsSubscribed() async throws {
    try withFolder { folder in
      var bench = try Bench(folder)
      try bench.record(0..<10)
      _ = try bench.sendings()
      try bench.record(10..<20)
      _ = try bench.sendings(reason: 0x10)
      #expect(bench.publisher.reception == .nobody && bench.publisher.waitingByteCount > 0)
      #expect(bench.publisher.report.acknowledged == 10)
      _ = try bench.sendings(reason: 0x87)
      #expect(bench.publisher.reception == .refused(reason: 0x87, topic: "fleet/p/\(bench.session)/ppg"))
      // A new collector lacks the first rows too.
      try bench.exchange()
      try bench.exchange()
      #expect(bench.publisher.reception == .good)
      #expect(bench.collected == bench.recorded)
    }
  }

  // MARK: Restarts

  @Test func publisherGoesOnFromItsCursor() async throws {
    try withFolder { folder in
      var bench = try Bench(folder)
      try bench.record(0..<10)
      try bench.exchange()
      try bench.publisher.writeCursor()
      try bench.record(10..<20)
      let session = bench.session
      bench.publisher = try Publisher(
        folder + "/capture", prefix: "fleet", name: nil, backlogByteCount: 1 << 30, now: bench.now)
      #expect(bench.session == session && bench.publisher.cursor.publisher == "p")
      bench.publisher.connected(bench.now)
      try bench.exchange()
      #expect(bench.collected == bench.recorded)
      #expect(bench.counts?.duplicated == 0)
    }
  }

  @Test func collectorGoesOnFromItsFiles() async throws {
    try withFolder { folder in
      var bench = try Bench(folder)
      try bench.record(0..<10)
      try bench.exchange()
      // Killed in the middle of a row.
      let path = folder + "/collected/p/\(bench.session)/ppg.csv"
      try Data(bench.collected.dropLast(3)).write(to: URL(filePath: path))
      bench.collector = Collector(folder + "/collected", prefix: "fleet", name: "c")
      try bench.record(10..<20)
      try bench.deliver(try bench.sendings())
      #expect(bench.counts?.rows == 9)
      try bench.answer()
      try bench.exchange()
      #expect(bench.collected == bench.recorded)
      #expect(bench.counts?.received == 11 && bench.counts?.missing == 0)
    }
  }

  @Test func strangeCursorsAreRefused() async throws {
    try withFolder { folder in
      var bench = try Bench(folder)
      try bench.record(0..<10)
      try bench.exchange()
      try bench.publisher.writeCursor()
      let path = folder + "/capture/publish.json"
      let good = String(decoding: contents(path), as: UTF8.self)
      func message(_ text: String) throws -> String {
        try text.write(toFile: path, atomically: false, encoding: .utf8)
        do throws(PublishProblem) {
          _ = try Publisher(
            folder + "/capture", prefix: "fleet", name: nil, backlogByteCount: 1 << 30, now: bench.now)
          return "taken"
        } catch { return "\(error)" }
      }
      #expect(try message(good) == "taken")
      #expect(try message("{") == "\(path) is damaged; remove it to publish everything as a new session")
      #expect(
        try message(good.replacingOccurrences(of: "\"p\"", with: "\"../p\"")).hasPrefix("\(path) is damaged"))
      // Inside a line, before the first line, and beyond the end.
      for octets in ["20", "1", "999999"] {
        let strange = good.replacing(/"octets":\d+/) { _ in "\"octets\":\(octets)" }
        #expect(try message(strange).contains("is not the table that was published before"))
      }
    }
  }

  // MARK: Holes

  @Test func tooLongABacklogIsSkippedAndCounted() async throws {
    try withFolder { folder in
      var bench = try Bench(folder, backlog: 4096)
      try bench.record(0..<10)
      try bench.exchange()
      let rows = 2000
      try bench.record(10..<rows)
      for _ in 0..<3 { try bench.exchange() }
      let skipped = bench.publisher.report.skipped
      #expect(skipped > 1000 && skipped < 1990)
      #expect(bench.counts?.missing == skipped && bench.counts?.rows == rows - skipped)
      let expected = Bench.header + Bench.text(0..<10) + Bench.text((10 + skipped)..<rows)
      #expect(bench.collected == Array(expected.utf8))
      // A restarted collector knows about the hole.
      bench.collector = Collector(folder + "/collected", prefix: "fleet", name: "c")
      try bench.record(rows..<rows + 5)
      try bench.deliver(try bench.sendings())
      #expect(bench.counts?.rows == rows + 5 - skipped && bench.counts?.missing == skipped)
    }
  }

  /// Rows after a hole are kept even if their publisher has left.
  @Test func holesOfThoseWhoHaveGoneAreCounted() async throws {
    try withFolder { folder in
      var bench = try Bench(folder)
      try bench.record(0..<10)
      _ = try bench.sendings()
      try bench.record(10..<20)
      let later = try bench.sendings()
      let will = bench.publisher.will
      try bench.collector.take(will.topic, will.octets.span, bench.now)
      try bench.deliver(later.filter { $0.purpose != .status(.online) })
      #expect(bench.counts?.rows == 10 && bench.counts?.missing == 10)
    }
  }

  // MARK: Unknown senders

  @Test func nothingLeavesTheDirectory() async throws {
    try withFolder { folder in
      var collector = Collector(folder + "/collected", prefix: "fleet", name: "c")
      let batch = Batch(
        publisher: "..", session: "..", table: "evil", header: "a", row: 0, count: 1, from: 0,
        rows: Array("1\n".utf8))
      let topics = [
        "fleet/../../evil", "fleet/p/../evil", "fleet/p/s/..", "fleet/p/s/end", "fleet/p/status",
        "fleet/p/s/a\u{0}b",
        "other/p/s/t", "fleet/p/s/t/u", "fleet/" + String(repeating: "x", count: 300) + "/s/t", "\u{1B}[2J",
      ]
      for topic in topics { try collector.take(topic, batch.octets.span, MonotonicTime(nanoseconds: 0)) }
      #expect(collector.refusals.count == topics.count)
      // Nor is it written to the terminal.
      #expect(collector.refusals.last?.utf8.allSatisfy { $0 >= 0x20 && $0 < 0x7F } == true)
      let names = try FileManager.default.subpathsOfDirectory(atPath: folder)
      #expect(!names.contains { $0.hasSuffix(".csv") }, "\(names)")
    }
  }

  @Test func tablesOfASessionAreLimited() async throws {
    try withFolder { folder in
      var collector = Collector(folder + "/collected", prefix: "fleet", name: "c")
      for number in 0..<SessionEnd.tableLimit.count + 3 {
        let batch = Batch(
          publisher: "p", session: "s", table: "t\(number)", header: "a", row: 0, count: 1, from: 0,
          rows: Array("1\n".utf8))
        try collector.take("fleet/p/s/t\(number)", batch.octets.span, MonotonicTime(nanoseconds: 0))
      }
      try collector.sync()
      #expect(collector.refusals.count == 3)
      #expect(
        Files.names(in: folder + "/collected/p/s").count { $0.hasSuffix(".csv") }
          == SessionEnd.tableLimit.count)
    }
  }

  /// Unexpected receipts are ignored.
  @Test func strangeReceiptsAreIgnored() async throws {
    try withFolder { folder in
      var bench = try Bench(folder)
      try bench.record(0..<10)
      try bench.exchange()
      for text in [
        "", "{}", #"{"version":1,"session":"other","collector":"x","tables":{"ppg":0},"resend":["ppg"]}"#,
        #"{"version":1,"session":"\#(bench.session)","collector":"../x","tables":{"ppg":0},"resend":["ppg"]}"#,
        #"{"version":1,"session":"\#(bench.session)","collector":"x","tables":{"ppg":-1},"resend":["ppg"]}"#,
        #"{"version":1,"session":"\#(bench.session)","collector":"x","tables":{"ppg":99},"resend":["ppg","other"]}"#,
      ] {
        let octets = Array((text + "\n").utf8)
        try bench.publisher.receive(octets.span, bench.now)
      }
      #expect(bench.publisher.report.resent == 0 && bench.publisher.isDrained)
    }
  }
}

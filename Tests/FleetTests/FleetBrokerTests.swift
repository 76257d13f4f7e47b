import BLELinux
import Foundation
import TestKit
import Testing

@testable import Fleet

/// Publishes captures of emulated rings through a real broker and collects them into directories.
@Suite(.timeLimit(.minutes(2))) struct FleetBrokerTests {
  private struct Report: Decodable {
    struct Session: Decodable {
      struct Table: Decodable {
        var name: String
        var rows, received, duplicated, missing, requests: Int
      }
      var publisher, session, state: String
      var isComplete: Bool
      var tables: [Table]
    }
    var received, duplicated, missing, refused, connections: Int
    var sessions: [Session]
  }

  private static func report(_ run: Running) throws -> Report {
    try JSONDecoder().decode(Report.self, from: Data(run.text.utf8))
  }

  private static func capture(_ folder: String, count: Int, _ more: [String] = [], rate: Int = 300)
    -> [String]
  {
    [
      "capture", "--transport", "virtual:ring,rate=\(rate)", "--count", "\(count)", "--output",
      folder + "/walk",
    ] + more
  }

  private static func collect(_ broker: MosquittoBroker, _ folder: String, _ more: [String]) -> [String] {
    ["collect", broker.url, "--output", folder + "/collected", "--name", "test", "--json"] + more
  }

  /// Mosquitto's own client receives the documented messages.
  @Test func tablesArriveOctetForOctet() async throws {
    try await withFolder { folder in
      let broker = try MosquittoBroker(in: folder)
      try await broker.start()
      let collect = try Running(Self.collect(broker, folder, ["--sessions", "1"]), in: folder)
      try await eventually("it collects") { collect.said.contains("collecting from") }
      let witness = try Running(
        "mosquitto_sub",
        ["-p", "\(broker.port)", "-V", "5", "-q", "1", "-t", "#", "-F", "%t %q %r %l"], in: folder)
      let capture = try Running(
        Self.capture(folder, count: 900, ["--to", broker.url + "?name=ward-3"]), in: folder)
      #expect(try await capture.status("capture") == 0, "\(capture.said)")
      #expect(try await collect.status("collect") == 0, "\(collect.said)")
      #expect(capture.said.contains("; test has everything"))
      let rows = try expectCollected(folder + "/walk", in: folder + "/collected")
      let report = try Self.report(collect)
      #expect(report.received == rows && rows >= 900)
      #expect((report.duplicated, report.missing, report.refused) == (0, 0, 0))
      #expect(report.sessions.map(\.publisher) == ["ward-3"] && report.sessions.allSatisfy(\.isComplete))

      let session = try #require(try PublishCursor.read(in: folder + "/walk")).session
      try await eventually("the witness saw the end") { witness.text.contains("/end ") }
      let lines = witness.text.split(separator: "\n").map { $0.split(separator: " ").map(String.init) }
      let topics = Set(lines.map { $0[0] })
      #expect(
        topics.contains("fleet/ward-3/\(session)/ppg") && topics.contains("fleet/ward-3/\(session)/end"))
      #expect(topics.contains("fleet/ward-3/status"))
      #expect(lines.allSatisfy { $0[1] == "1" }, "QoS 1 all: \(lines)")
      // Messages that the broker retains for later subscribers.
      let retained = try Running(
        "mosquitto_sub",
        ["-p", "\(broker.port)", "-t", "fleet/#", "-C", "1", "-W", "10", "-F", "%t %r %p"], in: folder)
      #expect(try await retained.status("the witness") == 0)
      #expect(
        retained.text.hasPrefix("fleet/ward-3/status 1 {\"version\":1,\"state\":\"ended\""),
        "\(retained.text)")
      // The collected folder can be read like a local capture.
      let path = folder + "/collected/ward-3/" + session
      let page = try await Ringtap.run(["report", path])
      #expect(page.status == 0, "\(page.errorLines)")
      let arrays = try await Ringtap.run([
        "convert", path, "--to", "npy", "--output", folder + "/arrays",
      ])
      #expect(arrays.status == 0, "\(arrays.errorLines)")
    }
  }

  /// The broker is killed twice and loses its state each time.
  @Test func nothingIsLostOverABrokerRestart() async throws {
    try await withFolder { folder in
      let broker = try MosquittoBroker(in: folder)
      try await broker.start()
      let collect = try Running(Self.collect(broker, folder, ["--sessions", "1"]), in: folder)
      try await eventually("it collects") { collect.said.contains("collecting from") }
      let capture = try Running(Self.capture(folder, count: 2700, ["--to", broker.url]), in: folder)
      for restart in 1...2 {
        let seen = restart * 500
        try await eventually("\(seen) rows are collected") { Self.collectedRows(folder) >= seen }
        await broker.kill()
        let before = Self.recordedRows(folder)
        try await eventually("the capture continues without a broker") {
          Self.recordedRows(folder) > before + 100
        }
        try await broker.start()
      }
      #expect(try await capture.status("capture") == 0, "\(capture.said)")
      #expect(try await collect.status("collect") == 0, "\(collect.said)")
      let rows = try expectCollected(folder + "/walk", in: folder + "/collected")
      let report = try Self.report(collect)
      #expect(report.received == rows && report.missing == 0 && report.connections == 3)
      print(
        "broker killed twice: \(rows) rows recorded, \(report.received) received, \(rows - report.received) lost, "
          + "\(report.duplicated) duplicated and recognised, "
          + "\(report.sessions[0].tables.reduce(0) { $0 + $1.requests }) asked for again")
    }
  }

  private static func collectedRows(_ folder: String) -> Int {
    let names = (try? FileManager.default.subpathsOfDirectory(atPath: folder + "/collected")) ?? []
    return names.filter { $0.hasSuffix(".csv") }.reduce(0) {
      $0 + rows(folder + "/collected/" + $1).count - 1
    }
  }

  private static func recordedRows(_ folder: String) -> Int {
    Files.names(in: folder + "/walk").filter { $0.hasSuffix(".csv") }.reduce(0) {
      $0 + max(0, rows(folder + "/walk/" + $1).count - 1)
    }
  }

  /// The publisher is killed. The last rows stay in their tables and are sent later.
  @Test func aKilledPublisherGoesOn() async throws {
    try await withFolder { folder in
      let broker = try MosquittoBroker(in: folder)
      try await broker.start()
      let collect = try Running(Self.collect(broker, folder, ["--sessions", "1"]), in: folder)
      try await eventually("it collects") { collect.said.contains("collecting from") }
      let capture = try Running(Self.capture(folder, count: 100_000, ["--to", broker.url]), in: folder)
      try await eventually("rows are collected") { Self.collectedRows(folder) >= 300 }
      try await capture.kill()
      let publish = try Running(["publish", folder + "/walk", broker.url, "--json"], in: folder)
      #expect(try await publish.status("publish") == 0, "\(publish.said)")
      #expect(publish.text.contains(#""isConfirmed":true"#))
      #expect(try await collect.status("collect") == 0, "\(collect.said)")
      try expectCollected(folder + "/walk", in: folder + "/collected")
      #expect(try Self.report(collect).missing == 0)
    }
  }

  /// A collector is killed while collecting and gets what it missed after a restart. A new collector then
  /// gets everything.
  @Test func aKilledCollectorGoesOn() async throws {
    try await withFolder { folder in
      let broker = try MosquittoBroker(in: folder)
      try await broker.start()
      let first = try Running(Self.collect(broker, folder, []), in: folder)
      try await eventually("it collects") { first.said.contains("collecting from") }
      let capture = try Running(Self.capture(folder, count: 1500, ["--to", broker.url]), in: folder)
      try await eventually("rows are collected") { Self.collectedRows(folder) >= 300 }
      try await first.kill()
      let before = Self.recordedRows(folder)
      try await eventually("the capture continues") { Self.recordedRows(folder) > before + 300 }
      let second = try Running(Self.collect(broker, folder, ["--sessions", "1"]), in: folder)
      #expect(try await capture.status("capture") == 0, "\(capture.said)")
      #expect(try await second.status("collect") == 0, "\(second.said)")
      try expectCollected(folder + "/walk", in: folder + "/collected")
      #expect(try Self.report(second).missing == 0)

      let third = try Running(
        ["collect", broker.url, "-o", folder + "/late", "--name", "late", "--sessions", "1"], in: folder)
      try await eventually("it collects") { third.said.contains("collecting from") }
      // Everything is acknowledged. For a late collector, the end of the session tells how many rows there
      // are.
      let again = try await Ringtap.run(["publish", folder + "/walk", broker.url])
      #expect(again.status == 0, "\(again.errorLines)")
      #expect(try await third.status("collect") == 0, "\(third.said)")
      try expectCollected(folder + "/walk", in: folder + "/late")
    }
  }

  @Test func severalPublishersAtOnce() async throws {
    try await withFolder { folder in
      let broker = try MosquittoBroker(in: folder)
      try await broker.start()
      let collect = try Running(Self.collect(broker, folder, ["--sessions", "5"]), in: folder)
      try await eventually("it collects") { collect.said.contains("collecting from") }
      let capture = try Running(
        [
          "capture", "--transport", "virtual:ring,devices=5,rate=100", "--rings", "5", "--duration", "5",
          "--output",
          folder + "/group", "--to", broker.url,
        ], in: folder)
      #expect(try await capture.status("capture") == 0, "\(capture.said)")
      #expect(try await collect.status("collect") == 0, "\(collect.said)")
      let captures = Files.names(in: folder + "/group").filter { !$0.hasPrefix(".") }
      #expect(captures.count == 5)
      var rows = 0
      for name in captures {
        rows += try expectCollected(folder + "/group/" + name, in: folder + "/collected")
      }
      let report = try Self.report(collect)
      #expect(report.received == rows && report.missing == 0 && report.sessions.count == 5)
    }
  }
}

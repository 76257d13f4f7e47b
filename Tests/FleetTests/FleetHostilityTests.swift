import BLELinux
import BLEWire
import Foundation
import TestKit
import Testing

@testable import Fleet

/// Hostile or unexpected publishers and subscribers, at a real broker.
@Suite(.timeLimit(.minutes(2))) struct FleetHostilityTests {
  private struct Report: Decodable {
    struct Refusals: Decodable {
      var publisher: String?
      var reason: String
      var count: Int
    }
    var received, refused, refusalsForgotten, setAside: Int
    var refusals: [Refusals]
  }

  private static func collect(_ url: String, _ folder: String, sessions: Int = 1) async throws -> Running {
    let run = try Running(
      [
        "collect", url, "--output", folder + "/collected", "--name", "test", "--sessions", "\(sessions)",
        "--json",
      ],
      in: folder)
    try await eventually("it collects") { run.said.contains("collecting from") }
    return run
  }

  private static func capture(_ folder: String, _ url: String, _ patience: String) async throws -> (
    status: Int32, said: String
  ) {
    let run = try Running(
      [
        "capture", "--transport", "virtual:ring,rate=300", "--count", "90", "--output", folder + "/walk",
        "--to", "\(url)?name=honest&patience=\(patience)",
      ], in: folder)
    return (try await run.status("capture"), run.said)
  }

  /// Number of rows in all tables of the capture, read from its files.
  private static func recorded(_ folder: String) -> Int {
    Files.names(in: folder + "/walk").filter { $0.hasSuffix(".csv") }
      .reduce(0) { $0 + rows(folder + "/walk/" + $1).count - 1 }
  }

  /// A broker acknowledges messages if anything is subscribed. That does not prove that a collector has the
  /// rows.
  @Test func aSubscriberIsNoCollector() async throws {
    try await withFolder { folder in
      let broker = try MosquittoBroker(in: folder)
      try await broker.start()
      let witness = try Running(
        "mosquitto_sub", ["-p", "\(broker.port)", "-V", "5", "-q", "1", "-t", "#", "-F", "%t"], in: folder)
      // Messages that it gets prove that it is subscribed.
      let marks = try Running(
        "/bin/bash",
        [
          "-c",
          "while mosquitto_pub -p \(broker.port) -q 1 -V 5 -t mark -m x; do read -t 0.1 < /dev/zero; done",
        ], in: folder)
      try await eventually("somebody is subscribed") { witness.text.contains("mark") }
      try await marks.kill()
      let (status, said) = try await Self.capture(folder, broker.url, "3")
      let count = Self.recorded(folder)
      #expect(status == 4, "\(said)")
      #expect(witness.text.contains("fleet/honest/"))
      #expect(said.contains("has all rows; waiting for a collector to confirm them, 3 s at most"), "\(said)")
      #expect(said.contains("no collector confirmed what was sent; start `ringtap collect \(broker.url)"))
      #expect(said.contains("not confirmed: \(count) rows, "), "\(count): \(said)")
      let cursor = try #require(try PublishCursor.read(in: folder + "/walk"))
      #expect(!cursor.isComplete && cursor.tables.values.allSatisfy { $0.rows == 0 }, "\(cursor)")
      // A second run does not trust it either.
      let again = try await Ringtap.run(["publish", folder + "/walk", broker.url, "--patience", "1"])
      #expect(again.status == 4, "\(again.errorLines)")
      // The status says that the publisher has ended.
      let status5 = try Running(
        "mosquitto_sub",
        ["-p", "\(broker.port)", "-t", "fleet/honest/status", "-C", "1", "-W", "10", "-F", "%p"], in: folder)
      #expect(try await status5.status("the status") == 0)
      #expect(status5.text.contains(#""state":"offline""#), "\(status5.text)")

      let collect = try await Self.collect(broker.url, folder)
      let last = try await Ringtap.run(["publish", folder + "/walk", broker.url, "--json"])
      #expect(last.status == 0, "\(last.errorLines)")
      #expect(
        last.outputLines.joined().contains(#""confirmed":\#(count),"waiting":0"#), "\(last.outputLines)")
      #expect(try await collect.status("collect") == 0, "\(collect.said)")
      #expect(try expectCollected(folder + "/walk", in: folder + "/collected") == count)
      #expect(try PublishCursor.read(in: folder + "/walk")?.isComplete == true)
    }
  }

  /// Two messages of 200 MB: the broker does not forward them, and an honest publisher is collected
  /// meanwhile.
  @Test func hugeMessagesNeverArrive() async throws {
    try await withFolder { folder in
      let broker = try MosquittoBroker(in: folder)
      try await broker.start()
      // One session more than there are, so that it runs until its memory has been read.
      let collect = try await Self.collect(broker.url, folder, sessions: 2)
      let huge = folder + "/huge"
      #expect(FileManager.default.createFile(atPath: huge, contents: Data(count: 200_000_000)))
      for _ in 0..<2 {
        let evil = try Running(
          "mosquitto_pub",
          ["-p", "\(broker.port)", "-V", "5", "-q", "1", "-t", "fleet/evil/s/ppg", "-f", huge], in: folder)
        #expect(try await evil.status("the broker received it") == 0)
      }
      let (status, said) = try await Self.capture(folder, broker.url, "10")
      #expect(status == 0, "\(said)")
      let peak = try #require(collect.peakKilobytes)
      #expect(peak < 64 * 1024, "\(peak) kB")
      collect.signal(SIGINT)
      #expect(try await collect.status("collect") == 0, "\(collect.said)")
      try expectCollected(folder + "/walk", in: folder + "/collected")
    }
  }

  /// The first refusal is printed at once; the report lists all of them by publisher.
  @Test func refusalsAreToldAsTheyCome() async throws {
    try await withFolder { folder in
      let broker = try MosquittoBroker(in: folder)
      try await broker.start()
      let collect = try await Self.collect(broker.url, folder)
      for (publisher, count) in [("evil", 3), ("worse", 1)] {
        let pub = try Running(
          "mosquitto_pub",
          [
            "-p", "\(broker.port)", "-V", "5", "-q", "1", "-t", "fleet/\(publisher)/s/ppg", "-m", "junk",
            "--repeat",
            "\(count)",
          ], in: folder)
        #expect(try await pub.status("the broker received it") == 0)
      }
      try await eventually("it tells") { collect.said.contains("refused: fleet/evil/s/ppg") }
      #expect(try await Self.capture(folder, broker.url, "10").status == 0)
      #expect(try await collect.status("collect") == 0, "\(collect.said)")
      #expect(collect.said.split(separator: "\n").count { $0.contains("refused") } == 1, "\(collect.said)")
      let report = try JSONDecoder().decode(Report.self, from: Data(collect.text.utf8))
      #expect(report.refusals.map(\.publisher) == ["evil", "worse"])
      #expect(report.refusals.map(\.count) == [3, 1])
      #expect(report.refusals.allSatisfy { $0.reason == "malformed" })
      #expect(report.refused == 4 && report.refusalsForgotten == 0 && report.setAside == 0)
    }
  }

  /// A broker from before MQTT 5. It answers a CONNECT of level 5 with "unacceptable protocol version" (MQTT
  /// 3.1.1, 3.1.4) and forwards everything else.
  private static let oldBroker = """
    import socket, sys, threading
    port, behind = map(int, sys.argv[1:])
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen()
    def copy(a, b):
        try:
            while octets := a.recv(65536): b.sendall(octets)
        except OSError: pass
        for s in (a, b):
            try: s.shutdown(socket.SHUT_RDWR)
            except OSError: pass
    while True:
        client = listener.accept()[0]
        first = client.recv(65536)
        at = first.find(b"MQTT")
        if at < 0:
            client.close()
        elif first[at + 4] > 4:
            client.sendall(b"\\x20\\x02\\x00\\x01")
            client.close()
        else:
            server = socket.create_connection(("127.0.0.1", behind))
            server.sendall(first)
            for pair in ((client, server), (server, client)):
                threading.Thread(target=copy, args=pair, daemon=True).start()
    """

  @Test func anOlderBrokerWillDoWithAWarning() async throws {
    try await withFolder { folder in
      let broker = try MosquittoBroker(in: folder)
      try await broker.start()
      let port = try freePort()
      try Self.oldBroker.write(toFile: folder + "/old.py", atomically: true, encoding: .utf8)
      let old = try Running(
        "/usr/bin/python3", [folder + "/old.py", "\(port)", "\(broker.port)"], in: folder)
      try await eventually("it listens") { canConnect(port) }
      let url = "mqtt://127.0.0.1:\(port)/fleet"
      let collect = try await Self.collect(url, folder)
      let (status, said) = try await Self.capture(folder, url, "10")
      #expect(status == 0, "\(said)")
      #expect(try await collect.status("collect") == 0, "\(collect.said)")
      try expectCollected(folder + "/walk", in: folder + "/collected")
      for said in [said, collect.said] {
        #expect(
          said.contains("does not support MQTT 5")
            && said.contains("cannot keep messages of up to 256 MB out"),
          "\(said)")
      }
      try await old.kill()
    }
  }
}

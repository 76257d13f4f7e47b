import BLELinux
import BLEWire
import Foundation
import Synchronization
import TestKit
import Testing

@testable import Daemon
@testable import Fleet

/// A daemon whose broker is unavailable from time to time.
@Suite(.timeLimit(.minutes(2))) struct DaemonPublishTests {
  private struct Status: Decodable {
    struct Publishing: Decodable {
      var broker: String
      var acknowledgedRows, confirmedRows, waitingRows, capturesBehind: Int
    }
    var publishing: Publishing
  }

  private static func captures(_ folder: String) -> [String] {
    Files.names(in: folder + "/captures/left").filter { !$0.hasPrefix(".") }.sorted()
      .map { "\(folder)/captures/left/\($0)" }
  }

  private static func rows(in directories: [String]) -> Int {
    directories.flatMap { directory in
      Files.names(in: directory).filter { $0.hasSuffix(".csv") }.map {
        TestKit.rows(directory + "/" + $0)
      }
    }.reduce(0) { $0 + max(0, $1.count - 1) }
  }

  private static func collected(_ folder: String) -> Int {
    let publisher = folder + "/collected/ward-left"
    return rows(in: Files.names(in: publisher).filter { !$0.hasPrefix(".") }.map { publisher + "/" + $0 })
  }

  /// Captures recorded while the broker was away are collected later, even if the daemon was restarted in
  /// between.
  @Test func sendsWhatAnEarlierDaemonCouldNot() async throws {
    try await withFolder { folder in
      let broker = try MosquittoBroker(in: folder)
      try await broker.start()
      let (file, socket) = (folder + "/ringtap.json", folder + "/status")
      try """
      {"directory": "\(folder)/captures", "statusSocket": "\(socket)",
       "radio": {"transport": "virtual:ring,rate=300"},
       "publish": {"to": "\(broker.url)", "as": "ward"},
       "devices": [{"name": "left", "address": "70:CB:0D:00:A1:B2", "sensor": "ring"}]}
      """.write(toFile: file, atomically: true, encoding: .utf8)
      let collect = try Running(
        ["collect", broker.url, "--output", folder + "/collected", "--name", "test", "--sessions", "2"],
        in: folder)
      try await eventually("it collects") { collect.said.contains("collecting from") }

      let first = try Running(["daemon", file], in: folder)
      try await eventually("rows are collected") { Self.collected(folder) >= 300 }
      await broker.kill()
      let before = Self.rows(in: Self.captures(folder))
      try await eventually("it records without a broker") {
        Self.rows(in: Self.captures(folder)) > before + 300
      }
      first.signal(SIGTERM)
      #expect(try await first.status("the first daemon") == 0, "\(first.said)")
      let early = try #require(Self.captures(folder).first)
      #expect(try PublishCursor.read(in: early)?.isComplete == false)

      try await broker.start()
      let second = try Running(["daemon", file], in: folder)
      try await eventually("the first capture is whole") { second.said.contains("\(early) was published, ") }
      // The cursor is written every 30 s only, so the daemon is asked.
      var publishing: Status.Publishing
      repeat {
        let status = try await Ringtap.run(["status", "--socket", socket, "--json"])
        publishing = try JSONDecoder().decode(Status.self, from: Data(status.outputLines.joined().utf8))
          .publishing
      } while publishing.confirmedRows == 0
      #expect(publishing.broker == broker.url && publishing.capturesBehind == 0)
      #expect(publishing.acknowledgedRows >= publishing.confirmedRows)
      #expect(publishing.waitingRows >= 0)
      second.signal(SIGTERM)
      #expect(try await second.status("the second daemon") == 0, "\(second.said)")
      #expect(try await collect.status("collect") == 0, "\(collect.said)")

      #expect(Self.captures(folder).count == 2)
      for capture in Self.captures(folder) {
        try expectCollected(capture, in: folder + "/collected")
        #expect(try PublishCursor.read(in: capture)?.isComplete == true)
      }
    }
  }

  /// A daemon's state as the publisher sees it: its finished captures and its messages.
  private final class Shelf: Sendable {
    private struct State {
      var paths: [String]
      var looks = 0
      var notes: [String] = []
    }
    private let state: Mutex<State>

    init(_ paths: [String]) { state = Mutex(State(paths: paths)) }

    var looks: Int { state.withLock { $0.looks } }
    var notes: [String] { state.withLock { $0.notes } }
    func add(_ path: String) { state.withLock { $0.paths.append(path) } }
    func note(_ text: String) { state.withLock { $0.notes.append(text) } }
    func tells(_ words: String...) -> Bool {
      notes.contains { note in words.allSatisfy(note.contains) }
    }

    func look() -> [DaemonCapture] {
      state.withLock { state in
        state.looks += 1
        return state.paths.map {
          DaemonCapture(device: "left", path: $0, begunAt: ReceiveTime(nanoseconds: 0), isOpen: false)
        }
      }
    }
  }

  /// A capture that started and ended between two checks is sent. One that was never published is not. One
  /// whose files are damaged does not delay the others.
  @Test func sendsWhatItNeverSawWritten() async throws {
    try await withFolder { folder in
      let broker = try MosquittoBroker(in: folder)
      try await broker.start()
      let paths = ["old", "damaged", "short"].map { "\(folder)/\($0)" }
      for path in paths {
        let result = try await Ringtap.run(
          ["capture", "--transport", "virtual:ring", "--count", "60", "--output", path])
        try #require(result.status == 0)
      }
      let whole = "was published, \(Self.rows(in: [paths[0]])) rows"
      try "{".write(toFile: paths[1] + "/publish.json", atomically: true, encoding: .utf8)
      let collect = try Running(
        ["collect", broker.url, "--output", folder + "/collected", "--name", "test", "--sessions", "2"],
        in: folder)
      try await eventually("it collects") { collect.said.contains("collecting from") }

      let shelf = Shelf(Array(paths[..<2]))
      var plan = PublishRun.Plan(try BrokerAddress(broker.url))
      plan.name = "ward"
      let publisher = DaemonPublisher(plan) { shelf.note($0) }
      let run = Task { await publisher.run { shelf.look() } }
      try await eventually("it has looked") { shelf.looks >= 2 }
      shelf.add(paths[2])
      try await eventually("the damaged file is told") {
        shelf.tells(paths[1], "publish.json is damaged; remove it")
      }
      try await eventually("the next one is whole") { shelf.tells(paths[2], whole) }
      try FileManager.default.removeItem(atPath: paths[1] + "/publish.json")
      try await eventually("the mended one is whole") { shelf.tells(paths[1], whole) }
      run.cancel()
      await run.value
      #expect(try await collect.status("collect") == 0, "\(collect.said)")
      for path in paths[1...] { try expectCollected(path, in: folder + "/collected") }
      #expect(!Files.exists(paths[0] + "/publish.json"))
      #expect(shelf.notes.count == 3, "each is told once: \(shelf.notes)")
    }
  }

  /// Every configuration error is reported with its line before anything is recorded.
  @Test(arguments: [
    (#"{"as": "ward"}"#, "csv", #":2: "to" is missing: the broker"#),
    (#"{"to": "http://broker"}"#, "csv", ":2: publish: "),
    (#"{"to": "mqtt://broker", "as": "ward/3"}"#, "csv", "'ward/3' is not a name"),
    (#"{"to": "mqtt://broker", "topic": "x"}"#, "csv", #":2: unknown key "topic""#),
    (#"{"to": "mqtt://broker"}"#, "npy", ":4: format must be csv: only text tables can be published"),
  ])
  func refuses(_ publish: String, _ format: String, _ message: String) async throws {
    try await withFolder { folder in
      let file = folder + "/ringtap.json"
      try """
      {"directory": "\(folder)/captures",
       "publish": \(publish),
       "devices": [{"name": "left", "address": "70:CB:0D:00:A1:B2", "sensor": "ring",
         "format": "\(format)"}]}
      """.write(toFile: file, atomically: true, encoding: .utf8)
      let result = try await Ringtap.run(["daemon", "--check", file])
      #expect(
        result.status == 1 && result.errorLines.contains { $0.contains(message) }, "\(result.errorLines)")
    }
  }
}

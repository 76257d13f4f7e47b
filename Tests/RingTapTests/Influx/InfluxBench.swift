import Foundation
import TestKit
import Testing

/// A real VictoriaMetrics database for one test, with its data in a folder.
final class VictoriaMetrics {
  /// One exported series.
  struct Series: Decodable {
    var metric: [String: String]
    var values: [Double?]
    /// Milliseconds since the Unix epoch.
    var timestamps: [Int64]
  }

  let port: Int
  private let folder: String
  private var program: Program?

  init(in folder: String) async throws {
    (port, self.folder) = (try freePort(), folder + "/database")
    try await start()
  }

  deinit { program?.send(SIGKILL) }

  var address: String { "http://127.0.0.1:\(port)" }
  var writeURL: String { address + "/write" }

  /// Starts the database and waits until it listens.
  func start() async throws {
    program = try Program(
      Place.tool("victoria-metrics"),
      [
        "-storageDataPath=\(folder)", "-httpListenAddr=127.0.0.1:\(port)", "-retentionPeriod=100y",
        "-search.latencyOffset=0s",
      ], input: .nothing)
    try await eventually("it listens") { [port] in canConnect(port) }
  }

  /// Ends the database with SIGTERM. SIGKILL would lose data that it has accepted but not written yet.
  func stop() async throws {
    program?.send(SIGTERM)
    _ = try await program?.ended(within: .seconds(60))
    program = nil
  }

  /// Returns the response to a request.
  @discardableResult func request(_ path: String, _ options: [String] = []) async throws -> String {
    let run = try await Program.run("curl", ["-sS", "--fail", "-g"] + options + [address + path])
    #expect(run.status == 0, "\(path): \(run.errors)")
    return run.output
  }

  /// Waits until the database returns `count` values of one name for a device, then returns all of them. It
  /// returns values only some time after it accepted them.
  func export(_ name: String, count: Int) async throws -> [Series] {
    try await eventually("\(name) has \(count) values") {
      (try await export(name).first?.values.count ?? 0) >= count
    }
    return try await export(name)
  }

  /// Returns the values of one name that the database returns now.
  func export(_ name: String) async throws -> [Series] {
    try await request("/internal/force_flush")
    return try await request("/api/v1/export?match[]=\(name)").split(separator: "\n").map {
      try JSONDecoder().decode(Series.self, from: Data($0.utf8))
    }
  }
}

/// `Readers/endpoint.py`: a server that answers HTTP posts as instructed.
final class Endpoint {
  struct Post: Decodable {
    var answer, path: String
    var query: [String: String]
    var authorization: String?
    var lines: Int
    /// Seconds since the Unix epoch.
    var time: Double
  }

  let port: Int
  private let folder: String
  private var program: Running?

  /// - Parameter answers: status for each successive post.
  init(in folder: String, _ answers: String...) async throws {
    (port, self.folder) = (try freePort(), folder)
    try await start(answers)
  }

  func start(_ answers: [String] = ["204"]) async throws {
    program = try Running(
      Place.readersPython(),
      [Place.fixture("RingTapTests/Readers/endpoint.py"), "\(port)", folder + "/taken"] + answers, in: folder)
    try await eventually("it listens") { [port] in canConnect(port) }
  }

  /// Kills the server at once.
  func kill() async throws {
    try await program?.kill()
    program = nil
  }

  /// Answers the requests that the server has held back.
  func release() throws { try "".write(toFile: folder + "/taken.go", atomically: true, encoding: .utf8) }

  var url: String { "http://127.0.0.1:\(port)/write" }

  var posts: [Post] {
    get throws {
      let text = program?.text ?? ""
      guard let end = text.lastIndex(of: "\n") else { return [] }
      return try text[..<end].split(separator: "\n").map {
        try JSONDecoder().decode(Post.self, from: Data($0.utf8))
      }
    }
  }

  /// Lines that the server accepted, without duplicates.
  var lines: Set<String> { Set(rows(folder + "/taken")) }
}

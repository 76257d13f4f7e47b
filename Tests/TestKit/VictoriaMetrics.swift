import Foundation
import Testing

/// A real VictoriaMetrics database for one test, with its data in a folder.
package final class VictoriaMetrics {
  /// One exported series.
  package struct Series: Decodable {
    package var metric: [String: String]
    package var values: [Double?]
    /// Milliseconds since the Unix epoch.
    package var timestamps: [Int64]
  }

  package let port: Int
  private let folder: String
  private var program: Program?

  package init(in folder: String) async throws {
    (port, self.folder) = (try freePort(), folder + "/database")
    try await start()
  }

  deinit { program?.send(SIGKILL) }

  package var address: String { "http://127.0.0.1:\(port)" }
  package var writeURL: String { address + "/write" }

  /// Starts the database and waits until it listens.
  package func start() async throws {
    program = try Program(
      Place.tool("victoria-metrics"),
      [
        "-storageDataPath=\(folder)", "-httpListenAddr=127.0.0.1:\(port)", "-retentionPeriod=100y",
        "-search.latencyOffset=0s",
      ], input: .nothing)
    try await eventually("it listens") { [port] in canConnect(port) }
  }

  /// Ends the database with SIGTERM. SIGKILL would lose data that it has accepted but not written yet.
  package func stop() async throws {
    program?.send(SIGTERM)
    _ = try await program?.ended(within: .seconds(60))
    program = nil
  }

  /// Returns the response to a request.
  @discardableResult package func request(_ path: String, _ options: [String] = []) async throws -> String {
    let run = try await Program.run("curl", ["-sS", "--fail", "-g"] + options + [address + path])
    #expect(run.status == 0, "\(path): \(run.errors)")
    return run.output
  }

  /// Waits until the database returns `count` values of one name for a device, then returns all of them. It
  /// returns values only some time after it accepted them.
  package func export(_ name: String, count: Int) async throws -> [Series] {
    try await eventually("\(name) has \(count) values") {
      (try await export(name).first?.values.count ?? 0) >= count
    }
    return try await export(name)
  }

  /// Returns the values of one name that the database returns now.
  package func export(_ name: String) async throws -> [Series] {
    try await request("/internal/force_flush")
    return try await request("/api/v1/export?match[]=\(name)").split(separator: "\n").map {
      try JSONDecoder().decode(Series.self, from: Data($0.utf8))
    }
  }
}

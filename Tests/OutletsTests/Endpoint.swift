import Foundation
import TestKit
import Testing

/// `Tests/Readers/endpoint.py`: a server that answers HTTP posts as instructed.
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
    try? FileManager.default.removeItem(atPath: folder + "/taken.posts")
    program = try Running(
      Place.readersPython(),
      [Place.fixture("Readers/endpoint.py"), "\(port)", folder + "/taken"] + answers, in: folder)
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

  /// The posts since the start, each from before it was answered.
  var posts: [Post] {
    get throws {
      try rows(folder + "/taken.posts").map { try JSONDecoder().decode(Post.self, from: Data($0.utf8)) }
    }
  }

  /// Lines that the server accepted, without duplicates.
  var lines: Set<String> { Set(rows(folder + "/taken")) }
}

import Foundation
import Testing

/// A real Mosquitto broker for one test, with its configuration and its database in a folder.
package final class MosquittoBroker {
  package let port: Int
  package let folder: String
  private var program: Program?
  private let isEncrypted: Bool

  /// - Parameter lines: configuration lines in addition to those that every broker has.
  package init(in folder: String, isEncrypted: Bool = false, _ lines: [String] = ["allow_anonymous true"])
    throws
  {
    self.folder = folder + "/broker"
    self.isEncrypted = isEncrypted
    port = try freePort()
    try FileManager.default.createDirectory(atPath: self.folder, withIntermediateDirectories: true)
    // As root, Mosquitto would switch to another user, who may not write here.
    let configuration = [
      "user root", "persistence true", "persistence_location \(self.folder)/", "max_queued_messages 0",
      "listener \(port) 127.0.0.1", "set_tcp_nodelay true",
    ]
    try ((configuration + lines).joined(separator: "\n") + "\n").write(
      toFile: self.folder + "/mosquitto.conf", atomically: true, encoding: .utf8)
  }

  /// Starts the broker and waits until it listens.
  package func start() async throws {
    program = try Program(Place.tool("mosquitto"), ["-c", folder + "/mosquitto.conf"], input: .nothing)
    try await eventually("the broker listens") { [port] in canConnect(port) }
  }

  /// Kills the broker before it can save its state, like a power failure.
  package func kill() async {
    await program?.end()
    program = nil
  }

  /// Sends a signal, such as SIGSTOP, after which the broker keeps its connections but does not respond.
  package func signal(_ number: Int32) { program?.send(number) }

  deinit { program?.send(SIGKILL) }

  package var url: String { "\(isEncrypted ? "mqtts" : "mqtt")://127.0.0.1:\(port)/fleet" }
}

import BLELinux
import Foundation
import TestKit
import Testing

@testable import Fleet

/// A real Mosquitto broker for one test, with its configuration and its database in a folder.
final class MosquittoBroker {
  let port: Int
  let folder: String
  private var program: Program?
  private let isEncrypted: Bool

  /// - Parameter lines: configuration lines in addition to those that every broker has.
  init(in folder: String, isEncrypted: Bool = false, _ lines: [String] = ["allow_anonymous true"]) throws {
    self.folder = folder + "/broker"
    self.isEncrypted = isEncrypted
    port = try freePort()
    try Files.createDirectory(self.folder)
    // As root, Mosquitto would switch to another user, who may not write here.
    let configuration = [
      "user root", "persistence true", "persistence_location \(self.folder)/", "max_queued_messages 0",
      "listener \(port) 127.0.0.1", "set_tcp_nodelay true",
    ]
    try ((configuration + lines).joined(separator: "\n") + "\n").write(
      toFile: self.folder + "/mosquitto.conf", atomically: true, encoding: .utf8)
  }

  /// Starts the broker and waits until it listens.
  func start() async throws {
    program = try Program(Place.tool("mosquitto"), ["-c", folder + "/mosquitto.conf"], input: .nothing)
    try await eventually("the broker listens") { [port] in canConnect(port) }
  }

  /// Kills the broker before it can save its state, like a power failure.
  func kill() async {
    await program?.end()
    program = nil
  }

  /// Sends a signal, such as SIGSTOP, after which the broker keeps its connections but does not respond.
  func signal(_ number: Int32) { program?.send(number) }

  deinit { program?.send(SIGKILL) }

  var url: String { "\(isEncrypted ? "mqtts" : "mqtt")://127.0.0.1:\(port)/fleet" }
}

/// A program, `ringtap` or another, that runs during the test.
final class Running: Sendable {
  private let program: Program

  init(_ program: String, _ arguments: [String], in folder: String, environment: [String: String] = [:])
    throws
  {
    let environment = ["XDG_STATE_HOME": folder].merging(environment) { $1 }
    self.program = try Program(
      program, arguments, input: .nothing, environment: environment.mapValues { $0 })
  }

  /// Starts `ringtap` with these arguments.
  convenience init(
    _ arguments: [String], in folder: String, environment: [String: String] = [:]
  ) throws {
    try self.init(Place.ringtap, arguments, in: folder, environment: environment)
  }

  deinit { signal(SIGKILL) }

  func signal(_ number: Int32) { program.send(number) }

  /// Peak resident memory in KiB.
  var peakKilobytes: Int? {
    let status = try? String(contentsOfFile: "/proc/\(program.identifier)/status", encoding: .utf8)
    return status?.firstMatch(of: /VmHWM:\s+(\d+) kB/).flatMap { Int($0.1) }
  }

  var text: String { program.output }
  var said: String { program.errors }

  /// Waits for the program to end and returns its exit status.
  func status(_ name: String, within limit: Duration = .seconds(60)) async throws -> Int32 {
    try await program.ended(within: limit).status
  }

  func kill() async throws { await program.end() }
}

private func loopback(_ port: Int) -> sockaddr_in {
  var address = sockaddr_in()
  address.sin_family = sa_family_t(AF_INET)
  address.sin_port = in_port_t(port).bigEndian
  address.sin_addr.s_addr = in_addr_t(0x7F00_0001).bigEndian
  return address
}

func canConnect(_ port: Int) -> Bool {
  let number = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
  defer { close(number) }
  var address = loopback(port)
  return withUnsafePointer(to: &address) { pointer in
    pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
      connect(number, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
    }
  }
}

/// Expects the collected tables to equal those of a capture, byte for byte.
///
/// - Returns: Number of rows in all tables.
@discardableResult func expectCollected(_ capture: String, in folder: String) throws -> Int {
  let cursor = try #require(try PublishCursor.read(in: capture))
  let collected = "\(folder)/\(cursor.publisher)/\(cursor.session)"
  let tables = Files.names(in: capture).filter { $0.hasSuffix(".csv") }
  #expect(!tables.isEmpty)
  #expect(tables.sorted() == Files.names(in: collected).filter { $0.hasSuffix(".csv") }.sorted())
  for table in tables {
    #expect(contents(capture + "/" + table) == contents(collected + "/" + table), "\(table)")
  }
  #expect(contents(capture + "/session.json") == contents(collected + "/session.json"))
  return tables.reduce(0) { $0 + rows(capture + "/" + $1).count - 1 }
}

import BLESystem
import Foundation
import Synchronization
import Testing

@testable import RingTap

/// A real Mosquitto of the test's own, with its configuration and its memory in a folder.
final class MosquittoBroker {
  static let path: String? = ["/usr/sbin/mosquitto", "/usr/local/sbin/mosquitto"].first {
    FileManager.default.isExecutableFile(atPath: $0)
  }
  static var isThere: Bool { path != nil && isInstalled("mosquitto_sub") && RingtapProgram.file != nil }

  let port: Int
  let folder: String
  private var process: Process?
  private let isEncrypted: Bool

  /// - Parameter lines: of the configuration, besides those for everybody.
  init(in folder: String, isEncrypted: Bool = false, _ lines: [String] = ["allow_anonymous true"]) throws {
    self.folder = folder + "/broker"
    self.isEncrypted = isEncrypted
    port = try freePort()
    try Files.createDirectory(self.folder)
    // As root it would become another user, who may not write here.
    let configuration = [
      "user root", "persistence true", "persistence_location \(self.folder)/", "max_queued_messages 0",
      "listener \(port) 127.0.0.1", "set_tcp_nodelay true",
    ]
    try ((configuration + lines).joined(separator: "\n") + "\n").write(
      toFile: self.folder + "/mosquitto.conf", atomically: true, encoding: .utf8)
  }

  /// Starts it, and waits until it listens.
  func start() async throws {
    let process = Process()
    process.executableURL = URL(filePath: Self.path ?? "/usr/sbin/mosquitto")
    process.arguments = ["-c", folder + "/mosquitto.conf"]
    let log = folder + "/log"
    if !Files.exists(log) { try Data().write(to: URL(filePath: log)) }
    let handle = try #require(FileHandle(forUpdatingAtPath: log))
    try handle.seekToEnd()
    process.standardError = handle
    process.standardOutput = handle
    try process.run()
    self.process = process
    try await eventually("the broker listens") { [port] in canConnect(port) }
  }

  /// Ends it at once, as a power failure does: it saves nothing.
  func kill() {
    guard let process else { return }
    Foundation.kill(process.processIdentifier, SIGKILL)
    process.waitUntilExit()
    self.process = nil
  }

  deinit { kill() }

  var url: String { "\(isEncrypted ? "mqtts" : "mqtt")://127.0.0.1:\(port)/fleet" }
}

/// A program of ours, or another, that runs beside the test.
final class Running: @unchecked Sendable {
  // The process is touched by the test alone.
  private let process = Process()
  private let ended = Mutex(false)
  let output: String
  let messages: String

  init(_ executable: URL, _ arguments: [String], in folder: String, environment: [String: String] = [:])
    throws
  {
    let name = "\(folder)/\(UUID().uuidString)"
    (output, messages) = (name + ".out", name + ".err")
    for path in [output, messages] { try Data().write(to: URL(filePath: path)) }
    process.executableURL = executable
    process.arguments = arguments
    process.environment = ProcessInfo.processInfo.environment.merging(
      environment.merging(["RINGTAP_NO_REMEMBER": "1", "XDG_STATE_HOME": folder]) { $1 }
    ) { $1 }
    process.standardOutput = FileHandle(forWritingAtPath: output)
    process.standardError = FileHandle(forWritingAtPath: messages)
    process.terminationHandler = { [weak self] _ in self?.ended.withLock { $0 = true } }
    try process.run()
  }

  /// `ringtap` with these arguments.
  convenience init(
    _ arguments: [String], in folder: String, environment: [String: String] = [:]
  ) throws {
    try self.init(try #require(RingtapProgram.file), arguments, in: folder, environment: environment)
  }

  deinit { signal(SIGKILL) }

  func signal(_ number: Int32) { if process.isRunning { kill(process.processIdentifier, number) } }

  var hasEnded: Bool { ended.withLock { $0 } }
  var text: String { String(decoding: contents(output), as: UTF8.self) }
  var said: String { String(decoding: contents(messages), as: UTF8.self) }

  /// Waits for its end.
  func status(_ name: String, within limit: Duration = .seconds(60)) async throws -> Int32 {
    try await eventually("\(name) ends", within: limit) { self.hasEnded }
    return process.terminationStatus
  }

  func kill() async throws {
    signal(SIGKILL)
    try await eventually("it is gone") { self.hasEnded }
  }

  private func kill(_ process: Int32, _ number: Int32) { _ = Foundation.kill(process, number) }
}

/// Waits for a condition, which is looked at fifty times a second.
func eventually(
  _ what: String, within limit: Duration = .seconds(30), _ condition: @Sendable () -> Bool
) async throws {
  let end = ContinuousClock.now + limit
  while !condition() {
    guard ContinuousClock.now < end else {
      Issue.record("never: \(what)")
      throw CancellationError()
    }
    await withCheckedContinuation { turn in
      DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(20)) { turn.resume() }
    }
  }
}

private func loopback(_ port: Int) -> sockaddr_in {
  var address = sockaddr_in()
  address.sin_family = sa_family_t(AF_INET)
  address.sin_port = in_port_t(port).bigEndian
  address.sin_addr.s_addr = in_addr_t(0x7F00_0001).bigEndian
  return address
}

/// One that nobody listens at.
func freePort() throws -> Int {
  let number = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
  defer { close(number) }
  var address = loopback(0)
  var count = socklen_t(MemoryLayout<sockaddr_in>.size)
  let result = withUnsafeMutablePointer(to: &address) { pointer in
    pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
      bind(number, address, count) == 0 ? getsockname(number, address, &count) : -1
    }
  }
  try #require(result == 0)
  return Int(in_port_t(bigEndian: address.sin_port))
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

/// The tables of a capture against those that were collected, octet for octet.
///
/// - Returns: rows of all tables.
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

import BLECore
import Foundation
import Testing

/// A program of `Tests/KernelTests/Peers` that is made with google/bumble and served on a port of this machine.
final class BumblePeer: Sendable {
  /// It ended before it was ready.
  struct Failure: Error {}

  let port: UInt16
  /// Of the device behind the controller on the port.
  let address: DeviceAddress
  private let identifier: pid_t

  /// The Python that `Tools/install` made; `nil` where it has not: `Tools/test` has it made before.
  static let python: String? = {
    let environment = ProcessInfo.processInfo.environment
    let cache = environment["XDG_CACHE_HOME"] ?? (environment["HOME"] ?? "") + "/.cache"
    let folder = URL(filePath: cache).appending(path: "ringtap")
    let names = (try? FileManager.default.contentsOfDirectory(atPath: folder.path)) ?? []
    return names.filter { $0.hasPrefix("python-") }.map { folder.appending(path: $0) }
      .first { FileManager.default.fileExists(atPath: $0.appending(path: "complete").path) }?
      .appending(path: "bin/python").path
  }()

  /// Starts it and waits until it is ready.
  static func start(_ script: String) async throws -> BumblePeer {
    let peers = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .appending(path: "KernelTests/Peers")
    let process = Process()
    process.executableURL = URL(filePath: try #require(python))
    process.arguments = [peers.appending(path: script).path]
    let output = Pipe()
    process.standardOutput = output
    try process.run()
    let line = await firstLine(of: output.fileHandleForReading)
    let words = line.split(separator: " ")
    guard words.count == 3, words[0] == "ready", let port = UInt16(words[1]),
      let address = DeviceAddress(String(words[2]), type: .random)
    else {
      kill(process.processIdentifier, SIGKILL)
      throw Failure()
    }
    return BumblePeer(port, address, process.processIdentifier)
  }

  private init(_ port: UInt16, _ address: DeviceAddress, _ identifier: pid_t) {
    self.port = port
    self.address = address
    self.identifier = identifier
  }

  deinit { kill(identifier, SIGKILL) }

  /// On a thread of its own: reading blocks.
  private static func firstLine(of handle: FileHandle) async -> String {
    await withCheckedContinuation { continuation in
      Thread.detachNewThread {
        var octets = Data()
        while !octets.contains(UInt8(ascii: "\n")) {
          let more = handle.availableData
          if more.isEmpty { break }
          octets += more
        }
        continuation.resume(
          returning: String(decoding: octets.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self))
      }
    }
  }
}

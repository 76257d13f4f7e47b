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

  /// The Python with bumble that `Tools/install` made; `nil` where it has not: `Tools/test` has it made before.
  static let python: String? = {
    let environment = ProcessInfo.processInfo.environment
    let cache = environment["XDG_CACHE_HOME"] ?? (environment["HOME"] ?? "") + "/.cache"
    let folder = URL(filePath: cache).appending(path: "ringtap")
    let names = (try? FileManager.default.contentsOfDirectory(atPath: folder.path)) ?? []
    return names.filter { $0.hasPrefix("python-") }.map { folder.appending(path: $0) }
      .first { FileManager.default.fileExists(atPath: $0.appending(path: "complete").path) && hasBumble($0) }?
      .appending(path: "bin/python").path
  }()

  /// There is another one for the benchmarks.
  private static func hasBumble(_ environment: URL) -> Bool {
    let libraries = environment.appending(path: "lib")
    let names = (try? FileManager.default.contentsOfDirectory(atPath: libraries.path)) ?? []
    return names.contains {
      FileManager.default.fileExists(atPath: libraries.appending(path: "\($0)/site-packages/bumble").path)
    }
  }

  /// Starts it and waits until it is ready.
  static func start(_ script: String, _ options: [String] = []) async throws -> BumblePeer {
    let peers = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .appending(path: "KernelTests/Peers")
    let (line, identifier) = await run(
      try #require(python), [peers.appending(path: script).path] + options)
    let words = line.split(separator: " ")
    guard words.count == 3, words[0] == "ready", let port = UInt16(words[1]),
      let address = DeviceAddress(String(words[2]), type: .random)
    else {
      if let identifier { kill(identifier, SIGKILL) }
      throw Failure()
    }
    return BumblePeer(port, address, try #require(identifier))
  }

  /// Runs it on a thread of its own, which waits for its end.
  ///
  /// - Returns: its first line of output, and its number.
  private static func run(
    _ python: String, _ arguments: [String]
  ) async -> (line: String, identifier: pid_t?) {
    await withCheckedContinuation { continuation in
      Thread.detachNewThread {
        let (process, output) = (Process(), Pipe())
        process.executableURL = URL(filePath: python)
        process.arguments = arguments
        process.standardOutput = output
        do { try process.run() } catch {
          continuation.resume(returning: ("", nil))
          return
        }
        continuation.resume(
          returning: (firstLine(of: output.fileHandleForReading), process.processIdentifier))
        process.waitUntilExit()
      }
    }
  }

  private init(_ port: UInt16, _ address: DeviceAddress, _ identifier: pid_t) {
    self.port = port
    self.address = address
    self.identifier = identifier
  }

  deinit { kill(identifier, SIGKILL) }

  private static func firstLine(of handle: FileHandle) -> String {
    var octets = Data()
    while !octets.contains(UInt8(ascii: "\n")) {
      let more = handle.availableData
      if more.isEmpty { break }
      octets += more
    }
    return String(decoding: octets.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self)
  }
}

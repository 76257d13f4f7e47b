import Foundation
import Testing

/// A program on this machine that reads logs and that nobody here wrote.
struct ExternalTool {
  let executable: URL

  /// `nil` where it is not installed.
  init?(_ name: String) {
    let found = ProcessInfo.processInfo.environment["PATH"]?.split(separator: ":")
      .map { URL(filePath: String($0)).appending(path: name) }
      .first { FileManager.default.isExecutableFile(atPath: $0.path) }
    guard let found else { return nil }
    executable = found
  }

  /// Standard output of a run that must succeed.
  func output(_ arguments: [String]) throws -> String {
    let process = Process()
    process.executableURL = executable
    process.arguments = arguments
    let output = Pipe()
    process.standardOutput = output
    process.standardError = FileHandle.nullDevice
    try process.run()
    let text = String(decoding: try output.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
    process.waitUntilExit()
    try #require(
      process.terminationReason == .exit && process.terminationStatus == 0, "\(executable.path) failed")
    return text
  }

  /// The same about a log that exists no longer than that.
  func output(_ arguments: [String], of log: [UInt8]) throws -> String {
    let file = FileManager.default.temporaryDirectory.appending(path: "\(UUID().uuidString).btsnoop")
    try Data(log).write(to: file)
    defer { try? FileManager.default.removeItem(at: file) }
    return try output(arguments + [file.path])
  }
}

/// The logs in `Captures`.
enum OwnCaptures {
  static let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent().appending(path: "Captures")

  static let all: [URL] =
    ((try? FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)) ?? [])
    .filter { $0.pathExtension == "btsnoop" }.sorted { $0.path < $1.path }
}

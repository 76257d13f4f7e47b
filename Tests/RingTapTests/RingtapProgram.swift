import Foundation

/// The program itself, beside the tests.
enum RingtapProgram {
  static let file: URL? = {
    let program = URL(filePath: CommandLine.arguments[0]).deletingLastPathComponent()
      .appending(path: "ringtap")
    return FileManager.default.isExecutableFile(atPath: program.path) ? program : nil
  }()

  struct Run {
    var lines: [String]
    var messages: [String]
    var status: Int32
  }

  /// Runs it to its end.
  ///
  /// - Parameters:
  ///   - input: standard input, a line each.
  ///   - state: where it keeps what it remembers; `nil`: it remembers nothing.
  static func run(
    _ arguments: [String], input: [String] = [], state: String? = nil
  ) async throws -> Run {
    try await withFolder { folder in
      let files = ["in", "out", "err"].map { URL(filePath: folder).appending(path: $0) }
      try Data((input.joined(separator: "\n") + "\n").utf8).write(to: files[0])
      for file in files[1...] { try Data().write(to: file) }
      let process = Process()
      process.executableURL = RingtapProgram.file
      process.arguments = arguments
      var environment = ProcessInfo.processInfo.environment
      environment["XDG_STATE_HOME"] = state ?? folder
      environment["RINGTAP_NO_REMEMBER"] = state == nil ? "1" : nil
      process.environment = environment
      process.standardInput = try FileHandle(forReadingFrom: files[0])
      process.standardOutput = try FileHandle(forWritingTo: files[1])
      process.standardError = try FileHandle(forWritingTo: files[2])
      // Swift's threads are few: none of them waits for the program.
      try await withCheckedThrowingContinuation { (ended: CheckedContinuation<Void, any Error>) in
        process.terminationHandler = { _ in ended.resume() }
        do { try process.run() } catch { ended.resume(throwing: error) }
      }
      let texts = try files[1...].map { String(decoding: try Data(contentsOf: $0), as: UTF8.self) }
      let lines = texts.map { $0.split(separator: "\n").map(String.init) }
      return Run(lines: lines[0], messages: lines[1], status: process.terminationStatus)
    }
  }
}

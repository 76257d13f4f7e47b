import Foundation
import Testing

/// `Readers/readers.py`: what NumPy, pandas, pyEDFlib and wfdb say of our files.
enum Readers {
  struct Failure: Error, CustomStringConvertible {
    let description: String
  }

  /// The Python that `Tools/install readers` made; `nil` where it has not: `Tools/test` has it made before.
  static let python: String? = {
    let environment = ProcessInfo.processInfo.environment
    let cache = environment["XDG_CACHE_HOME"] ?? (environment["HOME"] ?? "") + "/.cache"
    let folder = URL(filePath: cache).appending(path: "ringtap")
    let names = (try? FileManager.default.contentsOfDirectory(atPath: folder.path)) ?? []
    return names.filter { $0.hasPrefix("readers-") }.map { folder.appending(path: $0) }
      .first { FileManager.default.fileExists(atPath: $0.appending(path: "complete").path) }?
      .appending(path: "bin/python").path
  }()

  static let missing: Comment = "the readers are not installed: Tools/install readers"

  /// Runs one of its commands.
  ///
  /// - Returns: the object it prints.
  /// - Throws: what it says differs.
  @discardableResult static func run(_ arguments: String...) async throws -> [String: Any] {
    let process = Process()
    let (output, errors) = (Pipe(), Pipe())
    process.executableURL = URL(filePath: try #require(python))
    process.arguments =
      [
        URL(filePath: #filePath).deletingLastPathComponent().appending(path: "Readers/readers.py").path
      ] + arguments
    process.standardOutput = output
    process.standardError = errors
    // What it says fits a pipe, so that it ends without being read.
    try await withCheckedThrowingContinuation { (ended: CheckedContinuation<Void, any Error>) in
      process.terminationHandler = { _ in ended.resume() }
      do { try process.run() } catch { ended.resume(throwing: error) }
    }
    guard process.terminationStatus == 0 else {
      let text = String(decoding: errors.fileHandleForReading.availableData, as: UTF8.self)
      throw Failure(description: "\(arguments): \(text)")
    }
    let object = try JSONSerialization.jsonObject(with: output.fileHandleForReading.availableData)
    return try #require(object as? [String: Any])
  }
}

import Foundation
import Testing

/// `Readers/readers.py`: what NumPy, pandas, pyEDFlib and wfdb say of our files; `Readers/terminal.py`: what a terminal
/// shows.
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
    // The latest: others are left over from other versions.
    let made = names.filter { $0.hasPrefix("readers-") }.compactMap { name -> (URL, Date)? in
      let complete = folder.appending(path: name + "/complete").path
      let facts = try? FileManager.default.attributesOfItem(atPath: complete)
      return (facts?[.modificationDate] as? Date).map { (folder.appending(path: name), $0) }
    }
    return made.max { $0.1 < $1.1 }?.0.appending(path: "bin/python").path
  }()

  static let missing: Comment = "the readers are not installed: Tools/install readers"

  /// Runs one of its commands, or of another script beside it.
  ///
  /// - Returns: the object it prints.
  /// - Throws: what it says differs.
  @discardableResult static func run(
    _ arguments: String..., script: String = "readers.py"
  ) async throws -> [String: Any] {
    let process = Process()
    let (output, errors) = (Pipe(), Pipe())
    process.executableURL = URL(filePath: try #require(python))
    process.arguments =
      [
        URL(filePath: #filePath).deletingLastPathComponent().appending(path: "Readers/" + script).path
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

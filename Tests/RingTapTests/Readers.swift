import Foundation
import TestKit
import Testing

/// `Readers/readers.py`: what NumPy, pandas, pyEDFlib and wfdb say of our files; `Readers/terminal.py`: what a terminal
/// shows.
enum Readers {
  struct Failure: Error, CustomStringConvertible {
    let description: String
  }

  /// Runs one of its commands, or of another script beside it.
  ///
  /// - Returns: the object it prints.
  /// - Throws: what it says differs.
  @discardableResult static func run(
    _ arguments: String..., script: String = "readers.py"
  ) async throws -> [String: Any] {
    let path = Place.fixture("RingTapTests/Readers/" + script)
    let run = try await Program.run(Place.readersPython(), [path] + arguments)
    guard run.status == 0 else { throw Failure(description: "\(arguments): \(run.errors)") }
    let object = try JSONSerialization.jsonObject(with: Data(run.output.utf8))
    return try #require(object as? [String: Any])
  }
}

import Foundation
import Testing

/// Independent readers of our output. `Tests/Readers/readers.py` runs NumPy, pandas, pyEDFlib and wfdb on our
/// files; `Tests/Readers/terminal.py` emulates a terminal.
package enum Readers {
  package struct Failure: Error, CustomStringConvertible {
    package let description: String
  }

  /// Runs a command of `readers.py`, or of another script in its folder.
  ///
  /// - Returns: The JSON object that it prints.
  /// - Throws: the differences that it reports.
  @discardableResult package static func run(
    _ arguments: String..., script: String = "readers.py"
  ) async throws -> [String: Any] {
    let path = Place.fixture("Readers/" + script)
    let run = try await Program.run(Place.readersPython(), [path] + arguments)
    guard run.status == 0 else { throw Failure(description: "\(arguments): \(run.errors)") }
    let object = try JSONSerialization.jsonObject(with: Data(run.output.utf8))
    return try #require(object as? [String: Any])
  }
}

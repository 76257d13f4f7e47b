import BLELinux

/// `Tools/simulate --align`: all recordings of a directory, of which those that are not there yet are made, and what `align` tells of them.
package enum AlignGrid {
  /// - Parameters:
  ///   - folder: is there. Recordings that others have put there, with their `truth.json`, count as well.
  ///   - put: takes a line for each recording.
  /// - Returns: the table of the guide `Captures`.
  package static func run(in folder: String, _ put: (String) -> Void) async throws -> String {
    for trial in AlignTrials.all where !Files.exists("\(folder)/\(trial.name)/truth.json") {
      put("recording \(trial.name)")
      try await trial.record(in: folder)
    }
    var outcomes: [AlignOutcome] = []
    for name in Files.names(in: folder).sorted() where Files.exists("\(folder)/\(name)/truth.json") {
      for outcome in try AlignOutcome.all(of: "\(folder)/\(name)") {
        put("\(name): \(outcome.text)")
        outcomes.append(outcome)
      }
    }
    return AlignOutcome.table(outcomes)
  }
}

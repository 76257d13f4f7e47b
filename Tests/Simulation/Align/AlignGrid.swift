import BLELinux

/// `Tools/simulate --align`: makes the recordings that are missing in a directory, and evaluates `align` on
/// all recordings.
package enum AlignGrid {
  /// Runs the trials.
  ///
  /// - Parameters:
  ///   - folder: existing directory. Other recordings in it that have a `truth.json` are evaluated as well.
  ///   - put: called with a line for each recording.
  /// - Returns: The table for the guide `Captures`.
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

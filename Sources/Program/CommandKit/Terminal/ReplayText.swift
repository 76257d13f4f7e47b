package import BLEReplay
import BLEWire

/// Text about a replay's result for the user.
package enum ReplayText {
  /// Maximum number of differences printed after a command that replays a log.
  private static let exampleLimit = 5

  /// The lines that a command prints on standard error after replaying a log.
  package static func notes(of replay: ReplayTransport) -> [String] {
    let findings = replay.findings
    var notes = [
      "replay: \(counted(findings.played, "packet")) played, \(findings.reproduced) sent as recorded, "
        + counted(findings.differenceCount, "difference")
    ]
    notes += findings.examples.prefix(exampleLimit).map { "replay: \($0.kind.rawValue): \($0.description)" }
    if let failure = replay.failure { notes.append("replay: \(failure)") }
    if let problem = replay.problem { notes.append("replay: the log: \(problem)") }
    return notes
  }
}

package import BLEReplay

/// Descriptions of a replay's result for people.
package enum ReplayText {
  /// Maximum number of differences printed after a command that replays a log.
  private static let exampleLimit = 5

  /// The lines on standard error after a command that replays a log.
  package static func notes(of replay: ReplayTransport) -> [String] {
    let findings = replay.findings
    var notes = [
      "replay: \(findings.played) packets played, \(findings.reproduced) sent as recorded, "
        + "\(findings.differenceCount) differences"
    ]
    notes += findings.examples.prefix(exampleLimit).map { "replay: \($0.kind.rawValue): \($0.description)" }
    if let failure = replay.failure { notes.append("replay: \(failure)") }
    if let problem = replay.problem { notes.append("replay: the log: \(problem)") }
    return notes
  }
}

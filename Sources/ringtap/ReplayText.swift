import BLEHost

/// What a replay found, in words.
enum ReplayText {
  /// Differences that are printed after a command that a log was played to.
  private static let exampleLimit = 5

  /// What a person reads on standard error after a command that a log was played to.
  static func notes(of replay: ReplayTransport) -> [String] {
    let findings = replay.findings
    var notes = [
      "replay: \(findings.played) packets played, \(findings.reproduced) of ours as recorded, "
        + "\(findings.differenceCount) differences"
    ]
    notes += findings.examples.prefix(exampleLimit).map { "replay: \($0.kind.rawValue): \($0.description)" }
    if let failure = replay.failure { notes.append("replay: \(failure)") }
    if let problem = replay.problem { notes.append("replay: the log: \(problem)") }
    return notes
  }
}

package import BLEReplay
package import CaptureTools
import JSONText
import Recording

/// Descriptions of a replay's result for people.
package enum ReplayText {
  /// Maximum number of differences printed after a command that replays a log.
  private static let exampleLimit = 5
  /// Maximum number of bytes printed per packet.
  private static let octetLimit = 40

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

  /// The output of `log replay`.
  package static func lines(_ report: LogReplayReport, _ log: ReplayLog) -> [String] {
    let findings = report.findings
    var lines = ["\(findings.played) of \(report.packets) packets played"]
    lines.append(
      "  host      \(findings.reproduced) packets as recorded, \(findings.differenceCount) differences")
    lines.append("  received  \(findings.reports) advertising events, \(report.notifications) notifications")
    if report.samples.contains(where: { $0 > 0 }) {
      let streams = RingStream.allCases.map { "\(report.samples[$0.rawValue]) \($0.name)" }
      lines.append("  ring      \(streams.joined(separator: ", ")), \(report.otherFrames) other frames")
    }
    if findings.notPlayed > 0 {
      lines.append("  left out  \(findings.notPlayed) packets that do not belong to LE links")
    }
    if log.cut > 0 { lines.append("  cut       \(log.cut) packets that the log contains only in part") }
    if log.drops > 0 { lines.append("  lost      \(log.drops) packets, as reported by the log's writer") }
    for kind in ReplayDifference.Kind.allCases {
      guard let count = findings.counts[kind] else { continue }
      lines.append("\(count) \(kind.rawValue): \(meaning(kind))")
      for difference in findings.examples where difference.kind == kind { lines += text(difference) }
      if count > ReplayFindings.exampleLimit {
        lines.append("  and \(count - ReplayFindings.exampleLimit) more")
      }
    }
    return lines
  }

  private static func meaning(_ kind: ReplayDifference.Kind) -> String {
    switch kind {
    case .missing: "the recorded host sent it, ringtap does not"
    case .unexpected: "ringtap sends it, the recorded host did not"
    case .different: "both respond, with different bytes"
    case .heldBack: "ringtap waits for a free buffer in the controller"
    case .unanswered: "the log has no response to it"
    case .unasked: "the log does not have the request that it answers"
    case .refused: "ringtap does not accept it"
    }
  }

  private static func text(_ difference: ReplayDifference) -> [String] {
    var lines = ["  \(difference.description)"]
    if let recorded = difference.recorded { lines.append("    recorded \(hexadecimal(recorded))") }
    if let ours = difference.ours { lines.append("    ours     \(hexadecimal(ours))") }
    return lines
  }

  private static func hexadecimal(_ octets: [UInt8]) -> String {
    Array(octets.prefix(octetLimit)).hexText + (octets.count > octetLimit ? "…" : "")
  }
}

extension JSONLine {
  /// The object that `log replay --json` prints.
  package mutating func value(_ report: LogReplayReport, _ log: ReplayLog) {
    let findings = report.findings
    object { line in
      line.member("packets", report.packets)
      line.member("played", findings.played)
      line.member("reproduced", findings.reproduced)
      line.member("differenceCount", findings.differenceCount)
      line.member("differences") { line in
        for kind in ReplayDifference.Kind.allCases {
          if let count = findings.counts[kind] { line.member(kind.rawValue, count) }
        }
      }
      line.member(
        "examples",
        array: { line in
          for difference in findings.examples { line.object { $0.members(of: difference) } }
        })
      line.member("advertisingEvents", findings.reports)
      line.member("notifications", report.notifications)
      line.member("samples") { line in
        for stream in RingStream.allCases { line.member(stream.name, report.samples[stream.rawValue]) }
      }
      line.member("otherFrames", report.otherFrames)
      line.member("notPlayed", findings.notPlayed)
      line.member("cut", log.cut)
      line.member("drops", log.drops)
      if let problem = log.problem { line.member("problem", problem) }
    }
  }

  private mutating func members(of difference: ReplayDifference) {
    member("kind", difference.kind.rawValue)
    if let index = difference.index { member("index", index) }
    if let recorded = difference.recorded { member("recorded", hex: recorded.span) }
    if let ours = difference.ours { member("ours", hex: ours.span) }
    if let why = difference.why { member("why", why) }
  }

  private mutating func member(_ name: String, _ body: (inout JSONLine) -> Void) {
    member(name, object: body)
  }
}

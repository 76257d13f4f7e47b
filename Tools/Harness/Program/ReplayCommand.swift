import ArgumentParser
import BLEHost
import BLEReplay
import BLEWire
import CommandKit
import HarnessKit
import JSONText
import Recording

/// `harness replay`: drives the host stack with a log.
struct ReplayCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "replay",
    abstract: "Drive the host stack with a packet log, and compare its packets with the recorded ones.",
    discussion: """
      EXAMPLES
        harness replay packets.btsnoop
            where ringtap's stack differs from the recorded host

        harness replay btsnoop_hci.log --json | jq .differences
            for programs: one object

        harness replay hci.pcapng --speed 10x --link 2
            the second connection, ten times as fast

      The stack starts whatever the recorded host started: commands, ATT requests, \
      signalling. Its responses are compared: ATT responses and confirmations, \
      signalling, how many commands and data packets it sends before the controller \
      has room, and how it fragments frames.

      Reads the formats of `log show`. Differences are a result: the exit status is 0, \
      or 1 with --strict. A log that ends within a record is played up to there; the \
      exit status is 1.
      """)

  @Argument(help: "The log; '-' for standard input.")
  var file: String

  @Option(help: ArgumentHelp("1x, 10x or any whole factor; max does not wait.", valueName: "speed"))
  var speed = "max"

  @Option(
    help: ArgumentHelp("Only this connection, counted from 1 as in `log stats`.", valueName: "number"),
    in: .count)
  var link: Int?

  @Flag(help: "Fail if anything differs.")
  var strict = false

  @OptionGroup(title: "Logs from the air") var air: AirKeyOptions

  @Flag(help: "Print one JSON object.")
  var json = false

  func validate() throws {
    if ReplaySpeed(speed) == nil {
      throw ValidationError("--speed must be 1x, 10x, any whole factor, or max")
    }
  }

  func run() async throws {
    let (file, link, speed, keys) = (file, link, ReplaySpeed(speed) ?? .max, air.keys)
    let log = try failing { () throws(HostError) in
      try ReplayLog.read(file, keys: keys) { Console.progress("read \(counted($0, "packet")) …") }
    }
    Console.progress("")
    let report = try await Interruption.cancelling {
      try await failing { () async throws(HostError) in
        try await LogReplay(log, speed: speed, link: link).run { played, count in
          Console.progress("\(played) of \(counted(count, "packet"))   (Ctrl-C ends)")
        }
      }
    }
    Console.progress("")
    if json {
      var line = JSONLine()
      line.value(report, log)
      line.endLine()
      try Console.write(line.octets)
    } else {
      try Console.print(ReplayReportText.lines(report, log).joined(separator: "\n"))
    }
    if let problem = log.problem { throw Failure("\(file == "-" ? "standard input" : file): \(problem)") }
    if strict, report.findings.differenceCount > 0 { throw ExitCode.failure }
  }
}

/// Descriptions of a replay's result for people.
private enum ReplayReportText {
  /// Maximum number of bytes printed per packet.
  private static let octetLimit = 40

  /// The output of `harness replay`.
  static func lines(_ report: LogReplayReport, _ log: ReplayLog) -> [String] {
    let findings = report.findings
    var lines = ["\(findings.played) of \(counted(report.packets, "packet")) played"]
    lines.append(
      "  host      \(counted(findings.reproduced, "packet")) as recorded, "
        + counted(findings.differenceCount, "difference"))
    lines.append(
      "  received  \(counted(findings.reports, "advertising event")), "
        + counted(report.notifications, "notification"))
    if report.samples.contains(where: { $0 > 0 }) {
      let streams = RingStream.allCases.map { "\(report.samples[$0.rawValue]) \($0.name)" }
      lines.append(
        "  ring      \(streams.joined(separator: ", ")), \(counted(report.otherFrames, "other frame"))")
    }
    if findings.notPlayed > 0 {
      let packets = counted(findings.notPlayed, "packet that does", "packets that do")
      lines.append("  left out  \(packets) not belong to LE links")
    }
    if log.cut > 0 {
      lines.append("  cut       \(counted(log.cut, "packet")) that the log contains only in part")
    }
    if log.drops > 0 {
      lines.append("  lost      \(counted(log.drops, "packet")), as reported by the log's writer")
    }
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
  /// The object that `harness replay --json` prints.
  mutating func value(_ report: LogReplayReport, _ log: ReplayLog) {
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

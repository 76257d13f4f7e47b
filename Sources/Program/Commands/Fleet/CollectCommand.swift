import ArgumentParser
import BLELinux
import BLEWire
import CommandKit
import Fleet
import JSONText

/// The command `ringtap collect URL`.
struct CollectCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "collect",
    abstract: "Receive published captures.",
    discussion: """
      Each capture becomes OUTPUT/PUBLISHER/SESSION with its tables and, after its publisher has sent \
      everything, session.json: `ringtap report` and `ringtap convert` read it like a local capture. \
      Duplicate rows are recognised by their numbers and skipped. Missing rows are requested, back to the \
      first, while their publisher is connected, so a collector may start late or be restarted. Rows that \
      are no longer available are counted as missing. Rejected messages are reported at most every ten \
      seconds, and counted by publisher and reason; no publisher can displace another. Needs MQTT 5, and \
      Debian's package libmosquitto1.

      EXAMPLES
        ringtap collect mqtt://broker.local --output captures
        ringtap collect mqtts://collector@broker.local/clinic --ca ca.pem \\
          --password-file secret -o captures
        ringtap collect mqtt://broker.local -o captures --group ward
            on each of several machines: they share the publishers, and take over
            those of a machine that fails
        ringtap collect mqtt://broker.local -o captures --sessions 50 --json
            until 50 captures are complete; then one object: received, duplicated,
            missing, and the same for each table

      Exit status: 0 done, 1 failed, 2 wrong usage, 3 rows are missing.
      """)

  @Argument(help: ArgumentHelp("mqtt[s]://[user[:password]@]host[:port][/prefix]", valueName: "url"))
  var url: String

  @Option(name: [.short, .long], help: ArgumentHelp("The output directory.", valueName: "directory"))
  var output: String

  @OptionGroup var broker: BrokerOptions

  @Option(
    help: ArgumentHelp(
      "The collector's name; the broker queues messages for it while it is offline. Must be unique.",
      valueName: "name"))
  var name = FleetName.made(of: ProcessFacts.hostName)

  @Option(
    help: ArgumentHelp(
      "Share the publishers with other collectors of this group; each needs its own --name and --output.",
      valueName: "name"))
  var group: String?

  @Option(
    help: ArgumentHelp("End after this time.", valueName: "seconds"), in: .duration)
  var duration: Double?

  @Option(help: "End after this many rows.", in: .count)
  var count: Int?

  @Option(
    help: ArgumentHelp("End when this many captures are complete.", valueName: "count"),
    in: .count)
  var sessions: Int?

  @Flag(help: "Print the report as one JSON object.")
  var json = false

  func validate() throws { _ = try plan() }

  private func plan() throws -> CollectRun.Plan {
    guard FleetName.isValid(name) else {
      throw ValidationError("'\(name.printable)' is not a name: use 1 … 64 letters, digits, '.', '_' and '-'")
    }
    var plan = CollectRun.Plan(
      try BrokerOptions.broker(url, passwordFile: broker.passwordFile), into: output, name: name)
    if let group, !FleetName.isValid(group) {
      throw ValidationError(
        "--group '\(group.printable)' is not a name: use 1 … 64 letters, digits, '.', '_' and '-'")
    }
    plan.certificates = broker.ca
    plan.group = group
    plan.duration = duration.map { .seconds($0) }
    (plan.count, plan.sessionCount) = (count, sessions)
    return plan
  }

  func run() async throws {
    let plan = try plan()
    let run = try failing { () throws(SystemError) in
      try CollectRun(plan) {
        Console.note($0)
      } progress: { progress in
        Console.progress(
          "\(progress.elapsed.components.seconds) s  \(counted(progress.publishers, "publisher"))  "
            + "\(counted(progress.received, "row"))  \(counted(progress.duplicated, "duplicate"))   (Ctrl-C ends)"
        )
      }
    }
    let report = try await Interruption.cancelling {
      do throws(PublishProblem) { return try await run.run() } catch { throw Failure(error) }
    }
    if Console.isErrorTerminal { Console.progress("") }
    if json {
      var line = JSONLine()
      report.encode(into: &line)
      try Console.write(line.octets)
    } else {
      try Console.print(text(report))
    }
    if report.missing > 0 { throw ExitCode(3) }
  }

  private func text(_ report: CollectReport) -> String {
    var lines = report.sessions.map { session in
      "\(session.publisher)/\(session.session)  \(counted(session.rows, "row")), \(session.received) of them now, "
        + "\(counted(session.duplicated, "duplicate")), \(session.missing) missing; \(session.state)"
        + (session.isComplete ? ", complete" : "")
    }
    lines.append(
      "\(counted(report.received, "row")) received, \(counted(report.duplicated, "duplicate")), \(report.missing) missing, in "
        + "\(output)")
    if report.setAside > 0 {
      lines.append("\(counted(report.setAside, "session")) set aside to make room; their files remain")
    }
    if report.refused > 0 {
      lines.append("\(counted(report.refused, "message")) refused")
      for entry in report.refusals.entries {
        lines.append(
          "  \(entry.count) from \(entry.publisher ?? "unknown publishers"); the last: \(entry.last)")
      }
      if report.refusals.forgotten > 0 { lines.append("  \(report.refusals.forgotten) from others") }
    }
    return lines.joined(separator: "\n")
  }
}

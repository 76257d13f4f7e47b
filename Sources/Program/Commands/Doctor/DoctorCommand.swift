import ArgumentParser
import BLELinux
import CommandKit
import Doctor
import JSONText

/// `ringtap doctor`.
struct DoctorCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "doctor",
    abstract: "Diagnose why ringtap cannot reach a device.",
    discussion: """
      Looks at the kernel, the rights of this process, the adapters and who uses them, and at the place to record \
      to. Each check says what it found; where that is not good, why, and what to do. Exit status 0 only where \
      nothing stands in the way; what is marked as a note does not.

      EXAMPLES
        ringtap doctor
        ringtap doctor --adapter hci1 --folder /data
        ringtap doctor --json
            one object a line: check, state (good, note, obstacle), finding, cause,
            nextStep
        ringtap doctor --report fault --log walk/packets.btsnoop
            writes fault.txt, with versions and kernel, and fault.btsnoop, in which
            addresses, names and keys are replaced: what a report of a fault needs
      """)

  @Option(help: "The only adapter that matters, such as hci0; else the first that is up will do.")
  var adapter: String?

  @Option(help: ArgumentHelp("Where captures will be recorded.", valueName: "path"))
  var folder = "."

  @Option(help: ArgumentHelp("Also write NAME.txt, for a report of a fault.", valueName: "name"))
  var report: String?

  @Option(help: ArgumentHelp("A packet log for the report: NAME.btsnoop, made anonymous.", valueName: "file"))
  var log: String?

  @OptionGroup var overwriting: OverwriteOptions

  @Flag(help: "Print one JSON object a line.")
  var json = false

  func validate() throws {
    if log != nil, report == nil { throw ValidationError("--log needs --report") }
    guard let adapter else { return }
    guard adapter.hasPrefix("hci"), UInt16(adapter.dropFirst(3)) != nil else {
      throw ValidationError("'\(adapter.printable)' is no adapter; it looks like hci0")
    }
  }

  func run() async throws {
    let report = report.map { DoctorReport(path: $0, log: log, overwriting: overwriting) }
    try report?.check()
    let facts = await DoctorFacts.gather(adapter: adapter, folder: folder)
    let findings = Doctor(facts, adapter: adapter).findings()
    for finding in findings {
      if json {
        try printJSON(finding)
      } else {
        for line in finding.lines { try Console.print(line) }
      }
    }
    if let report {
      let written = try report.write(findings)
      Console.note(
        "\(written.joined(separator: " and ")): look at what is in them before you show them to others")
    }
    if findings.contains(where: { $0.state == .obstacle }) { throw ExitCode.failure }
  }

  private func printJSON(_ finding: DoctorFinding) throws {
    try Console.json { line in
      line.member("check", finding.check.rawValue)
      line.member("state", finding.state.rawValue)
      line.member("finding", finding.finding)
      if let cause = finding.cause { line.member("cause", cause) }
      if let nextStep = finding.nextStep { line.member("nextStep", nextStep) }
    }
  }
}

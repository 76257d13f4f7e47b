import ArgumentParser
import BLELinux
import CommandKit
import Doctor
import JSONText

/// The command `ringtap doctor`.
struct DoctorCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "doctor",
    abstract: "Diagnose why ringtap cannot reach a device.",
    discussion: """
      Checks the kernel, the capabilities of this process, the adapters and the programs that use them, and \
      the directory for captures. Each check prints its finding and, if there is a problem, the cause and a \
      remedy. The exit status is 0 if there is no obstacle; notes are not obstacles.

      EXAMPLES
        ringtap doctor
        ringtap doctor --adapter hci1 --folder /data
        ringtap doctor --json
            one object per line: check, state (good, note, obstacle), finding, cause,
            nextStep
        ringtap doctor --report fault --log walk/packets.btsnoop
            for a bug report: writes fault.txt, with versions and kernel, and
            fault.btsnoop, in which addresses, names and keys are replaced
      """)

  @Option(help: "Check only this adapter: hci0 or its address (default: all adapters).")
  var adapter: String?

  @Option(help: ArgumentHelp("The directory for captures.", valueName: "path"))
  var folder = "."

  @Option(help: ArgumentHelp("Also write NAME.txt, for a bug report.", valueName: "name"))
  var report: String?

  @Option(help: ArgumentHelp("A packet log for the report, anonymised as NAME.btsnoop.", valueName: "file"))
  var log: String?

  @OptionGroup var overwriting: OverwriteOptions

  @Flag(help: "Print one JSON object per line.")
  var json = false

  func validate() throws {
    if log != nil, report == nil { throw ValidationError("--log needs --report") }
    _ = try adapter.map(RadioChoice.adapter)
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
        "wrote \(written.joined(separator: " and ")); review the contents before sharing")
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

/// The files attached to a bug report: versions, the machine, the findings, and an anonymised packet log.
struct DoctorReport {
  /// The path of the report without an extension.
  let path: String
  /// The packet log to include.
  let log: String?
  let overwriting: OverwriteOptions

  /// The files that `write` creates.
  var files: [String] { [path + ".txt"] + (log == nil ? [] : [path + ".btsnoop"]) }

  /// Throws if a file already exists, unless existing files may be replaced.
  func check() throws {
    for file in files { try overwriting.check(file, "--report", inputs: log.map { [$0] } ?? []) }
  }

  /// Writes `path.txt`, and `path.btsnoop` if there is a log.
  ///
  /// - Returns: the paths of the written files.
  func write(_ findings: [DoctorFinding]) throws -> [String] {
    try check()
    let octets = Array((Self.lines(findings).joined(separator: "\n") + "\n").utf8)
    try failing { () throws(SystemError) in
      try Files.write(octets.span, to: files[0], ifExists: overwriting.existing)
    }
    if let log { try LogCommand.anonymise(log, into: files[1], overwriting) }
    return files
  }

  static func lines(_ findings: [DoctorFinding]) -> [String] {
    func line(of path: String, after name: String = "") -> String? {
      Files.text(at: path)?.split(separator: "\n").first { $0.hasPrefix(name) }
        .map { String($0.dropFirst(name.utf8.count)) }
    }
    let facts = [
      "ringtap \(Console.version)", line(of: "/etc/os-release", after: "PRETTY_NAME="),
      line(of: "/proc/version"),
    ]
    return (facts.compactMap(\.self) + [""] + findings.flatMap(\.lines)).map { masked($0.printable) }
  }

  /// Masks the second half of each address, because it identifies the owner of an adapter. The first half
  /// names the manufacturer.
  private static func masked(_ line: String) -> String {
    line.replacing(/((?:[0-9A-Fa-f]{2}:){3})(?:[0-9A-Fa-f]{2}:){2}[0-9A-Fa-f]{2}/) {
      "\($0.output.1)xx:xx:xx"
    }
  }
}

extension DoctorFinding {
  /// The finding as lines of text.
  var lines: [String] {
    let mark =
      switch state {
      case .good: "ok      "
      case .note: "note    "
      case .obstacle: "PROBLEM "
      }
    return [mark + finding, cause.map { "        why: \($0)" }, nextStep.map { "        do:  \($0)" }]
      .compactMap(\.self)
  }
}

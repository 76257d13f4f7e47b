import BLELinux
import CommandKit
import Doctor
import JSONText

/// The files attached to a bug report: versions, the machine, the findings, and an anonymised packet log.
struct DoctorReport {
  /// The path of the report without an extension.
  let path: String
  /// The packet log to include.
  let log: String?
  let overwriting: OverwriteOptions

  /// The files that `write` creates.
  var files: [String] { [path + ".txt"] + (log == nil ? [] : [path + ".btsnoop"]) }

  /// Throws if a file already exists, unless it may be replaced.
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

  /// Masks each address except for the manufacturer's part, because the rest of an adapter's address
  /// identifies its owner.
  static func masked(_ line: String) -> String {
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

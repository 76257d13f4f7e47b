import BLELinux
import CommandKit
import Doctor
import JSONText

/// What goes with the report of a fault: versions, the machine, what was found, and a packet log that tells of nobody.
struct DoctorReport {
  /// The path without what its files end in.
  let path: String
  /// A packet log to go with it.
  let log: String?
  let overwriting: OverwriteOptions

  /// What `write` writes.
  var files: [String] { [path + ".txt"] + (log == nil ? [] : [path + ".btsnoop"]) }

  /// Refuses files that are there.
  func check() throws {
    for file in files { try overwriting.check(file, "--report", inputs: log.map { [$0] } ?? []) }
  }

  /// Writes `path.txt`, and `path.btsnoop` where there is a log.
  ///
  /// - Returns: what was written.
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

  /// Of each address the maker's part stays: an adapter's tells who owns it.
  static func masked(_ line: String) -> String {
    line.replacing(/((?:[0-9A-Fa-f]{2}:){3})(?:[0-9A-Fa-f]{2}:){2}[0-9A-Fa-f]{2}/) {
      "\($0.output.1)xx:xx:xx"
    }
  }
}

extension DoctorFinding {
  /// As a person reads it.
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

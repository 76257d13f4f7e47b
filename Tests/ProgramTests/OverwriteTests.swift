import Foundation
import TestKit
import Testing

/// No existing file is overwritten without --force. Every option of every command that takes the name of a
/// file or folder is listed in a table here, and those that name outputs are tried on existing files.
@Suite(.timeLimit(.minutes(5))) struct OverwriteTests {
  /// Options that name files, by the parser's dump; `valueName` identifies further ones.
  private static let placeNames: Set<String> = [
    "file", "files", "directory", "folder", "path", "log", "pipe", "output", "svg", "png", "report", "fifo",
    "picture", "name",
  ]

  /// Options and arguments that name an input, that take another kind of name, or that name a pipe made by
  /// Wireshark.
  private static let inputs: Set<String> = [
    "--name name", "--as name", "--publish-as name", "--group name", "--stream name",
    "--name regex",
    "--ca file", "--password-file file", "--publish-ca file", "--publish-password-file file",
    "--home-assistant-ca file",
    "--home-assistant-password-file file", "--influx-token file", "--influx-ca file", "--attributes file",
    "--log file",
    "--folder path", "--socket path", "--fifo pipe",
  ]

  private static let ring = ["--transport", "virtual:ring,rate=300,history=2"]
  private static let strap = ["--transport", "virtual:heart-rate,rate=20"]

  /// Arguments with which an option's command writes. FOLDER has `walk`, a capture, `group` and
  /// `log.btsnoop`; OUT is the named output.
  private static let outputs: [String: [String]] = [
    "capture --output": ["--output", "OUT", "--count", "30"] + ring,
    "heart-rate --output": ["--output", "OUT", "--count", "3"] + strap,
    "thermometer --output": [
      "--output", "OUT", "--count", "3", "--transport", "virtual:thermometer,rate=20",
    ],
    "cycling --output": ["--output", "OUT", "--count", "3", "--transport", "virtual:cycling,rate=20"],
    "polar --output": ["--output", "OUT", "--count", "3", "--transport", "virtual:polar"],
    // It says which command records.
    "ring raw --output": ["--output", "OUT", "--count", "30"] + ring,
    "ring sync --output": ["--output", "OUT"] + ring,
    "gatt --output": ["70:CB:0D:00:A1:B2", "--output", "OUT"] + ring,
    "relay --also-record": ["heart-rate", "--also-record", "OUT", "--duration", "1"] + strap,
    "scan --output": ["--output", "OUT", "--duration", "0.3"] + ring,
    "import --output": ["FOLDER/log.btsnoop", "--output", "OUT"],
    "analyse --output": ["FOLDER/walk", "--output", "OUT"],
    "convert --output": ["FOLDER/walk", "--to", "ndjson", "--output", "OUT"],
    "report --output": ["FOLDER/walk", "--output", "OUT"],
    "report --svg": ["FOLDER/walk", "--svg", "OUT"],
    "report --png": ["FOLDER/walk", "--png", "OUT"],
    "collect --output": ["mqtt://127.0.0.1:1", "--output", "OUT", "--ca", "FOLDER/none"],
    "doctor --report": ["--report", "OUT"],
    "log record --output": ["--output", "OUT", "--count", "5"],
    "log convert --output": ["FOLDER/log.btsnoop", "--format", "pcap", "--output", "OUT"],
    "log stats --svg": ["FOLDER/log.btsnoop", "--svg", "OUT"],
    "bench notify --svg": [
      "--svg", "OUT", "--duration", "0.1", "--settling", "0", "--transport", "virtual:source",
    ],
    "bench sweep --svg": ["--svg", "OUT", "--duration", "0.1", "--settling", "0", "--payloads", "20"],
    "link --packet-log": ["70:CB:0D:00:A1:B2", "--packet-log", "OUT"] + ring,
  ]

  /// Options that are declared once, and tried with one of their commands.
  private static let shared = ["--packet-log": "link --packet-log"]

  /// Each option that names a file is listed here as an input or an output.
  @Test func eachOptionThatNamesAFileIsKnown() async throws {
    var found: Set<String> = []
    for command in try await Ringtap.commands() where command.subcommands.isEmpty {
      for argument in command.arguments {
        guard let option = argument.option else { continue }
        let value = argument.valueName ?? ""
        guard Self.placeNames.contains(value) || Self.placeNames.contains(String(option.dropFirst(2))) else {
          continue
        }
        if Self.inputs.contains("\(option) \(value)") { continue }
        found.insert(Self.shared[option] ?? "\(command.words.joined(separator: " ")) \(option)")
      }
    }
    #expect(found == Set(Self.outputs.keys), "\(found.symmetricDifference(Self.outputs.keys).sorted())")
  }

  private func content(of path: String) -> Data? { FileManager.default.contents(atPath: path) }

  /// A folder with only the inputs of the commands.
  private func withInputs(_ body: (String) async throws -> Void) async throws {
    try await withFolder { folder in
      let made = try await Ringtap.run(
        ["capture", "--count", "90", "--output", folder + "/walk"] + Self.ring)
      try #require(made.status == 0, "\(made.errors)")
      try FileManager.default.moveItem(
        atPath: folder + "/walk/packets.btsnoop", toPath: folder + "/log.btsnoop")
      try await body(folder)
    }
  }

  private func words(_ key: String, _ folder: String, _ out: String) -> [String] {
    let command = key.split(separator: " ").dropLast().map(String.init)
    return command
      + (Self.outputs[key] ?? []).map {
        $0.replacingOccurrences(of: "FOLDER", with: folder).replacingOccurrences(of: "OUT", with: out)
      }
  }

  private func run(_ arguments: [String]) async throws -> Program.Result {
    let line = try Harness.line(for: arguments)
    return try await Program.run(line.program, line.arguments)
  }

  /// A file, a symbolic link to one, a hard link, a dangling link: all stay, and one line reports it.
  @Test func nothingThatIsThereIsOverwritten() async throws {
    let precious = Data("precious".utf8)
    let forced = Set(
      try await Ringtap.commands().filter { $0.arguments.contains { $0.isFlag("--force") } }.map(\.words))
    try await withInputs { folder in
      for (place, key) in Self.outputs.keys.sorted().enumerated() {
        let (file, other) = ("\(folder)/\(place)", "\(folder)/\(place)-other")
        // doctor's report gets a name suffix.
        let out = key == "doctor --report" ? file + ".txt" : file
        for kind in ["file", "link", "hard link", "link to nowhere"] {
          try? FileManager.default.removeItem(atPath: out)
          try? FileManager.default.removeItem(atPath: other)
          if kind != "link to nowhere" { try precious.write(to: URL(filePath: kind == "file" ? out : other)) }
          switch kind {
          case "hard link": try FileManager.default.linkItem(atPath: other, toPath: out)
          case "link", "link to nowhere":
            try FileManager.default.createSymbolicLink(atPath: out, withDestinationPath: other)
          default: break
          }
          let before = try Set(FileManager.default.contentsOfDirectory(atPath: folder))
          let result = try await run(words(key, folder, file))
          let what = "\(key), \(kind): \(result.status): \(result.errors)"
          #expect(result.status == (key == "ring raw --output" ? 2 : 1), "\(what)")
          #expect(try Set(FileManager.default.contentsOfDirectory(atPath: folder)) == before, "\(what)")
          if kind != "link to nowhere" {
            #expect(content(of: other) ?? content(of: out) == precious, "\(what)")
          }
          #expect(content(of: out) == (kind == "link to nowhere" ? nil : precious), "\(what)")
        }
        guard forced.contains(key.split(separator: " ").dropLast().map(String.init)) else { continue }
        try FileManager.default.removeItem(atPath: out)
        try precious.write(to: URL(filePath: other))
        try FileManager.default.createSymbolicLink(atPath: out, withDestinationPath: other)
        let result = try await run(words(key, folder, file) + ["--force"])
        #expect(content(of: other) == precious && content(of: out) != precious, "\(key): \(result.errors)")
        #expect(content(of: out)?.count ?? 0 > 100, "\(key): \(result.status): \(result.errors)")
      }
    }
  }

  /// A non-empty folder stays as it is.
  @Test func noFolderIsFilledUp() async throws {
    try await withInputs { folder in
      let names = [
        "session.json", "samples.csv", "pulse.csv", "heart-rate.csv", "packets.btsnoop", "packets.pcapng",
      ]
      for (place, key) in Self.outputs.keys.sorted().enumerated() {
        let out = "\(folder)/\(place)"
        try FileManager.default.createDirectory(atPath: out, withIntermediateDirectories: true)
        for name in names { try Data("precious".utf8).write(to: URL(filePath: "\(out)/\(name)")) }
        let result = try await run(words(key, folder, out))
        for name in names {
          #expect(content(of: "\(out)/\(name)") == Data("precious".utf8), "\(key): \(name)")
        }
        // It merges new data and keeps other files; the report is beside the folder.
        if key == "ring sync --output" || key == "doctor --report" { continue }
        #expect(result.status == (key == "ring raw --output" ? 2 : 1), "\(key): \(result.errors)")
      }
    }
  }

  /// A log is never its own output, by whatever name, even with --force.
  @Test(arguments: ["log.btsnoop", "./log.btsnoop", "link", "hard"]) func noInputIsOverwritten(_ name: String)
    async throws
  {
    try await withInputs { folder in
      let log = folder + "/log.btsnoop"
      let before = try #require(content(of: log))
      try FileManager.default.createSymbolicLink(atPath: folder + "/link", withDestinationPath: log)
      try FileManager.default.linkItem(atPath: log, toPath: folder + "/hard")
      let out = "\(folder)/\(name)"
      for arguments in [
        ["log", "convert", log, "--format", "pcap", "--output", out, "--force"],
        ["log", "stats", log, "--svg", out, "--force"], ["report", log, "--output", out, "--force"],
        ["report", log, "--svg", out, "--force"],
      ] {
        let result = try await Ringtap.run(arguments)
        #expect(
          result.status == 1 && result.errors.contains("would be overwritten while"), "\(result.errors)")
        #expect(content(of: log) == before, "\(arguments)")
      }
    }
  }

  /// The files that a shell expands `*.btsnoop` to are inputs, never outputs.
  @Test func aListOfLogsIsNoTarget() async throws {
    try await withInputs { folder in
      let logs = ["a", "b", "c"].map { "\(folder)/\($0).btsnoop" }
      for log in logs { try FileManager.default.copyItem(atPath: folder + "/log.btsnoop", toPath: log) }
      let before = content(of: logs[2])
      let refused = try await Ringtap.run(["log", "convert"] + logs)
      #expect(refused.status == 2 && refused.errorLines.count <= 2)
      #expect(
        refused.errorLines.first?.contains("ringtap log convert IN ... --output OUT") == true,
        "\(refused.errors)")
      #expect(content(of: logs[2]) == before)
      let merged = try await Ringtap.run(["log", "convert"] + logs + ["--output", folder + "/all.btsnoop"])
      #expect(merged.status == 0 && content(of: logs[2]) == before, "\(merged.errors)")
      #expect(content(of: folder + "/all.btsnoop")?.count == 16 + 3 * ((before?.count ?? 0) - 16))
    }
  }

  /// A full disk or an invalid log leaves the old file, also with --force.
  @Test func aFailureLeavesTheOldFile() async throws {
    try await withFolder { folder in
      let (bad, out) = (folder + "/bad.btsnoop", folder + "/out.pcap")
      try Data("nothing of the kind".utf8).write(to: URL(filePath: bad))
      try Data("precious".utf8).write(to: URL(filePath: out))
      for arguments in [
        ["log", "convert", bad, "--output", out, "--force"], ["log", "stats", bad, "--svg", out, "--force"],
        ["report", bad, "--output", out, "--force"], ["report", bad, "--svg", out, "--force"],
        ["log", "convert", folder + "/none", "--output", out, "--force"],
      ] {
        let result = try await Ringtap.run(arguments)
        #expect(
          result.status == 1 && content(of: out) == Data("precious".utf8), "\(arguments): \(result.errors)")
      }
      #expect(try FileManager.default.contentsOfDirectory(atPath: folder).count == 2, "no draft is left")
    }
  }

  /// Devices, pipes and standard output are not files that could be overwritten.
  @Test func streamsAreWrittenAsTheyAre() async throws {
    try await withInputs { folder in
      for key in ["log convert", "report", "convert"] {
        for (out, least) in [("/dev/null", 0), ("/dev/stdout", 1000), ("-", 1000)] {
          let result = try await Ringtap.run(words(key + " --output", folder, out))
          #expect(result.status == 0 && result.output.utf8.count >= least, "\(key) \(out): \(result.errors)")
        }
      }
      for key in ["log record --output", "link --packet-log"] {
        let log = try await run(words(key, folder, "/dev/null"))
        #expect(log.status == 0, "\(key): \(log.errors)")
      }
      // Through a pipe that a reader has open.
      let script = """
        mkfifo "$1/pipe" && { cat "$1/pipe" > "$1/read" & } && "$0" log convert "$1/log.btsnoop" --format btsnoop --output "$1/pipe" \
        && wait && cmp "$1/read" "$1/log.btsnoop"
        """
      let piped = try await Program.run("/bin/sh", ["-c", script, try Place.ringtap, folder])
      #expect(piped.status == 0, "\(piped.errors) \(piped.output)")
    }
  }
}

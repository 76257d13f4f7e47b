import Foundation
import Synchronization
import TestKit
import Testing

/// How many values of each option are tried; nil for the ends of the ranges and one value beyond.
private let valuesOfEach = ProcessInfo.processInfo.environment["RINGTAP_OPTION_VALUES"].flatMap { Int($0) }

/// Every numeric option of every command, as the parser's own dump lists them, with the ends of its range and
/// values outside. An option is numeric if it rejects the text `junk` without listing accepted words.
@Suite(.timeLimit(.minutes(valuesOfEach == nil ? 5 : 60))) struct OptionValueTests {
  /// Values outside of every option's range: too large for some type, not a number, or empty.
  private static let beyond = [
    "-1", "2147483648", "4294967296", "9223372036854775807", "9223372036854775808", "18446744073709551616",
    "1e10",
    "1e12", "1e19", "1e300", "1e-300", "inf", "-inf", "nan", "", "65530", "0x10", "1,5",
  ]

  /// Options that are not numeric but do not accept every text.
  private static let words: Set<String> = ["--characteristic", "--ltk"]

  private static let device = "70:CB:0D:00:A1:B2"
  /// Nothing listens on port 1, so a command with a radio ends when it has opened its transport.
  private static let radio = ["--transport", "tcp-client:127.0.0.1:1"]
  private static let served = ["--transport", "unix:missing/controller"]

  /// Arguments that complete a command line and let it end soon. Other commands need only `radio`.
  private static let lines: [String: [String]] = [
    "gatt": [device] + radio, "pair": [device] + radio, "read": [device, "2a00"] + radio,
    "write": [device, "2a00", "00"] + radio, "notify": [device, "2a37"] + radio, "link": [device] + radio,
    "align": ["missing"], "analyse": ["missing"], "convert": ["missing", "--to", "csv"],
    "report": ["missing"],
    "import": ["missing", "--output", "new"], "publish": ["missing", "mqtt://127.0.0.1:1"],
    "collect": ["mqtt://127.0.0.1:1", "--output", "missing/new", "--ca", "missing"],
    "ring realtime": ["heart-rate"] + radio, "ring activity": ["watch"] + radio,
    "relay": ["heart-rate"] + radio, "serve": ["missing"] + radio,
    "log record": ["--output", "missing/new", "--capture", "missing"],
    "log show": ["missing"], "log stats": ["missing"],
    "log convert": ["missing", "--output", "new.pcap"], "bench notify": [device] + radio,
    "bench sweep": [device] + radio, "bench requests": [device] + radio,
    "doctor": ["--folder", "missing"], "status": ["--socket", "missing"], "daemon": ["missing"],
    "open": ["--", "true"],
    "extcap": ["--capture", "--extcap-interface", "ringtap-none", "--fifo", "missing"],
  ]

  private struct Option: Hashable, Sendable {
    var words: [String]
    var name: String
    /// Identifies the source lines that declare the option, which several commands may share.
    var declaration: String
    /// Rough cost of parsing.
    var cost: Int
  }

  private static func options() async throws -> [Option] {
    try await Ringtap.commands().filter(\.subcommands.isEmpty).flatMap { command in
      command.arguments.compactMap { argument in
        argument.option.map { name in
          Option(
            words: command.words, name: name,
            declaration: [
              name, argument.valueName ?? "", argument.abstract ?? "", argument.defaultValue ?? "",
            ]
            .joined(separator: "|"),
            cost: command.arguments.count + (command.words.count > 1 ? 20 : 0))
        }
      }
    }
  }

  /// Runs a command in a folder of its own.
  ///
  /// - Returns: the result, and the contents of the folder afterwards.
  private static func run(_ option: Option, _ value: String) async throws -> (Program.Result, [String]) {
    let words = option.words.joined(separator: " ")
    let emulated = words == "emulate"
    var line = lines[words] ?? (emulated ? ["ring"] + served : radio)
    if let place = line.firstIndex(of: option.name) { line.removeSubrange(place...(place + 1)) }
    if option.name == "--loss", emulated { line.append("--real-time") }
    let arguments = option.words + ["\(option.name)=\(value)"] + line
    return try await withFolder { folder in
      let result = try await Program.run(
        "/usr/bin/env", ["-C", folder, try Place.ringtap] + arguments,
        environment: [
          "XDG_STATE_HOME": folder, "XDG_RUNTIME_DIR": nil, "RINGTAP_RUNTIME_DIR": folder + "/none",
        ])
      return (result, try FileManager.default.contentsOfDirectory(atPath: folder))
    }
  }

  /// Checks what must hold for each value: an exit status from the help, no files after a rejection, and a
  /// short message.
  @discardableResult
  private static func check(_ option: Option, _ value: String) async throws -> Program.Result {
    let (result, left) = try await run(option, value)
    let words = option.words.joined(separator: " ")
    let what = "\(words) \(option.name)=\(value): \(result.status): \(result.errors)"
    #expect((0...4).contains(result.status), "\(what)")
    if result.status == 2 {
      #expect(left.isEmpty, "\(what) left \(left)")
      let lines = result.errorLines
      #expect(lines.count <= 2 && lines.first?.hasPrefix("Error: ") == true, "\(what)")
      #expect(lines.count < 2 || lines[1].hasPrefix("  See 'ringtap "), "\(what)")
    }
    return result
  }

  /// The range of a numeric option, from its rejection of a text; `nil` for an option that accepts texts or
  /// lists words.
  private static func range(of option: Option) async throws -> (lower: String, upper: String)? {
    let result = try await check(option, "junk")
    guard let error = result.errorLines.first,
      error.contains("The value 'junk' is invalid for '\(option.name)"),
      !error.contains("Please provide one of"), !Self.words.contains(option.name)
    else { return nil }
    // `it must be a whole number, 1 to 64`, or `it must be above 0, at most 3600 seconds`
    let match = try #require(
      error.firstMatch(
        of: /it must be (?:a whole number, )?(?:above )?([0-9.]+k?)(?: to |, at most )([0-9.]+G?)/),
      "a numeric option without a range; declare it with `in:` and a NumberRange: \(error)")
    return (String(match.output.1), String(match.output.2))
  }

  /// Runs `body` for all elements, as many at once as there are processors.
  private static func forEach<Element: Sendable>(
    _ elements: [Element], _ body: @escaping @Sendable (Int, Element) async throws -> Void
  ) async throws {
    try await withThrowingTaskGroup(of: Void.self) { group in
      for (index, element) in elements.enumerated() {
        if index >= ProcessInfo.processInfo.activeProcessorCount { try await group.next() }
        group.addTask { try await body(index, element) }
      }
      try await group.waitForAll()
    }
  }

  /// The ends of each declaration's range, and one option of each command with a value outside; the parser is
  /// slow in a debug build. RINGTAP_OPTION_VALUES=N tries N values of each option of each command: 22 are
  /// all, and take ten minutes.
  @Test func noValueOfAnOptionEndsACommandByASignal() async throws {
    let options = try await Self.options()
    #expect(options.count > 650)
    let declared = Dictionary(grouping: options, by: \.declaration)
      .compactMap { $1.min { ($0.cost, $0.words.joined()) < ($1.cost, $1.words.joined()) } }
      .sorted { $0.declaration < $1.declaration }
    let ranges = Mutex<[String: (lower: String, upper: String)]>([:])
    try await Self.forEach(declared) { _, option in
      guard let range = try await Self.range(of: option) else { return }
      ranges.withLock { $0[option.declaration] = range }
    }
    let found = ranges.withLock { $0 }
    #expect(found.count >= 55, "\(found.keys.sorted())")
    var runs: [(Option, String)] = []
    for option in declared {
      if let range = found[option.declaration] { runs += [(option, range.lower), (option, range.upper)] }
    }
    let numeric = options.filter { found[$0.declaration] != nil }
    let commands = Dictionary(grouping: numeric, by: \.words).sorted { $0.key.joined() < $1.key.joined() }
    for (place, command) in commands.enumerated() {
      let chosen = valuesOfEach == nil ? [command.value[place % command.value.count]] : command.value
      for (index, option) in chosen.enumerated() {
        let ends = found[option.declaration].map { [$0.lower, $0.upper] } ?? []
        let values = Self.beyond + ["junk", "0"] + ends
        for step in 0..<(valuesOfEach ?? 1) {
          runs.append((option, values[(place + index + step) % values.count]))
        }
      }
    }
    try await Self.forEach(runs) { _, run in try await Self.check(run.0, run.1) }
    print(
      "\(runs.count + declared.count) command lines of \(commands.count) commands: \(numeric.count) numeric options,",
      "\(found.count) declarations")
  }

  /// With the largest duration a stream runs until its count ends it.
  @Test(arguments: [
    "capture --output walk --transport virtual:ring,rate=300", "ring raw --transport virtual:ring,rate=300",
    "heart-rate --transport virtual:heart-rate,rate=20",
    "thermometer --transport virtual:thermometer,rate=20",
    "cycling --transport virtual:cycling,rate=20", "polar --transport virtual:polar",
    "notify 70:CB:0D:00:18:0D 2a37 --transport virtual:heart-rate,rate=20",
    "log record --output log",
  ])
  func theLongestDurationRuns(_ line: String) async throws {
    try await withFolder { folder in
      let words = line.split(separator: " ").map(String.init) + ["--count", "3", "--duration", "1e9"]
      let line = try Harness.line(for: words)
      let result = try await Program.run("/usr/bin/env", ["-C", folder, line.program] + line.arguments)
      #expect(result.status == 0, "\(result.errors)")
    }
  }

  /// Values as users type them.
  @Test(arguments: [
    ("capture --duration inf", "--duration <seconds>': it must be above 0, at most 1000000000 seconds"),
    ("heart-rate --duration 1e12", "The value '1e12' is invalid for '--duration <seconds>'"),
    ("scan --duration 1e19", "The value '1e19' is invalid for '--duration <seconds>'"),
    ("link \(device) --supervision-timeout 65530", "it must be a whole number, 100 to 32000 ms"),
    ("link \(device) --interval 4001-5000", "'--interval <ms>': it must be 7.5 to 4000 ms"),
    ("link \(device) --interval nan", "'--interval <ms>': it must be 7.5 to 4000 ms"),
    (
      "link \(device) --interval 100 --latency 10 --supervision-timeout 2200",
      "must exceed 2 × (latency + 1) × interval"
    ),
    ("log record -o a --rotate-size 9999999999G", "it must be 1 to 1048576G bytes"),
    ("capture --transport virtual:ring,rate=1e-300", "'rate=1e-300': 0.001 … 1000000 a second is wanted"),
    ("capture --transport virtual:ring,rate=nan", "'rate=nan'"),
    ("capture --transport virtual:ring,real-time,loss=inf", "'loss=inf'"),
    ("capture --transport virtual:ring,count=18446744073709551616", "'count=18446744073709551616'"),
    ("capture --transport virtual:ring,clock-ppm=1e300", "'clock-ppm=1e300'"),
    ("capture --transport serial:/dev/ttyS0,4294967296", "is not a transport"),
    ("capture --transport tcp-client:127.0.0.1:65536", "is not a transport"),
    ("capture --transport replay:a,speed=1e9x", "is not a transport"),
  ]) func tellsOptionValueAndRange(_ line: String, _ message: String) async throws {
    let result = try await Ringtap.run(line.split(separator: " ").map(String.init))
    #expect(result.status == 2 && result.errorLines.first?.contains(message) == true, "\(result.errors)")
    #expect(result.errorLines.count <= 2, "\(result.errors)")
  }

  /// Values in the daemon's file have the same limits as on the command line.
  @Test(arguments: [
    "\"supervision-timeout\": 65530", "\"interval\": \"inf\"", "\"latency\": 1e19", "\"data-length\": 65536",
  ])
  func aDaemonsFileIsCheckedLikeACommandLine(_ member: String) async throws {
    try await withFolder { folder in
      let text = """
        {"directory": "/tmp/captures", "devices": [
          {"name": "left", "address": "\(Self.device)", "sensor": "ring", "link": {\(member)}}]}
        """
      try Data(text.utf8).write(to: URL(filePath: folder + "/daemon.json"))
      let result = try await Ringtap.run(["daemon", "--check", folder + "/daemon.json"])
      #expect(
        result.status == 1 && result.errors.contains("daemon.json:2: link of left: "), "\(result.errors)")
    }
  }
}

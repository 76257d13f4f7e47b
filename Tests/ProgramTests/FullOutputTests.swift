import Foundation
import TestKit
import Testing

/// Each command with a full disk as output: `/dev/full` fails every write with ENOSPC.
@Suite(.timeLimit(.minutes(5)))
struct FullOutputTests {
  private static let ring = ["--transport", "virtual:ring,rate=300,all-features,history=2"]
  private static let address = "70:CB:0D:00:A1:B2"
  private static let serve = ["--transport", "pty:"]
  private static let reason = "write standard output: No space left on device; "

  /// Command lines that make each command print. `FOLDER` has `walk`, a capture, and the files that other
  /// commands read.
  private static let lines: [String: [String]] = [
    "scan": ["--duration", "0.5"] + ring,
    "doctor": [], "devices list": [], "devices show": ["Ring"],
    "gatt": [address] + ring, "read": [address, "2a00"] + ring,
    "write": [address, "6e400002-b5a3-f393-e0a9-e50e24dcca9e", "03000000000000000000000000000003"] + ring,
    "notify": ["70:CB:0D:00:18:0D", "2a37", "--transport", "virtual:heart-rate,rate=20"],
    "link": [address] + ring,
    "pair": ["70:CB:0D:00:18:0D", "--transport", "virtual:heart-rate,security=encrypted"],
    "capture": ["--count", "30", "--output", "FOLDER/new"] + ring,
    "analyse": ["FOLDER/walk"], "align": ["FOLDER/group"],
    "convert": ["FOLDER/walk", "--to", "ndjson", "--output", "-"],
    "report": ["FOLDER/walk", "--output", "FOLDER/page.html"],
    "import": ["FOLDER/walk/packets.btsnoop", "--output", "FOLDER/imported"],
    "ring info": ring, "ring battery": ring, "ring time": ring, "ring settings": ring,
    "ring realtime": ["heart-rate"] + ring, "ring activity": ["watch", "--duration", "3"] + ring,
    "ring raw": ring, "ring steps": ring, "ring heart-rate": ring,
    "ring spo2": ring, "ring stress": ring, "ring hrv": ring, "ring sleep": ring, "ring temperature": ring,
    "ring sync": ["--output", "FOLDER/history"] + ring, "ring decode": [],
    "heart-rate": ["--transport", "virtual:heart-rate,rate=20"],
    "thermometer": ["--transport", "virtual:thermometer,rate=20"],
    "cycling": ["--transport", "virtual:cycling,rate=20"],
    "polar": ["--stream", "ecg", "--transport", "virtual:polar"],
    "daemon": ["--check", "FOLDER/daemon.json"], "decode": [],
    "log record": ["--duration", "0.2", "--output", "FOLDER/air.btsnoop"],
    "log show": ["FOLDER/walk/packets.btsnoop"], "log stats": ["FOLDER/walk/packets.btsnoop"],
    "log convert": ["FOLDER/walk/packets.btsnoop", "-o", "-", "--format", "pcapng"],
    "emulate": ["ring"] + serve,
    "serve": ["FOLDER/device.txt"] + ring,
    "relay": ["heart-rate", "--transport", "virtual:heart-rate,rate=20"],
    "bench notify": ["--duration", "0.2", "--transport", "virtual:source"],
    "bench sweep": ["--duration", "0.2", "--payloads", "20"],
    "bench requests": ["--count", "5", "--transport", "virtual:source"],
    "extcap": ["--extcap-interfaces"], "help": ["modes"],
  ]

  /// Commands that print nothing, or only with something that is not available here; only their help is
  /// tested.
  private static let others: Set<String> = [
    "adapters", "status",  // need an adapter, and a daemon
    "publish", "collect",  // need a broker
    "open", "devices forget", "ring find", "ring power-off", "ring reboot", "ring factory-reset",
  ]

  private static let input: [String: String] = [
    "decode": #"{"service":"180D","characteristic":"2A37","value":"16485401ec02"}"# + "\n",
    "ring decode":
      #"{"channel":"uart","direction":"ring->host","packets":["03400000000000000000000000000043"]}"# + "\n",
  ]

  private func run(_ arguments: [String], input: String? = nil, state: String? = nil) async throws
    -> Program.Result
  {
    let line = arguments.last == "--help" ? (try Place.ringtap, arguments) : try Harness.line(for: arguments)
    return try await Program(
      line.0, line.1, input: input.map { .text($0) } ?? .nothing, output: .file("/dev/full"),
      environment: Ringtap.environment(state)
    ).ended()
  }

  private func expectFailure(of result: Program.Result, _ words: String) {
    #expect(result.status == 1, "\(words): \(result.errors)")
    let lines = result.errorLines.filter { $0.contains(Self.reason) }
    #expect(lines.count == 1 && lines.first == result.errorLines.last, "\(words): \(result.errors)")
  }

  @Test func eachCommandFailsOnAFullDisk() async throws {
    let commands = try await Ringtap.commands().filter { $0.subcommands.isEmpty }.map(\.words)
    #expect(commands.count > 50)
    let known = Set(Self.lines.keys).union(Self.others)
    #expect(Set(commands.map { $0.joined(separator: " ") }) == known, "each has a line here, or a reason")
    try await withFolder { folder in
      try await prepare(folder)
      try await forEach(commands, atOnce: 4) { words in
        let name = words.joined(separator: " ")
        expectFailure(of: try await run(words + ["--help"]), name + " --help")
        guard let line = Self.lines[name] else { return }
        let arguments = words + line.map { $0.replacingOccurrences(of: "FOLDER", with: folder) }
        expectFailure(of: try await run(arguments, input: Self.input[name], state: folder), name)
      }
    }
    for words in [["--version"], ["--help"], [], ["--generate-completion-script", "bash"]] {
      expectFailure(of: try await run(words), words.joined(separator: " "))
    }
  }

  private func prepare(_ folder: String) async throws {
    let device = try Ringtap.start(
      ["emulate", "ring", "--name", "Ring", "--transport", "unix:" + folder + "/ring"])
    try await device.line(containing: "ready")
    let capture = try await Ringtap.run(
      [
        "capture", "--name", "Ring", "--count", "30", "--output", folder + "/walk", "--transport",
        "unix:" + folder + "/ring",
      ], state: folder)
    #expect(capture.status == 0, "\(capture.errors)")
    await device.end()
    try FileManager.default.createDirectory(atPath: folder + "/group", withIntermediateDirectories: true)
    for name in ["one", "two"] {
      try FileManager.default.copyItem(atPath: folder + "/walk", toPath: "\(folder)/group/\(name)")
    }
    try Data("device Strap\n0x0001-0x0003 2800 0d18\n0x0002 2803 02 0300 382a\n0x0003 2a38 02\n".utf8)
      .write(to: URL(filePath: folder + "/device.txt"))
    try Data(
      #"{"directory":"\#(folder)/captures","devices":[{"name":"ring","address":"\#(Self.address)","sensor":"ring"}]}"#
        .utf8
    )
    .write(to: URL(filePath: folder + "/daemon.json"))
  }

  /// A reader that closes the pipe early, such as `head`, ends a command silently.
  @Test func endsQuietlyWithItsReader() async throws {
    let pipe = Pipe()
    try pipe.fileHandleForReading.close()
    let result = try await Program(
      try Place.ringtap, ["help"], input: .nothing,
      output: .descriptor(pipe.fileHandleForWriting.fileDescriptor)
    ).ended()
    #expect(result.status == 0)
    #expect(result.errors.isEmpty)
  }
}

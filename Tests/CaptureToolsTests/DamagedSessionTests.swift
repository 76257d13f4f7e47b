import BLELinux
import Foundation
import TestKit
import Testing

/// A capture whose `session.json` is damaged.
@Suite(.timeLimit(.minutes(1))) struct DamagedSessionTests {
  /// The exit status alone reveals the damage to a script.
  @Test func tellsADamagedSession() async throws {
    try await withFolder { folder in
      let walk = folder + "/walk"
      _ = try await Ringtap.run(
        ["capture", "--transport", "virtual:ring,rate=300", "--count", "90", "--output", walk])
      try Data(#"{"device":"#.utf8).write(to: URL(filePath: walk + "/session.json"))
      for arguments in [
        ["report", walk, "--output", folder + "/a.html"], ["analyse", walk],
        ["convert", walk, "--to", "ndjson", "--output", folder + "/a.ndjson"],
      ] {
        let result = try await Ringtap.run(arguments)
        #expect(result.status == 1, "\(arguments)")
        #expect(result.errorLines.contains { $0.contains("session.json is damaged") }, "\(result.errors)")
        #expect(!result.outputLines.isEmpty)
      }
      #expect(rows(folder + "/a.ndjson").count > 90)
    }
  }

  private static let documents: [String: [UInt8]] = [
    "empty": [], "an array": Array("[]".utf8), "null": Array("null".utf8), "no members": Array("{}".utf8),
    "a number": Array("7".utf8), "a later format": Array(#"{"formatVersion":99}"#.utf8),
    "a format as text": Array(#"{"formatVersion":"1"}"#.utf8),
    "a count below 0": Array(#"{"received":-1,"lost":{"missing":0},"endedAtNs":"1"}"#.utf8),
    "a count as text": Array(#"{"received":1,"lost":{"missing":"0"},"endedAtNs":"1"}"#.utf8),
    "losses as an array": Array(#"{"received":1,"lost":[],"endedAtNs":"1"}"#.utf8),
    "broken UTF-8": Array(#"{"device":{"name":""#.utf8) + [0xC3, 0x28] + Array(#""}}"#.utf8),
    "deep": [UInt8](repeating: UInt8(ascii: "["), count: 100_000),
  ]

  private func expectNothingKnown(_ walk: String, _ what: String) async throws {
    for arguments in [
      ["report", walk, "--output", walk + "/a.html", "--force"], ["analyse", walk],
      ["convert", walk, "--to", "ndjson", "--output", "\(walk)-\(what.count).ndjson"],
    ] {
      let result = try await Ringtap.run(arguments)
      let text = result.output + result.errors
      #expect(result.status == 1, "\(what): \(arguments)")
      #expect(text.contains("not known"), "\(what): \(text)")
      for claim in ["nothing lost", "no gaps", "0 lost", "nothing dropped", "0 dropped"] {
        #expect(!text.contains(claim), "\(what): \(text)")
      }
      try? Files.remove("\(walk)-\(what.count).ndjson")
    }
  }

  /// A JSON file that is not the session of a recording is no evidence of losses.
  @Test func claimsNoLossesOfWhatIsNoSession() async throws {
    try await withFolder { folder in
      let walk = folder + "/walk"
      _ = try await Ringtap.run(
        ["capture", "--transport", "virtual:ring,rate=300", "--count", "90", "--output", walk])
      let path = walk + "/session.json"
      let whole = String(decoding: contents(path), as: UTF8.self)
      for (what, octets) in Self.documents {
        try Data(octets).write(to: URL(filePath: path))
        try await expectNothingKnown(walk, what)
      }
      try Files.remove(path)
      try await expectNothingKnown(walk, "missing")
      for make in [
        { mkfifo(path, 0o644) == 0 }, { mkdir(path, 0o755) == 0 }, { symlink("/dev/zero", path) == 0 },
      ] {
        #expect(make())
        try await expectNothingKnown(walk, "not a regular file")
        try Files.removeTree(path)
      }
      // An older session file is valid. One without an end time is no evidence, although it is valid JSON.
      try Data(whole.utf8).write(to: URL(filePath: path))
      #expect(try await Ringtap.run(["analyse", walk]).status == 0)
      let running = whole.replacing(#/"endedAtNs":"[0-9]+"/#, with: #""endedAtNs":null"#)
      try Data(running.utf8).write(to: URL(filePath: path))
      let result = try await Ringtap.run(["analyse", walk])
      #expect(result.status == 0 && result.output.contains("not known: session.json has no end"))
    }
  }

  /// A pipe or device in place of a table or the packet log is reported at once; nothing waits for it.
  @Test(arguments: ["ppg.csv", "packets.btsnoop"]) func waitsForNoPipe(_ name: String) async throws {
    try await withFolder { folder in
      let walk = folder + "/walk"
      _ = try await Ringtap.run(
        ["capture", "--transport", "virtual:ring,rate=300", "--count", "90", "--output", walk])
      let path = "\(walk)/\(name)"
      try Files.remove(path)
      for make in [
        { mkfifo(path, 0o644) == 0 }, { mkdir(path, 0o755) == 0 }, { symlink("/dev/zero", path) == 0 },
      ] {
        #expect(make())
        var commands = [["report", walk, "--output", folder + "/a.html", "--force"]]
        if name == "ppg.csv" {
          commands += [
            ["analyse", walk], ["convert", walk, "--to", "ndjson", "--output", folder + "/a.ndjson"],
          ]
        }
        for arguments in commands {
          let result = try await Ringtap.run(arguments)
          #expect(result.status == 1, "\(arguments)")
          #expect(result.errors.contains("not a regular file"), "\(arguments): \(result.errors)")
        }
        try? Files.remove(folder + "/a.ndjson")
        try Files.removeTree(path)
      }
    }
  }

  /// Formats without timestamps would fill a clock jump with empty samples.
  @Test(arguments: [
    ("365 days", 31_536_000_000_000_000), ("53376 days", 1 << 62),
  ]) func fillsNoJump(_ text: String, _ jump: Int64) async throws {
    try await withFolder { folder in
      let walk = folder + "/walk"
      _ = try await Ringtap.run(
        ["capture", "--transport", "virtual:ring,rate=300", "--count", "300", "--output", walk])
      let lines = rows(walk + "/samples.csv")
      let changed = lines.enumerated().map { number, line in
        guard number > 50 else { return line }
        var cells = line.split(separator: ",", omittingEmptySubsequences: false).map(String.init)
        // On another clock fit.
        (cells[0], cells[3]) = (String(Int64(cells[0])! &+ jump), String(Int64(cells[3])! + 1))
        return cells.joined(separator: ",")
      }
      try Data((changed.joined(separator: "\n") + "\n").utf8).write(to: URL(filePath: walk + "/samples.csv"))
      for format in ["edf", "bdf", "wfdb"] {
        let output = "\(folder)/out-\(format)"
        let result = try await Ringtap.run(["convert", walk, "--to", format, "--output", output])
        #expect(result.status == 1, "\(format): \(result.output)")
        #expect(
          result.errors.contains("jumps by \(text) after row 50"),
          "\(format): \(result.errors)")
        #expect(result.errors.contains("ringtap convert \(walk) --to npy"), "\(result.errors)")
        #expect(!Files.exists(output))
      }
    }
  }

  /// The tick counter jumps and the times go on: no sample is missing, and the rate is that of the times.
  @Test(
    arguments: [
      [50: 100], [50: 10_000], [50: 10_000_000], [1: 1 << 31], [99: 1 << 62], [10: 3_000, 60: 70_000],
    ] as [[Int: Int64]]
  ) func fillsNoJumpOfTicks(_ jumps: [Int: Int64]) async throws {
    try await withFolder { folder in
      let walk = folder + "/walk"
      _ = try await Ringtap.run(
        ["capture", "--transport", "virtual:ring,rate=300", "--count", "300", "--output", walk])
      let lines = rows(walk + "/samples.csv")
      var times: [Int64] = []
      let changed = try lines.enumerated().map { number, line in
        guard number > 0 else { return line }
        var cells = line.split(separator: ",", omittingEmptySubsequences: false).map(String.init)
        times.append(try #require(Int64(cells[0])))
        let jump = jumps.filter { $0.key < number }.values.reduce(0, &+)
        cells[1] = String(try #require(Int64(cells[1])) + jump)
        return cells.joined(separator: ",")
      }
      try Data((changed.joined(separator: "\n") + "\n").utf8).write(to: URL(filePath: walk + "/samples.csv"))
      let span = Double(try #require(times.last) - times[0]) / 1e9
      for format in ["edf", "bdf", "wfdb"] {
        let result = try await Ringtap.run(
          ["convert", walk, "--to", format, "--output", "\(folder)/out-\(format)"])
        #expect(result.status == 0, "\(format): \(result.errors)")
        let told = try #require(result.output.firstMatch(of: /signals of ([0-9]+) samples at ([0-9.]+) Hz/))
        #expect(Int(told.1) == times.count, "\(format): \(result.output)")
        let rate = try #require(Double(told.2))
        #expect(abs(rate * span / Double(times.count - 1) - 1) < 0.01, "\(format): \(result.output)")
      }
    }
  }
}

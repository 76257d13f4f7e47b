import BLEPacketLog
import BLEWire
import Foundation
import LogKit
import TestKit
import Testing

/// `ringtap log …` on a terminal: colour, pager, progress, `--follow`.
@Suite @MainActor struct LogTerminalTests {
  private static let escape = "\u{1B}["

  /// `count` events, each with a Reset.
  private static func events(_ count: Int, from first: Int = 1) -> [LoggedPacket] {
    (first..<first + count).map { LogConvertCommandTests.packet(Int64($0), UInt8(truncatingIfNeeded: $0)) }
  }

  /// - Parameter count: above a thousand, the same thousand events are repeated.
  private func withLog(_ count: Int, _ body: (URL, String) throws -> Void) throws {
    try withFolder { folder in
      let file = URL(filePath: folder + "/a.btsnoop")
      let start = log(Self.events(min(count, 1_000)))
      var octets = Data(start)
      for _ in 0..<(count - 1) / 1_000 { octets += start.dropFirst(16) }
      try octets.write(to: file)
      try body(file, folder)
    }
  }

  private func show(
    _ arguments: [String], _ environment: [String: String?] = [:], output: TerminalRun.Stream = .terminal,
    errors: TerminalRun.Stream = .terminal, columns: UInt16 = 100
  ) throws -> TerminalRun {
    try TerminalRun(
      try Place.ringtap, ["log"] + arguments, environment: environment, output: output,
      errors: errors, columns: columns)
  }

  // MARK: Colour

  @Test(
    arguments: [
      ([], [:], true), (["--color", "never"], [:], false), (["--color", "always"], ["NO_COLOR": "1"], true),
      ([], ["NO_COLOR": "1"], false), ([], ["NO_COLOR": ""], true), ([], ["TERM": "dumb"], false),
      (["--json"], [:], false),
    ] as [([String], [String: String], Bool)])
  func coloursATerminal(_ options: [String], _ environment: [String: String], _ isColored: Bool) throws {
    try withLog(3) { file, _ in
      let run = try show(["show", file.path, "--no-pager"] + options, environment)
      #expect(try run.status() == 0)
      #expect(run.text.contains(Self.escape) == isColored)
      #expect(run.text.split(separator: "\n").count == (options == ["--json"] ? 3 : 9))
    }
  }

  @Test(arguments: [([], false), (["--color", "always"], true)] as [([String], Bool)])
  func coloursNoPipeUnasked(_ options: [String], _ isColored: Bool) throws {
    try withLog(3) { file, _ in
      let run = try Program.run(Place.ringtap, ["log", "show", file.path] + options)
      #expect(run.status == 0)
      #expect(run.output.contains(Self.escape) == isColored)
    }
  }

  /// No header line is longer than the terminal's width; the end of a name is cut off.
  @Test func fitsTheTerminal() throws {
    try withFolder { folder in
      let file = URL(filePath: folder + "/a.btsnoop")
      let command = "4120 08 00 00 01 00 6000 6000"
      let packet = LoggedPacket(type: .command, direction: .hostToController, octets: octetsOf(command))
      try Data(log([packet], format: .monitor)).write(to: file)
      let narrow = try show(["show", file.path, "--no-pager"], ["NO_COLOR": "1"], columns: 72)
      #expect(try narrow.status() == 0)
      let header = try #require(narrow.text.split(separator: "\n").first)
      #expect(header.hasPrefix("< HCI Command: LE Set Extended Sc"))
      #expect(header.contains(".. (0x08|0x0041) plen 8 #1 ") && header.count == 72, "\(header)")
      let piped = try Program.run(Place.ringtap, ["log", "show", file.path])
      #expect(piped.output.contains("LE Set Extended Scan Parameters (0x08|0x0041)"))
    }
  }

  // MARK: Pager

  @Test(arguments: [
    ([], "sed s/^/paged:/", true), (["--no-pager"], "sed s/^/paged:/", false),
    (["--json"], "sed s/^/paged:/", false), ([], "cat", false), ([], "", false),
    ([], "/no/such/program", false),
  ])
  func pagesOnATerminal(_ options: [String], _ pager: String, _ isPaged: Bool) throws {
    try withLog(2) { file, _ in
      let run = try show(["show", file.path] + options, ["PAGER": pager, "NO_COLOR": "1"])
      #expect(try run.status() == 0)
      let lines = run.text.split(separator: "\n")
      #expect(lines.count == (options == ["--json"] ? 2 : 6), "\(run.text)")
      #expect(lines.allSatisfy { $0.hasPrefix("paged:") } == isPaged)
    }
  }

  /// Without PAGER the pager is `less`, with options to keep colours and to quit if one screen is enough.
  @Test(arguments: [true, false]) func takesLessWhereItIs(_ isThere: Bool) throws {
    try withLog(2) { file, folder in
      if isThere {
        let less = URL(filePath: folder + "/less")
        try Data("#!/bin/sh\necho \"less $LESS\"\nexec /bin/cat\n".utf8).write(to: less)
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: less.path)
      }
      let run = try show(["show", file.path], ["PATH": folder])
      #expect(try run.status() == 0)
      #expect(run.text.hasPrefix("less FRX\n") == isThere)
      #expect(run.text.contains("HCI Event: Command Complete") && run.text.contains(Self.escape))
    }
  }

  @Test func neverPagesIntoAFile() throws {
    try withLog(2) { file, folder in
      let out = URL(filePath: folder + "/out")
      let run = try show(["show", file.path], ["PAGER": "sed s/^/paged:/"], output: .file(out))
      #expect(try run.status() == 0)
      let text = try String(contentsOf: out, encoding: .utf8)
      #expect(text.hasPrefix("> HCI Event") && !text.contains("paged:") && !text.contains(Self.escape))
      #expect(run.text == "")
    }
  }

  /// A reader that quits early is not a failure.
  @Test(arguments: ["head -n 3", "true"]) func endsQuietlyWithItsPager(_ pager: String) throws {
    try withLog(10_000) { file, folder in
      let errors = URL(filePath: folder + "/errors")
      let run = try show(["show", file.path], ["PAGER": pager], errors: .file(errors))
      #expect(try run.status() == 0)
      #expect(run.text.split(separator: "\n").count == (pager == "true" ? 0 : 3))
      #expect(try Data(contentsOf: errors).isEmpty)
    }
  }

  @Test(arguments: ["show", "show --json", "stats --json", "convert"])
  func endsQuietlyWithItsPipe(_ command: String) throws {
    try withLog(10_000) { file, _ in
      let tail = command == "convert" ? "-o - --format btsnoop" : ""
      // A reader that never reads has ended before the first byte.
      let line =
        "'\(try Place.ringtap)' log \(command) '\(file.path)' \(tail) | true; exit ${PIPESTATUS[0]}"
      let run = try Program.run("/bin/bash", ["-c", line])
      #expect(run.status == 0)
      #expect(run.errors == "")
    }
  }

  @Test func leavesLessByItsKey() throws {
    try withLog(200) { file, _ in
      let run = try show(["show", file.path])
      try run.wait("less waits at the end of its screen") { $0.hasSuffix(":\u{1B}[K") }
      #expect(!run.text.contains("#100 "), "the first screen only")
      try run.type("q")
      #expect(try run.status() == 0)
    }
  }

  // MARK: Progress

  @Test(arguments: ["show --json", "stats", "convert"]) func tellsProgressOnATerminal(_ command: String)
    throws
  {
    // 31 bytes a record: 4.65 MB.
    try withLog(150_000) { file, folder in
      let out = URL(filePath: folder + "/out.pcap")
      let words = command.split(separator: " ").map(String.init) + [file.path]
      let arguments = command == "convert" ? words + ["-o", out.path, "--force"] : words
      let run = try show(arguments, output: command == "convert" ? .terminal : .file(out))
      #expect(try run.status() == 0)
      #expect(run.text.contains("\r\u{1B}[K4 of 4 MB, "), "\(run.text)")
      #expect(run.text.hasSuffix("\r\u{1B}[K"), "the line is cleared")
      let errors = URL(filePath: folder + "/errors")
      let silent = try show(arguments, output: .file(URL(filePath: folder + "/o")), errors: .file(errors))
      #expect(try silent.status() == 0)
      #expect(try Data(contentsOf: errors).isEmpty)
    }
  }

  // MARK: Follow

  @Test func followsAGrowingFile() throws {
    try withFolder { folder in
      let file = URL(filePath: folder + "/a.btsnoop")
      let octets = log(Self.events(3))
      let header = 16
      let record = (octets.count - header) / 3
      try Data(octets[..<header]).write(to: file)
      let run = try show(["show", file.path, "--follow"], ["NO_COLOR": "1"])
      let writer = try FileHandle(forWritingTo: file)
      try writer.seekToEnd()
      for number in 1...3 {
        // In two parts: half a record is not a record.
        let part = octets[(header + (number - 1) * record)..<(header + number * record)]
        try writer.write(contentsOf: Data(part.prefix(20)))
        try writer.write(contentsOf: Data(part.dropFirst(20)))
        try run.wait("record \(number)") { $0.contains("#\(number) ") }
        #expect(!run.text.contains("#\(number + 1) "))
      }
      try run.type("\u{3}")
      #expect(try run.status() == 130)
    }
  }

  @Test(arguments: ["moved", "truncated"]) func followsAFileThatTookItsPlace(_ way: String) throws {
    try withFolder { folder in
      let file = URL(filePath: folder + "/a.btsnoop")
      try Data(log(Self.events(3))).write(to: file)
      let run = try show(["show", file.path, "--follow", "--json"])
      try run.wait("the old file") { $0.contains("\"index\":3,") }
      if way == "moved" {
        // The old file's last record arrives just before the rotation.
        let writer = try FileHandle(forWritingTo: file)
        try writer.seekToEnd()
        try writer.write(contentsOf: Data(log(Self.events(1, from: 4)).dropFirst(16)))
        try FileManager.default.moveItem(at: file, to: URL(filePath: folder + "/a.btsnoop.1"))
        try Data(log(Self.events(2, from: 70))).write(to: file)
        try run.wait("the old file's last record") { $0.contains("\"index\":4,") }
      } else {
        try Data(log(Self.events(2, from: 70))).write(to: file, options: [])
      }
      try run.wait("the new file") { $0.contains("\"timeNs\":\"71000000000\",") }
      #expect(run.text.contains("ringtap: \(file.path) was replaced; continuing with the new one\n"))
      #expect(run.text.contains("{\"index\":1,\"timeNs\":\"70000000000\","))
      try run.type("\u{3}")
      #expect(try run.status() == 130)
    }
  }
}

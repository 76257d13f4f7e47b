import Foundation
import TestKit
import Testing

/// `--stream`: samples as JSON lines while they are recorded.
@Suite(.timeLimit(.minutes(3)))
struct LiveOutputTests {
  private static let address = "70:CB:0D:00:A1:B2"

  private func object(_ line: String) throws -> [String: Any] {
    try #require(JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any], "\(line)")
  }

  private func capture(_ folder: String, _ arguments: [String]) -> [String] {
    ["capture", "--transport", "virtual:ring,rate=100", "--output", folder + "/walk"] + arguments
  }

  /// Expects the sample lines to be those that `convert` makes of the capture, with the device in front; each
  /// table in its own order.
  private func expectSameRows(
    _ lines: [String], _ capture: String, _ address: String, at location: SourceLocation = #_sourceLocation
  ) async throws {
    let converted = try await Ringtap.run(["convert", capture, "--to", "ndjson", "--output", "-"])
    let rows = Dictionary(grouping: converted.outputLines) { $0.prefix(30).split(separator: "\"")[3] }
    let start = #"{"device":"\#(address)","#
    let samples = lines.filter { !$0.hasPrefix(#"{"stream":"#) }
    #expect(samples.allSatisfy { $0.hasPrefix(start) }, sourceLocation: location)
    let streamed = Dictionary(grouping: samples.map { "{" + $0.dropFirst(start.count) }) {
      $0.prefix(30).split(separator: "\"")[3]
    }
    #expect(!streamed.isEmpty && streamed == rows, sourceLocation: location)
  }

  /// Compares the cells of the text with the members of the lines, by the columns of the table's line.
  private func expectSameCells(_ lines: [String], _ table: String, _ path: String) throws {
    let text = try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n")
    let objects = try lines.map(object)
    let described = try #require(objects.first { $0["table"] as? String == table })
    let columns = try #require(described["columns"] as? [[String: String]])
    let names = columns.compactMap { $0["name"] }
    #expect(text[0] == names.joined(separator: ","))
    let rows = objects.filter { $0["table"] as? String == table && $0["stream"] == nil }
    #expect(rows.count == text.count - 1)
    for (row, line) in zip(rows, text.dropFirst()) {
      #expect(Set(row.keys) == Set(names + ["device", "table"]))
      for (name, cell) in zip(names, line.split(separator: ",", omittingEmptySubsequences: false)) {
        switch row[name] {
        case is NSNull: #expect(cell.isEmpty)
        case let text as String: #expect(text == cell)
        case let number as NSNumber:
          // The text has a fixed number of decimals, the line has all digits.
          let decimals = cell.split(separator: ".").dropFirst().first?.count ?? 0
          let difference = number.doubleValue - (Double(cell) ?? .nan)
          #expect(abs(difference) < 0.51 * pow(10, -Double(decimals)), "\(name): \(number) and \(cell)")
        default: Issue.record("\(name) of \(row)")
        }
      }
    }
  }

  @Test func printsEachRowOfTheTables() async throws {
    try await withFolder { folder in
      let run = try await Ringtap.run(capture(folder, ["--count", "300", "--to", "-", "--rows", "all"]))
      #expect(run.status == 0, "\(run.errors)")
      #expect(run.errors.contains("0 lost of 300"), "what it prints otherwise")
      let lines = run.outputLines
      let tables = lines.prefix(4)
      #expect(
        tables[1]
          == #"{"stream":"table","device":"\#(Self.address)","kind":"ring","name":"R02_A1B2","table":"ppg","columns":["#
          + #"{"name":"time_ns","dtype":"<i8","unit":"ns"},{"name":"ppg_counts","dtype":"<f4","unit":"counts"},"#
          + #"{"name":"led_max_counts","dtype":"<u2","unit":"counts"},"#
          + #"{"name":"led_min_counts","dtype":"<u2","unit":"counts"},"#
          + #"{"name":"led_diff_counts","dtype":"<u2","unit":"counts"}]}"#)
      #expect(
        lines.last
          == #"{"stream":"end","device":"\#(Self.address)","reason":"count reached","rows":\#(lines.count - 5),"lost":0}"#
      )
      for table in ["accelerometer", "ppg", "spo2", "samples"] {
        try expectSameCells(lines, table, "\(folder)/walk/\(table).csv")
      }
    }
  }

  /// Each value once: in the tables of the streams, or in the table of ticks.
  @Test(arguments: [("tables", ["accelerometer", "ppg", "spo2"]), ("ticks", ["samples"])])
  func printsEachValueOnce(_ rows: String, _ tables: [String]) async throws {
    try await withFolder { folder in
      let option = rows == "tables" ? [] : ["--rows", rows]
      let run = try await Ringtap.run(capture(folder, ["--count", "300", "--to", "-"] + option))
      #expect(run.status == 0, "\(run.errors)")
      let lines = run.outputLines
      let named = Set(
        lines.compactMap { $0.firstMatch(of: /"table":"([a-z0-9]+)"/).map { String($0.output.1) } })
      #expect(named == Set(tables))
      for table in tables { try expectSameCells(lines, table, "\(folder)/walk/\(table).csv") }
      #expect(lines.last?.contains(#""rows":\#(lines.count - tables.count - 1),"#) == true)
    }
  }

  /// Arrays also have all digits: the lines are the same, byte for byte.
  @Test func printsWhatConvertMakesOfArrays() async throws {
    try await withFolder { folder in
      let run = try await Ringtap.run(
        capture(folder, ["--count", "300", "--format", "npy", "--to", "-", "--rows", "all"]))
      #expect(run.status == 0, "\(run.errors)")
      try await expectSameRows(run.outputLines, folder + "/walk", Self.address)
    }
  }

  /// Two sockets and standard output at once; then another sensor, whose columns become known late.
  @Test func servesReadersOfSockets() async throws {
    try await withFolder { folder in
      let port = try freePort()
      let path = folder + "/samples"
      let program = try Ringtap.start([
        "polar", "--stream", "ecg", "--transport", "virtual:polar", "--output", folder + "/ride", "--format",
        "npy", "--count", "8", "--to", "unix:" + path, "--to", "tcp:127.0.0.1:\(port)",
        "--to", "-",
      ])
      var readers: [SocketLines] = []
      try await eventually("the sockets") {
        if readers.isEmpty, let reader = try? SocketLines.unix(path) { readers.append(reader) }
        if readers.count == 1, let reader = try? SocketLines.tcp(port: port) { readers.append(reader) }
        return readers.count == 2
      }
      for reader in readers { reader.read() }
      let run = try await program.ended()
      #expect(run.status == 0, "\(run.errors)")
      #expect(!FileManager.default.fileExists(atPath: path))
      let address = try #require(try object(run.outputLines[0])["device"] as? String)
      try await expectSameRows(run.outputLines, folder + "/ride", address)
      for reader in readers {
        let lines = try await reader.all()
        #expect(try object(lines[0])["stream"] as? String == "table")
        #expect(lines.last == run.outputLines.last)
        #expect(Set(lines).isSubset(of: run.outputLines))
      }
    }
  }

  /// A lost and re-established link is reported between the rows before and after it.
  @Test func tellsGaps() async throws {
    try await withFolder { folder in
      let run = try await Ringtap.run([
        "capture", "--transport", "virtual:ring,rate=100,disconnect-after=90", "--output", folder + "/walk",
        "--count", "180", "--to", "-",
      ])
      #expect(run.status == 0, "\(run.errors)")
      let objects = try run.outputLines.map(object)
      let gaps = objects.indices.filter { objects[$0]["stream"] as? String == "gap" }
      #expect(gaps.count >= 2)
      let (lost, back) = (objects[gaps[0]], objects[gaps[1]])
      #expect(lost["state"] as? String == "lost" && back["state"] as? String == "back")
      #expect(lost["device"] as? String == Self.address)
      let session = try object(
        String(contentsOfFile: folder + "/walk/session.json", encoding: .utf8))
      let gap = try #require((session["gaps"] as? [[String: Any]])?.first)
      #expect(lost["cause"] as? String == gap["cause"] as? String)
      #expect(lost["time_ns"] as? String == gap["lostAtNs"] as? String)
      #expect(back["time_ns"] as? String == gap["connectedAtNs"] as? String)
      let earlier = objects[..<gaps[0]].count { $0["time_ns"] != nil }
      #expect(earlier == 90, "all samples of the first link")
    }
  }

  @Test func hostileNamesStayInTheirStrings() async throws {
    let name = "R\u{1B}[2J\u{9B}H\u{202E}\u{2028}\"},\u{200B}<&\u{7F}"
    try await withFolder { folder in
      let reach = ["--transport", "unix:" + folder + "/ring"]
      let ring = try Ringtap.start(["emulate", "ring", "--name", name] + reach)
      try await ring.line(containing: "ready")
      let run = try await Ringtap.run(
        ["capture", "--name", name, "--count", "3", "--output", folder + "/walk", "--to", "-"] + reach)
      #expect(run.status == 0, "\(run.errors)")
      #expect(try object(run.outputLines[0])["name"] as? String == name)
      let unseen = run.output.unicodeScalars.filter { $0 != "\n" && !(0x20..<0x7F).contains($0.value) }
      #expect(unseen.isEmpty)
      await ring.end()
    }
  }

  // MARK: Readers that disconnect or stall

  /// `| head`: the recording continues if it has other outputs, and ends otherwise.
  @Test func aReaderThatGoes() async throws {
    try await withFolder { folder in
      func piped(_ options: String) async throws -> Program.Result {
        let ringtap = try Place.ringtap
        return try await Program.run(
          "/bin/sh",
          [
            "-c",
            "cd \(folder) && { \(ringtap) capture --transport virtual:ring,rate=100 --stream - \(options) 2>errors; "
              + "echo $? >status; } | head -n 6",
          ])
      }
      let whole = try await piped("--count 300 --output walk")
      #expect(whole.outputLines.count == 6, "four tables, and the first samples")
      func file(_ name: String) throws -> String {
        try String(contentsOfFile: folder + "/" + name, encoding: .utf8)
      }
      var (status, errors) = (try file("status"), try file("errors"))
      #expect(status == "0\n" && errors.contains("0 lost of 300"), "\(errors)")
      _ = try await piped("")
      (status, errors) = (try file("status"), try file("errors"))
      #expect(status == "0\n" && errors.contains("; interrupted"), "\(errors)")
      let captures = try FileManager.default.contentsOfDirectory(atPath: folder)
      #expect(captures.contains { $0.hasPrefix("ringtap-") })
    }
  }

  /// The pipe is not read: the recording has every sample, and a signal ends it at once.
  @Test func aReaderThatStandsStill() async throws {
    try await withFolder { folder in
      let pipe = Pipe()
      let program = try Program(
        try Place.ringtap,
        [
          "capture", "--transport", "virtual:ring,rate=400", "--output", folder + "/walk", "--to", "-",
        ], input: .nothing, output: .descriptor(pipe.fileHandleForWriting.fileDescriptor))
      let table = folder + "/walk/ppg.csv"
      try await eventually("more than a pipe holds") {
        let size = try? FileManager.default.attributesOfItem(atPath: table)[.size] as? Int
        return (size ?? 0) > 80_000
      }
      let before = ContinuousClock.now
      program.send(SIGINT)
      let run = try await program.ended()
      #expect(ContinuousClock.now - before < .seconds(5))
      #expect(run.status == 0, "\(run.errors)")
      #expect(run.errors.contains("0 lost of "))
      #expect(run.errors.contains("the reader of standard output was too slow and missed "), "\(run.errors)")
    }
  }

  @Test func aFullDiskBehindIt() async throws {
    try await withFolder { folder in
      let run = try await Program(
        try Place.ringtap, capture(folder, ["--count", "300", "--to", "-"]), input: .nothing,
        output: .file("/dev/full")
      ).ended()
      #expect(run.status == 1)
      let told = run.errorLines.filter { $0.contains("write standard output: No space left on device; ") }
      #expect(told.count == 1, "\(run.errors)")
      #expect(run.errors.contains("300 samples in "), "the recording has nothing to do with it")
    }
  }

  // MARK: Wrong usage

  @Test(arguments: [
    (
      ["capture", "--to", "file"],
      "'file' is not an output: give -, unix:PATH, tcp:HOST:PORT, ws://:PORT, lsl:, osc://HOST:PORT, mqtt://HOST or influx+http://HOST/PATH"
    ),
    (["capture", "--to", "tcp:7007"], "give one such as tcp:127.0.0.1:7007"),
    (["capture", "--to", "-", "--to", "-"], "'-' is given twice"),
    (["heart-rate", "--to", "-"], "--to needs an --output directory"),
    (["polar", "--to", "-"], "--to needs an --output directory"),
  ]) func refuses(_ arguments: [String], _ sentence: String) async throws {
    let run = try await Ringtap.run(arguments + ["--transport", "virtual:ring"])
    #expect(run.status == 2)
    #expect(run.errors.contains(sentence), "\(run.errors)")
  }

  /// If the path is taken by another file, nothing is recorded.
  @Test func refusesAPlaceThatIsTaken() async throws {
    try await withFolder { folder in
      let path = folder + "/mine"
      try Data("mine\n".utf8).write(to: URL(filePath: path))
      let run = try await Ringtap.run(capture(folder, ["--count", "3", "--to", "unix:" + path]))
      #expect(run.status == 1 && run.errors.contains("listen \(path): Address already in use"))
      #expect(try String(contentsOfFile: path, encoding: .utf8) == "mine\n")
      #expect(!FileManager.default.fileExists(atPath: folder + "/walk"))
    }
  }
}

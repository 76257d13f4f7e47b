import BLELinux
import Foundation
import TestKit
import Testing

/// Files that are removed while they are being written.
@Suite(.timeLimit(.minutes(2))) struct RemovedFilesTests {
  /// Starts a capture and waits until rows have been handed to the kernel.
  private func capture(_ path: String, _ options: [String] = []) async throws -> Program {
    let program = try Ringtap.start(
      [
        "capture", "--transport", "virtual:ring,rate=300,real-time", "--output", path, "--duration", "60",
        "--json",
      ]
        + options)
    let isArrays = options.contains("npy")
    try await eventually("rows are written") {
      isArrays
        ? contents(path + "/ppg/led_diff_counts.npy").count > 4_200 : rows(path + "/ppg.csv").count > 20
    }
    return program
  }

  private func sum(_ report: [String: Any], _ member: String) -> Int? {
    (report["lost"] as? [String: Int])?[member]
  }

  private func removed(_ report: [String: Any]) -> [String: Int] {
    let files = report["removedFiles"] as? [[String: Any]] ?? []
    return Dictionary(
      uniqueKeysWithValues: files.map { ($0["file"] as? String ?? "", $0["rows"] as? Int ?? -1) })
  }

  /// Removing the directory ends the capture at once, so that the user learns of it immediately.
  @Test(arguments: ["csv", "npy"]) func endsWhereTheDirectoryWasRemoved(_ format: String) async throws {
    try await withFolder { folder in
      let program = try await capture(folder + "/walk", ["--format", format])
      try Files.removeTree(folder + "/walk")
      let result = try await program.finish()
      #expect(result.status == 1)
      #expect(!Files.exists(folder + "/walk"))
      let report = try #require(
        try JSONSerialization.jsonObject(with: Data(result.outputLines.joined().utf8)) as? [String: Any])
      #expect(report["endReason"] as? String == "the files were removed")
      let received = try #require(report["received"] as? Int)
      #expect(received >= 20 && sum(report, "disk") == received)
      #expect(try #require(sum(report, "packetLog")) >= received)
      #expect(removed(report).count == 5)
      #expect(
        result.errorLines.contains { $0.contains("walk was removed") && $0.hasSuffix("the recording ends") })
      #expect(result.errorLines.last?.hasSuffix("nothing was saved: record again") == true)
    }
  }

  /// The other tables continue, and `session.json` reports the loss.
  @Test(arguments: [("csv", "ppg.csv", "ppg.csv"), ("npy", "ppg/led_max_counts.npy", "ppg")])
  func goesOnWithoutOneTable(_ format: String, _ file: String, _ table: String) async throws {
    try await withFolder { folder in
      let path = folder + "/walk"
      let program = try await capture(path, ["--format", format])
      try Files.remove(path + "/" + file)
      _ = try await program.line(on: .errors, containing: "\(path)/\(table) was removed or moved away")
      program.send(SIGINT)
      let result = try await program.finish()
      #expect(result.status == 1)
      let session = try json(path + "/session.json")
      let streams = try #require(session["streams"] as? [String: [String: Any]])
      let samples = streams.mapValues { $0["samples"] as? Int ?? -1 }
      #expect(samples["ppg"] == 0)
      let lost = try #require(sum(session, "disk"))
      #expect(lost >= 20 && removed(session) == [table: lost])
      #expect(session["received"] as? Int == samples.values.reduce(0, +) + lost)
    }
  }

  /// logrotate's `copytruncate`: the content is gone, and no hole of zeros appears in its place.
  @Test(arguments: [
    ("csv", "ppg.csv", "ppg.csv"), ("npy", "ppg/led_max_counts.npy", "ppg"), ("csv", "packets.btsnoop", ""),
  ])
  func noticesATableThatWasCut(_ format: String, _ file: String, _ table: String) async throws {
    try await withFolder { folder in
      let path = folder + "/walk"
      let program = try await capture(path, ["--format", format])
      #expect(truncate("\(path)/\(file)", 0) == 0)
      let name = table.isEmpty ? file : table
      _ = try await program.line(on: .errors, containing: "\(path)/\(name) was cut short")
      program.send(SIGINT)
      let result = try await program.finish()
      #expect(result.status == 1)
      let session = try json(path + "/session.json")
      let found = try #require((session["removedFiles"] as? [[String: Any]])?.first)
      #expect(found["file"] as? String == name && found["change"] as? String == "cut")
      #expect(try #require(sum(session, table.isEmpty ? "packetLog" : "disk")) >= 20)
      if !table.isEmpty, format == "csv" { #expect(!contents("\(path)/\(file)").contains(0)) }
    }
  }

  /// The documents that are needed to read the capture are created again beside its tables.
  @Test func makesDocumentsAgain() async throws {
    try await withFolder { folder in
      let path = folder + "/walk"
      let program = try await capture(path, ["--format", "npy"])
      for name in ["session.json", "columns.json"] { try Files.remove(path + "/" + name) }
      program.send(SIGINT)
      #expect(try await program.finish().status == 0)
      let session = try json(path + "/session.json")
      #expect(session["endReason"] as? String == "interrupted" && sum(session, "disk") == 0)
      #expect(try json(path + "/columns.json")["complete"] as? Bool == true)
    }
  }

  /// Nothing is lost, and all files are in the directory with the tables.
  @Test(arguments: ["csv", "npy"]) func followsADirectoryThatWasMoved(_ format: String) async throws {
    try await withFolder { folder in
      let program = try await capture(folder + "/walk", ["--format", format])
      try Files.rename(folder + "/walk", to: folder + "/walk2")
      // Another directory is created at the old path.
      try Files.createDirectory(folder + "/walk")
      program.send(SIGINT)
      let result = try await program.finish()
      #expect(result.status == 0)
      #expect(result.errorLines.contains { $0.hasSuffix("the capture was moved to \(folder)/walk2") })
      #expect(Files.names(in: folder + "/walk").count == 2)
      let session = try json(folder + "/walk2/session.json")
      #expect(session["endReason"] as? String == "interrupted")
      #expect(sum(session, "disk") == 0 && session["removedFiles"] == nil)
    }
  }

  @Test func tellsOfAPacketLog() async throws {
    try await withFolder { folder in
      let program = try await capture(folder + "/walk", ["--packet-log", folder + "/hci.btsnoop"])
      try Files.remove(folder + "/hci.btsnoop")
      _ = try await program.line(on: .errors, containing: "the packet log stopped")
      program.send(SIGINT)
      let result = try await program.finish()
      #expect(result.status == 1)
      #expect(result.errorLines.last?.hasSuffix("packets are missing from the packet log") == true)
      #expect(try json(folder + "/walk/session.json")["removedFiles"] == nil)
    }
  }

  @Test(arguments: [false, true]) func endsARecordOfALog(_ isReplaced: Bool) async throws {
    try await withFolder { folder in
      let path = folder + "/log.btsnoop"
      let program = try Harness.start(
        ["record", "--output", path, "--synthetic", "500", "--duration", "60"])
      try await eventually("packets are written") { contents(path).count > 1000 }
      try Files.remove(path)
      if isReplaced { try Data("other".utf8).write(to: URL(filePath: path)) }
      let result = try await program.finish()
      #expect(result.status == 1)
      #expect(result.outputLines.last?.contains("the log was removed") == true)
      #expect(result.outputLines.last?.hasPrefix("0 packets") == true)
      #expect(result.errorLines.last?.contains("\(path), which was removed or moved away") == true)
    }
  }
}

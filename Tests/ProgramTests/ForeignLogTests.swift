import BLEPacketLog
import BLEWire
import Foundation
import LogKit
import TestKit
import Testing

/// Files that users pass by mistake instead of a log: one line says what the file is and what to do.
@Suite @MainActor struct ForeignLogTests {
  /// At least 16 bytes of each kind, and words that the line must contain.
  nonisolated private static let files: [(name: String, octets: [UInt8], words: [String])] = [
    ("empty", [], ["it is empty"]),
    ("three bytes", [1, 2, 3], ["it has 3 bytes"]),
    ("zeros", [UInt8](repeating: 0, count: 100), ["zeros only"]),
    ("zip", [0x50, 0x4B, 3, 4] + [UInt8](repeating: 7, count: 40), ["zip archive", "unzip it"]),
    (
      "bug report", Array("DUMP OF SERVICE bluetooth_manager:\nBluetooth Status\n  enabled: true\n".utf8),
      ["bug report", "btsnooz", "unzip"]
    ),
    (
      "whole bug report",
      Array((String(repeating: "=", count: 56) + "\n== dumpstate: 2025-10-09 08:53:20\n").utf8),
      ["bug report", "btsnooz"]
    ),
    // Version 2, a time, a zlib stream.
    (
      "btsnooz", [2, 0x10, 0x94, 0x9B, 0xF0, 0xB5, 0x40, 6, 0, 0x78, 0x9C, 0x6D, 0xCE, 0xBB, 0x4A],
      ["btsnooz.py"]
    ),
    ("base64", Array("AhCUm/C1QAYAeJxtzrtKA0EYBeAzm90k\n".utf8), ["base64", "btsnooz.py"]),
    (
      "raw H4", [1, 3, 0x0C, 0, 4, 0x0E, 4, 1, 3, 0x0C, 0, 2, 0x40, 0x20, 7, 0, 3, 0, 4, 0, 0x1B, 0x12, 0],
      ["raw HCI packets", "btmon -w"]
    ),
    ("JSON", Array(#"{"index":1,"packetType":"event"}"#.utf8), ["JSON"]),
    ("marked JSON", [0xEF, 0xBB, 0xBF] + Array(#"[{"_index":"packets"}]"#.utf8), ["JSON"]),
    ("text", Array("time_ns,x,y,z\n1,2,3,4\n".utf8), ["it is text"]),
    ("btmon", Array("Bluetooth monitor ver 5.66\n= Note: Linux\n".utf8), ["text", "btmon -w"]),
    ("web page", Array("\n<!DOCTYPE html><html>".utf8), ["web page"]),
    ("xz", [0xFD, 0x37, 0x7A, 0x58, 0x5A, 0, 0, 4, 1, 2, 3, 4, 5, 6, 7, 8], ["xz", "unxz"]),
    ("noise", (0..<64).map { UInt8(truncatingIfNeeded: 0x81 &+ $0 &* 37) }, ["does not begin like btsnoop"]),
  ]

  private static let commands = [
    ["log", "stats"], ["log", "show"], ["import", "-o", "OUT"], ["analyse"], ["report", "-o", "OUT"],
  ]

  @Test(arguments: files.map(\.name)) func saysWhatTheFileIs(_ name: String) async throws {
    let file = try #require(Self.files.first { $0.name == name })
    try await withFolder { folder in
      let path = folder + "/log"
      try Data(file.octets).write(to: URL(filePath: path))
      for command in Self.commands {
        let run = try await Ringtap.run(command.map { $0 == "OUT" ? folder + "/out" : $0 } + [path])
        let lines = run.errors.split(separator: "\n")
        #expect(run.status != 0 && lines.count == 1, "\(command): \(run.errors)")
        for word in file.words { #expect(run.errors.contains(word), "\(command): \(run.errors)") }
        #expect(
          !run.errors.contains("invalid value") && !FileManager.default.fileExists(atPath: folder + "/out"))
      }
    }
  }

  /// The same messages for compressed files.
  @Test func saysItOfCompressedFiles() async throws {
    try await withFolder { folder in
      let path = folder + "/report.txt"
      try "DUMP OF SERVICE bluetooth_manager:\n".write(toFile: path, atomically: true, encoding: .utf8)
      _ = try await Program.output(of: "gzip", ["-k", path])
      let run = try await Ringtap.run(["log", "stats", path + ".gz"])
      #expect(run.status != 0 && run.errors.contains("btsnooz"))
    }
  }

  // MARK: Logs of other kinds

  /// A log of a BR/EDR link: Connection Complete (Core 5.4, Vol 4, Part E, 7.7.3), then data.
  @Test func saysThatALogHasOnlyClassicLinks() async throws {
    try await withFolder { folder in
      for count in 1...2 {
        var packets: [LoggedPacket] = []
        for number in 0..<count {
          let handle = "0\(number + 1)00"
          packets.append(
            LoggedPacket(
              type: .event, direction: .controllerToHost,
              octets: octetsOf("030b 00 \(handle) 0753005e0000 01 00")))
          packets.append(.acl(.controllerToHost, "0\(number + 1)20 0600 0200 4000 0102"))
        }
        try Data(LogKit.log(packets)).write(to: URL(filePath: folder + "/log"))
        let run = try await Ringtap.run(["import", folder + "/log", "-o", folder + "/out"])
        let links = count == 1 ? "1 connection" : "2 connections"
        #expect(run.status == 1)
        #expect(
          run.errors.hasSuffix("the log has \(links) and no attribute values: only BR/EDR\n"), "\(run.errors)"
        )
      }
    }
  }

  /// The clock is set back by an hour in the middle of sixty heart rates: Core 5.4, Vol 4, Part E, 7.7.65.1;
  /// attribute 0x0012.
  @Test func tellsThatTheClockWasSet() async throws {
    try await withFolder { folder in
      var packets = [
        LoggedPacket(
          type: .event, direction: .controllerToHost,
          octets: octetsOf("3e13 01 00 4000 00 01 9a78563412c4 1800 0000 c800 00")),
        // Discovery of the characteristic.
        .acl(.hostToController, "4000 0b00 0700 0400 08 1100 1500 0328"),
        .acl(.controllerToHost, "4020 0d00 0900 0400 09 07 1100 10 1200 372a"),
      ]
      for number in 1...60 as ClosedRange<Int64> {
        let step: Int64 = number > 30 ? -3_600 : 0
        packets.append(
          .acl(
            .controllerToHost, "4020 0b00 0700 0400 1b1200 163c e803",
            timeNanoseconds: packets[0].timeNanoseconds + (number + step) * 1_000_000_000))
      }
      let path = folder + "/phone.btsnoop"
      try Data(LogKit.log(packets)).write(to: URL(filePath: path))
      let imported = try await Ringtap.run(["import", path, "-o", folder + "/walk"])
      let words = "the clock was set back by 3600.000 s at record 34"
      #expect(imported.status == 0 && imported.output.contains("60 samples in 60.0 s"), "\(imported.output)")
      #expect(imported.errors.contains(words))
      let session = try String(contentsOfFile: folder + "/walk/session.json", encoding: .utf8)
      #expect(
        session.contains(#""clockStepCount":1"#) && session.contains(#""stepMs":-3600000.0"#), "\(session)")
      let statistics = try await Ringtap.run(["log", "stats", path])
      #expect(statistics.output.contains(words) && statistics.output.contains("for 60.000 s"))
      #expect(try await Ringtap.run(["analyse", path]).errors.contains(words))
      #expect(try await Ringtap.run(["analyse", folder + "/walk"]).errors.contains("wall clock was set"))
      let report = try await Ringtap.run(["report", path, "-o", folder + "/report.html"])
      let page = try String(contentsOfFile: folder + "/report.html", encoding: .utf8)
      #expect(report.status == 0 && page.contains(words.dropFirst(3)))
    }
  }

  /// A file with a byte order mark, and with CR LF line ends.
  @Test func readsFilesWithAByteOrderMark() async throws {
    try await withFolder { folder in
      let packets = (1...5 as ClosedRange<Int64>).map { number in
        LoggedPacket.acl(
          .controllerToHost, "4020 0b00 0700 0400 1b1200 163c e803",
          timeNanoseconds: 1_700_000_000_000_000_000 + number * 1_000_000_000)
      }
      try Data(LogKit.log(packets)).write(to: URL(filePath: folder + "/log"))
      for (name, text) in [
        ("lines", "0x0012 2a37\r\n"),
        ("json", #"{"type":"characteristic","valueHandle":18,"uuid":"2a37"}"# + "\r\n"),
      ] {
        try ("\u{FEFF}" + text).write(toFile: folder + "/\(name)", atomically: true, encoding: .utf8)
        let run = try await Ringtap.run(
          ["import", folder + "/log", "-o", folder + "/out-\(name)", "--attributes", folder + "/\(name)"])
        #expect(run.status == 0 && run.output.contains("5 heart_rate"), "\(run.errors)")
      }
      try ("\u{FEFF}" + #"{"devices":[{"address":"70:CB:0D:00:A1:B2","capture":"ring"}],"directory":"/tmp"}"#)
        .write(toFile: folder + "/daemon.json", atomically: true, encoding: .utf8)
      let daemon = try await Ringtap.run(["daemon", "--check", folder + "/daemon.json"])
      #expect(!daemon.errors.contains("JSON"), "\(daemon.errors)")
    }
  }

  /// Advertisements without a link, as a scan finds them.
  @Test func scansALogOfAdvertisements() async throws {
    try await withFolder { folder in
      let packets = (0..<5 as Range<Int64>).map { number in
        LoggedPacket(
          type: .event, direction: .controllerToHost,
          octets: octetsOf("3e14 02 01 03 01 9a78563412c4 08 020106 0409485739 c4"),
          timeNanoseconds: 1_700_000_000_000_000_000 + number * 100_000_000)
      }
      try Data(LogKit.log(packets)).write(to: URL(filePath: folder + "/log"))
      let run = try await Ringtap.run(
        ["scan", "--transport", "replay:\(folder)/log", "--duration", "2", "--json"])
      #expect(run.status == 0 && run.output.contains("C4:12:34:56:78:9A"), "\(run.errors)")
      #expect(run.output.contains("HW9"))
      let connect = try await Ringtap.run(
        ["gatt", "C4:12:34:56:78:9A", "--transport", "replay:\(folder)/log", "--timeout", "2"])
      #expect(connect.status != 0 && connect.errors.contains("no link"), "\(connect.errors)")
    }
  }
}

import Foundation
import TestKit
import Testing

/// What the daemon prints while it starts and records.
@Suite struct DaemonWordsTests {
  @Test func saysWhatItRecordsAndWhere() async throws {
    try await withFolder { folder in
      let file = """
        {"directory": "\(folder)/captures", "radio": {"transport": "virtual:ring"},
         "statusSocket": "\(folder)/status",
         "devices": [{"name": "left", "address": "70:CB:0D:00:A1:B2", "sensor": "ring"}]}
        """
      try file.write(toFile: folder + "/daemon.json", atomically: true, encoding: .utf8)
      let daemon = try Running(["daemon", folder + "/daemon.json"], in: folder)
      try await eventually("the daemon records") { daemon.said.contains("recording into") }
      daemon.signal(SIGTERM)
      #expect(try await daemon.status("the daemon") == 0, "\(daemon.said)")
      let lines = daemon.said.split(separator: "\n").map(String.init)
      #expect(lines.first == "ringtap: recording 1 device on virtual:ring", "\(lines)")
      let start = "ringtap: left: recording into \(folder)/captures/left/"
      let began = try #require(lines.first { $0.hasPrefix(start) })
      // The folder is named after the time, and holds the tables.
      let directory = "\(folder)/captures/left/" + began.dropFirst(start.count)
      #expect(FileManager.default.fileExists(atPath: directory + "/ppg.csv"))
    }
  }
}

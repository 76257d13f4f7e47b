import BLELinux
import Foundation
import TestKit
import Testing

/// A capture whose `session.json` somebody has broken.
@Suite(.timeLimit(.minutes(1))) struct DamagedSessionTests {
  /// A script that asks only for the exit status knows.
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
}

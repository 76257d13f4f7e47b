import Foundation
import TestKit
import Testing

/// `Tools/demo`, the first thing that a newcomer runs.
@Suite struct DemoTests {
  @Test func endsWithAPulseAndAReport() async throws {
    try await withFolder { folder in
      let run = try await Program.run(
        Place.root + "/Tools/demo", [folder + "/walk"], environment: ["RINGTAP": try Place.ringtap])
      #expect(run.status == 0, "\(run.errors)")
      #expect(run.outputLines.contains { $0.hasPrefix("0 lost of ") }, "\(run.output)")
      // The emulated wearer rests with 72 beats a minute.
      let pulse = try #require(run.output.firstMatch(of: /pulse +([0-9.]+) a minute on average/))
      #expect(abs(try #require(Double(pulse.output.1)) - 72) < 1)
      let page = try #require(run.output.firstMatch(of: /Open (.+report\.html) in a browser/))
      #expect(FileManager.default.fileExists(atPath: String(page.output.1)))
      // The rows shown come from the emulated sensor, not from the captured frames with which it begins.
      #expect(run.outputLines.contains { $0.contains(",10957,10689,268") })
    }
  }
}

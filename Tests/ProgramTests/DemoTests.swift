import Foundation
import TestKit
import Testing

/// `Tools/demo`, the first thing that a newcomer runs.
@Suite struct DemoTests {
  @Test func endsWithAPulseAndAReport() async throws {
    try await withFolder { folder in
      // On a terminal, as a person sees it.
      let run = try await Program.run(
        "script", ["-qec", "stty rows 40 cols 100; \(Place.root)/Tools/demo \(folder)/walk", "/dev/null"],
        environment: ["RINGTAP": try Place.ringtap, "TERM": "xterm", "LC_ALL": "C.UTF-8"])
      let output = String(String.UnicodeScalarView(run.output.unicodeScalars.filter { $0 != "\r" }))
      let lines = output.split(separator: "\n")
      #expect(run.status == 0, "\(output)")
      #expect(lines.contains { $0.hasPrefix("0 lost of ") }, "\(output)")
      // The live view's last frame stays above the summary. Only lines that have changed are drawn again.
      let view = try #require(output.firstRange(of: "link closed"))
      let frame = output[view.lowerBound...].split(separator: "\n").prefix { !$0.contains("samples in") }
      #expect(frame.last?.contains("walk") == true && frame.last?.contains("ended") == true)
      // The emulated wearer rests with 72 beats a minute.
      let pulse = try #require(output.firstMatch(of: /pulse +([0-9.]+) a minute on average/))
      #expect(abs(try #require(Double(pulse.output.1)) - 72) < 1)
      let page = try #require(output.firstMatch(of: /Open (.+report\.html) in a browser/))
      #expect(FileManager.default.fileExists(atPath: String(page.output.1)))
      // The rows shown come from the emulated sensor, not from the captured frames with which it begins.
      #expect(lines.contains { $0.contains(",10957,10689,268") })
    }
  }
}

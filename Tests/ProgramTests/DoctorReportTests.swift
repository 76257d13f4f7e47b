import Foundation
import TestKit
import Testing

/// `ringtap doctor --report`: a report for a bug tracker contains no personal data.
@Suite struct DoctorReportTests {
  @Test func tellsOfTheMachineAndOfNobody() async throws {
    try await withFolder { folder in
      let log = Place.root + "/Captures/virtual-ring.btsnoop"
      let run = try await Ringtap.run([
        "doctor", "--folder", folder, "--report", folder + "/fault", "--log", log,
      ])
      let last = try #require(run.errorLines.last)
      #expect(last.hasSuffix("review the contents before sharing"))
      let text = try String(contentsOfFile: folder + "/fault.txt", encoding: .utf8)
      #expect(text.hasPrefix("ringtap ") && text.contains("\nLinux version "))
      for line in run.outputLines where !line.contains(":0") { #expect(text.contains(line)) }
      // 70:CB:0D:00:A1:B2, least significant byte first.
      let address = Data([0xB2, 0xA1, 0x00, 0x0D, 0xCB, 0x70])
      let before = try Data(contentsOf: URL(filePath: log))
      let after = try Data(contentsOf: URL(filePath: folder + "/fault.btsnoop"))
      #expect(before.range(of: address) != nil)
      #expect(after.count == before.count && after.range(of: address) == nil)
    }
  }

  @Test func aLogThatIsNotThereIsTold() async throws {
    try await withFolder { folder in
      let run = try await Ringtap.run(["doctor", "--report", folder + "/fault", "--log", folder + "/none"])
      #expect(run.status == 1 && run.errorLines.last?.contains("none") == true, "\(run.errorLines)")
      let alone = try await Ringtap.run(["doctor", "--log", folder + "/none"])
      #expect(alone.status == 2)
    }
  }
}

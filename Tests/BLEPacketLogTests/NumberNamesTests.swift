import BLEDissector
import TestKit
import Testing

/// Names of the SIG's numbers, as Wireshark has them.
@Suite struct NumberNamesTests {
  /// Companies change their names, and lists are of different dates: one name in a hundred may differ.
  @Test func namesCompaniesAsWireshark() async throws {
    _ = try Place.tool("tshark")
    let command =
      "LC_ALL=C.UTF-8 tshark -G values | grep -P '^V\\tbtcommon.eir_ad.entry.company_id\\t'"
    let lines = try await Program.run("/bin/sh", ["-c", command]).outputLines
    try #require(lines.count > 3000)
    func letters(_ name: some StringProtocol) -> String { name.lowercased().filter(\.isLetter) }
    var (named, different) = (0, 0)
    for line in lines {
      let parts = line.split(separator: "\t")
      guard parts.count == 4, let number = UInt16(parts[2]), let name = NumberNames.company(number) else {
        continue
      }
      named += 1
      if letters(name) != letters(parts[3]) { different += 1 }
    }
    #expect(named > 3000 && different * 100 <= named, "\(different) of \(named)")
  }

  /// Wireshark has no list of whole appearances; these are of Assigned Numbers, 2.6.3.
  @Test func namesAppearances() {
    #expect(NumberNames.appearance(0x0341) == "Heart Rate Belt")
    #expect(NumberNames.appearance(0x0340) == "Heart Rate Sensor")
    #expect(NumberNames.appearance(0x037F) == "Heart Rate Sensor")
    #expect(NumberNames.appearance(0) == nil && NumberNames.appearance(0xFFFF) == nil)
  }
}

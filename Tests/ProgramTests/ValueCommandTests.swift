import TestKit
import Testing

/// The output of `read`, `write` and `notify` for people and for programs.
@Suite(.timeLimit(.minutes(1))) struct ValueCommandTests {
  private static let strap = ["70:CB:0D:00:18:0D"]
  private static let air = ["--transport", "virtual:heart-rate,rate=20,heart-rate=64"]

  /// Heart Rate Service 1.0, 3.1.1.1: flags 0x16 are an 8-bit rate and skin contact. 0x40 is 64.
  @Test func notifyPrintsTimeNameAndValue() async throws {
    let run = try await Ringtap.run(["notify"] + Self.strap + ["2a37", "--count", "2"] + Self.air)
    #expect(run.status == 0 && run.outputLines.count == 2, "\(run.errorLines)")
    let form =
      #/\d\d:\d\d:\d\d\.\d{6}  0x[0-9a-f]{4}  16(?<rate>[0-9a-f]{2})  Heart Rate Measurement: (?<text>.*)/#
    for line in run.outputLines {
      let match = try #require(line.wholeMatch(of: form), "\(line)")
      let rate = try #require(UInt8(match.rate, radix: 16))
      #expect(match.text == "Heart rate: \(rate) beats/min, contact")
    }
  }

  @Test func notifyGivesProgramsTheDecodedValue() async throws {
    let run = try await Ringtap.run(["notify"] + Self.strap + ["2a37", "--count", "1", "--json"] + Self.air)
    let line = try #require(run.outputLines.first)
    #expect(line.contains(#""uuid":"2a37","name":"Heart Rate Measurement","value":"16"#), "\(line)")
    #expect(line.contains(#""decoded":{"heartRateBpm":"#) && line.contains(#""sensorContact":"detected""#))
  }

  /// Bluetooth Assigned Numbers: body sensor location 1 is the chest.
  @Test(arguments: [
    ("2a38", "01  Body Sensor Location: chest"),
    ("2a00", "72696e67746170207374726170  Device Name: ringtap strap"),
  ]) func readPrintsTheDecodedValue(_ uuid: String, _ expected: String) async throws {
    let run = try await Ringtap.run(["read"] + Self.strap + [uuid] + Self.air)
    let line = try #require(run.outputLines.first, "\(run.errorLines)")
    #expect(line.hasPrefix("0x00") && line.dropFirst(8) == expected, "\(line)")
  }

  /// A handle is read without discovery: its type is unknown.
  @Test func readsAHandleWithoutAName() async throws {
    let run = try await Ringtap.run(["read"] + Self.strap + ["0x0003"] + Self.air)
    #expect(run.outputLines == [#"0x0003  72696e67746170207374726170  "ringtap strap""#], "\(run.errorLines)")
  }
}

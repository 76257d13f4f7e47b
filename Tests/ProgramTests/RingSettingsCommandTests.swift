import Foundation
import TestKit
import Testing

/// `ringtap ring settings` against the emulated ring in the same process, which stores written settings.
@Suite struct RingSettingsCommandTests {
  private func settings(_ arguments: [String]) async throws -> [String: [String: Any]] {
    let run = try await Ringtap.run(
      ["ring", "settings", "--transport", "virtual:ring", "--json"] + arguments)
    #expect(run.status == 0, "\(run.errorLines)")
    var found: [String: [String: Any]] = [:]
    for line in run.outputLines {
      let object = try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any]
      if let object, let kind = object["kind"] as? String { found[kind] = object }
    }
    return found
  }

  /// Reference `colmi-ring-protocol.md`, 3, 0x0A and 0x16: values that are not given stay unchanged.
  @Test func writesAllThatIsPublished() async throws {
    let before = try #require(try await settings([])["userPreferences"])
    let after = try await settings([
      "--clock", "12h", "--units", "imperial", "--gender", "female", "--age", "41", "--height", "181",
      "--systolic", "118", "--pulse-alarm", "170", "--heart-rate", "on", "--heart-rate-interval", "10",
      "--low-alarm", "45", "--high-alarm", "165", "--alarm-switch", "1", "--start-interval", "5",
    ])
    let wearer = try #require(after["userPreferences"])
    let expected: [String: Int] = [
      "is12h": 1, "imperial": 1, "gender": 1, "age": 41, "heightCm": 181, "systolic": 118, "hrAlarm": 170,
    ]
    for (key, value) in expected { #expect(wearer[key] as? Int == value, "\(key)") }
    for key in ["weightKg", "diastolic"] { #expect(wearer[key] as? Int == before[key] as? Int, "\(key)") }
    let rate = try #require(after["hrLogSettings"])
    #expect(rate["enabled"] as? Bool == true)
    let alarms = [
      "intervalMinutes": 10, "startInterval": 5, "lowAlarm": 45, "highAlarm": 165, "alarmSwitch": 1,
    ]
    for (key, value) in alarms { #expect(rate[key] as? Int == value, "\(key)") }
  }

  @Test(arguments: [
    ["--phone-name", "more than 12 octets"], ["--phone-name", "é"], ["--touch-strength", "1"],
    ["--clock", "13h"],
    ["--gender", "unknown"], ["--age", "256"],
  ])
  func wrongValuesAreWrongUsage(_ arguments: [String]) async throws {
    let run = try await Ringtap.run(
      ["ring", "settings", "--transport", "virtual:ring"] + arguments)
    #expect(run.status == 2)
  }

  /// The source of the capabilities.
  @Test(arguments: [([], "deviceSupport"), (["--set-time"], "setTime")])
  func tellsWhereCapabilitiesComeFrom(_ arguments: [String], _ source: String) async throws {
    let run = try await Ringtap.run(
      ["ring", "info", "--transport", "virtual:ring", "--json"] + arguments)
    #expect(
      run.outputLines.contains { $0.hasPrefix(#"{"kind":"capabilities","source":"\#(source)","#) },
      "\(run.outputLines)")
  }
}

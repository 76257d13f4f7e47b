import CaptureTools
import Foundation
import Testing

@Suite struct LocalTimeTests {
  /// Compared with Foundation's calendar, in a zone with a half-hour offset and one with summer time.
  @Test(arguments: ["Asia/Kolkata", "Europe/Berlin", "UTC"])
  func agreesWithFoundation(_ zone: String) async throws {
    let file = "/usr/share/zoneinfo/" + zone
    guard FileManager.default.fileExists(atPath: file) else { return }
    await #expect(processExitsWith: .success) { [zone] in
      setenv("TZ", zone, 1)
      var calendar = Calendar(identifier: .gregorian)
      calendar.timeZone = try #require(TimeZone(identifier: zone))
      // A minute before and after the change to summer time in 2026, and a day in winter.
      for seconds in [1_774_745_940, 1_774_746_060, 1_795_276_800] as [Int64] {
        let date = Date(timeIntervalSince1970: Double(seconds))
        let parts = calendar.dateComponents([.year, .month, .day, .hour, .minute, .second], from: date)
        let time = LocalTime(unixSeconds: seconds)
        #expect((time.year, time.month, time.day) == (parts.year, parts.month, parts.day))
        #expect((time.hour, time.minute, time.second) == (parts.hour, parts.minute, parts.second))
        #expect(time.offsetSeconds == calendar.timeZone.secondsFromGMT(for: date))
      }
    }
  }
}

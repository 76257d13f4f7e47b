import BLELinux
import BLEWire
import CaptureTools
import Foundation
import Recording
import Testing

@Suite struct NumberTextTests {
  /// As C's printf: ties of the binary value round to the even digit.
  @Test(
    arguments: [
      (0.25, 1, "0.2"), (0.35, 1, "0.3"), (2.5, 0, "2"), (-1.005, 2, "-1.00"),
      (1e15, 1, "1000000000000000.0"),
    ] as [(Double, Int, String)])
  func rounds(_ number: Double, _ decimals: Int, _ text: String) {
    #expect(NumberText.fixed(number, decimals) == text)
    #expect(String(format: "%.\(decimals)f", number) == text)
  }

  @Test(
    arguments: [(24.96, 4, "24.96"), (12_345, 4, "1.234e+04"), (3, 4, "3")] as [(Double, Int, String)])
  func keepsDigits(_ number: Double, _ digits: Int, _ text: String) {
    #expect(NumberText.significant(number, digits) == text)
  }

  @Test(arguments: [(7, 2, "07"), (123, 2, "123"), (-7, 3, "-07")] as [(Int, Int, String)])
  func pads(_ number: Int, _ digits: Int, _ text: String) {
    #expect(NumberText.padded(number, digits) == text)
  }
}

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

@Suite struct ReadingCommandTests {
  @Test func readsWhatIsWritten() throws {
    let path = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString).path
    defer { try? FileManager.default.removeItem(atPath: path) }
    let command = try #require(ReadingCommand("cat > '\(path)'"))
    let octets = [UInt8]("one\ntwo\n".utf8)
    try command.write(octets.span)
    command.finish()
    #expect(FileManager.default.contents(atPath: path) == Data(octets))
    #expect(Files.byteCount(of: path) == octets.count)
  }

  @Test func knowsNoLengthOfADirectory() { #expect(Files.byteCount(of: "/") == nil) }
}

import Foundation
import TestKit
import Testing

/// Ends of commands that are not interrupted: before a link exists, after many lost links, after a pause of
/// the peer.
@Suite(.timeLimit(.minutes(3)))
struct EndTests {
  private static let absent = "70:CB:0D:00:00:99"

  /// In the live view a key does the same as Ctrl-C, and the terminal's settings are restored, by `stty`.
  @Test @MainActor func endsByAKey() throws {
    try withFolder { folder in
      let capture = "\(try Place.ringtap) capture --transport virtual:ring --output walk"
      let run = try TerminalRun(
        "/bin/sh", ["-c", "cd '\(folder)'; stty -a >before; \(capture); echo status $?; stty -a >after"])
      try run.wait("a view") { $0.contains("Ctrl-C ends") && $0.contains(" Hz") }
      try run.type("xq")
      #expect(try run.status() == 0)
      #expect(run.text.contains("interrupted") && run.text.contains("status 0"), "\(run.text.suffix(500))")
      #expect(!run.text.contains("xq"))
      let settings = try ["before", "after"].map {
        try String(contentsOfFile: "\(folder)/\($0)", encoding: .utf8)
      }
      #expect(settings[0] == settings[1] && settings[0].contains(" icanon"))
    }
  }

  /// No link was made, so --duration never began: that is a failure with a reason, not an interruption.
  @Test(arguments: [
    ["capture", absent, "--output", "FOLDER/walk", "--transport", "virtual:ring"],
    ["ring", "raw", absent, "--transport", "virtual:ring"],
    ["ring", "realtime", "heart-rate", absent, "--transport", "virtual:ring"],
    ["notify", absent, "2a37", "--transport", "virtual:heart-rate"],
    ["heart-rate", absent, "--transport", "virtual:heart-rate"],
  ])
  func aDurationWithoutALink(_ line: [String]) async throws {
    try await withFolder { folder in
      let arguments = line.map { $0.replacingOccurrences(of: "FOLDER", with: folder) }
      let result = try await Ringtap.run(arguments + ["--duration", "0.2", "--timeout", "1"])
      #expect(result.status == 1)
      #expect(result.errorLines.last?.contains("\(Self.absent) (public) did not answer within 1 s") == true)
      #expect(!FileManager.default.fileExists(atPath: folder + "/walk/session.json"))
    }
  }

  /// It is not reported as interrupted if the log ends before the ring has replied, or if the device is of
  /// another kind.
  @Test(arguments: [
    (["ring", "battery"], "ringtap: the log ended before the command finished"),
    (["heart-rate", "--duration", "60"], "ringtap: 70:CB:0D:00:A1:B2 has no heart-rate service (180d)"),
  ])
  func aLogThatHasNotWhatIsAskedFor(_ line: [String], _ reason: String) async throws {
    let log = Place.root + "/Captures/virtual-ring.btsnoop"
    let result = try await Ringtap.run(line + ["--transport", "replay:\(log),speed=max"])
    #expect(result.status == 1)
    #expect(result.errorLines.last?.hasPrefix(reason) == true, "\(result.errors)")
  }

  /// The link is lost after each sample: a few lines report it, then a count is printed; the report has all
  /// losses.
  @Test func aStormOfLinksIsToldInFewLines() async throws {
    try await withFolder { folder in
      let result = try await Ringtap.run([
        "capture", "--transport", "virtual:ring,rate=300,disconnect-after=1", "--count", "16", "--output",
        folder + "/walk",
      ])
      #expect(result.status == 0, "\(result.errors)")
      let news = result.errorLines.filter {
        $0.contains("reconnecting") || $0.hasPrefix("ringtap: streaming again")
      }
      #expect(news.count == 20)
      let more = result.errorLines.compactMap {
        $0.wholeMatch(of: /ringtap: … and (\d+) more in the last minute.*/)?.1
      }
      let report = try session(folder + "/walk")
      let gaps = try #require(report["gapCount"] as? Int)
      #expect(gaps >= 15 && (report["gaps"] as? [Any])?.count == gaps)
      // The last gap is closed if the stream returned before the last sample.
      let told = more.compactMap { Int($0) }.reduce(20, +)
      #expect((2 * gaps - 2...2 * gaps).contains(told), "\(gaps) gaps, \(told) lines")
    }
  }

  /// A peer that pauses for three seconds delays its frames, but loses none. Timestamps are times of arrival,
  /// because a byte stream has no others. At ten ticks a second a busy machine is not a tick late.
  @Test func aPauseOfTheFarEndIsNoLoss() async throws {
    try await withFolder { folder in
      let ring = try Ringtap.start(
        ["emulate", "ring", "--rate", "30", "--transport", "unix:" + folder + "/far"])
      try await ring.line(containing: "ready")
      let relay = try StreamRelay(folder + "/near", to: folder + "/far")
      let capture = try Ringtap.start([
        "capture", "--count", "300", "--output", folder + "/walk", "--transport", "unix:" + folder + "/near",
      ])
      try await eventually("it streams") { relay.notificationCount >= 120 }
      ring.send(SIGSTOP)
      let end = ContinuousClock.now + .seconds(3)
      try await eventually("three seconds are over") { ContinuousClock.now >= end }
      ring.send(SIGCONT)
      let result = try await capture.ended()
      #expect(result.status == 0, "\(result.errors)")
      let report = try session(folder + "/walk")
      #expect(report["received"] as? Int == 300 && report["gapCount"] as? Int == 0)
      let ticks = try #require(report["ticks"] as? [String: Any])
      #expect(ticks["rows"] as? Int == 100)
      #expect((ticks["clock"] as? [String: Any])?["missingTicks"] as? Int == 0, "\(ticks)")
      await ring.end()
    }
  }

  private func session(_ directory: String) throws -> [String: Any] {
    let data = try Data(contentsOf: URL(filePath: directory + "/session.json"))
    return try #require(JSONSerialization.jsonObject(with: data) as? [String: Any])
  }
}

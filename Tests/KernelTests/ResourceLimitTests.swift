import Foundation
import TestKit
import Testing

extension WithoutKernel {
  /// Captures at the limits of the machine's resources.
  @Suite final class ResourceLimitTests {
    private let scene: Scene

    init() throws { scene = try Scene() }
    isolated deinit { scene.end() }

    /// One clear message for each limit that is too low, and none of Swift's own threads traps because a
    /// descriptor is missing.
    @Test(arguments: [6, 8, 10, 12, 14, 16, 18, 20, 22, 26, 32, 48, 64])
    func saysThatTooFewFilesMayBeOpen(_ limit: Int) throws {
      let path = scene.path("capture")
      let result = try scene.run(
        "bash",
        [
          "-c", "ulimit -n \(limit); exec \"$@\"", "bash", Place.ringtap, "capture", "70:CB:0D:00:A1:B2",
          "--transport", "virtual:ring,rate=300", "--count", "30", "--output", path,
        ])
      result.expectFailure(saying: "open files", "ulimit -n")
      #expect(!FileManager.default.fileExists(atPath: path))
    }

    @Test func recordsWithTheDescriptorsThatItNeeds() throws {
      let path = scene.path("capture")
      try scene.run(
        "bash",
        [
          "-c", "ulimit -n 80; exec \"$@\"", "bash", Place.ringtap, "capture", "70:CB:0D:00:A1:B2",
          "--transport", "virtual:ring,rate=300", "--count", "30", "--output", path,
        ]
      ).expectSuccess()
      try CaptureFolder(path).expectNoTrouble(samples: 30)
    }
  }
}

extension InTestKernel {
  /// Changes of the machine during a capture.
  @Suite final class ResourceLimitTests {
    private let scene: Scene

    init() throws { scene = try Scene() }
    isolated deinit { scene.end() }

    /// A reconnect needs a socket. Without one the capture ends, and its data is complete.
    @Test func keepsWhatItHasWhenNoSocketCanBeOpened() throws {
      let ring = try scene.emulatedRing("--rate", "300", "--disconnect-after", "600")
      let path = scene.path("capture")
      let capture = try scene.startRingtap("capture", ring.address, "--output", path)
      try scene.waitForTables(of: path)
      try scene.demand("prlimit", ["--pid", "\(capture.identifier)", "--nofile=3"])
      let result = try capture.finish()
      #expect(result.status == 1)
      #expect(result.errors.contains("Too many open files"))
      let folder = try scene.wholeCapture(path)
      folder.expectNoTrouble(samples: 600)
    }

    /// The wall clock is set and set back. In the end the difference is zero, but the session reports it
    /// anyway.
    @Test func tellsThatTheClockWasSetAndSetBack() throws {
      let ring = try scene.emulatedRing("--rate", "300")
      let path = scene.path("capture")
      let capture = try scene.startRingtap("capture", ring.address, "--output", path)
      try scene.waitForTables(of: path)
      try scene.demand("date", ["-s", "+3600 seconds"])
      // Waits for a row that was timestamped and written by the new clock.
      let hour = ["-c", "until [ \"$(tail -n 1 \"$0\" | cut -d, -f1)\" -gt \"$1\" ]; do sleep 0.05; done"]
      let now = Int(Date().timeIntervalSince1970)
      try scene.demand("bash", hour + [path + "/ppg.csv", "\(now - 60)000000000"])
      try scene.demand("date", ["-s", "-3600 seconds"])
      try scene.demand(
        "bash",
        [
          "-c",
          "from=$(wc -l < \"$0\"); until [ $(wc -l < \"$0\") -gt $((from + 600)) ]; do sleep 0.05; done",
          path + "/ppg.csv",
        ])
      capture.send(SIGINT)
      let result = try capture.finish()
      #expect(result.status == 0, "\(result.errors)")
      let data = try Data(contentsOf: URL(filePath: path + "/session.json"))
      let session = try #require(try JSONSerialization.jsonObject(with: data) as? [String: Any])
      #expect(session["clockStepMs"] == nil)
      #expect(session["clockStepCount"] as? Int == 2)
      let steps = try #require(session["clockSteps"] as? [[String: Any]]).compactMap {
        $0["stepMs"] as? Double
      }
      #expect(steps.count == 2 && zip(steps, [3_600_000, -3_600_000]).allSatisfy { abs($0 - $1) < 1500 })
    }

    /// The wall clock is set by an hour during a stream: only timestamps follow it, and the session reports
    /// it.
    @Test(arguments: [3600, -3600]) func goesOnWhenTheClockIsSet(_ seconds: Int) throws {
      let ring = try scene.emulatedRing("--rate", "75", "--real-time")
      let path = scene.path("capture")
      let capture = try scene.startRingtap("capture", ring.address, "--duration", "6", "--output", path)
      try scene.waitForRows(of: path)
      try scene.demand("date", ["-s", "\(seconds > 0 ? "+" : "")\(seconds) seconds"])
      let result = try capture.finish()
      try scene.demand("date", ["-s", "\(seconds < 0 ? "+" : "")\(-seconds) seconds"])
      #expect(result.status == 0, "\(result.errors)")
      let data = try Data(contentsOf: URL(filePath: path + "/session.json"))
      let session = try #require(try JSONSerialization.jsonObject(with: data) as? [String: Any])
      #expect(session["endReason"] as? String == "duration over")
      #expect(session["gapCount"] as? Int == 0)
      let streams = try #require(session["streams"] as? [String: [String: Any]])
      #expect(streams.values.allSatisfy { $0["missing"] as? Int == 0 }, "\(streams)")
      let step = try #require(session["clockStepMs"] as? Double)
      #expect(abs(step - Double(seconds) * 1000) < 1500)
      let (begin, end) = (
        try #require((session["startedAtNs"] as? String).flatMap { Int($0) }),
        try #require((session["endedAtNs"] as? String).flatMap { Int($0) })
      )
      // The duration is measured by the monotonic clock.
      #expect(abs(Double(end - begin) / 1e6 - step - 6000) < 3000)
      let stamps = try ["accelerometer", "ppg", "spo2"].map { name in
        try String(contentsOfFile: "\(path)/\(name).csv", encoding: .utf8).split(separator: "\n").dropFirst()
          .compactMap { Int($0.prefix { $0 != "," }) }
      }
      #expect(stamps.reduce(0) { $0 + $1.count } == session["received"] as? Int)
      for stamps in stamps {
        // Exactly one step of an hour: earlier packets are timestamped by the old clock, the rest by the new
        // one.
        let steps = zip(stamps, stamps.dropFirst()).map { $1 - $0 }
        let far = steps.filter { abs($0) > 60_000_000_000 }
        #expect(far.count == 1)
        #expect(abs(Double(far.first ?? 0) / 1e9 - Double(seconds)) < 5)
        #expect(steps.count { $0 <= 0 } == (seconds < 0 ? 1 : 0))
      }
    }
  }
}

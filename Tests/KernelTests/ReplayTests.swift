import Foundation
import TestKit
import Testing

extension OverEachWay {
  /// Captures replayed from the logs of captures of an independent ring implementation.
  @Suite final class ReplayTests {
    private static let count = 300
    private static let tables = ["accelerometer.csv", "ppg.csv", "spo2.csv"]

    private let scene: Scene

    init() throws { scene = try Scene() }
    isolated deinit { scene.end() }

    private func text(_ path: String) throws -> String { try String(contentsOfFile: path, encoding: .utf8) }

    /// A table with the resolution of btsnoop: the last three digits of each timestamp are lost.
    private func inMicroseconds(_ table: String) -> String {
      table.replacing(/(?m)^(\d+)\d{3},/) { "\($0.1)000," }
    }

    /// In raw mode the log only has what passed through the kernel's socket. Its link is replayed with the
    /// kernel's timestamps.
    @Test(arguments: Way.here, ["btsnoop", "pcapng"])
    func recordsTheSameFromTheLogOfACapture(_ way: Way, _ format: String) throws {
      let ring = try scene.bumbleRing(over: way, "--rate", "300")
      let (live, again) = (scene.path("live"), scene.path("again"))
      try scene.ringtap(
        reaching: ring, "capture", ring.address, "--count", "\(Self.count)", "--output", live, "--log-format",
        format
      ).expectSuccess()
      let replay = try scene.ringtap(
        "capture", "--transport", "replay:\(live)/packets.\(format)", "--count", "\(Self.count)", "--output",
        again)
      #expect(replay.status == 0, "\(replay.errors)")
      #expect(replay.errors.contains(" 0 differences"), "\(replay.errors)")
      for name in Self.tables {
        let recorded = try text(live + "/" + name)
        #expect(recorded.split(separator: "\n").count == 1 + Self.count / 3)
        let expected = format == "pcapng" ? recorded : inMicroseconds(recorded)
        #expect(try text(again + "/" + name) == expected, "\(name)")
      }
      let whole = try scene.harness("replay", "--strict", "\(live)/packets.\(format)")
      whole.expectSuccess()
      #expect(whole.output.contains(" 0 differences"), "\(whole.output)")
    }
  }
}

extension WithoutKernel {
  /// Output and exit status of `harness replay`.
  @Suite final class LogReplayCommandTests {
    private let scene: Scene

    init() throws { scene = try Scene() }
    isolated deinit { scene.end() }

    private struct Report: Decodable {
      var packets: Int
      var played: Int
      var reproduced: Int
      var differenceCount: Int
      var differences: [String: Int]
      var notifications: Int
      var samples: [String: Int]
    }

    private let log = Place.capture("exclusive-hci.btsnoop")

    /// The figures are those of tshark's decode of the log: 30 frames, a third of each kind.
    @Test func tellsProgramsWhatItFound() throws {
      let result = try scene.harness("replay", "--json", "--strict", log)
      result.expectSuccess()
      let report = try #require(try result.objects(Report.self).first)
      #expect(report.differenceCount == 0 && report.differences == [:])
      #expect(report.played == report.packets)
      #expect(report.notifications == 30)
      #expect(report.samples == ["accelerometer": 10, "ppg": 10, "spo2": 10])
    }

    /// The Error Response to the second Find By Type Value Request is cut out: the request is reported. This
    /// is a failure only with --strict.
    @Test func tellsADifference() throws {
      let path = scene.path("hole.btsnoop")
      try hole(in: log, to: path, withoutRecordEndingIn: [0x01, 0x06, 0x14, 0x00, 0x0A])
      let result = try scene.harness("replay", path)
      #expect(result.status == 0, "\(result.errors)")
      #expect(result.output.contains(", 1 difference\n"), "\(result.output)")
      #expect(result.output.contains("packet 28: Find By Type Value Request"), "\(result.output)")
      #expect(try scene.harness("replay", "--strict", path).status == 1)
    }

    @Test func playsTheGoodPartOfACutLog() throws {
      let path = scene.path("cut.btsnoop")
      let whole = try Data(contentsOf: URL(filePath: log))
      try whole.prefix(whole.count - 5).write(to: URL(filePath: path))
      let result = try scene.harness("replay", path)
      #expect(result.status == 1)
      #expect(result.output.contains("packets played"))
      #expect(result.errors.contains("records before are good"), "\(result.errors)")
    }

    @Test func refusesWhatItCannotPlay() throws {
      try scene.harness("replay", scene.path("none")).expectFailure(saying: "none")
      let text = scene.path("text")
      try Data("this is no packet log, whatever it is".utf8).write(to: URL(filePath: text))
      try scene.harness("replay", text).expectFailure(saying: "is not a packet log")
      try scene.harness("replay", log, "--link", "9").expectFailure(saying: "there is no link 9")
      #expect(try scene.harness("replay", log, "--speed", "fast").status == 2)
    }

    /// Copies a btsnoop log without the first record that ends with these bytes.
    private func hole(in source: String, to path: String, withoutRecordEndingIn end: [UInt8]) throws {
      let octets = [UInt8](try Data(contentsOf: URL(filePath: source)))
      var kept = Array(octets[..<16])
      var (offset, isCut) = (16, false)
      while offset + 24 <= octets.count {
        let length = octets[offset + 4..<offset + 8].reduce(0) { $0 << 8 | Int($1) }
        let next = offset + 24 + length
        if !isCut, octets[offset + 24..<next].suffix(end.count).elementsEqual(end) {
          isCut = true
        } else {
          kept += octets[offset..<next]
        }
        offset = next
      }
      try #require(isCut)
      try Data(kept).write(to: URL(filePath: path))
    }
  }
}

import BLEHost
import BLELinux
import BLEWire
import ColmiRing
import Foundation
import JSONText
import TestKit
import Testing

import BLEDissector
import Recording
import SensorSessions

/// Table rows for frames that real rings sent.
@Suite struct StreamTableTests {
  private static let time = ReceiveTime(nanoseconds: 1_700_000_000_123_456_789)

  /// Decoded values from the vectors. 512 counts are 1 g, so 372 counts are 0.7265625 g, rounded half away
  /// from zero.
  @Test(arguments: [
    ("raw-spo2-ei-1", RingStream.spO2, "160,194,114,149"), ("raw-spo2-r06", .spO2, "74,136,76,101"),
    ("raw-ppg-ei-1", .ppg, "10625,10957,10689,268"), ("raw-ppg-ei-zero", .ppg, ",10957,10689,268"),
    ("raw-ppg-oc", .ppg, "1635,8232,8017,215"),
    ("raw-acc-ei-1", .accelerometer, "372,291,189,0.726563,0.568359,0.369141"),
    ("raw-acc-ei-3", .accelerometer, "366,289,192,0.714844,0.564453,0.375000"),
    ("raw-acc-r06", .accelerometer, "-77,12,502,-0.150391,0.023438,0.980469"),
    ("raw-acc-oc-highnibble", .accelerometer, "-66,-540,-40,-0.128906,-1.054688,-0.078125"),
  ])
  func writesTheRow(_ name: String, _ stream: RingStream, _ columns: String) throws {
    let frame = RingFrames.frame(name)
    let sample = RingRawReading(time: Self.time, sample: try RingRawSample(decoding: frame.span))
    var text: [UInt8] = []
    sample.appendRow(to: &text)
    #expect(String(decoding: text, as: UTF8.self) == "1700000000123456789," + columns + "\n")
    #expect(sample.stream == stream)
    let names = stream.header.split(separator: ",")
    #expect(names.count == columns.split(separator: ",", omittingEmptySubsequences: false).count + 1)
  }

  @Test(
    arguments: [
      (-2048, 2047, 0, "-2048,2047,0,-4.000000,3.998047,0.000000"),
      (1, -1, 256, "1,-1,256,0.001953,-0.001953,0.500000"),
    ] as [(Int16, Int16, Int16, String)])
  func writesTheExtremes(x: Int16, y: Int16, z: Int16, _ columns: String) {
    var text: [UInt8] = []
    RingRawReading(
      time: ReceiveTime(nanoseconds: 0), sample: .accelerometer(AccelerometerSample(x: x, y: y, z: z))
    ).appendRow(to: &text)
    #expect(String(decoding: text, as: UTF8.self) == "0," + columns + "\n")
  }

  @Test func knowsNoTableForUnknownSubtypes() {
    #expect(RingRawReading(time: Self.time, sample: .unknown(subtype: 5)).stream == nil)
  }

  @Test(
    arguments: [
      (0, "0"), (-1, "-1"), (.max, "9223372036854775807"), (.min, "-9223372036854775808"), (100, "100"),
    ] as [(Int64, String)])
  func writesNumbers(_ number: Int64, _ expected: String) {
    var text: [UInt8] = []
    text.append(decimal: number)
    #expect(String(decoding: text, as: UTF8.self) == expected)
  }
}

@Suite struct SessionReportTests {
  /// The report as Foundation's JSON parser reads it.
  private func object(_ report: SessionReport) throws -> [String: Any] {
    var line = JSONLine()
    report.encode(into: &line)
    #expect(line.octets.last == UInt8(ascii: "\n"))
    #expect(line.octets.count { $0 == UInt8(ascii: "\n") } == 1)
    return try #require(try JSONSerialization.jsonObject(with: Data(line.octets)) as? [String: Any])
  }

  private func report() -> SessionReport {
    SessionReport(
      device: DeviceAddress(bits: 0xC098_E500_000A, type: .random), deviceName: nil, adapter: "hci0",
      mode: "raw",
      startedAt: ReceiveTime(nanoseconds: 1_700_000_000_000_000_001))
  }

  /// The JSON keys that programs rely on, from the design document.
  @Test func saysEverything() throws {
    var report = report()
    report.deviceName = "R02_341C"
    report.endedAt = ReceiveTime(nanoseconds: 1_700_000_001_000_000_000)
    report.endReason = "count reached"
    report.received = 3
    report.malformed = 1
    report.lost.kernelQueue = 4
    report.lost.sampleQueue = 5
    report.lost.packetLog = 6
    report.lost.disk = 7
    report.streams = [SessionReport.Stream(name: "ppg", file: "ppg.csv", samples: 2)]
    report.mtu = 247
    let object = try object(report)
    #expect(object["formatVersion"] as? Int == 2)
    #expect(object["startedAtNs"] as? String == "1700000000000000001")
    #expect(object["endedAtNs"] as? String == "1700000001000000000")
    #expect(object["endReason"] as? String == "count reached")
    #expect(object["received"] as? Int == 3)
    #expect(object["malformed"] as? Int == 1)
    let lost = try #require(object["lost"] as? [String: Int])
    #expect(
      lost == [
        "kernelQueue": 4, "sampleQueue": 5, "packetLog": 6, "disk": 7, "cut": 0, "missing": 0, "late": 0,
        "unplaced": 0, "malformed": 1,
      ])
    #expect(report.lost.total == 23)
    let streams = try #require(object["streams"] as? [String: [String: Any]])
    #expect(streams["ppg"]?["samples"] as? Int == 2)
    #expect(streams["ppg"]?["file"] as? String == "ppg.csv")
    let device = try #require(object["device"] as? [String: String])
    #expect(device == ["address": "C0:98:E5:00:00:0A", "addressType": "random", "name": "R02_341C"])
    let connection = try #require(object["connection"] as? [String: Any])
    #expect((connection["inForce"] as? [String: Any])?["mtu"] as? Int == 247)
    #expect(connection["asked"] != nil && connection["changes"] != nil)
  }

  /// While a recording runs, and if it never ended, its end is `null`.
  @Test func hasNoEndBeforeItEnds() throws {
    let object = try object(report())
    #expect(object["endedAtNs"] is NSNull)
    #expect(object["endReason"] is NSNull)
  }

  /// Device names come over the air and may contain anything.
  @Test(arguments: ["\"", "\\", "a\nb\t\u{1}", "é", "戒指", "\u{7F}", "💍", "</script>", "\u{2028}"])
  func survivesNames(_ name: String) throws {
    var report = report()
    report.deviceName = name
    report.endReason = name
    let object = try object(report)
    #expect((object["device"] as? [String: String])?["name"] == name)
    #expect(object["endReason"] as? String == name)
  }
}

@Suite struct CaptureDirectoryTests {
  private func report(_ reason: String?) -> SessionReport {
    var report = SessionReport(
      device: .any, deviceName: nil, adapter: "hci0", mode: "raw", startedAt: ReceiveTime(nanoseconds: 1))
    report.endReason = reason
    return report
  }

  /// `session.json` is valid from its creation, and reserves the space to be completed on a full disk.
  @Test func keepsRoomAndRewrites() async throws {
    try withFolder { folder in
      let path = folder + "/new/capture"
      var directory = try CaptureDirectory(creating: path, report(nil))
      let made = directory.path
      #expect(made == path)
      #expect(contents(path + "/session.json").count == 8192)
      #expect(contents(path + "/session.json").last == UInt8(ascii: "\n"))
      #expect(try json(path + "/session.json")["endReason"] is NSNull)
      try directory.finish(report("count reached"))
      #expect(contents(path + "/session.json").count < 1_000)
      #expect(contents(path + "/session.json").last == UInt8(ascii: "\n"))
      #expect(try json(path + "/session.json")["endReason"] as? String == "count reached")
    }
  }

  /// Existing recordings are never overwritten.
  @Test func refusesASecondCapture() async throws {
    try withFolder { folder in
      do { _ = try CaptureDirectory(creating: folder, report("first")) }
      let before = contents(folder + "/session.json")
      #expect(throws: SystemErrorNumber(EEXIST)) {
        try SystemErrorNumber.of { _ = try CaptureDirectory(creating: folder, report("second")) }
      }
      #expect(contents(folder + "/session.json") == before)
    }
  }
}

/// A failed system call, compared only by its number, because messages contain paths that differ each time.
private struct SystemErrorNumber: Error, Equatable {
  let number: Int32
  init(_ number: Int32) { self.number = number }

  static func of(_ body: () throws -> Void) throws {
    do { try body() } catch let error as SystemError { throw SystemErrorNumber(error.number) }
  }
}

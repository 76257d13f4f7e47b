import BLEWire
import ColmiRing
import Foundation
import JSONText
import Physiology
import TestKit
import Testing

import CaptureTools
import Recording
import SensorSessions

/// Analyses synthetic captures: the results must match the values that went in.
@Suite struct CaptureAnalysisTests {
  /// A plethysmogram with known beats, from the sensor tests.
  private struct Fixture: Decodable {
    var name: String
    var rate: Double
    var ppg: [UInt16]
    var beats: [Double]

    static func named(_ name: String) throws -> Fixture {
      let file = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "PhysiologyTests/Fixtures/pulse-fixtures.json")
      let all = try JSONDecoder().decode([Fixture].self, from: Data(contentsOf: file))
      return try #require(all.first { $0.name == name })
    }
  }

  private static let start: Int64 = 1_700_000_000_000_000_000

  /// Writes the tables of a 50 Hz capture with a connection event every 30 ms. The ticks in `lost` are left
  /// out.
  private func write(_ fixture: Fixture, into folder: String, lost: Set<Int> = [], spacing: Int64 = 200_000)
    throws
  {
    var text: [RingStream: [UInt8]] = [:]
    for stream in RingStream.allCases { text[stream] = Array(stream.header.utf8) }
    var last: Int64 = 0
    for (tick, value) in fixture.ppg.enumerated() where !lost.contains(tick) {
      let event = (Double(tick) / fixture.rate / 0.03).rounded(.up)
      let order: [RingRawSample] = [
        .spO2(SpO2RawSample(value: 160, max: 194, min: 114, diff: 149)),
        .ppg(PPGRawSample(value: value, max: 10_957, min: 10_689, diff: 268)),
        .accelerometer(AccelerometerSample(x: 372, y: 291, z: 189)),
      ]
      for sample in order {
        // Packets of one event follow each other.
        let time = max(Self.start + Int64(event) * 30_000_000, last + spacing)
        last = time
        let row = RingRawReading(time: ReceiveTime(nanoseconds: time), sample: sample)
        guard let stream = row.stream else { continue }
        row.appendRow(to: &text[stream, default: []])
      }
    }
    for (stream, octets) in text {
      try Data(octets).write(to: URL(filePath: folder + "/" + stream.fileName))
    }
  }

  private func cells(_ path: String) -> [[String]] {
    rows(path).map { $0.split(separator: ",", omittingEmptySubsequences: false).map(String.init) }
  }

  @Test func analysesAWholeCapture() async throws {
    let fixture = try Fixture.named("clean 50 Hz 75/min")
    try withFolder { folder in
      try write(fixture, into: folder, lost: Set([500] + Array(1_500..<1_600)))
      let output = folder + "/out"
      let report = try CaptureAnalysis.run(folder, output: output)
      #expect(report.ticks.ticks == 2_899 && report.ticks.wholeTicks == 2_899)
      let clock = report.ticks.clock
      #expect(clock.missing == 101 && clock.gaps == 2 && clock.longestGap == 100)
      #expect(report.ticks.gaps.map(\.ticks) == [1, 100])
      let rate = try #require(report.ticks.rate)
      #expect(abs(rate - 50) < 0.01)
      // 30 s before the gap, 28 s after it.
      #expect(report.pulse.goodWindows == 5 && report.pulse.rejections == [.interrupted: 1])
      let mean = try #require(report.pulse.good.mean)
      let known =
        60 * Double(fixture.beats.count - 1) / ((fixture.beats.last ?? 0) - (fixture.beats.first ?? 0))
      #expect(abs(mean - known) < 2)
      #expect(report.activity.minutes == 1 && report.activity.counts == 0 && report.activity.steps == 0)
      #expect(!report.activity.hasRest)
      try check(output, report, of: fixture)
    }
  }

  /// Checks that kernel timestamps are those of the tables, fitted times are evenly spaced, and no tick is
  /// invented.
  private func check(_ output: String, _ report: AnalysisReport, of fixture: Fixture) throws {
    let samples = cells(output + "/samples.csv")
    #expect(samples.count == report.ticks.ticks + 1)
    #expect(samples[0].prefix(4) == ["fitted_time_ns", "tick", "missing_before", "fit"])
    #expect(samples.allSatisfy { $0.count == 21 })
    #expect(Array(samples[1][5...8]) == ["160", "194", "114", "149"])
    #expect(Array(samples[1][10...13]) == ["\(fixture.ppg[0])", "10957", "10689", "268"])
    #expect(Array(samples[1][15...]) == ["372", "291", "189", "0.726563", "0.568359", "0.369141"])
    #expect(samples.dropFirst().reduce(0) { $0 + (Int($1[2]) ?? 0) } == 101)
    // The timestamps equal those of the three tables.
    for (stream, column) in [(RingStream.spO2, 4), (.ppg, 9), (.accelerometer, 14)] {
      let folder = URL(filePath: output).deletingLastPathComponent().path
      let stamps = cells(folder + "/" + stream.fileName).map { $0[0] }
      #expect(samples.dropFirst().map { $0[column] } == Array(stamps.dropFirst()))
    }
    for (before, row) in zip(samples.dropFirst(), samples.dropFirst(2)) {
      let (step, time) = (try number(row[1]) - number(before[1]), try number(row[0]) - number(before[0]))
      #expect(step >= 1 && abs(time - 20_000_000 * step) < 1_000_000)
      #expect((try number(row[4]) - Self.start) % 30_000_000 <= 600_000)
    }
    let windows = cells(output + "/beat-windows.csv")
    #expect(windows.count == report.pulse.windows + 1)
    #expect(windows.dropFirst().count { $0.last == "good" } == report.pulse.goodWindows)
    // Eight-second windows every two seconds, on both sides of the gap. Each row has a pulse with quality and
    // method, or a reason.
    let pulse = cells(output + "/pulse.csv")
    #expect(pulse[0].prefix(5) == ["start_ns", "end_ns", "pulse_per_minute", "quality", "method"])
    #expect(pulse.count == report.pulse.rate.windows + 1 && report.pulse.rate.withPulse >= 20)
    #expect(pulse.dropFirst().count { !$0[2].isEmpty } == report.pulse.rate.withPulse)
    #expect(
      pulse.dropFirst().allSatisfy {
        $0[2].isEmpty == $0[3].isEmpty && $0[2].isEmpty == $0[4].isEmpty && $0[2].isEmpty != $0[6].isEmpty
      })
    #expect(pulse.dropFirst().allSatisfy { Int64($0[1])! - Int64($0[0])! <= 8_100_000_000 })
    let beats = cells(output + "/beats.csv")
    #expect(beats.count == report.pulse.beats + 1)
    #expect(beats.dropFirst().count { $0[2] == "1" } == report.pulse.acceptedIntervals)
    #expect(cells(output + "/activity.csv").count == 2)
  }

  private func number(_ text: String) throws -> Int64 { try #require(Int64(text)) }

  /// The JSON keys that programs rely on, read by Foundation's JSON parser.
  @Test func saysItInJSON() async throws {
    try withFolder { folder in
      try write(try Fixture.named("clean 50 Hz 75/min"), into: folder)
      var line = JSONLine()
      try CaptureAnalysis.run(folder, output: nil).encode(into: &line)
      let object = try #require(
        try JSONSerialization.jsonObject(with: Data(line.octets)) as? [String: Any])
      #expect(
        Set(object.keys) == [
          "streams", "ticks", "wholeTicks", "startNs", "endNs", "rateHz", "clock", "pulse", "variability",
          "activity",
        ])
      #expect(object["startNs"] as? String == "\(Self.start)")
      let pulse = try #require(object["pulse"] as? [String: Any])
      #expect(pulse["windows"] as? Int == 6 && pulse["goodWindows"] as? Int == 6)
      let rate = try #require(pulse["rate"] as? [String: Any])
      #expect(rate["windows"] as? Int == rate["windowsWithPulse"] as? Int)
      #expect(rate["beats"] as? Int == rate["windowsWithPulse"] as? Int && rate["tracking"] as? Int == 0)
      #expect(abs((rate["meanPerMinute"] as? Double ?? 0) - 75) < 1)
      #expect((object["clock"] as? [String: Any])?["missingTicks"] as? Int == 0)
      #expect((object["activity"] as? [String: Any])?["restMinutes"] == nil)
    }
  }

  /// Two ticks of one connection event stay two complete ticks even if all their timestamps are equal.
  @Test func keepsTicksOfOneStampApart() async throws {
    try withFolder { folder in
      try write(try Fixture.named("clean 50 Hz 75/min"), into: folder, spacing: 0)
      let report = try CaptureAnalysis.run(folder, output: nil)
      #expect(
        report.ticks.ticks == 3_000 && report.ticks.wholeTicks == 3_000 && report.ticks.clock.missing == 0)
      #expect(report.pulse.goodWindows == 6)
    }
  }

  /// A stock ring sends one tick a second. That is too slow for a pulse, and the reason is given; movement
  /// and rest are still analysed.
  @Test func analysesASlowCapture() async throws {
    var fixture = try Fixture.named("clean 50 Hz 75/min")
    fixture.rate = 1
    fixture.ppg = Array(fixture.ppg.prefix(1_800))
    try withFolder { folder in
      try write(fixture, into: folder)
      let report = try CaptureAnalysis.run(folder, output: nil)
      let rate = try #require(report.ticks.rate)
      #expect(abs(rate - 1) < 0.001)
      #expect(report.pulse.refusal == "1.0 samples a second are too few for a pulse: the method needs 18")
      #expect(report.activity.minutes == 30 && report.activity.steps == nil)
      #expect(report.activity.rest == [.asleep: 28, .unknown: 2])
      #expect(report.activity.hasRest)
    }
  }

  // MARK: Bad files

  /// An invalid row is skipped, and a line without an end ends its table. The valid part is analysed and the
  /// problem reported.
  @Test(arguments: [
    ("1700000000000000000,1,2", "it makes no sense"),
    ("1700000000000000000,1,2,3,x\n", "it makes no sense"),
    ("1700000000000000000,1,2,3,65536\n", "it makes no sense"),
    ("-1,1,2,3,4\n", "it makes no sense"),
    ("9223372036854775807,1,2,3,4\n", "it makes no sense"),
    ("99999999999999999999,1,2,3,4\n", "it makes no sense"),
    (",,,,\n", "it makes no sense"),
    ("1700000000000000000,1,2,3,4,5\n", "it makes no sense"),
    (String(repeating: "1", count: 300) + "\n", "it is too long"),
  ])
  func leavesOutABadRow(_ row: String, _ problem: String) async throws {
    let fixture = try Fixture.named("clean 50 Hz 75/min")
    try withFolder { folder in
      try write(fixture, into: folder)
      let path = folder + "/ppg.csv"
      let lines = String(decoding: contents(path), as: UTF8.self).split(separator: "\n")
      let text = lines.prefix(101).joined(separator: "\n") + "\n" + row
      try Data(text.utf8).write(to: URL(filePath: path))
      let report = try CaptureAnalysis.run(folder, output: nil)
      let end = row.hasSuffix("\n") ? problem : "it is cut off"
      let isLeftOut = end == "it makes no sense"
      let expected = isLeftOut ? "\(end); this row is left out" : "\(end); the 100 rows before it are good"
      #expect(report.problems == ["ppg.csv, line 102: \(expected)"])
      #expect(report.tables.map(\.rows) == [3_000, 100, 3_000])
      #expect(report.ticks.ticks == 3_000 && report.ticks.wholeTicks == 100)
    }
  }

  /// An invalid row of the accelerometer costs one sample, but not the pulse of the others.
  @Test func bearsABadRowOfTheAccelerometer() async throws {
    let fixture = try Fixture.named("clean 50 Hz 75/min")
    try withFolder { folder in
      try write(fixture, into: folder)
      let path = folder + "/accelerometer.csv"
      var lines = String(decoding: contents(path), as: UTF8.self).split(separator: "\n").map(String.init)
      lines[200] = "1700000000000000000,x,0,0"
      try Data((lines.joined(separator: "\n") + "\n").utf8).write(to: URL(filePath: path))
      let report = try CaptureAnalysis.run(folder, output: nil)
      #expect(
        report.problems == ["accelerometer.csv, line 201: it makes no sense; this row is left out"])
      #expect(report.tables.map(\.rows) == [2_999, 3_000, 3_000])
      #expect(report.ticks.ticks == 3_000 && report.ticks.wholeTicks == 2_999)
      // With an accelerometer, beats of a hand at rest have the quality 0.98, without one less.
      let quality = try #require(report.pulse.rate.quality.mean)
      #expect(abs(quality - PulseRateMeter.beatQuality) < 1e-9)
    }
  }

  @Test(arguments: ["", "hello\n", "time_ns,value\n1,2\n"])
  func tellsAForeignTable(_ text: String) async throws {
    try withFolder { folder in
      try write(try Fixture.named("clean 50 Hz 75/min"), into: folder)
      try Data(text.utf8).write(to: URL(filePath: folder + "/spo2.csv"))
      let report = try CaptureAnalysis.run(folder, output: nil)
      #expect(
        report.problems == [
          text.isEmpty
            ? "spo2.csv: empty" : "spo2.csv: the first line is not the header of a capture's table"
        ])
      #expect(report.ticks.wholeTicks == 3_000)
    }
  }

  @Test func doesWithoutTables() async throws {
    try withFolder { folder in
      try write(try Fixture.named("clean 50 Hz 75/min"), into: folder)
      try FileManager.default.removeItem(atPath: folder + "/ppg.csv")
      let report = try CaptureAnalysis.run(folder, output: nil)
      #expect(report.problems.count == 1 && report.problems[0].contains("ppg.csv"))
      #expect(report.pulse.refusal == "no samples of the green light")
      #expect(report.activity.minutes == 1)
      try FileManager.default.removeItem(atPath: folder + "/accelerometer.csv")
      let less = try CaptureAnalysis.run(folder, output: nil)
      #expect(less.activity.refusal == "no samples of the accelerometer" && less.ticks.ticks == 3_000)
      try FileManager.default.removeItem(atPath: folder + "/spo2.csv")
      #expect(throws: AnalysisError.self) { _ = try CaptureAnalysis.run(folder, output: nil) }
    }
  }

  /// Tables with headers only: a capture stopped before the first sample.
  @Test func saysThatThereIsNothing() async throws {
    try withFolder { folder in
      for stream in RingStream.allCases {
        try Data(stream.header.utf8).write(to: URL(filePath: folder + "/" + stream.fileName))
      }
      let error = #expect(throws: AnalysisError.self) { _ = try CaptureAnalysis.run(folder, output: nil) }
      #expect(error.map { "\($0)" } == "nothing to analyse in \(folder)")
    }
  }

  /// Existing output is never overwritten.
  @Test func refusesASecondOutput() async throws {
    try withFolder { folder in
      try write(try Fixture.named("clean 50 Hz 75/min"), into: folder)
      _ = try CaptureAnalysis.run(folder, output: folder)
      #expect(throws: AnalysisError.self) { _ = try CaptureAnalysis.run(folder, output: folder) }
    }
  }

  @Test(arguments: [
    (1.006, 2, "1.01"), (-0.125, 2, "-0.13"), (0, 4, "0.0000"), (72.4996, 2, "72.50"), (5, 0, "5"),
    (.nan, 2, ""),
    (-.infinity, 2, ""), (1e300, 2, ""),
  ])
  func writesDecimals(_ number: Double, _ decimals: Int, _ expected: String) {
    var text: [UInt8] = []
    text.append(number, decimals: decimals)
    #expect(String(decoding: text, as: UTF8.self) == expected)
  }
}

import BLEWire
@testable import CaptureTools
import Foundation
import JSONText
import Physiology
import TestKit
import Testing

import Recording

/// Analyses tables of each kind of sensor, made from known signals.
@Suite struct SensorAnalysisTests {
  private static let start: Int64 = 1_700_000_000_000_000_000
  private static let second: Int64 = 1_000_000_000

  private func write(_ table: RecordedTable, _ rows: [String], into folder: String) throws {
    let text = table.header + rows.map { $0 + "\n" }.joined()
    try Data(text.utf8).write(to: URL(filePath: folder + "/" + table.fileName))
  }

  private func cells(_ path: String) -> [[String]] {
    rows(path).map { $0.split(separator: ",", omittingEmptySubsequences: false).map(String.init) }
  }

  private func polar(_ name: String, _ channels: Int) throws -> RecordedTable {
    try #require(PolarTables.tables(named: name, channelCount: channels).first)
  }

  // MARK: Heart

  /// Results of other programs for the same intervals (`make_interval_fixtures.py`).
  private struct Intervals: Decodable {
    var name: String
    var intervals: [Double]
    var neurokit2: [String: Double]

    static func named(_ name: String) throws -> Intervals {
      let file = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "PhysiologyTests/Fixtures/interval-fixtures.json")
      let all = try JSONDecoder().decode([Intervals].self, from: Data(contentsOf: file))
      return try #require(all.first { $0.name == name })
    }

    /// Rows as a strap sends them: at the end of each second, all intervals that ended in it.
    func rows(_ count: Int) -> [String] {
      var time = 0.0
      return (0..<count).flatMap { _ in intervals }.map { interval in
        time += interval
        let seconds = Int64((time / 1_000).rounded(.up))
        let stamp = SensorAnalysisTests.start + seconds * SensorAnalysisTests.second
        return "\(stamp),\(Int((interval * 1.024).rounded())),\(interval)"
      }
    }
  }

  @Test func tellsAStrapsVariability() throws {
    let fixture = try Intervals.named("rest")
    try withFolder { folder in
      try write(HeartRateTables.tables[1], fixture.rows(3), into: folder)
      let report = try CaptureAnalysis.run(folder, output: folder + "/out")
      #expect(report.contents.isEmpty && report.problems.isEmpty)
      let variation = try #require(report.variability.first)
      #expect(report.variability.count == 1 && variation.source == .intervals)
      #expect(variation.intervals == 978 && variation.corrected == 0 && variation.unaccepted == 0)
      // Five-minute windows for which neurokit2 has the whole signal.
      #expect(variation.good.count == 3)
      for (value, key) in [
        (variation.median { $0.deviationMilliseconds }, "sdnn"),
        (variation.median { $0.successiveMilliseconds }, "rmssd"),
        (variation.median { 100 * $0.over50Share }, "pnn50"),
      ] {
        let known = try #require(fixture.neurokit2[key])
        #expect(abs(try #require(value) - known) < 0.03 * known, "\(key): not \(known)")
      }
      let table = cells(folder + "/out/variability.csv")
      #expect(table.count == variation.segments.count + 1 && table.allSatisfy { $0.count == 22 })
      #expect(table.dropFirst().allSatisfy { $0[2] == "rr_intervals" })
      #expect(!FileManager.default.fileExists(atPath: folder + "/out/samples.csv"))
    }
  }

  /// Too few intervals: the reason is given, and no number without one.
  @Test func refusesAFewIntervals() throws {
    let fixture = try Intervals.named("rest")
    try withFolder { folder in
      try write(HeartRateTables.tables[1], Array(fixture.rows(1).prefix(20)), into: folder)
      let variation = try #require(try CaptureAnalysis.run(folder, output: nil).variability.first)
      #expect(variation.good.isEmpty)
      #expect(variation.summary.contains { $0 == ("None", "20 good intervals are too few: 30 are needed") })
      var line = JSONLine()
      try CaptureAnalysis.run(folder, output: nil).encode(into: &line)
      let object = try #require(try JSONSerialization.jsonObject(with: Data(line.octets)) as? [String: Any])
      #expect(Set(object.keys) == ["streams", "startNs", "endNs", "variability"])
      let source = (object["variability"] as? [String: [String: Any]])?["rr_intervals"]
      let segment = try #require((source?["segments"] as? [[String: Any]])?.first)
      #expect(segment["refused"] as? String == "20 good intervals are too few: 30 are needed")
    }
  }

  @Test func tellsAStrapsRate() throws {
    try withFolder { folder in
      let rows = ["60,1,100", "80,1,110", "0,1,", ",0,", "100,1,5", "100,,15", "100,,60000"].enumerated().map
      {
        "\(Self.start + Int64($0) * Self.second),\($1)"
      }
      try write(HeartRateTables.tables[0], rows, into: folder)
      let heart = try CaptureAnalysis.run(folder, output: nil).heartRate
      #expect(heart.rate.count == 5 && heart.rate.mean == 88)
      #expect(heart.rate.lowest == 60 && heart.rate.highest == 100)
      #expect(heart.contacts == 4 && heart.losses == 1)
      // 10 kJ, a reset, 10 kJ; then an increase in one second that is impossible for a person.
      #expect(heart.energy == 20)
    }
  }

  private struct ECG: Decodable {
    struct Signal: Decodable {
      var name: String
      var rate: Double
      var unit: Double
      var samples: String
      var beats: String
    }

    var recorded: [Signal]

    static func atRest() throws -> (microvolts: [Int], beats: [Double], rate: Double) {
      let file = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "PhysiologyTests/Fixtures/ecg-fixtures.json")
      let all = try JSONDecoder().decode(ECG.self, from: Data(contentsOf: file))
      let signal = try #require(all.recorded.first { $0.name == "rest" })
      return (
        try unpack(signal.samples).map { Int((Double($0) * signal.unit).rounded()) },
        try unpack(signal.beats).map { Double($0) / 1_000 }, signal.rate
      )
    }

    /// Reverses `packed` of `make_ecg_fixtures.py`.
    private static func unpack(_ text: String) throws -> [Int] {
      var (values, latest, number, shift) = ([Int](), 0, 0, 0)
      for octet in try #require(Data(base64Encoded: text)) {
        number |= Int(octet & 127) << shift
        shift += 7
        guard octet < 128 else { continue }
        latest += number.isMultiple(of: 2) ? number / 2 : -(number + 1) / 2
        values.append(latest)
        (number, shift) = (0, 0)
      }
      return values
    }
  }

  /// Five minutes at 130 Hz in frames of 73 samples, with each sample's time, its frame's and the sensor's.
  private func ecgRows(_ microvolts: [Int], rate: Double, lost: Set<Int> = []) -> [String] {
    microvolts.indices.filter { !lost.contains($0 / 73) }.map { index in
      let device = 600_000_000_000_000_000 + Int64((Double(index) / rate * 1e9).rounded())
      let time = Self.start + Int64((Double(index) / rate * 1e9).rounded())
      let frame = Self.start + Int64((Double(index / 73 * 73 + 72) / rate * 1e9).rounded())
      return "\(time),\(frame),\(device),\(microvolts[index])"
    }
  }

  @Test func findsTheBeatsOfAnECG() throws {
    let (microvolts, beats, rate) = try ECG.atRest()
    try withFolder { folder in
      try write(polar("ecg", 1), ecgRows(microvolts, rate: rate), into: folder)
      let report = try CaptureAnalysis.run(folder, output: folder + "/out")
      #expect(report.problems.isEmpty && report.contents == [.ecg])
      #expect(report.ecg.windows == 30 && report.ecg.goodWindows == 30)
      let known = 60 * Double(beats.count - 1) / (beats[beats.count - 1] - beats[0])
      #expect(abs(try #require(report.ecg.rate.mean) - known) < 0.5)
      let found = cells(folder + "/out/ecg-beats.csv")
      #expect(found.count == report.ecg.beats + 1)
      #expect(found[0] == ["fitted_time_ns", "interval_ms", "height_uv", "correlation", "accepted"])
      let times = try found.dropFirst().map { row in
        Double(try #require(Int64(row[0])) - Self.start) / 1e9
      }
      // In the first and the last second the other programs find no beats.
      let extra = times.filter { time in
        time > 1 && time < 299 && !beats.contains { abs($0 - time) < 0.02 }
      }
      #expect(extra.isEmpty && beats.allSatisfy { beat in times.contains { abs($0 - beat) < 0.02 } })
      #expect(cells(folder + "/out/ecg-windows.csv").count == 31)
      let variation = try #require(report.variability.first)
      #expect(variation.source == .ecg && variation.good.count == 1)
      let intervals = zip(beats, beats.dropFirst()).map { 1_000 * ($1 - $0) }
      let differences = zip(intervals, intervals.dropFirst()).map { ($1 - $0) * ($1 - $0) }
      let rmssd = (differences.reduce(0, +) / Double(differences.count)).squareRoot()
      #expect(abs(try #require(variation.median { $0.successiveMilliseconds }) - rmssd) < 2)
    }
  }

  /// Missing frames hide only the beats inside them.
  @Test func bridgesLostFramesOfAnECG() throws {
    let (microvolts, beats, rate) = try ECG.atRest()
    try withFolder { folder in
      try write(polar("ecg", 1), ecgRows(microvolts, rate: rate, lost: [100, 101, 300]), into: folder)
      let report = try CaptureAnalysis.run(folder, output: folder + "/out")
      // A gap of 1.12 s is too long to bridge, so the window before it is cut off, and so is the last window.
      #expect(report.ecg.rejections == [.interrupted: 2])
      let times = try cells(folder + "/out/ecg-beats.csv").dropFirst().map { row in
        Double(try #require(Int64(row[0])) - Self.start) / 1e9
      }
      let isLost = { (time: Double) in [100, 101, 300].contains(Int(time * rate) / 73) }
      #expect(!times.contains(where: isLost))
      let kept = beats.filter { !isLost($0 - 0.06) && !isLost($0 + 0.06) }
      #expect(kept.count < beats.count)
      #expect(kept.allSatisfy { beat in times.contains { abs($0 - beat) < 0.02 } })
    }
  }

  @Test func refusesASlowECG() throws {
    try withFolder { folder in
      let rows = (0..<100).map { "\(Self.start + Int64($0) * 20_000_000),\(Self.start),\($0 * 20_000_000),5" }
      try write(polar("ecg", 1), rows, into: folder)
      let report = try CaptureAnalysis.run(folder, output: nil)
      #expect(
        report.ecg.refusal
          == "50.0 samples a second are too few for an electrocardiogram: the method needs 100")
      try write(polar("ecg", 1), Array(rows.prefix(1)), into: folder)
      #expect(
        try CaptureAnalysis.run(folder, output: nil).ecg.refusal
          == "the rows have no steady rate, or are too few to determine it")
    }
  }

  // MARK: Light and movement

  private struct Light: Decodable {
    var name: String
    var rate: Double
    var ppg: [Int]
    var beats: [Double]

    static func named(_ name: String) throws -> Light {
      let file = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "PhysiologyTests/Fixtures/pulse-fixtures.json")
      let all = try JSONDecoder().decode([Light].self, from: Data(contentsOf: file))
      return try #require(all.first { $0.name == name })
    }
  }

  /// A sensor's light at its own rate, with acceleration at another rate: 1 g at rest.
  @Test func findsThePulseInAPolarSensorsLight() throws {
    let fixture = try Light.named("clean 50 Hz 75/min")
    try withFolder { folder in
      func times(_ index: Int, _ rate: Double) -> String {
        let nanoseconds = Int64(Double(index) / rate * 1e9)
        return "\(Self.start + nanoseconds),\(Self.start + nanoseconds),\(nanoseconds + 1)"
      }
      try write(
        polar("ppg", 4), fixture.ppg.enumerated().map { "\(times($0, 50)),\($1),0,0,100" }, into: folder)
      try write(polar("accelerometer", 3), (0..<3_120).map { "\(times($0, 52)),0,0,1000" }, into: folder)
      let report = try CaptureAnalysis.run(folder, output: folder + "/out")
      #expect(report.contents == [.pulse, .activity] && report.problems.isEmpty)
      let mean = try #require(report.pulse.rate.pulse.mean)
      #expect(abs(mean - 75) < 1 && report.pulse.goodWindows == 6)
      #expect(report.activity.minutes == 1 && report.activity.counts == 0 && report.activity.enmo == 0)
      // The hand is known to be at rest: each window states how much it moved.
      let windows = cells(folder + "/out/pulse.csv").dropFirst()
      #expect(windows.count == report.pulse.rate.windows && windows.allSatisfy { $0[5] == "0.0000" })
    }
  }

  /// A constant 1.5 g is an ENMO of 500 mg.
  @Test func countsMovement() throws {
    try withFolder { folder in
      let rows = (0..<3_000).map { index in
        let time = Self.start + Int64(index) * 40_000_000
        return "\(time),\(time),\(Int64(index) * 40_000_000),0.000,-1500.000,0.000"
      }
      try write(polar("accelerometer", 3), rows, into: folder)
      let activity = try CaptureAnalysis.run(folder, output: folder + "/out").activity
      #expect(activity.minutes == 2 && activity.counts == 0 && abs(activity.enmo - 500) < 1e-9)
      #expect(cells(folder + "/out/activity.csv").count == 3)
    }
  }

  // MARK: Thermometer and bicycle

  @Test func tellsTheTemperature() throws {
    try withFolder { folder in
      let rows = [
        "measured,37.125,34.500,3,120,1.5", "intermediate,36.500,,,,", "no_reading,,,,,", "not_on_body,,,,,",
        "measured,38.000,35.500,4,130,2.5",
      ].enumerated().map { "\(Self.start + Int64($0) * Self.second),\($1)" }
      try write(TemperatureTables.tables[0], rows, into: folder)
      let found = try CaptureAnalysis.run(folder, output: nil).temperature
      #expect(found.body.count == 3 && found.body.lowest == 36.5 && found.body.highest == 38)
      let mean = try #require(found.body.mean)
      #expect(found.body.last == 38 && abs(mean - (37.125 + 36.5 + 38) / 3) < 1e-9)
      #expect(found.skin.mean == 35 && found.heartRate.mean == 125 && found.heatStrainIndex.highest == 2.5)
      #expect(found.states == ["measured": 2, "intermediate": 1, "no_reading": 1, "not_on_body": 1])
      #expect(found.qualities == [3: 1, 4: 1])
    }
  }

  /// The crank's 16-bit count wraps. The wheel's count restarts, and the rate in that row, from an older
  /// recording, is empty.
  @Test func countsTurns() throws {
    try withFolder { folder in
      let rows = [
        ",,100,0,65534,0", "87.77,240.00,104,1024,65535,700", ",,104,1024,65535,700",
        "60.00,120.00,108,3072,1,2748", "60.00,611249.12,1,1024,2,3772", ",120.00,3,2048,,",
      ].enumerated().map { "\(Self.start + Int64($0) * Self.second),\($1)" }
      try write(CyclingTables.tables[0], rows, into: folder)
      let found = try CaptureAnalysis.run(folder, output: nil).cycling
      #expect(
        found.cadence.count == 3 && found.cadence.lowest == 60 && found.cadence.highest == 61_440 / 700.0)
      #expect(found.wheel.count == 3 && found.wheel.mean == 160 && found.wheel.highest == 240)
      #expect(found.crankRevolutions == 4 && found.wheelRevolutions == 10 && found.restarts == 1)
    }
  }

  // MARK: Several

  @Test func findsTheCapturesOfAGroup() throws {
    try withFolder { folder in
      for name in ["AA", "BB", "empty"] {
        try FileManager.default.createDirectory(
          atPath: folder + "/" + name, withIntermediateDirectories: true)
      }
      try write(TemperatureTables.tables[0], ["\(Self.start),measured,37,,,,"], into: folder + "/BB")
      try Data("{}".utf8).write(to: URL(filePath: folder + "/AA/session.json"))
      #expect(CaptureGroup.members(of: folder + "/") == [folder + "/AA", folder + "/BB"])
      #expect(CaptureGroup.members(of: folder + "/BB") == [folder + "/BB"])
      #expect(CaptureGroup.members(of: folder + "/empty") == [folder + "/empty"])
      let document = try ReportDocument.read(folder, title: nil) { _ in }
      // AA has a session.json without data and no table, so it is not shown.
      #expect(document.sections.count == 1)
    }
  }

  /// An invalid row is skipped, even one without a time, and all others are analysed.
  @Test func tellsABrokenTable() throws {
    try withFolder { folder in
      let rows = ["\(Self.start),60,1,", "x,90,1,", "\(Self.start + 1_000_000_000),62,1,"]
      try write(HeartRateTables.tables[0], rows, into: folder)
      try write(HeartRateTables.tables[1], ["\(Self.start),1000,976.563"], into: folder)
      let report = try CaptureAnalysis.run(folder, output: nil)
      #expect(report.problems == ["heart_rate.csv, line 3: 'x' is no time_ns; this row is left out"])
      #expect(report.heartRate.rate.mean == 61 && report.variability.first?.intervals == 1)
      #expect(report.tables.map(\.rows) == [2, 1])
    }
  }

  /// Values that a table can hold but no sensor sends: each table is analysed or rejected, and nothing traps.
  @Test(arguments: 0..<8 as Range<UInt64>) func takesWhatNoSensorSends(seed: UInt64) throws {
    var generator = SeededGenerator(state: seed)
    let tables =
      HeartRateTables.tables + TemperatureTables.tables + CyclingTables.tables
      + [try polar("ecg", 1), try polar("accelerometer", 3), try polar("ppg", 4)]
    func integer() -> Int64 {
      let kinds: [Int64] = [
        0, 1, -1, .max, .min + 1, 4_000_000_000_000_000_000, Self.start, Self.start - 3_600 * Self.second,
        Self.start + Int64.random(in: 0...400_000_000_000, using: &generator),
      ]
      return kinds.randomElement(using: &generator) ?? 0
    }
    func cell(_ kind: RecordedColumn.Kind, isTime: Bool) -> String {
      switch kind {
      case .int16, .uint16, .int32: return "\(Int64.random(in: 0...32_767, using: &generator))"
      case .int64: return "\(isTime ? max(0, min(integer(), 4_000_000_000_000_000_000)) : integer())"
      case .word(let words): return words.randomElement(using: &generator) ?? ""
      case .float32, .float64:
        return ["", "0", "-5", "0.8", "812.5", String(repeating: "9", count: 30), "72"]
          .randomElement(using: &generator) ?? ""
      }
    }
    try withFolder { folder in
      for table in tables {
        let rows = (0..<400).map { _ in
          table.columns.enumerated().map { cell($1.kind, isTime: $0 == 0) }.joined(separator: ",")
        }
        try write(table, rows, into: folder)
      }
      let report = try CaptureAnalysis.run(folder, output: folder + "/out")
      #expect(report.tables.count == tables.count && report.problems.isEmpty, "\(report.problems)")
      var line = JSONLine()
      report.encode(into: &line)
      _ = try JSONSerialization.jsonObject(with: Data(line.octets))
      #expect(try ReportDocument.read(folder, title: nil) { _ in }.sections.count == 1)
    }
  }
}

import BLELinux
import BLESensors
import BLEWire
import ColmiRing
import Foundation
import JSONText
import CaptureKit
import TestKit
import Testing

@testable import CaptureTools
@testable import Recording
@testable import SensorSessions

/// Tables mean what they say: names, dropouts, and numbers that readers do not round.
@Suite(.timeLimit(.minutes(2)))
struct TableMeaningTests {
  private static let ring = RingStream.allCases.map(\.table) + [TickRows.table]
  private static let polar = [PolarMeasurementType.ecg, .accelerometer, .ppg, .gyroscope].flatMap { type in
    (1...4).map { RecordedTable(name: PolarRows.name(type), columns: PolarRows.columns(type, $0)) }
  }
  private static let recorded =
    ring + HeartRateTables.tables + TemperatureTables.tables + CyclingTables.tables + polar

  // MARK: Names

  /// `frame.ppg_counts` selects the column: no column name of any table collides with an attribute of a
  /// pandas frame.
  @Test func namesAreNoMethodsOfPandas() async throws {
    try await withFolder { folder in
      var names = Set(Self.recorded.flatMap { $0.columns.map(\.name) })
      names.formUnion(RingHistoryKind.allCases.flatMap { $0.header.split(separator: ",").map(String.init) })
      let capture = folder + "/capture"
      try await Readers.run("make", capture)
      _ = try CaptureAnalysis.run(capture, output: folder + "/analysis")
      for file in Files.names(in: folder + "/analysis") where file.hasSuffix(".csv") {
        names.formUnion(
          try #require(rows(folder + "/analysis/" + file).first).split(separator: ",").map(String.init))
      }
      #expect(
        names.isSuperset(of: ["ppg_counts", "spo2_counts", "led_max_counts", "ecg_uv", "pulse_per_minute"]))
      try Data(JSONEncoder().encode(names.sorted())).write(to: URL(filePath: folder + "/names.json"))
      let read = try await Readers.run("names", folder + "/names.json", script: "tables.py")
      #expect(read["names"] as? Int == names.count)
    }
  }

  /// A column of a stream has one name, in its own table and among the ticks, and no other column has that
  /// name. Names of signals fit into EDF.
  @Test func aColumnHasOneName() {
    let ticks = TickRows.table.columns.map(\.name)
    #expect(Set(ticks).count == ticks.count)
    for stream in RingStream.allCases {
      let names = stream.table.columns.dropFirst().map(\.name)
      #expect(!names.isEmpty && names.allSatisfy(ticks.contains))
    }
    let signals = Self.recorded.flatMap(\.columns).filter { ["counts", "g", "mg", "uV"].contains($0.unit) }
    #expect(
      signals.count > 20
        && signals.allSatisfy { $0.name.utf8.count <= 16 && $0.name.utf8.allSatisfy { $0 < 128 } })
  }

  /// Printed output uses the names of the files.
  @Test(arguments: [
    (
      ["ring", "raw"], "ring",
      ["time_ns", "ppg_counts", "led_max_counts", "spo2_counts", "red_diff_counts", "x_g"]
    ),
    (["polar"], "polar", ["time_ns", "frame_time_ns", "device_time_ns", "ecg_uv"]),
    (
      ["polar", "--stream", "acc"], "polar",
      ["time_ns", "frame_time_ns", "device_time_ns", "x_mg", "y_mg", "z_mg"]
    ),
    (["heart-rate"], "heart-rate", ["time_ns", "bpm", "contact", "energy_kj", "rr_1024ths", "rr_ms"]),
    (["thermometer"], "core", TemperatureTables.tables[0].columns.map(\.name)),
    (["cycling"], "cycling", CyclingTables.tables[0].columns.map(\.name)),
  ])
  func namesOfCommands(_ command: [String], _ sensor: String, _ names: [String]) async throws {
    let options = ["--transport", "virtual:\(sensor),rate=60", "--count", "3", "--json"]
    let result = try await Ringtap.run(command + options)
    #expect(result.status == 0, "\(result.errors)")
    var found: Set<String> = []
    for line in result.outputLines {
      let object = try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
      guard object["event"] as? String != "device" else { continue }
      found.formUnion(object.keys)
      #expect(Self.longNumbers(in: line) == [])
    }
    #expect(found.isSuperset(of: names), "\(found)")
    guard command[0] == "ring" || command[0] == "polar" else { return }
    let text = try await Ringtap.run(command + options.dropLast())
    let heading = try #require(text.outputLines.first).split(separator: ",").map(String.init)
    #expect(Set(heading).isSuperset(of: names))
    #expect(
      text.outputLines.dropFirst().allSatisfy {
        $0.split(separator: ",", omittingEmptySubsequences: false).count == heading.count
      })
  }

  // MARK: Dropouts

  /// The captured frame without a reading, and a red one made from another captured frame.
  private static let dark: [[UInt8]] = {
    var red = RingFrames.frame("raw-spo2-ei-1")
    red[15] &-= red[2] &+ red[3]
    (red[2], red[3]) = (0, 0)
    return [red, RingFrames.frame("raw-ppg-ei-zero")]
  }()

  /// Records ticks of a ring whose green light drops out three times, and whose red light drops out for two
  /// consecutive ticks.
  private func record(into folder: String) async throws -> Recorder.Outcome {
    try Files.createDirectory(folder)
    let sink = RingSink()
    let recorder = try await Recorder.start(in: folder, sink, packets: nil)
    for tick in 0..<400 as Range<Int64> {
      for (place, frame) in RingFrames.tick.enumerated() {
        let isDark = place == 0 ? [7, 8].contains(tick) : place == 1 && [5, 120, 121].contains(tick)
        let time = 1_700_000_000_000_000_000 + tick * 40_000_000 + Int64(place) * 500_000
        sink.take(isDark ? Self.dark[place] : frame, at: time)
      }
      recorder.wake.signal()
    }
    return await recorder.finish()
  }

  /// pandas, NumPy, pyEDFlib and wfdb each see the dropouts as their format expresses them.
  @Test func dropoutsInEveryFormat() async throws {
    try await withFolder { folder in
      let outcome = try await record(into: folder + "/csv")
      #expect(outcome.rows == [400, 400, 400, 400])
      #expect(outcome.dropouts == [nil, 3, 2])
      for format in [ConversionFormat.npy, .edf, .wfdb] {
        let report = try CaptureConversion.run(
          folder + "/csv", to: format, output: folder + "/\(format.rawValue)"
        ) { _ in }
        #expect(report.problems.isEmpty && report.gaps == 0)
        #expect(format == .npy || report.dropouts == 5)
      }
      let read = try await Readers.run(
        "dropouts", folder + "/csv", folder + "/npy", folder + "/edf", folder + "/wfdb/wfdb",
        script: "tables.py")
      #expect(read["ppg"] as? Int == 3 && read["spo2"] as? Int == 2)
      var line = JSONLine()
      try CaptureAnalysis.run(folder + "/csv", output: nil).encode(into: &line)
      let report = try #require(try JSONSerialization.jsonObject(with: Data(line.octets)) as? [String: Any])
      let streams = try #require(report["streams"] as? [String: [String: Any]])
      #expect(streams["ppg"]?["dropouts"] as? Int == 3 && streams["spo2"]?["dropouts"] as? Int == 2)
      #expect(streams["accelerometer"]?["dropouts"] == nil)
    }
  }

  /// The emulated ring's dropouts are counted by the capture, in both formats, and by the analysis.
  @Test(arguments: ["csv", "npy"]) func dropoutsAreCounted(_ format: String) async throws {
    try await withFolder { folder in
      let capture = folder + "/capture"
      let run = try await Ringtap.run([
        "capture", "--transport", "virtual:ring,rate=3000,dropout=0.2", "--count", "1500", "--format", format,
        "--output", capture,
      ])
      #expect(run.status == 0, "\(run.errors)")
      let analysis = try await Ringtap.run(["analyse", capture, "--json"])
      let text = folder + "/text"
      if format == "npy" { _ = try CaptureConversion.run(capture, to: .csv, output: text) { _ in } }
      for name in ["ppg", "spo2"] {
        func count(_ document: [String: Any]) -> Int? {
          (document["streams"] as? [String: [String: Any]])?[name]?["dropouts"] as? Int
        }
        let empty = rows((format == "npy" ? text : capture) + "/\(name).csv").count { $0.contains(",,") }
        // A fifth of 500.
        #expect((60...140).contains(empty))
        #expect(count(try json(capture + "/session.json")) == empty)
        let analysis = try #require(
          try JSONSerialization.jsonObject(with: Data(analysis.output.utf8)) as? [String: Any])
        #expect(count(analysis) == empty)
      }
      let words = try await Ringtap.run(["analyse", capture])
      let lines = words.outputLines.filter { $0.hasPrefix("dropouts  ") }
      #expect(lines.count == 1 && lines[0].hasSuffix(" spo2"))
    }
  }

  // MARK: Numbers

  /// Returns the numbers beyond 2⁵³ outside of strings: JavaScript and jq round them.
  static func longNumbers(in json: some StringProtocol) -> [String] {
    var (numbers, isText, isEscaped, digits) = ([String](), false, false, "")
    for character in json + " " {
      if isText {
        if character == "\"", !isEscaped { isText = false }
        isEscaped = character == "\\" && !isEscaped
      } else if character.isNumber || character == "." {
        digits.append(character)
      } else {
        if let whole = Double(digits), whole >= 9_007_199_254_740_992 { numbers.append(digits) }
        digits = ""
        isText = character == "\""
      }
    }
    return numbers
  }

  @Test func findsLongNumbers() {
    #expect(
      Self.longNumbers(in: #"{"a":9007199254740993,"b":"1795476152289379131","c\"":17.5,"d":[-9e1]}"#) == [
        "9007199254740993"
      ])
  }

  /// All JSON output about one capture and its log.
  @Test func timesAreStrings() async throws {
    try await withFolder { folder in
      let capture = folder + "/capture"
      let recorded = try await Ringtap.run([
        "capture", "--transport", "virtual:ring,rate=3000,disconnect-after=400", "--count", "900", "--format",
        "npy",
        "--output", capture, "--json",
      ])
      #expect(recorded.status == 0, "\(recorded.errors)")
      var texts = [recorded.output]
      texts += ["session.json", "columns.json"].map {
        String(decoding: contents(capture + "/" + $0), as: UTF8.self)
      }
      for command in [
        ["analyse", capture, "--json"], ["convert", capture, "--to", "ndjson", "--output", "-"],
        ["convert", capture, "--to", "wfdb", "--json"],
        ["log", "stats", capture + "/packets.btsnoop", "--json"],
        ["log", "show", capture + "/packets.btsnoop", "--json"],
      ] {
        let run = try await Ringtap.run(command)
        #expect(run.status == 0 && !run.output.isEmpty, "\(command): \(run.errors)")
        texts.append(run.output)
      }
      for text in texts {
        #expect(Self.longNumbers(in: text) == [], "\(text.prefix(200))")
        // The text does contain times.
        #expect(
          text.contains("Ns\":\"17") || text.contains("_ns\":\"17") || text.contains("_ns\":\"18"),
          "\(text.prefix(200))")
      }
    }
  }
}

/// Signals stored in files of integers: each value is represented, and one integer below them stays free.
@Suite struct SignalScaleTests {
  @Test(
    arguments: [
      (.integers, 16, 9_985, 10_957, 9_984...10_957, 0, 1, true),
      // All 16-bit numbers except 0, and all except 65,535.
      (.integers, 16, 1, 65_535, -32_768...32_767, 32_768, 1, true),
      (.integers, 16, 0, 65_534, -32_768...32_767, 32_767, 1, true),
      (.integers, 24, 0, 65_535, -1...65_535, 0, 1, true),
      (.integers, 16, -100_000, 100_000, -10_001...10_000, 0, 10, false),
      // 1/512 g, between multiples of 0.125 g.
      (.acceleration, 16, -1, 1.001953125, -576...576, 0, 1.0 / 512, true),
      (.decimals(3), 16, -40, 1000, -32_768...1_008_231, 0, 0.001, false),
    ] as [(SignalGrain, Int, Double, Double, ClosedRange<Int>, Int, Double, Bool)])
  func sparesTheLowest(
    _ grain: SignalGrain, _ bits: Int, _ smallest: Double, _ largest: Double, _ digital: ClosedRange<Int>,
    _ offset: Int, _ step: Double, _ isExact: Bool
  ) {
    let scale = grain.scale(bits: bits, smallest: smallest, largest: largest)
    #expect(scale.isExact == isExact)
    if isExact {
      #expect(scale.digital == digital && scale.offset == offset && scale.step == step)
    }
    for value in [smallest, largest] {
      let kept = scale.digital(value)
      #expect(kept > scale.missing && scale.digital.contains(kept))
      let read = Double(kept + scale.offset) * scale.step
      #expect(isExact ? read == value : abs(read - value) <= scale.step / 2)
    }
    // They fit the fields of an EDF header.
    #expect([scale.physical.lowerBound, scale.physical.upperBound].allSatisfy { "\($0)".utf8.count <= 10 })
  }

  /// Values from a damaged table.
  @Test(
    arguments: [(-1e300, 1e300), (-.infinity, .infinity), (0, 1e300), (9e15, 9e15)] as [(Double, Double)])
  func takesAnything(_ smallest: Double, _ largest: Double) {
    for grain in [SignalGrain.integers, .acceleration, .decimals(3)] {
      for bits in [16, 24, 32] {
        let scale = grain.scale(bits: bits, smallest: smallest, largest: largest)
        #expect(scale.digital.count <= 1 << bits && scale.digital.contains(scale.digital(largest)))
      }
    }
  }
}

import BLELinux
import Foundation
import TestKit
import Testing

@testable import CaptureTools
import Recording

/// Captures in which every value is known, read back by the programs that people use for these formats.
@Suite(.timeLimit(.minutes(2)))
struct ConversionTests {
  @discardableResult private func convert(
    _ directory: String, _ format: ConversionFormat, _ output: String
  ) throws -> ConversionReport {
    let report = try CaptureConversion.run(directory, to: format, output: output) { _ in }
    #expect(report.problems.isEmpty && report.leftOut.isEmpty)
    return report
  }

  @Test func arraysOfText() async throws {
    try await withFolder { folder in
      let capture = folder + "/capture"
      try await Readers.run("make", capture)
      let report = try convert(capture, .npy, folder + "/arrays")
      let read = try await Readers.run("arrays", capture, folder + "/arrays")
      let rows = ["accelerometer": 994, "ppg": 993, "samples": 995, "spo2": 995]
      #expect(read["rows"] as? [String: Int] == rows)
      #expect(read["rateHz"] as? Double == 1e9 / 19_987_654)
      #expect(Dictionary(uniqueKeysWithValues: report.tables.map { ($0.name, $0.rows) }) == rows)
      let session = try json(folder + "/arrays/session.json")
      #expect(((session["streams"] as? [String: Any])?["ppg"] as? [String: Any])?["file"] as? String == "ppg")
    }
  }

  /// Converting to arrays and back gives the same text, byte for byte.
  @Test(arguments: ["make", "make-ecg"]) func textOfArrays(_ kind: String) async throws {
    try await withFolder { folder in
      let capture = folder + "/capture"
      try await Readers.run(kind, capture)
      try convert(capture, .npy, folder + "/arrays")
      try convert(folder + "/arrays", .csv, folder + "/again")
      let names = Files.names(in: capture).filter { $0.hasSuffix(".csv") }.sorted()
      #expect(
        names == (kind == "make" ? ["accelerometer", "ppg", "samples", "spo2"] : ["ecg"]).map { $0 + ".csv" })
      for name in names { #expect(contents(folder + "/again/" + name) == contents(capture + "/" + name)) }
      if kind == "make" {
        #expect(contents(folder + "/again/session.json") == contents(capture + "/session.json"))
      }
    }
  }

  /// Every count of a ring fits 16 bits, and both formats hold a ring's acceleration exactly.
  @Test(arguments: [ConversionFormat.edf, .bdf]) func signalsOfARing(_ format: ConversionFormat) async throws
  {
    try await withFolder { folder in
      let (capture, file) = (folder + "/capture", folder + "/ring.\(format.rawValue)")
      try await Readers.run("make", capture)
      let report = try convert(capture, format, file)
      #expect(report.signals.count == 11 && report.signals.allSatisfy(\.isExact))
      #expect(report.start == 1_700_000_000_123_456_789)
      #expect(report.gaps == 4 && report.samples == 1149 && report.dropouts == 10)
      let read = try await Readers.run("edf", file, "ring")
      #expect(read["signals"] as? Int == 11)
      #expect(read["samples"] as? Int == 1149)
      #expect(read["worst"] as? Double == 0)
      #expect(read["steps"] as? [Double] == [1.0 / 512, 1])
    }
  }

  /// ±100,000 µV do not fit 16 bits: EDF uses steps of 10 µV and reports it; BDF holds each value.
  @Test(arguments: [(ConversionFormat.edf, 10.0, 5.0), (.bdf, 1, 0)])
  func signalsOfAStrap(_ format: ConversionFormat, _ step: Double, _ worst: Double) async throws {
    try await withFolder { folder in
      let (capture, file) = (folder + "/capture", folder + "/strap.\(format.rawValue)")
      try await Readers.run("make-ecg", capture)
      let report = try convert(capture, format, file)
      #expect(report.signals.map(\.resolution) == [step])
      #expect(report.signals.map(\.isExact) == [format == .bdf])
      let read = try await Readers.run("edf", file, "ecg")
      #expect(read["samples"] as? Int == 2930)
      #expect(read["worst"] as? Double == worst)
      #expect(read["steps"] as? [Double] == [step])
    }
  }

  @Test(arguments: [
    ("make", "ring", "16", 1715), ("make-ecg", "ecg", "24", 10),
  ])
  func recordOfPhysioNet(_ make: String, _ kind: String, _ format: String, _ missing: Int) async throws {
    try await withFolder { folder in
      try await Readers.run(make, folder + "/capture")
      try convert(folder + "/capture", .wfdb, folder + "/a record")
      let read = try await Readers.run("wfdb", folder + "/a record/a_record", kind)
      #expect(read["format"] as? String == format)
      #expect(read["missing"] as? Int == missing)
    }
  }

  /// One file holds ECG and acceleration, each at its own rate and at the times of the sensor's clock. A WFDB
  /// record has a single rate, so there are two records. Tables without a steady rate are reported.
  @Test(arguments: [(ConversionFormat.edf, 5.0), (.bdf, 1e-9), (.wfdb, 0)])
  func signalsOfSeveralRates(_ format: ConversionFormat, _ worst: Double) async throws {
    try await withFolder { folder in
      let (capture, output) = (folder + "/capture", folder + "/polar_\(format.rawValue)")
      try await Readers.run("make-polar", capture)
      let report = try CaptureConversion.run(capture, to: format, output: output) { _ in }
      #expect(report.problems.isEmpty)
      #expect(
        report.leftOut == [
          "the table 'heart_rate' has no steady rate; left out: use csv, npy or ndjson for it"
        ])
      #expect(report.tables.map(\.name) == ["ecg", "accelerometer"])
      #expect(report.streams.map(\.signals) == [1, 3] && report.streams.map(\.gaps) == [1, 1])
      #expect(report.start == 1_700_000_000_123_456_789)
      let read = try await Readers.run("polar", output, format.rawValue)
      let difference = try #require(read["worst"] as? Double)
      #expect(difference <= worst)
    }
  }

  @Test func linesOfJSON() async throws {
    try await withFolder { folder in
      try await Readers.run("make", folder + "/capture")
      try convert(folder + "/capture", .ndjson, folder + "/lines")
      let read = try await Readers.run("lines", folder + "/capture", folder + "/lines")
      #expect(
        read["rows"] as? [String: Int] == ["accelerometer": 994, "ppg": 993, "samples": 995, "spo2": 995])
    }
  }

  /// Found by fuzzing: text made from arrays of another program could not be read again.
  @Test(arguments: [
    ("2269460988694543.872", 2_269_460_988_694_543.872), ("-123456789012345.678", -123_456_789_012_345.678),
    ("0.0000000000000001", 1e-16),
  ])
  func longNumbers(_ text: String, _ number: Double) async throws {
    try withFolder { folder in
      try Files.createDirectory(folder + "/capture")
      let table = "time_ns,rr_1024ths,rr_ms\n1700000000000000000,1003,\(text)\n"
      try table.write(toFile: folder + "/capture/rr_intervals.csv", atomically: false, encoding: .utf8)
      try convert(folder + "/capture", .ndjson, folder + "/lines")
      let line = try #require(rows(folder + "/lines").first)
      let object = try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any]
      #expect(object?["rr_ms"] as? Double == number)
    }
  }
}

/// Inputs that are not captures, or broken ones: the message names the place and the remedy.
@Suite struct ConversionErrorTests {
  private func message(_ directory: String, _ format: ConversionFormat, _ output: String) -> String {
    do throws(ConversionError) {
      _ = try CaptureConversion.run(directory, to: format, output: output) { _ in }
      return "converted"
    } catch { return "\(error)" }
  }

  private func write(_ text: String, _ path: String) throws {
    try text.write(toFile: path, atomically: false, encoding: .utf8)
  }

  private static let header = RingStream.ppg.header

  @Test func noCapture() async throws {
    try withFolder { folder in
      #expect(
        message(folder + "/none", .npy, folder + "/out")
          == "\(folder)/none is not a capture's directory: there is no such directory")
      #expect(
        message(folder, .npy, folder + "/out")
          == "\(folder) is not a capture's directory: it has neither columns.json nor tables")
      try write("a,b\n1,2\n", folder + "/other.csv")
      #expect(
        message(folder, .npy, folder + "/out")
          == "\(folder) is not a capture's directory: it has neither columns.json nor tables; "
          + "other.csv: the first line is not the header of a recorded table; left out")
      try write("{", folder + "/columns.json")
      #expect(
        message(folder, .npy, folder + "/out")
          == "\(folder) is not a capture's directory: columns.json cannot be read")
      #expect(!Files.exists(folder + "/out"))
    }
  }

  /// Tables that an analysis wrote into the capture's folder are not converted.
  @Test func leavesOutWhatIsNoRecording() async throws {
    try withFolder { folder in
      try write(Self.header + "1,2,3,4,5\n", folder + "/ppg.csv")
      try write("fitted_time_ns,interval_ms,accepted\n", folder + "/beats.csv")
      let report = try CaptureConversion.run(folder, to: .npy, output: folder + "/out") { _ in }
      #expect(report.tables == [ConversionReport.Table(name: "ppg", rows: 1)])
      #expect(
        report.leftOut == ["beats.csv: the first line is not the header of a recorded table; left out"])
      #expect(report.problems.isEmpty && !Files.exists(folder + "/out/beats"))
    }
  }

  @Test(arguments: ConversionFormat.allCases) func neverOverwrites(_ format: ConversionFormat) async throws {
    try withFolder { folder in
      try write(Self.header + "1,2,3,4,5\n", folder + "/ppg.csv")
      let output = folder + "/out"
      if format == .csv || format == .npy || format == .wfdb {
        try Files.createDirectory(output)
        try write("mine", output + "/file")
      } else {
        try write("mine", output)
      }
      #expect(message(folder, format, output) == "\(output) already exists; choose another --output")
      let file = Files.names(in: output).isEmpty ? output : output + "/file"
      #expect(contents(file) == Array("mine".utf8))
    }
  }

  /// Formats for signals need a steady rate.
  @Test func noSteadyRate() async throws {
    try withFolder { folder in
      try write(Self.header + "1,2,3,4,5\n", folder + "/ppg.csv")
      #expect(
        message(folder, .edf, folder + "/out").hasSuffix(
          "create it: ringtap analyse \(folder) --output \(folder)"))
    }
    try withFolder { folder in
      try write("time_ns,bpm,contact,energy_kj\n1,60,,\n", folder + "/heart_rate.csv")
      #expect(
        message(folder, .bdf, folder + "/out")
          == "no table in \(folder) has the steady rate that signals need (heart_rate); "
          + "convert to csv, npy or ndjson")
      #expect(!Files.exists(folder + "/out"))
    }
    try withFolder { folder in
      try write(
        TickRows.table.header + "1,0,0,1\(String(repeating: ",", count: 17))\n", folder + "/samples.csv")
      let text = message(folder, .wfdb, folder + "/out")
      #expect(text == "the table 'samples' has too few rows for a rate")
    }
  }

  /// On a board without a battery-backed clock, a capture begins in 1970, which EDF cannot express.
  @Test func beforeTheYearsOfEDF() async throws {
    try withFolder { folder in
      let rest = String(repeating: ",", count: 5) + ",1,7,7,7,7" + String(repeating: ",", count: 7)
      let rows = (0..<9).map { "\($0 * 20_000_000),\($0),0,1\(rest)\n" }.joined()
      try write(TickRows.table.header + rows, folder + "/samples.csv")
      #expect(
        message(folder, .edf, folder + "/out")
          == "the first sample is from 00:00:00.000000 01/01/1970, but EDF supports only 1985 … 2084; "
          + "use wfdb"
      )
      #expect(message(folder, .wfdb, folder + "/out") == "converted")
    }
  }

  /// Invalid rows are skipped, a truncated file ends, and the report names the places.
  @Test(
    arguments: [
      (
        "3,1,2,3,4\n4,1,2,x,4\n", 1,
        "ppg.csv, line 3: 'x' is no led_min_counts; this row is left out"
      ),
      ("3,1,2,3,65536\n", 0, "ppg.csv, line 2: '65536' is no led_diff_counts; this row is left out"),
      ("3,1,2,3\n", 0, "ppg.csv, line 2: too few columns; this row is left out"),
      ("3,1,2,3,4,5\n", 0, "ppg.csv, line 2: too many columns; this row is left out"),
      ("3,1,,3,4\n", 0, "ppg.csv, line 2: '' is no led_max_counts; this row is left out"),
      (
        "3,1,2,3,4\n4,1,2,x,4\n5,1,2,3,4\n6,1\n7,1,2,3,4\n", 3,
        "ppg.csv, line 3: 'x' is no led_min_counts; this and 1 more row are left out"
      ),
      (
        "3,1,2,3,4\n4,1\n5,1,2,3,4\n6,1,2", 2,
        "ppg.csv, line 3: too few columns; this row is left out; ppg.csv, line 5: it is cut off; the 2 rows before it are good"
      ),
      ("3,1,2,3,4\n4,1,2", 1, "ppg.csv, line 3: it is cut off; the 1 row before it is good"),
      (
        "99999999999999999999,1,2,3,4\n", 0,
        "ppg.csv, line 2: '99999999999999999999' is no time_ns; this row is left out"
      ),
    ])
  func tornText(_ rows: String, _ good: Int, _ problem: String) async throws {
    try withFolder { folder in
      try write(Self.header + rows, folder + "/ppg.csv")
      let report = try CaptureConversion.run(folder, to: .npy, output: folder + "/out") { _ in }
      #expect(report.tables == [ConversionReport.Table(name: "ppg", rows: good)])
      #expect(report.problems == [problem])
    }
  }

  /// A row with a number beyond 64 bits is left out, also when rows are converted to lines. A light reading
  /// may be any number, because a reading that the ring dropped is not a number.
  @Test(arguments: 0..<5, ["99999999999999999999", "-99999999999999999999", "18446744073709551616"])
  func numbersBeyond64Bits(_ column: Int, _ number: String) throws {
    try withFolder { folder in
      var cells = ["4", "1", "2", "3", "4"]
      cells[column] = number
      try write(Self.header + "3,1,2,3,4\n" + cells.joined(separator: ",") + "\n", folder + "/ppg.csv")
      let report = try CaptureConversion.run(folder, to: .ndjson, output: folder + "/out.ndjson") { _ in }
      let name = Self.header.split(whereSeparator: { ",\n".contains($0) })[column]
      let problem = "ppg.csv, line 3: '\(number)' is no \(name); this row is left out"
      #expect(report.problems == (name == "ppg_counts" ? [] : [problem]))
      let lines = contents(folder + "/out.ndjson").split(separator: 0x0A)
      #expect(lines.count == (name == "ppg_counts" ? 2 : 1))
      for line in lines { #expect(throws: Never.self) { try JSONSerialization.jsonObject(with: Data(line)) } }
    }
  }

  /// A column that is shorter than it claims, missing, or of another type.
  @Test func tornArrays() async throws {
    try withFolder { folder in
      try write(Self.header + "3,1,2,3,4\n4,1,2,3,4\n", folder + "/ppg.csv")
      let arrays = folder + "/arrays"
      _ = try CaptureConversion.run(folder, to: .npy, output: arrays) { _ in }
      let path = arrays + "/ppg/led_min_counts.npy"
      let whole = contents(path)
      func problem(_ octets: [UInt8]) throws -> [String] {
        try Data(octets).write(to: URL(filePath: path))
        let output = folder + "/\(UUID().uuidString)"
        return try CaptureConversion.run(arrays, to: .csv, output: output) { _ in }.problems
      }
      #expect(try problem(whole) == [])
      #expect(
        try problem(whole.dropLast()) == [
          "ppg/led_min_counts.npy: it ends early; the 1 row before is good"
        ])
      #expect(
        try problem(Array(whole.prefix(100))) == [
          "ppg/led_min_counts.npy: its header is truncated; table left out"
        ])
      #expect(
        try problem(Array("no".utf8)) == [
          "ppg/led_min_counts.npy: not a NumPy array of format 1.0; table left out"
        ])
      #expect(
        try problem(contents(arrays + "/ppg/time_ns.npy")) == [
          "ppg/led_min_counts.npy: not one dimension of <u2; table left out"
        ])
    }
  }

  /// On a full disk the conversion fails with a message and leaves no unreadable file.
  @Test func fullDisk() async {
    await #expect(processExitsWith: .success) {
      signal(SIGXFSZ, SIG_IGN)
      try withFolder { folder in
        var text = TickRows.table.header
        for tick in 0..<6_000 {
          text += "\(1_700_000_000_000_000_000 + tick * 20_000_000),\(tick),0,1,,,,,,1,7,7,7,7,,,,,,,\n"
        }
        try text.write(toFile: folder + "/samples.csv", atomically: false, encoding: .utf8)
        var limit = rlimit(rlim_cur: 20_000, rlim_max: 20_000)
        #expect(setrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &limit) == 0)
        for format in ConversionFormat.allCases {
          do throws(ConversionError) {
            let output = folder + "/out.\(format.rawValue)"
            _ = try CaptureConversion.run(folder, to: format, output: output) { _ in }
            Issue.record("\(format) found room")
          } catch {
            guard case .output(let error) = error else {
              Issue.record("\(error)")
              continue
            }
            #expect(error.number == EFBIG || (error.number == EIO && [.edf, .bdf].contains(format)))
          }
        }
        #expect(!Files.exists(folder + "/out.edf") && !Files.exists(folder + "/out.bdf"))
      }
    }
  }
}

/// EDF+ files with record durations that EDFlib 1.23 writes truncated and then refuses to read.
@Suite struct EDFDurationTests {
  /// 0.51994 s and other durations that EDFlib truncates, and one that it does not. EDF+, 2.1.3.4: eight
  /// characters.
  @Test(arguments: [(51_994, "0.51994 "), (100_847, "1.00847 "), (780_017, "7.80017 "), (60_000, "0.60000 ")])
  func isWrittenAsItIs(_ duration: Int, _ field: String) throws {
    try withFolder { folder in
      let path = folder + "/file.edf"
      let layout = EDFFile.Layout(
        startNanoseconds: 1_700_000_000_000_000_000, recordDuration: duration, recordCount: 3, noteCount: 1,
        remark: "test")
      let signal = EDFFile.Signal(
        label: "ecg_uv", unit: "uV", transducer: "sensor", digital: -100...100, physical: -100...100,
        samplesPerRecord: 10)
      var file = try EDFFile(creating: path, .edf, [signal], layout)
      try file.note("Recording starts", onsetNanoseconds: 0)
      for _ in 0..<3 {
        var record = [CInt](repeating: 7, count: 10)
        try file.append(&record)
      }
      try file.finish()
      #expect(String(decoding: contents(path)[244..<252], as: UTF8.self) == field)
    }
  }
}

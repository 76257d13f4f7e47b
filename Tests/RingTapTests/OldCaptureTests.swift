import BLELinux
import Foundation
import JSONText
import TestKit
import Testing

@testable import CaptureTools
@testable import Recording

/// Captures of format 1, made by the program before it had `formatVersion`, and that program's results for
/// them.
@Suite struct OldCaptureTests {
  private static let fixtures = Place.fixture("RingTapTests/Fixtures/format-1")

  private func object(_ octets: [UInt8]) throws -> [String: Any] {
    try #require(try JSONSerialization.jsonObject(with: Data(octets)) as? [String: Any])
  }

  /// The numbers are the same, with known differences. Times are now strings, dropouts are counted, and there
  /// is a pulse during motion. The fitted clock lies below the timestamps instead of among them, so its error
  /// differs, and its rate is the emulated ring's.
  @Test(arguments: [TableFormat.csv, .npy]) func analysis(_ format: TableFormat) async throws {
    try withFolder { folder in
      var directory = Self.fixtures + "/ring"
      if format == .npy {
        _ = try CaptureConversion.run(directory, to: .npy, output: folder + "/arrays") { _ in }
        directory = folder + "/arrays"
      }
      var line = JSONLine()
      let report = try CaptureAnalysis.run(directory, output: nil)
      #expect(report.problems.isEmpty)
      report.encode(into: &line)
      var ours = try object(line.octets)
      var theirs = try object(contents(Self.fixtures + "/ring-analyse.json"))
      for key in ["startNs", "endNs"] {
        #expect(ours[key] as? String == (theirs[key] as? Int).map(String.init))
        (ours[key], theirs[key]) = (nil, nil)
      }
      var streams = try #require(ours["streams"] as? [String: [String: Any]])
      // The second frame of the emulated green light comes from a capture in which the ring had dropped that
      // reading.
      #expect(streams.mapValues { $0["dropouts"] as? Int } == ["accelerometer": nil, "ppg": 1, "spo2": 0])
      var old = try #require(theirs["streams"] as? [String: [String: Any]])
      for name in streams.keys {
        for key in ["dropouts", "rateHz", "residualRmsNs", "residualP99Ns"] {
          streams[name]?.removeValue(forKey: key)
          old[name]?.removeValue(forKey: key)
        }
      }
      (ours["streams"], theirs["streams"]) = (streams, old)
      var pulse = try #require(ours["pulse"] as? [String: Any])
      (pulse["rate"], pulse["respiration"]) = (nil, nil)
      ours["pulse"] = pulse
      #expect(abs((ours.removeValue(forKey: "rateHz") as? Double ?? 0) / 25 - 1) < 0.000_2)
      #expect(abs((theirs.removeValue(forKey: "rateHz") as? Double ?? 0) / 25 - 1) < 0.000_2)
      var clock = try #require(ours["clock"] as? [String: Any])
      var oldClock = try #require(theirs["clock"] as? [String: Any])
      #expect(clock["earliestNs"] as? Double == 0)
      for key in ["residualRmsNs", "meanLatenessNs", "earliestNs", "latestNs"] {
        clock.removeValue(forKey: key)
        oldClock.removeValue(forKey: key)
      }
      for key in ["rateUncertaintyPpm", "offsetUncertaintyNs", "missingTicksAtMost", "linkTooSlow"] {
        clock.removeValue(forKey: key)
      }
      (ours["clock"], theirs["clock"]) = (clock, oldClock)
      #expect(canonical(ours) == canonical(theirs))
    }
  }

  /// Tables keep their names and their zeros when converted and back, byte for byte, except that whole
  /// numbers of milli-g had no decimals.
  @Test(arguments: ["ring", "strap"]) func tables(_ name: String) async throws {
    try withFolder { folder in
      let capture = Self.fixtures + "/" + name
      for (from, format, to) in [
        (capture, ConversionFormat.npy, "/arrays"), (folder + "/arrays", .csv, "/text"),
      ] {
        let report = try CaptureConversion.run(from, to: format, output: folder + to) { _ in }
        #expect(report.problems.isEmpty && report.leftOut.isEmpty && !report.tables.isEmpty)
      }
      let files = Files.names(in: capture).filter { $0.hasSuffix(".csv") || $0.hasSuffix(".json") }
      #expect(files.count == (name == "ring" ? 5 : 2))
      for file in files {
        let (ours, theirs) = (contents(folder + "/text/" + file), contents(capture + "/" + file))
        if file == "accelerometer.csv", name == "strap" {
          let text = String(decoding: ours, as: UTF8.self).replacing(".000", with: "")
          #expect(text == String(decoding: theirs, as: UTF8.self))
        } else {
          #expect(ours == theirs, "\(file)")
        }
      }
    }
  }

  /// Signals have the values that the older program gave them, with today's names, and NaN for its zeros.
  @Test func signals() async throws {
    try await withFolder { folder in
      for (name, format) in [("ring", ConversionFormat.edf), ("ring", .wfdb), ("strap", .wfdb)] {
        let output = folder + "/\(name)-\(format.rawValue)"
        let report = try CaptureConversion.run(Self.fixtures + "/" + name, to: format, output: output) { _ in
        }
        #expect(report.problems.isEmpty)
      }
      func record(_ folder: String, _ name: String) -> String { "\(folder)/\(name)-wfdb/\(name)-wfdb" }
      let ring = try await Readers.run(
        "same", folder + "/ring-edf", Self.fixtures + "/ring.edf", record(folder, "ring"),
        record(Self.fixtures, "ring"), script: "tables.py")
      #expect(ring["dropouts"] as? Int == 1 && ring["inEDF"] as? Int == 1)
      #expect((ring["labels"] as? [String])?.contains("ppg_counts") == true)
      let strap = try await Readers.run(
        "same", "-", "-", record(folder, "strap"), record(Self.fixtures, "strap"), script: "tables.py")
      #expect(strap["dropouts"] as? Int == 0)
      #expect(strap["labels"] as? [String] == ["x_mg", "y_mg", "z_mg"])
    }
  }

  /// A report shows the same values, without the zero.
  @Test func page() throws {
    let ring = try ReportDocument.read(Self.fixtures + "/ring", title: nil) { _ in }.sections[0]
    let ppg = try #require(ring.tables.first { $0.table.name == "ppg" }).table
    #expect(ppg.columns.map(\.name) == ["ppg", "led max", "led min", "led diff"])
    #expect(ppg.count == 40 && ppg.columns[0].values == 39 && ppg.columns[0].smallest > 0)
    let strap = try ReportDocument.read(Self.fixtures + "/strap", title: nil) { _ in }.sections[0]
    #expect(strap.tables.first { $0.table.name == "accelerometer" }?.table.count == 50)
    #expect(strap.begins != nil && ring.begins != nil)
  }
}

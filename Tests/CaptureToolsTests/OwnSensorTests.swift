import BLEHost
import BLEWire
import Foundation
import JSONText
import SensorSessions
import TestKit
import Testing

import CaptureTools
import Recording

/// Recordings of a sensor that a program described itself can be read like those of the built-in kinds.
@Suite struct OwnSensorTests {
  private static let text = """
    time_ns,breaths_per_minute,depth_ml
    1700000000000000000,12.5,500
    1700000001000000000,,501
    1700000002000000000,14.0,505

    """

  /// Writes a folder as a recording leaves it. Older recordings do not describe their columns.
  private func write(_ columns: String, in folder: String) throws {
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    try Self.text.write(toFile: folder + "/breaths.csv", atomically: true, encoding: .utf8)
    try "{\"streams\":{\"breaths\":{\"samples\":3,\"file\":\"breaths.csv\"\(columns)}}}\n".write(
      toFile: folder + "/session.json", atomically: true, encoding: .utf8)
  }

  private static let described = """
    ,"columns":[{"name":"breaths_per_minute","unit":"1/min","decimals":1},{"name":"depth_ml","unit":"mL","decimals":0}]
    """

  /// Converting to arrays and back gives the same text, byte for byte, and the arrays' index has the unit.
  @Test(arguments: [described, ""]) func isConverted(_ columns: String) throws {
    try withFolder { folder in
      try write(columns, in: folder + "/belt")
      for (from, format, to) in [("belt", ConversionFormat.npy, "arrays"), ("arrays", .csv, "again")] {
        let report = try CaptureConversion.run(folder + "/" + from, to: format, output: folder + "/" + to) {
          _ in
        }
        #expect(report.tables.map(\.rows) == [3] && report.leftOut.isEmpty && report.problems.isEmpty)
      }
      if !columns.isEmpty {
        #expect(try String(contentsOfFile: folder + "/again/breaths.csv", encoding: .utf8) == Self.text)
        let index = try JSONDocument(Array(Data(contentsOf: URL(filePath: folder + "/arrays/columns.json"))))
        let found = index["tables"]?["breaths"]?["columns"]?.array?.compactMap { $0["unit"]?.text }
        #expect(found == ["ns", "1/min", "mL"])
      }
      let lines = try CaptureConversion.run(folder + "/belt", to: .ndjson, output: folder + "/lines") { _ in }
      #expect(lines.problems.isEmpty)
      let line = try #require(
        try String(contentsOfFile: folder + "/lines", encoding: .utf8).split(separator: "\n").first)
      let object = try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any]
      #expect(object?["breaths_per_minute"] as? Double == 12.5 && object?["depth_ml"] as? Double == 500)
    }
  }

  @Test func isAnalysed() throws {
    try withFolder { folder in
      try write(Self.described, in: folder)
      let report = try CaptureAnalysis.run(folder, output: nil)
      let table = try #require(report.tables.first)
      #expect(table.rows == 3 && report.problems.isEmpty)
      #expect(table.columns.map(\.name) == ["breaths_per_minute", "depth_ml"])
      #expect(table.columns.map(\.range.count) == [2, 3] && table.columns.map(\.unit) == ["1/min", "mL"])
      #expect(table.columns[0].range.mean == 13.25 && table.columns[1].range.highest == 505)
      #expect(report.end?.nanoseconds == 1_700_000_002_000_000_000)
    }
  }

  /// A folder with a table only, such as one that a script wrote: units come from the columns' names.
  @Test func isReadWithoutASession() throws {
    try withFolder { folder in
      let text = Self.text.replacing("depth_ml", with: "lag_ms")
      try text.write(toFile: folder + "/breaths.csv", atomically: true, encoding: .utf8)
      let report = try CaptureAnalysis.run(folder, output: nil)
      let table = try #require(report.tables.first)
      #expect(table.rows == 3 && table.columns.map(\.range.count) == [2, 3])
      #expect(table.columns.map(\.unit) == ["", "ms"])
      let converted = try CaptureConversion.run(folder, to: .npy, output: folder + "/arrays") { _ in }
      #expect(converted.tables.map(\.rows) == [3] && converted.problems.isEmpty)
      // A table of words, and one without times.
      try "time_ns,mood\n1,good\n".write(toFile: folder + "/moods.csv", atomically: true, encoding: .utf8)
      try "seconds,x\n1,2\n".write(toFile: folder + "/others.csv", atomically: true, encoding: .utf8)
      let capture = try RecordedCapture(folder)
      #expect(capture.tables.map(\.name) == ["breaths", "moods"])
      #expect(capture.leftOut.count == 1 && capture.leftOut[0].hasPrefix("others.csv: "))
      let again = try CaptureConversion.run(folder, to: .npy, output: folder + "/again") { _ in }
      #expect(again.problems.contains { $0.contains("moods.csv") }, "\(again.problems)")
    }
  }

  /// A table that the capture does not list is not part of the recording.
  @Test func leavesOutWhatTheCaptureDoesNotName() throws {
    try withFolder { folder in
      try write(Self.described, in: folder)
      try Self.text.write(toFile: folder + "/mine.csv", atomically: true, encoding: .utf8)
      let capture = try RecordedCapture(folder)
      #expect(capture.tables.map(\.name) == ["breaths"] && capture.leftOut.count == 1)
    }
  }
}

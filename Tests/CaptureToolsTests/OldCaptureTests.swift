import BLELinux
import Foundation
import TestKit
import Testing

@testable import CaptureTools
import Recording

/// Captures of format 1, made by the program before it had `formatVersion`: one error names their tables.
@Suite struct OldCaptureTests {
  private static let fixtures = Place.fixture("CaptureToolsTests/Fixtures/format-1")

  /// What `RecordedCapture` reports; an empty text if it accepts the capture.
  private func refusal(of directory: String) -> String {
    do throws(ConversionError) {
      _ = try RecordedCapture(directory)
      return ""
    } catch { return "\(error)" }
  }

  private func put(_ text: String, _ path: String) throws {
    try Data(text.utf8).write(to: URL(filePath: path))
  }

  @Test(
    arguments: [
      ("ring", "ppg.csv, samples.csv, spo2.csv"), ("strap", "accelerometer.csv"),
    ]) func text(_ name: String, _ tables: String) throws
  {
    let directory = Self.fixtures + "/" + name
    let refusal = refusal(of: directory)
    #expect(refusal.hasPrefix("\(directory) has tables of format 1 (\(tables)), "))
    // The fixtures are without their packet logs.
    #expect(refusal.contains("import its packet log again") && !refusal.contains("\n"))
  }

  /// Each command that reads tables reports the same, once.
  @Test func commands() throws {
    try withFolder { folder in
      let ring = Self.fixtures + "/ring"
      let refusal = refusal(of: ring)
      let analysis = #expect(throws: AnalysisError.self) { try CaptureAnalysis.run(ring, output: nil) }
      #expect(analysis.map { "\($0)" } == refusal)
      let conversion = #expect(throws: ConversionError.self) {
        try CaptureConversion.run(ring, to: .edf, output: folder + "/out") { _ in }
      }
      #expect(conversion.map { "\($0)" } == refusal)
      #expect(!Files.exists(folder + "/out"))
      let section = try ReportDocument.read(ring, title: nil) { _ in }.sections[0]
      #expect(section.problems.count { $0.text == refusal + "." } == 1)
    }
  }

  /// The packet log beside the tables is named, as the way to new ones.
  @Test func packetLog() throws {
    try withFolder { folder in
      let directory = folder + "/walk"
      try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
      let text = "time_ns,value_counts,max_counts,min_counts,diff_counts\n1,10625,10957,10689,268\n"
      try put(text, directory + "/ppg.csv")
      // Without `session.json`.
      #expect(refusal(of: directory).contains("(ppg.csv)"))
      try put(#"{"packetLog":"packets.btsnoop","received":1}"#, directory + "/session.json")
      #expect(!refusal(of: directory).contains("packets.btsnoop"))
      try put("", directory + "/packets.btsnoop")
      #expect(refusal(of: directory).contains("ringtap import \(directory)/packets.btsnoop --output NEW"))
    }
  }

  /// The columns of arrays are in `columns.json`.
  @Test(
    arguments: [
      ("ppg", ["time_ns", "value_counts", "max_counts", "min_counts", "diff_counts"]),
      ("ecg", ["time_ns", "device_time_ns", "ecg_uv"]),
      ("samples", ["fitted_time_ns", "tick", "ppg_time_ns", "ppg_value_counts"]),
    ]) func arrays(_ table: String, _ columns: [String]) throws
  {
    try withFolder { folder in
      let listed = columns.map { #"{"name":"\#($0)","dtype":"<i8"}"# }.joined(separator: ",")
      let index = #"{"tables":{"\#(table)":{"columns":[\#(listed)]}}}"#
      try put(index, folder + "/columns.json")
      #expect(refusal(of: folder).contains("has tables of format 1 (\(table)), "))
    }
  }

  /// Tables that were the same in format 1 can still be read, as can a program's own with such columns.
  @Test func otherTables() throws {
    try withFolder { folder in
      try put(HeartRateTables.tables[0].header + "1,64,1,\n", folder + "/heart_rate.csv")
      try put(#"{"received":1}"#, folder + "/session.json")
      #expect(try RecordedCapture(folder).tables.map(\.name) == ["heart_rate"])
      try put("time_ns,value_counts\n1,2\n", folder + "/belt.csv")
      #expect(refusal(of: folder).contains("(belt.csv)"))
      try put(#"{"formatVersion":2,"received":1,"streams":{"belt":{"samples":1}}}"#, folder + "/session.json")
      #expect(try RecordedCapture(folder).tables.map(\.name) == ["belt", "heart_rate"])
    }
  }
}

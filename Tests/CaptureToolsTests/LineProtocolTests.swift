import Foundation
import TestKit
import Testing

@testable import CaptureTools
import Recording

/// Captures in InfluxDB's line protocol, read by VictoriaMetrics.
@Suite(.timeLimit(.minutes(2))) struct LineProtocolTests {
  /// Every value of each table, to the millisecond, which is the database's resolution.
  @Test func aDatabaseHasTheValuesOfTheTables() async throws {
    try await withFolder { folder in
      let capture = folder + "/capture"
      try await Readers.run("make", capture)
      let report = try CaptureConversion.run(capture, to: .influx, output: folder + "/capture.line") { _ in }
      #expect(report.problems.isEmpty)
      let database = try await VictoriaMetrics(in: folder)
      try await database.request("/write?precision=ns", ["--data-binary", "@\(folder)/capture.line"])
      for (table, column) in [
        ("ppg", "ppg_counts"), ("spo2", "spo2_counts"), ("accelerometer", "x_g"), ("samples", "tick"),
      ] {
        let series = try await database.export("\(table)_\(column)")
        #expect(series.count == 1, "\(table)")
        let found = try #require(series.first)
        let lines = try String(contentsOfFile: "\(capture)/\(table).csv", encoding: .utf8).split(
          separator: "\n"
        )
        .map { $0.split(separator: ",", omittingEmptySubsequences: false).map(String.init) }
        let place = try #require(lines[0].firstIndex(of: column))
        let wanted = lines.dropFirst().filter { !$0[place].isEmpty }
        #expect(found.values.compactMap(\.self).count == wanted.count && wanted.count > 900)
        // Text has six decimals, the last one rounded.
        let isSame = zip(wanted, zip(found.values, found.timestamps)).allSatisfy { row, point in
          guard let text = Double(row[place]), let value = point.0, let time = Int64(row[0]) else {
            return false
          }
          return abs(text - value) <= 0.500_001e-6 && time / 1_000_000 == point.1
        }
        #expect(isSame, "\(table)")
      }
    }
  }

  /// InfluxData, Line protocol: characters that separate elements are escaped with a backslash, and a newline
  /// appears only at the end of a line.
  @Test func escapesWhatAFileSays() {
    let columns: [RecordedColumn] = [
      .time("time_ns"), RecordedColumn("bpm", .float32(decimals: 0)),
      RecordedColumn("state", .word(["on", "off"])),
    ]
    var points = LineProtocol("heart_rate", columns, device: "a ring, = \"x\"\\\n\u{7}")
    var octets: [UInt8] = []
    points.append([UInt64(1_700_000_000_000_000_001), (72.5).bitPattern, 1], to: &octets)
    points.append([UInt64(1_700_000_000_000_000_002), Double.nan.bitPattern, TableCell.missing], to: &octets)
    let lines = String(decoding: octets, as: UTF8.self).split(
      separator: "\n", omittingEmptySubsequences: false)
    #expect(lines.count == 2 && lines[1].isEmpty)
    #expect(
      lines[0].hasPrefix(#"heart_rate,device=a\ ring\,\ \=\ "x"/"#), "\(lines[0])")
    #expect(lines[0].hasSuffix(#" bpm=72.5,state="off" 1700000000000000001"#), "\(lines[0])")
    #expect(points.empty == 1)
  }

  /// A database keeps one point per time, so rows with equal times get distinct ones.
  @Test func rowsOfTheSameTimeAreDistinct() {
    var points = LineProtocol("rr", [.time("time_ns"), RecordedColumn("ms", .uint16)], device: nil)
    var octets: [UInt8] = []
    for (time, value) in [(5, 1), (5, 2), (5, 3), (90, 4), (95, 5), (95, 6)] as [(UInt64, UInt64)] {
      points.append([time, value], to: &octets)
    }
    #expect(
      String(decoding: octets, as: UTF8.self)
        == "rr ms=1i 5\nrr ms=2i 6\nrr ms=3i 7\nrr ms=4i 90\nrr ms=5i 95\nrr ms=6i 96\n")
  }
}

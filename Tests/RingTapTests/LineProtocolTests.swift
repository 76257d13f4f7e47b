import Foundation
import JSONText
import TestKit
import Testing

@testable import CaptureTables
@testable import Recording

/// Captures as InfluxDB's line protocol, read by VictoriaMetrics.
@Suite(.timeLimit(.minutes(2))) struct LineProtocolTests {
  /// What it says of one series.
  private struct Series: Decodable {
    var metric: [String: String]
    var values: [Double?]
    var timestamps: [Int64]
  }

  /// Every value of each table, to the millisecond that it keeps.
  @Test func aDatabaseHasTheValuesOfTheTables() async throws {
    try await withFolder { folder in
      let capture = folder + "/capture"
      try await Readers.run("make", capture)
      let report = try CaptureConversion.run(capture, to: .influx, output: folder + "/capture.line") { _ in }
      #expect(report.problems.isEmpty)
      let port = try freePort()
      let server = try Program(
        Place.tool("victoria-metrics"),
        [
          "-storageDataPath=\(folder)/data", "-httpListenAddr=127.0.0.1:\(port)", "-retentionPeriod=100y",
        ], input: .nothing)
      defer { server.send(SIGKILL) }
      try await eventually("it listens") { canConnect(port) }
      let address = "http://127.0.0.1:\(port)"
      let write = try await Program.run(
        "curl",
        ["-sS", "--fail", "--data-binary", "@\(folder)/capture.line", "\(address)/write?precision=ns"])
      #expect(write.status == 0, "\(write.errors)")
      let flush = try await Program.run("curl", ["-sS", "--fail", "\(address)/internal/force_flush"])
      #expect(flush.status == 0)
      for (table, column) in [
        ("ppg", "ppg_counts"), ("spo2", "spo2_counts"), ("accelerometer", "x_g"), ("samples", "tick"),
      ] {
        let export = try await Program.run(
          "curl", ["-sS", "--fail", "-g", "\(address)/api/v1/export?match[]=\(table)_\(column)"])
        let series = try export.output.split(separator: "\n").map {
          try JSONDecoder().decode(Series.self, from: Data($0.utf8))
        }
        #expect(series.count == 1, "\(table): \(export.output.prefix(200))")
        let found = try #require(series.first)
        let lines = try String(contentsOfFile: "\(capture)/\(table).csv", encoding: .utf8).split(
          separator: "\n"
        )
        .map { $0.split(separator: ",", omittingEmptySubsequences: false).map(String.init) }
        let place = try #require(lines[0].firstIndex(of: column))
        let wanted = lines.dropFirst().filter { !$0[place].isEmpty }
        #expect(found.values.compactMap(\.self).count == wanted.count && wanted.count > 900)
        // A text has six digits behind the point, and rounds the last.
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

  /// InfluxData, Line protocol: what has a meaning between elements stands with a backslash; a line ends nowhere else.
  @Test func escapesWhatComesFromTheAir() throws {
    let session = try JSONDocument(
      Array(#"{"device":{"address":"70:CB:0D:00:A1:B2","name":"a ring, = \"x\"\\\n\u0007"}}"#.utf8))
    let table = RecordedTable(
      name: "heart_rate",
      columns: [
        .time("time_ns"), RecordedColumn("bpm", .float32(decimals: 0)),
        RecordedColumn("state", .word(["on", "off"])),
      ])
    var points = LineProtocol(table, session)
    var octets: [UInt8] = []
    points.append([UInt64(1_700_000_000_000_000_001), (72.5).bitPattern, 1], to: &octets)
    points.append([UInt64(1_700_000_000_000_000_002), Double.nan.bitPattern, TableCell.missing], to: &octets)
    let lines = String(decoding: octets, as: UTF8.self).split(
      separator: "\n", omittingEmptySubsequences: false)
    #expect(lines.count == 2 && lines[1].isEmpty)
    #expect(
      lines[0].hasPrefix(#"heart_rate,device=70:CB:0D:00:A1:B2,name=a\ ring\,\ \=\ "x"/"#), "\(lines[0])")
    #expect(lines[0].hasSuffix(#" bpm=72.5,state="off" 1700000000000000001"#), "\(lines[0])")
    #expect((points.lines, points.empty) == (1, 1))
  }
}

import BLEWire
import Foundation
import TestKit
import Testing

@testable import CaptureTools

/// Streams of a Polar sensor found in a packet log, for frames that real sensors sent (reference
/// `sensor-test-vectors.json`).
@Suite struct PolarLogStreamsTests {
  private static let time = ReceiveTime(nanoseconds: 1_700_000_000_000_000_000)

  private var streams = PolarLogStreams()
  private var tables = LogTables()

  private func vector(_ name: String) throws -> [String: Any] {
    let file = URL(filePath: #filePath).deletingLastPathComponent()
      .appending(path: "../BLESensorsTests/Fixtures/sensor-test-vectors.json")
    let vectors = try JSONSerialization.jsonObject(with: Data(contentsOf: file)) as? [[String: Any]]
    return try #require(vectors?.first { $0["name"] as? String == name })
  }

  private func octets(_ name: String) throws -> [[UInt8]] {
    let vector = try vector(name)
    return try #require(vector["frames"] as? [String] ?? (vector["value"] as? String).map { [$0] }).map {
      octetsOf($0)
    }
  }

  private mutating func takeFrames(_ name: String) throws {
    for octets in try octets(name) { try streams.takeFrame(octets.span, at: Self.time, into: &tables) }
  }

  /// Stored integers of a column, which are the values times the column's scale.
  private func numbers(_ column: Int) throws -> [Int64] {
    let table = try #require(tables.tables.first)
    var reader = PackedColumn.Reader(table.columns[column].numbers)
    return (0..<table.count).compactMap { _ in reader.next() }
  }

  /// H10, whether or not the log contains the start request: microvolts need no scale.
  @Test(arguments: [true, false])
  mutating func electrocardiogram(startIsHeard: Bool) throws {
    if startIsHeard {
      for request in try octets("pmd-start-ecg") { streams.takeRequest(request.span) }
      streams.takeAnswer(octetsOf("f002000000").span)
    }
    try takeFrames("pmd-ecg-h10-three-frames")
    let expect = try #require(try vector("pmd-ecg-h10-three-frames")["expect"] as? [String: Any])
    let frames = try #require(expect["frames"] as? [[String: Any]])
    let samples = try #require(frames.map { $0["samplesMicrovolts"] } as? [[Int64]]).joined()
    #expect(samples.count == 219)
    #expect(tables.tables.map(\.name) == ["ecg"])
    #expect(try numbers(0) == Array(samples))
  }

  /// Verity Sense: counts times the factor of the response are g, stored in thousandths of a milli-g.
  @Test mutating func accelerometer() throws {
    for request in try octets("pmd-start-acc-verity") { streams.takeRequest(request.span) }
    for answer in try octets("pmd-start-response-with-factor") { streams.takeAnswer(answer.span) }
    try takeFrames("pmd-acc-delta-type0-verity-capture")
    let expect = try #require(try vector("pmd-acc-delta-type0-verity-capture")["expect"] as? [String: Any])
    let samples = try #require(expect["rawSamples"] as? [[Int]])
    #expect(samples.count == 63 && samples[0] == [-3_698, -1_095, -1_228])
    for axis in 0..<3 {
      let thousandths = samples.map { Int64((Double($0[axis]) * 0.000244019043748267 * 1e6).rounded()) }
      #expect(try numbers(axis) == thousandths)
    }
    #expect(try numbers(0)[0] == -902_382)
  }

  /// Without the response to the start request the scale of a count is unknown: there are no rows rather than
  /// wrong ones.
  @Test mutating func withoutScale() throws {
    try takeFrames("pmd-acc-delta-type0-verity-capture")
    #expect(tables.tables.isEmpty)
    // A refused start gives no scale.
    for request in try octets("pmd-start-acc-verity") { streams.takeRequest(request.span) }
    streams.takeAnswer(octetsOf("f002020500").span)
    try takeFrames("pmd-acc-delta-type0-verity-capture")
    #expect(tables.tables.isEmpty)
    // Uncompressed frames are in milli-g.
    try takeFrames("pmd-acc-raw-type1")
    #expect(try numbers(0)[0] == -9_000)
  }
}

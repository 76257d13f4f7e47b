import BLEEmulation
import BLEHost
import BLELinux
import BLEWire
import CaptureTools
import ColmiRing
import Foundation
import Recording
import SensorSessions
import TestKit
import Testing

/// The ring's clock as a running capture estimates it, compared with the emulated ring's own. In virtual time
/// the ring ticks at whole multiples of its period, and a tick arrives with a connection event.
@Suite(.serialized, .timeLimit(.minutes(3))) struct SensorClockTests {
  struct Case: Sendable, CustomTestStringConvertible {
    /// Ticks per second.
    var rate: Double
    /// Duration in seconds.
    var length: Double
    /// Connection interval in units of 1.25 ms; `nil` if packets arrive when they are sent.
    var interval: UInt16?
    var errorRate = 0.0

    var ticks: Int { Int(rate * length) }
    var testDescription: String {
      "\(rate) Hz, \(interval.map { "\(Double($0) * 1.25) ms events" } ?? "no air"), \(errorRate) of packets lost"
    }
  }

  static let cases = [
    Case(rate: 1, length: 300, interval: 39), Case(rate: 5, length: 120, interval: 39),
    Case(rate: 10, length: 60, interval: 39), Case(rate: 25, length: 60, interval: 23),
    Case(rate: 25, length: 60, interval: 11, errorRate: 0.1), Case(rate: 50, length: 60, interval: 11),
    Case(rate: 300, length: 10, interval: 11),
    Case(rate: 1_000, length: 6, interval: nil),
  ]

  private static let start = ReceiveTime(nanoseconds: 1_700_000_000_000_000_000)

  @Test(arguments: cases) func isTheRingsOwn(_ item: Case) async throws {
    try await withFolder { folder in
      let report = try await capture(item, into: folder + "/ring")
      let ticks = try #require(report.ticks)
      #expect(report.lost.total == 0)
      #expect(ticks.ticks == item.ticks && ticks.wholeTicks == item.ticks)
      #expect(ticks.clock.missing == 0 && ticks.clock.restarts == 0 && ticks.gaps.isEmpty)

      let rows = try table(folder + "/ring/samples.csv")
      let isCounted = rows.map { $0[1] } == (0..<item.ticks).map { Int64($0) }
      #expect(isCounted)
      let period = 1e9 / item.rate
      let fitted = deviation(rows.map { $0[0] }, period)
      let stamps = deviation(rows.map { $0[4] }, period)
      let rate = try #require(ticks.rate)
      print(
        "\(item.testDescription): rate off by \((rate / item.rate - 1) * 1e6) ppm, stamps \(stamps) ms RMS "
          + "(reported \(ticks.clock.residual / 1e6)), fitted \(fitted) ms")
      #expect(abs(rate / item.rate - 1) < 0.001)
      #expect(fitted < max(stamps / 3, 0.001))
      #expect(abs(ticks.clock.residual / 1e6 - stamps) <= 0.2 * stamps + 0.001)
      for (stream, column) in [("spo2", 4), ("ppg", 9), ("accelerometer", 14)] {
        let stream = try #require(report.streams.first { $0.name == stream })
        let part = try #require(stream.part)
        #expect(part.samples == item.ticks && part.missing == 0 && stream.samples == item.ticks)
        // The timestamps of the ticks are those of the stream's own table.
        let isSame = try table(folder + "/ring/" + stream.file).map { $0[0] } == rows.map { $0[column] }
        #expect(isSame)
      }
      try expectTheSameOfTheTables(folder)
    }
  }

  private func capture(
    _ item: Case, into directory: String
  ) async throws -> SessionReport {
    let ring = quietRing(rate: 3 * item.rate)
    let link = try await VirtualLink.open(
      [ring], pace: item.interval == nil ? .immediate : .air, clock: .virtual(from: Self.start))
    var capture = SensorRecording(
      of: ring.address, on: link.adapter, into: directory, .init(count: 3 * item.ticks))
    if let interval = item.interval { capture.plan.request.interval = interval...interval }
    capture.plan.request.supervisionTimeout = 3_200
    if item.errorRate > 0 { await link.emulation.inject(.packetErrorRate(item.errorRate)) }
    let running = capture
    let result = try await withTaskExecutorPreference(link.loop.preference) { try await running.run(.ring) }
    await link.close()
    #expect(result.failure == nil)
    return result.report
  }

  /// An analysis of the three tables makes the same `samples.csv`, byte for byte.
  private func expectTheSameOfTheTables(_ folder: String) throws {
    _ = try CaptureAnalysis.run(folder + "/ring", output: folder + "/again")
    let live = FileManager.default.contents(atPath: folder + "/ring/samples.csv")
    #expect(live != nil && live == FileManager.default.contents(atPath: folder + "/again/samples.csv"))
  }

  /// Whole numbers; empty cells become 0, other cells are left out.
  private func table(_ path: String) throws -> [[Int64]] {
    try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n").dropFirst().map { row in
      row.split(separator: ",", omittingEmptySubsequences: false).map { Int64($0) ?? 0 }
    }
  }

  /// Root mean square deviation from ticks of this period, without the constant delay, in milliseconds.
  private func deviation(_ times: [Int64], _ period: Double) -> Double {
    guard let first = times.first else { return 0 }
    return deviation(times.enumerated().map { Double($1 - first) - Double($0) * period })
  }

  private func deviation(_ errors: [Double]) -> Double {
    let mean = errors.reduce(0, +) / Double(errors.count)
    let squares = errors.reduce(0) { $0 + ($1 - mean) * ($1 - mean) }
    return (squares / Double(errors.count)).squareRoot() / 1e6
  }
}

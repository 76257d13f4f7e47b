import Foundation
import TestKit
import Testing

extension WithoutKernel {
  /// `ringtap bench` with an emulated source in the same process. The assertions are about counts, not times.
  @Suite final class BenchTests {
    private let scene: Scene

    init() throws { scene = try Scene() }
    isolated deinit { scene.end() }

    private struct Percentiles: Decodable {
      var p50: UInt64
      var p99: UInt64
      var max: UInt64
    }

    private struct Report: Decodable {
      struct Lost: Decodable, Equatable {
        var kernelQueue: Int
        var ourQueue: Int
        var sequence: Int
      }

      var asked: String?
      var notifications: Int
      var payloadOctets: Int
      var mtu: Int
      var allowedPerSecond: Double
      var latencyNs: Percentiles
      var endToEndNs: Percentiles?
      var batch: Percentiles
      var systemCallsPerNotification: Double
      var lost: Lost
    }

    @Test func measuresASource() throws {
      let picture = scene.path("latency.svg")
      let result = try scene.ringtap(
        "bench", "notify", "--transport", "virtual:source", "--settling", "0", "--count", "500", "--json",
        "--svg", picture)
      result.expectSuccess()
      let report = try #require(try result.objects(Report.self).first)
      #expect(report.notifications == 500)
      #expect(report.payloadOctets == 20)
      #expect(report.lost == Report.Lost(kernelQueue: 0, ourQueue: 0, sequence: 0))
      #expect(report.latencyNs.p50 <= report.latencyNs.p99)
      let endToEnd = try #require(report.endToEndNs)
      #expect(endToEnd.p50 >= report.latencyNs.p50)
      #expect(report.batch.max >= 1)
      #expect(report.systemCallsPerNotification > 0)
      // After connecting: LE 1M, 27 bytes, 50 ms. A packet of 27 bytes takes 296 µs, an empty one 80 µs, and
      // T_IFS twice 150 µs, which gives 73 complete exchanges per interval. Core 5.4, Vol 6, Part B, 2.1 and
      // 4.1.1.
      #expect(report.allowedPerSecond == 73 * 20)
      let drawn = try String(contentsOfFile: picture, encoding: .utf8)
      #expect(drawn.hasPrefix("<?xml") && drawn.hasSuffix("</svg>\n"))
    }

    /// A stream that ends before the measurement window is measured up to its end.
    @Test func aStreamThatStopsIsMeasured() throws {
      let result = try scene.ringtap(
        "bench", "--transport", "virtual:source,count=40,payload=100", "--settling", "0", "--duration", "0.2",
        "--json")
      result.expectSuccess()
      let report = try #require(try result.objects(Report.self).first)
      #expect(report.notifications == 40)
      #expect(report.payloadOctets == 100)
    }

    @Test func sweepsOverEachCombination() throws {
      let result = try scene.ringtap(
        "bench", "sweep", "--intervals", "7.5,15", "--phys", "1m,2m", "--payloads", "20", "--mtus", "23,247",
        "--settling", "0", "--count", "20", "--json")
      result.expectSuccess()
      let reports = try result.objects(Report.self)
      #expect(reports.count == 8)
      #expect(Set(reports.map(\.asked)).count == 8)
      #expect(reports.map(\.mtu) == [23, 247, 23, 247, 23, 247, 23, 247])
      #expect(reports.allSatisfy { $0.notifications == 20 })
    }

    private struct Requests: Decodable {
      var count: Int
      var readNs: Percentiles
      var writeNs: Percentiles
      var writesWithoutResponsePerSecond: Double
    }

    @Test func readsAndWrites() throws {
      let result = try scene.ringtap(
        "bench", "requests", "--transport", "virtual:source", "--write", "--count", "50", "--json")
      result.expectSuccess()
      let report = try #require(try result.objects(Requests.self).first)
      #expect(report.count == 50)
      #expect(report.readNs.p50 <= report.readNs.max)
      #expect(report.writeNs.p50 <= report.writeNs.max)
      #expect(report.writesWithoutResponsePerSecond > 0)
    }

    @Test func wantsAnAddressOrAnEmulation() throws {
      let result = try scene.ringtap("bench", "notify", "--transport", "unix:/nowhere")
      #expect(result.status == 2)
      #expect(result.errors.contains("give an address"))
    }
  }
}

extension OverEachWay {
  /// Cost of a recorded notification, in all modes.
  @Suite final class CaptureCostTests {
    private let scene: Scene

    init() throws { scene = try Scene() }
    isolated deinit { scene.end() }

    private struct Cost: Decodable {
      var mode: String
      var received: Int
      var lost: Int
      /// Allocations of all threads in the second half.
      var mallocs: Int?
    }

    private nonisolated static let modes: [(Way, String)] =
      Way.isInTestKernel
      ? [(.kernel, "raw"), (.kernel, "coexist"), (.userChannel, "exclusive")]
      : Way.here.map { ($0, "exclusive") }

    /// The stream has been running for six seconds, and nothing checks any more whether it has begun. The
    /// second half begins after nine seconds, which leaves a margin on a busy machine.
    @Test(arguments: Self.modes) func theSteadyStateAllocatesNothing(_ way: Way, _ mode: String) throws {
      let ring = try scene.emulatedRing(over: way, "--rate", "350", "--quiet")
      let path = scene.path("capture")
      let capture = try scene.start(
        Place.harness,
        ["capture", ring.address, "--mode", mode, "--count", "6600", "--output", path, "--json", "--callers"]
          + ring.options)
      try pauseInTheSecondHalf(ring, path)
      let result = try capture.finish(within: .seconds(60))
      result.expectSuccess()
      let cost = try #require(try result.objects(Cost.self).first)
      #expect(cost.mode == mode)
      #expect(cost.received == 6600 && cost.lost == 0)
      #expect(cost.mallocs == 0, "\(result.errors)")
    }

    /// Pauses the ring until nothing is written any more, then resumes it. The writer's first query after a
    /// pause and a packet cut in two do not allocate either.
    private func pauseInTheSecondHalf(_ ring: Scene.Peer, _ path: String) throws {
      try scene.demand(
        "bash", ["-c", "until [ \"$(wc -l <\"$0\")\" -gt 1500 ]; do sleep 0.05; done", path + "/ppg.csv"])
      ring.program.send(SIGSTOP)
      let isStill =
        "size() { stat -c %s \"$0\"/*.csv; }; until before=$(size); sleep 0.7; [ \"$before\" = \"$(size)\" ]; do :; done"
      try scene.demand("bash", ["-c", isStill, path])
      ring.program.send(SIGCONT)
    }
  }
}

import BLEEmulation
import BLEHost
import BLELinux
import BLEWire
import Foundation
import Recording
import TestKit
import Testing

/// Host, controller and ring on one virtual clock.
@Suite(.timeLimit(.minutes(2))) struct VirtualTimeTests {
  /// An hour with a ring of 3 frames a second takes a few seconds, and each frame arrives at the time at
  /// which the ring sent it.
  @Test func anHourIsOver() async throws {
    let start = ReceiveTime(nanoseconds: 1_700_000_000_000_000_000)
    let link = try await VirtualLink.open(
      [quietRing(rate: 3)], pace: .air, clock: .virtual(from: start))
    try await withFolder { folder in
      let capture = SensorRecording(
        of: DeviceAddress(bits: 0x70CB_0D00_0001, type: .public), on: link.adapter, into: folder + "/hour",
        .init(count: 3 * 3600))
      let result = try await withTaskExecutorPreference(link.loop.preference) {
        try await capture.run(.ring)
      }
      #expect(result.failure == nil)
      #expect(result.report.lost.total == 0)
      #expect(result.report.streams.map(\.samples) == [3600, 3600, 3600])
      let table = try String(contentsOfFile: folder + "/hour/accelerometer.csv", encoding: .utf8)
      let stamps = table.split(separator: "\n").dropFirst().compactMap { row in
        row.split(separator: ",").first.flatMap { Int64($0) }
      }
      #expect(stamps.count == 3600)
      // One every second, at the next connection event.
      let first = try #require(stamps.first)
      let deviations = stamps.indices.map { abs(stamps[$0] - first - Int64($0) * 1_000_000_000) }
      #expect(try #require(deviations.max()) <= 50_000_000)
    }
    await link.close()
  }
}

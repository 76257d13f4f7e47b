import BLEEmulation
import BLEHost
import BLELinux
import BLEStack
import BLEWire
import Foundation
import TestKit
import Testing

@testable import Daemon

/// A daemon whose device falls silent on a link that stays up; in virtual time.
@Suite(.timeLimit(.minutes(1))) struct DaemonSilenceTests {
  /// A status of the daemon.
  private struct Moment: CustomStringConvertible {
    let second: Int
    let device: DaemonStatus.Device
    let isStreaming: Bool

    init(_ status: DaemonStatus, since start: ReceiveTime) {
      second = Int((status.now - start).nanoseconds / 1_000_000_000)
      device = status.devices[0]
      isStreaming = status.metrics.contains("\nringtap_streaming{device=\"strap\"} 1\n")
    }

    var description: String { "\(second) s: \(isStreaming), \(device.state), \(device.counts.received)" }
  }

  /// The strap stops after 50 values and sends nothing on its second link. A strap's link ends after 20 s
  /// without a value, or at most half of that later.
  @Test func aSilentDeviceIsConnectedAgain() async throws {
    let start = ReceiveTime(nanoseconds: 1_700_000_000_000_000_000)
    try await withFolder { folder in
      let link = try await VirtualLink.open(clock: .virtual(from: start)) {
        [SilenceTests.Hangs(muteLinks: 1)]
      }
      let strap = DaemonConfiguration.Device(
        name: "strap", address: OddDevice.address, sensor: .init("heart-rate"))
      let daemon = Daemon(DaemonConfiguration(directory: folder, devices: [strap]), on: link.adapter) { _ in }
      let running = Task(executorPreference: link.loop.preference) { await daemon.run() }
      let watch = Task(executorPreference: link.loop.preference) {
        var moments: [Moment] = []
        // The clock moves on while the daemon gathers its status.
        while moments.last.map({ $0.second < 120 }) ?? true {
          try await link.loop.wait(for: .milliseconds(100))
          moments.append(Moment(await link.loop.clock.standing { await daemon.status() }, since: start))
        }
        return moments
      }
      let moments = try await watch.value
      running.cancel()
      _ = await running.value
      await link.close()

      let begun = moments.drop { !$0.isStreaming }
      let lost = begun.drop { $0.isStreaming }
      let back = lost.drop { !$0.isStreaming }
      let (begunAt, lostAt, backAt) = try (
        #require(begun.first).second, #require(lost.first).second, #require(back.first).second
      )
      #expect(begunAt <= 2, "\(moments)")
      #expect((20...32).contains(lostAt), "\(moments)")
      #expect((20...35).contains(backAt - lostAt), "\(moments)")
      let meanwhile = lost.prefix { !$0.isStreaming }
      #expect(meanwhile.allSatisfy { $0.device.counts.received == 50 && $0.device.counts.gaps == 1 })
      #expect(back.allSatisfy { $0.isStreaming })
      #expect(moments[moments.count - 1].device.counts.received > 1_000)

      let capture = try #require(Files.names(in: folder + "/strap").first { !$0.hasPrefix(".") })
      let session = try String(contentsOfFile: "\(folder)/strap/\(capture)/session.json", encoding: .utf8)
      #expect(session.contains("silent: no sample for 20 s on a link that stayed up"))
    }
  }
}

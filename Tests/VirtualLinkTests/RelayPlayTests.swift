import BLEEmulation
import BLELinux
import BLEWire
import Foundation
import Recording
import TestKit
import Testing

/// A recording of a ring, replayed to `ringtap relay` and received by google/bumble.
@Suite(.timeLimit(.minutes(3))) struct RelayPlayTests {
  /// Recorded in virtual time: a minute and a half at rest with 72 beats/min, the same time walking, then
  /// with the ring taken off.
  @Test func bumbleHearsARecording() async throws {
    try await withFolder { folder in
      var ring = quietRing(rate: 75)
      (ring.wearer.motion, ring.wearer.boutSeconds, ring.wearer.takenOffAfterSeconds) = (.walk, 90, 180)
      let link = try await VirtualLink.open(
        [ring], pace: .air, clock: .virtual(from: ReceiveTime(nanoseconds: 1_700_000_000_000_000_000)))
      let recording = SensorRecording(
        of: ring.address, on: link.adapter, into: folder + "/walk", .init(duration: .seconds(240)))
      _ = try await withTaskExecutorPreference(link.loop.preference) { try await recording.run(.ring) }
      await link.close()

      let peer = try await BumbleCentrals.start()
      let program = try Ringtap.start([
        "relay", folder + "/walk", "--speed", "20x", "--name", "Relay", "--json", "--transport",
        "tcp-client:127.0.0.1:\(peer.port)",
      ])
      _ = try await program.line(containing: "ready")
      try await peer.ask("connect Relay", "connected")
      try await peer.ask("attributes", "attributes")
      let line = try #require(peer.lines().first { $0.hasSuffix(" 2a37") })
      try await peer.expect("subscribed", for: "subscribe \(line.split(separator: " ")[1]) notify")
      let result: Program.Result = try await program.ended()
      #expect(result.status == 0, "\(result.errors)")
      let values = peer.values().map { $0.split(separator: " ")[1] }
      // Flags with contact, then the rate: 70 to 74.
      let rates = values.filter { $0.hasPrefix("06") }.compactMap { UInt8($0.dropFirst(2), radix: 16) }
      #expect(rates.count > 40, "\(values)")
      #expect(rates.allSatisfy { (70...74).contains($0) }, "\(rates)")
      #expect(values.allSatisfy { $0.hasPrefix("06") || $0 == "0400" }, "\(values)")
      // When the ring is taken off, the relay has no pulse.
      let told = result.outputLines.filter { $0.contains("\"bpm\"") }
      let last = try #require(told.last.flatMap { line in line.firstMatch(of: /"measured_ns":(\d+)/)?.1 })
      #expect(try #require(Int64(last)) < 1_700_000_000_000_000_000 + 185_000_000_000)
    }
  }
}

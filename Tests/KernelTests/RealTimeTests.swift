import Foundation
import TestKit
import Testing

extension InTestKernel {
  /// The emulation at the speed of a real link: under the kernel's host, and between independent hosts.
  @Suite final class RealTimeTests {
    private let scene: Scene

    init() throws { scene = try Scene() }
    isolated deinit { scene.end() }

    /// The requested rate exceeds what a 1M link carries: 1553 frames of 16 bytes a second (Core 5.4, Vol 6,
    /// Part B, 2.1: a 23-byte payload takes 264 µs, an empty packet 80 µs, and T_IFS occurs twice).
    @Test func recordsNoFasterThanTheAirAllowsAndLosesNothing() throws {
      let ring = try scene.emulatedRing("--rate", "3000", "--real-time", "--quiet")
      let path = scene.path("capture")
      let result = try scene.ringtap("capture", "--count", "3000", "--output", path)
      // The ring drops what its link cannot carry: whole ticks, which look like a slower ring, or parts of
      // them (status 3).
      #expect(
        result.status == 0 || result.status == 3 && result.output.contains("missing by the sensor's clock"))

      let capture = try CaptureFolder(path)
      #expect(capture.session.device.address == ring.address)
      capture.expectNoTrouble(samples: 3000)
      let times = capture.tables.values.flatMap { $0.map(\.timeNs) }.sorted()
      let nanoseconds = try #require(times.last) - (try #require(times.first))
      // Each cycle takes 644 µs, 1.93 s in total. The requested rate would take 1 s. The first frame may be
      // late on a busy machine, and later frames catch up, so the limit is lower than the total.
      #expect(nanoseconds > 1_600_000_000)
    }

    /// A rate that fits, with lost packets: frames are late but none is missing.
    @Test func recordsThroughPacketErrors() throws {
      _ = try scene.emulatedRing("--rate", "300", "--real-time", "--loss", "0.1", "--quiet")
      let path = scene.path("capture")
      try scene.ringtap("capture", "--count", "900", "--output", path).expectSuccess()
      try CaptureFolder(path).expectNoTrouble(samples: 900)
    }

    /// bumble's host is the central: it reads every attribute of the emulated ring.
    @Test func servesABumbleCentral() throws {
      let emulation = try scene.startRingtap(
        "emulate", "ring", "--real-time", "--transport", "tcp-server:127.0.0.1:6407")
      let words = try emulation.line(containing: "ready").split(separator: " ")
      let configuration = scene.path("device.json")
      try #"{"name": "bumble", "address": "F0:F1:F2:F3:F4:F6"}"#.write(
        toFile: configuration, atomically: true, encoding: .utf8)
      let program = URL(filePath: try Place.bumblePython()).deletingLastPathComponent()
        .appending(path: "bumble-gatt-dump").path
      let dump = try scene.start(
        program, ["--device-config", configuration, "tcp-client:127.0.0.1:6407", "\(words[2])/P"])
      // The last attribute of the table: firmware revision R02_3.00.06_240523, in hexadecimal.
      _ = try dump.line(containing: "5230325f332e30302e30365f323430353233")
    }

    /// bumble's host is the peripheral on one controller of an emulated air, ours the central on the other.
    @Test(arguments: ["legacy", "extended"])
    func recordsABumblePeripheral(commands: String) throws {
      let options = commands == "extended" ? ["--extended"] : []
      let emulation = try scene.start(
        Place.ringtap,
        ["emulate", "air", "--real-time"] + options + [
          "--transport", "tcp-server:127.0.0.1:6408", "--transport", "tcp-server:127.0.0.1:6409",
        ])
      _ = try emulation.line(containing: "ready")
      let ring = try scene.start(
        Place.bumblePython(), [Place.peer("bumble_ring.py"), "tcp-client:127.0.0.1:6409", "--rate", "300"])
      let path = scene.path("capture")
      try scene.ringtap(
        "capture", "--transport", "tcp-client:127.0.0.1:6408", "--count", "900", "--output", path
      ).expectSuccess()
      let capture = try CaptureFolder(path)
      #expect(capture.session.received == 900)
      #expect(capture.session.lost == .none)
      #expect(capture.session.malformed == 0)
      // The peer numbers its frames.
      #expect(capture.tables["spo2"]?.map { $0.values[0] } == Array(0..<300))
      // The peer saw the end of the link, too, and the commands before it.
      try ring.line(on: .errors, containing: "command a102")
      let words = try ring.line(containing: "ready").split(separator: " ")
      #expect(words.last.map(String.init) == capture.session.device.address)
    }
  }
}

import Foundation
import TestKit
import Testing

extension InTestKernel {
  /// Link parameters that raw mode requests beside the kernel, observed with BlueZ's monitor.
  @Suite final class LinkParametersTests {
    private static let wishes = ["--mode", "raw", "--interval", "7.5", "--phy", "2m", "--data-length", "251"]

    private let scene: Scene

    init() throws { scene = try Scene() }
    isolated deinit { scene.end() }

    private func capture(_ address: String, _ options: [String]) throws -> (Program.Result, path: String) {
      let path = scene.path("capture")
      return (try scene.run(Place.ringtap, ["capture", address, "--output", path] + options), path)
    }

    /// Records until the link has the requested timing, which is set when everything that follows the first
    /// sample is done.
    private func captureUntilAsked(
      _ address: String, _ monitor: Monitor, _ adapter: String
    ) throws -> (Program.Result, path: String) {
      let path = scene.path("capture")
      let capture = try scene.start(Place.ringtap, ["capture", address, "--output", path] + Self.wishes)
      _ = try monitor.packets(untilThey: "report the requested timing") {
        $0.timings(on: adapter).count >= 2
      }
      capture.send(SIGINT)
      let result = try capture.finish()
      let folder = try scene.wholeCapture(path)
      #expect(
        folder.session.lost.kernelQueue + folder.session.lost.sampleQueue + folder.session.lost.disk == 0)
      return (result, path)
    }

    /// The kernel connects with the short intervals that it was told to use. Once the stream runs, the link
    /// gets the kernel's default timing, and so does the next link of any program.
    @Test func beginsFast() throws {
      let ring = try scene.emulatedRing("--rate", "75", "--quiet", "--real-time")
      let monitor = try Monitor(scene)
      let (result, path) = try capture(ring.address, ["--mode", "raw", "--count", "150"])
      result.expectSuccess()
      try CaptureFolder(path).expectNoTrouble(samples: 150)
      #expect(try LinkRecord.read(path).changes.compactMap(\.intervalMs) == [15, 50])
      _ = try monitor.packets(untilThey: "report the end") { $0.isOver() }
      #expect(try scene.run(Place.ringtap, ["read", ring.address, "2a00", "--mode", "raw"]).status == 0)
      let packets = try monitor.packets(untilThey: "report a second link") { $0.timings().count >= 3 }
      #expect(packets.timings() == [[15, 0, 420], [50, 0, 420], [50, 0, 420]])
      #expect(
        packets.contains {
          $0.says(
            "LE Create Connection", "Min connection interval: 7.50 msec",
            "Max connection interval: 15.00 msec")
        })
    }

    /// Parameters are requested, in force, and restored at the end.
    @Test func changesTimingPHYAndDataLength() throws {
      let ring = try scene.emulatedRing("--rate", "30", "--quiet")
      let monitor = try Monitor(scene)
      let (result, path) = try captureUntilAsked(ring.address, monitor, "hci0")
      #expect(result.messages.isEmpty)

      let link = try LinkRecord.read(path)
      #expect(link.asked.minimumIntervalMs == 7.5 && link.asked.maximumIntervalMs == 7.5)
      #expect(link.asked.phy == "2m" && link.asked.dataLength == 251)
      #expect(link.refused.isEmpty)
      #expect(link.changes.compactMap(\.intervalMs) == [15, 7.5])
      #expect(link.inForce.intervalMs == 7.5)
      #expect(link.inForce.transmitPhy == "2m" && link.inForce.receivePhy == "2m")
      #expect(link.inForce.transmitDataLength == 251 && link.inForce.receiveDataLength == 251)

      let handle = "Handle: \(try #require(link.inForce.handle))"
      let packets = try monitor.packets(untilThey: "report the previous timing") {
        $0.timings().count >= 3
      }
      #expect(packets.timings() == [[15, 0, 420], [7.5, 0, 420], [50, 0, 420]])
      #expect(
        packets.contains {
          $0.says(
            "< HCI Command: LE Connection Update", handle, "Min connection interval: 7.50 msec",
            "Max connection interval: 7.50 msec")
        })
      #expect(
        packets.contains { $0.says("LE PHY Update Complete", handle, "TX PHY: LE 2M", "RX PHY: LE 2M") })
      #expect(packets.contains { $0.says("LE Data Length Change", handle, "Max TX octets: 251") })
    }

    /// btvirt supports the interval and not the other parameters; the remote controller reports the same
    /// interval.
    @Test func saysWhatTheControllerRefuses() throws {
      try scene.linkedControllers()
      let ring = try scene.bumbleRing("--rate", "30")
      let monitor = try Monitor(scene)
      let (result, path) = try captureUntilAsked(ring.address, monitor, "hci1")
      #expect(result.status == 0)
      #expect(result.messages.count == 2)
      #expect(result.messages.allSatisfy { $0.contains("Unknown HCI Command") })

      let link = try LinkRecord.read(path)
      #expect(link.inForce.intervalMs == 7.5)
      #expect(link.inForce.transmitPhy == nil && link.inForce.transmitDataLength == nil)
      #expect(link.refused.map(\.what) == ["phy", "dataLength"])
      let packets = try monitor.packets(untilThey: "report the previous timing") {
        $0.timings(on: "hci1").count >= 3
      }
      #expect(packets.timings(on: "hci1") == [[15, 0, 420], [7.5, 0, 420], [50, 0, 420]])
    }

    /// The ring requests 25 to 50 ms and latency 4 soon after the connect. Its request comes later than ours,
    /// so it stays.
    @Test func leavesWhatThePeerHasChangedSince() throws {
      let ring = try scene.emulatedRing("--rate", "300")
      let monitor = try Monitor(scene)
      let (result, path) = try capture(
        ring.address, ["--mode", "raw", "--interval", "7.5", "--count", "1200"])
      result.expectSuccess()
      let link = try LinkRecord.read(path)
      #expect(link.changes.compactMap(\.intervalMs) == [15, 7.5, 50])
      #expect(link.inForce.latency == 4)
      let packets = try monitor.packets(untilThey: "report the end") { $0.isOver() }
      #expect(packets.timings() == [[15, 0, 420], [7.5, 0, 420], [50, 4, 5000]])
    }

    @Test func recordsWithoutTheCapability() throws {
      let ring = try scene.emulatedRing("--rate", "300", "--quiet")
      let path = try scene.openFolder() + "/capture"
      let result = try scene.unprivileged(
        ["capture", ring.address, "--output", path, "--count", "90"] + Self.wishes)
      #expect(result.status == 0)
      #expect(result.messages.count == 3)
      #expect(result.messages.allSatisfy { $0.contains("was not changed") && $0.contains("CAP_NET_RAW") })
      try CaptureFolder(path).expectNoTrouble(samples: 90)
      let link = try LinkRecord.read(path)
      #expect(link.refused.map(\.what) == ["timing", "phy", "dataLength"])
      #expect(link.refused.allSatisfy { $0.why.contains("CAP_NET_RAW") })
      #expect(link.inForce.intervalMs == nil && link.changes.isEmpty)
    }

    /// A ring that falls silent, and one that disconnects. Core 5.4, Vol 1, Part F, 2.8 and 2.19.
    @Test(arguments: [8, 19]) func tellsWhyTheLinkWent(_ code: Int) throws {
      let ring: Scene.Peer
      if code == 8 {
        ring = try scene.emulatedRing("--rate", "300", "--disconnect-after", "90")
      } else {
        try scene.linkedControllers()
        ring = try scene.bumbleRing("--rate", "300", "--disconnect-after", "90")
      }
      let (result, path) = try capture(ring.address, ["--mode", "raw", "--patience", "0"])
      #expect(result.status == 1)
      try CaptureFolder(path).expectNoTrouble(samples: 90)
      let reason = try LinkRecord.read(path).disconnectReason
      let name = code == 8 ? "Connection Timeout" : "Remote User Terminated Connection"
      #expect(reason == LinkRecord.Reason(code: code, name: name))
    }
  }
}

import Foundation
import Testing

extension InTestKernel {
  /// Our own host on controllers that nobody here wrote, and a foreign host on ours.
  @Suite final class ExclusiveModeTests {
    private let scene: Scene

    init() throws { scene = try Scene() }
    deinit { scene.end() }

    /// The HCI user channel of btvirt's controller, with bumble's ring on the linked one.
    @Test func recordsOverTheUserChannel() throws {
      try scene.linkedControllers()
      try scene.controller("off", 0)
      let ring = try scene.bumbleRing("--rate", "300", "--readvertise", "0.3")
      let path = scene.path("capture")
      try scene.ringtap(
        "capture", ring.address, "--transport", "hci-socket:0", "--count", "900", "--output", path
      ).expectSuccess()

      let capture = try CaptureFolder(path)
      capture.expectNoTrouble(samples: 900)
      #expect(capture.session.endReason == "count reached")
      // The peer numbers its frames.
      #expect(capture.tables["spo2"]?.map { $0.values[0] } == Array(0..<300))
      #expect(try scene.btmonNotifications(capture.packetLog) == 900)
    }

    /// The same tree by our host and by the kernel's, through the same device.
    @Test func findsTheSameTreeAsTheKernelsHost() throws {
      try scene.linkedControllers()
      try scene.controller("off", 0)
      let ring = try scene.bumbleRing("--readvertise", "0.3")
      let ours = try scene.ringtap("gatt", ring.address, "--mode", "exclusive", "--json")
      ours.expectSuccess()
      try scene.controller("central", 0)
      let kernel = try scene.ringtap("gatt", ring.address, "--json")
      kernel.expectSuccess()
      #expect(ours.output == kernel.output)
      #expect(ours.outputLines.count > 20)
    }

    /// An adapter that is up belongs to the kernel's host.
    @Test func leavesABusyAdapterAlone() throws {
      try scene.linkedControllers()
      try scene.ringtap("scan", "--transport", "hci-socket:0", "--duration", "1")
        .expectFailure(saying: "hci-socket:0", "power off")
      try scene.ringtap("scan", "--transport", "hci-socket:9", "--duration", "1")
        .expectFailure(saying: "no adapter hci-socket:9")
    }

    /// A controller of bumble's behind a TCP stream, with bumble's ring in its range.
    @Test func recordsOverAStreamFromABumbleController() throws {
      let port = "127.0.0.1:6403"
      let controller = try scene.start(
        Place.python(), [Place.peer("bumble_controller.py"), "tcp-server:\(port)", "--rate", "300"])
      let words = try controller.line(containing: "ready").split(separator: " ")
      let address = String(try #require(words.last))
      let path = scene.path("capture")
      let result = try scene.ringtap(
        "capture", "--transport", "tcp-client:\(port)", "--count", "600", "--output", path)
      result.expectSuccess()

      let capture = try CaptureFolder(path)
      #expect(capture.session.device.address == address)
      #expect(capture.session.received == 600)
      #expect(capture.tables["spo2"]?.map { $0.values[0] } == Array(0..<200))
      #expect(capture.tables["ppg"]?.map { $0.values[0] } == Array(1600..<1800))
    }

    /// bumble's host on our controller behind a TCP stream reads the emulated ring's Device Information.
    @Test func servesABumbleHost() throws {
      let emulation = try scene.startRingtap("emulate", "ring", "--transport", "tcp-server:127.0.0.1:6404")
      let words = try emulation.line(containing: "ready").split(separator: " ")
      let configuration = scene.path("device.json")
      try #"{"name": "bumble", "address": "F0:F1:F2:F3:F4:F6"}"#.write(
        toFile: configuration, atomically: true, encoding: .utf8)
      let program = URL(filePath: try Place.python()).deletingLastPathComponent()
        .appending(path: "bumble-gatt-dump").path
      let dump = try scene.start(
        program, ["--device-config", configuration, "tcp-client:127.0.0.1:6404", "\(words[2])/P"])
      // The last attribute of the table: the firmware revision R02_3.00.06_240523, in hexadecimal.
      _ = try dump.line(containing: "5230325f332e30302e30365f323430353233")
    }

    /// With the controller in this process nothing of the kernel's Bluetooth is needed.
    @Test func recordsFromTheVirtualRing() throws {
      let path = scene.path("capture")
      try scene.ringtap("capture", "--transport", "virtual:ring", "--count", "600", "--output", path)
        .expectSuccess()
      let capture = try CaptureFolder(path)
      capture.expectNoTrouble(samples: 600)
      #expect(try scene.btmonNotifications(capture.packetLog) == 600)
    }

    /// Whoever answers there is no controller.
    @Test func givesUpOnWhatIsNoController() throws {
      let listener = try scene.start(
        "/usr/bin/python3",
        [
          "-c",
          "import socket,time\ns=socket.create_server(('127.0.0.1',6405))\nprint('ready',flush=True)\nc=s.accept()[0]\nc.sendall(b'garbage')\nc.recv(99)\ntime.sleep(60)",
        ])
      _ = try listener.line(containing: "ready")
      try scene.ringtap("scan", "--transport", "tcp-client:127.0.0.1:6405", "--duration", "1")
        .expectFailure(saying: "did not answer command 0xc03")
      try scene.ringtap("scan", "--transport", "tcp-client:127.0.0.1:6406", "--duration", "1")
        .expectFailure(saying: "127.0.0.1:6406", "refused")
    }
  }
}

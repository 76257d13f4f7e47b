import Foundation
import TestKit
import Testing

extension InTestKernel {
  /// Our own host beside the kernel's, on our controllers and on those of BlueZ's btvirt.
  @Suite final class ExclusiveModeTests {
    nonisolated enum Pair: String, CaseIterable, CustomTestStringConvertible {
      case kernelsHostOnOurController = "the kernel's host on our virtual controller"
      case ourHostOnOurController = "our host on our virtual controller, through the kernel"
      case kernelsHostOnBtvirtsController = "the kernel's host on btvirt's controller"
      case ourHostOnBtvirtsController = "our host on btvirt's controller"

      var testDescription: String { rawValue }
    }

    private let scene: Scene

    init() throws { scene = try Scene() }
    isolated deinit { scene.end() }

    @Test(arguments: Pair.allCases)
    func recordsWithEachHostOnEachController(_ pair: Pair) throws {
      let ring: Scene.Peer
      switch pair {
      case .kernelsHostOnOurController: ring = try scene.emulatedRing(over: .kernel, "--rate", "300")
      case .ourHostOnOurController: ring = try scene.emulatedRing(over: .userChannel, "--rate", "300")
      case .kernelsHostOnBtvirtsController: ring = try scene.bumbleRing(over: .kernel, "--rate", "300")
      case .ourHostOnBtvirtsController: ring = try scene.bumbleRing(over: .userChannel, "--rate", "300")
      }
      let isOurs = pair == .ourHostOnOurController || pair == .ourHostOnBtvirtsController
      let path = scene.path("capture")
      try scene.ringtap(reaching: ring, "capture", ring.address, "--count", "150", "--output", path)
        .expectSuccess()
      let capture = try CaptureFolder(path)
      capture.expectNoTrouble(samples: 150)
      #expect(capture.session.mode == (isOurs ? "exclusive" : "raw"))
    }

    /// Two absent devices are searched for with the accept list, as btmon decodes it. The controller is ours:
    /// btvirt (5.66) ends each attempt at once, and bumble's controller ignores the list's contents.
    @Test func looksForAllByTheAcceptList() throws {
      _ = try scene.emulatedRing(over: .userChannel)
      let monitor = try Monitor(scene)
      let addresses = ["70:CB:0D:00:FF:FE", "70:CB:0D:00:FF:FF"]
      let capture = try scene.start(
        Place.ringtap,
        ["capture", "--transport", "hci-socket:0", "--timeout", "300", "--output", scene.path("capture")]
          + addresses.map { "ring@" + $0 })
      let packets = try monitor.packets(untilThey: "report the accept list") {
        $0.contains { $0.says("Create Connection", "Filter policy: Accept list is used (0x01)") }
          || $0.contains { $0.says("Extended Create", "Filter policy: Accept list is used (0x01)") }
      }
      for address in addresses {
        #expect(
          packets.contains { $0.says("(0x08|0x0011)", "Address: \(address)") }, "\(address)")
      }
      capture.send(SIGINT)
      _ = try capture.finish()
    }

    /// Our host and the kernel's find the same tree, on the same device.
    @Test func findsTheSameTreeAsTheKernelsHost() throws {
      try scene.linkedControllers()
      try scene.takeDown(0)
      let ring = try scene.bumbleRing("--readvertise", "2")
      let ours = try scene.ringtap("gatt", ring.address, "--mode", "exclusive", "--json")
      ours.expectSuccess()
      try scene.makeCentral(0)
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
  }
}

extension WithoutKernel {
  /// Our own host on a kernel without any Bluetooth.
  @Suite final class ExclusiveModeTests {
    private let scene: Scene

    init() throws { scene = try Scene() }
    isolated deinit { scene.end() }

    /// The controller is in this process; its packets pass through a socket, which timestamps them.
    @Test func recordsFromTheVirtualRing() throws {
      let path = scene.path("capture")
      try scene.ringtap("capture", "--transport", "virtual:ring", "--count", "600", "--output", path)
        .expectSuccess()
      let capture = try CaptureFolder(path)
      capture.expectNoTrouble(samples: 600)
      #expect(capture.session.mode == "exclusive")
      #expect(try scene.btmonNotifications(capture.packetLog) == 600)
      #expect(try scene.tshark(capture.packetLog).count == 600)
    }

    @Test func findsTheSameTreeInTheVirtualRing() throws {
      let served = try scene.emulatedRing(over: .unix)
      let theirs = try scene.ringtap(reaching: served, "gatt", served.address, "--json")
      theirs.expectSuccess()
      let ours = try scene.ringtap("gatt", served.address, "--transport", "virtual:ring", "--json")
      ours.expectSuccess()
      #expect(ours.output == theirs.output)
      #expect(ours.outputLines.count > 10)
    }

    /// The controller connects to us.
    @Test func recordsFromAControllerThatCallsUs() throws {
      let port = try freePort()
      let path = scene.path("capture")
      let program = try scene.startRingtap(
        "capture", "--transport", "tcp-server:127.0.0.1:\(port)", "--count", "600", "--output", path)
      try program.line(on: .errors, containing: "waiting for a controller")
      let controller = try scene.start(
        Place.bumblePython(),
        [Place.peer("bumble_controller.py"), "tcp-client:127.0.0.1:\(port)", "--rate", "300"])
      let result = try program.finish()
      #expect(result.status == 0, "\(result.errors)")
      controller.end()
      let capture = try CaptureFolder(path)
      capture.expectNoTrouble(samples: 600, stamps: .arrival)
      #expect(capture.tables["spo2"]?.map { $0.values[0] } == Array(0..<200))
    }

    /// The other end answers, but is not a controller.
    @Test func givesUpOnWhatIsNoController() throws {
      let script = """
        import socket, sys, time
        listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
        print("ready", flush=True)
        peer = listener.accept()[0]
        peer.sendall(b"garbage")
        peer.recv(99)
        time.sleep(60)
        """
      let port = try freePort()
      let listener = try scene.start("/usr/bin/python3", ["-c", script, "\(port)"])
      _ = try listener.line(containing: "ready")
      try scene.ringtap("scan", "--transport", "tcp-client:127.0.0.1:\(port)", "--duration", "1")
        .expectFailure(saying: "did not answer command 0xc03")
      let nobody = "127.0.0.1:\(try freePort())"
      try scene.ringtap("scan", "--transport", "tcp-client:\(nobody)", "--duration", "1")
        .expectFailure(saying: nobody, "refused")
    }
  }
}

import Foundation
import TestKit
import Testing

extension InTestKernel {
  /// An emulated device on an adapter: on btvirt's hci1, with independent hosts on hci0.
  @Suite final class AdapterEmulationTests {
    private let scene: Scene

    init() throws { scene = try Scene() }
    isolated deinit { scene.end() }

    private func emulate(_ way: ServeWay, _ options: String...) throws -> Program {
      try scene.strapControllers(way, central: true)
      let program = try scene.start(
        Place.ringtap, ["emulate"] + options + ["--adapter", "hci1", "--mode", way.mode])
      try program.line(containing: "ready")
      return program
    }

    @Test(arguments: ServeWay.modes) func isCapturedOverTheAir(_ way: ServeWay) throws {
      let program = try emulate(way, "ring", "--rate", "100")
      let capture = scene.path("capture")
      let result = try scene.ringtap(
        "capture", Scene.strapAddress, "--adapter", "hci0", "--mode", "raw", "--count", "300", "--output",
        capture)
      result.expectSuccess()
      let folder = try CaptureFolder(capture)
      #expect(folder.session.received == 300 && folder.session.lost == .none)
      #expect(try scene.tshark(folder.packetLog).count == 300)
      program.send(SIGTERM)
      let ended = try program.ended()
      #expect(ended.status == 0 && ended.output.contains("end 300 raw notifications sent"))
    }

    /// A strap at 72 beats/min, read by BlueZ's gatttool.
    @Test(arguments: ServeWay.modes) func isReadByGatttool(_ way: ServeWay) throws {
      let program = try emulate(way, "heart-rate", "--heart-rate", "72", "--variability", "0")
      let tool = ["-i", "hci0", "-b", Scene.strapAddress]
      // handle = 0x0012, uuid = 00002a37-…
      let found = try scene.demand("gatttool", tool + ["--char-desc"]).outputLines
      let rate = try #require(found.firstIndex { $0.contains("2a37") })
      #expect(found[rate + 1].contains("2902"))
      let handles = found[rate...].prefix(2).map { String($0.dropFirst(9).prefix(6)) }
      let listening = try scene.start(
        "gatttool", tool + ["--char-write-req", "-a", handles[1], "-n", "0100", "--listen"])
      // The flags, then 72.
      let line = try listening.line(containing: "Notification handle = \(handles[0])")
      #expect(line.split(separator: " ").dropFirst(6).first == "48", "\(line)")
      listening.end()
      program.send(SIGTERM)
      #expect(try program.ended().status == 0)
    }

    /// The device requires a secure link: bumble's host pairs with the adapter's host.
    @Test(arguments: ServeWay.modes) func pairsWithBumblesHost(_ way: ServeWay) async throws {
      try scene.strapControllers(way, central: false)
      let program = try scene.start(
        Place.ringtap,
        [
          "emulate", "heart-rate", "--name", "Strap", "--security", "encrypted", "--adapter", "hci1",
          "--mode",
          way.mode,
        ])
      try await program.line(containing: "ready")
      let central = try await BumbleCentrals.start(["hci-socket:0"])
      try await central.expect("connected \(Scene.strapAddress)", for: "connect Strap")
      try await central.expect("refused 5", for: "read 0x000c")
      try await central.expect("paired", for: "pair")
      // Body Sensor Location: chest.
      try await central.expect("read 01", for: "read 0x000c")
      program.send(SIGTERM)
      let result: Program.Result = try await program.ended()
      #expect(result.status == 0, "\(result.errors)")
    }
  }
}

import Foundation
import TestKit
import Testing

extension InTestKernel {
  /// Adapters named by their address, which stays the same when the kernel gives them another index.
  @Suite final class AdapterAddressTests {
    private let scene: Scene

    init() throws { scene = try Scene() }
    isolated deinit { scene.end() }

    /// The address of each emulated controller.
    private static let address = "00:00:5E:00:53:01"

    private struct Status: Decodable {
      struct Device: Decodable {
        var state: String
        var received: Int
      }
      var adapter: String?
      var devices: [Device]
    }

    /// Removes the ring's adapter, hci0, puts another one in its place and plugs it in again.
    ///
    /// - Returns: its new index.
    private func replug(_ ring: Scene.Peer, isUp: Bool = true) throws -> Int {
      scene.unplug(ring)
      try scene.occupy(0)
      let adapter = try scene.emulatedRingAnywhere(["--rate", "300"]).adapter
      let index = try #require(Int(adapter.dropFirst(3)))
      try #require(index != 0)
      if !isUp { try scene.takeDown(index) }
      return index
    }

    private func status(_ socket: String, _ isMet: (Status) -> Bool) throws -> Status {
      let end = ContinuousClock.now + Program.patience
      var last: Status?
      while ContinuousClock.now < end {
        let result = try scene.ringtap("status", "--socket", socket, "--json")
        last = result.status == 0 ? try result.objects(Status.self).first : nil
        if let last, isMet(last) { return last }
      }
      return try #require(nil, "never as wanted: \(String(describing: last))")
    }

    @Test func everyCommandTakesAnAddress() throws {
      try scene.linkedControllers(at: 0..<1)
      let (ring, adapter) = try scene.emulatedRingAnywhere(["--rate", "300"])
      try #require(adapter == "hci1")
      let capture = try scene.ringtap(
        "capture", ring.address, "--adapter", Self.address.lowercased(), "--mode", "raw", "--count", "30",
        "--output", scene.path("raw"))
      #expect(capture.status == 0, "\(capture.errors)")
      let session = try String(contentsOfFile: scene.path("raw/session.json"), encoding: .utf8)
      #expect(session.contains(#""hci1""#), "\(session)")
      try scene.ringtap("scan", "--adapter", "00:1A:7D:DA:71:13").expectFailure(
        saying: "there is no adapter 00:1A:7D:DA:71:13", "hci1 (\(Self.address))")
      let log = try scene.ringtap(
        "log", "record", "-o", scene.path("none"), "--adapter", "00:1A:7D:DA:71:13")
      log.expectFailure(saying: "there is no adapter 00:1A:7D:DA:71:13")
      let doctor = try scene.ringtap("doctor", "--adapter", Self.address, "--folder", scene.folder.path)
      #expect(doctor.output.contains("hci1 is up") && !doctor.output.contains("hci0 is"))
      try scene.takeDown(1)
      let alone = try scene.ringtap(
        "capture", ring.address, "--adapter", Self.address, "--mode", "exclusive", "--count", "30",
        "--output", scene.path("alone"))
      #expect(alone.status == 0, "\(alone.errors)")
      let handed = try scene.ringtap(
        "open", "--user-channel", Self.address, "--user", "nobody", "--", "env")
      #expect(handed.output.contains("LISTEN_FDNAMES=hci1-user"), "\(handed.errors)")
    }

    @Test func saysThatTwoAdaptersHaveTheAddress() throws {
      _ = try scene.emulatedRing()
      _ = try scene.emulatedRingAnywhere()
      for mode in ["raw", "exclusive"] {
        try scene.ringtap("scan", "--adapter", Self.address, "--mode", mode)
          .expectFailure(saying: "hci0 and hci1 have the same address \(Self.address)")
      }
    }

    /// The daemon's adapter is removed in the middle of a capture and comes back under another index.
    @Test(arguments: ["raw", "coexist", "exclusive"])
    func theDaemonFindsItsAdapterAgain(_ mode: String) throws {
      let isShared = mode != "exclusive"
      let ring = try scene.emulatedRing("--rate", "300")
      if !isShared { try scene.takeDown(0) }
      let (file, socket) = (scene.path("ringtap.json"), scene.path("status"))
      try """
      {"directory": "\(scene.path("captures"))", "statusSocket": "\(socket)",
       "radio": {"adapter": "\(Self.address)", "mode": "\(mode)"},
       "devices": [{"name": "left", "address": "\(ring.address)", "sensor": "ring"}]}
      """.write(toFile: file, atomically: true, encoding: .utf8)
      let daemon = try scene.startRingtap("daemon", file)
      let before = try status(socket) { $0.devices.contains { $0.state == "streaming" && $0.received > 100 } }
      #expect(before.adapter?.hasSuffix("0") == true)
      let index = try replug(ring, isUp: isShared)
      func isBack(_ status: Status, beyond count: Int) -> Bool {
        status.adapter?.hasSuffix("\(index)") == true
          && status.devices.contains { $0.state == "streaming" && $0.received > count }
      }
      // Counts continue on an adapter that was opened anew.
      let back = try status(socket) { isBack($0, beyond: 0) }
      let known = try #require(back.devices.first).received
      let after = try status(socket) { isBack($0, beyond: known + 100) }
      #expect(after.devices.count == 1)
      daemon.send(SIGTERM)
      let result = try daemon.finish()
      #expect(result.status == 0, "\(result.errors)")
      let folder = scene.path("captures/left")
      let captures = try FileManager.default.contentsOfDirectory(atPath: folder).sorted()
        .map { try CaptureFolder("\(folder)/\($0)") }
      #expect(captures.count == (isShared ? 1 : 2), "\(result.errors)")
      #expect(captures.allSatisfy { $0.rowCount > 100 && $0.session.received == $0.rowCount })
      if isShared {
        #expect(captures[0].session.gapCount == 1 && captures[0].session.links == 2, "\(result.errors)")
        #expect(result.errors.contains("hci0 has come back as hci\(index)"), "\(result.errors)")
      }
    }

    /// The kernel forgets the keys of a removed adapter, so the daemon passes them again.
    @Test func theDaemonPassesItsKeysAgain() throws {
      let remembering = [
        "-u", "RINGTAP_NO_REMEMBER", "XDG_STATE_HOME=\(scene.path("state"))", try Place.ringtap,
      ]
      let bonded = try scene.emulatedRing("--security", "encrypted")
      try scene.takeDown(0)
      let pairing = try scene.run("env", remembering + ["pair", bonded.address, "--mode", "exclusive"])
      try #require(pairing.status == 0, "\(pairing.errors)")
      scene.unplug(bonded)
      // The bonded ring stays away; another one in the same air has the next address.
      let (ring, name) = try scene.emulatedRingAnywhere(["--rate", "300", "--rings", "2"])
      let (file, socket) = (scene.path("ringtap.json"), scene.path("status"))
      try """
      {"directory": "\(scene.path("captures"))", "statusSocket": "\(socket)",
       "radio": {"adapter": "\(Self.address)", "mode": "raw"},
       "devices": [{"name": "left", "address": "70:CB:0D:00:A1:B3", "sensor": "ring"}]}
      """.write(toFile: file, atomically: true, encoding: .utf8)
      let daemon = try scene.start("env", remembering + ["daemon", file])
      _ = try status(socket) { $0.devices.contains { $0.state == "streaming" } }
      #expect(try keys(of: name).contains(bonded.address.lowercased()))
      scene.unplug(ring)
      try scene.occupy(try #require(Int(name.dropFirst(3))))
      let other = try scene.emulatedRingAnywhere(["--rate", "300", "--rings", "2"]).adapter
      try #require(other != name)
      _ = try status(socket) { $0.adapter == other && $0.devices.contains { $0.state == "streaming" } }
      #expect(try keys(of: other).contains(bonded.address.lowercased()))
      daemon.send(SIGTERM)
      #expect(try daemon.finish().status == 0)
    }

    /// The kernel's list of long-term keys.
    private func keys(of adapter: String) throws -> String {
      try scene.demand("cat", ["/sys/kernel/debug/bluetooth/\(adapter)/long_term_keys"]).output.lowercased()
    }

    /// The same for a capture, which waits for its device as long as --patience allows.
    @Test(arguments: ["raw", "coexist"])
    func aCaptureFindsItsAdapterAgain(_ mode: String) throws {
      let ring = try scene.emulatedRing("--rate", "300")
      let path = scene.path("capture")
      let program = try scene.startRingtap(
        "capture", ring.address, "--adapter", Self.address, "--mode", mode, "--output", path)
      try scene.waitForRows(of: path)
      let index = try replug(ring)
      try program.line(on: .errors, containing: "streaming again")
      program.send(SIGINT)
      let result = try program.finish()
      #expect(result.status == 0, "\(result.errors)")
      #expect(result.errors.contains("hci0 has come back as hci\(index)"), "\(result.errors)")
      let capture = try scene.wholeCapture(path)
      #expect(capture.session.gapCount == 1 && capture.session.links == 2)
      #expect(capture.session.received == capture.rowCount)
    }
  }
}

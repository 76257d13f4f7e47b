import Foundation
import TestKit
import Testing

extension InTestKernel {
  /// Adapters that stop answering or come back powered down, and several adapters in one daemon.
  @Suite final class AdapterRecoveryTests {
    private let scene: Scene

    init() throws { scene = try Scene() }
    isolated deinit { scene.end() }

    /// The address of the first emulated controller.
    private static let address = "00:00:5E:00:53:01"

    private struct Status: Decodable {
      struct Adapter: Decodable {
        var name: String
        var address: String?
        var state: String
        var devices: Int
        var recoveries: Int?
        var lastRecoveryMs: Int?
      }
      struct Device: Decodable {
        var name: String
        var adapter: String?
        var state: String
        var received: Int
        var lastProblem: String?
      }
      var adapters: [Adapter]?
      var devices: [Device]
    }

    private var socket: String { scene.path("status") }

    /// Starts a daemon.
    ///
    /// - Parameters:
    ///   - radios: members of the file that describe its radios.
    ///   - devices: members of each device.
    private func daemon(_ radios: String, _ devices: [String], _ more: String = "") throws -> Program {
      let file = scene.path("ringtap.json")
      try """
      {"directory": "\(scene.path("captures"))", "statusSocket": "\(socket)"\(more), \(radios),
       "devices": [\(devices.map { "{\($0)}" }.joined(separator: ",\n"))]}
      """.write(toFile: file, atomically: true, encoding: .utf8)
      return try scene.startRingtap("daemon", file)
    }

    private func ring(_ name: String, _ address: String) -> String {
      #""name": "\#(name)", "address": "\#(address)", "sensor": "ring""#
    }

    private func status(
      within limit: Duration = .seconds(90), _ isMet: (Status) -> Bool
    ) throws -> Status {
      let end = ContinuousClock.now + limit
      var last: Status?
      while ContinuousClock.now < end {
        let result = try scene.ringtap("status", "--socket", socket, "--json")
        last = result.status == 0 ? try result.objects(Status.self).first : nil
        if let last, isMet(last) { return last }
      }
      return try #require(nil, "never as wanted: \(String(describing: last))")
    }

    /// Whether the first device streams and more than this many notifications have been received.
    private func streams(_ status: Status, beyond count: Int) -> Bool {
      status.devices.first.map { $0.state == "streaming" && $0.received > count } ?? false
    }

    private func captures(_ device: String) throws -> [CaptureFolder] {
      let folder = scene.path("captures/\(device)")
      return try FileManager.default.contentsOfDirectory(atPath: folder).sorted()
        .map { try CaptureFolder("\(folder)/\($0)") }
    }

    /// Prints a row of the table in the guide "Boards that run unattended": the longest time without a row,
    /// and the time from the first step of the recovery to the answer.
    private func tell(_ what: String, _ folders: [CaptureFolder], _ recovery: Int?) {
      let times = folders.flatMap { $0.tables.values.flatMap { $0.map(\.timeNs) } }.sorted()
      let pause = zip(times, times.dropFirst()).map { $1 - $0 }.max() ?? 0
      let text = recovery.map { String(format: "%.1f", Double($0) / 1000) } ?? "–"
      print("RECOVERY | \(what) | \(text) | \(String(format: "%.1f", Double(pause) / 1e9)) |")
    }

    /// The controller stops answering in the middle of a capture, and answers again after HCI Reset.
    @Test(arguments: ["raw", "coexist", "exclusive"])
    func aHungControllerIsRecovered(_ mode: String) throws {
      let isShared = mode != "exclusive"
      let peer = try scene.emulatedRing("--rate", "300", "--hangs-after", "12")
      if !isShared { try scene.takeDown(0) }
      let daemon = try daemon(
        #""radio": {"adapter": "\#(Self.address)", "mode": "\#(mode)"}"#, [ring("left", peer.address)])
      let before = try status { streams($0, beyond: 100) }
      try daemon.line(
        on: .errors, containing: isShared ? "it answers again, after" : "reopening the adapter",
        within: .seconds(120))
      // Counts continue on the radio that was opened again.
      let known = try status { !$0.devices.isEmpty }.devices[0].received
      #expect(known >= before.devices[0].received)
      _ = try status { streams($0, beyond: known + 300) }
      let facts = try status { _ in true }
      daemon.send(SIGTERM)
      let result = try daemon.finish()
      #expect(result.status == 0, "\(result.errors)")
      let folders = try captures("left")
      #expect(folders.allSatisfy { $0.session.received == $0.rowCount })
      if isShared {
        #expect(result.errors.contains("hci0 (\(Self.address)) does not answer commands; recovering it"))
        #expect(result.errors.contains("it answers again, after"), "\(result.errors)")
        #expect(facts.adapters?.first?.recoveries == 1, "\(facts)")
        let gaps = folders.flatMap { $0.session.gaps }
        #expect(folders.count == 1 && gaps.count == 1, "\(result.errors)")
        tell(mode, folders, facts.adapters?.first?.lastRecoveryMs)
      } else {
        #expect(folders.count == 2, "\(result.errors)")
        #expect(result.errors.contains("did not answer command"), "\(result.errors)")
        tell(mode, folders, nil)
      }
    }

    /// A controller that no step revives: each is reported with its outcome, and that something must be done
    /// by hand. When the adapter is plugged in again, the capture continues.
    @Test func aDeadControllerIsReported() throws {
      let peer = try scene.emulatedRing("--rate", "300", "--dies-after", "12")
      let daemon = try daemon(
        #""radio": {"adapter": "\#(Self.address)", "mode": "raw"}"#, [ring("left", peer.address)])
      let before = try status { streams($0, beyond: 100) }
      for text in [
        "does not answer commands; recovering it", "hci0: reopening it: still no answer, after",
        "hci0: switching it off and on: ", "hci0: blocking and unblocking it (rfkill): ",
        "hci0: authorising its USB device again: not possible: it is not on USB",
        "hci0 could not be recovered: unplug it and plug it in again",
      ] { try daemon.line(on: .errors, containing: text, within: .seconds(120)) }
      #expect(try status { _ in true }.adapters?.first?.state == "failed")
      let text = try scene.ringtap("status", "--socket", socket)
      #expect(text.output.contains("hci0 (\(Self.address))  failed"), "\(text.output)")
      scene.unplug(peer)
      let again = try scene.emulatedRingAnywhere(["--rate", "300"])
      #expect(again.ring.address == peer.address)
      _ = try status {
        streams($0, beyond: before.devices[0].received + 100)
          && $0.adapters?.first?.state == "up"
      }
      daemon.send(SIGTERM)
      let result = try daemon.finish()
      #expect(result.status == 0, "\(result.errors)")
    }

    /// The last step, with a file in the place of the `authorized` of a USB device: what is written there
    /// unplugs the dead controller and plugs in another one.
    @Test func itsUSBDeviceIsAuthorisedAgain() throws {
      let peer = try scene.emulatedRing("--rate", "300", "--dies-after", "12")
      let (interface, tree) = (scene.path("usb/1-3/1-3:1.0"), scene.path("class"))
      try FileManager.default.createDirectory(atPath: interface, withIntermediateDirectories: true)
      try FileManager.default.createDirectory(atPath: tree + "/hci0", withIntermediateDirectories: true)
      try FileManager.default.createSymbolicLink(
        atPath: tree + "/hci0/device", withDestinationPath: interface)
      let file = scene.path("usb/1-3/authorized")
      try scene.demand("mkfifo", [file])
      try scene.demand("mount", ["--bind", tree, "/sys/class/bluetooth"])
      defer { _ = try? scene.run("umount", ["/sys/class/bluetooth"]) }
      let bus = try scene.start(
        "python3", ["-uc", "import sys\nwhile True:\n for c in open(sys.argv[1]).read(): print(c)", file])
      let daemon = try daemon(
        #""radio": {"adapter": "\#(Self.address)", "mode": "raw"}"#, [ring("left", peer.address)])
      let before = try status { streams($0, beyond: 100) }
      try bus.line(containing: "0", within: .seconds(120))
      scene.unplug(peer)
      try bus.line(containing: "1")
      _ = try scene.emulatedRingAnywhere(["--rate", "300"])
      try daemon.line(
        on: .errors, containing: "authorising its USB device again: it answers again, after",
        within: .seconds(60))
      let after = try status {
        streams($0, beyond: before.devices[0].received + 100)
      }
      #expect(after.adapters?.first?.recoveries == 1 && after.adapters?.first?.state == "up")
      daemon.send(SIGTERM)
      let result = try daemon.finish()
      #expect(result.status == 0, "\(result.errors)")
      tell("raw, by USB", try captures("left"), after.adapters?.first?.lastRecoveryMs)
    }

    /// BlueZ's emulation, stopped by a signal, is a controller of independent make that does not answer.
    @Test func bluezsControllerIsRecovered() throws {
      let controllers = try scene.linkedControllers()
      let daemon = try daemon(
        #""radio": {"adapter": "hci0", "mode": "raw"}"#, [ring("absent", "70:CB:0D:00:A1:B2")])
      _ = try status { $0.devices.first?.state == "connecting" }
      controllers.send(SIGSTOP)
      try daemon.line(on: .errors, containing: "does not answer commands; recovering it")
      try daemon.line(on: .errors, containing: "reopening it: still no answer")
      controllers.send(SIGCONT)
      try daemon.line(on: .errors, containing: "answers", within: .seconds(120))
      _ = try status { $0.adapters?.first?.state == "up" }
      daemon.send(SIGTERM)
      let result = try daemon.finish()
      #expect(result.status == 0, "\(result.errors)")
    }

    /// An adapter that comes back powered down is switched on. One that was switched off while it was present
    /// is left alone, and the message says what to type.
    @Test(arguments: ["raw", "coexist"])
    func anAdapterThatComesBackDownIsSwitchedOn(_ mode: String) throws {
      let peer = try scene.emulatedRing("--rate", "300")
      let daemon = try daemon(
        #""radio": {"adapter": "\#(Self.address)", "mode": "\#(mode)"}"#, [ring("left", peer.address)])
      let before = try status { streams($0, beyond: 100) }
      scene.unplug(peer)
      try daemon.line(on: .errors, containing: "hci0 was removed; continuing when \(Self.address) comes back")
      try scene.occupy(0)
      let again = try scene.emulatedRingAnywhere(["--rate", "300"])
      try scene.takeDown(Int(again.adapter.dropFirst(3))!)
      let after = try status {
        streams($0, beyond: before.devices[0].received + 100)
      }
      #expect(after.devices[0].adapter == again.adapter)
      try scene.takeDown(Int(again.adapter.dropFirst(3))!)
      try daemon.line(
        on: .errors,
        containing: "\(again.adapter) was switched off; continuing when it is on again: `sudo btmgmt")
      daemon.send(SIGTERM)
      let result = try daemon.finish()
      #expect(result.status == 0, "\(result.errors)")
      #expect(result.errors.contains("switched on"), "\(result.errors)")
      let folders = try captures("left")
      #expect(folders.count == 1)
    }

    /// `capture --recover` recovers its adapter; without the option it does not.
    @Test func captureRecoversIfTold() throws {
      let peer = try scene.emulatedRing("--rate", "300", "--hangs-after", "12")
      let program = try scene.startRingtap(
        "capture", peer.address, "--adapter", Self.address, "--mode", "raw", "--recover", "--patience", "300",
        "--output", scene.path("capture"))
      try program.line(on: .errors, containing: "it answers again, after", within: .seconds(120))
      try program.line(on: .errors, containing: "streaming again", within: .seconds(60))
      program.send(SIGINT)
      let result = try program.finish()
      #expect(result.status == 0, "\(result.errors)")
      let capture = try scene.wholeCapture(scene.path("capture"))
      #expect(capture.session.gapCount == 1)
      let wrong = try scene.ringtap("capture", "--recover", "--mode", "exclusive")
      #expect(wrong.status == 2 && wrong.errors.contains("--recover is for an adapter"), "\(wrong.errors)")
    }

    /// A controller that is used exclusively and disappears ends the capture: the error says so, and the files
    /// have what was received.
    @Test func anExclusiveCaptureEndsWithItsController() throws {
      let peer = try scene.emulatedRing("--rate", "300")
      try scene.takeDown(0)
      let path = scene.path("capture")
      let program = try scene.startRingtap(
        "capture", peer.address, "--adapter", Self.address, "--mode", "exclusive", "--output", path)
      try scene.waitForRows(of: path)
      scene.unplug(peer)
      let result = try program.finish()
      #expect(result.status == 1, "\(result.errors)")
      #expect(result.errors.contains("the controller disappeared"), "\(result.errors)")
      let capture = try CaptureFolder(path)
      #expect(capture.rowCount > 0 && capture.session.received == capture.rowCount)
    }

    /// Two adapters in one air, twelve rings, one daemon: they are spread, and told apart in the status. When
    /// one controller dies, the other adapter takes its devices, but for the one that is tied to it.
    @Test func twoAdaptersShareTwelveDevices() throws {
      let port = try freePort()
      let program = try scene.start(
        Place.ringtap,
        ["emulate", "ring", "--vhci", "--vhci", "--rings", "12", "--rate", "3", "--dies-after", "60"])
      let words = try program.line(containing: "ready").split(separator: " ")
      #expect(words[1] == "hci0,hci1")
      let addresses = (0..<12).map { "70:CB:0D:00:A1:" + String(0xB2 + $0, radix: 16, uppercase: true) }
      var devices = addresses.enumerated().map { ring("ring\($0)", $1) }
      devices[0] += #", "adapter": "\#(Self.address)""#
      devices[11] += #", "adapter": "00:00:5e:00:53:02""#
      let daemon = try daemon(
        #""radios": [{"adapter": "\#(Self.address)", "mode": "raw"}, {"adapter": "00:00:5E:00:53:02", "mode": "raw"}]"#,
        devices, #", "metrics": "127.0.0.1:\#(port)""#)
      let spread = try status { $0.devices.count == 12 && $0.devices.allSatisfy { $0.state == "streaming" } }
      #expect(spread.adapters?.map(\.devices) == [6, 6])
      #expect(spread.devices[0].adapter == "hci0" && spread.devices[11].adapter == "hci1")
      let page = try scene.demand("curl", ["--silent", "--fail", "http://127.0.0.1:\(port)/metrics"])
        .outputLines
      #expect(page.contains(#"ringtap_device_adapter{device="ring0",adapter="hci0"} 1"#), "\(page)")
      #expect(page.contains(#"ringtap_adapter_devices{adapter="hci1",address="00:00:5E:00:53:02"} 6"#))
      let text = try scene.ringtap("status", "--socket", socket).outputLines
      #expect(text[0].hasPrefix("2 adapters, up "))
      // The first controller dies.
      try daemon.line(on: .errors, containing: "hci0 could not be recovered", within: .seconds(180))
      // Its five devices that are not tied to it begin a capture on the other adapter.
      _ = try daemon.lines(on: .errors, untilThey: "say that five devices have moved", within: .seconds(120))
      {
        $0.count { $0.contains(": recording into ") } >= 12 + 5
      }
      let moved = try status {
        $0.devices.count { $0.state == "streaming" && $0.adapter == "hci1" } == 11
      }
      #expect(moved.adapters?.map(\.devices) == [1, 11] && moved.devices[0].adapter == "hci0")
      daemon.send(SIGTERM)
      let result = try daemon.finish(within: .seconds(60))
      #expect(result.status == 0, "\(result.errors)")
    }
  }
}

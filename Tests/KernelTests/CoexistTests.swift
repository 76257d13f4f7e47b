import Foundation
import TestKit
import Testing

extension InTestKernel {
  /// Coexist mode beside BlueZ's own daemon, with BlueZ's monitor watching the management interface.
  @Suite final class CoexistTests {
    private static let absent = "00:11:22:33:44:55"

    private let scene: Scene

    init() throws { scene = try Scene() }
    isolated deinit { scene.end() }

    private struct Found: Decodable {
      var address: String
      var addressType: String
      var rssi: Int?
      var name: String?
      var connectable: Bool
    }

    /// Whether the kernel's discovery is on, by the last event that it sent.
    private func isDiscovering(_ packets: [Monitor.Packet]) -> Bool? {
      packets.last { $0.says("@ MGMT Event: Discovering", "Discovery: ") }
        .map { $0.says("Discovering", "Discovery: Enabled") }
    }

    // MARK: Scanning

    @Test func scansByTheKernelsDiscovery() throws {
      let ring = try scene.emulatedRing()
      try scene.bluetoothd()
      let monitor = try Monitor(scene)
      let result = try scene.ringtap("scan", "--mode", "coexist", "--json", "--duration", "4")
      result.expectSuccess()
      let found = try #require(try result.objects(Found.self).last { $0.address == ring.address })
      #expect(found.addressType == "public")
      #expect(found.name == "R02_A1B2")
      #expect(found.rssi == -55)
      #expect(found.connectable)
      let packets = try monitor.packets(untilThey: "report that the program has ended") {
        $0.contains { $0.says("@ MGMT Close: ringtap") }
      }
      #expect(packets.count { $0.says("@ MGMT Command: Start Discovery") } == 1)
      #expect(packets.count { $0.says("@ MGMT Command: Stop Discovery") } == 1)
      #expect(isDiscovering(packets) == false)
      // None of the commands to the controller are from ringtap.
      #expect(
        !packets.contains { $0.says("@ RAW Open: ringtap", "(privileged)") && $0.head.contains("[hci0]") })
    }

    /// The kernel ends each discovery after 10.24 s.
    @Test func goesOnWhenTheKernelStops() throws {
      _ = try scene.emulatedRing()
      let monitor = try Monitor(scene)
      let scan = try scene.startRingtap("scan", "--mode", "coexist", "--json")
      try monitor.packets(untilThey: "report a second start") {
        $0.count { $0.says("@ MGMT Command: Start Discovery") } == 2 && isDiscovering($0) == true
      }
      scan.send(SIGINT)
      try scan.finish().expectSuccess()
      try monitor.packets(untilThey: "report that discovery is off") { isDiscovering($0) == false }
    }

    /// A scan also gets the devices of the daemon's discovery, which continues after the scan ends.
    @Test func leavesTheDaemonsDiscoveryOn() throws {
      let ring = try scene.emulatedRing()
      try scene.bluetoothd()
      let control = try scene.bluetoothctl()
      let monitor = try Monitor(scene)
      try control.type("scan on")
      try control.line(containing: "Discovery started")
      try control.line(containing: "Device \(ring.address)")
      let scan = try scene.startRingtap("scan", "--json")
      try scan.line(on: .errors, containing: "bluetoothd is running")
      try scan.line(on: .errors, containing: "already runs discovery on hci0; using its results")
      // The controller reports a device once; the next round is due within 10.24 s.
      try scan.line(containing: ring.address)
      scan.send(SIGINT)
      #expect(try scan.finish().status == 0)
      try monitor.packets(untilThey: "report that discovery continues without ringtap") { packets in
        packets.contains { $0.says("@ MGMT Close: ringtap") } && isDiscovering(packets) == true
      }
      try control.type("show")
      try control.line(containing: "Discovering: yes")
    }

    /// A short scan during the daemon's discovery starts no discovery, so it stops none.
    @Test func neverEndsWhatItHasNotBegun() throws {
      let ring = try scene.emulatedRing()
      try scene.bluetoothd()
      let control = try scene.bluetoothctl()
      try control.type("scan on")
      try control.line(containing: "Device \(ring.address)")
      let monitor = try Monitor(scene)
      #expect(try scene.ringtap("scan", "--mode", "coexist", "--duration", "1").status == 0)
      let packets = try monitor.packets(untilThey: "report that the program has ended") {
        $0.contains { $0.says("@ MGMT Close: ringtap") }
      }
      let starts = packets.indices.filter { packets[$0].says("@ MGMT Command: Start Discovery") }
      #expect(!starts.isEmpty)
      #expect(
        packets.contains { $0.says("@ MGMT Event: Command Complete", "Start Discovery", "Status: Busy") })
      #expect(!packets.contains { $0.says("@ MGMT Command: Stop Discovery") })
    }

    /// A program scans through the daemon during our discovery: it waits until ours ends, then gets its own.
    @Test func makesRoomForTheDaemonsDiscovery() throws {
      let ring = try scene.emulatedRing()
      try scene.bluetoothd()
      let control = try scene.bluetoothctl()
      let monitor = try Monitor(scene)
      let scan = try scene.startRingtap("scan", "--mode", "coexist", "--json")
      try monitor.packets(untilThey: "report that discovery is on") { isDiscovering($0) == true }
      try control.type("scan on")
      try control.line(containing: "Discovering: yes")
      scan.send(SIGINT)
      try scan.finish().expectSuccess()
      try control.line(containing: "Discovery started")
      try control.line(containing: "Device \(ring.address)")
    }

    /// The adapter goes down during a scan and comes back.
    @Test func goesOnWhenTheAdapterIsBack() throws {
      try scene.linkedControllers()
      let ring = try scene.bumbleRing("--readvertise", "2")
      let scan = try scene.startRingtap("scan", "--mode", "coexist", "--json")
      try scan.line(containing: ring.address)
      try scene.takeDown(0)
      try scan.line(on: .errors, containing: "discovery on hci0 is interrupted: hci0 is down")
      let monitor = try Monitor(scene)
      try scene.makeCentral(0)
      try monitor.packets(untilThey: "report that discovery is on again") { isDiscovering($0) == true }
      scan.send(SIGINT)
      #expect(try scan.finish().status == 0)
      try monitor.packets(untilThey: "report that discovery is off") { isDiscovering($0) == false }
    }

    // MARK: Beside the daemon's links

    /// The daemon is a client of our emulation: it reads the whole tree and a value, and our program is
    /// refused meanwhile.
    @Test func leavesADeviceOfTheDaemonsToIt() throws {
      let ring = try scene.emulatedRing("--rate", "300")
      try scene.bluetoothd()
      let control = try scene.bluetoothctl()
      try control.type("scan on")
      try control.line(containing: "Device \(ring.address)")
      try control.type("connect \(ring.address)")
      try control.line(containing: "Connection successful")
      try control.line(containing: "ServicesResolved: yes")
      try control.type("gatt.list-attributes \(ring.address)")
      for uuid in [
        "6e40fff0-b5a3-f393-e0a9-e50e24dcca9e", "6e400002-b5a3-f393-e0a9-e50e24dcca9e",
        "6e400003-b5a3-f393-e0a9-e50e24dcca9e", "00002a26-0000-1000-8000-00805f9b34fb",
      ] { try control.line(containing: uuid) }
      try control.type("gatt.select-attribute 00002a26-0000-1000-8000-00805f9b34fb")
      try control.type("gatt.read")
      try control.line(containing: "R02_3.00.06_2405")

      for command in ["capture", "gatt"] {
        try scene.ringtap(command, ring.address, "--mode", "coexist", "--timeout", "5")
          .expectFailure(
            saying: "the ATT channel of \(ring.address) is held by bluetoothd (process ",
            "bluetoothctl disconnect \(ring.address)")
      }
      try control.type("disconnect \(ring.address)")
      try control.line(containing: "Successful disconnected")
      try scene.ringtap("read", ring.address, "2a26", "--mode", "coexist").expectSuccess()
    }

    /// Two emulated rings on one adapter: the daemon is connected to one, and we record the other.
    @Test func recordsOneRingWhileTheDaemonHasAnother() throws {
      let theirs = try scene.emulatedRing("--rings", "2", "--rate", "300", "--quiet")
      let ours = "70:CB:0D:00:A1:B3"
      try scene.bluetoothd()
      let control = try scene.bluetoothctl()
      try control.type("scan on")
      try control.line(containing: "Device \(theirs.address)")
      try control.type("scan off")
      try control.line(containing: "Discovery stopped")
      let path = scene.path("capture")
      let capture = try scene.startRingtap(
        "capture", ours, "--mode", "coexist", "--count", "900", "--output", path)
      // The client prints a new connected device in one line or in two.
      try scene.waitForTables(of: path)
      try control.type("connect \(theirs.address)")
      try control.line(containing: "Connection successful")
      try control.line(containing: "ServicesResolved: yes")
      try control.type("gatt.list-attributes \(theirs.address)")
      try control.line(containing: "6e400003-b5a3-f393-e0a9-e50e24dcca9e")
      try capture.finish().expectSuccess()
      let folder = try CaptureFolder(path)
      folder.expectNoTrouble(samples: 900)
      #expect(folder.session.device.address == ours)
      try control.type("disconnect \(theirs.address)")
      try control.line(containing: "Successful disconnected")
    }

    /// A second ring on another adapter; the daemon uses both adapters. (On one btvirt controller a second
    /// link receives no replies.)
    @Test func recordsBesideALinkOfTheDaemons() throws {
      let theirs = try scene.emulatedRing("--rate", "300")
      try scene.moreLinkedControllers()
      let ours = try scene.bumbleRing(on: 2, "--rate", "300", "--readvertise", "2")
      try scene.bluetoothd()
      let control = try scene.bluetoothctl()
      try control.type("select 00:00:5E:00:53:01")
      try control.type("scan on")
      try control.line(containing: "Device \(theirs.address)")
      let path = scene.path("capture")
      let capture = try scene.startRingtap(
        "capture", ours.address, "--adapter", "hci1", "--mode", "coexist", "--count", "900", "--output", path)
      try ours.program.line(on: .errors, containing: "command a104")
      try control.type("connect \(theirs.address)")
      try control.line(containing: "Connection successful")
      try control.line(containing: "ServicesResolved: yes")
      try control.type("gatt.list-attributes \(theirs.address)")
      try control.line(containing: "de5bf729-d711-4e47-af26-65e3012a5dc7")
      try capture.finish().expectSuccess()
      let folder = try CaptureFolder(path)
      folder.expectNoTrouble(samples: 900)
      #expect(folder.tables["spo2"]?.map { $0.values[0] } == Array(0..<300))
      try control.type("disconnect \(theirs.address)")
      try control.line(containing: "Successful disconnected")
    }

    /// A program that connects to our device through the daemon is told that it is connected, but gets
    /// nothing from our channel.
    @Test func keepsItsChannelFromTheDaemon() throws {
      let ring = try scene.emulatedRing("--rate", "300")
      try scene.bluetoothd()
      let control = try scene.bluetoothctl()
      try control.type("scan on")
      try control.line(containing: "Device \(ring.address)")
      try control.type("scan off")
      try control.line(containing: "Discovery stopped")
      let path = scene.path("capture")
      let capture = try scene.startRingtap(
        "capture", ring.address, "--mode", "coexist", "--count", "1500", "--output", path)
      try control.line(containing: "Connected: yes")
      try control.type("connect \(ring.address)")
      try control.line(containing: "Connection successful")
      try capture.finish().expectSuccess()
      try CaptureFolder(path).expectNoTrouble(samples: 1500)
      let lines = try control.lines(untilThey: "report that ringtap's link has ended") { lines in
        lines.contains { $0.contains("Connected: no") }
      }
      #expect(!lines.contains { $0.contains("ServicesResolved: yes") })
    }

    // MARK: Link parameters

    /// The requested timing applies from the start of the link and does not outlast it.
    @Test func connectsWithTheTimingAskedFor() throws {
      let ring = try scene.emulatedRing("--rate", "300", "--quiet")
      try scene.bluetoothd()
      let monitor = try Monitor(scene)
      let path = scene.path("capture")
      try scene.ringtap(
        "capture", ring.address, "--mode", "coexist", "--interval", "7.5", "--phy", "2m", "--count", "90",
        "--output", path
      ).expectSuccess()
      try CaptureFolder(path).expectNoTrouble(samples: 90)
      let link = try LinkRecord.read(path)
      #expect(link.inForce.intervalMs == 7.5)
      #expect(link.changes.compactMap(\.intervalMs) == [7.5])
      #expect(link.inForce.transmitPhy == "2m")
      #expect(link.refused.isEmpty)

      var packets = try monitor.packets(untilThey: "report the end") { $0.isOver() }
      #expect(
        packets.contains {
          $0.says(
            "< HCI Command: LE Create Connection", "Min connection interval: 7.50 msec",
            "Max connection interval: 7.50 msec")
        })
      #expect(!packets.contains { $0.says("< HCI Command: LE Connection Update") })
      #expect(packets.timings() == [[7.5, 0, 420]])
      // The next link has the kernel's timing again.
      try scene.ringtap("read", ring.address, "2a26", "--mode", "coexist").expectSuccess()
      packets = try monitor.packets(untilThey: "report another link") { $0.timings().count == 2 }
      #expect(packets.timings() == [[7.5, 0, 420], [50, 0, 420]])
    }

    /// A failed connect leaves no timing behind either.
    @Test func takesTheTimingBackWhenNobodyAnswers() throws {
      _ = try scene.emulatedRing()
      let monitor = try Monitor(scene)
      try scene.ringtap(
        "read", Self.absent, "2a26", "--mode", "coexist", "--interval", "7.5", "--timeout", "1"
      ).expectFailure(saying: "did not answer within 1 s")
      let packets = try monitor.packets(untilThey: "report that the program has ended") {
        $0.contains { $0.says("@ MGMT Close: ringtap") }
      }
      let loads = packets.filter { $0.says("@ MGMT Command: Load Connection P") }
      // The requested timing, then the kernel's own, then an empty list: two bytes, and 15 for each entry. The
      // kernel's own is listed twice, because Linux 6.11 applies a single entry to a live link.
      try #require(loads.count == 3)
      for (load, byteCount) in zip(loads, [17, 32, 2]) {
        #expect(load.head.contains("plen \(byteCount)"), "\(load.head)")
      }
    }

    // MARK: Capabilities

    /// The kernel sets the timing. The other parameters, and reading the current ones, need CAP_NET_RAW,
    /// which is missing.
    @Test func setsTheTimingWithoutTheRawChannel() throws {
      let ring = try scene.emulatedRing("--rate", "300", "--quiet")
      let monitor = try Monitor(scene)
      let path = try scene.openFolder() + "/capture"
      let result = try scene.unprivileged(
        [
          "capture", "--mode", "coexist", "--interval", "7.5", "--phy", "2m", "--count", "90", "--output",
          path,
        ], with: ["net_admin"])
      #expect(result.status == 0)
      #expect(result.messages.count == 1)
      let capture = try CaptureFolder(path)
      capture.expectNoTrouble(samples: 90)
      #expect(capture.session.device.address == ring.address)
      let link = try LinkRecord.read(path)
      #expect(link.refused.map(\.what) == ["phy"])
      #expect(link.refused.first?.why.contains("CAP_NET_RAW") == true)
      #expect(link.inForce.intervalMs == nil, "nobody told")
      let packets = try monitor.packets(untilThey: "report a link") { !$0.timings().isEmpty }
      #expect(packets.timings() == [[7.5, 0, 420]])
    }

    /// Read through the kernel's host if the raw channel is not available.
    @Test func tellsTheSignal() throws {
      let ring = try scene.emulatedRing()
      // The timing is reported when the link comes up, and a link stays for 2 s.
      for capabilities in [["net_admin", "net_raw"], ["net_admin"]] {
        let result = try scene.unprivileged(
          ["link", ring.address, "--mode", "coexist", "--json"], with: capabilities)
        result.expectSuccess()
        #expect(result.output.contains(#""rssi":-55"#))
        #expect(result.output.contains("intervalMs") == (capabilities.count == 2))
      }
      try scene.unprivileged(["link", ring.address, "--mode", "coexist"], with: ["net_raw"]).expectSuccess()
      try scene.unprivileged(["link", ring.address, "--mode", "coexist"], with: [])
        .expectFailure(saying: "CAP_NET_ADMIN")
    }

    @Test func saysWhatAScanNeeds() throws {
      let ring = try scene.emulatedRing()
      for arguments in [["scan"], ["capture"]] {
        try scene.unprivileged(arguments + ["--mode", "coexist"], with: ["net_raw"])
          .expectFailure(saying: "management interface needs CAP_NET_ADMIN", "setcap")
      }
      try scene.unprivileged(["read", ring.address, "2a26", "--mode", "coexist"], with: []).expectSuccess()
      try scene.ringtap("scan", "--mode", "coexist", "--passive")
        .expectFailure(saying: "use --mode raw for a passive scan")
    }

    @Test func autoGoesByTheDaemonAndTheCapabilities() throws {
      let ring = try scene.emulatedRing("--rate", "300")
      func mode(_ result: Program.Result) -> String? {
        result.errorLines.first { $0.contains(" mode on hci0") }
      }
      let scan = ["scan", "--duration", "0.5"]
      #expect(mode(try scene.run(Place.ringtap, scan)) == "ringtap: raw mode on hci0")
      let managed = try scene.unprivileged(scan, with: ["net_admin"])
      #expect(managed.status == 0)
      #expect(mode(managed) == "ringtap: coexist mode on hci0; raw mode needs CAP_NET_RAW to scan")

      try scene.bluetoothd()
      let path = scene.path("capture")
      let result = try scene.ringtap("capture", ring.address, "--count", "30", "--output", path)
      result.expectSuccess()
      #expect(mode(result) == "ringtap: coexist mode on hci0; bluetoothd is running")
      let session = try String(contentsOfFile: path + "/session.json", encoding: .utf8)
      #expect(session.contains(#""mode":"coexist""#))
      let raw = try scene.unprivileged(scan, with: ["net_raw"])
      #expect(mode(raw)?.hasPrefix("ringtap: raw mode on hci0; bluetoothd is running, but") == true)
      #expect(mode(raw)?.contains("CAP_NET_ADMIN") == true)
    }
  }
}

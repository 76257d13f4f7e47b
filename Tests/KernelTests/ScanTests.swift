import Foundation
import TestKit
import Testing

extension InTestKernel {
  /// Scanning, with BlueZ's monitor watching the commands to the controller.
  @Suite final class ScanTests {
    private let scene: Scene

    init() throws { scene = try Scene() }
    isolated deinit { scene.end() }

    /// All JSON keys that programs rely on; decoding fails if one is missing.
    private struct Found: Decodable {
      var address: String
      var addressType: String
      var rssi: Int?
      var name: String?
      var services: [String]
      var manufacturerData: [String: String]
      var connectable: Bool
      var timeNs: UnixNanoseconds
    }

    /// Returns the last object of a device, which is the most complete.
    private func scan(for address: String, _ options: String...) throws -> Found {
      let result = try scene.run(Place.ringtap, ["scan", "--json", "--duration", "4"] + options)
      result.expectSuccess()
      let found = try result.objects(Found.self).filter { $0.address == address }
      return try #require(found.last, "not found: \(result.output)")
    }

    /// The command that enables a scan, by group and number in btmon's notation.
    nonisolated enum CommandSet: String, CaseIterable {
      case legacy = "(0x08|0x000c)"
      case extended = "(0x08|0x0042)"

      var options: [String] { self == .extended ? ["--extended"] : [] }
      /// btmon's text for a disabled scan.
      var off: String { self == .extended ? "Extended scan: Disabled" : "Scanning: Disabled" }
    }

    /// Waits until the last scan command has switched the scan off and the controller has confirmed it.
    /// Checks that the two command sets were not mixed.
    private func expectOff(_ monitor: Program, _ set: CommandSet) throws {
      let lines = try monitor.lines(untilThey: "report that scanning is off") { lines in
        guard let last = commands(in: lines).last else { return false }
        let isOff = lines[last...].dropFirst().first?.contains(set.off) == true
        let answer = lines[last...].dropFirst().first { $0.contains("Status: ") }
        return isOff && answer?.contains("Success") == true
      }
      let all = commands(in: lines)
      #expect(all.count >= 2)
      #expect(all.allSatisfy { lines[$0].contains(set.rawValue) })
    }

    /// Indices of the commands that switch scanning on or off.
    private func commands(in lines: [String]) -> [Int] {
      lines.indices.filter { index in
        lines[index].hasPrefix("< HCI Command: ")
          && CommandSet.allCases.contains { lines[index].contains($0.rawValue) }
      }
    }

    @Test(arguments: CommandSet.allCases)
    func seesTheEmulatedRing(_ set: CommandSet) throws {
      let start = Int64(Date().timeIntervalSince1970 * 1e9)
      let ring = try scene.start(Place.ringtap, ["emulate", "ring", "--vhci"] + set.options)
      try ring.line(containing: "ready hci0")
      let monitor = try scene.btmon()
      let found = try scan(for: "70:CB:0D:00:A1:B2")
      #expect(found.addressType == "public")
      #expect(found.name == "R02_A1B2")
      #expect(found.rssi.map { $0 < 0 } == true)
      #expect(found.connectable)
      #expect((start...Int64(Date().timeIntervalSince1970 * 1e9)).contains(found.timeNs.value))
      try expectOff(monitor, set)
    }

    @Test(arguments: CommandSet.allCases, [SIGINT, SIGTERM, SIGHUP])
    func switchesOffWhenInterrupted(_ set: CommandSet, by signal: Int32) throws {
      let ring = try scene.start(Place.ringtap, ["emulate", "ring", "--vhci"] + set.options)
      try ring.line(containing: "ready hci0")
      let monitor = try scene.btmon()
      let scan = try scene.startRingtap("scan", "--json")
      try scan.line(containing: "R02_A1B2")
      scan.send(signal)
      try scan.finish().expectSuccess()
      try expectOff(monitor, set)
    }

    @Test func switchesOffWhenNobodyReadsOn() throws {
      let ring = try scene.start(Place.ringtap, ["emulate", "ring", "--vhci"])
      try ring.line(containing: "ready hci0")
      let monitor = try scene.btmon()
      let script = "\"$0\" scan --json --duplicates | head -n 1; exit ${PIPESTATUS[0]}"
      let result = try scene.run("bash", ["-c", script, Place.ringtap])
      result.expectSuccess()
      #expect(try result.objects(Found.self).count == 1)
      try expectOff(monitor, .legacy)
    }

    /// The kernel disables a scan when a program connects, here gatttool, and does not enable it again.
    @Test(arguments: CommandSet.allCases)
    func goesOnWhenSomebodyHasConnected(_ set: CommandSet) throws {
      let ring = try scene.emulatedRing(set.options)
      let monitor = try scene.btmon()
      try goesOn(beside: ring)
      try expectOff(monitor, set)
    }

    /// BlueZ's controller reports an advertiser once for each start of a scan.
    @Test func goesOnOnBlueZsController() throws {
      try scene.linkedControllers()
      try goesOn(beside: scene.bumbleRing())
    }

    private func goesOn(beside ring: Scene.Peer) throws {
      let scan = try scene.startRingtap("scan", "--json", "--duplicates")
      try scan.line(containing: ring.address)
      let found = try scene.demand("gatttool", ["-b", ring.address, "--primary"]).outputLines
      #expect(!found.isEmpty)
      try scan.line(on: .errors, containing: "the scan was off for")
      let heard = try scan.lines(untilThey: "are known") { _ in true }.count
      _ = try scan.lines(untilThey: "report the ring again") { $0.count > heard }
      scan.send(SIGINT)
      let result = try scan.finish()
      #expect(result.status == 0 && result.messages.count == 1, "\(result.errors)")
    }

    /// The kernel scans for an absent device to connect to: ringtap must not switch that scan off.
    @Test func leavesTheScanOfAConnectAlone() throws {
      let ring = try scene.emulatedRing()
      let monitor = try scene.btmon()
      let scan = try scene.startRingtap("scan", "--json", "--duplicates")
      try scan.line(containing: ring.address)
      _ = try scene.start("gatttool", ["-b", "70:CB:0D:00:00:01", "--primary"])
      // Our scan on, off, the kernel's on.
      _ = try monitor.lines(untilThey: "have the kernel's own scan") { commands(in: $0).count == 3 }
      scan.send(SIGINT)
      let result = try scan.finish()
      #expect(result.status == 0 && result.messages.count == 1, "\(result.errors)")
      try scene.demand("btmgmt", ["info"])
      let lines = try monitor.lines(untilThey: "have a later command") { lines in
        lines.contains { $0.contains("MGMT Command: ") && $0.contains("(0x0004)") }
      }
      // On a slow machine the kernel has given up its connect by now, HCI_LE_CONN_TIMEOUT after it began.
      let times = try commands(in: lines).map { index in
        try #require(lines[index].split(separator: " ").last.flatMap { Double($0) })
      }
      try #require(times.count >= 3)
      #expect(times.count { $0 < times[2] + 20 } == 3, "\(times)")
    }

    @Test func seesABumbleAdvertiser() throws {
      try scene.linkedControllers()
      let peer = try scene.bumbleAdvertiser()
      let found = try scan(for: peer.address)
      #expect(found.addressType == "public")
      #expect(found.name == "bumble-adv")
      #expect(
        found.services == [
          "0000180d-0000-1000-8000-00805f9b34fb", "6e40fff0-b5a3-f393-e0a9-e50e24dcca9e",
        ])
      #expect(found.manufacturerData == ["0xffff": "01020304"])
      #expect(found.connectable)

      let filtered = try scene.ringtap("scan", "--json", "--duration", "1", "--service", "180f")
      filtered.expectSuccess()
      #expect(filtered.output == "")
    }

    @Test func countsMalformedAdvertisements() throws {
      try scene.linkedControllers()
      let peer = try scene.bumbleAdvertiser("--malformed")
      let result = try scene.ringtap("scan", "--json", "--duration", "4")
      #expect(result.status == 0)
      #expect(result.messages.count == 1)
      #expect(result.errors.contains("malformed"))
      let found = try #require(try result.objects(Found.self).last { $0.address == peer.address })
      #expect(found.name == "bumble-adv")
    }

    @Test func seesAKernelAdvertiser() throws {
      try scene.linkedControllers()
      try scene.makeAdvertiser(1)
      let information = try scene.demand("btmgmt", ["--index", "1", "info"]).output
      let address = try #require(information.firstMatch(of: /addr ([0-9A-F:]{17})/)).output.1
      let found = try scan(for: String(address))
      #expect(found.addressType == "public")
      #expect(found.connectable)
    }
  }
}

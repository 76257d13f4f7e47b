import Foundation
import TestKit
import Testing

extension InTestKernel {
  /// `ringtap doctor` on the real system. `DoctorFindingTests` shows that each check draws the right conclusion
  /// from a fact; this shows that the facts are collected.
  @Suite final class SystemDoctorTests {
    private struct Finding: Decodable {
      var check: String
      var state: String
      var finding: String
      var cause: String?
      var nextStep: String?

      func says(_ words: String...) -> Bool {
        let text = [finding, cause ?? "", nextStep ?? ""].joined(separator: " / ")
        return words.allSatisfy { text.contains($0) }
      }
    }

    private let scene: Scene

    init() throws { scene = try Scene() }
    isolated deinit { scene.end() }

    /// Findings that are not good, by check. The exit status must agree.
    private func troubles(
      _ result: Program.Result, at location: SourceLocation = #_sourceLocation
    ) throws -> [String: Finding] {
      let findings = try result.objects(Finding.self)
      #expect(result.errors == "", sourceLocation: location)
      let isBlocked = findings.contains { $0.state == "obstacle" }
      #expect(result.status == (isBlocked ? 1 : 0), sourceLocation: location)
      let bad = findings.filter { $0.state != "good" }
      #expect(bad.allSatisfy { $0.cause != nil && $0.nextStep != nil }, sourceLocation: location)
      return Dictionary(bad.map { ($0.check, $0) }) { one, _ in one }
    }

    private func doctor(_ arguments: String...) throws -> [String: Finding] {
      try troubles(
        try scene.run(Place.ringtap, ["doctor", "--json", "--folder", scene.folder.path] + arguments))
    }

    @Test func findsNothingWhereAllIsWell() throws {
      _ = try scene.emulatedRing()
      #expect(try doctor().isEmpty)
      let text = try scene.ringtap("doctor", "--folder", scene.folder.path)
      #expect(text.status == 0)
      #expect(text.outputLines.allSatisfy { $0.hasPrefix("ok ") })
      #expect(try doctor("--adapter", "hci3")["adapters"]?.says("no hci3", "hci0") == true)
    }

    @Test func findsThatThereIsNothing() throws {
      #expect(try doctor()["adapters"]?.state == "obstacle")
      let apart = try scene.run(
        "unshare", ["--net", Place.ringtap, "doctor", "--json", "--folder", scene.folder.path])
      let troubles = try troubles(apart)
      #expect(troubles["networkNamespace"]?.state == "obstacle")
      #expect(troubles["networkNamespace"]?.says("EAFNOSUPPORT") == false, "said in words")
      #expect(troubles["bluetooth"] == nil)
    }

    @Test func findsSwitchesAndStates() throws {
      _ = try scene.emulatedRing()
      try scene.demand("bash", ["-c", "echo 1 >/sys/class/rfkill/rfkill*/soft"])
      var troubles = try doctor()
      #expect(troubles["rfkill"]?.says("hci0 is blocked by software", "rfkill unblock bluetooth") == true)
      #expect(troubles["adapterState"]?.state == "obstacle")
      try scene.demand("bash", ["-c", "echo 0 >/sys/class/rfkill/rfkill*/soft"])
      troubles = try doctor()
      #expect(troubles["rfkill"] == nil)
      #expect(troubles["adapterState"]?.says("hci0 is down", "btmgmt --index 0 power on") == true)
      try scene.demand("hciconfig", ["hci0", "up"])
      #expect(try doctor("--adapter", "hci0").isEmpty)
    }

    @Test func findsWhatAnUnprivilegedUserLacks() throws {
      _ = try scene.emulatedRing()
      let folder = try scene.openFolder()
      let arguments = ["doctor", "--json", "--folder", folder]
      let without = try troubles(try scene.unprivileged(arguments))
      #expect(without["capabilities"]?.state == "obstacle")
      #expect(
        try without["capabilities"]?.says("sudo setcap cap_net_raw,cap_net_admin+eip \(Place.ringtap)")
          == true)
      #expect(without["scan"]?.says("CAP_NET_RAW") == true)
      #expect(without["emulation"]?.says("only root may open /dev/vhci") == true)
      let with = try troubles(try scene.unprivileged(arguments, with: ["net_raw", "net_admin"]))
      #expect(Set(with.keys) == ["emulation"])
      let readOnly = try troubles(
        try scene.unprivileged(["doctor", "--json", "--folder", "/proc/sys"], with: []))
      #expect(readOnly["folder"]?.state == "obstacle")
    }

    @Test func namesTheDaemon() throws {
      _ = try scene.emulatedRing()
      let daemon = try scene.bluetoothd()
      let troubles = try doctor()
      #expect(Set(troubles.keys) == ["holders"])
      #expect(troubles["holders"]?.says("bluetoothd (process \(daemon.identifier)) is running") == true)
    }

    /// bumble holds hci1 through its user channel.
    @Test func namesWhoHasAnAdapterAlone() throws {
      try scene.linkedControllers()
      let ring = try scene.bumbleRing()
      let troubles = try doctor("--adapter", "hci1")
      #expect(troubles["adapterState"]?.says("the kernel's host does not use hci1") == true)
      #expect(troubles["holders"]?.state == "obstacle")
      #expect(troubles["holders"]?.says("(process \(ring.program.identifier))") == true)
      // If any adapter will do, this is only a note.
      #expect(try doctor().values.allSatisfy { $0.state == "note" })
    }

    @Test func namesWhoScansAndWhoIsConnected() throws {
      let ring = try scene.emulatedRing("--rate", "300")
      let scan = try scene.startRingtap("scan", "--json", "--duration", "60")
      try scan.line(containing: ring.address)
      let scanning = try doctor()
      #expect(scanning["scan"]?.state == "obstacle")
      #expect(scanning["scan"]?.says("hci0 is scanning", "ringtap (process \(scan.identifier))") == true)
      scan.send(SIGINT)
      _ = try scan.finish()

      let path = scene.path("capture")
      let other = try scene.startRingtap("capture", ring.address, "--output", path)
      try scene.waitForTables(of: path)
      let connected = try doctor()
      #expect(
        connected["links"]?.says("connected to \(ring.address)", "(process \(other.identifier))") == true)
      #expect(connected.values.allSatisfy { $0.state == "note" })
    }
  }
}

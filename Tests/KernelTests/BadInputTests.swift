import Foundation
import TestKit
import Testing

extension InTestKernel {
  /// Errors that occur before anything is recorded: one line gives the problem and the remedy.
  @Suite final class BadInputTests {
    private static let nobody = "65534"
    private nonisolated static let absent = "00:11:22:33:44:55"

    private let scene: Scene

    init() throws { scene = try Scene() }
    isolated deinit { scene.end() }

    @Test(arguments: [
      ["nonsense"], ["gatt", "nonsense"], ["write", absent, "2a19", "0"], ["capture", "--count", "0"],
      ["capture", absent, "--name", "R02_A1B2"], ["scan", "--name", "["],
    ])
    func exitsWithTwoOnWrongUsage(_ arguments: [String]) throws {
      let result = try scene.run(Place.ringtap, arguments)
      #expect(result.status == 2)
      #expect(!result.errors.isEmpty)
      #expect(result.output.isEmpty)
    }

    @Test(arguments: [["scan"], ["capture"], ["read", absent, "2a19"], ["adapters"]])
    func saysThatThereIsNoAdapter(_ arguments: [String]) throws {
      try scene.run(Place.ringtap, arguments).expectFailure(saying: "no Bluetooth adapter found; plug one in")
    }

    @Test func saysThatTheKernelHasNoBluetooth() throws {
      try scene.run("unshare", ["--net", Place.ringtap, "scan"])
        .expectFailure(saying: "AF_BLUETOOTH", "network namespace")
    }

    @Test func saysThatAnAdapterIsDown() throws {
      let ring = try scene.emulatedRing()
      try scene.takeDown(0)
      for arguments in [["scan"], ["capture"], ["gatt", ring.address]] {
        try scene.run(Place.ringtap, arguments)
          .expectFailure(saying: "hci0 is down", "btmgmt --index 0 power on")
      }
      try scene.ringtap("scan", "--adapter", "hci7").expectFailure(saying: "no adapter hci7", "hci0")
    }

    /// The user only has the capability to search folders.
    @Test func needsNoPrivilegeButForTheScan() throws {
      let ring = try scene.emulatedRing("--rate", "300")
      let rights = "-all,+dac_read_search"
      let unprivileged = try [
        "--reuid", Self.nobody, "--regid", Self.nobody, "--clear-groups", "--inh-caps", rights,
        "--ambient-caps",
        rights, "--bounding-set", rights, Place.ringtap,
      ]
      for arguments in [["scan"], ["capture"]] {
        try scene.run("setpriv", unprivileged + arguments)
          .expectFailure(saying: "CAP_NET_RAW", "setcap cap_net_raw")
      }
      let path = scene.path("open/capture")
      try scene.demand("mkdir", ["-m", "777", scene.path("open")])
      try scene.run("setpriv", unprivileged + ["capture", ring.address, "--count", "30", "--output", path])
        .expectSuccess()
      try CaptureFolder(path).expectNoTrouble(samples: 30)
    }

    @Test func saysThatADeviceIsNotThere() throws {
      _ = try scene.emulatedRing()
      try scene.ringtap("read", Self.absent, "2a19", "--timeout", "1")
        .expectFailure(saying: "\(Self.absent) (public) did not answer within 1 s", "out of range")
      try scene.ringtap("capture", Self.absent, "--timeout", "1", "--output", scene.path("none"))
        .expectFailure(saying: "did not answer within 1 s")
      #expect(!FileManager.default.fileExists(atPath: scene.path("none")))
      try scene.ringtap("capture", "--name", "R02_FFFF", "--timeout", "1")
        .expectFailure(saying: "no device named R02_FFFF found within 1 s", "wake it")
    }

    @Test func saysThatADeviceIsConnectedElsewhere() throws {
      try scene.linkedControllers(3)
      try scene.makeCentral(2)
      let ring = try scene.bumbleRing()
      let other = try scene.startRingtap(
        "notify", ring.address, "6e400003-b5a3-f393-e0a9-e50e24dcca9e", "--adapter", "hci2")
      try ring.program.line(on: .errors, containing: "connected")
      try scene.ringtap("capture", ring.address, "--timeout", "2")
        .expectFailure(saying: "did not answer within 2 s", "connected to another host")
      // From the other adapter's point of view, this host holds the channel.
      try scene.ringtap("read", ring.address, "2a26", "--adapter", "hci2", "--timeout", "2")
        .expectFailure(saying: "the ATT channel of \(ring.address) is held by another program")
      other.send(SIGINT)
      try other.finish().expectFailure(saying: "no value received")
    }

    @Test func saysThatBluetoothdHoldsTheChannel() throws {
      try scene.linkedControllers()
      let ring = try scene.bumbleRing("--readvertise", "2")
      try scene.bluetoothd()
      let control = try scene.bluetoothctl()
      try control.type("scan on")
      try control.line(containing: "Device \(ring.address)")
      try control.type("connect \(ring.address)")
      try control.line(containing: "Connection successful")

      let result = try scene.ringtap("capture", ring.address, "--timeout", "5")
      #expect(result.errors.contains("bluetoothd is running"))
      result.expectFailure(
        saying: "the ATT channel of \(ring.address) is held by bluetoothd (process ",
        "bluetoothctl disconnect \(ring.address)")

      try control.type("disconnect \(ring.address)")
      try control.line(containing: "Successful disconnected")
      try scene.ringtap("read", ring.address, "2a26").expectSuccess()
    }

    @Test func refusesToRecordOverSomething() throws {
      let ring = try scene.emulatedRing("--rate", "300")
      let path = scene.path("capture")
      try scene.ringtap("capture", ring.address, "--count", "3", "--output", path).expectSuccess()
      let before = try String(contentsOfFile: path + "/session.json", encoding: .utf8)
      try scene.ringtap("capture", ring.address, "--count", "3", "--output", path)
        .expectFailure(saying: path, "another --output")
      #expect(try String(contentsOfFile: path + "/session.json", encoding: .utf8) == before)

      // Not a capture, but another user's folder.
      let other = scene.path("other")
      try scene.demand("mkdir", [other])
      try Data("mine".utf8).write(to: URL(filePath: other + "/ppg.csv"))
      try scene.ringtap("capture", ring.address, "--count", "3", "--output", other)
        .expectFailure(saying: other, "another --output")
      #expect(try String(contentsOfFile: other + "/ppg.csv", encoding: .utf8) == "mine")
    }
  }
}

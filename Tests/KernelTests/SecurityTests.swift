import Foundation
import Testing

extension InTestKernel {
  /// Links that are made secure, by our own Security Manager and by the kernel's, with peers that are google/bumble's and
  /// BlueZ's. The controllers are btvirt's, which compare the keys of both ends.
  @Suite final class SecurityTests {
    enum Mode: String, CustomTestStringConvertible {
      /// Beside the kernel's host.
      case raw
      /// In its place, on the user channel of hci0.
      case exclusive
      /// On a controller that the kernel does not have.
      case stream
      /// What fits hci0.
      case automatic

      var testDescription: String { rawValue }
      var arguments: [String] {
        switch self {
        case .raw, .exclusive: ["--adapter", "hci0", "--mode", rawValue]
        case .automatic: ["--adapter", "hci0"]
        case .stream: ["--transport", "unix:/tmp/bt-server-le"]
        }
      }
    }

    /// A way to pair: what is said on both sides, and what must come of it.
    struct Case: CustomTestStringConvertible, Sendable {
      let testDescription: String
      let own: [String]
      let peer: [String]
      let isAuthenticated: Bool
      let isSecure: Bool

      init(
        _ name: String, _ own: [String], _ peer: String..., authenticated: Bool = true, secure: Bool = true
      ) {
        testDescription = name
        self.own = own
        self.peer = peer
        isAuthenticated = authenticated
        isSecure = secure
      }

      /// The number is shown by us, and typed by bumble.
      var isTypedThere: Bool { peer.contains("keyboard") }
    }

    static let cases = [
      Case("Just Works", [], authenticated: false),
      Case("legacy Just Works", [], "--legacy", authenticated: false, secure: false),
      Case("numeric comparison", ["--yes"], "--capability", "yes-no", "--mitm"),
      Case(
        "passkey that bumble shows", ["--passkey", "19283"], "--capability", "display", "--mitm", "--passkey",
        "19283"),
      Case("passkey that we show", ["--yes"], "--capability", "keyboard", "--mitm"),
      Case(
        "legacy passkey that bumble shows", ["--passkey", "19283"], "--capability", "display", "--mitm",
        "--legacy", "--passkey", "19283", secure: false),
      Case(
        "legacy passkey that we show", ["--yes"], "--capability", "keyboard", "--mitm", "--legacy",
        secure: false),
    ]

    /// A way to pair with BlueZ's daemon: what its agent asks.
    fileprivate struct BluetoothdCase: CustomTestStringConvertible, Sendable {
      let testDescription: String
      let own: [String]
      let question: String
      /// Of the agent, by its name in BlueZ.
      var capability: String?
      var isPrivate = false
      /// The number is shown by us, and typed by its user.
      var isTypedThere: Bool { capability == "KeyboardOnly" }

      static let all = [
        Self(testDescription: "Just Works", own: [], question: "Request authorization"),
        Self(testDescription: "legacy Just Works", own: ["--legacy"], question: "Request authorization"),
        Self(
          testDescription: "numeric comparison, private addresses", own: ["--yes", "--authenticated"],
          question: "Request confirmation", isPrivate: true),
        Self(
          testDescription: "passkey that we show", own: ["--yes", "--authenticated"],
          question: "Enter passkey", capability: "KeyboardOnly"),
        Self(
          testDescription: "legacy passkey that we show", own: ["--yes", "--authenticated", "--legacy"],
          question: "Enter passkey", capability: "KeyboardOnly"),
      ]
    }

    private struct Paired: Decodable {
      var address: String
      var identityAddress: String?
      var authenticated: Bool?
      var secureConnections: Bool?
      var keySize: Int?
      var bonded: Bool?
      var keptBy: String?
    }

    private struct Value: Decodable {
      var value: String
    }

    private static let (encrypted, authenticated) = (
      "656e63727970746564", "61757468656e74696361746564"
    )
    private let scene: Scene
    private var numbers: String { scene.path("number") }

    init() throws { scene = try Scene() }
    deinit { scene.end() }

    // MARK: Against google/bumble

    /// The kernel's methods.
    @Test(arguments: cases) func pairsAndComesBackByTheKernel(_ way: Case) throws {
      try pairAndComeBack(.raw, way)
    }

    /// Our own; `PairingPeerTests` has the rest of them.
    @Test(arguments: [cases[1], cases[2], cases[4]]) func pairsAndComesBackByOurHost(_ way: Case) throws {
      try pairAndComeBack(.exclusive, way)
    }

    /// Pairs; then another process must know the keys from the first one's file.
    private func pairAndComeBack(_ mode: Mode, _ way: Case) throws {
      let peer = try secureBumble(mode, way.peer)
      let arguments = way.own + (way.isAuthenticated ? ["--authenticated"] : [])
      let pairing = try startRemembering(["pair", peer.address, "--json"] + arguments, mode)
      if way.isTypedThere { try tell(try number(shownBy: pairing)) }
      let result = try pairing.finish()
      #expect(result.status == 0, "\(result.errors)")
      let paired = try #require(try result.objects(Paired.self).first)
      #expect(paired.authenticated == way.isAuthenticated)
      #expect(paired.secureConnections == way.isSecure)
      #expect(paired.keySize == 16)
      #expect(paired.bonded == true)
      #expect(try keyFiles() == ["600 F0-F1-F2-F3-F4-F8-random.bond"])

      if mode == .raw { try forgetKernelKeys() }
      #expect(try read("aa02", of: peer, mode) == Self.encrypted)
      #expect(try read("aa03", of: peer, mode) == Self.authenticated)
      #expect(try keyFiles().count == 1)
    }

    /// The identity is asked for in the pairing; with it a device is found behind an address that changes each time.
    @Test(arguments: [Mode.raw, .exclusive]) func findsADeviceBehindPrivateAddresses(_ mode: Mode) throws {
      let peer = try secureBumble(mode, ["--private"])
      struct Found: Decodable { var address: String }
      let scan = try remembering(["scan", "--json", "--duration", "2"], mode)
      let met = try #require(try scan.objects(Found.self).first).address
      #expect(met != peer.address)
      let result = try remembering(["pair", met, "--json", "--address-type", "random"], mode)
      #expect(result.status == 0, "\(result.errors)")
      #expect(try result.objects(Paired.self).first?.identityAddress == peer.address)
      #expect(try keyFiles() == ["600 F0-F1-F2-F3-F4-F8-random.bond"])

      if mode == .raw { try forgetKernelKeys() }
      #expect(try read("aa02", of: peer, mode) == Self.encrypted)
    }

    @Test(arguments: [Mode.raw, .exclusive]) func doesNotPairUnasked(_ mode: Mode) throws {
      let peer = try secureBumble(mode, [])
      let result = try remembering(["read", peer.address, "aa02", "--address-type", "random"], mode)
      result.expectFailure(saying: "Insufficient Encryption")
      #expect(try keyFiles() == [])
    }

    @Test(arguments: [Mode.raw, .exclusive]) func tellsOfAPairingThatFails(_ mode: Mode) throws {
      let peer = try secureBumble(mode, ["--capability", "display", "--mitm", "--passkey", "19283"])
      let result = try remembering(
        ["pair", peer.address, "--address-type", "random", "--passkey", "19284"], mode)
      result.expectFailure(saying: "cannot pair with \(peer.address)")
      // Nobody is here to look or to type, and just so is not good enough.
      let unchecked = try remembering(
        ["pair", peer.address, "--address-type", "random", "--authenticated"], mode)
      unchecked.expectFailure(saying: "cannot pair with \(peer.address)", "somebody could be in the middle")
      #expect(try keyFiles() == [])
      #expect(try kernelKeys().isEmpty)
    }

    /// A device that has forgotten us: said so, and paired with again when asked to.
    @Test func pairsAgainWithADeviceThatForgot() throws {
      let peer = try secureBumble(.raw, ["--forgetful"])
      let pair = ["pair", peer.address, "--address-type", "random", "--json"]
      #expect(try remembering(pair, .raw).status == 0)
      // The kernel keeps the link up for two seconds more.
      try peer.program.line(containing: "forgot")
      let refused = try remembering(["read", peer.address, "aa02", "--address-type", "random"], .raw)
      refused.expectFailure(saying: peer.address, "Key Missing")
      let paired = try remembering(pair, .raw)
      #expect(paired.status == 0, "\(paired.errors)")
      #expect(try paired.objects(Paired.self).first?.bonded == true)
    }

    // MARK: The kernel's keys

    /// Each load replaces what the kernel has: what is others' goes into ours.
    @Test func leavesOthersKeysInTheKernel() throws {
      let (other, key) = ("C1:02:03:04:05:06", "00112233445566778899aabbccddeeff")
      let peer = try secureBumble(.raw, [])
      #expect(try remembering(["pair", peer.address, "--address-type", "random"], .raw).status == 0)
      try scene.demand(Place.peer("kernel_keys.py"), ["0", other, key])
      #expect(try kernelKeys().allSatisfy { $0.hasPrefix(other.lowercased()) })
      #expect(try read("aa02", of: peer, .raw) == Self.encrypted)
      let after = try kernelKeys()
      // A long-term key and an identity of each.
      #expect(after.count { $0.hasPrefix(other.lowercased()) && $0.contains(key) } == 2, "\(after)")
      #expect(after.count { $0.hasPrefix(peer.address.lowercased()) } == 2, "\(after)")
    }

    // MARK: Against BlueZ's daemon

    /// bluetoothd and the kernel's Security Manager as the peripheral, our own as the central.
    @Test(arguments: BluetoothdCase.all) fileprivate func pairsWithBluetoothd(_ way: BluetoothdCase) throws {
      let (own, isPrivate) = (way.own, way.isPrivate)
      // Down: only then it can be given private addresses.
      try scene.start(Place.peer("controller"), ["served", "1"]).line(containing: "ready hci0")
      let control = try secureBluetoothd(on: Self.near, isPrivate: isPrivate, capability: way.capability)
      let found = try advertiser()
      #expect((found.address != Self.near) == isPrivate)
      #expect((found.addressType == "random") == isPrivate)

      let type = ["--address-type", found.addressType]
      let pairing = try startRemembering(["pair", found.address, "--json"] + type + own, .stream)
      try control.question(containing: way.question)
      try control.type(way.isTypedThere ? String(try number(shownBy: pairing)) : "yes")
      let result = try pairing.finish()
      #expect(result.status == 0, "\(result.errors)")
      let paired = try #require(try result.objects(Paired.self).first)
      #expect(paired.authenticated == own.contains("--authenticated"))
      #expect(paired.secureConnections == !own.contains("--legacy"))
      #expect(paired.bonded == true)
      #expect(paired.identityAddress == (isPrivate ? Self.near : nil))

      let device = Scene.Peer(address: Self.near, program: control)
      try isFree(control, after: 1)
      #expect(try read("fff1", of: device, .stream, type: "public") == "01")
      guard own.contains("--authenticated") else { return }
      try isFree(control, after: 2)
      #expect(try read("fff2", of: device, .stream, type: "public") == "02")
    }

    /// Both ends are the kernel's, and the daemon keeps the keys of both: we have the link encrypted.
    @Test func takesBluetoothdsBondAsItIs() throws {
      try scene.linkedControllers()
      let control = try secureBluetoothd(on: Self.far)
      let pairing = try startRemembering(["pair", Self.far, "--json"], .automatic, type: "public")
      try control.question(containing: "Confirm passkey")
      try control.type("yes")
      // Both ends are the daemon's, and which of them asks is its choice, or both do.
      if (try? pairing.line(containing: "keptBy", within: .seconds(5))) == nil { try control.type("yes") }
      let result = try pairing.finish()
      #expect(result.status == 0, "\(result.errors)")
      #expect(result.errors.contains("its agent answers"))
      #expect(try result.objects(Paired.self).first?.keptBy == "bluetoothd")
      #expect(try keyFiles() == [])

      // The daemon goes on as a client of its own, on the one channel that there is.
      try control.type("select \(Self.near)")
      try control.type("disconnect \(Self.far)")
      try control.line(containing: "Successful disconnected")
      let device = Scene.Peer(address: Self.far, program: control)
      #expect(try read("fff1", of: device, .automatic, type: "public") == "01")
    }

    // MARK: Parts

    private static let (near, far) = ("00:AA:01:00:00:00", "00:AA:01:01:00:01")

    /// Waits until the daemon is done with so many links and advertises again. Before, it takes no ATT channel, and the kernel
    /// ends such a link after 4 s.
    private func isFree(_ control: Program, after links: Int) throws {
      _ = try control.outputLines(untilThey: "tell of \(links) ends") { lines in
        lines.count { $0.contains("Connected: no") } >= links
      }
      _ = try advertiser()
    }

    private struct Nobody: Error {}

    private struct Found: Decodable {
      var address: String
      var addressType: String
    }

    /// The one device in range, once it advertises (again): btvirt refuses at once a connection to one that does not.
    private func advertiser() throws -> Found {
      let end = ContinuousClock.now + Program.patience
      while ContinuousClock.now < end {
        let scan = try remembering(["scan", "--json", "--duration", "1"], .stream)
        try #require(scan.status == 0, "\(scan.errors)")
        if let found = try scan.objects(Found.self).first { return found }
      }
      throw Nobody()
    }

    private func secureBumble(_ mode: Mode, _ options: [String]) throws -> Scene.Peer {
      try scene.linkedControllers()
      if mode == .exclusive { try scene.controller("off", 0) }
      return try scene.bumble("bumble_secure.py", options + ["--numbers", numbers])
    }

    /// bluetoothd with FFF1, which wants encryption to be read, and FFF2, which wants authentication.
    private func secureBluetoothd(
      on address: String, isPrivate: Bool = false, capability: String? = nil
    ) throws -> Program {
      let configuration = scene.path("main.conf")
      try "[General]\nPrivacy=\(isPrivate ? "device" : "off")\n[Policy]\nAutoEnable=false\n"
        .write(toFile: configuration, atomically: true, encoding: .utf8)
      try scene.bluetoothd("-f", configuration)
      let control = try scene.bluetoothctl()
      try control.type("select \(address)")
      try control.question(containing: "Agent registered")
      if let capability {
        try control.type("agent off")
        try control.line(containing: "Agent unregistered")
        try control.type("agent \(capability)")
        try control.question(containing: "Agent registered", times: 2)
      }
      for (command, answer) in [
        ("power on", "power on succeeded"), ("default-agent", "Default agent request successful"),
        ("pairable on", "pairable on succeeded"),
      ] {
        try control.type(command)
        try control.line(containing: answer)
      }
      try control.type("gatt.register-service 0000fff0-0000-1000-8000-00805f9b34fb")
      try control.type("yes")
      for (uuid, flags, value) in [
        ("fff1", "encrypt-read", "1"), ("fff2", "encrypt-authenticated-read", "2"),
      ] {
        try control.type("gatt.register-characteristic 0000\(uuid)-0000-1000-8000-00805f9b34fb \(flags)")
        try control.type(value)
      }
      try control.type("gatt.register-application")
      try control.line(containing: "Application registered")
      try control.type("advertise on")
      try control.line(containing: "Advertising object registered")
      return control
    }

    /// A program that remembers, with folders of its own.
    private func startRemembering(
      _ arguments: [String], _ mode: Mode, type: String = "random"
    ) throws -> Program {
      var arguments = arguments + mode.arguments
      if arguments[0] != "scan", !arguments.contains("--address-type") {
        arguments += ["--address-type", type]
      }
      return try scene.start(
        "env",
        ["-u", "RINGTAP_NO_REMEMBER", "XDG_STATE_HOME=\(scene.path("state"))", Place.ringtap] + arguments)
    }

    private func remembering(_ arguments: [String], _ mode: Mode) throws -> Program.Result {
      try startRemembering(arguments, mode).finish()
    }

    private func read(
      _ uuid: String, of peer: Scene.Peer, _ mode: Mode, type: String = "random"
    ) throws -> String? {
      let result = try startRemembering(["read", peer.address, uuid, "--json"], mode, type: type).finish()
      #expect(result.status == 0, "\(result.errors)")
      return try result.objects(Value.self).first?.value
    }

    private func number(shownBy pairing: Program) throws -> Int {
      let shown = try pairing.line(on: .errors, containing: "type it on the device")
      return try #require(shown.split(separator: " ").compactMap { Int($0.prefix { $0.isNumber }) }.first)
    }

    /// Types a number on bumble's keyboard.
    private func tell(_ number: Int) throws {
      try Data("\(number)\n".utf8).write(to: URL(filePath: numbers), options: .atomic)
    }

    /// Rights and names of the files with keys.
    private func keyFiles() throws -> [String] {
      try scene.demand("find", [scene.folder.path, "-name", "*.bond", "-printf", "%m %f\\n"]).outputLines
    }

    private func forgetKernelKeys() throws {
      try scene.demand(Place.peer("kernel_keys.py"), ["0"])
      #expect(try kernelKeys().isEmpty)
    }

    /// Of hci0, as the kernel tells them.
    private func kernelKeys() throws -> [String] {
      let folder = "/sys/kernel/debug/bluetooth/hci0"
      return try scene.demand("cat", [folder + "/long_term_keys", folder + "/identity_resolving_keys"])
        .outputLines
    }
  }
}

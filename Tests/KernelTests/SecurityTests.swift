import Foundation
import Testing

extension InTestKernel {
  /// Links that are made secure, by our own Security Manager and by the kernel's, with peers that are google/bumble's. The
  /// controllers are btvirt's, which compare the keys of both ends.
  @Suite final class SecurityTests {
    enum Mode: String, CaseIterable, CustomTestStringConvertible {
      case raw, exclusive
      var testDescription: String { rawValue }
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

    private struct Paired: Decodable {
      var address: String
      var identityAddress: String?
      var authenticated: Bool?
      var secureConnections: Bool?
      var keySize: Int?
      var bonded: Bool?
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

    /// The kernel's methods; then another process must know the keys from the first one's file. `PairingPeerTests` has our
    /// own.
    @Test(arguments: cases) func pairsAndComesBackByTheKernel(_ way: Case) throws {
      let mode = Mode.raw
      let peer = try secureBumble(mode, way.peer)
      let arguments = way.own + (way.isAuthenticated ? ["--authenticated"] : [])
      let pairing = try startRemembering(["pair", peer.address, "--json"] + arguments, mode)
      if way.isTypedThere {
        let shown = try pairing.line(on: .errors, containing: "type it on the device")
        try tell(
          try #require(shown.split(separator: " ").compactMap { Int($0.prefix { $0.isNumber }) }.first))
      }
      let result = try pairing.finish()
      #expect(result.status == 0, "\(result.errors)")
      let paired = try #require(try result.objects(Paired.self).first)
      #expect(paired.authenticated == way.isAuthenticated)
      #expect(paired.secureConnections == way.isSecure)
      #expect(paired.keySize == 16)
      #expect(paired.bonded == true)
      #expect(try keyFiles() == ["600 F0-F1-F2-F3-F4-F8-random.bond"])

      try forgetKernelKeys()
      #expect(try read("aa02", of: peer, mode) == Self.encrypted)
      #expect(try read("aa03", of: peer, mode) == Self.authenticated)
      #expect(try keyFiles().count == 1)
    }

    /// The identity is asked for in the pairing; with it a device is found behind an address that changes each time.
    @Test func findsADeviceBehindPrivateAddresses() throws {
      let mode = Mode.raw
      let peer = try secureBumble(mode, ["--private"])
      struct Found: Decodable { var address: String }
      let scan = try remembering(["scan", "--json", "--duration", "2"], mode)
      let met = try #require(try scan.objects(Found.self).first).address
      #expect(met != peer.address)
      let result = try remembering(["pair", met, "--json", "--address-type", "random"], mode)
      #expect(result.status == 0, "\(result.errors)")
      #expect(try result.objects(Paired.self).first?.identityAddress == peer.address)
      #expect(try keyFiles() == ["600 F0-F1-F2-F3-F4-F8-random.bond"])

      try forgetKernelKeys()
      #expect(try read("aa02", of: peer, mode) == Self.encrypted)
    }

    @Test(arguments: Mode.allCases) func doesNotPairUnasked(_ mode: Mode) throws {
      let peer = try secureBumble(mode, [])
      let result = try remembering(["read", peer.address, "aa02", "--address-type", "random"], mode)
      result.expectFailure(saying: "Insufficient Encryption")
      #expect(try keyFiles() == [])
    }

    @Test(arguments: Mode.allCases) func tellsOfAPairingThatFails(_ mode: Mode) throws {
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

    // MARK: Parts

    private func secureBumble(_ mode: Mode, _ options: [String]) throws -> Scene.Peer {
      try scene.linkedControllers()
      if mode == .exclusive { try scene.controller("off", 0) }
      return try scene.bumble("bumble_secure.py", options + ["--numbers", numbers])
    }

    /// A program that remembers, with folders of its own.
    private func startRemembering(
      _ arguments: [String], _ mode: Mode?, type: String = "random"
    ) throws -> Program {
      var arguments = arguments + ["--adapter", "hci0"]
      if let mode { arguments += ["--mode", mode.rawValue] }
      if arguments[0] != "scan", !arguments.contains("--address-type") {
        arguments += ["--address-type", type]
      }
      return try scene.start(
        "env",
        ["-u", "RINGTAP_NO_REMEMBER", "XDG_STATE_HOME=\(scene.path("state"))", Place.ringtap] + arguments)
    }

    private func remembering(_ arguments: [String], _ mode: Mode?) throws -> Program.Result {
      try startRemembering(arguments, mode).finish()
    }

    private func read(
      _ uuid: String, of peer: Scene.Peer, _ mode: Mode?, type: String = "random"
    ) throws -> String? {
      let result = try startRemembering(["read", peer.address, uuid, "--json"], mode, type: type).finish()
      #expect(result.status == 0, "\(result.errors)")
      return try result.objects(Value.self).first?.value
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

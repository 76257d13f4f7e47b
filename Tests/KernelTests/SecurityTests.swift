import Foundation
import TestKit
import Testing

extension InTestKernel {
  /// Links secured by our own Security Manager and by the kernel's, with google/bumble and BlueZ as peers.
  /// The controllers are btvirt's, which compare the keys of both ends.
  @Suite final class SecurityTests {
    private struct Paired: Decodable {
      var address: String
      var identityAddress: String?
      var authenticated: Bool?
      var secureConnections: Bool?
      var keySize: Int?
      var bonded: Bool?
      var keptBy: String?
    }

    private struct Recorded: Decodable {
      struct State: Decodable {
        var encrypted: Bool?
        var bonded: Bool?
        var keySize: Int?
        var authenticated: Bool?
        var secureConnections: Bool?
      }
      struct Connection: Decodable { var inForce: State }
      var connection: Connection
    }

    private struct Value: Decodable {
      var value: String
    }

    private static let (encrypted, authenticated) = (
      "656e63727970746564", "61757468656e74696361746564"
    )
    private static let otherIdentity = "C1:02:03:04:05:06"
    private let scene: Scene
    private var numbers: String { scene.path("number") }

    init() throws { scene = try Scene() }
    isolated deinit { scene.end() }

    // MARK: Against google/bumble

    /// Pairing methods of the kernel.
    @Test(arguments: cases) func pairsAndComesBackByTheKernel(_ way: Case) throws {
      try pairAndComeBack(.raw, way)
    }

    /// Pairing methods of our own host; `PairingPeerTests` has the rest of them.
    @Test(arguments: [cases[1], cases[2], cases[4]]) func pairsAndComesBackByOurHost(_ way: Case) throws {
      try pairAndComeBack(.exclusive, way)
    }

    /// Pairs; then another process must get the keys from the first one's file.
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

    /// The pairing requests the identity. With it, a device is found behind an address that changes each
    /// time.
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
      // No user can compare or type numbers here, and Just Works is not sufficient.
      let unchecked = try remembering(
        ["pair", peer.address, "--address-type", "random", "--authenticated"], mode)
      unchecked.expectFailure(
        saying: "cannot pair with \(peer.address)", "an attacker could be in the middle")
      #expect(try keyFiles() == [])
      #expect(try kernelKeys().isEmpty)
    }

    /// The device has lost the bond: this is reported, and the device is paired again on request.
    @Test func pairsAgainWithADeviceThatForgot() throws {
      let peer = try secureBumble(.raw, ["--forgetful"])
      let pair = ["pair", peer.address, "--address-type", "random", "--json"]
      #expect(try remembering(pair, .raw).status == 0)
      // The kernel keeps the link up for two more seconds.
      try peer.program.line(containing: "forgot")
      let refused = try remembering(["read", peer.address, "aa02", "--address-type", "random"], .raw)
      refused.expectFailure(saying: peer.address, "Key Missing")
      let paired = try remembering(pair, .raw)
      #expect(paired.status == 0, "\(paired.errors)")
      #expect(try paired.objects(Paired.self).first?.bonded == true)
    }

    /// BLESA (Wu et al., WOOT 2020): a bonded device returns without its key. Its AA01 can be read without
    /// encryption.
    @Test(arguments: [Mode.raw, .exclusive], [cases[0], cases[2], cases[3]])
    func readsNothingOfADeviceThatForgot(_ mode: Mode, _ way: Case) throws {
      let peer = try secureBumble(mode, way.peer + ["--forgetful"])
      let paired = try remembering(["pair", peer.address] + way.own, mode)
      #expect(paired.status == 0, "\(paired.errors)")
      try peer.program.line(containing: "forgot")
      for command in [["read", peer.address, "aa01"], ["write", peer.address, "aa04", "01"]] {
        let refused = try remembering(command, mode)
        refused.expectFailure(saying: "\(peer.address) is bonded and did not encrypt", "--accept-unencrypted")
        #expect(refused.output.isEmpty)
      }
      let accepted = try remembering(["read", peer.address, "aa01", "--json", "--accept-unencrypted"], mode)
      #expect(try accepted.objects(Value.self).first?.value == "6f70656e", "\(accepted.errors)")
      #expect(try keyFiles().count == 1)
      // The kernel keeps its link for two seconds, and bumble advertises after it.
      guard mode == .exclusive else { return }
      struct State: Decodable { var encrypted: Bool?, bonded: Bool? }
      let link = try remembering(["link", peer.address, "--json", "--accept-unencrypted"], mode)
      let state = try link.objects(State.self).first
      #expect(state?.encrypted == false, "\(link.errors)")
      #expect(state?.bonded == true)
    }

    /// A bonded strap whose measurements require no security. With its key it is recorded over an encrypted
    /// link whose level is reported; once it has lost the key, nothing is recorded.
    @Test(arguments: [Mode.raw, .exclusive], [cases[0], cases[2], cases[3]])
    func recordsABondedStrapByItsKeyOnly(_ mode: Mode, _ way: Case) throws {
      let peer = try secureBumble(mode, way.peer + ["--heart-rate"])
      let paired = try remembering(["pair", peer.address] + way.own, mode)
      #expect(paired.status == 0, "\(paired.errors)")
      if mode == .raw { try forgetKernelKeys() }
      let record = ["heart-rate", peer.address, "--count", "5", "--output"]
      let recorded = try remembering(record + [scene.path("with")], mode)
      #expect(recorded.status == 0, "\(recorded.errors)")
      let text = try String(contentsOfFile: scene.path("with/session.json"), encoding: .utf8)
      let state = try JSONDecoder().decode(Recorded.self, from: Data(text.utf8)).connection.inForce
      #expect(state.encrypted == true)
      #expect(state.bonded == true)
      #expect(state.keySize == 16)
      #expect(state.authenticated == way.isAuthenticated)
      #expect(state.secureConnections == way.isSecure)

      // The kernel keeps an encrypted link for two seconds.
      if mode == .raw { try endKernelLinks() }
      try scene.demand("kill", ["-USR1", "\(peer.program.identifier)"])
      try peer.program.line(containing: "forgot")
      let refused = try remembering(record + [scene.path("without")], mode)
      refused.expectFailure(saying: "\(peer.address) is bonded and did not encrypt", "--accept-unencrypted")
      let rows = try scene.run("cat", [scene.path("without/heart_rate.csv")]).outputLines.dropFirst()
      #expect(rows.isEmpty)
      #expect(try keyFiles().count == 1)
    }

    /// In coexist mode `bluetoothd` decides which links are encrypted, and a program with bonds says so.
    @Test func saysThatCoexistModeSeesNoBonds() throws {
      let peer = try secureBumble(.raw, [])
      let paired = try remembering(["pair", peer.address], .raw)
      #expect(paired.status == 0, "\(paired.errors)")
      let note = "the bonds of `ringtap pair` are not used in coexist mode"
      let words = ["read", peer.address, "aa01", "--address-type", "random", "--mode", "coexist"]
      let state = "XDG_STATE_HOME=\(scene.path("state"))"
      let read = try scene.run("env", ["-u", "RINGTAP_NO_REMEMBER", state, Place.ringtap] + words)
      #expect(read.errorLines.count { $0.contains(note) } == 1, "\(read.errors)")
      #expect(read.errors.contains("a device that lost its key is not detected"))
      // Without bonds there is nothing to say.
      let other = "XDG_STATE_HOME=\(scene.path("other"))"
      let plain = try scene.run("env", ["-u", "RINGTAP_NO_REMEMBER", other, Place.ringtap] + words)
      #expect(!plain.errors.contains("bonds"), "\(plain.errors)")
    }

    /// BLERP (NDSS 2026): pairing again with Just Works does not change an authenticated bond, on either
    /// side. The kernel continues to use the bond's key.
    @Test(arguments: [Mode.raw, .exclusive]) func keepsAnAuthenticatedBond(_ mode: Mode) throws {
      let way = Self.cases[3]
      let peer = try secureBumble(mode, way.peer)
      #expect(try remembering(["pair", peer.address] + way.own, mode).status == 0)
      let again = try remembering(["pair", peer.address], mode)
      if mode == .exclusive { again.expectFailure(saying: "stronger bond") }
      #expect(try keyFiles().count == 1)
      if mode == .raw { try forgetKernelKeys() }
      #expect(try read("aa03", of: peer, mode) == Self.authenticated)
    }

    /// NimBLE 2206: a pairing with a wrong passkey does not change the bond, on either side.
    @Test(arguments: [Mode.raw, .exclusive]) func keepsABondOverAPairingThatFails(_ mode: Mode) throws {
      let peer = try secureBumble(mode, ["--capability", "display", "--passkey", "19283"])
      #expect(try remembering(["pair", peer.address], mode).status == 0)
      let keys = try kernelKeys()
      let again = try remembering(["pair", peer.address, "--passkey", "19284"], mode)
      // In raw mode a note precedes it: the kernel closes the channel.
      #expect(again.status == 1)
      #expect(again.errors.contains("cannot pair with \(peer.address)"))
      #expect(try kernelKeys() == keys)
      #expect(try keyFiles().count == 1)
      #expect(try read("aa02", of: peer, mode) == Self.encrypted)
    }

    /// A bonded device that never responds to the encryption request: nothing is read, and one line reports
    /// it.
    @Test(arguments: [Mode.raw, .exclusive]) func readsNothingOfADeviceThatDoesNotEncrypt(_ mode: Mode) throws
    {
      let peer = try secureBumble(mode, [])
      #expect(try remembering(["pair", peer.address], mode).status == 0)
      // The kernel keeps an encrypted link for two seconds.
      if mode == .raw { try endKernelLinks() }
      try scene.demand("kill", ["-USR2", "\(peer.program.identifier)"])
      try peer.program.line(containing: "silent")
      let refused = try remembering(["read", peer.address, "aa01", "--timeout", "3"], mode)
      refused.expectFailure(saying: "\(peer.address) is bonded and did not encrypt", "--accept-unencrypted")
      #expect(refused.output.isEmpty)
      #expect(try keyFiles().count == 1)
    }

    /// KNOB (Antonioli et al., ACM TOPS 2020): a device whose keys have 7 bytes. The kernel accepts such a
    /// key; it is removed again.
    @Test(arguments: [Mode.raw, .exclusive], [[], ["--legacy"]])
    func keepsNoShortKey(_ mode: Mode, _ kind: [String]) throws {
      let peer = try secureBumble(mode, kind + ["--key-size", "7"])
      let result = try remembering(["pair", peer.address], mode)
      #expect(result.status == 1)
      #expect(result.messages.last?.contains("cannot pair with \(peer.address)") == true, "\(result.errors)")
      #expect(result.errors.contains("Encryption Key Size"), "\(result.errors)")
      #expect(try keyFiles() == [])
      #expect(try kernelKeys().isEmpty)
    }

    /// A device at a static address that names another identity: its bond is found by the address at which it
    /// was paired. The kernel ignores such an identity (`smp_cmd_ident_addr_info`, Linux 6.1).
    @Test(arguments: [Mode.raw, .exclusive]) func knowsADeviceWithAnotherIdentity(_ mode: Mode) throws {
      let peer = try secureBumble(mode, ["--identity", Self.otherIdentity])
      let result = try remembering(["pair", peer.address, "--json"], mode)
      #expect(result.status == 0, "\(result.errors)")
      let identity = try result.objects(Paired.self).first?.identityAddress
      #expect(identity == (mode == .raw ? nil : Self.otherIdentity))
      let name = (identity ?? peer.address).replacing(":", with: "-")
      #expect(try keyFiles() == ["600 \(name)-random.bond"])
      if mode == .raw { try forgetKernelKeys() }
      #expect(try read("aa02", of: peer, mode) == Self.encrypted)
      if mode == .raw { try endKernelLinks() }
      try scene.demand("kill", ["-USR1", "\(peer.program.identifier)"])
      try peer.program.line(containing: "forgot")
      let refused = try remembering(["read", peer.address, "aa01"], mode)
      refused.expectFailure(saying: "is bonded and did not encrypt", "--accept-unencrypted")
    }

    /// CVE-2021-3436: a device behind a private address names the identity of another bonded device. That bond stays.
    @Test(arguments: [Mode.raw, .exclusive]) func keepsTheBondOfAnotherIdentity(_ mode: Mode) throws {
      _ = try secureBumble(mode, ["--private", "--identity", Self.otherIdentity])
      #expect(try remembering(["pair", advertiser(mode).address], mode).status == 0)
      // The other device has another resolving key.
      let file = try scene.demand("find", [scene.folder.path, "-name", "*.bond"]).outputLines[0]
      let text = try String(contentsOfFile: file, encoding: .utf8)
      let key = try #require(text.firstMatch(of: /"identityKey": ?"([0-9a-f]{32})"/)).output.1
      let other = text.replacing(key, with: String(repeating: "5a", count: 16))
      try other.write(toFile: file, atomically: true, encoding: .utf8)
      if mode == .raw { try forgetKernelKeys() }

      let met = try advertiser(mode).address
      let result = try remembering(["pair", met], mode)
      #expect(result.status == 1)
      #expect(result.messages.last?.contains("cannot pair with \(met)") == true, "\(result.errors)")
      let reason = "\(Self.otherIdentity), which is another bonded device"
      #expect(result.errors.contains(reason), "\(result.errors)")
      #expect(try keyFiles().map { $0.suffix(29) } == ["C1-02-03-04-05-06-random.bond"])
      #expect(try String(contentsOfFile: file, encoding: .utf8) == other)
      guard mode == .raw else { return }
      // The kernel has the other device's key, and not the new one.
      let stored = try #require(other.firstMatch(of: /"peerKey":.{1,3}"key": ?"([0-9a-f]{32})"/)).output.1
      let octets = stride(from: 0, to: 32, by: 2).map { stored.dropFirst($0).prefix(2) }
      let keys = try kernelKeys().filter { $0.hasPrefix(Self.otherIdentity.lowercased()) }
      #expect(keys.contains { $0.contains(octets.reversed().joined()) }, "\(keys)")
    }

    /// An adapter that was switched on by ioctl, unseen by the kernel's management interface.
    @Test func tellsOfKeysThatTheKernelDoesNotGive() throws {
      try scene.linkedControllers(at: 0..<2, "-L")
      try scene.demand("hciconfig", ["hci0", "up"])
      try scene.demand("hciconfig", ["hci1", "down"])
      let peer = try scene.bumble("bumble_secure.py", ["--numbers", numbers])
      let result = try remembering(["pair", peer.address, "--json"], .raw)
      result.expectFailure(saying: "reported no key", "power off")
    }

    /// The device's request takes the channel out of the state in which it waits for encryption
    /// (`l2cap_data_channel`, Linux 6.1). We must keep waiting, and must answer the request, or the device
    /// will not send its key.
    @Test func comesBackToADeviceThatSpeaksFirst() throws {
      let peer = try secureBumble(.raw, ["--speaks-first"])
      #expect(try remembering(["pair", peer.address, "--address-type", "random"], .raw).status == 0)
      try forgetKernelKeys()
      #expect(try read("aa02", of: peer, .raw) == Self.encrypted)
    }

    // MARK: The kernel's keys

    /// Each load replaces the kernel's list, so the keys of other programs are included in ours.
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

    /// bluetoothd and the kernel's Security Manager are the peripheral; the central is the kernel's with our
    /// agent, or our own. The daemon plays another computer: it does not use our adapter. Then other
    /// processes read values that require the bond, from the device behind its identity address.
    @Test(arguments: [Mode.raw, .exclusive], BluetoothdCase.all) fileprivate func pairsWithBluetoothd(
      _ mode: Mode, _ way: BluetoothdCase
    ) throws {
      let name = scene.path("elsewhere")
      try scene.demand("ln", ["-s", try Place.tool("bluetoothd"), name])
      let daemon = try scene.bluetoothd("-f", try configuration(way), as: name)
      try scene.demand(Place.peer("hide_adapter.py"), ["\(daemon.identifier)", "0"])
      try scene.linkedControllers()
      if mode == .exclusive { try scene.takeDown(0) }
      var device = try secure(daemon, on: Self.far, way)
      let found = try advertiser(mode)
      #expect((found.address != device.address) == way.isPrivate)
      #expect((found.addressType == "random") == way.isPrivate)

      let pairing = try startRemembering(
        ["pair", found.address, "--json", "--address-type", found.addressType] + way.own, mode,
        onTerminal: way.isTypedHere)
      try device.control.question(containing: way.question)
      if way.isTypedHere {
        try pairing.question(containing: "passkey that the device shows")
        try pairing.type(try number(shownBy: device.control, on: .output, after: way.question))
      } else {
        try device.control.type(way.isTypedThere ? try number(shownBy: pairing) : "yes")
      }
      var result = try pairing.finish()
      if way.isTypedHere {
        // The terminal's output includes the messages to the user.
        result.output = result.output.split(whereSeparator: \.isNewline).filter { $0.hasPrefix("{") }
          .joined(separator: "\n")
      }
      #expect(result.status == 0, "\(result.errors)")
      let paired = try #require(try result.objects(Paired.self).first)
      #expect(paired.authenticated == way.isAuthenticated)
      #expect(paired.secureConnections == !way.own.contains("--legacy"))
      #expect(paired.bonded == true)
      #expect(paired.identityAddress == (way.isPrivate ? device.address : nil))
      #expect(try keyFiles() == ["600 00-AA-01-01-00-01-public.bond"])

      if mode == .raw { try forgetKernelKeys() }
      #expect(try read("fff1", of: &device, mode) == "01")
      guard way.isAuthenticated else { return }
      #expect(try read("fff2", of: &device, mode) == "02")
    }

    /// Both ends are the kernel's, and the daemon keeps the keys of both: we only have the link encrypted.
    @Test func takesBluetoothdsBondAsItIs() throws {
      try scene.linkedControllers()
      let control = try secure(
        try scene.bluetoothd("-f", try configuration(BluetoothdCase.all[0])), on: Self.far
      ).control
      let pairing = try startRemembering(["pair", Self.far, "--json"], .automatic, type: "public")
      try control.question(containing: "Confirm passkey")
      try control.type("yes")
      // Both ends are the daemon's. It chooses which of them asks the user, or asks on both.
      if (try? pairing.line(containing: "keptBy", within: .seconds(5))) == nil { try control.type("yes") }
      let result = try pairing.finish()
      #expect(result.status == 0, "\(result.errors)")
      #expect(result.errors.contains("its agent answers"))
      #expect(try result.objects(Paired.self).first?.keptBy == "bluetoothd")
      #expect(try keyFiles() == [])

      // The daemon continues as a client of its own, on the only ATT channel.
      try control.type("select \(Self.near)")
      try control.type("disconnect \(Self.far)")
      try control.line(containing: "Successful disconnected")
      let device = Scene.Peer(address: Self.far, program: control)
      #expect(try read("fff1", of: device, .automatic, type: "public") == "01")
    }

    // MARK: Parts

    private static let (near, far) = ("00:AA:01:00:00:00", "00:AA:01:01:00:01")

    /// BlueZ's daemon, serving FFF1 and FFF2 on an adapter.
    private struct Bluetoothd {
      let address: String
      let program: Program
      let control: Program
      /// Links made to it so far.
      var links = 1
      /// Channels that it refused so far.
      var refusals = 0
    }

    /// Reads from the daemon, and retries if it refused the channel.
    ///
    /// To encrypt a bonded device's link, the daemon asks the kernel whether the link is encrypted, then asks
    /// for encryption. If encryption completes in between, the link gets no channel, and the daemon logs that
    /// (`device_attach_att`).
    private func read(_ uuid: String, of device: inout Bluetoothd, _ mode: Mode) throws -> String? {
      try waitUntilFree(device, mode)
      let reading = try startRemembering(["read", device.address, uuid, "--json"], mode, type: "public")
      let result = try reading.finish()
      device.links += 1
      if result.status != 0 {
        try waitUntilFree(device, mode)
        let refusals = try device.program.lines(on: .errors, untilThey: "are there") { _ in true }
          .count { $0.contains("setsockopt(BT_SECURITY): Invalid argument") }
        // Rare: a daemon that always refuses has another reason.
        if refusals > device.refusals, refusals < 3 {
          device.refusals = refusals
          return try read(uuid, of: &device, mode)
        }
      }
      #expect(result.status == 0, "\(result.errors)")
      return try result.objects(Value.self).first?.value
    }

    /// Waits until the daemon has finished with all links and advertises again. Before that it accepts no ATT
    /// channel, and the kernel ends such a link after 4 s.
    private func waitUntilFree(_ device: Bluetoothd, _ mode: Mode) throws {
      _ = try device.control.lines(untilThey: "report \(device.links) ends") { lines in
        lines.count { $0.contains("Connected: no") } >= device.links
      }
      _ = try advertiser(mode)
    }

    private struct Nobody: Error {}

    private struct Found: Decodable {
      var address: String
      var addressType: String
    }

    /// The only device in range, once it advertises (again): btvirt immediately refuses a connection to a
    /// device that does not advertise.
    private func advertiser(_ mode: Mode) throws -> Found {
      let end = ContinuousClock.now + Program.patience
      while ContinuousClock.now < end {
        let scan = try remembering(["scan", "--json", "--duration", "1"], mode)
        try #require(scan.status == 0, "\(scan.errors)")
        if let found = try scan.objects(Found.self).first { return found }
      }
      throw Nobody()
    }

    private func secureBumble(_ mode: Mode, _ options: [String]) throws -> Scene.Peer {
      try scene.linkedControllers()
      if mode == .exclusive { try scene.takeDown(0) }
      return try scene.bumble("bumble_secure.py", options + ["--numbers", numbers])
    }

    /// A configuration file for the daemon.
    private func configuration(_ way: BluetoothdCase) throws -> String {
      let path = scene.path("main.conf")
      try "[General]\nPrivacy=\(way.isPrivate ? "device" : "off")\n[Policy]\nAutoEnable=false\n"
        .write(toFile: path, atomically: true, encoding: .utf8)
      return path
    }

    /// Makes the daemon serve FFF1, which requires encryption, and FFF2, which requires authentication.
    private func secure(
      _ daemon: Program, on address: String, _ way: BluetoothdCase = BluetoothdCase.all[0]
    ) throws -> Bluetoothd {
      let control = try scene.bluetoothctl()
      try control.type("select \(address)")
      try control.question(containing: "Agent registered")
      if let capability = way.capability {
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
      return Bluetoothd(address: address, program: daemon, control: control)
    }

    /// Starts a program that stores keys in folders of its own.
    private func startRemembering(
      _ arguments: [String], _ mode: Mode, type: String = "random", onTerminal: Bool = false
    ) throws -> Program {
      var arguments = arguments + mode.arguments
      if arguments[0] != "scan", !arguments.contains("--address-type") {
        arguments += ["--address-type", type]
      }
      let command =
        try ["-u", "RINGTAP_NO_REMEMBER", "XDG_STATE_HOME=\(scene.path("state"))", Place.ringtap] + arguments
      guard onTerminal else { return try scene.start("env", command) }
      // Both of its output streams come out as one.
      let line = (["exec", "env"] + command).joined(separator: " ")
      return try scene.start("script", ["--quiet", "--return", "--command", line, "/dev/null"])
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

    /// Waits for a line with a passkey, and returns its six digits.
    private func number(
      shownBy program: Program, on stream: Program.Stream = .errors,
      after text: String = "type it on the device"
    ) throws -> String {
      let shown = try program.line(on: stream, containing: text)
      return String(try #require(shown.firstMatch(of: /[0-9]{6}/)).output)
    }

    /// Types a number on bumble's keyboard.
    private func tell(_ number: String) throws {
      try Data("\(number)\n".utf8).write(to: URL(filePath: numbers), options: .atomic)
    }

    /// Permissions and names of the key files.
    private func keyFiles() throws -> [String] {
      try scene.demand("find", [scene.folder.path, "-name", "*.bond", "-printf", "%m %f\\n"]).outputLines
    }

    /// Removes the kernel's keys, and its links, which stay for two seconds after the last channel and are
    /// already encrypted.
    private func forgetKernelKeys() throws {
      try endKernelLinks()
      try scene.demand(Place.peer("kernel_keys.py"), ["0"])
      #expect(try kernelKeys().isEmpty)
    }

    private func endKernelLinks() throws {
      for handle in try kernelLinks() { try scene.run("hcitool", ["-i", "hci0", "ledc", handle]) }
      // A link may have ended by itself meanwhile.
      #expect(try kernelLinks() == [])
    }

    /// Handles of hci0's links.
    private func kernelLinks() throws -> [String] {
      try scene.demand("hcitool", ["-i", "hci0", "con"]).output.matches(of: /handle ([0-9]+)/)
        .map { String($0.output.1) }
    }

    /// Keys of hci0, as the kernel lists them.
    private func kernelKeys() throws -> [String] {
      let folder = "/sys/kernel/debug/bluetooth/hci0"
      return try scene.demand("cat", [folder + "/long_term_keys", folder + "/identity_resolving_keys"])
        .outputLines
    }
  }
}

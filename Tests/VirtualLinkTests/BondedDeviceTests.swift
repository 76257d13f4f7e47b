import BLEEmulation
import BLEHost
import BLELinux
import BLESecurity
import BLEStack
import BLEWire
import Foundation
import Recording
import Synchronization
import TestKit
import Testing

import SensorSessions

/// A bonded device on links of our own host: found behind its private addresses, and written to with signed
/// writes.
///
/// Both Security Managers are ours. Other tests show that they agree with other stacks (`PairingVectorTests`,
/// `PairingPeerTests`).
@Suite(.timeLimit(.minutes(1))) struct BondedDeviceTests {
  /// A device with one value that accepts signed writes and stores them.
  private final class Signed: VirtualPeripheral, Sendable {
    static let address = DeviceAddress(bits: 0x70CB_0D00_A1B4, type: .public)
    static let valueHandle = AttributeHandle(3)
    private let taken = Mutex<[[UInt8]]>([])
    var written: [[UInt8]] { taken.withLock { $0 } }
    var advertisement: Advertisement? { Advertisement(address: Self.address, data: [2, 1, 6]) }
    var services: [GATTServiceDescription] {
      [
        GATTServiceDescription(
          .heartRate,
          characteristics: [
            GATTCharacteristicDescription(
              BluetoothUUID(0x2A39), [.read, .write, .writeWithoutResponse, .authenticatedSignedWrites],
              value: [0])
          ])
      ]
    }

    func check(write value: Span<UInt8>, to handle: AttributeHandle) -> ATTErrorCode? {
      let octets = [UInt8](encoding: value.count) { $0.append(value) }
      taken.withLock { $0.append(octets) }
      return nil
    }
  }

  /// A host and a device that outlast their links, with the keys of both.
  private struct Bench {
    let loop: EventLoop
    let adapter: HostAdapter
    let emulation: ControllerAttachment
    let device: Signed
    let security: PeripheralSecurity

    static func open(
      _ address: SecuredPeripheral.Address, _ protection: PeripheralProtection = .init(.encrypted),
      of identity: DeviceAddress = Signed.address, isSecureConnections: Bool = false
    ) async throws -> Bench {
      let device = Signed()
      let makeKeyPair = isSecureConnections ? try P256KeyPair.maker() : nil
      let security = PeripheralSecurity(protection, of: identity, makeKeyPair: makeKeyPair)
      let loop = try EventLoop.start()
      let controller = VirtualController(
        .init(), peripherals: [SecuredPeripheral(device, .encrypted, security, address: address)],
        air: VirtualAir.Configuration(pace: .immediate))
      var pair = try ControllerPort.pair()
      let emulation = try await ControllerAttachment.attach(controller, to: pair.takeController(), .datagrams)
      let adapter = try await HostAdapter.open(
        try loop.transport(over: pair.takeHost(), .datagrams), name: "virtual", on: loop)
      return Bench(loop: loop, adapter: adapter, emulation: emulation, device: device, security: security)
    }

    /// Scans, and returns the advertiser that was received.
    func scan() async throws -> Advertiser? {
      let heard = Mutex<Advertiser?>(nil)
      _ = try await Scanner(kind: .passive).run(on: adapter, for: .seconds(10)) { advertiser in
        heard.withLock { $0 = advertiser }
        return .stop
      }
      return heard.withLock { $0 }
    }

    func connect(to address: DeviceAddress) async throws -> Connection {
      try await adapter.connect(to: address, asking: LinkRequest(), timeout: .seconds(10), tap: nil)
    }

    func close(_ connection: Connection) async {
      await connection.close()
      _ = await connection.ended()
    }

    func close() async {
      await adapter.close()
      await emulation.detach()
      loop.stop()
    }
  }

  private func withBonds(_ body: (BondFiles, String) async throws -> Void) async throws {
    try await withFolder { folder in
      try await body(BondFiles(in: folder) { Issue.record("\($0)") }, folder)
    }
  }

  /// Before the bond only the private address is known. With the bond, scan and connect resolve it, after
  /// each change.
  @Test func isKnownBehindPrivateAddresses() async throws {
    try await withBonds { bonds, _ in
      let bench = try await Bench.open(.private)
      try await bench.adapter.secure(SecuritySettings(raising: .byPairing, store: bonds))
      let stranger = try #require(try await bench.scan())
      #expect(RandomAddressKind(stranger.address) == .resolvablePrivate)
      #expect(stranger.identity == nil)
      let first = try await bench.connect(to: stranger.address)
      _ = try await bench.adapter.pair(first)
      await bench.close(first)
      #expect(bonds.bonds().map(\.device) == [Signed.address])

      let known = try #require(try await bench.scan())
      #expect(known.address != stranger.address)
      #expect(known.identity == Signed.address)
      let second = try await bench.connect(to: Signed.address)
      #expect(second.peer == known.address)
      #expect(await bench.adapter.isEncrypted(second))
      #expect(try await second.read(Signed.valueHandle) == [0])
      await bench.close(second)
      await bench.close()
    }
  }

  /// The distributed key signs writes on an unencrypted link. Each counter is used once, also across
  /// restarts.
  @Test func takesWhatWeSign() async throws {
    try await withBonds { bonds, folder in
      let bench = try await Bench.open(.identity)
      try await bench.adapter.secure(SecuritySettings(raising: .byPairing, store: bonds))
      let first = try await bench.connect(to: Signed.address)
      await #expect(throws: GATTError.cannotSign) {
        try await bench.adapter.writeSigned([9], to: Signed.valueHandle, on: first)
      }
      _ = try await bench.adapter.pair(first)
      await bench.close(first)

      for number in 1...3 as ClosedRange<UInt8> {
        // Like a program that was killed and restarted.
        let again = BondFiles(in: folder) { Issue.record("\($0)") }
        var settings = SecuritySettings(store: again)
        settings.encryption = .whenWanted
        try await bench.adapter.secure(settings)
        let link = try await bench.connect(to: Signed.address)
        #expect(await bench.adapter.isEncrypted(link) == false)
        try await bench.adapter.writeSigned([number], to: Signed.valueHandle, on: link)
        // The command has no response, so a request follows it; it is refused, and the link is encrypted for
        // it.
        #expect(try await link.read(Signed.valueHandle) == [number])
        #expect(await bench.adapter.isEncrypted(link))
        // On an encrypted link the same value is sent without a signature.
        try await bench.adapter.writeSigned([number + 0x10], to: Signed.valueHandle, on: link)
        #expect(try await link.read(Signed.valueHandle) == [number + 0x10])
        await bench.close(link)
      }
      #expect(bench.device.written.count == 6)
      let kept = try #require(bench.security.bonds.values.first)
      #expect(kept.peerSignCounter == 3)
      #expect(BondFiles(in: folder) { _ in }.bonds().first?.bond.localSignCounter == 3)
      await bench.close()
    }
  }

  /// The device has lost our key: it silently drops signed writes, and nothing else happens.
  @Test func isNotHeardByADeviceThatForgot() async throws {
    try await withBonds { bonds, _ in
      let bench = try await Bench.open(.identity)
      try await bench.adapter.secure(SecuritySettings(raising: .byPairing, store: bonds))
      let first = try await bench.connect(to: Signed.address)
      _ = try await bench.adapter.pair(first)
      await bench.close(first)
      bench.security.forgetAll()
      var settings = SecuritySettings(store: bonds)
      settings.encryption = .whenWanted
      try await bench.adapter.secure(settings)
      let link = try await bench.connect(to: Signed.address)
      try await bench.adapter.writeSigned([1], to: Signed.valueHandle, on: link)
      await #expect(throws: GATTError.self) { _ = try await link.read(Signed.valueHandle) }
      #expect(bench.device.written.isEmpty)
      await bench.close(link)
      await bench.close()
    }
  }

  // MARK: A bonded device without its key

  /// Connects to a bonded device whose controller fails to encrypt, and reads its value.
  private func readsUnencrypted(
    _ fault: ControllerFault?, _ bondedLinks: SecuritySettings.BondedLinks = .encrypted,
    forgets: Bool = false, within timeout: Duration = .seconds(10),
    _ check: (Result<[UInt8], HostError>, Bench) async throws -> Void
  ) async throws {
    try await withBonds { bonds, _ in
      let bench = try await Bench.open(.identity)
      try await bench.adapter.secure(SecuritySettings(raising: .byPairing, store: bonds))
      let first = try await bench.connect(to: Signed.address)
      _ = try await bench.adapter.pair(first)
      await bench.close(first)
      if forgets { bench.security.forgetAll() }
      if let fault { await bench.emulation.inject(fault) }
      var settings = SecuritySettings(store: bonds)
      settings.bondedLinks = bondedLinks
      try await bench.adapter.secure(settings)
      let outcome: Result<[UInt8], HostError>
      do throws(HostError) {
        let link = try await bench.adapter.connect(
          to: Signed.address, asking: LinkRequest(), timeout: timeout, tap: nil)
        do throws(GATTError) { outcome = .success(try await link.read(AttributeHandle(1))) } catch {
          outcome = .failure(.gatt(error))
        }
        await bench.close(link)
      } catch { outcome = .failure(error) }
      try await check(outcome, bench)
      #expect(bonds.bonds().count == 1)
      await bench.close()
    }
  }

  /// BLESA (Wu et al., WOOT 2020): a device at a bonded address that does not encrypt is not read from.
  @Test(arguments: [0x06, 0x1A, 0x3D, 0x05, 0x1F] as [UInt8])
  func refusesABondedDeviceThatFailsToEncrypt(_ status: UInt8) async throws {
    let status = HCIStatus(rawValue: status)
    try await readsUnencrypted(.failEncryption(status)) { outcome, _ in
      #expect(outcome == .failure(.notEncrypted(Signed.address, status)))
    }
  }

  @Test func refusesABondedDeviceThatForgot() async throws {
    try await readsUnencrypted(nil, forgets: true) { outcome, _ in
      #expect(outcome == .failure(.notEncrypted(Signed.address, .pinOrKeyMissing)))
    }
  }

  /// The controller never answers LE Enable Encryption: the connection attempt ends at its timeout.
  @Test func refusesABondedDeviceThatIsSilentAboutEncryption() async throws {
    try await readsUnencrypted(.failEncryption(nil), within: .seconds(1)) { outcome, _ in
      #expect(outcome == .failure(.notEncrypted(Signed.address, nil)))
    }
  }

  /// The same in a recording, on its first link and after a lost one: it ends with that error within the
  /// connect timeout. `patience` would allow ten minutes of attempts.
  @Test(arguments: [false, true]) func endsARecordingWhoseEncryptionIsNotAnswered(_ isAfterALoss: Bool)
    async throws
  {
    try await withBonds { bonds, folder in
      let strap = StrapModel()
      let security = PeripheralSecurity(.init(.encrypted), of: strap.address, makeKeyPair: nil)
      let start = ReceiveTime(nanoseconds: 1_700_000_000_000_000_000)
      let link = try await VirtualLink.open(pace: .air, clock: .virtual(from: start)) {
        [SecuredPeripheral(EmulatedSensor(strap, .init()), .encrypted, security)]
      }
      var capture = SensorRecording(
        of: strap.address, on: link.adapter, into: folder + "/walk", .init(duration: .seconds(900)))
      capture.plan.connectTimeout = .seconds(7)
      capture.plan.patience = .seconds(600)
      let recording = capture
      let outcome = try await withTaskExecutorPreference(link.loop.preference) {
        try await link.adapter.secure(SecuritySettings(raising: .byPairing, store: bonds))
        let first = try await link.adapter.connect(
          to: strap.address, asking: LinkRequest(), timeout: .seconds(10), tap: nil)
        _ = try await link.adapter.pair(first)
        await first.close()
        _ = await first.ended()
        try await link.adapter.secure(SecuritySettings(store: bonds))
        if !isAfterALoss { await link.emulation.inject(.failEncryption(nil)) }
        let meanwhile = link.loop.task {
          guard isAfterALoss else { return }
          try? await link.loop.wait(for: .seconds(30))
          await link.emulation.inject(.failEncryption(nil))
          await link.emulation.inject(.disconnect(strap.address, .remoteUserTerminated))
        }
        defer { meanwhile.cancel() }
        let begunAt = link.loop.clock.monotonic()
        var failure: HostError?
        do throws(HostError) { failure = try await recording.run(.heartRate).failure } catch {
          failure = error
        }
        let elapsed = begunAt.duration(to: link.loop.clock.monotonic())
        // The other side of the link answers the disconnection.
        try await link.loop.wait(for: .seconds(1))
        return (failure, elapsed)
      }
      #expect(outcome.0 == .notEncrypted(strap.address, nil))
      let limit = isAfterALoss ? 30...40 : 0...10
      #expect(limit.contains(Int(outcome.1.components.seconds)), "\(outcome.1)")
      #expect(await link.adapter.linkCount == 0)
      await link.close()
    }
  }

  @Test func goesOnUnencryptedWhereThatIsAccepted() async throws {
    try await readsUnencrypted(.failEncryption(.pinOrKeyMissing), .any) { outcome, _ in
      #expect(throws: Never.self) { try outcome.get() }
    }
  }

  /// The controller reports that encryption is off: the link is closed before another value is delivered.
  @Test func closesALinkWhoseEncryptionEnds() async throws {
    try await withBonds { bonds, _ in
      let bench = try await Bench.open(.identity)
      try await bench.adapter.secure(SecuritySettings(raising: .byPairing, store: bonds))
      let first = try await bench.connect(to: Signed.address)
      _ = try await bench.adapter.pair(first)
      await bench.close(first)
      let second = try await bench.connect(to: Signed.address)
      #expect(await bench.adapter.isEncrypted(second))
      await bench.emulation.inject(.endEncryption)
      #expect(await second.ended() == .encryptionLost)
      await bench.close()
    }
  }

  // MARK: Pairing again

  private func settings(_ bonds: BondFiles, isSecureConnections: Bool, passkey: UInt32? = nil) throws
    -> SecuritySettings
  {
    let agent = passkey.map { passkey in PairingAgent(.keyboardOnly, askPasskey: { passkey }) }
    return SecuritySettings(
      agent: agent ?? .nobody, raising: .byPairing, store: bonds,
      makeKeyPair: isSecureConnections ? try P256KeyPair.maker() : nil)
  }

  /// Pairs with a device of this kind; all of them have the same address.
  ///
  /// - Returns: result of the pairing.
  private func pair(
    _ bonds: BondFiles, _ protection: PeripheralProtection, of identity: DeviceAddress = Signed.address,
    isSecureConnections: Bool = true, passkey: UInt32? = nil
  ) async throws -> Result<Bond, HostError> {
    let bench = try await Bench.open(
      .identity, protection, of: identity, isSecureConnections: isSecureConnections)
    try await bench.adapter.secure(settings(bonds, isSecureConnections: true, passkey: passkey))
    let link = try await bench.connect(to: Signed.address)
    let outcome: Result<Bond, HostError>
    do throws(HostError) { outcome = .success(try await bench.adapter.pair(link)) } catch {
      outcome = .failure(error)
    }
    await bench.close(link)
    await bench.close()
    return outcome
  }

  /// BLERP (NDSS 2026): a device at the address of an authenticated bond that supports only Just Works, or
  /// only legacy pairing.
  @Test func keepsAStrongerBond() async throws {
    try await withBonds { bonds, _ in
      let authenticated = PeripheralProtection(.authenticated, passkey: 46_128)
      _ = try await pair(bonds, authenticated, passkey: 46_128).get()
      let stored = bonds.bonds()
      #expect(stored.map(\.bond.isAuthenticated) == [true])
      #expect(stored.map(\.bond.isSecureConnections) == [true])

      for passkey in [nil, 46_128 as UInt32] {
        let justWorks = try await pair(bonds, PeripheralProtection(.encrypted), passkey: passkey)
        #expect(justWorks == .failure(.pairing(Signed.address, .weakerThanBond)))
      }
      let legacy = try await pair(bonds, authenticated, isSecureConnections: false, passkey: 46_128)
      #expect(legacy == .failure(.pairing(Signed.address, .weakerThanBond)))
      #expect(bonds.bonds() == stored)
      // An equally strong pairing: the device was reset, and its user typed the passkey.
      _ = try await pair(bonds, authenticated, passkey: 46_128).get()
      #expect(bonds.bonds().map(\.bond.isAuthenticated) == [true])
      #expect(bonds.bonds() != stored)
    }
  }

  /// CVE-2021-3436: a device claims the identity address of another bonded device, or an invalid identity
  /// address.
  @Test(
    arguments: [
      DeviceAddress(bits: 0x70CB_0D00_A1B5, type: .public), DeviceAddress(bits: 0, type: .public),
      DeviceAddress(bits: 0xFFFF_FFFF_FFFF, type: .public),
      DeviceAddress(bits: 0x4000_0000_0001, type: .random),
      DeviceAddress(bits: 0x0000_0000_0001, type: .random),
      DeviceAddress(bits: 0xC000_0000_0000, type: .random),
      DeviceAddress(bits: 0xFFFF_FFFF_FFFF, type: .random),
    ])
  func refusesAnIdentity(_ identity: DeviceAddress) async throws {
    try await withBonds { bonds, _ in
      let other = StoredBond(
        device: DeviceAddress(bits: 0x70CB_0D00_A1B5, type: .public), local: Signed.address,
        bond: Bond(isAuthenticated: false, isSecureConnections: true, keyByteCount: 16, isBonded: true))
      bonds.keep(other)
      let outcome = try await pair(bonds, PeripheralProtection(.encrypted), of: identity)
      #expect(outcome == .failure(.pairing(Signed.address, .identityRefused(identity))))
      #expect(bonds.bonds() == [other])
    }
  }

  /// A device whose identity address differs from the permanent address at which it is found: its bond is
  /// found by either.
  @Test func knowsABondByBothAddresses() async throws {
    let identity = DeviceAddress(bits: 0x70CB_0D00_A1B6, type: .public)
    try await withBonds { bonds, folder in
      _ = try await pair(bonds, PeripheralProtection(.encrypted), of: identity).get()
      let again = BondFiles(in: folder) { Issue.record("\($0)") }
      #expect(again.bonds() == bonds.bonds())
      #expect(again.bonds().map(\.device) == [identity])
      for address in [identity, Signed.address] {
        #expect(again.bonds().allSatisfy { $0.isMeant(by: address) })
      }
      #expect(try again.forget(Signed.address))
      #expect(again.bonds().isEmpty)
    }
  }
}

import BLEEmulation
import BLEHost
import BLELinux
import BLEPeripheral
import BLESecurity
import BLEStack
import BLEWire
import PeripheralKit
import Synchronization
import TestKit
import TestPeer
import Testing

/// Centrals that pair incorrectly or impersonate others: none can access protected values, and no bond is
/// affected.
@Suite(.timeLimit(.minutes(1))) struct PeripheralPairingFaultTests {
  static let services: [GATTServiceDescription] = {
    var protected = GATTCharacteristicDescription(BluetoothUUID(0xAA01), [.read, .write], value: [0x5E])
    protected.demand(.needs(.encrypted))
    var notified = GATTCharacteristicDescription(BluetoothUUID(0xAA02), .notify)
    notified.demand(.needs(.encrypted))
    return [GATTServiceDescription(BluetoothUUID(0xAA00), characteristics: [protected, notified])]
  }()

  /// An incorrect way to pair, and the device's reason. Core 5.4, Vol 3, Part H, 3.5.5.
  struct WrongWay: CustomTestStringConvertible, Sendable {
    let testDescription: String
    var isLegacy = false
    var passkeyError: UInt32?
    var edit: HostileTransport.Edit = { [$1] }
    let reason: PairingFailure
  }

  /// Flips one bit of the first PDU with this code.
  private static func spoil(_ code: UInt8) -> HostileTransport.Edit {
    { channel, payload in
      guard channel == 6, payload[0] == code else { return [payload] }
      return [payload.dropLast() + [payload[payload.count - 1] ^ 1]]
    }
  }

  static let wrongWays = [
    WrongWay(testDescription: "another passkey", passkeyError: 1, reason: .confirmValueFailed),
    WrongWay(
      testDescription: "another passkey, legacy", isLegacy: true, passkeyError: 1, reason: .confirmValueFailed
    ),
    WrongWay(
      testDescription: "a confirm value that does not fit", isLegacy: true, edit: spoil(0x03),
      reason: .confirmValueFailed),
    WrongWay(testDescription: "a check that does not fit", edit: spoil(0x0D), reason: .dhKeyCheckFailed),
    WrongWay(
      testDescription: "no point of the curve",
      edit: { channel, payload in
        channel == 6 && payload[0] == 0x0C ? [[0x0C] + [UInt8](repeating: 1, count: 64)] : [payload]
      }, reason: .invalidParameters),
    WrongWay(
      testDescription: "a check instead of a key",
      edit: { channel, payload in
        channel == 6 && payload[0] == 0x0C ? [[0x0D] + [UInt8](repeating: 1, count: 16)] : [payload]
      }, reason: .unspecifiedReason),
    WrongWay(
      testDescription: "a key that is too short",
      edit: { channel, payload in
        channel == 6 && payload[0] == 0x01 ? [payload[..<4] + [7] + payload[5...]] : [payload]
      }, reason: .encryptionKeySize),
    WrongWay(
      testDescription: "a request of another length",
      edit: { channel, payload in
        channel == 6 && payload[0] == 0x0C ? [payload.dropLast()] : [payload]
      }, reason: .invalidParameters),
  ]

  @Test(arguments: wrongWays) func refusesAWrongPairing(_ way: WrongWay) async throws {
    let shown = Mutex<UInt32>(0)
    let bench = try await Bench.open(
      agent: way.passkeyError == nil
        ? .nobody : PairingAgent(.displayOnly, showPasskey: { number in shown.withLock { $0 = number } }),
      isLegacy: way.isLegacy, edit: way.edit)
    try await bench.serve { server in
      let bonds = KeptBonds()
      try await bench.secureCentral(
        bonds, isLegacy: way.isLegacy,
        agent: way.passkeyError.map { error in
          PairingAgent(.keyboardOnly, askPasskey: { shown.withLock { ($0 + error) % 1_000_000 } })
        } ?? .nobody)
      let connection = try await bench.device.connect()
      #expect(await bench.pair(connection) == .refused(way.reason))
      #expect(await server.statistics.failedPairings == 1)
      // A retry at once must wait. Core 5.4, Vol 3, Part H, 2.3.6.
      #expect(await bench.pair(connection) == .tooSoon)
      let handle = try await server.require(BluetoothUUID(0xAA01))
      #expect(try await connection.answer(to: "0a" + handle.octets) == "010a\(handle.octets)05")
      #expect(bench.bonds.bonds().isEmpty && bonds.bonds().isEmpty)
      await connection.close()
    }
  }

  /// 30 s without a PDU: the pairing fails, and no more SMP PDUs are sent on this link. Core 5.4, Vol 3, Part
  /// H, 3.4.
  @Test func givesASilentPairingUp() async throws {
    let bench = try await Bench.open(edit: { channel, payload in
      channel == 6 && payload[0] == 0x0C ? [] : [payload]
    })
    try await bench.serve { server in
      try await bench.secureCentral(KeptBonds())
      let connection = try await bench.device.connect()
      let start = bench.device.loop.clock.monotonic()
      #expect(await bench.pair(connection) == .timedOut)
      let time = Double((bench.device.loop.clock.monotonic() - start).nanoseconds) / 1e9
      #expect((30.0...30.1).contains(time))
      try await bench.device.loop.wait(for: .seconds(1))
      #expect(await server.statistics.failedPairings == 1)
      let handle = try await server.require(BluetoothUUID(0xAA01))
      #expect(try await connection.answer(to: "0a" + handle.octets) == "010a\(handle.octets)05")
      await connection.close()
    }
  }

  // MARK: Another device's address and identity

  /// A central with the address of a bonded one, but without its key. It cannot read protected values, gets
  /// no notifications and does not replace the other's bond. The bonded central finds everything unchanged.
  @Test func doesNotTakeAnAddressForAKey() async throws {
    let bench = try await Bench.open()
    try await bench.serve { server in
      let (own, other) = (KeptBonds(), KeptBonds())
      let value = try await server.require(BluetoothUUID(0xAA01)).octets
      let notified = try await server.require(BluetoothUUID(0xAA02))
      let cccd = AttributeHandle(notified.rawValue + 1).octets
      try await bench.secureCentral(own)
      try await bench.withLink { (connection) async throws in
        #expect(await bench.pair(connection) == nil)
        #expect(try await connection.answer(to: "0a" + value) == "0b5e")
        #expect(try await connection.answer(to: "12\(cccd)0100") == "13")
      }
      let bond = try #require(bench.bonds.bonds().first)
      #expect(bench.bonds.bonds().count == 1)

      try await bench.secureCentral(other)
      try await bench.withLink { (connection) async throws in
        // Insufficient Encryption: the device has a key for this address.
        #expect(try await connection.answer(to: "0a" + value) == "010a\(value)0f")
        #expect(try await connection.answer(to: "12\(value)00") == "0112\(value)0f")
        #expect(await server.subscribers(of: notified).isEmpty)
        await #expect(throws: GATTServerError.notSubscribed) {
          try await server.notify([1], of: notified, to: await server.centrals[0])
        }
      }
      // With a wrong key the link ends, because its packets do not authenticate.
      var wrong = try #require(own.bonds().first)
      wrong.bond.peerKey?.key ^= 1
      other.keep(wrong)
      await #expect(throws: HostError.notEncrypted(wrong.device, .micFailure)) {
        try await bench.withLink { _ in }
      }
      #expect(await server.subscribers(of: notified).isEmpty)
      try await bench.device.loop.wait(for: .seconds(1))
      // Just Works would let anyone replace the bonded central.
      other.forgetAll()
      try await bench.secureCentral(other)
      try await bench.withLink { (connection) async throws in
        #expect(await bench.pair(connection) == .refused(.authenticationRequirements))
        #expect(try await connection.answer(to: "0a" + value) == "010a\(value)0f")
      }
      #expect(await server.statistics.failedPairings == 1)
      #expect(bench.bonds.bonds() == [bond])

      try await bench.secureCentral(own)
      try await bench.withLink { (connection) async throws in
        #expect(try await connection.answer(to: "0a" + value) == "0b5e")
        #expect(await server.subscribers(of: notified).count == 1)
      }
    }
  }

  /// A new central that claims the bonded one's identity during pairing: no key proves that.
  @Test func doesNotTakeAnIdentityForAKey() async throws {
    let victim = DeviceAddress(bits: 0x00AA_0100_0001, type: .public)
    let isThief = Mutex(false)
    let bench = try await Bench.open(
      centrals: 2,
      edit: { channel, payload in
        guard channel == 6, isThief.withLock({ $0 }) else { return [payload] }
        switch payload[0] {
        // Offers an identity in addition to its other keys.
        case 0x01: return [payload[..<5] + [payload[5] | 0x02] + payload[6...]]
        // Signing Information is followed by Identity Information and Identity Address.
        case 0x0A:
          let address = [UInt8](encoding: 6) { $0.append(victim) }
          return [[0x08] + [UInt8](repeating: 9, count: 16), [0x09, 0x00] + address, payload]
        default: return [payload]
        }
      },
      hear: { channel, payload in
        guard channel == 6, payload[0] == 0x02, isThief.withLock({ $0 }) else { return [payload] }
        return [payload[..<5] + [payload[5] & ~0x02] + payload[6...]]
      })
    try await bench.serve { server in
      let value = try await server.require(BluetoothUUID(0xAA01)).octets
      let notified = try await server.require(BluetoothUUID(0xAA02))
      let cccd = AttributeHandle(notified.rawValue + 1).octets
      try await bench.secureCentral(KeptBonds())
      try await bench.withLink { (connection) async throws in
        #expect(await bench.pair(connection) == nil)
        #expect(try await connection.answer(to: "12\(cccd)0100") == "13")
      }
      let bond = try #require(bench.bonds.bonds().first)
      #expect(bond.device == victim)

      isThief.withLock { $0 = true }
      try await bench.secureCentral(KeptBonds(), 1)
      try await bench.withLink(1) { (connection) async throws in
        #expect(await bench.pair(connection, 1) == nil)
        // It has paired, and may access what any paired central may.
        #expect(try await connection.answer(to: "0a" + value) == "0b5e")
        #expect(await server.subscribers(of: notified).isEmpty)
      }
      #expect(bench.bonds.bonds() == [bond])
      isThief.withLock { $0 = false }
      try await bench.withLink { (connection) async throws in
        #expect(try await connection.answer(to: "0a" + value) == "0b5e")
        #expect(await server.subscribers(of: notified).count == 1)
      }
    }
  }

  // MARK: Parts

  /// A device that stores bonds, and centrals whose packets are modified.
  private struct Bench {
    let device: VirtualDevice
    let bonds = KeptBonds()
    let settings: SecuritySettings

    static func open(
      centrals: Int = 1, agent: PairingAgent = .nobody, isLegacy: Bool = false,
      edit: @escaping HostileTransport.Edit = { [$1] }, hear: @escaping HostileTransport.Edit = { [$1] }
    ) async throws -> Bench {
      let device = try await VirtualDevice.open(
        centrals: centrals, pace: .air,
        clock: .virtual(from: ReceiveTime(nanoseconds: 1_700_000_000_000_000_000)),
        wrap: { HostileTransport($0, sending: edit, receiving: hear) })
      return Bench(device: device, agent: agent, makeKeyPair: isLegacy ? nil : try P256KeyPair.maker())
    }

    private init(
      device: VirtualDevice, agent: PairingAgent, makeKeyPair: (@Sendable () -> any P256KeyAgreement)?
    ) {
      self.device = device
      settings = SecuritySettings(agent: agent, raising: .byPairing, store: bonds, makeKeyPair: makeKeyPair)
    }

    func serve(_ body: (GATTServer) async throws -> Void) async throws {
      try await withTaskExecutorPreference(device.loop.preference) {
        try await device.host.secure(settings)
        try await device.serve(PeripheralPairingFaultTests.services, body)
      }
      await device.close()
    }

    /// Gives a central its keys, or removes them. It pairs only when told to.
    func secureCentral(
      _ store: KeptBonds, _ index: Int = 0, raising: SecuritySettings.Raising = .byStoredKey,
      isLegacy: Bool = false, agent: PairingAgent = .nobody
    ) async throws {
      try await device.centrals[index].secure(
        SecuritySettings(
          agent: agent, raising: raising, store: store,
          makeKeyPair: isLegacy ? nil : try P256KeyPair.maker()))
    }

    /// - Returns: reason of the failure.
    func pair(_ connection: Connection, _ index: Int = 0) async -> PairingError? {
      do throws(HostError) { _ = try await device.centrals[index].pair(connection) } catch {
        if case .pairing(_, let reason) = error { return reason }
        Issue.record(error)
      }
      return nil
    }

    func withLink(_ index: Int = 0, _ body: (Connection) async throws -> Void) async throws {
      let connection = try await device.connect(index)
      try await body(connection)
      await connection.close()
      // The device is notified, too.
      try await device.loop.wait(for: .seconds(1))
    }
  }
}

extension AttributeHandle {
  /// In wire order.
  var octets: String { hexOf([UInt8(rawValue & 0xFF), UInt8(rawValue >> 8)]) }
}

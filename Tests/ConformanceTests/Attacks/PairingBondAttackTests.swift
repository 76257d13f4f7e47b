import BLEHost
import BLEPeripheral
import BLESecurity
import BLEStack
import BLEWire
import TestKit
import TestPeer
import Testing

/// Published attacks on a bond: a device or a central returns without its key, or pairs again to replace the
/// bond.
@Suite(.timeLimit(.minutes(1))) struct PairingBondAttackTests {
  private static let link = PairingAttacker.link
  private static let other = DeviceAddress(bits: 0xC0FF_EE00_0002, type: .random)

  private func attack(
    as local: DeviceAddress = PairingAttacker.local, _ body: (PairingAttacker) async throws -> Void
  ) async throws {
    let attacker = try await PairingAttacker.open(as: local)
    try await body(attacker)
    await attacker.close()
  }

  // MARK: BLESA

  /// The impostor refuses encryption, hoping that the host continues in plain text.
  @Test(arguments: [0x06, 0x05, 0x1A, 0x1F, 0x29, 0x3D] as [UInt8], [false, true])
  func asksNothingOfADeviceWithoutItsKey(_ status: UInt8, _ isSecure: Bool) async throws {
    try await attack { attacker in
      let stored = attacker.keepBond(isSecure: isSecure)
      try await attacker.secure { $0.raising = .byStoredKey }
      attacker.controller.refuse(by: status)
      await #expect(throws: HostError.notEncrypted(stored.device, HCIStatus(rawValue: status))) {
        _ = try await attacker.connect()
      }
      try await eventually("the end") { attacker.controller.heard().contains(.disconnection) }
      #expect(attacker.controller.heard() == [.encryption(PairingAttacker.key), .disconnection])
      #expect(attacker.bonds.bonds() == [stored])
    }
  }

  /// The impostor neither encrypts nor asks for encryption: its values require no security. The host sends no
  /// request before encryption, and none after encryption has ended.
  @Test func asksNothingOnceEncryptionEnds() async throws {
    try await attack { attacker in
      attacker.keepBond()
      try await attacker.secure { $0.raising = .byStoredKey }
      attacker.controller.know(PairingAttacker.key)
      let connection = try await attacker.connect()
      #expect(attacker.controller.heard() == [.encryption(PairingAttacker.key)])
      let security = await connection.link.security
      #expect(security?.isEncrypted == true && security?.isBonded == true && security?.keyByteCount == 16)
      attacker.controller.encryptionChanged(isOn: false)
      try await eventually("the end") { attacker.controller.heard().contains(.disconnection) }
      #expect(await connection.ended() == .encryptionLost)
      await #expect(throws: GATTError.self) { _ = try await connection.read(AttributeHandle(3)) }
      #expect(attacker.controller.attributesOfHost() == [])
    }
  }

  /// The same from a central: it cannot read or change values that require encryption.
  @Test func givesNothingToACentralWithoutItsKey() async throws {
    try await attack { attacker in
      let stored = attacker.keepBond()
      try await attacker.secure()
      try await attacker.serve { server in
        try await attacker.arrive()
        // Insufficient Encryption: this side has a key for that address.
        #expect(try await attacker.readsProtected(server).hasSuffix("0f"))
        attacker.controller.requestKey(random: 0x0102_0304_0506_0708, diversifier: 0x1234)
        #expect(try await attacker.controller.keyAnswer() == nil)
        // A controller that has accepted another key nevertheless.
        attacker.controller.encryptionChanged()
        #expect(try await attacker.readsProtected(server).hasSuffix("0f"))
      }
      #expect(attacker.bonds.bonds() == [stored])
    }
  }

  // MARK: BLERP

  /// Offers of an impostor that wants to pair again at a lower level.
  private static func weaker(_ way: Int) throws -> PairingAttacker.Manners {
    var manners = try PairingAttacker.Manners()
    switch way {
    // Just Works.
    case 0: break
    // Legacy pairing by Just Works.
    case 1: (manners.keyPair, manners.features.requirements) = (nil, .bonding)
    // Legacy pairing with a passkey.
    case 2:
      manners.keyPair = nil
      manners.features.requirements = [.bonding, .authenticated]
      manners.features.capability = .keyboardDisplay
      manners.passkey = 123_456
    // A shorter key.
    default: manners.features.maximumKeyByteCount = 7
    }
    return manners
  }

  /// An impostor of a peripheral claims that its key is lost, requests security, and offers less than the
  /// bond's level.
  @Test(arguments: 0...3, [false, true])
  func keepsTheBondOfADeviceThatPairsAgain(_ way: Int, _ asksFirst: Bool) async throws {
    try await attack { attacker in
      let stored = attacker.keepBond(isAuthenticated: true)
      try await attacker.secure {
        $0.minimumKeyByteCount = 7
        $0.agent = PairingAgent(.keyboardDisplay, askPasskey: { 123_456 }, compare: { _ in true })
      }
      let connection = try await attacker.connect()
      async let outcome = attacker.pair(.responder, Self.weaker(way))
      if asksFirst {
        // Security Request: bonding, MITM protection, Secure Connections.
        attacker.controller.say("0b0d")
      } else {
        #expect(await attacker.hostPairs(connection) == .weakerThanBond)
      }
      #expect(try await outcome == .failure(.refused(.authenticationRequirements)))
      #expect(attacker.bonds.bonds() == [stored])
      // The key was tried once, in vain, and the pairing produced no other key.
      #expect(
        attacker.controller.heard().filter { if case .encryption = $0 { true } else { false } }.count == 1)
      await connection.close()
    }
  }

  /// A capture does not pair: a Security Request does not start a pairing.
  @Test(arguments: ["0b01", "0b05", "0b0d", "0b00", "0bff"])
  func doesNotPairAgainUnasked(_ request: String) async throws {
    try await attack { attacker in
      let stored = attacker.keepBond()
      try await attacker.secure { $0.raising = .byStoredKey }
      attacker.controller.know(PairingAttacker.key)
      let connection = try await attacker.connect()
      for _ in 0..<20 { attacker.controller.say(request) }
      var heard = try await attacker.controller.fence()
      // The host reacts after the batch.
      heard += try await attacker.controller.fence()
      #expect(heard == [.encryption(PairingAttacker.key)])
      #expect(attacker.bonds.bonds() == [stored])
      await connection.close()
    }
  }

  /// An impostor of a central pairs again: only an authenticated pairing of at least the same level may
  /// replace the bond.
  @Test(arguments: 0...3, [false, true])
  func keepsTheBondOfACentralThatPairsAgain(_ way: Int, _ isAuthenticated: Bool) async throws {
    try await attack { attacker in
      let stored = attacker.keepBond(isAuthenticated: isAuthenticated)
      try await attacker.secure {
        $0.minimumKeyByteCount = 7
        $0.agent = PairingAgent(.keyboardDisplay, askPasskey: { 123_456 }, compare: { _ in true })
      }
      try await attacker.serve { server in
        try await attacker.arrive()
        let outcome = try await attacker.pair(.initiator, Self.weaker(way))
        #expect(outcome == .failure(.refused(.authenticationRequirements)))
        attacker.controller.requestKey()
        // The bond's key, which the impostor does not have: none of its packets pass.
        #expect(try await attacker.controller.keyAnswer() == PairingAttacker.key)
      }
      #expect(attacker.bonds.bonds() == [stored])
    }
  }

  /// Both at once, on two links of one host: a man in the middle between the host and its device, and between
  /// the host and its central.
  @Test func keepsBothBondsOfAManInTheMiddle() async throws {
    try await attack { attacker in
      attacker.keepBond(isAuthenticated: true)
      attacker.keepBond(isAuthenticated: true, with: Self.other)
      let stored = attacker.bonds.bonds()
      try await attacker.secure()
      try await attacker.serve { server in
        let connection = try await attacker.connect()
        try await attacker.arrive(0x50, from: Self.other)
        async let device = attacker.pair(.responder, Self.weaker(0))
        async let central = attacker.pair(.initiator, Self.weaker(0), 0x50, as: Self.other)
        #expect(await attacker.hostPairs(connection) == .weakerThanBond)
        #expect(try await device == .failure(.refused(.authenticationRequirements)))
        #expect(try await central == .failure(.refused(.authenticationRequirements)))
        #expect(attacker.bonds.bonds() == stored)
        await connection.close()
      }
    }
  }

  // MARK: A pairing that fails

  /// The PDU at which the impostor breaks the pairing, and how.
  private static func spoiled(_ code: SecurityManagerCode, _ isFailed: Bool) throws -> PairingAttacker.Manners
  {
    var manners = try PairingAttacker.Manners()
    manners.features.requirements.insert(.authenticated)
    manners.features.capability = .displayYesNo
    manners.edit = { pdu in
      guard pdu.code == code else { return [pdu] }
      if isFailed { return [.pairingFailed(.unspecifiedReason)] }
      switch pdu {
      case .pairingConfirm(let value): return [.pairingConfirm(value ^ 1)]
      case .pairingRandom(let value): return [.pairingRandom(value ^ 1)]
      case .dhKeyCheck(let value): return [.dhKeyCheck(value ^ 1)]
      default: return [.keypress(0), .pairingRandom(0)]
      }
    }
    return manners
  }

  private static let deviceSteps: [SecurityManagerCode] = [
    .pairingResponse, .publicKey, .pairingConfirm, .pairingRandom, .dhKeyCheck,
  ]

  /// NimBLE 2206: wherever a pairing fails, the bond still works on the next link.
  @Test(arguments: deviceSteps, [false, true])
  func keepsABondWhenItsDeviceSpoilsAPairing(_ step: SecurityManagerCode, _ isFailed: Bool) async throws {
    try await attack { attacker in
      let stored = attacker.keepBond(isAuthenticated: true)
      try await attacker.secure { $0.agent = PairingAgent(.displayYesNo, compare: { _ in true }) }
      let first = try await attacker.connect()
      async let outcome = attacker.pair(.responder, Self.spoiled(step, isFailed))
      #expect(await attacker.hostPairs(first) != nil)
      await first.close()
      _ = try await outcome
      #expect(attacker.bonds.bonds() == [stored])
      attacker.controller.know(PairingAttacker.key)
      let second = try await attacker.connect()
      #expect(await attacker.host.isEncrypted(second))
      await second.close()
    }
  }

  /// The same by a central: the host still provides the bond's key.
  @Test(arguments: [.publicKey, .pairingRandom, .dhKeyCheck] as [SecurityManagerCode], [false, true])
  func keepsABondWhenItsCentralSpoilsAPairing(_ step: SecurityManagerCode, _ isFailed: Bool) async throws {
    try await attack { attacker in
      let stored = attacker.keepBond()
      try await attacker.secure { $0.agent = PairingAgent(.displayYesNo, compare: { _ in true }) }
      try await attacker.serve { server in
        try await attacker.arrive()
        // A wrong random number is detected at the check.
        let outcome = try await attacker.pair(.initiator, Self.spoiled(step, isFailed))
        #expect(throws: PairingError.self) { try outcome.get() }
        attacker.controller.know(PairingAttacker.key)
        attacker.controller.requestKey()
        #expect(try await attacker.controller.keyAnswer() == PairingAttacker.key)
        #expect(try await attacker.readsProtected(server) == "0b5e")
      }
      #expect(attacker.bonds.bonds() == [stored])
    }
  }

  // MARK: Identities and addresses

  /// CVE-2021-3436: a peer claims another device's identity during pairing, or an invalid one.
  private static let identities = [
    other, DeviceAddress(bits: 0, type: .public), DeviceAddress(bits: 0xFFFF_FFFF_FFFF, type: .public),
    DeviceAddress(bits: 0x4000_0000_0001, type: .random),
    DeviceAddress(bits: 0x0000_0000_0001, type: .random),
  ]

  @Test(arguments: identities, [Pairing.Role.initiator, .responder])
  func keepsTheBondOfAnIdentityThatIsNamed(_ identity: DeviceAddress, _ role: Pairing.Role) async throws {
    try await attack { attacker in
      let victim = attacker.keepBond(with: Self.other)
      try await attacker.secure()
      var manners = try PairingAttacker.Manners()
      manners.identity = DeviceIdentity(resolvingKey: 7, address: identity)
      if role == .responder {
        let connection = try await attacker.connect()
        async let outcome = attacker.pair(role, manners)
        #expect(await attacker.hostPairs(connection) == .identityRefused(identity))
        #expect(try await outcome.get().isSecureConnections)
        await connection.close()
      } else {
        try await attacker.serve { _ in
          try await attacker.arrive()
          _ = try await attacker.pair(role, manners).get()
          try await attacker.controller.fence()
        }
      }
      #expect(attacker.bonds.bonds() == [victim])
    }
  }

  /// The controller's address differs from the one under which a device was bonded. The device would not know
  /// the key; nothing is read in plain text, and the bond stays.
  @Test func refusesABondOfAnotherAddressOfOurs() async throws {
    let now = DeviceAddress(bits: 0x0000_5E00_5302, type: .public)
    try await attack(as: now) { attacker in
      let stored = attacker.keepBond()
      try await attacker.secure { $0.raising = .byStoredKey }
      let error = await #expect(throws: HostError.self) { _ = try await attacker.connect() }
      let text = try #require(error).description
      #expect(text.contains("\(PairingAttacker.local)") && text.contains("\(now)"))
      #expect(attacker.controller.attributesOfHost() == [])
      #expect(attacker.bonds.bonds() == [stored])
    }
  }
}

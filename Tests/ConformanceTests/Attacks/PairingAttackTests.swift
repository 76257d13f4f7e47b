import BLEHost
import BLEPeripheral
import BLESecurity
import BLEStack
import BLEWire
import Synchronization
import TestKit
import TestPeer
import Testing

/// Published attacks on a pairing: by a device that the host pairs with, and by a central that pairs with the
/// host.
///
/// Reasons of Pairing Failed: Core 5.4, Vol 3, Part H, 3.5.5.
@Suite(.timeLimit(.minutes(1))) struct PairingAttackTests {
  private func attack(_ body: (PairingAttacker) async throws -> Void) async throws {
    let attacker = try await PairingAttacker.open()
    try await body(attacker)
    await attacker.close()
  }

  /// Pairs with a host that accepts everything that its settings allow.
  ///
  /// - Returns: the peer's result.
  private func outcome(
    _ role: Pairing.Role, _ manners: PairingAttacker.Manners, minimum: UInt8 = 16,
    agent: PairingAgent = .nobody,
    makeKeyPair: (@Sendable () -> any P256KeyAgreement)? = nil
  ) async throws -> Result<Bond, PairingError> {
    let attacker = try await PairingAttacker.open()
    try await attacker.secure {
      ($0.minimumKeyByteCount, $0.agent) = (minimum, agent)
      if let makeKeyPair { $0.makeKeyPair = makeKeyPair }
    }
    var result: Result<Bond, PairingError>?
    if role == .responder {
      let connection = try await attacker.connect()
      async let outcome = attacker.pair(role, manners)
      let error = await attacker.hostPairs(connection)
      result = try await outcome
      #expect((error == nil) == (attacker.bonds.bonds().count == 1))
      await connection.close()
    } else {
      try await attacker.serve { server in
        try await attacker.arrive()
        let outcome = try await attacker.pair(role, manners)
        result = outcome
        let read = try await attacker.readsProtected(server)
        if case .success = outcome {
          #expect(read == "0b5e")
        } else {
          // Insufficient Authentication: there is no bond.
          #expect(read.hasSuffix("05"))
          #expect(await server.statistics.failedPairings == 1)
          #expect(attacker.bonds.bonds().isEmpty)
        }
      }
    }
    await attacker.close()
    return try #require(result)
  }

  private static let roles = [Pairing.Role.initiator, .responder]

  // MARK: Key sizes

  /// KNOB: keys of 7 to 15 bytes are refused, unless shorter keys are allowed.
  @Test(arguments: roles, 7...15 as ClosedRange<UInt8>)
  func refusesShortKeys(_ role: Pairing.Role, _ size: UInt8) async throws {
    var manners = try PairingAttacker.Manners()
    manners.features.maximumKeyByteCount = size
    #expect(try await outcome(role, manners) == .failure(.refused(.encryptionKeySize)))
  }

  @Test(arguments: roles, [7, 12] as [UInt8])
  func shortensKeysWhereThatIsAllowed(_ role: Pairing.Role, _ size: UInt8) async throws {
    var manners = try PairingAttacker.Manners()
    manners.features.maximumKeyByteCount = size
    let bond = try await outcome(role, manners, minimum: 7).get()
    #expect(bond.keyByteCount == size)
    #expect(try #require(bond.peerKey?.key) >> (8 * UInt128(size)) == 0)
    #expect(try await outcome(role, manners, minimum: size + 1) == .failure(.refused(.encryptionKeySize)))
  }

  /// CVE-2019-19196: invalid key sizes, of which a host must not make keys.
  @Test(arguments: roles, [0, 1, 6, 17, 32, 253, 255] as [UInt8])
  func refusesKeySizesThatThereAreNot(_ role: Pairing.Role, _ size: UInt8) async throws {
    var manners = try PairingAttacker.Manners()
    manners.edit = { pdu in
      switch pdu {
      case .pairingRequest(var features):
        features.maximumKeyByteCount = size
        return [.pairingRequest(features)]
      case .pairingResponse(var features):
        features.maximumKeyByteCount = size
        return [.pairingResponse(features)]
      default: return [pdu]
      }
    }
    #expect(try await outcome(role, manners, minimum: 7) == .failure(.refused(.invalidParameters)))
  }

  // MARK: Public keys

  /// Modifies the peer's public key.
  private static func altered(_ way: Int, _ key: P256PublicKey) -> P256PublicKey {
    let zero = P256Coordinate(high: 0, low: 0)
    let ones = P256Coordinate(high: .max, low: .max)
    return switch way {
    // The fixed coordinate attack: both sides' y are replaced.
    case 0: P256PublicKey(x: key.x, y: zero)
    case 1: P256PublicKey(x: key.x, y: P256Coordinate(high: key.y.high, low: key.y.low ^ 1))
    case 2: P256PublicKey(x: zero, y: zero)
    case 3: P256PublicKey(x: ones, y: ones)
    case 4: P256PublicKey(x: P256Coordinate(high: key.x.high ^ 1, low: key.x.low), y: key.y)
    default: .debug
    }
  }

  /// CVE-2018-5383: a point that is not on the curve reveals the secret.
  @Test(arguments: roles, 0...5) func refusesWrongPoints(_ role: Pairing.Role, _ way: Int) async throws {
    var manners = try PairingAttacker.Manners()
    manners.edit = { pdu in
      if case .publicKey(let key) = pdu { [.publicKey(Self.altered(way, key))] } else { [pdu] }
    }
    #expect(try await outcome(role, manners) == .failure(.refused(.invalidParameters)))
  }

  /// CVE-2020-26558: the host's own X coordinate is reflected, with its y or with the other y of that x.
  @Test(arguments: roles, [false, true]) func refusesItsOwnKey(_ role: Pairing.Role, _ isNegated: Bool)
    async throws
  {
    // The same key pair for the whole run, so that a central knows it before the host has sent it.
    let pair = try P256KeyPair.maker()()
    let own = pair.publicKey
    let x = own.x
    // p − y.
    let y = isNegated ? Self.negated(own.y) : own.y
    var manners = try PairingAttacker.Manners()
    manners.features.capability = .displayOnly
    manners.features.requirements.insert(.authenticated)
    manners.edit = { pdu in
      if case .publicKey = pdu { [.publicKey(P256PublicKey(x: x, y: y))] } else { [pdu] }
    }
    let agent = PairingAgent(.keyboardOnly, askPasskey: { 123_456 })
    let result = try await outcome(role, manners, agent: agent, makeKeyPair: { pair })
    #expect(result == .failure(.refused(.invalidParameters)))
  }

  /// p − y, with p = 2²⁵⁶ − 2²²⁴ + 2¹⁹² + 2⁹⁶ − 1. FIPS 186-4, D.1.2.3.
  private static func negated(_ y: P256Coordinate) -> P256Coordinate {
    let high: UInt128 = 0xFFFF_FFFF_0000_0001_0000_0000_0000_0000
    let low: UInt128 = 0x0000_0000_FFFF_FFFF_FFFF_FFFF_FFFF_FFFF
    let (rest, borrows) = low.subtractingReportingOverflow(y.low)
    return P256Coordinate(high: high &- y.high &- (borrows ? 1 : 0), low: rest)
  }

  /// CVE-2020-26558: the host's own confirm value and random number are reflected, with each pairing method.
  @Test(arguments: [false, true], [nil, 123_456 as UInt32])
  func refusesItsOwnCommitment(_ isLegacy: Bool, _ passkey: UInt32?) async throws {
    try await attack { attacker in
      try await attacker.secure {
        if passkey != nil { $0.agent = PairingAgent(.keyboardOnly, askPasskey: { passkey }) }
        if isLegacy { $0.makeKeyPair = nil }
      }
      let connection = try await attacker.connect()
      let peer = attacker.controller
      let key = try P256KeyPair.maker()().publicKey
      async let outcome = attacker.hostPairs(connection)
      // DisplayOnly with MITM protection; Secure Connections if the host supports them.
      _ = try await peer.answer()
      peer.say(isLegacy ? "02000005100000" : "0200000d100000")
      if !isLegacy {
        _ = try await peer.answer()
        peer.say(.publicKey(key))
      }
      if isLegacy || passkey != nil {
        let confirm = try await peer.answer()
        #expect(confirm.hasPrefix("03"))
        peer.say(confirm)
        // Legacy pairing detects it at once, Secure Connections when the random number does not match.
        if !isLegacy { peer.say(try await peer.answer()) }
      } else {
        peer.say("03" + String(repeating: "00", count: 16))
        peer.say(try await peer.answer())
      }
      #expect(try await peer.answer() == "0504")
      #expect(await outcome == .failed(.confirmValueFailed))
      #expect(attacker.bonds.bonds().isEmpty)
      await connection.close()
    }
  }

  // MARK: Encryption before the end

  /// The last PDU that a central sends before it starts encryption, for each PDU of a pairing.
  private static let steps: [SecurityManagerCode?] = [
    nil, .pairingRequest, .publicKey, .pairingConfirm, .pairingRandom, .dhKeyCheck,
  ]

  /// CVE-2019-19194 and CVE-2020-13593: a central starts encryption before the pairing has finished, after
  /// each of its PDUs and instead of each. The host provides no key, and ignores the controller's reports of
  /// encryption.
  @Test(arguments: steps, [nil, 123_456 as UInt32])
  func givesNoKeyBeforeTheEnd(_ step: SecurityManagerCode?, _ passkey: UInt32?) async throws {
    for isLegacy in [false, true] {
      try await attack { attacker in
        try await attacker.secure {
          if let passkey {
            $0.agent = PairingAgent(.displayOnly, showPasskey: { _ in }, askPasskey: { passkey })
          }
        }
        try await attacker.serve { server in
          try await attacker.arrive()
          let peer = attacker.controller
          try await Self.say(peer, upTo: step, isLegacy, passkey != nil)
          _ = try await peer.fence()
          for (random, diversifier) in [(0, 0), (PairingAttacker.random, PairingAttacker.diversifier)]
            as [(UInt64, UInt16)]
          {
            peer.requestKey(random: random, diversifier: diversifier)
            #expect(try await peer.keyAnswer() == nil)
          }
          // As if a controller had accepted a key of zeros.
          peer.encryptionChanged()
          #expect(try await attacker.readsProtected(server).hasSuffix("05"))
        }
        #expect(attacker.bonds.bonds().isEmpty)
      }
    }
  }

  /// Sends the central's PDUs of a pairing in which all values are zero, up to this PDU, which is the last
  /// that could still be valid.
  private static func say(
    _ peer: HandController, upTo last: SecurityManagerCode?, _ isLegacy: Bool, _ hasPasskey: Bool
  ) async throws {
    let zeros = String(repeating: "00", count: 16)
    guard let last else { return }
    peer.say((hasPasskey ? "01020" : "01030") + "0" + (isLegacy ? "05" : "0d") + "100000")
    guard last != .pairingRequest else { return }
    if !isLegacy { peer.say(.publicKey(try P256KeyPair.maker()().publicKey)) }
    guard last != .publicKey else { return }
    if isLegacy || hasPasskey { peer.say("03" + zeros) }
    guard last != .pairingConfirm else { return }
    // Just Works with Secure Connections accepts any value; the other methods detect the mismatch.
    peer.say("04" + zeros)
    guard last != .pairingRandom else { return }
    peer.say("0d" + zeros)
  }

  /// CVE-2020-13593 in the other direction: a device omits its DHKey Check, or sends a wrong one, and
  /// distributes keys.
  @Test(arguments: 0...3) func encryptsNothingWithoutTheCheck(_ way: Int) async throws {
    try await attack { attacker in
      try await attacker.secure()
      let connection = try await attacker.connect()
      var manners = try PairingAttacker.Manners()
      manners.edit = { pdu in
        guard case .dhKeyCheck = pdu else { return [pdu] }
        switch way {
        case 0: return [.dhKeyCheck(0)]
        case 1: return [.encryptionInformation(1), .centralIdentification(1, 1)]
        case 2: return [.identityInformation(1), .identityAddress(PairingAttacker.address)]
        default: return [.pairingRandom(0)]
        }
      }
      async let outcome = attacker.pair(.responder, manners)
      let error = await attacker.hostPairs(connection)
      #expect(error == .failed(way == 0 ? .dhKeyCheckFailed : .unspecifiedReason))
      _ = try await outcome
      #expect(!attacker.controller.heard().contains { if case .encryption = $0 { true } else { false } })
      #expect(attacker.bonds.bonds().isEmpty)
      await connection.close()
    }
  }

  /// Encryption Change before each PDU of the peer, for the link, for one that does not exist, and for another
  /// one: a pairing takes no step because of it, and encrypts once.
  @Test(arguments: roles, [PairingAttacker.link, 0x0EEE])
  func goesOnOverEncryptionOfOthers(_ role: Pairing.Role, _ link: UInt16) async throws {
    for isLegacy in [false, true] {
      try await attack { attacker in
        try await attacker.secure { if isLegacy { $0.makeKeyPair = nil } }
        var manners = try PairingAttacker.Manners()
        if isLegacy { (manners.keyPair, manners.features.requirements) = (nil, .bonding) }
        let controller = attacker.controller
        manners.edit = { pdu in
          controller.encryptionChanged(link)
          return [pdu]
        }
        if role == .initiator {
          try await attacker.serve { server in
            try await attacker.arrive()
            controller.encryptionChanged(link)
            #expect(try await attacker.readsProtected(server).hasSuffix("05"))
            _ = try await attacker.pair(.initiator, manners).get()
            #expect(try await attacker.readsProtected(server) == "0b5e")
          }
        } else {
          let connection = try await attacker.connect()
          async let outcome = attacker.pair(.responder, manners)
          #expect(await attacker.hostPairs(connection) == nil)
          _ = try await outcome.get()
          await connection.close()
        }
        // Each PDU of the host once: it has not distributed its keys again.
        let said = controller.heard().compactMap { if case .security(let pdu) = $0 { pdu } else { nil } }
        #expect(Set(said).count == said.count, "\(said)")
        #expect(attacker.bonds.bonds().count == 1)
      }
    }
  }

  /// A central pairs again. Then it encrypts with the key of its old bond, or its controller reports encryption
  /// without having asked for a key. The new key is not in force, so the host distributes no keys and keeps the
  /// old bond.
  @Test(arguments: [PairingAttacker.Key.old, .none])
  func endsNoPairingByAnotherKey(_ key: PairingAttacker.Key) async throws {
    try await attack { attacker in
      let stored = attacker.keepBond(isSecure: false)
      // By a passkey, without which a central does not replace a bond.
      try await attacker.secure {
        $0.agent = PairingAgent(.keyboardOnly, showPasskey: { _ in }, askPasskey: { 271_828 })
      }
      try await attacker.serve { server in
        try await attacker.arrive()
        var manners = try PairingAttacker.Manners()
        (manners.features.capability, manners.passkey, manners.key) = (.displayOnly, 271_828, key)
        manners.features.requirements.insert(.authenticated)
        _ = try await attacker.pair(.initiator, manners)
        let read = try await attacker.readsProtected(server)
        #expect(key == .old ? read == "0b5e" : read.hasSuffix("0f"))
      }
      let said = attacker.controller.heard().compactMap {
        if case .security(let pdu) = $0 { pdu } else { nil }
      }
      #expect(said.last?.hasPrefix("0d") == true, "\(said)")
      #expect(attacker.bonds.bonds() == [stored])
    }
  }

  /// CVE-2019-19194 from the other side: a long-term key of zeros, or key identification without a key, does
  /// not make a bond.
  @Test(arguments: roles, 0...2) func keepsNoKeyOfZeros(_ role: Pairing.Role, _ way: Int) async throws {
    try await attack { attacker in
      try await attacker.secure { $0.makeKeyPair = nil }
      var manners = try PairingAttacker.Manners()
      (manners.keyPair, manners.features.requirements) = (nil, .bonding)
      manners.edit = { pdu in
        switch (way, pdu) {
        case (0, .encryptionInformation): [.encryptionInformation(0)]
        // After its identification.
        case (1, .encryptionInformation): []
        case (1, .centralIdentification(let diversifier, let random)):
          [.centralIdentification(diversifier, random), .encryptionInformation(5)]
        case (2, .encryptionInformation): [.centralIdentification(0, 0)]
        default: [pdu]
        }
      }
      if role == .responder {
        let connection = try await attacker.connect()
        async let outcome = attacker.pair(role, manners)
        #expect(await attacker.hostPairs(connection) == .failed(.keyRejected))
        _ = try await outcome
        await connection.close()
      } else {
        try await attacker.serve { _ in
          try await attacker.arrive()
          _ = try await attacker.pair(role, manners)
          #expect(try await attacker.controller.fence().contains(.security("050f")))
        }
      }
      #expect(attacker.bonds.bonds().isEmpty)
    }
  }

  // MARK: PDUs at the wrong time

  private static let zeros = String(repeating: "00", count: 16)

  /// CVE-2019-17520: a public key before the features were exchanged, and in legacy pairing. BSFuzzer: random
  /// numbers, confirm values, checks and keys that arrive too early. The pairing fails, and the next valid
  /// one succeeds.
  @Test(arguments: [
    ["0c" + zeros + zeros + zeros + zeros], ["04" + zeros], ["03" + zeros], ["0d" + zeros], ["06" + zeros],
    ["08" + zeros, "09" + "01" + "c0ffee000001"], ["0a" + zeros], ["02030009100000"], ["0c"],
    ["0504", "0508"],
  ])
  func takesNothingBeforeItsTime(_ pdus: [String]) async throws {
    for (isLegacy, hasBegun) in [(false, false), (false, true), (true, true)] {
      try await attack { attacker in
        try await attacker.secure()
        try await attacker.serve { server in
          try await attacker.arrive()
          let peer = attacker.controller
          if hasBegun {
            peer.say(isLegacy ? "01030001100000" : "01030009100000")
            #expect(try await peer.answer().hasPrefix("02"))
          }
          // The PDU that legacy pairing, or Secure Connections, expects next.
          let isDue = hasBegun && pdus[0].hasPrefix(isLegacy ? "03" : "0c00")
          for pdu in pdus { peer.say(pdu) }
          _ = try await peer.fence()
          peer.requestKey()
          #expect(try await peer.keyAnswer() == nil)
          #expect(try await attacker.readsProtected(server).hasSuffix("05"))
          #expect(await server.statistics.failedPairings == (hasBegun && !(isDue && isLegacy) ? 1 : 0))
        }
        #expect(attacker.bonds.bonds().isEmpty)
      }
    }
  }

  /// The same from a device, before and after its Response.
  @Test(arguments: [
    "0c" + zeros + zeros + zeros + zeros, "04" + zeros, "0d" + zeros, "06" + zeros, "0a" + zeros,
  ])
  func takesNothingOfADeviceBeforeItsTime(_ pdu: String) async throws {
    for response in [nil, "02030009100000", "02030001100000"] {
      try await attack { attacker in
        try await attacker.secure()
        let connection = try await attacker.connect()
        async let outcome = attacker.hostPairs(connection)
        #expect(try await attacker.controller.answer().hasPrefix("01"))
        if let response { attacker.controller.say(response) }
        attacker.controller.say(pdu)
        // A point that is not on the curve, when a public key is expected.
        let isDue = pdu.hasPrefix("0c") && response == "02030009100000"
        #expect(await outcome == .failed(isDue ? .invalidParameters : .unspecifiedReason))
        #expect(!attacker.controller.heard().contains { if case .encryption = $0 { true } else { false } })
        #expect(attacker.bonds.bonds().isEmpty)
        await connection.close()
      }
    }
  }

  /// BSFuzzer: Pairing Failed at each step, and then encryption with the key as if the pairing had succeeded.
  @Test(arguments: [.publicKey, .pairingRandom, .dhKeyCheck] as [SecurityManagerCode])
  func forgetsTheKeyOfAPairingThatFailed(_ step: SecurityManagerCode) async throws {
    try await attack { attacker in
      try await attacker.secure()
      try await attacker.serve { server in
        try await attacker.arrive()
        var manners = try PairingAttacker.Manners()
        manners.edit = { $0.code == step ? [$0, .pairingFailed(.unspecifiedReason)] : [$0] }
        _ = try await attacker.pair(.initiator, manners)
        attacker.controller.requestKey()
        #expect(try await attacker.controller.keyAnswer() == nil)
        #expect(try await attacker.readsProtected(server).hasSuffix("05"))
        #expect(await server.statistics.failedPairings == 1)
      }
      #expect(attacker.bonds.bonds().isEmpty)
    }
  }

  /// BSFuzzer: floods. Each PDU gets at most one response, causes no prompt and no key, and another central
  /// can pair afterwards.
  @Test(arguments: [
    "01030009100000", "01030009100000|0508", "0b01", "0e00", "0508", "ff", "01", "0c", "04" + zeros,
    "01ffffffffffff",
  ])
  func standsAFlood(_ flood: String) async throws {
    try await attack { attacker in
      let prompts = Mutex(0)
      try await attacker.secure {
        $0.agent = PairingAgent(
          .displayYesNo,
          compare: { _ in
            prompts.withLock { $0 += 1 }
            return true
          })
      }
      try await attacker.serve { server in
        try await attacker.arrive()
        let pdus = flood.split(separator: "|").map(String.init)
        for _ in 0..<500 / pdus.count { for pdu in pdus { attacker.controller.say(pdu) } }
        let heard = try await attacker.controller.fence()
        #expect(heard.count <= 500)
        #expect(heard.allSatisfy { if case .security = $0 { true } else { false } })
        // Repeated Attempts: at least a second between two pairings, doubled after each.
        #expect(heard.count { if case .security(let hex) = $0 { hex.hasPrefix("02") } else { false } } <= 5)
        #expect(try await attacker.readsProtected(server).hasSuffix("05"))
        let other = DeviceAddress(bits: 0xC0FF_EE00_0002, type: .random)
        try await attacker.arrive(0x41, from: other)
        #expect(try await attacker.pair(.initiator, .init(), 0x41, as: other).get().isBonded)
        #expect(try await attacker.readsProtected(server, 0x41) == "0b5e")
      }
      #expect(prompts.withLock { $0 } == 0)
      #expect(attacker.bonds.bonds().count == 1)
    }
  }

  // MARK: Links

  /// A pairing's PDUs and key on one link do not apply to another link.
  @Test func keepsLinksApart() async throws {
    let other = DeviceAddress(bits: 0xC0FF_EE00_0002, type: .random)
    try await attack { attacker in
      try await attacker.secure()
      try await attacker.serve { server in
        try await attacker.arrive()
        try await attacker.arrive(0x41, from: other)
        var manners = try PairingAttacker.Manners()
        let peer = attacker.controller
        // Each PDU of the pairing is also sent on the other link, followed by a failure; then the key is
        // requested there.
        manners.edit = { pdu in
          if pdu.code != .pairingRequest { peer.say(pdu, 0x41) }
          peer.say("0508", 0x41)
          peer.requestKey(0x41)
          return [pdu]
        }
        #expect(try await attacker.pair(.initiator, manners).get().isBonded)
        _ = try await peer.fence(0x41)
        #expect(peer.heard(0x41).contains(.key(nil)))
        #expect(!peer.heard(0x41).contains { if case .key(_?) = $0 { true } else { false } })
        #expect(try await attacker.readsProtected(server) == "0b5e")
        #expect(try await attacker.readsProtected(server, 0x41).hasSuffix("05"))
      }
      #expect(attacker.bonds.bonds().map(\.device) == [PairingAttacker.address])
    }
  }

  /// The same with two devices: a response on the other link, or that link's end, is ignored.
  @Test func keepsLinksToDevicesApart() async throws {
    let other = DeviceAddress(bits: 0xC0FF_EE00_0002, type: .random)
    try await attack { attacker in
      attacker.controller.expect([PairingAttacker.address, other])
      try await attacker.secure()
      let first = try await attacker.connect()
      let second = try await attacker.host.connect(
        to: other, asking: LinkRequest(), timeout: .seconds(10), tap: nil)
      var manners = try PairingAttacker.Manners()
      let peer = attacker.controller
      manners.edit = { pdu in
        peer.say(pdu, 0x41)
        peer.say("0508", 0x41)
        return [pdu]
      }
      async let outcome = attacker.pair(.responder, manners)
      #expect(await attacker.hostPairs(first) == nil)
      #expect(try await outcome.get().isBonded)
      _ = try await peer.fence(0x41)
      #expect(!peer.heard(0x41).contains { if case .encryption = $0 { true } else { false } })
      #expect(await !attacker.host.isEncrypted(second))
      #expect(attacker.bonds.bonds().map(\.device) == [PairingAttacker.address])
      await first.close()
      await second.close()
    }
  }

  /// Before the connection is complete: a request gets its response once the link is up, keys and encryption
  /// for an unknown link are ignored, and data for a link that never came up is discarded.
  @Test func waitsForTheLink() async throws {
    try await attack { attacker in
      try await attacker.secure()
      try await attacker.serve { server in
        try await eventually("advertising") { attacker.controller.isAdvertising }
        let peer = attacker.controller
        peer.say("01030009100000")
        peer.say("04" + Self.zeros)
        peer.say("01030009100000", 0x77)
        peer.requestKey()
        peer.encryptionChanged()
        try await attacker.arrive()
        // The Response, and a failure for a random number that arrived too early; no key.
        let heard = peer.heard()
        #expect(heard.count { if case .security(let hex) = $0 { hex.hasPrefix("02") } else { false } } == 1)
        #expect(heard.contains(.security("0508")))
        #expect(!heard.contains { if case .key = $0 { true } else { false } })
        #expect(peer.heard(0x77) == [])
        #expect(try await attacker.readsProtected(server).hasSuffix("05"))
        // The link comes up later, and its peer has sent nothing on it.
        try await attacker.arrive(0x77, from: DeviceAddress(bits: 0xC0FF_EE00_0002, type: .random))
        #expect(!peer.heard(0x77).contains { if case .security = $0 { true } else { false } })
        peer.say("01030009100000", 0x77)
        #expect(try await peer.answer(0x77).hasPrefix("02"))
      }
      #expect(attacker.bonds.bonds().isEmpty)
    }
  }

  // MARK: Prompts to the user

  /// Method confusion: the man in the middle makes one side display a number to compare, and the other ask
  /// for a passkey. The user is asked according to the method, and neither pairing succeeds with the other's
  /// number.
  @Test(arguments: roles, [IOCapability.displayYesNo, .keyboardOnly, .displayOnly])
  func asksForWhatThePairingIsBy(_ role: Pairing.Role, _ capability: IOCapability) async throws {
    let asked = Mutex<[String]>([])
    var manners = try PairingAttacker.Manners()
    manners.features.capability = capability
    manners.features.requirements.insert(.authenticated)
    manners.passkey = 271_828
    let agent = PairingAgent(
      .keyboardDisplay, showPasskey: { _ in asked.withLock { $0.append("show") } },
      askPasskey: {
        asked.withLock { $0.append("ask") }
        return 271_828
      },
      compare: { _ in
        asked.withLock { $0.append("compare") }
        return false
      })
    let result = try await outcome(role, manners, agent: agent)
    let wanted = [IOCapability.displayYesNo: "compare", .keyboardOnly: "show", .displayOnly: "ask"][
      capability]
    #expect(asked.withLock { $0 } == [wanted])
    switch capability {
    case .displayYesNo: #expect(result == .failure(.refused(.numericComparisonFailed)))
    case .displayOnly: #expect(try result.get().isAuthenticated)
    // The peer types another passkey than the displayed one.
    default:
      #expect(
        result == .failure(.refused(.confirmValueFailed)) || result == .failure(.failed(.confirmValueFailed)))
    }
  }
}

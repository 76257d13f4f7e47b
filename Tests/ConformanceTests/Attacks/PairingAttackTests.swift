import BLEHost
import BLEPeripheral
import BLESecurity
import BLEStack
import BLEWire
import Synchronization
import TestKit
import TestPeer
import Testing

/// Published attacks on a pairing, by a device that the host pairs with and by a central that pairs with the host.
///
/// Reasons of Pairing Failed: Core 5.4, Vol 3, Part H, 3.5.5.
@Suite(.timeLimit(.minutes(1))) struct PairingAttackTests {
  private func attack(_ body: (PairingAttacker) async throws -> Void) async throws {
    let attacker = try await PairingAttacker.open()
    try await body(attacker)
    await attacker.close()
  }

  /// Pairs by these manners with a host that does whatever it may.
  ///
  /// - Returns: how it ended for the peer.
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
          // Insufficient Authentication: nothing has come of it.
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

  /// KNOB: keys of 7 to 15 octets are refused, unless shorter ones were allowed.
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

  /// CVE-2019-19196: sizes that there are none of, of all of which a host must not make keys.
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

  /// Makes another key of the peer's.
  private static func altered(_ way: Int, _ key: P256PublicKey) -> P256PublicKey {
    let zero = P256Coordinate(high: 0, low: 0)
    let ones = P256Coordinate(high: .max, low: .max)
    return switch way {
    // The fixed coordinate attack: both sides' y replaced.
    case 0: P256PublicKey(x: key.x, y: zero)
    case 1: P256PublicKey(x: key.x, y: P256Coordinate(high: key.y.high, low: key.y.low ^ 1))
    case 2: P256PublicKey(x: zero, y: zero)
    case 3: P256PublicKey(x: ones, y: ones)
    case 4: P256PublicKey(x: P256Coordinate(high: key.x.high ^ 1, low: key.x.low), y: key.y)
    default: .debug
    }
  }

  /// CVE-2018-5383: a point that is not on the curve gives the secret away.
  @Test(arguments: roles, 0...5) func refusesWrongPoints(_ role: Pairing.Role, _ way: Int) async throws {
    var manners = try PairingAttacker.Manners()
    manners.edit = { pdu in
      if case .publicKey(let key) = pdu { [.publicKey(Self.altered(way, key))] } else { [pdu] }
    }
    #expect(try await outcome(role, manners) == .failure(.refused(.invalidParameters)))
  }

  /// CVE-2020-26558: the host's own X coordinate comes back, with its y or with the other one of that x.
  @Test(arguments: roles, [false, true]) func refusesItsOwnKey(_ role: Pairing.Role, _ isNegated: Bool)
    async throws
  {
    // The same for the whole run, so that a central knows it before the host has said it.
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

  /// CVE-2020-26558: the host's own confirm value and random number come back, in each way to pair.
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
      // DisplayOnly with protection against a man in the middle; Secure Connections if the host has them.
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
        // Legacy pairing sees it at once, Secure Connections when the random number does not fit.
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

  /// What a central says before it begins to encrypt: a whole pairing up to that PDU.
  private static let steps: [SecurityManagerCode?] = [
    nil, .pairingRequest, .publicKey, .pairingConfirm, .pairingRandom, .dhKeyCheck,
  ]

  /// CVE-2019-19194 and CVE-2020-13593: a central begins to encrypt before the pairing is over, after each of its PDUs and in the
  /// place of each. The host has no key to give, and what the controller says of encryption by one counts for nothing.
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
          for (random, diversifier) in [(0, 0), (0x0102_0304_0506_0708, 0x1234)] as [(UInt64, UInt16)] {
            peer.requestKey(random: random, diversifier: diversifier)
            #expect(try await peer.keyAnswer() == nil)
          }
          // A controller that has taken a key of zeros all the same.
          peer.encryptionChanged()
          #expect(try await attacker.readsProtected(server).hasSuffix("05"))
        }
        #expect(attacker.bonds.bonds().isEmpty)
      }
    }
  }

  /// The central's side of a pairing whose values are zeros, up to this PDU, which is the last that could still be right.
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
    // Just Works by Secure Connections takes any; the others find that it fits nothing.
    peer.say("04" + zeros)
    guard last != .pairingRandom else { return }
    peer.say("0d" + zeros)
  }

  /// CVE-2020-13593, the other way round: a device that leaves out its DHKey Check, or sends another, and gives keys.
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

  /// CVE-2019-19194 of the other side: a long-term key of zeros, or numbers without a key, are no bond.
  @Test(arguments: roles, 0...2) func keepsNoKeyOfZeros(_ role: Pairing.Role, _ way: Int) async throws {
    try await attack { attacker in
      try await attacker.secure { $0.makeKeyPair = nil }
      var manners = try PairingAttacker.Manners()
      (manners.keyPair, manners.features.requirements) = (nil, .bonding)
      manners.edit = { pdu in
        switch (way, pdu) {
        case (0, .encryptionInformation): [.encryptionInformation(0)]
        // Behind its numbers.
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

  /// CVE-2019-17520: a public key before anything was agreed on, and in legacy pairing. BSFuzzer: random numbers, confirm values,
  /// checks and keys before their time. The pairing ends, and the next one goes by the book.
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
          // What a legacy pairing, and one by Secure Connections, is waiting for.
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

  /// The same of a device, before and after its Response.
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
        // No point of the curve, where a public key is due.
        let isDue = pdu.hasPrefix("0c") && response == "02030009100000"
        #expect(await outcome == .failed(isDue ? .invalidParameters : .unspecifiedReason))
        #expect(!attacker.controller.heard().contains { if case .encryption = $0 { true } else { false } })
        #expect(attacker.bonds.bonds().isEmpty)
        await connection.close()
      }
    }
  }

  /// BSFuzzer: Pairing Failed at each step, and then the key as if nothing had been said.
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

  /// BSFuzzer: floods. Each PDU has one answer at most, no prompt and no key comes of it, and another central pairs afterwards.
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
        // Repeated Attempts: a second or more between two pairings, twice as long after each.
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

  /// What is said on one link is nothing to another: neither the PDUs of a pairing nor its key.
  @Test func keepsLinksApart() async throws {
    let other = DeviceAddress(bits: 0xC0FF_EE00_0002, type: .random)
    try await attack { attacker in
      try await attacker.secure()
      try await attacker.serve { server in
        try await attacker.arrive()
        try await attacker.arrive(0x41, from: other)
        var manners = try PairingAttacker.Manners()
        let peer = attacker.controller
        // Each PDU of the pairing on the other link, too, and an end; then the key is asked for there.
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

  /// The same of two devices: an answer on the other link, or its end, is none.
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

  /// Before the link is complete: a request is answered once the link is up, keys and encryption of no link are nothing, and what
  /// came for a link that never came up is forgotten.
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
        // The Response, and the end for a random number before its time; no key.
        let heard = peer.heard()
        #expect(heard.count { if case .security(let hex) = $0 { hex.hasPrefix("02") } else { false } } == 1)
        #expect(heard.contains(.security("0508")))
        #expect(!heard.contains { if case .key = $0 { true } else { false } })
        #expect(peer.heard(0x77) == [])
        #expect(try await attacker.readsProtected(server).hasSuffix("05"))
        // The link comes up later, and its peer has said nothing on it.
        try await attacker.arrive(0x77, from: DeviceAddress(bits: 0xC0FF_EE00_0002, type: .random))
        #expect(!peer.heard(0x77).contains { if case .security = $0 { true } else { false } })
        peer.say("01030009100000", 0x77)
        #expect(try await peer.answer(0x77).hasPrefix("02"))
      }
      #expect(attacker.bonds.bonds().isEmpty)
    }
  }

  // MARK: What the person is asked

  /// Method confusion: the man in the middle has one side show a number to compare, and the other ask for a passkey. A number to
  /// compare is asked about as such, a passkey as such, and neither comes of the other.
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
    // The peer types another passkey than the one that is shown.
    default:
      #expect(
        result == .failure(.refused(.confirmValueFailed)) || result == .failure(.failed(.confirmValueFailed)))
    }
  }
}

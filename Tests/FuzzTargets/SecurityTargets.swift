import BLEStack
import BLEWire
import Synchronization

/// Security Manager PDUs: each valid one must encode to the same bytes. Also covers the removal of keys from
/// packets of a log.
func fuzzSecurityManagerPDU(_ input: Span<UInt8>) {
  if let pdu = try? SecurityManagerPDU(validating: input) {
    let again = [UInt8](encoding: SecurityManagerPDU.maximumByteCount) { pdu.encode(into: &$0) }
    precondition(again.count == pdu.code.byteCount && again == array(input), "the PDU is another one")
  }
  if let concealed = KeyConcealment.concealed(input) {
    precondition(concealed.count == input.count, "the packet has another length")
    let more = KeyConcealment.concealed(concealed.span)
    precondition(more == concealed, "something is left of a key")
  }
}

/// A key agreement without secrecy: both sides compute the same value.
final class ToyAgreement: P256KeyAgreement {
  let publicKey: P256PublicKey

  init(_ number: UInt128) {
    publicKey = P256PublicKey(
      x: P256Coordinate(high: number, low: number ^ 0x5555), y: P256Coordinate(high: 1, low: number))
  }

  /// Returns `nil` for a point that is not on the curve; here, if the first half of the ordinate is not 1.
  func sharedSecret(with peer: P256PublicKey) -> P256Coordinate? {
    guard peer.y.high == 1 else { return nil }
    return P256Coordinate(high: publicKey.x.high ^ peer.x.high, low: publicKey.x.low ^ peer.x.low)
  }
}

/// A reproducible sequence of numbers.
func makeNumbers(_ seed: UInt64) -> @Sendable () -> UInt128 {
  let state = Mutex(seed)
  return { @Sendable in
    state.withLock { state in
      func next() -> UInt64 {
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return state ^ state >> 33
      }
      return UInt128(next()) << 64 | UInt128(next())
    }
  }
}

private let central = DeviceAddress(bits: 0xC000_0000_0001, type: .random)
private let peripheral = DeviceAddress(bits: 0x0000_5E00_5301, type: .public)

/// Decodes a side's configuration from two bytes. In the first, bits 0 to 2 are the capability, bit 3 Secure
/// Connections, bit 4 authentication requested, bit 5 authentication required, bit 6 bonding, bit 7
/// out-of-band data. In the second, bits 0 to 2 are the keys to distribute and accept, bits 3 to 6 the
/// minimum key size less 7.
func pairingConfiguration(_ first: UInt8, _ second: UInt8) -> PairingConfiguration {
  var requirements: AuthenticationRequirements = []
  if first & 0x08 != 0 { requirements.insert(.secureConnections) }
  if first & 0x10 != 0 { requirements.insert(.authenticated) }
  if first & 0x40 != 0 { requirements.insert(.bonding) }
  let keys = KeyDistribution(rawValue: second & 7)
  return PairingConfiguration(
    features: PairingFeatures(
      capability: IOCapability(rawValue: first & 7) ?? .noInputNoOutput, requirements: requirements,
      initiatorKeys: keys, responderKeys: keys),
    protection: first & 0x20 != 0 ? .authenticated : .encrypted,
    minimumKeyByteCount: 7 + second >> 3 & 0x0F > 16 ? 16 : 7 + second >> 3 & 0x0F,
    identity: DeviceIdentity(resolvingKey: 0x1234, address: peripheral),
    temporaryKey: first & 0x80 != 0 ? 7 : nil)
}

/// One end of a pairing, with the invariants that must hold throughout.
private struct PairingEnd {
  var pairing: Pairing
  let configuration: PairingConfiguration
  var result: Result<Bond, PairingError>?
  /// Whether both ends had the same key at some time.
  var isEncrypted = false

  init(_ role: Pairing.Role, _ configuration: PairingConfiguration, seed: UInt64) {
    self.configuration = configuration
    let (local, peer) = role == .initiator ? (central, peripheral) : (peripheral, central)
    pairing = Pairing(
      role, configuration, local: local, peer: peer,
      keyPair: configuration.features.requirements.contains(.secureConnections)
        ? ToyAgreement(UInt128(seed)) : nil,
      random: makeNumbers(seed))
  }

  mutating func takeActions() -> [PairingAction] {
    let actions = pairing.takeActions()
    for action in actions {
      precondition(result == nil, "something after the end")
      guard case .finished(let result) = action else { continue }
      self.result = result
      if case .success(let bond) = result {
        precondition(isEncrypted, "keys without encryption")
        precondition((configuration.minimumKeyByteCount...16).contains(bond.keyByteCount))
        precondition(bond.isAuthenticated || configuration.protection == .encrypted)
      }
    }
    precondition(pairing.isOver == (result != nil))
    precondition(!pairing.isOver || pairing.deadline == nil)
    return actions
  }
}

/// One end of a pairing; the input supplies the bytes and delays of the other end.
///
/// Three bytes: bit 0 of the first is the role; the others are the configuration. Packets follow. In their
/// first byte, bits 0 to 2 select an event before the packet, and bits 3 and 4 let time pass.
func fuzzPairing(_ input: Span<UInt8>) {
  guard input.count >= 3 else { return }
  let role: Pairing.Role = input[0] & 1 == 0 ? .initiator : .responder
  var end = PairingEnd(role, pairingConfiguration(input[1], input[2]), seed: UInt64(input[0]))
  var now = MonotonicTime(nanoseconds: 1)
  if role == .initiator || input[0] & 2 != 0 { end.pairing.start(now: now) }
  _ = end.takeActions()
  forEachPacket(input.extracting(3...)) { kind, pdu in
    switch kind & 7 {
    case 1: end.pairing.enter(passkey: 123_456, now: now)
    case 2: end.pairing.enter(passkey: nil, now: now)
    case 3: end.pairing.confirm(true, now: now)
    case 4: end.pairing.confirm(false, now: now)
    case 5:
      end.isEncrypted = true
      end.pairing.encryptionEnded(.success, now: now)
    case 6: end.pairing.encryptionEnded(.pinOrKeyMissing, now: now)
    case 7: kind & 0x80 == 0 ? end.pairing.cancel() : end.pairing.lose()
    default: break
    }
    _ = end.takeActions()
    now = now.advanced(by: [.zero, .milliseconds(1), .seconds(7), .seconds(30)][Int(kind >> 3 & 3)])
    end.pairing.expire(now: now)
    _ = end.takeActions()
    end.pairing.receive(pdu, now: now)
    _ = end.takeActions()
  }
  let hasBegun = end.pairing.deadline != nil
  end.pairing.expire(now: now.advanced(by: Pairing.timeout))
  _ = end.takeActions()
  precondition(!hasBegun || end.result != nil, "a pairing without end")
}

/// Two of our pairings, and an attacker between them that drops, duplicates and changes their PDUs until the
/// link is encrypted. Four bytes configure the ends; then one byte per PDU selects what the attacker does.
func fuzzPairingMeeting(_ input: Span<UInt8>) {
  guard input.count >= 4 else { return }
  var meeting = FuzzedMeeting(input)
  meeting.run()
}

private struct FuzzedMeeting {
  var initiator: PairingEnd
  var responder: PairingEnd
  private var fate: [UInt8]
  private var queue: [(to: Pairing.Role, pdu: [UInt8])] = []
  private var now = MonotonicTime(nanoseconds: 1)
  private var isHarmed = false
  private var isEncrypted = false
  private var shown: UInt32?
  /// Maximum number of PDUs; more than any pairing has: a Secure Connections passkey takes eighty.
  private static let limit = 400

  init(_ input: Span<UInt8>) {
    initiator = PairingEnd(.initiator, pairingConfiguration(input[0], input[1]), seed: 1)
    responder = PairingEnd(.responder, pairingConfiguration(input[2], input[3]), seed: 2)
    fate = array(input.extracting(4...)).reversed()
  }

  mutating func run() {
    initiator.pairing.start(now: now)
    var count = 0
    settle()
    while !queue.isEmpty {
      let (role, pdu) = queue.removeFirst()
      count += 1
      precondition(count < Self.limit, "a pairing without end")
      deliver(pdu, to: role)
      settle()
    }
    // An end that still waits does so for a lost PDU, or for one that will not arrive.
    now = now.advanced(by: Pairing.timeout)
    initiator.pairing.expire(now: now)
    responder.pairing.expire(now: now)
    settle()
    check()
  }

  private mutating func deliver(_ pdu: [UInt8], to role: Pairing.Role) {
    var pdus = [pdu]
    let harm = isEncrypted ? 0 : fate.popLast() ?? 0
    switch harm & 7 {
    case 1: pdus = []
    case 2: pdus.append(pdu)
    case 3:
      let place = 1 + Int(harm >> 3) % max(1, pdu.count - 1)
      if place < pdu.count { pdus[0][place] ^= 1 << (harm >> 5) }
    case 4: pdus[0] = Array(pdu.dropLast())
    default: break
    }
    if pdus != [pdu] { isHarmed = true }
    for pdu in pdus {
      switch role {
      case .initiator: initiator.pairing.receive(pdu.span, now: now)
      case .responder: responder.pairing.receive(pdu.span, now: now)
      }
    }
  }

  /// Performs the actions of both ends until there are no more.
  private mutating func settle() {
    var isBusy = true
    while isBusy {
      isBusy = false
      for role in [Pairing.Role.initiator, .responder] {
        let actions = role == .initiator ? initiator.takeActions() : responder.takeActions()
        for action in actions {
          isBusy = true
          perform(action, of: role)
        }
      }
    }
  }

  private mutating func perform(_ action: PairingAction, of role: Pairing.Role) {
    switch action {
    case .send(let pdu):
      let octets = [UInt8](encoding: SecurityManagerPDU.maximumByteCount) { pdu.encode(into: &$0) }
      queue.append((role == .initiator ? .responder : .initiator, octets))
    case .showPasskey(let passkey): shown = passkey
    case .askPasskey:
      // If nothing is displayed, both type the same number.
      let passkey = shown ?? 4711
      role == .initiator
        ? initiator.pairing.enter(passkey: passkey, now: now)
        : responder.pairing.enter(passkey: passkey, now: now)
    case .compare:
      role == .initiator
        ? initiator.pairing.confirm(true, now: now) : responder.pairing.confirm(true, now: now)
    case .encrypt(let key):
      let status: HCIStatus = responder.pairing.key == key ? .success : .pinOrKeyMissing
      isEncrypted = status == .success
      initiator.isEncrypted = isEncrypted
      responder.isEncrypted = isEncrypted
      initiator.pairing.encryptionEnded(status, now: now)
      responder.pairing.encryptionEnded(status, now: now)
    case .finished: break
    }
  }

  private func check() {
    guard case .success(let own)? = initiator.result, case .success(let other)? = responder.result else {
      let isRefused = [initiator.result, responder.result].contains { result in
        if case .failure? = result { return true }
        return false
      }
      precondition(isRefused || responder.result == nil)
      precondition(isHarmed || !isEncrypted, "an encrypted link without keys")
      return
    }
    precondition(own.peerKey == other.localKey && own.localKey == other.peerKey, "different keys")
    // With Secure Connections the distributed key types are not authenticated. Core 5.4, Vol 3, Part H,
    // 2.2.8.
    precondition(
      isHarmed
        || own.peerSigningKey == other.localSigningKey && own.localSigningKey == other.peerSigningKey)
    precondition(own.isAuthenticated == other.isAuthenticated && own.keyByteCount == other.keyByteCount)
    precondition(own.isSecureConnections == other.isSecureConnections && own.isBonded == other.isBonded)
  }
}

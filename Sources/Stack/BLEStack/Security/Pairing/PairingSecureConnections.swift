import BLEWire

/// LE Secure Connections. Core 5.4, Vol 3, Part H, 2.3.5.6.
extension Pairing {
  /// Number of passkey bits. Each is confirmed in a separate round. Core 5.4, Vol 3, Part H, 2.3.5.6.3.
  private static let passkeyBits: UInt32 = 20

  // MARK: Phase 1

  mutating func exchanged(_ peer: P256PublicKey) {
    guard let keyPair else { return }
    // Refuse a peer that reflects this side's key, or uses the debug key, whose private key is published.
    guard peer.x != keyPair.publicKey.x, peer.x != P256PublicKey.debug.x,
      let secret = keyPair.sharedSecret(with: peer)
    else { return fail(.invalidParameters) }
    peerPublicKey = peer
    dhKey = secret
    if role == .responder { send(.publicKey(keyPair.publicKey)) }
    step = .confirm
    findPasskey()
  }

  // MARK: Authentication stage 1

  /// Starts a round: one for each passkey bit, or a single one.
  mutating func beginRound() {
    localRandom = makeRandom()
    if case .passkey = method {
      step = .confirm
      if role == .initiator { send(.pairingConfirm(localCommitment)) }
    } else if role == .responder {
      send(.pairingConfirm(localCommitment))
      step = .random
    }
  }

  mutating func confirmed(_ value: UInt128) {
    peerConfirm = value
    step = .random
    switch role {
    case .initiator: send(.pairingRandom(localRandom))
    case .responder: send(.pairingConfirm(localCommitment))
    }
  }

  mutating func revealed(_ value: UInt128) {
    peerRandom = value
    // In Just Works and numeric comparison the initiator sends no commitment.
    let isCommitted =
      if case .passkey = method { true } else { role == .initiator }
    guard !isCommitted || commitment(of: value) == peerConfirm else { return fail(.confirmValueFailed) }
    if role == .responder { send(.pairingRandom(localRandom)) }
    if case .passkey = method {
      round += 1
      if round < Self.passkeyBits { return beginRound() }
    }
    makeKeys()
    step = .check
    if method == .numericComparison {
      isAsking = true
      actions.append(.compare(number))
    } else {
      compared()
    }
  }

  private var localX: P256Coordinate { keyPair?.publicKey.x ?? P256Coordinate(high: 0, low: 0) }
  private var peerX: P256Coordinate { peerPublicKey?.x ?? P256Coordinate(high: 0, low: 0) }

  /// z of f4: the passkey bit of this round, or 0.
  private var roundBit: UInt8 {
    if case .passkey = method { 0x80 | UInt8(passkey >> round & 1) } else { 0 }
  }

  private var localCommitment: UInt128 { SecurityToolbox.f4(localX, peerX, localRandom, roundBit) }

  private func commitment(of random: UInt128) -> UInt128 {
    SecurityToolbox.f4(peerX, localX, random, roundBit)
  }

  /// Number that both sides show. Core 5.4, Vol 3, Part H, 2.3.5.6.2.
  private var number: UInt32 {
    let value =
      role == .initiator
      ? SecurityToolbox.g2(localX, peerX, localRandom, peerRandom)
      : SecurityToolbox.g2(peerX, localX, peerRandom, localRandom)
    return value % 1_000_000
  }

  // MARK: Authentication stage 2

  private mutating func makeKeys() {
    guard let dhKey else { return }
    let keys =
      role == .initiator
      ? SecurityToolbox.f5(dhKey, localRandom, peerRandom, initiator, responder)
      : SecurityToolbox.f5(dhKey, peerRandom, localRandom, initiator, responder)
    macKey = keys.macKey
    key = shortened(keys.longTermKey)
  }

  /// Continues after the user has confirmed the number, or at once if the method does not require it.
  mutating func compared() {
    if role == .initiator { send(.dhKeyCheck(localCheck)) }
  }

  mutating func checked(_ value: UInt128) {
    guard value == peerCheck, let key else { return fail(.dhKeyCheckFailed) }
    step = .encryption
    switch role {
    case .initiator: actions.append(.encrypt(key))
    case .responder: send(.dhKeyCheck(localCheck))
    }
  }

  private var localCheck: UInt128 {
    let (features, own, other) =
      role == .initiator ? (request, initiator, responder) : (response, responder, initiator)
    return SecurityToolbox.f6(
      macKey, localRandom, peerRandom, checkRandom, capability: Self.number(features), own, other)
  }

  private var peerCheck: UInt128 {
    let (features, own, other) =
      role == .initiator ? (response, responder, initiator) : (request, initiator, responder)
    return SecurityToolbox.f6(
      macKey, peerRandom, localRandom, checkRandom, capability: Self.number(features), own, other)
  }

  /// r of f6: the passkey, or 0.
  private var checkRandom: UInt128 {
    if case .passkey = method { UInt128(passkey) } else { 0 }
  }

  /// AuthReq, OOB flag and IO capability as a 24-bit number.
  private static func number(_ features: PairingFeatures?) -> UInt32 {
    guard let features else { return 0 }
    return UInt32(features.requirements.rawValue) << 16 | (features.hasOutOfBandData ? 0x100 : 0)
      | UInt32(features.capability.rawValue)
  }
}

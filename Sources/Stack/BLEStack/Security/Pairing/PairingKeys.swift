import BLEWire

/// Key distribution over the encrypted link; the responder's keys come first. Core 5.4, Vol 3, Part H, 3.6.
extension Pairing {
  /// The key for the controller; `nil` until all checks have succeeded and the user has answered. A central
  /// that could encrypt earlier would skip the numeric comparison.
  var agreedKey: UInt128? {
    switch step {
    case .encryption, .keys: key
    default: nil
    }
  }

  mutating func beginKeys() {
    guard let request, let response, let key else { return }
    step = .keys
    var bond = Bond(
      isAuthenticated: method.isAuthenticated, isSecureConnections: isSecure, keyByteCount: keyByteCount,
      isBonded: request.requirements.contains(.bonding) && response.requirements.contains(.bonding))
    if isSecure {
      bond.peerKey = LongTermKey(key: key)
      bond.localKey = LongTermKey(key: key)
    }
    self.bond = bond
    awaited = codes(of: role == .initiator ? response.responderKeys : response.initiatorKeys)
    if role == .responder { giveKeys() }
    if awaited.isEmpty { finishKeys() } else { resume() }
  }

  mutating func takeKey(_ pdu: SecurityManagerPDU) {
    // Ignore keys that were not agreed on.
    guard awaited.remove(pdu.code) != nil else { return }
    switch pdu {
    case .encryptionInformation(let key): receivedKey = key
    case .centralIdentification(let diversifier, let random):
      // Reject if no key arrived before, or if it was zero, which is publicly known.
      guard receivedKey != 0 else { return fail(.keyRejected) }
      bond?.peerKey = LongTermKey(key: receivedKey, diversifier: diversifier, random: random)
    case .identityInformation(let key): receivedResolvingKey = key
    case .identityAddress(let address):
      bond?.peerIdentity = DeviceIdentity(resolvingKey: receivedResolvingKey, address: address)
    case .signingInformation(let key): bond?.peerSigningKey = key
    default: break
    }
    if awaited.isEmpty { finishKeys() }
  }

  private mutating func finishKeys() {
    if role == .initiator { giveKeys() }
    if let bond { end(.success(bond)) }
  }

  private mutating func giveKeys() {
    guard let response else { return }
    let given = role == .initiator ? response.initiatorKeys : response.responderKeys
    if given.contains(.encryption), !isSecure {
      let key = shortened(makeRandom())
      let numbers = makeRandom()
      let (random, diversifier) = (
        UInt64(truncatingIfNeeded: numbers), UInt16(truncatingIfNeeded: numbers >> 64)
      )
      bond?.localKey = LongTermKey(key: key, diversifier: diversifier, random: random)
      send(.encryptionInformation(key))
      send(.centralIdentification(diversifier, random))
    }
    if given.contains(.identity) {
      let own = role == .initiator ? initiator : responder
      bond?.localResolvingKey = configuration.identity?.resolvingKey
      send(.identityInformation(configuration.identity?.resolvingKey ?? 0))
      send(.identityAddress(configuration.identity?.address ?? own))
    }
    if given.contains(.signing) {
      let key = makeRandom()
      bond?.localSigningKey = key
      send(.signingInformation(key))
    }
  }

  private func codes(of keys: KeyDistribution) -> Set<SecurityManagerCode> {
    var codes: Set<SecurityManagerCode> = []
    if keys.contains(.encryption), !isSecure {
      codes.formUnion([.encryptionInformation, .centralIdentification])
    }
    if keys.contains(.identity) { codes.formUnion([.identityInformation, .identityAddress]) }
    if keys.contains(.signing) { codes.insert(.signingInformation) }
    return codes
  }
}

import BLEWire

/// LE legacy pairing: confirms a temporary key and derives a short-term key from it. Core 5.4, Vol 3, Part H,
/// 2.3.5.5.
extension Pairing {
  mutating func beginLegacy() {
    temporaryKey = method == .outOfBand ? configuration.temporaryKey ?? 0 : UInt128(passkey)
    localRandom = makeRandom()
    localConfirm = legacyConfirm(localRandom)
    if role == .initiator { send(.pairingConfirm(localConfirm)) }
  }

  mutating func legacyConfirmed(_ value: UInt128) {
    // A peer that reflects this side's confirm value proves nothing.
    guard role == .responder || value != localConfirm else { return fail(.confirmValueFailed) }
    peerConfirm = value
    step = .legacyRandom
    switch role {
    case .initiator: send(.pairingRandom(localRandom))
    case .responder: send(.pairingConfirm(localConfirm))
    }
  }

  mutating func legacyRevealed(_ value: UInt128) {
    guard legacyConfirm(value) == peerConfirm else { return fail(.confirmValueFailed) }
    step = .encryption
    switch role {
    case .initiator:
      let short = shortened(SecurityToolbox.s1(temporaryKey, value, localRandom))
      key = short
      actions.append(.encrypt(short))
    case .responder:
      key = shortened(SecurityToolbox.s1(temporaryKey, localRandom, value))
      send(.pairingRandom(localRandom))
    }
  }

  private func legacyConfirm(_ random: UInt128) -> UInt128 {
    guard let request, let response else { return 0 }
    return SecurityToolbox.c1(
      temporaryKey, random,
      SecurityToolbox.LegacyContext(
        request: Self.number(.pairingRequest(request)), response: Self.number(.pairingResponse(response)),
        initiator: initiator, responder: responder))
  }

  /// Seven bytes as a number, with the code as the least significant byte.
  private static func number(_ pdu: SecurityManagerPDU) -> UInt64 {
    let octets = [UInt8](encoding: 7) { pdu.encode(into: &$0) }
    return octets.reversed().reduce(0) { $0 << 8 | UInt64($1) }
  }
}

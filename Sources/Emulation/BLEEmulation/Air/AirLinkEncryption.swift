import BLEWire

/// An encryption request of a central's host.
struct LinkEncryption: Hashable {
  var random: UInt64
  var diversifier: UInt16
  var key: UInt128
}

/// Encryption from the hosts' point of view: both controllers get the same key, or the link ends. The data
/// itself is not encrypted.
///
/// Core 5.4, Vol 6, Part B, 5.1.3. The halves of the session key are not exchanged, and data is not held back
/// during the procedure.
extension AirLink {
  /// Starts encryption with the key of the central's host.
  func requestEncryption(_ wanted: LinkEncryption) {
    wantedEncryption = wanted
    guard isImmediate else { return send(.encryptionRequest(wanted), from: central) }
    peripheral.owner.keyWanted(wanted.random, wanted.diversifier, on: peripheral)
  }

  /// Responds with the peripheral's key; `nil` if it has no key.
  func answerEncryption(_ key: UInt128?) {
    guard isImmediate else { return send(.encryptionAnswer(key), from: peripheral) }
    compare(key)
    if peripheral.isOpen, key != nil { encrypted(peripheral) }
  }

  /// Compares the keys at the central.
  func compare(_ key: UInt128?) {
    guard let wanted = wantedEncryption else { return }
    wantedEncryption = nil
    guard let key else {
      return central.owner.encryptionEnded(.pinOrKeyMissing, isRefresh: false, on: central)
    }
    guard key == wanted.key else {
      // The keys differ, so the ends cannot decrypt each other's packets.
      close(central, .micFailure)
      close(peripheral, .micFailure)
      return
    }
    encrypted(central)
    if !isImmediate { send(.encryptionStart, from: central) }
  }

  func encrypted(_ end: LinkEnd) {
    let isRefresh = end.isEncrypted
    end.isEncrypted = true
    end.owner.encryptionEnded(.success, isRefresh: isRefresh, on: end)
  }
}

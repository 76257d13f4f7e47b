import BLEWire

/// What a central's host wants a link encrypted with.
struct LinkEncryption: Hashable {
  var random: UInt64
  var diversifier: UInt16
  var key: UInt128
}

/// Encryption as hosts see it: both controllers get the same key, or the link ends. The octets go on in the clear.
///
/// Core 5.4, Vol 6, Part B, 5.1.3. The two halves of the session key are not exchanged, and data are not held back
/// meanwhile.
extension AirLink {
  /// The central's host has a key.
  func requestEncryption(_ wanted: LinkEncryption) {
    wantedEncryption = wanted
    guard isImmediate else { return send(.encryptionRequest(wanted), from: central) }
    peripheral.owner.keyWanted(wanted.random, wanted.diversifier, on: peripheral)
  }

  /// The peripheral's side has the same key, another, or none.
  func answerEncryption(_ key: UInt128?) {
    guard isImmediate else { return send(.encryptionAnswer(key), from: peripheral) }
    compare(key)
    if peripheral.isOpen, key != nil { encrypted(peripheral) }
  }

  /// At the central.
  func compare(_ key: UInt128?) {
    guard let wanted = wantedEncryption else { return }
    wantedEncryption = nil
    guard let key else {
      return central.owner.encryptionEnded(.pinOrKeyMissing, isRefresh: false, on: central)
    }
    guard key == wanted.key else {
      // What one sends the other cannot read.
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

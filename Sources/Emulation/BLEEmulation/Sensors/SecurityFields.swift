/// Security options of a specification.
struct SecurityFields: Hashable, Sendable {
  var level: PeripheralProtection.Level?
  var passkey: UInt32?
  var capability: PeripheralProtection.Capability?
  var isLegacy = false

  var protection: PeripheralProtection? {
    guard let level else { return nil }
    var protection = PeripheralProtection(level, passkey: passkey, capability: capability)
    if isLegacy { protection.kind = .legacy }
    return protection
  }

  /// Reason why the options are invalid; `nil` if they are valid.
  var problem: String? {
    guard let protection else {
      return passkey != nil || capability != nil || isLegacy
        ? "passkey, io-capability and legacy-pairing need security=LEVEL" : nil
    }
    return protection.isPossible ? nil : "a device without io-capability cannot be authenticated"
  }
}

public import BLEWire

/// Security of a link from the server's point of view.
public struct ATTSecurity: Hashable, Sendable, BitwiseCopyable {
  /// Levels 1 to 3 of security mode 1. Core 5.4, Vol 3, Part C, 10.2.1.
  public enum Level: UInt8, Comparable, Hashable, Sendable, BitwiseCopyable {
    case none, encrypted
    /// Encrypted with a key from a pairing with MITM protection.
    case authenticated

    public static func < (a: Level, b: Level) -> Bool { a.rawValue < b.rawValue }
  }

  /// Whether the two devices share a key. Relevant while the link is not encrypted.
  public enum StoredKey: Hashable, Sendable, BitwiseCopyable {
    case none, present
  }

  public var level: Level
  /// Encryption key size, 7 … 16 bytes, on an encrypted link.
  public var keyByteCount: Int
  public var storedKey: StoredKey

  public init(_ level: Level = .none, keyByteCount: Int = 16, storedKey: StoredKey = .none) {
    self.level = level
    self.keyByteCount = keyByteCount
    self.storedKey = storedKey
  }

  /// Security of a link to a device with this bond; `nil` if the device is not bonded.
  public init(_ bond: Bond?, isEncrypted: Bool) {
    let isAuthenticated = bond?.isAuthenticated ?? false
    self.init(
      !isEncrypted ? .none : isAuthenticated ? .authenticated : .encrypted,
      keyByteCount: Int(bond?.keyByteCount ?? 16), storedKey: bond == nil ? .none : .present)
  }
}

/// Whether a client may access an attribute, and if not, the error code.
public enum ATTAccess: Hashable, Sendable, BitwiseCopyable {
  case allowed
  /// Refused on any link, with this error code. Core 5.4, Vol 3, Part F, 3.4.1.1.
  case refused(ATTErrorCode)
  /// Allowed on a link with at least this security level and encryption key size in bytes.
  case needs(ATTSecurity.Level, keyByteCount: Int = 7)

  /// Whether a link has the security that access requires.
  func isSecureEnough(_ security: ATTSecurity) -> Bool {
    guard case .needs = self else { return true }
    return refusal(on: security) == nil
  }

  /// The error code for a client on a link with this security; `nil` if access is allowed. Core 5.4, Vol 3,
  /// Part C, 10.3.1.
  public func refusal(on security: ATTSecurity) -> ATTErrorCode? {
    switch self {
    case .allowed: nil
    case .refused(let code): code
    case .needs(let level, let keyByteCount):
      if security.level == .none, level > .none {
        // If both sides have a key, encrypting with that key is enough.
        security.storedKey == .present ? .insufficientEncryption : .insufficientAuthentication
      } else if security.level < level {
        .insufficientAuthentication
      } else if level > .none, security.keyByteCount < keyByteCount {
        .encryptionKeySizeTooShort
      } else {
        nil
      }
    }
  }
}

public import BLEWire

/// How secure a link is, as its server sees it.
public struct ATTSecurity: Hashable, Sendable, BitwiseCopyable {
  /// Core 5.4, Vol 3, Part C, 10.2.1: security mode 1, levels 1 to 3.
  public enum Level: UInt8, Comparable, Hashable, Sendable, BitwiseCopyable {
    case none, encrypted
    /// Encrypted with a key whose pairing kept out a man in the middle.
    case authenticated

    public static func < (a: Level, b: Level) -> Bool { a.rawValue < b.rawValue }
  }

  /// What the two devices share while the link is not encrypted.
  public enum StoredKey: Hashable, Sendable, BitwiseCopyable {
    case none, present
  }

  public var level: Level
  /// 7 … 16 octets on an encrypted link.
  public var keyByteCount: Int
  public var storedKey: StoredKey

  public init(_ level: Level = .none, keyByteCount: Int = 16, storedKey: StoredKey = .none) {
    self.level = level
    self.keyByteCount = keyByteCount
    self.storedKey = storedKey
  }

  /// Of a link with a device that has this bond, or none.
  public init(_ bond: Bond?, isEncrypted: Bool) {
    let isAuthenticated = bond?.isAuthenticated ?? false
    self.init(
      !isEncrypted ? .none : isAuthenticated ? .authenticated : .encrypted,
      keyByteCount: Int(bond?.keyByteCount ?? 16), storedKey: bond == nil ? .none : .present)
  }
}

/// Whether a client may do something with an attribute, and what it is told if not.
public enum ATTAccess: Hashable, Sendable, BitwiseCopyable {
  case allowed
  /// Any refusal of Core 5.4, Vol 3, Part F, 3.4.1.1, whatever the link is.
  case refused(ATTErrorCode)
  /// Allowed on a link that is secure enough, with a key of so many octets or more.
  case needs(ATTSecurity.Level, keyByteCount: Int = 7)

  /// Whether a link has the security that is needed, if any is.
  func isSecureEnough(_ security: ATTSecurity) -> Bool {
    guard case .needs = self else { return true }
    return refusal(on: security) == nil
  }

  /// What a client is told on a link like this; `nil` where it may. Core 5.4, Vol 3, Part C, 10.3.1.
  public func refusal(on security: ATTSecurity) -> ATTErrorCode? {
    switch self {
    case .allowed: nil
    case .refused(let code): code
    case .needs(let level, let keyByteCount):
      if security.level == .none, level > .none {
        // With a key at hand it is enough to use it.
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

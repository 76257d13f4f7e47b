public import BLEWire

/// A long-term key with the numbers by which the side that gave it away finds it. Core 5.4, Vol 3, Part H, 2.4.2.
public struct LongTermKey: Hashable, Sendable {
  public var key: UInt128
  /// EDIV and Rand; 0 for a key of Secure Connections.
  public var diversifier: UInt16
  public var random: UInt64

  public init(key: UInt128, diversifier: UInt16 = 0, random: UInt64 = 0) {
    self.key = key
    self.diversifier = diversifier
    self.random = random
  }
}

/// Who a device is behind its private addresses. Core 5.4, Vol 3, Part H, 2.4.2.1.
public struct DeviceIdentity: Hashable, Sendable {
  public var resolvingKey: UInt128
  /// Public or static.
  public var address: DeviceAddress

  public init(resolvingKey: UInt128, address: DeviceAddress) {
    self.resolvingKey = resolvingKey
    self.address = address
  }

  /// Whether this device made the resolvable private address. Core 5.4, Vol 6, Part B, 1.3.2.3.
  public func matches(_ private: DeviceAddress) -> Bool {
    // A key of zeros resolves nothing. Core 5.4, Vol 3, Part H, 2.4.2.1.
    guard `private`.type == .random, `private`.bits >> 46 == 0b01, resolvingKey != 0 else { return false }
    let hash = SecurityToolbox.ah(resolvingKey, UInt32(truncatingIfNeeded: `private`.bits >> 24))
    return hash == UInt32(truncatingIfNeeded: `private`.bits & 0xFF_FFFF)
  }
}

extension DeviceIdentity {
  /// An address behind which the device hides from all that do not have its key. Core 5.4, Vol 6, Part B, 1.3.2.2.
  ///
  /// - Parameter randomBits: 22 bits are used.
  /// - Returns: `nil` where they would be all zeros or all ones, which is not allowed.
  public func privateAddress(_ randomBits: UInt32) -> DeviceAddress? {
    let part = randomBits & 0x3F_FFFF
    guard part != 0, part != 0x3F_FFFF else { return nil }
    let random = 0x40_0000 | part
    let hash = SecurityToolbox.ah(resolvingKey, random)
    return DeviceAddress(bits: UInt64(random) << 24 | UInt64(hash), type: .random)
  }
}

/// What a pairing leaves behind. Its text shows no key.
public struct Bond: Hashable, Sendable {
  /// Nobody was in the middle: passkey or numeric comparison.
  public var isAuthenticated: Bool
  public var isSecureConnections: Bool
  /// 7 … 16 octets.
  public var keyByteCount: UInt8
  /// The peer asked to keep the keys, and so did we.
  public var isBonded: Bool
  /// By which we encrypt as the central.
  public var peerKey: LongTermKey?
  /// By which a central encrypts with us.
  public var localKey: LongTermKey?
  public var peerIdentity: DeviceIdentity?
  /// By which the peer resolves our private addresses, where it was given it.
  public var localResolvingKey: UInt128?
  /// For checking what the peer signs, and for signing ourselves.
  public var peerSigningKey: UInt128?
  public var localSigningKey: UInt128?
  /// Of the next message that we sign: no number is used twice with a key. Core 5.4, Vol 3, Part H, 2.4.5.
  public var localSignCounter: UInt32 = 0
  /// The least with which the peer may sign its next message.
  public var peerSignCounter: UInt32 = 0

  public init(
    isAuthenticated: Bool, isSecureConnections: Bool, keyByteCount: UInt8, isBonded: Bool,
    peerKey: LongTermKey? = nil, localKey: LongTermKey? = nil, peerIdentity: DeviceIdentity? = nil,
    peerSigningKey: UInt128? = nil, localSigningKey: UInt128? = nil
  ) {
    self.isAuthenticated = isAuthenticated
    self.isSecureConnections = isSecureConnections
    self.keyByteCount = keyByteCount
    self.isBonded = isBonded
    self.peerKey = peerKey
    self.localKey = localKey
    self.peerIdentity = peerIdentity
    self.peerSigningKey = peerSigningKey
    self.localSigningKey = localSigningKey
  }
}

extension Bond {
  /// Whether replacing `other` by this bond loses neither authentication, Secure Connections nor bytes of the key.
  public func isAtLeastAsStrong(as other: Bond) -> Bool {
    (isAuthenticated || !other.isAuthenticated) && (isSecureConnections || !other.isSecureConnections)
      && keyByteCount >= other.keyByteCount
  }

  /// The key that a central asks for by these numbers; `nil` where it was given none like that.
  public func localKey(random: UInt64, diversifier: UInt16) -> UInt128? {
    guard let localKey, localKey.random == random, localKey.diversifier == diversifier else { return nil }
    return localKey.key
  }
}

// No key gets into a log by way of a text: neither of these, nor of what holds them.
extension LongTermKey: CustomStringConvertible {
  public var description: String { "key" }
}

extension DeviceIdentity: CustomStringConvertible {
  public var description: String { "\(address)" }
}

extension Bond: CustomStringConvertible {
  public var description: String {
    (isAuthenticated ? "authenticated" : "unauthenticated")
      + (isSecureConnections ? ", Secure Connections" : ", legacy") + ", \(keyByteCount) octets"
      + (isBonded ? ", bonded" : "")
  }
}

#if !hasFeature(Embedded)
  extension LongTermKey: CustomReflectable {
    public var customMirror: Mirror { Mirror(self, children: []) }
  }

  extension DeviceIdentity: CustomReflectable {
    public var customMirror: Mirror { Mirror(self, children: []) }
  }

  extension Bond: CustomReflectable {
    public var customMirror: Mirror { Mirror(self, children: []) }
  }
#endif

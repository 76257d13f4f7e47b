public import BLEWire

/// A long-term key, and the EDIV and Rand that identify it on the device that distributed it. Core 5.4, Vol
/// 3, Part H, 2.4.2.
public struct LongTermKey: Hashable, Sendable {
  public var key: UInt128
  /// EDIV, which identifies the key together with `random` (Rand). Both are 0 for a Secure Connections key.
  public var diversifier: UInt16
  public var random: UInt64

  public init(key: UInt128, diversifier: UInt16 = 0, random: UInt64 = 0) {
    self.key = key
    self.diversifier = diversifier
    self.random = random
  }
}

/// The identity of a device that uses private addresses. Core 5.4, Vol 3, Part H, 2.4.2.1.
public struct DeviceIdentity: Hashable, Sendable {
  public var resolvingKey: UInt128
  /// Public or static address of the device.
  public var address: DeviceAddress

  public init(resolvingKey: UInt128, address: DeviceAddress) {
    self.resolvingKey = resolvingKey
    self.address = address
  }

  /// Returns whether this resolvable private address belongs to this device. Core 5.4, Vol 6, Part B,
  /// 1.3.2.3.
  public func matches(_ private: DeviceAddress) -> Bool {
    // An all-zero key resolves no address. Core 5.4, Vol 3, Part H, 2.4.2.1.
    guard `private`.type == .random, `private`.bits >> 46 == 0b01, resolvingKey != 0 else { return false }
    let hash = SecurityToolbox.ah(resolvingKey, UInt32(truncatingIfNeeded: `private`.bits >> 24))
    return hash == UInt32(truncatingIfNeeded: `private`.bits & 0xFF_FFFF)
  }
}

extension DeviceIdentity {
  /// Creates a resolvable private address, which only devices with the identity resolving key can resolve.
  /// Core 5.4, Vol 6, Part B, 1.3.2.2.
  ///
  /// - Parameter randomBits: the low 22 bits are used.
  /// - Returns: `nil` if the low 22 bits are all zeros or all ones, which is not allowed.
  public func privateAddress(_ randomBits: UInt32) -> DeviceAddress? {
    let part = randomBits & 0x3F_FFFF
    guard part != 0, part != 0x3F_FFFF else { return nil }
    let random = 0x40_0000 | part
    let hash = SecurityToolbox.ah(resolvingKey, random)
    return DeviceAddress(bits: UInt64(random) << 24 | UInt64(hash), type: .random)
  }
}

/// The keys and properties that result from a pairing. Its description contains no key.
public struct Bond: Hashable, Sendable {
  /// Whether the pairing had MITM protection: passkey, numeric comparison or out-of-band data.
  public var isAuthenticated: Bool
  public var isSecureConnections: Bool
  /// Encryption key size, 7 … 16 bytes.
  public var keyByteCount: UInt8
  /// Whether both sides requested bonding.
  public var isBonded: Bool
  /// Key with which this side encrypts as the central.
  public var peerKey: LongTermKey?
  /// Key with which a central encrypts a link to this side.
  public var localKey: LongTermKey?
  public var peerIdentity: DeviceIdentity?
  /// Key by which the peer resolves this side's private addresses, if it was distributed.
  public var localResolvingKey: UInt128?
  /// CSRK that verifies the peer's signatures. `localSigningKey` is the CSRK that signs this side's messages.
  public var peerSigningKey: UInt128?
  public var localSigningKey: UInt128?
  /// Sign counter for the next message. No value is used twice with a key. Core 5.4, Vol 3, Part H, 2.4.5.
  public var localSignCounter: UInt32 = 0
  /// Lowest sign counter to accept in the peer's next message.
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
  /// Returns whether this bond may replace `other` without loss of authentication, Secure Connections or key
  /// size.
  public func isAtLeastAsStrong(as other: Bond) -> Bool {
    (isAuthenticated || !other.isAuthenticated) && (isSecureConnections || !other.isSecureConnections)
      && keyByteCount >= other.keyByteCount
  }

  /// Returns the key that a central requests with this Rand and EDIV, or `nil` if no such key was distributed
  /// to the central.
  public func localKey(random: UInt64, diversifier: UInt16) -> UInt128? {
    guard let localKey, localKey.random == random, localKey.diversifier == diversifier else { return nil }
    return localKey.key
  }
}

// Descriptions and mirrors of these types, and of types that contain them, omit the keys so that they never
// reach a log.
extension LongTermKey: CustomStringConvertible {
  public var description: String { "key" }
}

extension DeviceIdentity: CustomStringConvertible {
  public var description: String { "\(address)" }
}

extension Bond: CustomStringConvertible {
  public var description: String {
    (isAuthenticated ? "authenticated" : "unauthenticated")
      + (isSecureConnections ? ", Secure Connections" : ", legacy") + ", \(counted(keyByteCount, "byte"))"
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

/// Signatures of messages on an unencrypted link. Core 5.4, Vol 3, Part H, 2.4.5.
extension Bond {
  /// Returns the sign counter for a message of this side, and increments it.
  ///
  /// - Returns: `nil` if no signing key was distributed to the peer, or the counter is exhausted. A new
  ///   pairing is then required.
  public mutating func takeSignCounter() -> UInt32? {
    guard localSigningKey != nil, localSignCounter < .max else { return nil }
    defer { localSignCounter += 1 }
    return localSignCounter
  }

  /// Returns whether the peer signed this command with its key, and with a counter above those of all earlier
  /// messages. If so, records the counter as used. The counter may skip values, because messages may get
  /// lost.
  public mutating func accepts(_ command: borrowing SignedWriteCommand) -> Bool {
    guard let key = peerSigningKey else { return false }
    let counter = command.signature.u32(at: 0)
    guard counter >= peerSignCounter, counter < .max else { return false }
    let message = [UInt8](encoding: command.value.count + 3) { command.encodeMessage(into: &$0) }
    let code = SecurityToolbox.signature(of: message.span, counter: counter, key: key)
    guard code == command.signature.u64(at: 4) else { return false }
    peerSignCounter = counter + 1
    return true
  }
}

/// A signature as sent on air: the counter (4 bytes), then the authentication code (8 bytes).
public struct MessageSignature: Hashable, Sendable {
  public let counter: UInt32
  public let code: UInt64

  /// Signs a message.
  ///
  /// - Parameters:
  ///   - message: opcode, handle and value.
  ///   - counter: sign counter of this key.
  ///   - key: the signer's CSRK.
  public init(of message: Span<UInt8>, counter: UInt32, key: UInt128) {
    self.counter = counter
    code = SecurityToolbox.signature(of: message, counter: counter, key: key)
  }

  public var octets: [UInt8] {
    [UInt8](encoding: SignedWriteCommand.signatureByteCount) {
      $0.append(u32: counter)
      $0.append(u64: code)
    }
  }
}

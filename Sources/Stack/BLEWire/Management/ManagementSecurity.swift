extension ManagementOpcode {
  public static let setBondable = ManagementOpcode(rawValue: 0x0009)
  public static let loadLongTermKeys = ManagementOpcode(rawValue: 0x0013)
  public static let setIOCapability = ManagementOpcode(rawValue: 0x0018)
  public static let pairDevice = ManagementOpcode(rawValue: 0x0019)
  public static let cancelPairDevice = ManagementOpcode(rawValue: 0x001A)
  public static let unpairDevice = ManagementOpcode(rawValue: 0x001B)
  public static let userConfirmationReply = ManagementOpcode(rawValue: 0x001C)
  public static let userConfirmationNegativeReply = ManagementOpcode(rawValue: 0x001D)
  public static let userPasskeyReply = ManagementOpcode(rawValue: 0x001E)
  public static let userPasskeyNegativeReply = ManagementOpcode(rawValue: 0x001F)
  public static let setSecureConnections = ManagementOpcode(rawValue: 0x002D)
  public static let loadIdentityResolvingKeys = ManagementOpcode(rawValue: 0x0030)
}

extension ManagementStatus {
  public static let authenticationFailed = ManagementStatus(rawValue: 0x05)
  public static let timeout = ManagementStatus(rawValue: 0x08)
  public static let disconnected = ManagementStatus(rawValue: 0x0E)
  public static let cancelled = ManagementStatus(rawValue: 0x10)
  public static let alreadyPaired = ManagementStatus(rawValue: 0x13)
}

/// State of a setting on a powered adapter.
public enum ManagementSwitch: UInt8, Sendable {
  case off, on
}

/// Sets whether the kernel's host offers bonding. The kernel turns bonding off when the management interface
/// is first used. `mgmt-api.txt`, 0x0009.
public struct SetBondable: ManagementCommand {
  public static let opcode = ManagementOpcode.setBondable
  public let state: ManagementSwitch

  public init(_ state: ManagementSwitch) { self.state = state }
  public func encodeParameters(into output: inout OutputSpan<UInt8>) { output.append(state.rawValue) }
}

/// Sets whether the kernel's host offers Secure Connections in addition to legacy pairing. `mgmt-api.txt`,
/// 0x002D.
public struct SetSecureConnections: ManagementCommand {
  public static let opcode = ManagementOpcode.setSecureConnections
  public let state: ManagementSwitch

  public init(_ state: ManagementSwitch) { self.state = state }
  public func encodeParameters(into output: inout OutputSpan<UInt8>) { output.append(state.rawValue) }
}

/// Sets the input and output capability for pairing on future links. `mgmt-api.txt`, 0x0018.
public struct SetIOCapability: ManagementCommand {
  public static let opcode = ManagementOpcode.setIOCapability
  public let capability: IOCapability

  public init(_ capability: IOCapability) { self.capability = capability }
  public func encodeParameters(into output: inout OutputSpan<UInt8>) { output.append(capability.rawValue) }
}

/// Pairs with a device. The reply arrives when pairing has ended; its status is `alreadyPaired` if the kernel
/// has a key for the device. `mgmt-api.txt`, 0x0019.
public struct PairDevice: ManagementCommand {
  public static let opcode = ManagementOpcode.pairDevice
  public let peer: DeviceAddress
  public let capability: IOCapability

  public init(_ peer: DeviceAddress, _ capability: IOCapability) {
    self.peer = peer
    self.capability = capability
  }

  public var parameterByteCount: Int { 8 }
  public func encodeParameters(into output: inout OutputSpan<UInt8>) {
    output.append(management: peer)
    output.append(capability.rawValue)
  }
}

/// Cancels a Pair Device command of this socket. `mgmt-api.txt`, 0x001A.
public struct CancelPairDevice: ManagementCommand {
  public static let opcode = ManagementOpcode.cancelPairDevice
  public let peer: DeviceAddress

  public init(_ peer: DeviceAddress) { self.peer = peer }
  public func encodeParameters(into output: inout OutputSpan<UInt8>) { output.append(management: peer) }
}

/// Deletes the kernel's keys for a device. A link to the device stays up. `mgmt-api.txt`, 0x001B.
public struct UnpairDevice: ManagementCommand {
  public static let opcode = ManagementOpcode.unpairDevice
  public let peer: DeviceAddress

  public init(_ peer: DeviceAddress) { self.peer = peer }
  public var parameterByteCount: Int { 8 }
  public func encodeParameters(into output: inout OutputSpan<UInt8>) {
    output.append(management: peer)
    output.append(0)
  }
}

/// Confirms that both sides show the same number, or permits pairing without user verification.
/// `mgmt-api.txt`, 0x001C.
public struct UserConfirmationReply: ManagementCommand {
  public static let opcode = ManagementOpcode.userConfirmationReply
  public let peer: DeviceAddress

  public init(_ peer: DeviceAddress) { self.peer = peer }
  public func encodeParameters(into output: inout OutputSpan<UInt8>) { output.append(management: peer) }
}

/// Rejects a number comparison, or pairing without user verification. `mgmt-api.txt`, 0x001D.
public struct UserConfirmationNegativeReply: ManagementCommand {
  public static let opcode = ManagementOpcode.userConfirmationNegativeReply
  public let peer: DeviceAddress

  public init(_ peer: DeviceAddress) { self.peer = peer }
  public func encodeParameters(into output: inout OutputSpan<UInt8>) { output.append(management: peer) }
}

/// Supplies the passkey that the device shows, 0 … 999,999. `mgmt-api.txt`, 0x001E.
public struct UserPasskeyReply: ManagementCommand {
  public static let opcode = ManagementOpcode.userPasskeyReply
  public let peer: DeviceAddress
  public let passkey: UInt32

  public init(_ peer: DeviceAddress, _ passkey: UInt32) {
    self.peer = peer
    self.passkey = passkey
  }

  public var parameterByteCount: Int { 11 }
  public func encodeParameters(into output: inout OutputSpan<UInt8>) {
    output.append(management: peer)
    output.append(u32: passkey)
  }
}

/// Reports that no passkey was entered. `mgmt-api.txt`, 0x001F.
public struct UserPasskeyNegativeReply: ManagementCommand {
  public static let opcode = ManagementOpcode.userPasskeyNegativeReply
  public let peer: DeviceAddress

  public init(_ peer: DeviceAddress) { self.peer = peer }
  public func encodeParameters(into output: inout OutputSpan<UInt8>) { output.append(management: peer) }
}

/// A long-term key in the kernel's format: `struct mgmt_ltk_info` in `include/net/bluetooth/mgmt.h`.
public struct ManagementLongTermKey: Hashable, Sendable {
  static let byteCount = 36

  /// Security properties of a key. Unknown values are kept; the kernel skips keys with such values.
  public struct Kind: RawRepresentable, Hashable, Sendable {
    public let rawValue: UInt8
    public init(rawValue: UInt8) { self.rawValue = rawValue }

    public static let unauthenticated = Kind(rawValue: 0)
    public static let authenticated = Kind(rawValue: 1)
    public static let unauthenticatedSecureConnections = Kind(rawValue: 2)
    public static let authenticatedSecureConnections = Kind(rawValue: 3)

    public var isAuthenticated: Bool { self == .authenticated || self == .authenticatedSecureConnections }
    public var isSecureConnections: Bool { rawValue >= 2 }
  }

  /// The side that encrypts with a key from legacy pairing. Both sides use the same Secure Connections key.
  public enum Role: UInt8, Sendable {
    case peripheral, central
  }

  /// Identity address of the device.
  public var peer: DeviceAddress
  public var kind: Kind
  public var role: Role
  /// Encryption key size, 7 … 16 bytes.
  public var keyByteCount: UInt8
  /// EDIV, which identifies the key together with `random` (Rand). Both are 0 for Secure Connections.
  public var diversifier: UInt16
  public var random: UInt64
  public var key: UInt128

  public init(
    peer: DeviceAddress, kind: Kind, role: Role, keyByteCount: UInt8, diversifier: UInt16, random: UInt64,
    key: UInt128
  ) {
    self.peer = peer
    self.kind = kind
    self.role = role
    self.keyByteCount = keyByteCount
    self.diversifier = diversifier
    self.random = random
    self.key = key
  }

  /// Decodes a key. Returns `nil` for a BR/EDR key.
  fileprivate init?(_ octets: Span<UInt8>, at offset: Int) {
    guard let peer = octets.managementAddress(at: offset) else { return nil }
    self.init(
      peer: peer, kind: Kind(rawValue: octets[offset + 7]),
      role: octets[offset + 8] == 0 ? .peripheral : .central,
      keyByteCount: octets[offset + 9], diversifier: octets.u16(at: offset + 10),
      random: octets.u64(at: offset + 12), key: octets.u128(at: offset + 20))
  }

  fileprivate func encode(into output: inout OutputSpan<UInt8>) {
    output.append(management: peer)
    output.append(kind.rawValue)
    output.append(role.rawValue)
    output.append(keyByteCount)
    output.append(u16: diversifier)
    output.append(u64: random)
    output.append(u128: key)
  }
}

/// A key of a device: its identity resolving key (`struct mgmt_irk_info` in `include/net/bluetooth/mgmt.h`)
/// or its signature resolving key.
public struct ManagementDeviceKey: Hashable, Sendable {
  static let byteCount = 23

  /// Public or static address of the device.
  public var peer: DeviceAddress
  public var key: UInt128

  public init(peer: DeviceAddress, key: UInt128) {
    self.peer = peer
    self.key = key
  }
}

#if !NO_ALLOCATIONS
  // Descriptions and mirrors omit the key so that it never reaches a log.
  extension ManagementLongTermKey: CustomStringConvertible {
    public var description: String { "key of \(peer)" }
  }

  extension ManagementDeviceKey: CustomStringConvertible {
    public var description: String { "key of \(peer)" }
  }

  /// Replaces all long-term keys of the kernel (`load_long_term_keys` in `net/bluetooth/mgmt.c`,
  /// `hci_smp_ltks_clear`). `mgmt-api.txt`, 0x0013.
  public struct LoadLongTermKeys: ManagementCommand {
    public static let opcode = ManagementOpcode.loadLongTermKeys
    public let keys: [ManagementLongTermKey]

    public init(_ keys: [ManagementLongTermKey]) { self.keys = keys }

    public var parameterByteCount: Int { 2 + ManagementLongTermKey.byteCount * keys.count }
    public func encodeParameters(into output: inout OutputSpan<UInt8>) {
      output.append(u16: UInt16(truncatingIfNeeded: keys.count))
      for key in keys { key.encode(into: &output) }
    }
  }

  /// Replaces all identity resolving keys of the kernel. After the first such command, even with no keys, the
  /// kernel requests the identity resolving key of each device that it pairs with (`load_irks`,
  /// HCI_RPA_RESOLVING). `mgmt-api.txt`, 0x0030.
  public struct LoadIdentityResolvingKeys: ManagementCommand {
    public static let opcode = ManagementOpcode.loadIdentityResolvingKeys
    public let keys: [ManagementDeviceKey]

    public init(_ keys: [ManagementDeviceKey]) { self.keys = keys }

    public var parameterByteCount: Int { 2 + ManagementDeviceKey.byteCount * keys.count }
    public func encodeParameters(into output: inout OutputSpan<UInt8>) {
      output.append(u16: UInt16(truncatingIfNeeded: keys.count))
      for key in keys {
        output.append(management: key.peer)
        output.append(u128: key.key)
      }
    }
  }
#endif

// MARK: Events

extension ManagementEventCode {
  public static let newLongTermKey = ManagementEventCode(rawValue: 0x000A)
  public static let userConfirmationRequest = ManagementEventCode(rawValue: 0x000F)
  public static let userPasskeyRequest = ManagementEventCode(rawValue: 0x0010)
  public static let authenticationFailed = ManagementEventCode(rawValue: 0x0011)
  public static let passkeyNotify = ManagementEventCode(rawValue: 0x0017)
  public static let newIdentityResolvingKey = ManagementEventCode(rawValue: 0x0018)
  public static let newSignatureResolvingKey = ManagementEventCode(rawValue: 0x0019)
}

/// Events and requests that the kernel sends while it pairs with an LE device.
public enum ManagementSecurityEvent: Hashable, Sendable {
  /// Whether to keep the key when the link ends. The kernel sets `forGood` if both sides requested bonding
  /// and the address is permanent.
  public enum Keeping: Hashable, Sendable {
    case forThisLink, forGood
  }

  /// The side whose signatures a key verifies.
  public enum Signer: Hashable, Sendable {
    case local, peer
  }

  case longTermKey(ManagementLongTermKey, Keeping)
  /// The device's identity resolving key. `met` is the private address that the device used when it paired;
  /// all zeros if it used no private address.
  case identityKey(ManagementDeviceKey, met: DeviceAddress, Keeping)
  case signingKey(ManagementDeviceKey, of: Signer, Keeping)
  /// The user must confirm that the device shows the same number.
  case compare(DeviceAddress, UInt32)
  /// The kernel asks whether to continue pairing without user verification.
  case permit(DeviceAddress)
  case askPasskey(DeviceAddress)
  /// The user must type this passkey on the device; `typed` digits have been entered so far.
  case showPasskey(DeviceAddress, UInt32, typed: UInt8)
  case failed(DeviceAddress, ManagementStatus)

  /// Decodes an event or request.
  ///
  /// - Returns: `nil` for other events and for BR/EDR devices.
  /// - Throws: `truncated` if the parameters are too short for the event.
  public init?(_ code: ManagementEventCode, _ event: Span<UInt8>) throws(WireError) {
    switch code {
    case .newLongTermKey:
      try event.require(1 + ManagementLongTermKey.byteCount, .management)
      guard let key = ManagementLongTermKey(event, at: 1) else { return nil }
      self = .longTermKey(key, Self.keeping(event))
    case .newIdentityResolvingKey:
      try event.require(7 + ManagementDeviceKey.byteCount, .management)
      guard let peer = event.managementAddress(at: 7) else { return nil }
      let key = ManagementDeviceKey(peer: peer, key: event.u128(at: 14))
      self = .identityKey(key, met: event.address(at: 1, type: .random), Self.keeping(event))
    case .newSignatureResolvingKey:
      try event.require(25, .management)
      guard let peer = event.managementAddress(at: 1) else { return nil }
      let signer: Signer = event[8] & 1 == 0 ? .local : .peer
      let key = ManagementDeviceKey(peer: peer, key: event.u128(at: 9))
      self = .signingKey(key, of: signer, Self.keeping(event))
    case .userConfirmationRequest:
      try event.require(12, .management)
      guard let peer = event.managementAddress(at: 0) else { return nil }
      self = event[7] == 0 ? .compare(peer, event.u32(at: 8)) : .permit(peer)
    case .userPasskeyRequest:
      try event.require(7, .management)
      guard let peer = event.managementAddress(at: 0) else { return nil }
      self = .askPasskey(peer)
    case .passkeyNotify:
      try event.require(12, .management)
      guard let peer = event.managementAddress(at: 0) else { return nil }
      self = .showPasskey(peer, event.u32(at: 7), typed: event[11])
    case .authenticationFailed:
      try event.require(8, .management)
      guard let peer = event.managementAddress(at: 0) else { return nil }
      self = .failed(peer, ManagementStatus(rawValue: event[7]))
    default: return nil
    }
  }

  private static func keeping(_ event: Span<UInt8>) -> Keeping { event[0] == 0 ? .forThisLink : .forGood }
}

#if !hasFeature(Embedded)
  extension ManagementLongTermKey: CustomReflectable {
    public var customMirror: Mirror { Mirror(self, children: []) }
  }

  extension ManagementDeviceKey: CustomReflectable {
    public var customMirror: Mirror { Mirror(self, children: []) }
  }
#endif

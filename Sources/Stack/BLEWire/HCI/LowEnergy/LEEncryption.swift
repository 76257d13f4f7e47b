extension HCIOpcode {
  public static let leEncrypt = HCIOpcode(group: 0x08, command: 0x017)
  public static let leEnableEncryption = HCIOpcode(group: 0x08, command: 0x019)
  public static let leLongTermKeyRequestReply = HCIOpcode(group: 0x08, command: 0x01A)
  public static let leLongTermKeyRequestNegativeReply = HCIOpcode(group: 0x08, command: 0x01B)
  public static let leAddDeviceToResolvingList = HCIOpcode(group: 0x08, command: 0x027)
}

extension HCIEventCode {
  public static let encryptionChange = HCIEventCode(rawValue: 0x08)
  public static let encryptionKeyRefreshComplete = HCIEventCode(rawValue: 0x30)
  public static let encryptionChangeV2 = HCIEventCode(rawValue: 0x59)
}

extension LESubevent {
  public static let longTermKeyRequest = LESubevent(rawValue: 0x05)
}

extension HCIStatus {
  public static let authenticationFailure = HCIStatus(rawValue: 0x05)
  public static let pinOrKeyMissing = HCIStatus(rawValue: 0x06)
  /// Connection Terminated Due to MIC Failure: the two sides use different keys.
  public static let micFailure = HCIStatus(rawValue: 0x3D)
}

/// Encrypts a link, or changes the key of an encrypted link. Sent by the central's host. Encryption Change or
/// Encryption Key Refresh Complete reports the result. Core 5.4, Vol 4, Part E, 7.8.24.
public struct LEEnableEncryption: HCICommand {
  public static let opcode = HCIOpcode.leEnableEncryption
  public let handle: ConnectionHandle
  /// Rand, which identifies the peer's key together with `diversifier` (EDIV). Both are 0 except for keys
  /// from legacy pairing.
  public let random: UInt64
  public let diversifier: UInt16
  public let key: UInt128

  public init(_ handle: ConnectionHandle, random: UInt64 = 0, diversifier: UInt16 = 0, key: UInt128) {
    self.handle = handle
    self.random = random
    self.diversifier = diversifier
    self.key = key
  }

  public init(validating parameters: Span<UInt8>) throws(WireError) {
    try parameters.require(28, .hciCommand)
    self.init(
      ConnectionHandle(parameters.u16(at: 0)), random: parameters.u64(at: 2),
      diversifier: parameters.u16(at: 10), key: parameters.u128(at: 12))
  }

  public func encodeParameters(into output: inout OutputSpan<UInt8>) {
    output.append(u16: handle.rawValue)
    output.append(u64: random)
    output.append(u16: diversifier)
    output.append(u128: key)
  }
}

/// Reports that the central has requested encryption and that the peripheral's host must supply the key. Core
/// 5.4, Vol 4, Part E, 7.7.65.5.
@frozen public struct LELongTermKeyRequest: Hashable, Sendable, BitwiseCopyable {
  public let handle: ConnectionHandle
  /// Rand, which identifies the key together with `diversifier` (EDIV). Both are 0 except for keys from
  /// legacy pairing.
  public let random: UInt64
  public let diversifier: UInt16

  /// Decodes the event.
  ///
  /// - Parameter event: parameters of the LE Meta event, including the subevent code.
  public init(validating event: Span<UInt8>) throws(WireError) {
    try event.require(13, of: .longTermKeyRequest)
    handle = ConnectionHandle(event.u16(at: 1))
    random = event.u64(at: 3)
    diversifier = event.u16(at: 11)
  }
}

/// Supplies the key for a central's encryption request. Core 5.4, Vol 4, Part E, 7.8.25.
public struct LELongTermKeyRequestReply: HCICommand {
  public static let opcode = HCIOpcode.leLongTermKeyRequestReply
  public let handle: ConnectionHandle
  public let key: UInt128

  @inlinable public init(_ handle: ConnectionHandle, key: UInt128) {
    self.handle = handle
    self.key = key
  }

  public func encodeParameters(into output: inout OutputSpan<UInt8>) {
    output.append(u16: handle.rawValue)
    output.append(u128: key)
  }
}

/// Reports that the host has no key for a central's encryption request. The central gets PIN or Key Missing.
/// Core 5.4, Vol 4, Part E, 7.8.26.
public struct LELongTermKeyRequestNegativeReply: HCICommand {
  public static let opcode = HCIOpcode.leLongTermKeyRequestNegativeReply
  public let handle: ConnectionHandle

  @inlinable public init(_ handle: ConnectionHandle) { self.handle = handle }

  public func encodeParameters(into output: inout OutputSpan<UInt8>) { output.append(u16: handle.rawValue) }
}

/// Reports that encryption of a link was turned on or off, or failed. Core 5.4, Vol 4, Part E, 7.7.8.
@frozen public struct EncryptionChange: Hashable, Sendable, BitwiseCopyable {
  public let status: HCIStatus
  public let handle: ConnectionHandle
  public let isEncrypted: Bool
  /// Encryption key size in bytes; `nil` in the first version of the event.
  public let keyByteCount: UInt8?

  @inlinable public init(
    status: HCIStatus, handle: ConnectionHandle, isEncrypted: Bool, keyByteCount: UInt8? = nil
  ) {
    self.status = status
    self.handle = handle
    self.isEncrypted = isEncrypted
    self.keyByteCount = keyByteCount
  }

  /// Decodes the first version of the event, code 0x08.
  public init(validating parameters: Span<UInt8>) throws(WireError) {
    try parameters.require(4, .hciEvent)
    self.init(
      status: HCIStatus(rawValue: parameters[0]), handle: ConnectionHandle(parameters.u16(at: 1)),
      isEncrypted: parameters[3] != 0)
  }

  /// Decodes the second version of the event, code 0x59.
  public init(validatingV2 parameters: Span<UInt8>) throws(WireError) {
    try parameters.require(5, .hciEvent)
    self.init(
      status: HCIStatus(rawValue: parameters[0]), handle: ConnectionHandle(parameters.u16(at: 1)),
      isEncrypted: parameters[3] != 0, keyByteCount: parameters[4])
  }

  public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(status.rawValue)
    output.append(u16: handle.rawValue)
    output.append(isEncrypted ? 1 : 0)
    if let keyByteCount { output.append(keyByteCount) }
  }
}

/// Reports that the key of an encrypted link was changed. Core 5.4, Vol 4, Part E, 7.7.39.
@frozen public struct EncryptionKeyRefreshComplete: Hashable, Sendable, BitwiseCopyable {
  public let status: HCIStatus
  public let handle: ConnectionHandle

  @inlinable public init(status: HCIStatus, handle: ConnectionHandle) {
    self.status = status
    self.handle = handle
  }

  public init(validating parameters: Span<UInt8>) throws(WireError) {
    try parameters.require(3, .hciEvent)
    self.init(
      status: HCIStatus(rawValue: parameters[0]), handle: ConnectionHandle(parameters.u16(at: 1)))
  }

  public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(status.rawValue)
    output.append(u16: handle.rawValue)
  }
}

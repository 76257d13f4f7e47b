/// Code: the first byte of a Security Manager PDU. Core 5.4, Vol 3, Part H, 3.3.
public enum SecurityManagerCode: UInt8, Hashable, Sendable, BitwiseCopyable {
  case pairingRequest = 0x01
  case pairingResponse = 0x02
  case pairingConfirm = 0x03
  case pairingRandom = 0x04
  case pairingFailed = 0x05
  case encryptionInformation = 0x06
  case centralIdentification = 0x07
  case identityInformation = 0x08
  case identityAddress = 0x09
  case signingInformation = 0x0A
  case securityRequest = 0x0B
  case publicKey = 0x0C
  case dhKeyCheck = 0x0D
  case keypress = 0x0E

  /// Size of the PDU in bytes, including the code.
  @inlinable public var byteCount: Int {
    switch self {
    case .pairingRequest, .pairingResponse: 1 + PairingFeatures.byteCount
    case .pairingConfirm, .pairingRandom, .encryptionInformation, .identityInformation,
      .signingInformation, .dhKeyCheck:
      17
    case .pairingFailed, .securityRequest, .keypress: 2
    case .centralIdentification: 11
    case .identityAddress: 8
    case .publicKey: 1 + P256PublicKey.byteCount
    }
  }
}

/// Reason why a pairing failed. Core 5.4, Vol 3, Part H, 3.5.5. Unknown codes are kept.
public struct PairingFailure: RawRepresentable, Hashable, Sendable, BitwiseCopyable {
  public let rawValue: UInt8
  @inlinable public init(rawValue: UInt8) { self.rawValue = rawValue }

  public static let passkeyEntryFailed = PairingFailure(rawValue: 0x01)
  public static let outOfBandNotAvailable = PairingFailure(rawValue: 0x02)
  public static let authenticationRequirements = PairingFailure(rawValue: 0x03)
  public static let confirmValueFailed = PairingFailure(rawValue: 0x04)
  public static let pairingNotSupported = PairingFailure(rawValue: 0x05)
  public static let encryptionKeySize = PairingFailure(rawValue: 0x06)
  public static let commandNotSupported = PairingFailure(rawValue: 0x07)
  public static let unspecifiedReason = PairingFailure(rawValue: 0x08)
  public static let repeatedAttempts = PairingFailure(rawValue: 0x09)
  public static let invalidParameters = PairingFailure(rawValue: 0x0A)
  public static let dhKeyCheckFailed = PairingFailure(rawValue: 0x0B)
  public static let numericComparisonFailed = PairingFailure(rawValue: 0x0C)
  public static let keyRejected = PairingFailure(rawValue: 0x0F)

  /// Name of the code in the specification; `other` for an unknown code.
  public var name: StaticString {
    switch rawValue {
    case 0x01: "Passkey Entry Failed"
    case 0x02: "OOB Not Available"
    case 0x03: "Authentication Requirements"
    case 0x04: "Confirm Value Failed"
    case 0x05: "Pairing Not Supported"
    case 0x06: "Encryption Key Size"
    case 0x07: "Command Not Supported"
    case 0x08: "Unspecified Reason"
    case 0x09: "Repeated Attempts"
    case 0x0A: "Invalid Parameters"
    case 0x0B: "DHKey Check Failed"
    case 0x0C: "Numeric Comparison Failed"
    case 0x0D: "BR/EDR Pairing In Progress"
    case 0x0E: "Cross-transport Key Derivation/Generation Not Allowed"
    case 0x0F: "Key Rejected"
    default: "other"
    }
  }
}

/// A Security Manager PDU, on channel 0x0006. Core 5.4, Vol 3, Part H, 3.5 and 3.6.
///
/// 128-bit numbers are little-endian on air, like all other numbers.
public enum SecurityManagerPDU: Hashable, Sendable, BitwiseCopyable {
  /// Size of the longest PDU, Pairing Public Key, in bytes.
  public static let maximumByteCount = 1 + P256PublicKey.byteCount

  case pairingRequest(PairingFeatures)
  case pairingResponse(PairingFeatures)
  case pairingConfirm(UInt128)
  case pairingRandom(UInt128)
  case pairingFailed(PairingFailure)
  /// The sender's long-term key.
  case encryptionInformation(UInt128)
  /// EDIV and Rand, by which the sender identifies its long-term key.
  case centralIdentification(UInt16, UInt64)
  /// The sender's identity resolving key.
  case identityInformation(UInt128)
  case identityAddress(DeviceAddress)
  /// The sender's signature resolving key.
  case signingInformation(UInt128)
  case securityRequest(AuthenticationRequirements)
  case publicKey(P256PublicKey)
  case dhKeyCheck(UInt128)
  /// Type of the key press, 0 … 4. Core 5.4, Vol 3, Part H, 3.5.8.
  case keypress(UInt8)

  /// Decodes a PDU.
  ///
  /// - Throws: `unexpectedOpcode` for an unknown code, `truncated` or `lengthMismatch` unless the PDU has the
  ///   length for its code, `invalidValue` for an invalid IO capability, OOB flag, key size or address type.
  public init(validating pdu: Span<UInt8>) throws(WireError) {
    try pdu.require(1, .smp)
    guard let code = SecurityManagerCode(rawValue: pdu[0]) else {
      throw WireError(.smp, offset: 0, .unexpectedOpcode(pdu[0]))
    }
    try pdu.require(code.byteCount, .smp)
    guard pdu.count == code.byteCount else {
      throw WireError(.smp, offset: 0, .lengthMismatch(claimed: code.byteCount, available: pdu.count))
    }
    switch code {
    case .pairingRequest: self = .pairingRequest(try pdu.pairingFeatures())
    case .pairingResponse: self = .pairingResponse(try pdu.pairingFeatures())
    case .pairingConfirm: self = .pairingConfirm(pdu.u128(at: 1))
    case .pairingRandom: self = .pairingRandom(pdu.u128(at: 1))
    case .pairingFailed: self = .pairingFailed(PairingFailure(rawValue: pdu[1]))
    case .encryptionInformation: self = .encryptionInformation(pdu.u128(at: 1))
    case .centralIdentification: self = .centralIdentification(pdu.u16(at: 1), pdu.u64(at: 3))
    case .identityInformation: self = .identityInformation(pdu.u128(at: 1))
    case .identityAddress:
      guard let type = AddressType(rawValue: pdu[1]) else { throw .invalid(pdu, at: 1) }
      self = .identityAddress(pdu.address(at: 2, type: type))
    case .signingInformation: self = .signingInformation(pdu.u128(at: 1))
    case .securityRequest: self = .securityRequest(AuthenticationRequirements(rawValue: pdu[1]))
    case .publicKey:
      self = .publicKey(P256PublicKey(x: pdu.coordinate(at: 1), y: pdu.coordinate(at: 33)))
    case .dhKeyCheck: self = .dhKeyCheck(pdu.u128(at: 1))
    case .keypress: self = .keypress(pdu[1])
    }
  }

  public var code: SecurityManagerCode {
    switch self {
    case .pairingRequest: .pairingRequest
    case .pairingResponse: .pairingResponse
    case .pairingConfirm: .pairingConfirm
    case .pairingRandom: .pairingRandom
    case .pairingFailed: .pairingFailed
    case .encryptionInformation: .encryptionInformation
    case .centralIdentification: .centralIdentification
    case .identityInformation: .identityInformation
    case .identityAddress: .identityAddress
    case .signingInformation: .signingInformation
    case .securityRequest: .securityRequest
    case .publicKey: .publicKey
    case .dhKeyCheck: .dhKeyCheck
    case .keypress: .keypress
    }
  }

  public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(code.rawValue)
    switch self {
    case .pairingRequest(let features), .pairingResponse(let features): output.append(features)
    case .pairingConfirm(let value), .pairingRandom(let value), .encryptionInformation(let value),
      .identityInformation(let value), .signingInformation(let value), .dhKeyCheck(let value):
      output.append(u128: value)
    case .pairingFailed(let reason): output.append(reason.rawValue)
    case .centralIdentification(let diversifier, let random):
      output.append(u16: diversifier)
      output.append(u64: random)
    case .identityAddress(let address):
      output.append(address.type.rawValue)
      output.append(address)
    case .securityRequest(let requirements): output.append(requirements.rawValue)
    case .publicKey(let key):
      output.append(key.x)
      output.append(key.y)
    case .keypress(let what): output.append(what)
    }
  }
}

extension WireError {
  fileprivate static func invalid(_ pdu: Span<UInt8>, at offset: Int) -> WireError {
    WireError(.smp, offset: offset, .invalidValue(UInt32(pdu[offset])))
  }
}

extension Span where Element == UInt8 {
  fileprivate func pairingFeatures() throws(WireError) -> PairingFeatures {
    guard let capability = IOCapability(rawValue: self[1]) else { throw .invalid(self, at: 1) }
    guard self[2] <= 1 else { throw .invalid(self, at: 2) }
    guard (7...16).contains(self[4]) else { throw .invalid(self, at: 4) }
    return PairingFeatures(
      capability: capability, requirements: AuthenticationRequirements(rawValue: self[3]),
      hasOutOfBandData: self[2] == 1, maximumKeyByteCount: self[4],
      initiatorKeys: KeyDistribution(rawValue: self[5]), responderKeys: KeyDistribution(rawValue: self[6]))
  }
}

extension OutputSpan where Element == UInt8 {
  fileprivate mutating func append(_ features: PairingFeatures) {
    append(features.capability.rawValue)
    append(features.hasOutOfBandData ? 1 : 0)
    append(features.requirements.rawValue)
    append(features.maximumKeyByteCount)
    append(features.initiatorKeys.rawValue)
    append(features.responderKeys.rawValue)
  }
}

/// Input and output capability of a device. Core 5.4, Vol 3, Part H, 2.3.2 and 3.5.1.
public enum IOCapability: UInt8, Hashable, Sendable, BitwiseCopyable {
  case displayOnly = 0
  case displayYesNo = 1
  case keyboardOnly = 2
  case noInputNoOutput = 3
  case keyboardDisplay = 4
}

/// AuthReq: the requested properties of a pairing. Core 5.4, Vol 3, Part H, 3.5.1.
public struct AuthenticationRequirements: RawRepresentable, Hashable, Sendable, BitwiseCopyable {
  public let rawValue: UInt8
  @inlinable public init(rawValue: UInt8) { self.rawValue = rawValue }

  public static let bonding = AuthenticationRequirements(rawValue: 0x01)
  /// Protection against a man in the middle (MITM).
  public static let authenticated = AuthenticationRequirements(rawValue: 0x04)
  public static let secureConnections = AuthenticationRequirements(rawValue: 0x08)
  public static let keypress = AuthenticationRequirements(rawValue: 0x10)
  public static let ct2 = AuthenticationRequirements(rawValue: 0x20)
}

/// Keys that a side distributes after pairing. Core 5.4, Vol 3, Part H, 3.6.1.
public struct KeyDistribution: RawRepresentable, Hashable, Sendable, BitwiseCopyable {
  public let rawValue: UInt8
  @inlinable public init(rawValue: UInt8) { self.rawValue = rawValue }

  /// Long-term key, EDIV and Rand. Ignored with Secure Connections.
  public static let encryption = KeyDistribution(rawValue: 0x01)
  /// Identity resolving key and identity address.
  public static let identity = KeyDistribution(rawValue: 0x02)
  /// Signature resolving key.
  public static let signing = KeyDistribution(rawValue: 0x04)
  /// BR/EDR link key, derived from the LE long-term key.
  public static let link = KeyDistribution(rawValue: 0x08)
}

#if !NO_ALLOCATIONS
  extension AuthenticationRequirements: OptionSet {}
  extension KeyDistribution: OptionSet {}
#endif

/// The parameters of a Pairing Request or Response. Core 5.4, Vol 3, Part H, 3.5.1 and 3.5.2.
public struct PairingFeatures: Hashable, Sendable, BitwiseCopyable {
  public static let byteCount = 6

  public var capability: IOCapability
  /// Whether the sender has the peer's out-of-band data.
  public var hasOutOfBandData: Bool
  public var requirements: AuthenticationRequirements
  /// Maximum encryption key size, 7 … 16 bytes.
  public var maximumKeyByteCount: UInt8
  public var initiatorKeys: KeyDistribution
  public var responderKeys: KeyDistribution

  @inlinable public init(
    capability: IOCapability, requirements: AuthenticationRequirements, hasOutOfBandData: Bool = false,
    maximumKeyByteCount: UInt8 = 16, initiatorKeys: KeyDistribution, responderKeys: KeyDistribution
  ) {
    self.capability = capability
    self.hasOutOfBandData = hasOutOfBandData
    self.requirements = requirements
    self.maximumKeyByteCount = maximumKeyByteCount
    self.initiatorKeys = initiatorKeys
    self.responderKeys = responderKeys
  }
}

/// A coordinate of a point on the curve P-256: a 256-bit number.
public struct P256Coordinate: Hashable, Sendable, BitwiseCopyable {
  /// Most significant 128 bits: the first 32 digits in print, the last 16 bytes on air.
  public let high: UInt128
  public let low: UInt128

  @inlinable public init(high: UInt128, low: UInt128) {
    self.high = high
    self.low = low
  }
}

/// A Secure Connections public key. Core 5.4, Vol 3, Part H, 3.5.6.
public struct P256PublicKey: Hashable, Sendable, BitwiseCopyable {
  public static let byteCount = 64

  public let x: P256Coordinate
  public let y: P256Coordinate

  @inlinable public init(x: P256Coordinate, y: P256Coordinate) {
    self.x = x
    self.y = y
  }

  /// The debug key, whose private key is published. Core 5.4, Vol 3, Part H, 2.3.5.6.1.
  public static let debug = P256PublicKey(
    x: P256Coordinate(
      high: 0x20B0_03D2_F297_BE2C_5E2C_83A7_E9F9_A5B9, low: 0xEFF4_9111_ACF4_FDDB_CC03_0148_0E35_9DE6),
    y: P256Coordinate(
      high: 0xDC80_9C49_652A_EB6D_6332_9ABF_5A52_155C, low: 0x7663_45C2_8FED_3024_741C_8ED0_1589_D28B))
}

extension Span where Element == UInt8 {
  /// Reads 32 bytes in transmission order.
  @inlinable func coordinate(at offset: Int) -> P256Coordinate {
    P256Coordinate(high: u128(at: offset + 16), low: u128(at: offset))
  }
}

extension OutputSpan where Element == UInt8 {
  @inlinable mutating func append(_ coordinate: P256Coordinate) {
    append(u128: coordinate.low)
    append(u128: coordinate.high)
  }
}

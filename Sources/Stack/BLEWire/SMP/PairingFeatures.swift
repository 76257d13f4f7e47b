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
  /// MITM protection.
  public static let authenticated = AuthenticationRequirements(rawValue: 0x04)
  public static let secureConnections = AuthenticationRequirements(rawValue: 0x08)
  public static let keypress = AuthenticationRequirements(rawValue: 0x10)
  public static let ct2 = AuthenticationRequirements(rawValue: 0x20)
}

/// Keys that a side distributes after pairing. Core 5.4, Vol 3, Part H, 3.6.1.
public struct KeyDistribution: RawRepresentable, Hashable, Sendable, BitwiseCopyable {
  public let rawValue: UInt8
  @inlinable public init(rawValue: UInt8) { self.rawValue = rawValue }

  /// Long-term key, EDIV and Rand. Ignored in Secure Connections.
  public static let encryption = KeyDistribution(rawValue: 0x01)
  /// Identity resolving key and identity address.
  public static let identity = KeyDistribution(rawValue: 0x02)
  /// Signature resolving key.
  public static let signing = KeyDistribution(rawValue: 0x04)
  /// Derive a BR/EDR link key.
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

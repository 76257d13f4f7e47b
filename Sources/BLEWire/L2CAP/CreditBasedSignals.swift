public import BLECore

/// The outcome of an LE Credit Based Connection Request. Core 5.4, Vol 3, Part A, 4.23. Unknown values are kept.
public struct CreditBasedConnectionResult: RawRepresentable, Hashable, Sendable, BitwiseCopyable {
  public let rawValue: UInt16
  @inlinable public init(rawValue: UInt16) { self.rawValue = rawValue }

  public static let success = CreditBasedConnectionResult(rawValue: 0x0000)
  public static let spsmNotSupported = CreditBasedConnectionResult(rawValue: 0x0002)
  public static let noResourcesAvailable = CreditBasedConnectionResult(rawValue: 0x0004)
  public static let insufficientAuthentication = CreditBasedConnectionResult(rawValue: 0x0005)
  public static let insufficientAuthorization = CreditBasedConnectionResult(rawValue: 0x0006)
  public static let encryptionKeySizeTooShort = CreditBasedConnectionResult(rawValue: 0x0007)
  public static let insufficientEncryption = CreditBasedConnectionResult(rawValue: 0x0008)
  public static let invalidSourceCID = CreditBasedConnectionResult(rawValue: 0x0009)
  public static let sourceCIDAlreadyAllocated = CreditBasedConnectionResult(rawValue: 0x000A)
  public static let unacceptableParameters = CreditBasedConnectionResult(rawValue: 0x000B)

  /// The specification's name, else `other`.
  public var name: StaticString {
    switch self {
    case .success: "Connection successful"
    case .spsmNotSupported: "Connection refused – SPSM not supported"
    case .noResourcesAvailable: "Connection refused – no resources available"
    case .insufficientAuthentication: "Connection refused – insufficient authentication"
    case .insufficientAuthorization: "Connection refused – insufficient authorization"
    case .encryptionKeySizeTooShort: "Connection refused – encryption key size too short"
    case .insufficientEncryption: "Connection refused – insufficient encryption"
    case .invalidSourceCID: "Connection refused – invalid Source CID"
    case .sourceCIDAlreadyAllocated: "Connection refused – Source CID already allocated"
    case .unacceptableParameters: "Connection refused – unacceptable parameters"
    default: "other"
    }
  }
}

/// What one side of a credit-based channel takes.
public struct CreditBasedParameters: Hashable, Sendable, BitwiseCopyable {
  /// Octets of the longest SDU: 23 … 65,535.
  public let mtu: UInt16
  /// Octets of the longest PDU, the SDU's length field included: 23 … 65,533.
  public let mps: UInt16
  /// PDUs that the other side may send before it is given more credits.
  public let credits: UInt16

  @inlinable public init(mtu: UInt16, mps: UInt16, credits: UInt16) {
    self.mtu = mtu
    self.mps = mps
    self.credits = credits
  }

  /// Core 5.4, Vol 3, Part A, 4.22 and 4.23.
  public var isValid: Bool { mtu >= 23 && (23...65_533).contains(mps) }
}

/// Asks for a channel to a service of the peer. Core 5.4, Vol 3, Part A, 4.22.
@frozen public struct CreditBasedConnectionRequest: Hashable, Sendable, BitwiseCopyable {
  /// Which service: 0x0001 … 0x007F assigned, 0x0080 … 0x00FF by the peer's choice.
  public let spsm: UInt16
  /// The channel's number on the side that asks.
  public let sourceCID: UInt16
  public let parameters: CreditBasedParameters

  @inlinable public init(spsm: UInt16, sourceCID: UInt16, parameters: CreditBasedParameters) {
    self.spsm = spsm
    self.sourceCID = sourceCID
    self.parameters = parameters
  }

  /// - Parameter data: of the signalling command.
  @inlinable public init(validating data: Span<UInt8>) throws(WireError) {
    try data.requireExactly(10)
    spsm = data.u16(at: 0)
    sourceCID = data.u16(at: 2)
    parameters = data.creditBasedParameters(at: 4)
  }

  @inlinable public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(u16: spsm)
    output.append(u16: sourceCID)
    output.append(parameters)
  }
}

/// The answer to it. Core 5.4, Vol 3, Part A, 4.23.
@frozen public struct CreditBasedConnectionResponse: Hashable, Sendable, BitwiseCopyable {
  /// The channel's number on the side that answers; 0 where it refuses.
  public let destinationCID: UInt16
  public let parameters: CreditBasedParameters
  public let result: CreditBasedConnectionResult

  @inlinable public init(
    destinationCID: UInt16, parameters: CreditBasedParameters, result: CreditBasedConnectionResult
  ) {
    self.destinationCID = destinationCID
    self.parameters = parameters
    self.result = result
  }

  @inlinable public init(validating data: Span<UInt8>) throws(WireError) {
    try data.requireExactly(10)
    destinationCID = data.u16(at: 0)
    parameters = data.creditBasedParameters(at: 2)
    result = CreditBasedConnectionResult(rawValue: data.u16(at: 8))
  }

  @inlinable public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(u16: destinationCID)
    output.append(parameters)
    output.append(u16: result.rawValue)
  }
}

/// More credits for the other side. Core 5.4, Vol 3, Part A, 4.24.
@frozen public struct FlowControlCredit: Hashable, Sendable, BitwiseCopyable {
  /// The channel's number on the side that gives.
  public let sourceCID: UInt16
  /// 1 … 65,535.
  public let credits: UInt16

  @inlinable public init(sourceCID: UInt16, credits: UInt16) {
    self.sourceCID = sourceCID
    self.credits = credits
  }

  @inlinable public init(validating data: Span<UInt8>) throws(WireError) {
    try data.requireExactly(4)
    sourceCID = data.u16(at: 0)
    credits = data.u16(at: 2)
  }

  @inlinable public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(u16: sourceCID)
    output.append(u16: credits)
  }
}

/// Data of a Disconnection Request and of its response. Core 5.4, Vol 3, Part A, 4.6 and 4.7.
@frozen public struct ChannelDisconnection: Hashable, Sendable, BitwiseCopyable {
  /// The channel's number on the side that was asked, and on the side that asked.
  public let destinationCID: UInt16
  public let sourceCID: UInt16

  @inlinable public init(destinationCID: UInt16, sourceCID: UInt16) {
    self.destinationCID = destinationCID
    self.sourceCID = sourceCID
  }

  @inlinable public init(validating data: Span<UInt8>) throws(WireError) {
    try data.requireExactly(4)
    destinationCID = data.u16(at: 0)
    sourceCID = data.u16(at: 2)
  }

  @inlinable public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(u16: destinationCID)
    output.append(u16: sourceCID)
  }
}

extension Span where Element == UInt8 {
  @inlinable func requireExactly(_ byteCount: Int) throws(WireError) {
    guard count == byteCount else {
      throw WireError(.l2cap, offset: 0, .lengthMismatch(claimed: byteCount, available: count))
    }
  }

  @inlinable func creditBasedParameters(at offset: Int) -> CreditBasedParameters {
    CreditBasedParameters(
      mtu: u16(at: offset), mps: u16(at: offset + 2), credits: u16(at: offset + 4))
  }
}

extension OutputSpan where Element == UInt8 {
  @inlinable mutating func append(_ parameters: CreditBasedParameters) {
    append(u16: parameters.mtu)
    append(u16: parameters.mps)
    append(u16: parameters.credits)
  }
}

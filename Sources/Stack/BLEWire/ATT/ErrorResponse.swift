/// Reason why a request was refused. Core 5.4, Vol 3, Part F, 3.4.1.1. Unknown codes are kept.
public struct ATTErrorCode: RawRepresentable, Hashable, Sendable, BitwiseCopyable {
  public let rawValue: UInt8
  @inlinable public init(rawValue: UInt8) { self.rawValue = rawValue }
  @inlinable init(_ rawValue: UInt8) { self.rawValue = rawValue }

  public static let invalidHandle = ATTErrorCode(0x01)
  public static let readNotPermitted = ATTErrorCode(0x02)
  public static let writeNotPermitted = ATTErrorCode(0x03)
  public static let invalidPDU = ATTErrorCode(0x04)
  public static let insufficientAuthentication = ATTErrorCode(0x05)
  public static let requestNotSupported = ATTErrorCode(0x06)
  public static let invalidOffset = ATTErrorCode(0x07)
  public static let insufficientAuthorization = ATTErrorCode(0x08)
  public static let prepareQueueFull = ATTErrorCode(0x09)
  public static let attributeNotFound = ATTErrorCode(0x0A)
  public static let attributeNotLong = ATTErrorCode(0x0B)
  public static let encryptionKeySizeTooShort = ATTErrorCode(0x0C)
  public static let invalidAttributeValueLength = ATTErrorCode(0x0D)
  public static let unlikelyError = ATTErrorCode(0x0E)
  public static let insufficientEncryption = ATTErrorCode(0x0F)
  public static let unsupportedGroupType = ATTErrorCode(0x10)
  public static let insufficientResources = ATTErrorCode(0x11)
  public static let databaseOutOfSync = ATTErrorCode(0x12)
  public static let valueNotAllowed = ATTErrorCode(0x13)
  public static let writeRequestRejected = ATTErrorCode(0xFC)
  public static let cccdImproperlyConfigured = ATTErrorCode(0xFD)
  public static let procedureAlreadyInProgress = ATTErrorCode(0xFE)
  public static let outOfRange = ATTErrorCode(0xFF)

  /// Name of the code in the specification, or the range that an unknown code belongs to.
  public var name: StaticString {
    switch rawValue {
    case 0x01: "Invalid Handle"
    case 0x02: "Read Not Permitted"
    case 0x03: "Write Not Permitted"
    case 0x04: "Invalid PDU"
    case 0x05: "Insufficient Authentication"
    case 0x06: "Request Not Supported"
    case 0x07: "Invalid Offset"
    case 0x08: "Insufficient Authorization"
    case 0x09: "Prepare Queue Full"
    case 0x0A: "Attribute Not Found"
    case 0x0B: "Attribute Not Long"
    case 0x0C: "Encryption Key Size Too Short"
    case 0x0D: "Invalid Attribute Value Length"
    case 0x0E: "Unlikely Error"
    case 0x0F: "Insufficient Encryption"
    case 0x10: "Unsupported Group Type"
    case 0x11: "Insufficient Resources"
    case 0x12: "Database Out Of Sync"
    case 0x13: "Value Not Allowed"
    case 0x80...0x9F: "application error"
    case 0xFC: "Write Request Rejected"
    case 0xFD: "Client Characteristic Configuration Descriptor Improperly Configured"
    case 0xFE: "Procedure Already In Progress"
    case 0xFF: "Out of Range"
    default: "reserved error code"
    }
  }
}

/// The response to a refused request. Core 5.4, Vol 3, Part F, 3.4.1.1. Exactly 5 bytes.
@frozen public struct ErrorResponse: Hashable, Sendable, BitwiseCopyable {
  public static let byteCount = 5

  public let request: ATTOpcode
  /// Handle of the attribute. For information only: some servers return a handle other than the requested
  /// handle.
  public let handle: AttributeHandle
  public let code: ATTErrorCode

  @inlinable public init(request: ATTOpcode, handle: AttributeHandle, code: ATTErrorCode) {
    self.request = request
    self.handle = handle
    self.code = code
  }

  /// Decodes an Error Response.
  ///
  /// - Throws: `lengthMismatch` unless the PDU has exactly 5 bytes; `unexpectedOpcode` for another PDU.
  @inlinable public init(validating pdu: Span<UInt8>) throws(WireError) {
    guard pdu.count == Self.byteCount else {
      throw WireError(
        .att, offset: 0, .lengthMismatch(claimed: Self.byteCount, available: pdu.count))
    }
    try pdu.require(Self.byteCount, of: .errorResponse)
    request = ATTOpcode(pdu[1])
    handle = pdu.handle(at: 2)
    code = ATTErrorCode(pdu[4])
  }

  @inlinable public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(ATTOpcode.errorResponse.rawValue)
    output.append(request.rawValue)
    output.append(handle)
    output.append(code.rawValue)
  }
}

/// Opcode: the first byte of every ATT PDU. Core 5.4, Vol 3, Part F, 3.3.1 and 3.4.8. Unknown values are
/// kept.
public struct ATTOpcode: RawRepresentable, Hashable, Sendable, BitwiseCopyable {
  public let rawValue: UInt8
  @inlinable public init(rawValue: UInt8) { self.rawValue = rawValue }
  @inlinable init(_ rawValue: UInt8) { self.rawValue = rawValue }

  public static let errorResponse = ATTOpcode(0x01)
  public static let exchangeMTURequest = ATTOpcode(0x02)
  public static let exchangeMTUResponse = ATTOpcode(0x03)
  public static let findInformationRequest = ATTOpcode(0x04)
  public static let findInformationResponse = ATTOpcode(0x05)
  public static let findByTypeValueRequest = ATTOpcode(0x06)
  public static let findByTypeValueResponse = ATTOpcode(0x07)
  public static let readByTypeRequest = ATTOpcode(0x08)
  public static let readByTypeResponse = ATTOpcode(0x09)
  public static let readRequest = ATTOpcode(0x0A)
  public static let readResponse = ATTOpcode(0x0B)
  public static let readBlobRequest = ATTOpcode(0x0C)
  public static let readBlobResponse = ATTOpcode(0x0D)
  public static let readMultipleRequest = ATTOpcode(0x0E)
  public static let readMultipleResponse = ATTOpcode(0x0F)
  public static let readByGroupTypeRequest = ATTOpcode(0x10)
  public static let readByGroupTypeResponse = ATTOpcode(0x11)
  public static let writeRequest = ATTOpcode(0x12)
  public static let writeResponse = ATTOpcode(0x13)
  public static let prepareWriteRequest = ATTOpcode(0x16)
  public static let prepareWriteResponse = ATTOpcode(0x17)
  public static let executeWriteRequest = ATTOpcode(0x18)
  public static let executeWriteResponse = ATTOpcode(0x19)
  public static let handleValueNotification = ATTOpcode(0x1B)
  public static let handleValueIndication = ATTOpcode(0x1D)
  public static let handleValueConfirmation = ATTOpcode(0x1E)
  public static let readMultipleVariableRequest = ATTOpcode(0x20)
  public static let readMultipleVariableResponse = ATTOpcode(0x21)
  public static let multipleHandleValueNotification = ATTOpcode(0x23)
  public static let writeCommand = ATTOpcode(0x52)
  public static let signedWriteCommand = ATTOpcode(0xD2)

  /// Whether the PDU is a command (bit 6): it has no response, and a receiver ignores it if the opcode is
  /// unknown.
  @inlinable public var isCommand: Bool { rawValue & 0x40 != 0 }

  /// Kind of the PDU. Unknown opcodes are commands if bit 6 is set, otherwise requests. Core 5.4, Vol 3, Part
  /// F, 3.3.
  @inlinable public var kind: Kind {
    switch rawValue {
    case 0x1B, 0x23: .notification
    case 0x1D: .indication
    case 0x1E: .confirmation
    case 0x01, 0x03, 0x05, 0x07, 0x09, 0x0B, 0x0D, 0x0F, 0x11, 0x13, 0x17, 0x19, 0x21: .response
    default: isCommand ? .command : .request
    }
  }

  /// Kind of a PDU. Core 5.4, Vol 3, Part F, 3.3.
  public enum Kind: Hashable, Sendable, BitwiseCopyable {
    case request, response, command, notification, indication, confirmation
  }
}

extension ATTOpcode {
  /// Name of the PDU in the specification.
  public var name: StaticString {
    switch self {
    case .errorResponse: "Error Response"
    case .exchangeMTURequest: "Exchange MTU Request"
    case .exchangeMTUResponse: "Exchange MTU Response"
    case .findInformationRequest: "Find Information Request"
    case .findInformationResponse: "Find Information Response"
    case .findByTypeValueRequest: "Find By Type Value Request"
    case .findByTypeValueResponse: "Find By Type Value Response"
    case .readByTypeRequest: "Read By Type Request"
    case .readByTypeResponse: "Read By Type Response"
    case .readRequest: "Read Request"
    case .readResponse: "Read Response"
    case .readBlobRequest: "Read Blob Request"
    case .readBlobResponse: "Read Blob Response"
    case .readMultipleRequest: "Read Multiple Request"
    case .readMultipleResponse: "Read Multiple Response"
    case .readByGroupTypeRequest: "Read By Group Type Request"
    case .readByGroupTypeResponse: "Read By Group Type Response"
    case .writeRequest: "Write Request"
    case .writeResponse: "Write Response"
    case .prepareWriteRequest: "Prepare Write Request"
    case .prepareWriteResponse: "Prepare Write Response"
    case .executeWriteRequest: "Execute Write Request"
    case .executeWriteResponse: "Execute Write Response"
    case .handleValueNotification: "Handle Value Notification"
    case .handleValueIndication: "Handle Value Indication"
    case .handleValueConfirmation: "Handle Value Confirmation"
    case .readMultipleVariableRequest: "Read Multiple Variable Request"
    case .readMultipleVariableResponse: "Read Multiple Variable Response"
    case .multipleHandleValueNotification: "Multiple Handle Value Notification"
    case .writeCommand: "Write Command"
    case .signedWriteCommand: "Signed Write Command"
    default: "unknown ATT PDU"
    }
  }
}

extension Span where Element == UInt8 {
  /// Checks the size and opcode of a PDU.
  ///
  /// - Throws: `truncated` for fewer than `byteCount` bytes, `unexpectedOpcode` for another PDU.
  @inlinable func require(_ byteCount: Int, of opcode: ATTOpcode) throws(WireError) {
    try require(byteCount, of: opcode, or: opcode)
  }

  /// Checks the size of a PDU, and that its opcode is one of two. For two PDUs with the same fields.
  @inlinable func require(_ byteCount: Int, of opcode: ATTOpcode, or other: ATTOpcode) throws(WireError) {
    try require(byteCount, .att)
    guard self[0] == opcode.rawValue || self[0] == other.rawValue else {
      throw WireError(.att, offset: 0, .unexpectedOpcode(self[0]))
    }
  }

  /// Checks that a PDU has exactly this size and this opcode.
  ///
  /// - Throws: `lengthMismatch` for additional bytes; otherwise like `require`.
  @inlinable func requireExactly(_ byteCount: Int, of opcode: ATTOpcode) throws(WireError) {
    try require(byteCount, of: opcode)
    guard count == byteCount else {
      throw WireError(.att, offset: 0, .lengthMismatch(claimed: byteCount, available: count))
    }
  }
}

/// Limits of ATT_MTU, and the fixed L2CAP channel of ATT. Core 5.4, Vol 3, Part F, 3.2.8 and Part G, 5.1.1.
public enum ATT {
  /// ATT_MTU of an LE bearer before an MTU exchange, in bytes.
  public static let defaultMTU = 23
  /// Largest useful ATT_MTU, in bytes: one Prepare Write can carry a 512-byte value.
  public static let maximumMTU = 517
  /// Maximum size of an attribute value. Core 5.4, Vol 3, Part F, 3.2.9.
  public static let maximumValueByteCount = 512
  /// L2CAP channel of the unenhanced ATT bearer.
  public static let channelID: UInt16 = 0x0004
}

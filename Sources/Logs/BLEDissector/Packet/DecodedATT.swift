public import BLEWire

/// One ATT PDU, reduced to its opcode, attribute handle and value.
///
/// | PDU | `handle` | `value` |
/// |---|---|---|
/// | Write Request and Command, Signed Write Command | the attribute's | the written bytes |
/// | Handle Value Notification and Indication | the attribute's | the bytes |
/// | Prepare Write Request and Response | the attribute's | the bytes of the part, at `offset` |
/// | Read Request, Read Blob Request (`offset`) | the attribute's | none |
/// | Read and Read Blob Response | from the request, if the log contains it | the read bytes |
/// | Write Response, Handle Value Confirmation | from the request or indication | none |
/// | Find By Type Value Request | none | the bytes to find |
/// | Error Response | the handle in error | none |
/// | lists of handles: Find Information, Find By Type Value, Read By (Group) Type Response, Read Multiple Request, Multiple Handle Value Notification | the first in the list | none |
/// | other PDUs | none | none |
///
/// `handle` and `value` correspond to the first `btatt.handle` and to `btatt.value` of `tshark`, except that
/// `tshark` omits values that it dissects into separate fields. All other data, such as the handle range of a
/// request, is in `parameters`.
public struct DecodedATT: ~Escapable {
  public let opcode: ATTOpcode
  public let handle: AttributeHandle?
  /// Offset of the PDU's bytes within the attribute's value; `nil` if the PDU has no offset.
  public let offset: UInt16?
  /// The attribute's bytes, if the PDU contains the bytes of a single attribute.
  public let value: Span<UInt8>?
  /// All bytes that follow the opcode.
  public let parameters: Span<UInt8>
  /// The reason for a missing handle and value, if PDUs with this opcode have a handle and value.
  public let problem: WireError?
  /// Type of the attribute with this handle, if the log contains its discovery.
  public internal(set) var uuid: BluetoothUUID?
  /// The attribute type in the pending request, for a discovery response.
  var askedType: BluetoothUUID?
  /// The service in the pending request, for a Find By Type Value Response.
  var askedService: BluetoothUUID?

  /// Whether the parameters contain more than the handle, offset and value.
  public var hasOtherParameters: Bool {
    guard !parameters.isEmpty else { return false }
    switch opcode {
    case .readRequest, .readBlobRequest: return problem != nil
    case .findByTypeValueRequest, .signedWriteCommand: return true
    default: return value == nil
    }
  }

  /// Decodes a PDU.
  ///
  /// - Parameter askedHandle: handle of the pending request or indication, used for responses that do not
  ///   repeat the handle.
  @_lifetime(copy pdu)
  init(_ pdu: Span<UInt8>, answering askedHandle: AttributeHandle?) {
    guard !pdu.isEmpty else {
      self.init(
        opcode: ATTOpcode(rawValue: 0), parameters: pdu,
        problem: .truncated(.att, needed: 1, available: 0))
      return
    }
    do throws(WireError) {
      self = try Self.read(pdu, answering: askedHandle)
    } catch {
      self.init(opcode: ATTOpcode(rawValue: pdu[0]), parameters: pdu.extracting(1...), problem: error)
    }
  }

  @_lifetime(copy value, copy parameters)
  private init(
    opcode: ATTOpcode, handle: AttributeHandle? = nil, offset: UInt16? = nil, value: Span<UInt8>? = nil,
    parameters: Span<UInt8>, problem: WireError? = nil
  ) {
    self.opcode = opcode
    self.handle = handle
    self.offset = offset
    self.value = value
    self.parameters = parameters
    self.problem = problem
    uuid = nil
    askedType = nil
    askedService = nil
  }

  @_lifetime(copy pdu)
  private static func read(
    _ pdu: Span<UInt8>, answering askedHandle: AttributeHandle?
  ) throws(WireError) -> DecodedATT {
    let opcode = ATTOpcode(rawValue: pdu[0])
    let rest = pdu.extracting(1...)
    switch opcode {
    case .writeRequest, .writeCommand:
      let write = try Write(validating: pdu)
      return DecodedATT(opcode: opcode, handle: write.handle, value: write.value, parameters: rest)
    case .signedWriteCommand:
      // The value ends before the 12-byte signature. Core 5.4, Vol 3, Part F, 3.4.5.4.
      try pdu.require(15, .att)
      return DecodedATT(
        opcode: opcode, handle: pdu.handle(at: 1), value: pdu.extracting(3..<pdu.count - 12),
        parameters: rest)
    case .handleValueNotification:
      let update = try HandleValueNotification(validating: pdu)
      return DecodedATT(opcode: opcode, handle: update.handle, value: update.value, parameters: rest)
    case .handleValueIndication:
      let update = try HandleValueIndication(validating: pdu)
      return DecodedATT(opcode: opcode, handle: update.handle, value: update.value, parameters: rest)
    case .prepareWriteRequest, .prepareWriteResponse:
      let part = try PrepareWrite(validating: pdu)
      return DecodedATT(
        opcode: opcode, handle: part.handle, offset: part.offset, value: part.value, parameters: rest)
    case .readRequest:
      return DecodedATT(opcode: opcode, handle: try ReadRequest(validating: pdu).handle, parameters: rest)
    case .readBlobRequest:
      let read = try ReadBlobRequest(validating: pdu)
      return DecodedATT(opcode: opcode, handle: read.handle, offset: read.offset, parameters: rest)
    case .readResponse, .readBlobResponse:
      return DecodedATT(opcode: opcode, handle: askedHandle, value: rest, parameters: rest)
    case .writeResponse, .handleValueConfirmation:
      return DecodedATT(opcode: opcode, handle: askedHandle, parameters: rest)
    case .findByTypeValueRequest:
      return DecodedATT(
        opcode: opcode, value: try FindByTypeValueRequest(validating: pdu).value, parameters: rest)
    case .errorResponse:
      return DecodedATT(opcode: opcode, handle: try ErrorResponse(validating: pdu).handle, parameters: rest)
    default:
      return DecodedATT(opcode: opcode, handle: try firstHandle(pdu), parameters: rest)
    }
  }

  /// Returns the first handle of a PDU with a list of handles; `nil` if the opcode has no list.
  private static func firstHandle(_ pdu: Span<UInt8>) throws(WireError) -> AttributeHandle? {
    switch ATTOpcode(rawValue: pdu[0]) {
    case .findInformationResponse: return try FindInformationResponse(validating: pdu)[0].handle
    case .findByTypeValueResponse: return try FindByTypeValueResponse(validating: pdu)[0].start
    case .readByTypeResponse: return try ReadByTypeResponse(validating: pdu).handle(0)
    case .readByGroupTypeResponse: return try ReadByGroupTypeResponse(validating: pdu).range(0).start
    case .readMultipleRequest, .readMultipleVariableRequest, .multipleHandleValueNotification:
      try pdu.require(3, .att)
      return pdu.handle(at: 1)
    default: return nil
    }
  }
}

/// Write Request and Write Command, which differ only in their opcodes. Core 5.4, Vol 3, Part F, 3.4.5.
///
/// Value length: 0 … ATT_MTU − 3 bytes.
@frozen public struct Write: ~Escapable {
  public let opcode: ATTOpcode
  public let handle: AttributeHandle
  public let value: Span<UInt8>

  @_lifetime(copy value)
  @inlinable public init(request handle: AttributeHandle, value: Span<UInt8>) {
    opcode = .writeRequest
    self.handle = handle
    self.value = value
  }

  @_lifetime(copy value)
  @inlinable public init(command handle: AttributeHandle, value: Span<UInt8>) {
    opcode = .writeCommand
    self.handle = handle
    self.value = value
  }

  @_lifetime(copy pdu)
  @inlinable public init(validating pdu: Span<UInt8>) throws(WireError) {
    try pdu.require(3, of: .writeRequest, or: .writeCommand)
    opcode = ATTOpcode(pdu[0])
    handle = pdu.handle(at: 1)
    value = pdu.extracting(3...)
  }

  @inlinable public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(opcode.rawValue)
    output.append(handle)
    output.append(value)
  }
}

/// Prepare Write Request and the response that echoes it. Core 5.4, Vol 3, Part F, 3.4.6.1–2.
///
/// Value length: 0 … ATT_MTU − 5 bytes.
@frozen public struct PrepareWrite: ~Escapable {
  public let opcode: ATTOpcode
  public let handle: AttributeHandle
  /// Offset in the value, in bytes.
  public let offset: UInt16
  public let value: Span<UInt8>

  @_lifetime(copy value)
  @inlinable public init(request handle: AttributeHandle, offset: UInt16, value: Span<UInt8>) {
    opcode = .prepareWriteRequest
    self.handle = handle
    self.offset = offset
    self.value = value
  }

  @_lifetime(copy pdu)
  @inlinable public init(validating pdu: Span<UInt8>) throws(WireError) {
    try pdu.require(5, of: .prepareWriteRequest, or: .prepareWriteResponse)
    opcode = ATTOpcode(pdu[0])
    handle = pdu.handle(at: 1)
    offset = pdu.u16(at: 3)
    value = pdu.extracting(5...)
  }

  @inlinable public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(opcode.rawValue)
    output.append(handle)
    output.append(u16: offset)
    output.append(value)
  }
}

/// Execute Write Request. Core 5.4, Vol 3, Part F, 3.4.6.3.
@frozen public struct ExecuteWriteRequest: Hashable, Sendable, BitwiseCopyable {
  public enum Action: UInt8, Hashable, Sendable, BitwiseCopyable {
    case cancel = 0
    case write = 1
  }

  public let action: Action

  @inlinable public init(_ action: Action) { self.action = action }

  /// Decodes an Execute Write Request.
  ///
  /// - Throws: `invalidValue` for flags other than 0 and 1.
  @inlinable public init(validating pdu: Span<UInt8>) throws(WireError) {
    try pdu.requireExactly(2, of: .executeWriteRequest)
    guard let action = Action(rawValue: pdu[1]) else {
      throw WireError(.att, offset: 1, .invalidValue(UInt32(pdu[1])))
    }
    self.action = action
  }

  @inlinable public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(ATTOpcode.executeWriteRequest.rawValue)
    output.append(action.rawValue)
  }
}

/// A Write Command with an authentication signature after the value. Core 5.4, Vol 3, Part F, 3.4.5.4.
///
/// Value length: 0 … ATT_MTU − 15 bytes. Not sent on an encrypted link.
@frozen public struct SignedWriteCommand: ~Escapable {
  /// Sign counter (4 bytes), then authentication code (8 bytes). Core 5.4, Vol 3, Part H, 2.4.5.
  public static let signatureByteCount = 12

  public let handle: AttributeHandle
  public let value: Span<UInt8>
  /// Signature of 12 bytes.
  public let signature: Span<UInt8>

  @_lifetime(copy value, copy signature)
  @inlinable public init(handle: AttributeHandle, value: Span<UInt8>, signature: Span<UInt8>) {
    precondition(signature.count == Self.signatureByteCount)
    self.handle = handle
    self.value = value
    self.signature = signature
  }

  @_lifetime(copy pdu)
  @inlinable public init(validating pdu: Span<UInt8>) throws(WireError) {
    try pdu.require(3 + Self.signatureByteCount, of: .signedWriteCommand)
    handle = pdu.handle(at: 1)
    value = pdu.extracting(3..<pdu.count - Self.signatureByteCount)
    signature = pdu.extracting((pdu.count - Self.signatureByteCount)...)
  }

  /// Encodes the signed message without the counter: opcode, handle and value.
  @inlinable public func encodeMessage(into output: inout OutputSpan<UInt8>) {
    output.append(ATTOpcode.signedWriteCommand.rawValue)
    output.append(handle)
    output.append(value)
  }

  @inlinable public func encode(into output: inout OutputSpan<UInt8>) {
    encodeMessage(into: &output)
    output.append(signature)
  }
}

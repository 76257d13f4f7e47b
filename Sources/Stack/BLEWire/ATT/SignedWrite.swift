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

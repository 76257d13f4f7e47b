/// Read Request. Core 5.4, Vol 3, Part F, 3.4.4.3.
@frozen public struct ReadRequest: Hashable, Sendable, BitwiseCopyable {
  public let handle: AttributeHandle

  @inlinable public init(handle: AttributeHandle) { self.handle = handle }

  @inlinable public init(validating pdu: Span<UInt8>) throws(WireError) {
    try pdu.requireExactly(3, of: .readRequest)
    handle = pdu.handle(at: 1)
  }

  @inlinable public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(ATTOpcode.readRequest.rawValue)
    output.append(handle)
  }
}

/// Read Blob Request: reads a value from an offset to its end. Core 5.4, Vol 3, Part F, 3.4.4.5.
@frozen public struct ReadBlobRequest: Hashable, Sendable, BitwiseCopyable {
  public let handle: AttributeHandle
  /// Offset in the value, in bytes.
  public let offset: UInt16

  @inlinable public init(handle: AttributeHandle, offset: UInt16) {
    self.handle = handle
    self.offset = offset
  }

  @inlinable public init(validating pdu: Span<UInt8>) throws(WireError) {
    try pdu.requireExactly(5, of: .readBlobRequest)
    handle = pdu.handle(at: 1)
    offset = pdu.u16(at: 3)
  }

  @inlinable public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(ATTOpcode.readBlobRequest.rawValue)
    output.append(handle)
    output.append(u16: offset)
  }
}

/// Read Multiple Request and Read Multiple Variable Request, which differ only in their opcodes.
///
/// Core 5.4, Vol 3, Part F, 3.4.4.7 and 3.4.4.11. At least two handles.
@frozen public struct ReadMultipleRequest: ~Escapable {
  public let opcode: ATTOpcode
  @usableFromInline let octets: Span<UInt8>

  /// - Throws: `truncated` for fewer than two handles, `lengthMismatch` for an incomplete handle.
  @_lifetime(copy pdu)
  @inlinable public init(validating pdu: Span<UInt8>) throws(WireError) {
    try pdu.require(5, of: .readMultipleRequest, or: .readMultipleVariableRequest)
    guard pdu.count % 2 == 1 else {
      throw WireError(.att, offset: 1, .lengthMismatch(claimed: 2, available: pdu.count - 1))
    }
    opcode = ATTOpcode(pdu[0])
    octets = pdu.extracting(1...)
  }

  @inlinable public var count: Int { octets.count / 2 }

  @inlinable public subscript(index: Int) -> AttributeHandle { octets.handle(at: index * 2) }

  /// - Precondition: at least two handles.
  @inlinable public static func encode(
    _ opcode: ATTOpcode, _ handles: Span<AttributeHandle>, into output: inout OutputSpan<UInt8>
  ) {
    precondition(handles.count >= 2)
    output.append(opcode.rawValue)
    for index in handles.indices { output.append(handles[index]) }
  }
}

/// The values of several attributes, each preceded by its length. Core 5.4, Vol 3, Part F, 3.4.4.12.
///
/// Read Multiple Response (3.4.4.8) has no lengths: its values are concatenated after the opcode.
@frozen public struct ReadMultipleVariableResponse: ~Escapable {
  @usableFromInline let tuples: Span<UInt8>

  @_lifetime(copy pdu)
  @inlinable public init(validating pdu: Span<UInt8>) throws(WireError) {
    try pdu.require(1, of: .readMultipleVariableResponse)
    tuples = pdu.extracting(1...)
  }

  /// Passes each value to `body`, in order, with the attribute's full length in bytes. That length exceeds
  /// the size of the last value if the value did not fit.
  ///
  /// - Throws: `truncated` for an incomplete length field.
  @inlinable public func forEach(
    _ body: (_ value: Span<UInt8>, _ wholeByteCount: Int) -> Void
  ) throws(WireError) {
    var offset = 0
    while offset < tuples.count {
      guard tuples.count - offset >= 2 else {
        throw WireError(.att, offset: offset + 1, .truncated(needed: 2, available: tuples.count - offset))
      }
      let byteCount = Int(tuples.u16(at: offset))
      let end = min(offset + 2 + byteCount, tuples.count)
      body(tuples.extracting(offset + 2..<end), byteCount)
      offset = end
    }
  }
}

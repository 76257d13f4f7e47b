/// A server-initiated value update without confirmation.
///
/// `value` borrows the receive buffer and is valid only inside the call that delivered it. Core 5.4, Vol 3,
/// Part F, 3.4.7.1. Value length: 0 … ATT_MTU − 3 bytes.
@frozen public struct HandleValueNotification: ~Escapable, Sendable, BitwiseCopyable {
  public let handle: AttributeHandle
  public let value: Span<UInt8>

  /// Decodes a Handle Value Notification.
  ///
  /// - Throws: `truncated` for fewer than 3 bytes, `unexpectedOpcode` for another PDU.
  @_lifetime(copy pdu)
  @inlinable public init(validating pdu: Span<UInt8>) throws(WireError) {
    try pdu.require(3, of: .handleValueNotification)
    try self.init(dispatched: pdu)
  }

  /// Decodes a PDU whose opcode the caller has already checked, as on the receive path.
  ///
  /// - Throws: `truncated` for fewer than 3 bytes.
  @_lifetime(copy pdu)
  @inlinable public init(dispatched pdu: Span<UInt8>) throws(WireError) {
    try pdu.require(3, .att)
    handle = pdu.handle(at: 1)
    value = pdu.extracting(3...)
  }

  @_lifetime(copy value)
  @inlinable public init(handle: AttributeHandle, value: Span<UInt8>) {
    self.handle = handle
    self.value = value
  }

  @inlinable public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(0x1B)
    output.append(handle)
    output.append(value)
  }

  /// Encodes one entry of a `MultipleHandleValueNotification`, without the opcode.
  @inlinable public func encodeTuple(into output: inout OutputSpan<UInt8>) {
    output.append(handle)
    output.append(u16: UInt16(truncatingIfNeeded: value.count))
    output.append(value)
  }
}

/// A server-initiated value update that the client confirms. Core 5.4, Vol 3, Part F, 3.4.7.2.
@frozen public struct HandleValueIndication: ~Escapable, Sendable, BitwiseCopyable {
  /// The client's response: this one byte is the whole PDU. Core 5.4, Vol 3, Part F, 3.4.7.3.
  public static let confirmation: UInt8 = 0x1E

  public let handle: AttributeHandle
  public let value: Span<UInt8>

  @_lifetime(copy pdu)
  @inlinable public init(validating pdu: Span<UInt8>) throws(WireError) {
    try pdu.require(3, of: .handleValueIndication)
    handle = pdu.handle(at: 1)
    value = pdu.extracting(3...)
  }

  @_lifetime(copy value)
  @inlinable public init(handle: AttributeHandle, value: Span<UInt8>) {
    self.handle = handle
    self.value = value
  }

  @inlinable public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(0x1D)
    output.append(handle)
    output.append(value)
  }
}

/// Several value updates in one PDU. Core 5.4, Vol 3, Part F, 3.4.7.4.
@frozen public struct MultipleHandleValueNotification: ~Escapable {
  @usableFromInline let tuples: Span<UInt8>

  @_lifetime(copy pdu)
  @inlinable public init(validating pdu: Span<UInt8>) throws(WireError) {
    try pdu.require(1, of: .multipleHandleValueNotification)
    tuples = pdu.extracting(1...)
  }

  /// Passes each complete entry to `body`, in order.
  ///
  /// - Throws: `truncated` or `lengthMismatch` for an incomplete last entry, after `body` has received the
  ///   complete entries.
  @inlinable public func forEach(
    _ body: (borrowing HandleValueNotification) -> Void
  ) throws(WireError) {
    var offset = 0
    while offset < tuples.count {
      guard tuples.count - offset >= 4 else {
        throw WireError(
          .att, offset: offset + 1, .truncated(needed: 4, available: tuples.count - offset))
      }
      let length = Int(tuples.u16(at: offset + 2))
      guard tuples.count - offset - 4 >= length else {
        throw WireError(
          .att, offset: offset + 3,
          .lengthMismatch(claimed: length, available: tuples.count - offset - 4))
      }
      body(
        HandleValueNotification(
          handle: tuples.handle(at: offset),
          value: tuples.extracting(offset + 4..<offset + 4 + length)))
      offset += 4 + length
    }
  }
}

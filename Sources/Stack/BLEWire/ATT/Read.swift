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

/// Read By Type Request and Read By Group Type Request, which differ only in their opcodes.
///
/// Core 5.4, Vol 3, Part F, 3.4.4.1 and 3.4.4.9.
@frozen public struct ReadByTypeRequest: Hashable, Sendable, BitwiseCopyable {
  public let opcode: ATTOpcode
  public let range: HandleRange
  public let type: BluetoothUUID

  @inlinable public init(range: HandleRange, type: BluetoothUUID) {
    opcode = .readByTypeRequest
    self.range = range
    self.type = type
  }

  @inlinable public init(range: HandleRange, groupType type: BluetoothUUID) {
    opcode = .readByGroupTypeRequest
    self.range = range
    self.type = type
  }

  /// Decodes a Read By Type Request or Read By Group Type Request.
  ///
  /// - Throws: `lengthMismatch` unless the UUID has 2 or 16 bytes.
  @inlinable public init(validating pdu: Span<UInt8>) throws(WireError) {
    try pdu.require(7, of: .readByTypeRequest, or: .readByGroupTypeRequest)
    opcode = ATTOpcode(pdu[0])
    range = HandleRange(start: pdu.handle(at: 1), end: pdu.handle(at: 3))
    guard pdu.count == 7 || pdu.count == 21,
      let uuid = pdu.uuid(at: 5, byteCount: pdu.count - 5)
    else { throw WireError(.att, offset: 5, .lengthMismatch(claimed: 2, available: pdu.count - 5)) }
    type = uuid
  }

  @inlinable public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(opcode.rawValue)
    output.append(range.start)
    output.append(range.end)
    output.append(type)
  }
}

/// Attributes of one type and their values, which all have the same length. Core 5.4, Vol 3, Part F, 3.4.4.2.
@frozen public struct ReadByTypeResponse: ~Escapable {
  @usableFromInline let entries: Span<UInt8>
  /// Size of an entry (handle and value) in bytes.
  public let entryByteCount: Int

  /// Decodes a Read By Type Response.
  ///
  /// - Throws: `invalidValue` for an entry length under 2, `lengthMismatch` for an empty list or an
  ///   incomplete entry.
  @_lifetime(copy pdu)
  @inlinable public init(validating pdu: Span<UInt8>) throws(WireError) {
    try pdu.require(2, of: .readByTypeResponse)
    entryByteCount = Int(pdu[1])
    guard entryByteCount >= 2 else {
      throw WireError(.att, offset: 1, .invalidValue(UInt32(pdu[1])))
    }
    entries = pdu.extracting(2...)
    try entries.requireList(ofEntries: entryByteCount, from: 2)
  }

  @inlinable public var count: Int { entries.count / entryByteCount }

  @inlinable public func handle(_ index: Int) -> AttributeHandle {
    entries.handle(at: index * entryByteCount)
  }

  @_lifetime(copy self)
  @inlinable public func value(_ index: Int) -> Span<UInt8> {
    entries.extracting(index * entryByteCount + 2..<(index + 1) * entryByteCount)
  }
}

/// Groups (services) and the values of their declarations. Core 5.4, Vol 3, Part F, 3.4.4.10.
@frozen public struct ReadByGroupTypeResponse: ~Escapable {
  @usableFromInline let entries: Span<UInt8>
  /// Size of an entry (first handle, last handle and value) in bytes.
  public let entryByteCount: Int

  /// Decodes a Read By Group Type Response.
  ///
  /// - Throws: `invalidValue` for an entry length under 4, `lengthMismatch` for an empty list or an
  ///   incomplete entry.
  @_lifetime(copy pdu)
  @inlinable public init(validating pdu: Span<UInt8>) throws(WireError) {
    try pdu.require(2, of: .readByGroupTypeResponse)
    entryByteCount = Int(pdu[1])
    guard entryByteCount >= 4 else {
      throw WireError(.att, offset: 1, .invalidValue(UInt32(pdu[1])))
    }
    entries = pdu.extracting(2...)
    try entries.requireList(ofEntries: entryByteCount, from: 2)
  }

  @inlinable public var count: Int { entries.count / entryByteCount }

  @inlinable public func range(_ index: Int) -> HandleRange {
    let offset = index * entryByteCount
    return HandleRange(start: entries.handle(at: offset), end: entries.handle(at: offset + 2))
  }

  /// Returns the UUID of a group, or `nil` unless the value has 2 or 16 bytes.
  @inlinable public func uuid(_ index: Int) -> BluetoothUUID? {
    entryByteCount == 6 || entryByteCount == 20
      ? entries.uuid(at: index * entryByteCount + 4, byteCount: entryByteCount - 4) : nil
  }
}

/// Read Multiple Request and Read Multiple Variable Request, which differ only in their opcodes.
///
/// Core 5.4, Vol 3, Part F, 3.4.4.7 and 3.4.4.11. At least two handles.
@frozen public struct ReadMultipleRequest: ~Escapable {
  public let opcode: ATTOpcode
  @usableFromInline let octets: Span<UInt8>

  /// Decodes a Read Multiple Request or Read Multiple Variable Request.
  ///
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

  /// Encodes a Read Multiple Request or Read Multiple Variable Request.
  ///
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

  /// Passes each value to `body`, in order, with the full length of the attribute in bytes. If the last value
  /// did not fit into the PDU, the full length is greater than the number of bytes in `value`.
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

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

  /// UUID of the group; `nil` unless the value has 2 or 16 bytes.
  @inlinable public func uuid(_ index: Int) -> BluetoothUUID? {
    entryByteCount == 6 || entryByteCount == 20
      ? entries.uuid(at: index * entryByteCount + 4, byteCount: entryByteCount - 4) : nil
  }
}

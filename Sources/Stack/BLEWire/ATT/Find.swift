/// A range of handles, including both ends.
@frozen public struct HandleRange: Hashable, Sendable, BitwiseCopyable {
  public let start: AttributeHandle
  public let end: AttributeHandle

  @inlinable public init(start: AttributeHandle, end: AttributeHandle) {
    self.start = start
    self.end = end
  }

  public static let all = HandleRange(start: .first, end: .last)

  /// Whether a request may contain the range: `start` is neither 0x0000 nor greater than `end`. Core 5.4, Vol
  /// 3, Part F, 3.4.3.1.
  @inlinable public var isValid: Bool { start != .none && start <= end }

  @inlinable public func contains(_ handle: AttributeHandle) -> Bool {
    start <= handle && handle <= end
  }
}

/// Requests the handles and types of all attributes in a range. Core 5.4, Vol 3, Part F, 3.4.3.1.
@frozen public struct FindInformationRequest: Hashable, Sendable, BitwiseCopyable {
  public let range: HandleRange

  @inlinable public init(range: HandleRange) { self.range = range }

  @inlinable public init(validating pdu: Span<UInt8>) throws(WireError) {
    try pdu.requireExactly(5, of: .findInformationRequest)
    range = HandleRange(start: pdu.handle(at: 1), end: pdu.handle(at: 3))
  }

  @inlinable public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(ATTOpcode.findInformationRequest.rawValue)
    output.append(range.start)
    output.append(range.end)
  }
}

/// Handles and types of attributes. All types have the same UUID size. Core 5.4, Vol 3, Part F, 3.4.3.2.
@frozen public struct FindInformationResponse: ~Escapable {
  @usableFromInline let entries: Span<UInt8>
  @usableFromInline let uuidByteCount: Int

  /// Decodes a Find Information Response.
  ///
  /// - Throws: `invalidValue` for a format other than 1 or 2, `lengthMismatch` for an empty list or an
  ///   incomplete entry.
  @_lifetime(copy pdu)
  @inlinable public init(validating pdu: Span<UInt8>) throws(WireError) {
    try pdu.require(2, of: .findInformationResponse)
    switch pdu[1] {
    case 1: uuidByteCount = 2
    case 2: uuidByteCount = 16
    default: throw WireError(.att, offset: 1, .invalidValue(UInt32(pdu[1])))
    }
    entries = pdu.extracting(2...)
    try entries.requireList(ofEntries: uuidByteCount + 2, from: 2)
  }

  @inlinable public var count: Int { entries.count / (uuidByteCount + 2) }

  @inlinable public subscript(index: Int) -> (handle: AttributeHandle, type: BluetoothUUID) {
    let offset = index * (uuidByteCount + 2)
    // The size is always 2 or 16, so `uuid` never returns `nil`.
    return (
      entries.handle(at: offset),
      entries.uuid(at: offset + 2, byteCount: uuidByteCount) ?? BluetoothUUID(0)
    )
  }
}

extension Span where Element == UInt8 {
  /// Checks that a list has at least one entry and that its last entry is complete.
  @inlinable func requireList(ofEntries byteCount: Int, from offset: Int) throws(WireError) {
    guard count > 0, count.isMultiple(of: byteCount) else {
      throw WireError(
        .att, offset: offset, .lengthMismatch(claimed: byteCount, available: count))
    }
  }
}

/// Requests the groups whose declarations have a given type and value, such as the services with a UUID.
///
/// Core 5.4, Vol 3, Part F, 3.4.3.3. The type is always a 16-bit UUID.
@frozen public struct FindByTypeValueRequest: ~Escapable {
  public let range: HandleRange
  public let type: BluetoothUUID
  public let value: Span<UInt8>

  @_lifetime(copy value)
  @inlinable public init(range: HandleRange, type: BluetoothUUID, value: Span<UInt8>) {
    self.range = range
    self.type = type
    self.value = value
  }

  @_lifetime(copy pdu)
  @inlinable public init(validating pdu: Span<UInt8>) throws(WireError) {
    try pdu.require(7, of: .findByTypeValueRequest)
    range = HandleRange(start: pdu.handle(at: 1), end: pdu.handle(at: 3))
    type = BluetoothUUID(pdu.u16(at: 5))
    value = pdu.extracting(7...)
  }

  @inlinable public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(ATTOpcode.findByTypeValueRequest.rawValue)
    output.append(range.start)
    output.append(range.end)
    output.append(type)
    output.append(value)
  }
}

/// Handle ranges of the matching groups. Core 5.4, Vol 3, Part F, 3.4.3.4.
@frozen public struct FindByTypeValueResponse: ~Escapable {
  @usableFromInline let entries: Span<UInt8>

  @_lifetime(copy pdu)
  @inlinable public init(validating pdu: Span<UInt8>) throws(WireError) {
    try pdu.require(1, of: .findByTypeValueResponse)
    entries = pdu.extracting(1...)
    try entries.requireList(ofEntries: 4, from: 1)
  }

  @inlinable public var count: Int { entries.count / 4 }

  @inlinable public subscript(index: Int) -> HandleRange {
    HandleRange(start: entries.handle(at: index * 4), end: entries.handle(at: index * 4 + 2))
  }
}

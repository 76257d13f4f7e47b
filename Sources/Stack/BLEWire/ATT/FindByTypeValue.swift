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

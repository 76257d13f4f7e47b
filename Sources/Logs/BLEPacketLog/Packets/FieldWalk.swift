package import BLEWire

/// Receives the fields of a packet, in the order of its bytes.
///
/// The dissector and the anonymiser are visitors of `FieldWalk`, so that both find the same fields at the
/// same places.
package protocol FieldVisitor {
  /// Handles a field without inner fields, or the number of repetitions of inner fields.
  ///
  /// - Parameters:
  ///   - range: the bytes of the field, which may be empty. For advertising data with its own length, the
  ///     data after the length.
  ///   - type: type of an address, from the last address type field before it.
  mutating func visit(_ field: PacketField, _ range: Range<Int>, in bytes: Span<UInt8>, type: AddressType)
  /// Handles the start of repeated fields: a list of entries, each between `beginEntry` and `endEntry`.
  mutating func beginList(of field: PacketField)
  mutating func beginEntry()
  mutating func endEntry()
  mutating func endList(of field: PacketField)
  /// Handles a packet that ends within a field. No further fields are visited.
  ///
  /// - Parameters:
  ///   - needed: number of bytes of the field.
  ///   - rest: the available bytes of the field.
  mutating func fail(_ field: PacketField, needed: Int, _ rest: Range<Int>, in bytes: Span<UInt8>)
  /// Handles bytes after the last field.
  mutating func leave(_ rest: Range<Int>, in bytes: Span<UInt8>)
}

/// Visits the fields of a packet, even if the packet is malformed.
package struct FieldWalk: ~Copyable {
  private var cursor = 0
  /// Value of the last address type field.
  private var addressType: AddressType = .public
  /// Values of length fields whose data are later in the packet.
  private var lengths: [Int] = []

  private init() {}

  /// Visits the fields of a packet.
  ///
  /// - Parameter fields: the fields; `nil` if they are unknown.
  package static func walk(
    _ fields: [PacketField]?, _ bytes: Span<UInt8>, _ visitor: inout some FieldVisitor
  ) {
    var walk = FieldWalk()
    guard walk.walk(fields ?? [], bytes, &visitor, choice: 0) else { return }
    if walk.cursor < bytes.count { visitor.leave(walk.cursor..<bytes.count, in: bytes) }
  }

  /// Visits fields.
  ///
  /// - Parameter choice: value of the last number with names.
  /// - Returns: whether all fields fit into the bytes.
  private mutating func walk(
    _ fields: [PacketField], _ bytes: Span<UInt8>, _ visitor: inout some FieldVisitor, choice: UInt8
  ) -> Bool {
    var choice = choice
    for field in fields {
      guard fits(field, field.byteCount, bytes, &visitor) else { return false }
      let isWhole: Bool
      switch field.kind {
      case .when(let value):
        isWhole = value != choice || walk(field.inner, bytes, &visitor, choice: choice)
      case .times(let byteCount):
        let count = number(byteCount, bytes)
        take(field, byteCount, bytes, &visitor)
        isWhole = repeated(field, count, bytes, &visitor)
      case .timesByBits:
        let count = bytes[cursor].nonzeroBitCount
        take(field, 1, bytes, &visitor)
        isWhole = repeated(field, count, bytes, &visitor)
      case .timesOfLength: isWhole = repeated(field, nextLength(), bytes, &visitor)
      case .untilEnd: isWhole = repeated(field, nil, bytes, &visitor)
      case .advertisingData(let byteCount):
        let count = number(byteCount, bytes)
        cursor += byteCount
        isWhole = taken(field, count, bytes, &visitor)
      case .sizedData, .sizedOctets: isWhole = taken(field, nextLength(), bytes, &visitor)
      case .name, .structures, .rest, .padding: isWhole = taken(field, bytes.count - cursor, bytes, &visitor)
      default:
        if case .length(let byteCount) = field.kind { lengths.append(number(byteCount, bytes)) }
        if case .addressType = field.kind { addressType = bytes[cursor] & 1 == 0 ? .public : .random }
        if case .enumeration = field.kind { choice = bytes[cursor] }
        isWhole = taken(field, field.byteCount, bytes, &visitor)
      }
      guard isWhole else { return false }
    }
    return true
  }

  /// Visits the inner fields `count` times, or until the end of the packet.
  private mutating func repeated(
    _ field: PacketField, _ count: Int?, _ bytes: Span<UInt8>, _ visitor: inout some FieldVisitor
  ) -> Bool {
    visitor.beginList(of: field)
    var left = count
    var isWhole = true
    while isWhole, left.map({ $0 > 0 }) ?? (cursor < bytes.count) {
      visitor.beginEntry()
      isWhole = walk(field.inner, bytes, &visitor, choice: 0)
      visitor.endEntry()
      left? -= 1
    }
    visitor.endList(of: field)
    return isWhole
  }

  /// Visits the field in the next bytes. The bytes are known to exist.
  private mutating func take(
    _ field: PacketField, _ count: Int, _ bytes: Span<UInt8>, _ visitor: inout some FieldVisitor
  ) {
    visitor.visit(field, cursor..<cursor + count, in: bytes, type: addressType)
    cursor += count
  }

  /// Visits the field if its bytes exist.
  private mutating func taken(
    _ field: PacketField, _ count: Int, _ bytes: Span<UInt8>, _ visitor: inout some FieldVisitor
  ) -> Bool {
    guard fits(field, count, bytes, &visitor) else { return false }
    take(field, count, bytes, &visitor)
    return true
  }

  private func fits(
    _ field: PacketField, _ count: Int, _ bytes: Span<UInt8>, _ visitor: inout some FieldVisitor
  ) -> Bool {
    if bytes.count - cursor >= count { return true }
    visitor.fail(field, needed: count, cursor..<bytes.count, in: bytes)
    return false
  }

  private mutating func nextLength() -> Int { lengths.isEmpty ? 0 : lengths.removeFirst() }

  /// Returns the number at the cursor, which has one or two bytes.
  private func number(_ byteCount: Int, _ bytes: Span<UInt8>) -> Int {
    byteCount == 1 ? Int(bytes[cursor]) : Int(bytes.u16(at: cursor))
  }
}

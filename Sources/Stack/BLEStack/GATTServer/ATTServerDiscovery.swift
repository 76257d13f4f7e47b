import BLEWire

/// Discovery requests. Core 5.4, Vol 3, Part F, 3.4.3, 3.4.4.1 and 3.4.4.9.
///
/// All responses except Find By Type Value are lists of entries of equal length, which the first match sets.
/// The list ends before an entry that does not fit or has another length. The client continues from there.
extension ATTServer {
  func findInformation(
    _ pdu: Span<UInt8>, _ database: borrowing GATTServerDatabase, _ output: inout OutputSpan<UInt8>
  ) throws(Refusal) {
    guard pdu.count == 5 else { throw .invalidPDU }
    let range = try validRange(pdu)
    var room = mtu - 2
    var uuidByteCount = 0
    for index in database.firstIndex(from: range.start)..<database.attributes.count {
      let attribute = database.attributes[index]
      guard attribute.handle <= range.end else { break }
      if uuidByteCount == 0 {
        uuidByteCount = attribute.type.byteCount
        output.append(ATTOpcode.findInformationResponse.rawValue)
        output.append(uuidByteCount == 2 ? 1 : 2)
      }
      guard attribute.type.byteCount == uuidByteCount, room >= uuidByteCount + 2 else { break }
      output.append(attribute.handle)
      output.append(attribute.type)
      room -= uuidByteCount + 2
    }
    if uuidByteCount == 0 { throw Refusal(range.start, .attributeNotFound) }
  }

  func findByTypeValue(
    _ pdu: Span<UInt8>, _ database: borrowing GATTServerDatabase, _ output: inout OutputSpan<UInt8>
  ) throws(Refusal) {
    guard pdu.count >= 7 else { throw .invalidPDU }
    let range = try validRange(pdu)
    let type = BluetoothUUID(pdu.u16(at: 5))
    let wanted = pdu.extracting(7...)
    var room = mtu - 1
    for index in database.firstIndex(from: range.start)..<database.attributes.count {
      guard database.attributes[index].handle <= range.end, room >= 4 else { break }
      guard database.attributes[index].type == type,
        database.attributes[index].readAccess.refusal(on: security) == nil,
        hasValue(wanted, at: index, database)
      else { continue }
      if room == mtu - 1 { output.append(ATTOpcode.findByTypeValueResponse.rawValue) }
      output.append(database.attributes[index].handle)
      output.append(database.attributes[index].groupEnd)
      room -= 4
    }
    if room == mtu - 1 { throw Refusal(range.start, .attributeNotFound) }
  }

  func readByType(
    _ pdu: Span<UInt8>, _ database: borrowing GATTServerDatabase, _ output: inout OutputSpan<UInt8>
  ) throws(Refusal) {
    let (range, type) = try rangeAndType(pdu)
    // The longest value in an entry is min(ATT_MTU − 4, 253) bytes. Core 5.4, Vol 3, Part F, 3.4.4.2.
    let limit = min(mtu - 4, 253)
    var room = mtu - 2
    var valueByteCount = -1
    for index in database.firstIndex(from: range.start)..<database.attributes.count {
      guard database.attributes[index].handle <= range.end else { break }
      guard database.attributes[index].type == type else { continue }
      if let code = database.attributes[index].readAccess.refusal(on: security) {
        // Only a refusal of the first match is reported; a later refusal ends the list.
        if valueByteCount < 0 { throw Refusal(database.attributes[index].handle, code) }
        break
      }
      let byteCount = min(byteCount(at: index, in: database), limit)
      if valueByteCount < 0 {
        valueByteCount = byteCount
        output.append(ATTOpcode.readByTypeResponse.rawValue)
        output.append(UInt8(truncatingIfNeeded: byteCount + 2))
      }
      guard byteCount == valueByteCount, room >= byteCount + 2 else { break }
      output.append(database.attributes[index].handle)
      appendValue(at: index, 0..<byteCount, database, &output)
      room -= byteCount + 2
    }
    if valueByteCount < 0 { throw Refusal(range.start, .attributeNotFound) }
  }

  func readByGroupType(
    _ pdu: Span<UInt8>, _ database: borrowing GATTServerDatabase, _ output: inout OutputSpan<UInt8>
  ) throws(Refusal) {
    let (range, type) = try rangeAndType(pdu)
    guard type == .primaryService || type == .secondaryService else {
      throw Refusal(range.start, .unsupportedGroupType)
    }
    var room = mtu - 2
    var valueByteCount = -1
    for index in database.firstIndex(from: range.start)..<database.attributes.count {
      guard database.attributes[index].handle <= range.end else { break }
      guard database.attributes[index].type == type else { continue }
      let byteCount = database.attributes[index].value.count
      if valueByteCount < 0 {
        valueByteCount = byteCount
        output.append(ATTOpcode.readByGroupTypeResponse.rawValue)
        output.append(UInt8(truncatingIfNeeded: byteCount + 4))
      }
      guard byteCount == valueByteCount, room >= byteCount + 4 else { break }
      output.append(database.attributes[index].handle)
      output.append(database.attributes[index].groupEnd)
      appendValue(at: index, 0..<byteCount, database, &output)
      room -= byteCount + 4
    }
    if valueByteCount < 0 { throw Refusal(range.start, .attributeNotFound) }
  }

  private func rangeAndType(
    _ pdu: Span<UInt8>
  ) throws(Refusal) -> (HandleRange, BluetoothUUID) {
    guard pdu.count == 7 || pdu.count == 21,
      let type = pdu.uuid(at: 5, byteCount: pdu.count - 5)
    else { throw .invalidPDU }
    return (try validRange(pdu), type)
  }

  /// Reads the range of a request. Throws Invalid Handle with the start handle if the start is 0 or after the
  /// end.
  private func validRange(_ pdu: Span<UInt8>) throws(Refusal) -> HandleRange {
    let range = HandleRange(start: pdu.handle(at: 1), end: pdu.handle(at: 3))
    guard range.isValid else { throw Refusal(range.start, .invalidHandle) }
    return range
  }
  private func hasValue(
    _ wanted: Span<UInt8>, at index: Int, _ database: borrowing GATTServerDatabase
  ) -> Bool {
    guard byteCount(at: index, in: database) == wanted.count else { return false }
    for offset in wanted.indices where wanted[offset] != octet(offset, at: index, database) {
      return false
    }
    return true
  }
}

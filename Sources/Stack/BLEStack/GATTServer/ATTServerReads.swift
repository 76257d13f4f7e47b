import BLEWire

/// Requests that read by handle. Core 5.4, Vol 3, Part F, 3.4.4.3–3.4.4.8 and 3.4.4.11.
extension ATTServer {
  func read(
    _ pdu: Span<UInt8>, _ database: borrowing GATTServerDatabase, _ output: inout OutputSpan<UInt8>
  ) throws(Refusal) {
    guard pdu.count == 3 else { throw .invalidPDU }
    let index = try readableIndex(pdu.handle(at: 1), database)
    output.append(ATTOpcode.readResponse.rawValue)
    let count = min(byteCount(at: index, in: database), mtu - 1)
    appendValue(at: index, 0..<count, database, &output)
  }

  /// Read Blob. An offset at the end of the value returns an empty part; a larger offset is refused with
  /// Invalid Offset.
  func readBlob(
    _ pdu: Span<UInt8>, _ database: borrowing GATTServerDatabase, _ output: inout OutputSpan<UInt8>
  ) throws(Refusal) {
    guard pdu.count == 5 else { throw .invalidPDU }
    let handle = pdu.handle(at: 1)
    let index = try readableIndex(handle, database)
    let offset = Int(pdu.u16(at: 3))
    let count = byteCount(at: index, in: database)
    guard offset <= count else { throw Refusal(handle, .invalidOffset) }
    output.append(ATTOpcode.readBlobResponse.rawValue)
    appendValue(at: index, offset..<min(count, offset + mtu - 1), database, &output)
  }

  /// Read Multiple and Read Multiple Variable. The latter precedes each value with its length.
  ///
  /// The whole request is refused if any value cannot be read. The error contains the handle of the first
  /// such value.
  func readMultiple(
    _ pdu: Span<UInt8>, _ database: borrowing GATTServerDatabase, _ output: inout OutputSpan<UInt8>
  ) throws(Refusal) {
    guard pdu.count >= 5, pdu.count % 2 == 1 else { throw .invalidPDU }
    let hasLengths = pdu[0] == ATTOpcode.readMultipleVariableRequest.rawValue
    for offset in stride(from: 1, to: pdu.count, by: 2) {
      _ = try readableIndex(pdu.handle(at: offset), database)
    }
    output.append(
      (hasLengths ? ATTOpcode.readMultipleVariableResponse : .readMultipleResponse).rawValue)
    var room = mtu - 1
    for offset in stride(from: 1, to: pdu.count, by: 2) {
      let index = try readableIndex(pdu.handle(at: offset), database)
      let count = byteCount(at: index, in: database)
      if hasLengths {
        guard room >= 2 else { return }
        output.append(u16: UInt16(truncatingIfNeeded: count))
        room -= 2
      }
      // The last value may be truncated. Its length field still contains the full length.
      appendValue(at: index, 0..<min(count, room), database, &output)
      room -= min(count, room)
    }
  }

  /// Size of the value for this client, in bytes.
  func byteCount(at index: Int, in database: borrowing GATTServerDatabase) -> Int {
    if case .configuration = database.attributes[index].role { return 2 }
    if database.attributes[index].type == .clientSupportedFeatures { return ClientCaching.featuresByteCount }
    return database.attributes[index].value.count
  }

  func octet(_ offset: Int, at index: Int, _ database: borrowing GATTServerDatabase) -> UInt8 {
    if database.attributes[index].type == .clientSupportedFeatures { return caching.features }
    guard case .configuration(let slot, _) = database.attributes[index].role else {
      return database.attributes[index].value[offset]
    }
    return offset == 0 ? configurations[slot] : 0
  }

  func appendValue(
    at index: Int, _ range: Range<Int>, _ database: borrowing GATTServerDatabase,
    _ output: inout OutputSpan<UInt8>
  ) {
    for offset in range { output.append(octet(offset, at: index, database)) }
  }

  private func readableIndex(
    _ handle: AttributeHandle, _ database: borrowing GATTServerDatabase
  ) throws(Refusal) -> Int {
    guard let index = database.index(of: handle) else { throw Refusal(handle, .invalidHandle) }
    try database.attributes[index].readAccess.require(handle, security)
    return index
  }
}

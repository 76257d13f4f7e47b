import BLEWire

/// Write requests and commands. Core 5.4, Vol 3, Part F, 3.4.5 and 3.4.6.
extension ATTServer {
  mutating func write(
    _ pdu: Span<UInt8>, _ database: inout GATTServerDatabase, _ output: inout OutputSpan<UInt8>,
    _ check: WriteCheck
  ) throws(Refusal) {
    guard pdu.count >= 3 else { throw .invalidPDU }
    try write(pdu.extracting(3...), to: pdu.handle(at: 1), &database, check)
    output.append(ATTOpcode.writeResponse.rawValue)
  }

  /// Stores the value of a Write Command. Drops it silently on an error. Core 5.4, Vol 3, Part F, 3.4.5.3.
  mutating func acceptCommand(
    _ pdu: Span<UInt8>, _ database: inout GATTServerDatabase, _ check: WriteCheck
  ) {
    guard pdu.count >= 3 else { return }
    try? write(pdu.extracting(3...), to: pdu.handle(at: 1), &database, check)
  }

  /// Stores the value of a signed write. A valid signature replaces the encryption that a plain write would
  /// need. Drops a command whose signature is invalid.
  mutating func acceptSignedCommand(
    _ pdu: Span<UInt8>, _ database: inout GATTServerDatabase, _ check: WriteCheck
  ) {
    guard let command = try? SignedWriteCommand(validating: pdu),
      let index = database.index(of: command.handle),
      database.attributes[index].signedWriteAccess.refusal(on: security) == nil,
      signatureCheck?(command) ?? false, (try? validate(command.value, to: index, database, check)) != nil
    else { return }
    store(command.value, to: command.handle, &database)
  }

  mutating func prepareWrite(
    _ pdu: Span<UInt8>, _ database: borrowing GATTServerDatabase, _ output: inout OutputSpan<UInt8>
  ) throws(Refusal) {
    guard pdu.count >= 5 else { throw .invalidPDU }
    let handle = pdu.handle(at: 1)
    guard let index = database.index(of: handle) else { throw Refusal(handle, .invalidHandle) }
    try database.attributes[index].writeAccess.require(handle, security)
    guard prepared.append(pdu.extracting(5...), to: handle, at: Int(pdu.u16(at: 3))) else {
      throw Refusal(handle, .prepareQueueFull)
    }
    output.append(ATTOpcode.prepareWriteResponse.rawValue)
    output.append(pdu.extracting(1...))
  }

  /// Stores all prepared values or none: each value is assembled and checked before the first is stored.
  mutating func executeWrite(
    _ pdu: Span<UInt8>, _ database: inout GATTServerDatabase, _ output: inout OutputSpan<UInt8>,
    _ check: WriteCheck
  ) throws(Refusal) {
    guard pdu.count == 2, let action = ExecuteWriteRequest.Action(rawValue: pdu[1]) else {
      throw .invalidPDU
    }
    var queue = PreparedWrites()
    swap(&queue, &prepared)
    if action == .write {
      // Refuse if the database has changed since the values were prepared. Core 5.4, Vol 3, Part F, 3.4.6.3.
      if queue.isStale, let first = queue.writes.first { throw Refusal(first.handle, .databaseOutOfSync) }
      var values: [(handle: AttributeHandle, value: [UInt8])] = []
      for write in queue.writes {
        var place = values.firstIndex { $0.handle == write.handle }
        if place == nil {
          place = values.count
          values.append((write.handle, currentValue(of: write.handle, database)))
        }
        guard let place else { continue }
        try values[place].value.replaceTail(
          from: write.offset, with: queue.bytes[write.range], write.handle, database)
      }
      for (handle, value) in values {
        guard let index = database.index(of: handle) else { throw Refusal(handle, .invalidHandle) }
        try database.attributes[index].writeAccess.require(handle, security)
        try validate(value.span, to: index, database, check)
      }
      for (handle, value) in values { store(value.span, to: handle, &database) }
    }
    output.append(ATTOpcode.executeWriteResponse.rawValue)
  }

  private func currentValue(
    of handle: AttributeHandle, _ database: borrowing GATTServerDatabase
  ) -> [UInt8] {
    guard let index = database.index(of: handle) else { return [] }
    if case .configuration(let slot, _) = database.attributes[index].role {
      return [configurations[slot], 0]
    }
    if database.attributes[index].type == .clientSupportedFeatures { return [caching.features] }
    return database.attributes[index].value
  }

  private mutating func write(
    _ value: Span<UInt8>, to handle: AttributeHandle, _ database: inout GATTServerDatabase,
    _ check: WriteCheck
  ) throws(Refusal) {
    guard let index = database.index(of: handle) else { throw Refusal(handle, .invalidHandle) }
    try database.attributes[index].writeAccess.require(handle, security)
    try validate(value, to: index, database, check)
    store(value, to: handle, &database)
  }

  private func validate(
    _ value: Span<UInt8>, to index: Int, _ database: borrowing GATTServerDatabase, _ check: WriteCheck
  ) throws(Refusal) {
    let handle = database.attributes[index].handle
    guard value.count <= database.attributes[index].maximumByteCount else {
      throw Refusal(handle, .invalidAttributeValueLength)
    }
    if case .configuration(_, let allowed) = database.attributes[index].role {
      guard value.count == 2 else { throw Refusal(handle, .invalidAttributeValueLength) }
      guard value[0] & ~allowed == 0, value[1] == 0 else {
        throw Refusal(handle, .cccdImproperlyConfigured)
      }
    }
    if database.attributes[index].type == .clientSupportedFeatures { try caching.require(value, handle) }
    if let code = check(handle, value) { throw Refusal(handle, code) }
  }

  private mutating func store(
    _ value: Span<UInt8>, to handle: AttributeHandle, _ database: inout GATTServerDatabase
  ) {
    guard let index = database.index(of: handle) else { return }
    if case .configuration(let slot, _) = database.attributes[index].role {
      configurations[slot] = value[0]
      written.insert(slot)
    } else if database.attributes[index].type == .clientSupportedFeatures {
      caching.features = value[0] & ClientCaching.knownFeatures
    } else {
      database.store(value, at: index)
    }
  }
}

/// Prepared parts of values, in order of arrival.
struct PreparedWrites: Sendable {
  struct Part: Sendable {
    let handle: AttributeHandle
    let offset: Int
    let range: Range<Int>
  }

  private(set) var writes: [Part] = []
  private(set) var bytes: [UInt8] = []
  /// Whether the database has changed since, so that the handles may belong to other attributes.
  var isStale = false

  /// Queues a part of a value.
  ///
  /// - Returns: `false` if the queue is full.
  mutating func append(_ value: Span<UInt8>, to handle: AttributeHandle, at offset: Int) -> Bool {
    guard writes.count < ATTServer.preparedWriteLimit,
      bytes.count + value.count <= ATTServer.preparedByteLimit
    else { return false }
    let start = bytes.count
    bytes.append(copying: value)
    writes.append(Part(handle: handle, offset: offset, range: start..<bytes.count))
    return true
  }
}

extension [UInt8] {
  /// Replaces the value from `offset` to its end with the part, as a Write Request does from 0.
  fileprivate mutating func replaceTail(
    from offset: Int, with part: ArraySlice<UInt8>, _ handle: AttributeHandle,
    _ database: borrowing GATTServerDatabase
  ) throws(Refusal) {
    guard offset <= count else { throw Refusal(handle, .invalidOffset) }
    let limit = database.index(of: handle).map { database.attributes[$0].maximumByteCount } ?? 0
    guard offset + part.count <= limit else { throw Refusal(handle, .invalidAttributeValueLength) }
    removeSubrange(offset...)
    append(contentsOf: part)
  }
}

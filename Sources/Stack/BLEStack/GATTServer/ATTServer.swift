public import BLEWire

/// The server side of one ATT bearer. The caller passes in requests and sends the responses; the type does no
/// I/O.
///
/// The server holds the state of one client: the MTU, the CCCDs and the queue of prepared writes. The caller
/// passes in the attributes, so that several bearers can share one database. Core 5.4, Vol 3, Part F, 3.
///
/// The server handles requests, commands and confirmations. Responses, notifications and indications belong
/// to the client side of the same bearer: the caller distinguishes them by `ATTOpcode.kind`.
public struct ATTServer: Sendable {
  /// Maximum number of bytes in the queue of prepared writes; enough for one value of 512 bytes at the
  /// smallest MTU. Further Prepare Writes are refused with Prepare Queue Full.
  public static let preparedByteLimit = 2048
  public static let preparedWriteLimit = 64

  /// Called before a write is stored. Returns an error code to refuse it. The value borrows the PDU.
  public typealias WriteCheck = (_ handle: AttributeHandle, _ value: Span<UInt8>) -> ATTErrorCode?

  /// Called before a signed write is stored. Returns whether the signature is the client's and its counter is
  /// new. Core 5.4, Vol 3, Part H, 2.4.5.
  public typealias SignatureCheck = @Sendable (borrowing SignedWriteCommand) -> Bool

  /// Current security of the link. The link's owner updates it when encryption changes.
  public var security = ATTSecurity()
  /// Callback that checks signed writes; `nil` to drop signed writes.
  public var signatureCheck: SignatureCheck?

  /// The longest PDU that this side accepts, in bytes. Sent in the MTU exchange.
  public let receiveMTU: Int
  /// ATT_MTU in force, for both directions. Core 5.4, Vol 3, Part F, 3.2.8.
  public private(set) var mtu = ATT.defaultMTU
  /// Whether an indication awaits the client's confirmation. No other indication may be sent until then.
  public private(set) var awaitsConfirmation = false
  /// Number of errors of the peer that get no Error Response: unexpected confirmations, PDUs longer than the
  /// MTU, commands too short to contain a handle, MTUs below 23.
  public private(set) var faults = 0

  /// CCCD values, by slot.
  private var configurations: [UInt8]
  /// Slots of the CCCDs that the client has written on this link.
  var written: Set<Int> = []
  private var caching = ClientCaching()
  var prepared = PreparedWrites()

  /// Creates the server side of a bearer.
  ///
  /// - Parameters:
  ///   - database: the attributes to serve.
  ///   - receiveMTU: 23 … 517.
  public init(database: borrowing GATTServerDatabase, receiveMTU: Int = ATT.maximumMTU) {
    precondition((ATT.defaultMTU...ATT.maximumMTU).contains(receiveMTU))
    self.receiveMTU = receiveMTU
    configurations = Array(repeating: 0, count: database.configurationCount)
  }

  /// Applies an MTU exchange of the client side of this bearer. The MTU applies to both directions.
  public mutating func exchangedMTU(peerMTU: UInt16) {
    mtu = max(ATT.defaultMTU, min(Int(peerMTU), receiveMTU))
  }

  /// Ends the link. Keeps the state that a bonded client resumes on its next link: its CCCDs and its
  /// knowledge of the database.
  ///
  /// For bonded clients only; discard the server of any other client. Core 5.4, Vol 3, Part G, 3.3.3.3.
  public mutating func linkEnded() {
    security = ATTSecurity()
    mtu = ATT.defaultMTU
    awaitsConfirmation = false
    prepared = PreparedWrites()
    written = []
    caching.linkEnded()
  }

  /// Copies the state of a new link into this stored server: the link's own state and the CCCDs that the
  /// client has written. Call this after the client has proved that it is the bonded client.
  public mutating func resume(_ bearer: ATTServer) {
    (security, signatureCheck, mtu) = (bearer.security, bearer.signatureCheck, bearer.mtu)
    (awaitsConfirmation, faults, prepared) = (bearer.awaitsConfirmation, bearer.faults, bearer.prepared)
    written = bearer.written
    for slot in written { configurations[slot] = bearer.configurations[slot] }
    caching.features |= bearer.caching.features
    caching.isIndicated = bearer.caching.isIndicated
  }

  /// Whether prepared writes wait to be executed or cancelled.
  public var hasPreparedWrites: Bool { !prepared.writes.isEmpty }

  /// Processes one PDU and appends the response, if any, to `output`.
  ///
  /// - Parameters:
  ///   - pdu: PDU of the client.
  ///   - database: the attributes to serve.
  ///   - output: must have room for `max(mtu, receiveMTU)` bytes. Stays empty if no response is due.
  ///   - check: called before each write is stored, for CCCDs too.
  public mutating func receive(
    _ pdu: Span<UInt8>, database: inout GATTServerDatabase, into output: inout OutputSpan<UInt8>,
    check: WriteCheck
  ) {
    guard pdu.count > 0 else { return }
    let opcode = ATTOpcode(rawValue: pdu[0])
    guard pdu.count <= mtu else {
      faults += 1
      return
    }
    if opcode.kind == .command, caching.isHeldBack { return }
    switch opcode.kind {
    case .command:
      if pdu.count < 3 { faults += 1 }
      switch opcode {
      case .writeCommand: acceptCommand(pdu, &database, check)
      case .signedWriteCommand: acceptSignedCommand(pdu, &database, check)
      default: break
      }
    case .confirmation: confirm(pdu)
    case .request:
      do throws(Refusal) {
        try caching.admit(opcode, pdu)
        try answer(opcode, pdu, &database, &output, check)
      } catch {
        ErrorResponse(request: opcode, handle: error.handle, code: error.code).encode(into: &output)
      }
    case .response, .notification, .indication: break
    }
  }

  /// Returns whether a client has subscribed to a characteristic and the link is secure enough for its
  /// values. Values that require encryption are not sent on a link that has lost it. Core 5.4, Vol 3, Part G,
  /// 3.3.3.3; Vol 3, Part C, 10.3.1.1.
  public func isSubscribed(
    to valueHandle: AttributeHandle, _ push: ServerPush, in database: borrowing GATTServerDatabase
  ) -> Bool {
    guard let index = database.index(of: valueHandle),
      let slot = database.attributes[index].configurationSlot
    else { return false }
    // The CCCD directly follows the value.
    guard database.attributes[index].readAccess.isSecureEnough(security),
      database.attributes[index + 1].writeAccess.isSecureEnough(security)
    else { return false }
    return configurations[slot] & push.rawValue != 0
  }

  /// Appends a notification or indication if the client has subscribed. The value is truncated to ATT_MTU − 3
  /// bytes.
  ///
  /// Core 5.4, Vol 3, Part F, 3.4.7.
  public mutating func push(
    _ push: ServerPush, of valueHandle: AttributeHandle, value: Span<UInt8>,
    database: borrowing GATTServerDatabase, into output: inout OutputSpan<UInt8>
  ) -> PushResult {
    guard isSubscribed(to: valueHandle, push, in: database) else { return .notSubscribed }
    let isChange = database.valueHandle(of: .serviceChanged) == valueHandle
    if caching.isHeldBack, !isChange { return .notSubscribed }
    let value = value.extracting(..<min(value.count, mtu - 3))
    switch push {
    case .notification: HandleValueNotification(handle: valueHandle, value: value).encode(into: &output)
    case .indication:
      if awaitsConfirmation { return .awaitsConfirmation }
      awaitsConfirmation = true
      caching.isIndicated = isChange
      HandleValueIndication(handle: valueHandle, value: value).encode(into: &output)
    }
    return .encoded
  }

  /// Appends a Multiple Handle Value Notification with as many values as fit completely. Includes only values
  /// to which the client has subscribed.
  ///
  /// Use this only if the client has set bit 2 of Client Supported Features. Core 5.4, Vol 3, Part F,
  /// 3.4.7.4.
  /// - Returns: Number of leading `values` that are done: they were sent, or the client has not subscribed to
  ///   them. Send the remaining values with another PDU. Nothing is appended if only one value fits: send it
  ///   with `push`.
  public func pushTogether(
    _ values: [(handle: AttributeHandle, value: [UInt8])], database: borrowing GATTServerDatabase,
    into output: inout OutputSpan<UInt8>
  ) -> Int {
    var (room, settled, taken) = (mtu - 1, 0, [Int]())
    for (handle, value) in values {
      if isSubscribed(to: handle, .notification, in: database) {
        guard value.count + 4 <= room else { break }
        room -= value.count + 4
        taken.append(settled)
      }
      settled += 1
    }
    guard taken.count != 1 else { return taken[0] }
    if taken.isEmpty { return settled }
    output.append(ATTOpcode.multipleHandleValueNotification.rawValue)
    for index in taken {
      let value = values[index].value
      HandleValueNotification(handle: values[index].handle, value: value.span).encodeTuple(into: &output)
    }
    return settled
  }

  private mutating func confirm(_ pdu: Span<UInt8>) {
    if !awaitsConfirmation || pdu.count != 1 { faults += 1 }
    caching.confirmed()
    awaitsConfirmation = false
  }

  private mutating func answer(
    _ opcode: ATTOpcode, _ pdu: Span<UInt8>, _ database: inout GATTServerDatabase,
    _ output: inout OutputSpan<UInt8>, _ check: WriteCheck
  ) throws(Refusal) {
    switch opcode {
    case .exchangeMTURequest: try exchangeMTU(pdu, &output)
    case .findInformationRequest: try findInformation(pdu, database, &output)
    case .findByTypeValueRequest: try findByTypeValue(pdu, database, &output)
    case .readByTypeRequest: try readByType(pdu, database, &output)
    case .readByGroupTypeRequest: try readByGroupType(pdu, database, &output)
    case .readRequest: try read(pdu, database, &output)
    case .readBlobRequest: try readBlob(pdu, database, &output)
    case .readMultipleRequest, .readMultipleVariableRequest: try readMultiple(pdu, database, &output)
    case .writeRequest: try write(pdu, &database, &output, check)
    case .prepareWriteRequest: try prepareWrite(pdu, database, &output)
    case .executeWriteRequest: try executeWrite(pdu, &database, &output, check)
    default: throw Refusal(.none, .requestNotSupported)
    }
  }

  private mutating func exchangeMTU(
    _ pdu: Span<UInt8>, _ output: inout OutputSpan<UInt8>
  ) throws(Refusal) {
    guard pdu.count == ExchangeMTU.byteCount else { throw .invalidPDU }
    if pdu.u16(at: 1) < ATT.defaultMTU { faults += 1 }
    exchangedMTU(peerMTU: pdu.u16(at: 1))
    ExchangeMTU(response: UInt16(receiveMTU)).encode(into: &output)
  }
}

/// Kind of a value that a server sends without a request. The raw value is the CCCD's bit.
public enum ServerPush: UInt8, Hashable, Sendable, BitwiseCopyable {
  case notification = 0x01
  case indication = 0x02
}

/// Result of a `push`.
public enum PushResult: Hashable, Sendable, BitwiseCopyable {
  case encoded
  /// The client has not subscribed, the characteristic does not support this kind of push, or the client does
  /// not know yet that the database has changed.
  case notSubscribed
  /// An indication is outstanding, and only one is allowed at a time. Core 5.4, Vol 3, Part F, 3.3.2.
  case awaitsConfirmation
}

/// A request that is answered with an Error Response.
struct Refusal: Error {
  let handle: AttributeHandle
  let code: ATTErrorCode

  init(_ handle: AttributeHandle, _ code: ATTErrorCode) {
    self.handle = handle
    self.code = code
  }

  fileprivate static let invalidPDU = Refusal(.none, .invalidPDU)
}

extension ATTAccess {
  func require(_ handle: AttributeHandle, _ security: ATTSecurity) throws(Refusal) {
    if let code = refusal(on: security) { throw Refusal(handle, code) }
  }
}

// MARK: - Discovery

/// Discovery requests. Core 5.4, Vol 3, Part F, 3.4.3, 3.4.4.1 and 3.4.4.9.
///
/// All responses except Find By Type Value are lists of entries of equal length. The first match sets the
/// length. The list ends before an entry that does not fit or has another length, and the client continues
/// from this entry.
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

  private func findByTypeValue(
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

  private func readByType(
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

  private func readByGroupType(
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

// MARK: - Reads

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

  /// Answers a Read Blob Request. An offset at the end of the value returns an empty part; a larger offset is
  /// refused with Invalid Offset.
  private func readBlob(
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

  /// Answers a Read Multiple or Read Multiple Variable Request. The response to Read Multiple Variable has a
  /// length before each value.
  ///
  /// The whole request is refused if any value cannot be read. The error contains the handle of the first
  /// unreadable value.
  private func readMultiple(
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

  /// Returns the size of the value for this client, in bytes.
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

  private func appendValue(
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

// MARK: - Writes

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

  /// Stores the value of a Write Command. Drops the command silently on an error. Core 5.4, Vol 3, Part F,
  /// 3.4.5.3.
  private mutating func acceptCommand(
    _ pdu: Span<UInt8>, _ database: inout GATTServerDatabase, _ check: WriteCheck
  ) {
    guard pdu.count >= 3 else { return }
    try? write(pdu.extracting(3...), to: pdu.handle(at: 1), &database, check)
  }

  /// Stores the value of a signed write. A valid signature is accepted in place of the encryption that an
  /// unsigned write would need. Drops a command whose signature is invalid.
  private mutating func acceptSignedCommand(
    _ pdu: Span<UInt8>, _ database: inout GATTServerDatabase, _ check: WriteCheck
  ) {
    guard let command = try? SignedWriteCommand(validating: pdu),
      let index = database.index(of: command.handle),
      database.attributes[index].signedWriteAccess.refusal(on: security) == nil,
      signatureCheck?(command) ?? false, (try? validate(command.value, to: index, database, check)) != nil
    else { return }
    store(command.value, to: command.handle, &database)
  }

  private mutating func prepareWrite(
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

  /// Stores all prepared values or none. Assembles and checks each value before it stores the first.
  private mutating func executeWrite(
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
  /// Whether the database has changed since the writes were prepared. Their handles may then belong to other
  /// attributes.
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

// MARK: - Caching

/// A client's knowledge of the database, for robust caching. Core 5.4, Vol 3, Part G, 2.5.2.1 and 7.2.
///
/// Enforced only if the client has enabled robust caching. Other clients rely on Service Changed, if at all.
struct ClientCaching: Sendable {
  private enum Awareness: Sendable {
    case aware
    /// The database has changed since the client discovered it.
    case unaware
    /// The client has received Database Out Of Sync or has read the hash. Its next request makes it aware.
    case told
  }

  fileprivate static let featuresByteCount = 1
  /// Robust caching, enhanced bearers, multiple value notifications. The other bits are reserved.
  fileprivate static let knownFeatures: UInt8 = 0x07
  private static let robustCaching: UInt8 = 0x01

  /// Client Supported Features of this client.
  var features: UInt8 = 0
  /// Whether the outstanding indication is Service Changed.
  var isIndicated = false
  private var awareness = Awareness.aware

  private var isRobust: Bool { features & Self.robustCaching != 0 }

  /// Whether the database has changed and the client has not acknowledged it.
  var isBehind: Bool { awareness != .aware }

  /// Whether commands of the client are ignored, and values other than Service Changed are not sent to it.
  var isHeldBack: Bool { isRobust && awareness != .aware }

  fileprivate mutating func databaseChanged() { awareness = .unaware }

  /// Resets `told` to `unaware`, because `told` applies to one link only. Core 5.4, Vol 3, Part G, 2.5.2.1.
  fileprivate mutating func linkEnded() {
    isIndicated = false
    if awareness == .told { awareness = .unaware }
  }

  mutating func confirmed() {
    if isIndicated { awareness = .aware }
    isIndicated = false
  }

  /// Refuses a value that clears a bit, with Value Not Allowed. Core 5.4, Vol 3, Part G, 7.2.
  func require(_ value: Span<UInt8>, _ handle: AttributeHandle) throws(Refusal) {
    guard value.count == Self.featuresByteCount else { throw Refusal(handle, .invalidAttributeValueLength) }
    guard features & ~value[0] == 0 else { throw Refusal(handle, .valueNotAllowed) }
  }

  /// Checks whether the client may send a request, and updates the client's state.
  ///
  /// - Throws: Database Out Of Sync, once, for a request with a handle of the old database.
  fileprivate mutating func admit(_ opcode: ATTOpcode, _ pdu: Span<UInt8>) throws(Refusal) {
    guard isRobust else { return }
    switch awareness {
    case .aware: break
    case .told: awareness = .aware
    case .unaware:
      switch Self.purpose(opcode, pdu) {
      case .discovery: break
      case .hash: awareness = .told
      case .value:
        awareness = .told
        throw Refusal(pdu.count >= 3 ? pdu.handle(at: 1) : .none, .databaseOutOfSync)
      }
    }
  }

  /// Purpose of a request.
  private enum Purpose {
    case discovery, hash, value
  }

  private static func purpose(_ opcode: ATTOpcode, _ pdu: Span<UInt8>) -> Purpose {
    switch opcode {
    case .readRequest, .readBlobRequest, .readMultipleRequest, .readMultipleVariableRequest, .writeRequest,
      .prepareWriteRequest:
      return .value
    case .readByTypeRequest:
      guard pdu.count == 7 || pdu.count == 21 else { return .discovery }
      switch pdu.uuid(at: 5, byteCount: pdu.count - 5) {
      case BluetoothUUID.include, BluetoothUUID.characteristic: return .discovery
      case BluetoothUUID.databaseHash:
        return HandleRange(start: pdu.handle(at: 1), end: pdu.handle(at: 3)) == .all ? .hash : .value
      default: return .value
      }
    default: return .discovery
    }
  }
}

extension ATTServer {
  /// Whether the client must still be sent a Service Changed indication.
  public var isBehind: Bool { caching.isBehind }

  /// Switches to a changed database. CCCDs keep their values if their characteristics have not moved.
  public mutating func databaseChanged(
    from old: borrowing GATTServerDatabase, to new: borrowing GATTServerDatabase
  ) {
    var kept = [UInt8](repeating: 0, count: new.configurationCount)
    for attribute in new.attributes {
      guard case .configuration(let slot, _) = attribute.role, let index = old.index(of: attribute.handle),
        case .configuration(let former, _) = old.attributes[index].role, index > 0,
        let place = new.index(of: attribute.handle), place > 0,
        old.attributes[index - 1].type == new.attributes[place - 1].type
      else { continue }
      kept[slot] = configurations[former]
    }
    configurations = kept
    written = []
    prepared.isStale = true
    caching.databaseChanged()
  }
}

extension GATTServerDatabase {
  /// The Database Hash: 16 bytes, most significant first, as BlueZ sends it. Other servers send the least
  /// significant first; clients only compare hashes. Core 5.4, Vol 3, Part G, 7.3.1.
  public var databaseHash: [UInt8] {
    let message = hashedOctets
    let code = AESCMAC(key: 0).code(message.span)
    return (0..<16).map { UInt8(truncatingIfNeeded: code >> UInt128(120 - 8 * $0)) }
  }

  /// Input of the Database Hash: declarations with their values, and other descriptors defined by the
  /// specification without values. The hash is the AES-CMAC of the input with a key of 16 zero bytes. Core
  /// 5.4, Vol 3, Part G, 7.3.1.
  public var hashedOctets: [UInt8] {
    var octets: [UInt8] = []
    for attribute in attributes {
      guard let type = attribute.type.short else { continue }
      var value: [UInt8] = []
      switch type {
      // Service, include and characteristic declarations, extended properties.
      case 0x2800...0x2803, 0x2900: value = attribute.value
      case 0x2901...0x2905: break
      default: continue
      }
      octets += [UInt8](encoding: 4 + value.count) {
        $0.append(attribute.handle)
        $0.append(u16: type)
        $0.append(value.span)
      }
    }
    return octets
  }
}

// MARK: - Security

/// Security of a link from the server's point of view.
public struct ATTSecurity: Hashable, Sendable, BitwiseCopyable {
  /// Levels 1 to 3 of security mode 1. Core 5.4, Vol 3, Part C, 10.2.1.
  public enum Level: UInt8, Comparable, Hashable, Sendable, BitwiseCopyable {
    case none, encrypted
    /// Encrypted with a key from a pairing with MITM protection.
    case authenticated

    public static func < (a: Level, b: Level) -> Bool { a.rawValue < b.rawValue }
  }

  /// Whether the two devices share a key. Relevant while the link is not encrypted.
  public enum StoredKey: Hashable, Sendable, BitwiseCopyable {
    case none, present
  }

  public var level: Level
  /// Encryption key size, 7 … 16 bytes, on an encrypted link.
  public var keyByteCount: Int
  public var storedKey: StoredKey

  public init(_ level: Level = .none, keyByteCount: Int = 16, storedKey: StoredKey = .none) {
    self.level = level
    self.keyByteCount = keyByteCount
    self.storedKey = storedKey
  }

  /// Creates the security state of a link. `bond` is `nil` if the device is not bonded.
  public init(_ bond: Bond?, isEncrypted: Bool) {
    let isAuthenticated = bond?.isAuthenticated ?? false
    self.init(
      !isEncrypted ? .none : isAuthenticated ? .authenticated : .encrypted,
      keyByteCount: Int(bond?.keyByteCount ?? 16), storedKey: bond == nil ? .none : .present)
  }
}

/// Whether a client may access an attribute. If not, contains the error code.
public enum ATTAccess: Hashable, Sendable, BitwiseCopyable {
  case allowed
  /// Refused on any link, with this error code. Core 5.4, Vol 3, Part F, 3.4.1.1.
  case refused(ATTErrorCode)
  /// Allowed on a link with at least this security level and encryption key size in bytes.
  case needs(ATTSecurity.Level, keyByteCount: Int = 7)

  /// Returns whether a link has the security that access requires.
  fileprivate func isSecureEnough(_ security: ATTSecurity) -> Bool {
    guard case .needs = self else { return true }
    return refusal(on: security) == nil
  }

  /// Returns the error code for a client on a link with this security, or `nil` if access is allowed. Core
  /// 5.4, Vol 3, Part C, 10.3.1.
  public func refusal(on security: ATTSecurity) -> ATTErrorCode? {
    switch self {
    case .allowed: nil
    case .refused(let code): code
    case .needs(let level, let keyByteCount):
      if security.level == .none, level > .none {
        // If both sides have a key, it is enough to encrypt the link with that key.
        security.storedKey == .present ? .insufficientEncryption : .insufficientAuthentication
      } else if security.level < level {
        .insufficientAuthentication
      } else if level > .none, security.keyByteCount < keyByteCount {
        .encryptionKeySizeTooShort
      } else {
        nil
      }
    }
  }
}

// MARK: - The generic services

/// Minimal server for a connected peer. Answers requests for the GAP and GATT services, and refuses all other
/// requests with the correct error.
///
/// The program that holds the ATT channel must also act as its server. Reference `att-gatt-conformance.md`,
/// 6.
package struct LocalServer {
  private var server: ATTServer
  private var database: GATTServerDatabase

  package init(receiveMTU: Int) {
    database = GATTServerDatabase(.genericServices(name: "ringtap"))
    server = ATTServer(database: database, receiveMTU: receiveMTU)
  }

  /// Processes a request of the peer.
  ///
  /// - Parameter mtu: ATT_MTU in force on the bearer.
  /// - Returns: The response; empty if none is due.
  package mutating func answer(_ pdu: Span<UInt8>, mtu: Int) -> [UInt8] {
    server.exchangedMTU(peerMTU: UInt16(mtu))
    return [UInt8](encoding: ATT.maximumMTU) {
      server.receive(pdu, database: &database, into: &$0) { _, _ in nil }
    }
  }
}

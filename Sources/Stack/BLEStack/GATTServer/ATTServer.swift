public import BLEWire

/// The server side of one ATT bearer. The caller passes in requests and sends the responses; the type does no
/// I/O.
///
/// It holds the state of one client: the MTU, the CCCDs and the queue of prepared writes. The caller passes
/// in the attributes, so that several bearers can share one database. Core 5.4, Vol 3, Part F, 3.
///
/// It handles requests, commands and confirmations. Responses, notifications and indications belong to the
/// client side of the same bearer: the caller distinguishes them by `ATTOpcode.kind`.
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
  /// Checks signed writes. If `nil`, they are dropped.
  public var signatureCheck: SignatureCheck?

  /// The longest PDU that this side accepts, in bytes. Sent in the MTU exchange.
  public let receiveMTU: Int
  /// ATT_MTU in force, for both directions. Core 5.4, Vol 3, Part F, 3.2.8.
  public private(set) var mtu = ATT.defaultMTU
  /// Whether the client has not yet confirmed an indication. No other may be sent until then.
  public private(set) var awaitsConfirmation = false
  /// Number of errors of the peer that get no Error Response: unexpected confirmations, PDUs longer than the
  /// MTU, commands too short to contain a handle, MTUs below 23.
  public private(set) var faults = 0

  /// CCCD values, by slot.
  var configurations: [UInt8]
  /// Slots of the CCCDs that the client has written on this link.
  var written: Set<Int> = []
  var caching = ClientCaching()
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
  /// client has written. Call it once the client has proved to be the bonded one.
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

  /// Whether a client has subscribed to a characteristic and the link is secure enough for its values. Values
  /// that require encryption are not sent on a link that has lost it. Core 5.4, Vol 3, Part G, 3.3.3.3; Vol
  /// 3, Part C, 10.3.1.1.
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
  /// Use it only if the client has set bit 2 of Client Supported Features. Core 5.4, Vol 3, Part F, 3.4.7.4.
  /// - Returns: Number of leading `values` that need no further work: sent, or not subscribed to. Send the
  ///   rest with another PDU. Nothing is appended if only one value fits: send it with `push`.
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
  /// The client has not subscribed, the characteristic does not support it, or the client does not know yet
  /// that the database has changed.
  case notSubscribed
  /// An indication is outstanding; only one may be. Core 5.4, Vol 3, Part F, 3.3.2.
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

  static let invalidPDU = Refusal(.none, .invalidPDU)
}

extension ATTAccess {
  func require(_ handle: AttributeHandle, _ security: ATTSecurity) throws(Refusal) {
    if let code = refusal(on: security) { throw Refusal(handle, code) }
  }
}

public import BLEWire

/// The server end of one ATT bearer: requests in, responses out, no I/O.
///
/// It holds what belongs to one client: the MTU, the CCCDs and the queue of prepared writes. The attributes
/// are passed in, so that several bearers share one database. Core 5.4, Vol 3, Part F, 3.
///
/// It answers requests, commands and confirmations. Responses, notifications and indications belong to the
/// client end of the same bearer: the caller tells them apart by `ATTOpcode.kind`.
public struct ATTServer: Sendable {
  /// Octets of values and parts of values that wait for Execute Write; enough for one value of 512 octets
  /// at the smallest MTU. Beyond, Prepare Write is refused with Prepare Queue Full.
  public static let preparedByteLimit = 2048
  public static let preparedWriteLimit = 64

  /// Asked before a write is stored: an error code refuses it. The value borrows the PDU.
  public typealias WriteCheck = (_ handle: AttributeHandle, _ value: Span<UInt8>) -> ATTErrorCode?

  /// Asked before a signed write is stored: whether the signature is the client's, and newer than all before.
  /// Core 5.4, Vol 3, Part H, 2.4.5.
  public typealias SignatureCheck = @Sendable (borrowing SignedWriteCommand) -> Bool

  /// The link as it is now; whoever encrypts it says so here.
  public var security = ATTSecurity()
  /// Without one, signed writes are dropped.
  public var signatureCheck: SignatureCheck?

  /// The longest PDU that this end takes, announced in the MTU exchange.
  public let receiveMTU: Int
  /// In force on the bearer, for both directions. Core 5.4, Vol 3, Part F, 3.2.8.
  public private(set) var mtu = ATT.defaultMTU
  /// An indication was sent and not confirmed yet: no other may be sent.
  public private(set) var awaitsConfirmation = false
  /// Confirmations that nothing waited for, PDUs longer than the MTU, commands too short to name an attribute, MTUs below
  /// 23: the peer's faults that no Error Response tells it of.
  public private(set) var faults = 0

  /// CCCD values, by slot.
  var configurations: [UInt8]
  /// Slots that were written on this link.
  var written: Set<Int> = []
  var caching = ClientCaching()
  var prepared = PreparedWrites()

  /// - Parameters:
  ///   - database: what it serves.
  ///   - receiveMTU: 23 … 517.
  public init(database: borrowing GATTServerDatabase, receiveMTU: Int = ATT.maximumMTU) {
    precondition((ATT.defaultMTU...ATT.maximumMTU).contains(receiveMTU))
    self.receiveMTU = receiveMTU
    configurations = Array(repeating: 0, count: database.configurationCount)
  }

  /// The client end of this bearer has exchanged MTUs: one value holds for both directions.
  public mutating func exchangedMTU(peerMTU: UInt16) {
    mtu = max(ATT.defaultMTU, min(Int(peerMTU), receiveMTU))
  }

  /// The link has ended: what the client finds again on its next one stays, its CCCDs and what it knows of the database.
  ///
  /// For clients that are bonded; of others nothing is kept. Core 5.4, Vol 3, Part G, 3.3.3.3.
  public mutating func linkEnded() {
    security = ATTSecurity()
    mtu = ATT.defaultMTU
    awaitsConfirmation = false
    prepared = PreparedWrites()
    written = []
    caching.linkEnded()
  }

  /// The client of `bearer` has shown that it is the one that this server was kept for: what belongs to the link goes on,
  /// and so does what it has written on it before.
  public mutating func resume(_ bearer: ATTServer) {
    (security, signatureCheck, mtu) = (bearer.security, bearer.signatureCheck, bearer.mtu)
    (awaitsConfirmation, faults, prepared) = (bearer.awaitsConfirmation, bearer.faults, bearer.prepared)
    written = bearer.written
    for slot in written { configurations[slot] = bearer.configurations[slot] }
    caching.features |= bearer.caching.features
    caching.isIndicated = bearer.caching.isIndicated
  }

  /// A long write was begun, and neither executed nor cancelled.
  public var hasPreparedWrites: Bool { !prepared.writes.isEmpty }

  /// Takes one PDU and appends the answer, if it has one, to `output`.
  ///
  /// - Parameters:
  ///   - pdu: of the client.
  ///   - database: what it serves.
  ///   - output: with room for `max(mtu, receiveMTU)` octets. Nothing is appended where no answer is due.
  ///   - check: asked before each write is stored, for CCCDs too.
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

  /// Whether a client asked for values of a characteristic and may have them on the link as it is now: a link that is no longer
  /// encrypted gets none that need encryption. Core 5.4, Vol 3, Part G, 3.3.3.3; Vol 3, Part C, 10.3.1.1.
  public func isSubscribed(
    to valueHandle: AttributeHandle, _ push: ServerPush, in database: borrowing GATTServerDatabase
  ) -> Bool {
    guard let index = database.index(of: valueHandle),
      let slot = database.attributes[index].configurationSlot
    else { return false }
    // The descriptor stands right behind its value.
    guard database.attributes[index].readAccess.isSecureEnough(security),
      database.attributes[index + 1].writeAccess.isSecureEnough(security)
    else { return false }
    return configurations[slot] & push.rawValue != 0
  }

  /// Appends a notification or indication, if the client wants it; the value is cut to ATT_MTU − 3.
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

  /// Appends a Multiple Handle Value Notification of those values that the client wants, as many as go in whole.
  ///
  /// Only for a client that has set bit 2 of Client Supported Features. Core 5.4, Vol 3, Part F, 3.4.7.4.
  /// - Returns: how many of `values` are settled, sent or not wanted; the rest goes with another PDU. Nothing is
  ///   appended for a single value: that is a `push`.
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

/// How a server sends a value of its own accord. The raw value is the CCCD's bit.
public enum ServerPush: UInt8, Hashable, Sendable, BitwiseCopyable {
  case notification = 0x01
  case indication = 0x02
}

/// What became of a value that was to be pushed.
public enum PushResult: Hashable, Sendable, BitwiseCopyable {
  case encoded
  /// The client did not ask for it, the characteristic does not offer it, or the client does not know yet that the
  /// database has changed.
  case notSubscribed
  /// One indication at a time. Core 5.4, Vol 3, Part F, 3.3.2.
  case awaitsConfirmation
}

/// Why a request is answered with an Error Response.
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

public import BLECore
public import BLEWire

/// The client's half of an ATT bearer: bytes and time in, reactions out.
///
/// One request is outstanding at a time, for 30 s at most; notifications, indications and the peer's own
/// requests may come between. Core 5.4, Vol 3, Part F, 3.3.
public struct ATTClientMachine: ~Copyable {
  /// The most that an answer may take. Core 5.4, Vol 3, Part F, 3.3.3.
  public static let transactionTimeout = Duration.seconds(30)

  /// What the owner of the bearer has to do about a PDU.
  public enum Reaction: Hashable, Sendable {
    /// Nothing more: it was delivered, or may be ignored.
    case none
    /// An indication was delivered: send `HandleValueIndication.confirmation`.
    case confirm
    /// The PDU answers the outstanding request.
    case completed
    /// The server refused the outstanding request.
    case refused(ErrorResponse)
    /// The outstanding request fails with this; the bearer goes on.
    case failed(WireError)
    /// The peer asks us: hand the PDU to the ATT server and send its answer.
    case serve
    /// The bearer must be closed.
    case close(WireError)
  }

  /// ATT_MTU in force, both ways.
  public private(set) var mtu = ATT.defaultMTU
  /// Our receive MTU, offered in an exchange.
  public let receiveMTU: Int
  /// How long an answer may take: `transactionTimeout`, or less.
  public var patience = ATTClientMachine.transactionTimeout {
    didSet { patience = min(patience, Self.transactionTimeout) }
  }
  /// Whether confirmations are handed to the server: it indicates. Otherwise each of them is the peer's fault.
  public var servesIndications = false
  /// Whether the bearer may be older than this client, and its MTU not be known before it is exchanged here.
  private var mayBeOlder: Bool
  private var outstanding: (request: ATTOpcode, deadline: MonotonicTime)?
  /// What the exchange under way offers.
  private var offeredMTU: Int

  /// - Parameters:
  ///   - receiveMTU: 23 … 517.
  ///   - mayBeOlder: whether somebody may have exchanged MTUs on this bearer before, as on a link that the kernel has kept
  ///     for the next program: until they are exchanged here, a PDU of the peer's tells that ATT_MTU is no less, up to `receiveMTU`.
  public init(receiveMTU: Int = ATT.maximumMTU, mayBeOlder: Bool = false) {
    precondition((ATT.defaultMTU...ATT.maximumMTU).contains(receiveMTU))
    self.receiveMTU = receiveMTU
    offeredMTU = receiveMTU
    self.mayBeOlder = mayBeOlder
  }

  public var isIdle: Bool { outstanding == nil }

  /// When the outstanding request times out.
  public var deadline: MonotonicTime? { outstanding?.deadline }

  /// Marks a request as handed to the bearer. Only one may be outstanding.
  ///
  /// - Parameters:
  ///   - request: its opcode.
  ///   - offer: the receive MTU that an exchange names, where it is less than `receiveMTU`.
  ///   - now: the deadline counts from here.
  public mutating func begin(_ request: ATTOpcode, offering offer: Int? = nil, now: MonotonicTime) {
    offeredMTU = min(offer ?? receiveMTU, receiveMTU)
    precondition(outstanding == nil, "one ATT request at a time")
    outstanding = (request, now.advanced(by: patience))
  }

  /// The outstanding request, if it has run out of time. The bearer must be closed then.
  public mutating func expire(now: MonotonicTime) -> ATTOpcode? {
    guard let (request, deadline) = outstanding, deadline <= now else { return nil }
    outstanding = nil
    return request
  }

  /// Takes one PDU of the peer; lends values of notifications and indications to `sink`.
  ///
  /// - Throws: for a PDU that is dropped (empty, too short, longer than ATT_MTU): count it and go on.
  public mutating func receive(
    _ pdu: Span<UInt8>, sink: (borrowing HandleValueNotification) -> Void
  ) throws(WireError) -> Reaction {
    try pdu.require(1, .att)
    if pdu.count > mtu, mayBeOlder { mtu = min(pdu.count, receiveMTU) }
    guard pdu.count <= mtu else {
      throw WireError(.att, offset: mtu, .lengthMismatch(claimed: mtu, available: pdu.count))
    }
    let opcode = ATTOpcode(rawValue: pdu[0])
    switch opcode.kind {
    case .notification:
      if opcode == .handleValueNotification {
        sink(try HandleValueNotification(dispatched: pdu))
      } else {
        try MultipleHandleValueNotification(validating: pdu).forEach(sink)
      }
      return .none
    case .indication:
      let indication = try HandleValueIndication(validating: pdu)
      sink(HandleValueNotification(handle: indication.handle, value: indication.value))
      return .confirm
    case .response: return answer(opcode, pdu)
    case .request:
      // One of another length is refused by the server: then nothing is agreed.
      if opcode == .exchangeMTURequest, pdu.count == ExchangeMTU.byteCount {
        agree(on: Int(try ExchangeMTU(validating: pdu).mtu), offering: receiveMTU)
      }
      return .serve
    case .command: return .serve
    case .confirmation:
      if servesIndications { return .serve }
      // We never indicate, so none is pending.
      return .close(WireError(.att, offset: 0, .unexpectedOpcode(opcode.rawValue)))
    }
  }

  private mutating func answer(_ opcode: ATTOpcode, _ pdu: Span<UInt8>) -> Reaction {
    let unexpected = WireError(.att, offset: 0, .unexpectedOpcode(opcode.rawValue))
    guard let (request, _) = outstanding else { return .close(unexpected) }
    outstanding = nil
    do {
      if opcode == .errorResponse {
        let error = try ErrorResponse(validating: pdu)
        guard error.request == request else {
          return .failed(WireError(.att, offset: 1, .unexpectedOpcode(error.request.rawValue)))
        }
        // 0x00 is no error code: the request failed, but not by any rule.
        return error.code.rawValue == 0
          ? .failed(WireError(.att, offset: 4, .invalidValue(0))) : .refused(error)
      }
      guard opcode.rawValue == request.rawValue + 1 else { return .failed(unexpected) }
      if opcode == .exchangeMTUResponse {
        agree(on: Int(try ExchangeMTU(validating: pdu).mtu), offering: offeredMTU)
      }
      return .completed
    } catch { return .failed(error) }
  }

  /// Core 5.4, Vol 3, Part F, 3.4.2.2: the smaller of both, never under 23.
  private mutating func agree(on peerMTU: Int, offering ours: Int) {
    mtu = max(ATT.defaultMTU, min(ours, peerMTU))
    mayBeOlder = false
  }
}

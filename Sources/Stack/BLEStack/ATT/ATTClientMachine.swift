public import BLEWire

/// The client's half of an ATT bearer: bytes and time in, reactions out.
///
/// One request is outstanding at a time, for 30 s at most; notifications, indications and the peer's own
/// requests may come between. Core 5.4, Vol 3, Part F, 3.3.
///
/// Responses carry no number that ties them to their request, and some devices respond twice or late. A response is ignored
/// if its opcode or its handles belong to another request. If it might belong to the request before, it is held for a moment:
/// a second response takes its place.
public struct ATTClientMachine: ~Copyable {
  /// The most that an answer may take. Core 5.4, Vol 3, Part F, 3.3.3.
  public static let transactionTimeout = Duration.seconds(30)
  /// How long an Error Response for another handle is held. Some servers name a wrong one.
  public static let misplacedErrorTimeout = Duration.seconds(2)
  /// How long a response that may belong to the request before is held: two round trips, and no less than this.
  public static let doubtTimeout = Duration.milliseconds(50)

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
    /// The PDU belongs to no request: it was counted in `strayResponses`.
    case stray
    /// The PDU may belong to an earlier request: it is held until `deadline`, when `release` gives it.
    case held
  }

  /// What is known of the request that waits for its response.
  private struct Outstanding {
    let request: ATTOpcode
    let begunAt: MonotonicTime
    let deadline: MonotonicTime
    /// The handles that a response may name; `nil` if it may name any.
    let handles: HandleRange?
    let fingerprint: UInt64

    /// Whether it asks about a range of handles.
    var isSearch: Bool {
      switch request {
      case .findInformationRequest, .findByTypeValueRequest, .readByTypeRequest, .readByGroupTypeRequest: true
      default: false
      }
    }
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
  /// Whether a response that may belong to the request before is held. In a log nothing else follows.
  public var holdsDoubtful = true
  /// Whether the bearer may be older than this client, and its MTU not be known before it is exchanged here.
  private var mayBeOlder: Bool
  /// Responses and confirmations of the peer that belonged to nothing.
  public private(set) var strayResponses = 0
  private var outstanding: Outstanding?
  private var held: (pdu: [UInt8], until: MonotonicTime)?
  /// The last request that was answered, and its response.
  private var last: (request: UInt64, response: UInt64)?
  private var roundTrip = Duration.zero
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

  /// When `release` or `expire` is wanted.
  public var deadline: MonotonicTime? { .earliest(outstanding?.deadline, held?.until) }

  /// Marks a request as handed to the bearer. Only one may be outstanding.
  ///
  /// - Parameters:
  ///   - request: the PDU, opcode first.
  ///   - now: the deadline counts from here.
  public mutating func begin(_ request: Span<UInt8>, now: MonotonicTime) {
    precondition(outstanding == nil, "one ATT request at a time")
    let opcode = ATTOpcode(rawValue: request.isEmpty ? 0 : request[0])
    if opcode == .exchangeMTURequest, request.count == ExchangeMTU.byteCount {
      offeredMTU = min(Int(request.u16(at: 1)), receiveMTU)
    }
    outstanding = Outstanding(
      request: opcode, begunAt: now, deadline: now.advanced(by: patience),
      handles: Self.handles(of: opcode, request), fingerprint: Self.fingerprint(request))
  }

  /// The handles that a request is about.
  private static func handles(of opcode: ATTOpcode, _ pdu: Span<UInt8>) -> HandleRange? {
    switch opcode {
    case .findInformationRequest, .findByTypeValueRequest, .readByTypeRequest, .readByGroupTypeRequest:
      pdu.count < 5 ? nil : HandleRange(start: pdu.handle(at: 1), end: pdu.handle(at: 3))
    case .readRequest, .readBlobRequest, .writeRequest, .prepareWriteRequest:
      pdu.count < 3 ? nil : HandleRange(start: pdu.handle(at: 1), end: pdu.handle(at: 1))
    default: nil
    }
  }

  /// 64 bits of FNV-1a.
  private static func fingerprint(_ pdu: Span<UInt8>) -> UInt64 {
    var hash: UInt64 = 0xCBF2_9CE4_8422_2325
    for index in pdu.indices { hash = (hash ^ UInt64(pdu[index])) &* 0x100_0000_01B3 }
    return hash
  }

  /// The outstanding request, if it has run out of time. The bearer must be closed then.
  public mutating func expire(now: MonotonicTime) -> ATTOpcode? {
    guard let outstanding, outstanding.deadline <= now else { return nil }
    (self.outstanding, held) = (nil, nil)
    return outstanding.request
  }

  /// The response that was held, if its time is up: no other has come.
  public mutating func release(now: MonotonicTime) -> (reaction: Reaction, pdu: [UInt8])? {
    guard let held, held.until <= now, outstanding != nil else { return nil }
    let (pdu, opcode) = (held.pdu, ATTOpcode(rawValue: held.pdu[0]))
    return (conclude(opcode, pdu.span, now: nil), pdu)
  }

  /// Takes one PDU of the peer; lends values of notifications and indications to `sink`.
  ///
  /// - Parameters:
  ///   - pdu: opcode first.
  ///   - now: read for responses only.
  ///   - sink: gets each value.
  /// - Throws: for a PDU that is dropped (empty, too short, longer than ATT_MTU): count it and go on.
  public mutating func receive(
    _ pdu: Span<UInt8>, now: @autoclosure () -> MonotonicTime,
    sink: (borrowing HandleValueNotification) -> Void
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
    case .response: return answer(opcode, pdu, now())
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
      return stray()
    }
  }

  private mutating func stray() -> Reaction {
    strayResponses += 1
    return .stray
  }

  private mutating func answer(_ opcode: ATTOpcode, _ pdu: Span<UInt8>, _ now: MonotonicTime) -> Reaction {
    guard let outstanding else { return stray() }
    guard let hold = doubt(opcode, pdu, outstanding) else { return stray() }
    let replaced = held.take()
    if replaced != nil { strayResponses += 1 }
    let isSecond = replaced.map { Self.fingerprint($0.pdu.span) == Self.fingerprint(pdu) } ?? false
    guard hold > .zero, holdsDoubtful, !isSecond else { return conclude(opcode, pdu, now: now) }
    held = ([UInt8](encoding: pdu.count) { $0.append(pdu) }, now.advanced(by: hold))
    return .held
  }

  /// How long a response has to be held; `nil` if it is not one to the outstanding request.
  private func doubt(_ opcode: ATTOpcode, _ pdu: Span<UInt8>, _ outstanding: Outstanding) -> Duration? {
    let request = outstanding.request
    let isRepeated =
      last.map { $0.response == Self.fingerprint(pdu) && $0.request != outstanding.fingerprint } ?? false
    let period = min(max(Self.doubtTimeout, roundTrip * 2), Self.misplacedErrorTimeout)
    if opcode == .errorResponse {
      guard let error = try? ErrorResponse(validating: pdu) else { return .zero }
      guard error.request == request else { return nil }
      guard let handles = outstanding.handles, error.handle != .none else {
        return isRepeated ? period : .zero
      }
      // Attribute Not Found names the first handle asked about. Core 5.4, Vol 3, Part F, 3.4.3.2 and others.
      let fits =
        outstanding.isSearch && error.code == .attributeNotFound
        ? error.handle == handles.start : handles.contains(error.handle)
      return fits ? (isRepeated ? period : .zero) : Self.misplacedErrorTimeout
    }
    guard opcode.rawValue == request.rawValue + 1 else { return nil }
    if outstanding.isSearch, let handles = outstanding.handles, let first = Self.firstHandle(opcode, pdu),
      !handles.contains(first)
    {
      return nil
    }
    switch opcode {
    // Nothing in them tells what they answer.
    case .readResponse, .readBlobResponse, .readMultipleResponse, .readMultipleVariableResponse,
      .findByTypeValueResponse:
      return isRepeated || strayResponses > 0 ? period : .zero
    default: return .zero
    }
  }

  /// The first handle that the response to a search names.
  private static func firstHandle(_ opcode: ATTOpcode, _ pdu: Span<UInt8>) -> AttributeHandle? {
    let offset = opcode == .findByTypeValueResponse ? 1 : 2
    return pdu.count < offset + 2 ? nil : pdu.handle(at: offset)
  }

  /// Ends the outstanding request with this response.
  ///
  /// - Parameter now: `nil` for a response that was held.
  private mutating func conclude(
    _ opcode: ATTOpcode, _ pdu: Span<UInt8>, now: MonotonicTime?
  ) -> Reaction {
    guard let outstanding = outstanding.take() else { return .none }
    held = nil
    if let now { roundTrip = outstanding.begunAt.duration(to: now) }
    last = (outstanding.fingerprint, Self.fingerprint(pdu))
    do throws(WireError) {
      if opcode == .errorResponse {
        let error = try ErrorResponse(validating: pdu)
        // 0x00 is no error code: the request failed, but not by any rule.
        return error.code.rawValue == 0
          ? .failed(WireError(.att, offset: 4, .invalidValue(0))) : .refused(error)
      }
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

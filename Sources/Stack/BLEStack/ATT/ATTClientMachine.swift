public import BLEWire

/// The client side of an ATT bearer. The caller passes in PDUs and the time; the machine returns the required
/// reaction.
///
/// Only one request is outstanding at a time, for at most 30 s. Notifications, indications and the peer's
/// requests may arrive in between. Core 5.4, Vol 3, Part F, 3.3.
///
/// Responses do not identify their request by a number, and some devices respond twice or late. A response is
/// ignored if its opcode or handles belong to another request. A response that might belong to the previous
/// request is held briefly. If a second response arrives during this time, it replaces the held response.
public struct ATTClientMachine: ~Copyable {
  /// Time limit of a transaction. Core 5.4, Vol 3, Part F, 3.3.3.
  public static let transactionTimeout = Duration.seconds(30)
  /// Time for which an Error Response is held if its handle is outside the request. Some servers report a
  /// wrong handle.
  public static let misplacedErrorTimeout = Duration.seconds(2)
  /// Minimum time for which a response is held if it may belong to the previous request. The actual time is
  /// at least two round trips.
  public static let doubtTimeout = Duration.milliseconds(50)

  /// Action that the bearer's owner must take after a PDU.
  public enum Reaction: Hashable, Sendable {
    /// No action: the PDU was delivered or ignored.
    case none
    /// An indication was delivered: send `HandleValueIndication.confirmation`.
    case confirm
    /// The PDU answers the outstanding request.
    case completed
    /// The server refused the outstanding request.
    case refused(ErrorResponse)
    /// The outstanding request fails with this error; the bearer stays usable.
    case failed(WireError)
    /// The PDU is a request of the peer: pass it to the ATT server and send the response.
    case serve
    /// The PDU belongs to no request; it was counted in `strayResponses`.
    case stray
    /// The PDU may belong to an earlier request. The PDU is held until `deadline`; then `release` returns it.
    case held
  }

  /// The request that awaits a response.
  private struct Outstanding {
    let request: ATTOpcode
    let begunAt: MonotonicTime
    let deadline: MonotonicTime
    /// Handles that the response may contain; `nil` if all handles are allowed.
    let handles: HandleRange?
    let fingerprint: UInt64

    /// Whether the request is a discovery over a range of handles.
    var isSearch: Bool {
      switch request {
      case .findInformationRequest, .findByTypeValueRequest, .readByTypeRequest, .readByGroupTypeRequest: true
      default: false
      }
    }
  }

  /// ATT_MTU in force, for both directions.
  public private(set) var mtu = ATT.defaultMTU
  /// Receive MTU of this side, offered in an exchange.
  public let receiveMTU: Int
  /// Time limit for a response; at most `transactionTimeout`.
  public var patience = ATTClientMachine.transactionTimeout {
    didSet { patience = min(patience, Self.transactionTimeout) }
  }
  /// Whether the local server sends indications. If `true`, confirmations are passed to the local server. If
  /// `false`, a confirmation is an error of the peer.
  public var servesIndications = false
  /// Whether to hold a response that may belong to the previous request. Set to `false` to decode a log, so
  /// that each response is classified at once.
  public var holdsDoubtful = true
  /// Whether another client may have used the bearer before. If so, ATT_MTU is unknown until this client
  /// exchanges MTUs.
  private var mayBeOlder: Bool
  /// Number of responses and confirmations of the peer that match no request or indication.
  public private(set) var strayResponses = 0
  private var outstanding: Outstanding?
  private var held: (pdu: [UInt8], until: MonotonicTime)?
  /// Fingerprints of the last answered request and its response.
  private var last: (request: UInt64, response: UInt64)?
  private var roundTrip = Duration.zero
  /// MTU that this side offered in the exchange in progress.
  private var offeredMTU: Int

  /// Creates the client side of a bearer.
  ///
  /// - Parameters:
  ///   - receiveMTU: 23 … 517.
  ///   - mayBeOlder: whether another program may have exchanged MTUs on this bearer, as on a link that the
  ///     kernel has kept up. If so, until this client exchanges MTUs, a PDU of the peer that is longer than
  ///     ATT_MTU raises ATT_MTU to the size of the PDU, up to `receiveMTU`.
  public init(receiveMTU: Int = ATT.maximumMTU, mayBeOlder: Bool = false) {
    precondition((ATT.defaultMTU...ATT.maximumMTU).contains(receiveMTU))
    self.receiveMTU = receiveMTU
    offeredMTU = receiveMTU
    self.mayBeOlder = mayBeOlder
  }

  public var isIdle: Bool { outstanding == nil }

  /// Next time to call `release` or `expire`.
  public var deadline: MonotonicTime? { .earliest(outstanding?.deadline, held?.until) }

  /// Records that a request was sent on the bearer. Only one may be outstanding.
  ///
  /// - Parameters:
  ///   - request: the PDU, opcode first.
  ///   - now: start of the time limit.
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

  /// Returns the range of the handles in a request.
  private static func handles(of opcode: ATTOpcode, _ pdu: Span<UInt8>) -> HandleRange? {
    switch opcode {
    case .findInformationRequest, .findByTypeValueRequest, .readByTypeRequest, .readByGroupTypeRequest:
      pdu.count < 5 ? nil : HandleRange(start: pdu.handle(at: 1), end: pdu.handle(at: 3))
    case .readRequest, .readBlobRequest, .writeRequest, .prepareWriteRequest:
      pdu.count < 3 ? nil : HandleRange(start: pdu.handle(at: 1), end: pdu.handle(at: 1))
    default: nil
    }
  }

  /// Returns a 64-bit FNV-1a hash of a PDU.
  private static func fingerprint(_ pdu: Span<UInt8>) -> UInt64 {
    var hash: UInt64 = 0xCBF2_9CE4_8422_2325
    for index in pdu.indices { hash = (hash ^ UInt64(pdu[index])) &* 0x100_0000_01B3 }
    return hash
  }

  /// Returns the outstanding request if it has timed out. The caller must then close the bearer.
  public mutating func expire(now: MonotonicTime) -> ATTOpcode? {
    guard let outstanding, outstanding.deadline <= now else { return nil }
    (self.outstanding, held) = (nil, nil)
    return outstanding.request
  }

  /// Returns the held response if its holding time has ended.
  public mutating func release(now: MonotonicTime) -> (reaction: Reaction, pdu: [UInt8])? {
    guard let held, held.until <= now, outstanding != nil else { return nil }
    let (pdu, opcode) = (held.pdu, ATTOpcode(rawValue: held.pdu[0]))
    return (conclude(opcode, pdu.span, now: nil), pdu)
  }

  /// Processes one PDU of the peer, and lends the values of notifications and indications to `sink`.
  ///
  /// - Parameters:
  ///   - pdu: opcode first.
  ///   - now: evaluated only for responses.
  ///   - sink: called with each value.
  /// - Throws: If the PDU is dropped (empty, too short, longer than ATT_MTU). Count it and continue.
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
      // The server refuses a request of any other length, so the MTU does not change.
      if opcode == .exchangeMTURequest, pdu.count == ExchangeMTU.byteCount {
        agree(on: Int(try ExchangeMTU(validating: pdu).mtu), offering: receiveMTU)
      }
      return .serve
    case .command: return .serve
    case .confirmation:
      if servesIndications { return .serve }
      // Without a local server no indication is sent, so no confirmation can be pending.
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

  /// Returns how long to hold a response, or `nil` if it does not belong to the outstanding request.
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
      // Attribute Not Found contains the first handle of the request. Core 5.4, Vol 3, Part F, 3.4.3.2 and
      // others.
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
    // These responses have no field that identifies their request.
    case .readResponse, .readBlobResponse, .readMultipleResponse, .readMultipleVariableResponse,
      .findByTypeValueResponse:
      return isRepeated || strayResponses > 0 ? period : .zero
    default: return .zero
    }
  }

  /// Returns the first handle in a discovery response.
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
        // 0x00 is not an error code. The request has failed for an unknown reason.
        return error.code.rawValue == 0
          ? .failed(WireError(.att, offset: 4, .invalidValue(0))) : .refused(error)
      }
      if opcode == .exchangeMTUResponse {
        agree(on: Int(try ExchangeMTU(validating: pdu).mtu), offering: offeredMTU)
      }
      return .completed
    } catch { return .failed(error) }
  }

  /// Sets ATT_MTU to the smaller of both MTUs, but at least 23. Core 5.4, Vol 3, Part F, 3.4.2.2.
  private mutating func agree(on peerMTU: Int, offering ours: Int) {
    mtu = max(ATT.defaultMTU, min(ours, peerMTU))
    mayBeOlder = false
  }
}

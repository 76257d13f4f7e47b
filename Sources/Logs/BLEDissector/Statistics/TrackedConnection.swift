import BLEStack
import BLEWire

/// An open connection in a log.
///
/// Each direction is reassembled separately. Only the fixed ATT channel is decoded.
final class TrackedConnection {
  let adapter: UInt16
  let handle: ConnectionHandle
  /// All mutable state, as a single value, so that a packet needs two dynamic exclusivity checks instead of
  /// nine.
  var account: ConnectionAccount
  private var fromHost = L2CAPRecombiner()
  private var fromController = L2CAPRecombiner()

  /// Creates a tracked connection.
  ///
  /// - Parameter dropsAtStart: number of packets that the program that wrote the log had lost before the
  ///   connection started.
  init(_ report: ConnectionReport, dropsAtStart: Int) {
    (adapter, handle) = (report.adapter, report.handle)
    account = ConnectionAccount(report, dropsAtStart: dropsAtStart)
  }

  /// Handles a data packet.
  ///
  /// - Throws: the problem with the packet.
  func receive(
    _ packet: borrowing ACLPacket, _ direction: HCIDirection, at time: ReceiveTime
  ) throws(WireError) {
    account.count(packet, direction, at: time)
    var problem: WireError?
    switch direction {
    case .hostToController:
      try fromHost.receive(packet) { frame in problem = account.take(frame, direction, at: time) }
    case .controllerToHost:
      try fromController.receive(packet) { frame in problem = account.take(frame, direction, at: time) }
    }
    if let problem { throw problem }
  }
}

extension TrackedConnection {
  /// Handles a truncated fragment. An update is counted if its handle is available.
  func receive(cut packet: borrowing ACLPacket, _ direction: HCIDirection, at time: ReceiveTime) {
    account.count(packet, direction, at: time)
    switch direction {
    case .hostToController: fromHost.receiveCut(packet) { account.take(cut: $0, direction, at: time) }
    case .controllerToHost: fromController.receiveCut(packet) { account.take(cut: $0, direction, at: time) }
    }
  }
}

/// The statistics of a connection so far.
struct ConnectionAccount {
  /// Maximum number of attributes with updates for which separate counts are kept.
  static let maximumAttributes = 24
  /// Maximum number of request opcodes for which separate counts are kept.
  static let maximumRequestKinds = 32

  /// A request or indication whose response is pending. ATT allows each side one pending request and one
  /// pending indication. Core 5.4, Vol 3, Part F, 3.3.2 and 3.3.3.
  private struct Pending {
    var opcode: ATTOpcode
    var time: ReceiveTime
    /// Index of the opcode's counts; `nil` if there are too many opcodes.
    var kind: Int?
    /// The MTU in an Exchange MTU Request.
    var offeredMTU: Int?
  }

  var report: ConnectionReport
  private let dropsAtStart: Int
  private(set) var attributes: [AttributeStatistics] = []
  private(set) var requests: [RequestStatistics] = []
  private var lastAttribute = 0
  private var hostRequest: Pending?
  private var hostIndication: Pending?
  private var controllerRequest: Pending?
  private var controllerIndication: Pending?

  init(_ report: ConnectionReport, dropsAtStart: Int) {
    self.report = report
    self.dropsAtStart = dropsAtStart
  }

  // MARK: Packets

  fileprivate mutating func count(
    _ packet: borrowing ACLPacket, _ direction: HCIDirection, at time: ReceiveTime
  ) {
    report.endTime = max(report.endTime, time)
    switch direction {
    case .hostToController:
      report.sent.packets += 1
      report.sent.octets += packet.data.count
    case .controllerToHost:
      report.received.packets += 1
      report.received.octets += packet.data.count
    }
  }

  fileprivate mutating func take(
    _ frame: borrowing L2CAPFrame, _ direction: HCIDirection, at time: ReceiveTime
  ) -> WireError? {
    guard frame.channelID == ATT.channelID, report.transport == .lowEnergy else { return nil }
    do throws(WireError) {
      try take(pdu: frame.payload, direction, at: time)
      return nil
    } catch { return error }
  }

  /// Handles the start of a truncated frame.
  ///
  /// - Parameter frame: the available bytes of the frame, including its header.
  fileprivate mutating func take(cut frame: Span<UInt8>, _ direction: HCIDirection, at time: ReceiveTime) {
    report.cut += 1
    let header = L2CAPFrame.headerByteCount
    guard frame.count >= header + 3, frame.u16(at: 2) == ATT.channelID, report.transport == .lowEnergy else {
      return
    }
    let pdu = frame.extracting(header...)
    let opcode = ATTOpcode(rawValue: pdu[0])
    let byteCount = max(0, Int(frame.u16(at: 0)) - 3)
    guard opcode == .handleValueNotification || opcode == .handleValueIndication else { return }
    update(pdu.handle(at: 1), opcode, direction, byteCount: byteCount, at: time)
    if opcode == .handleValueIndication { ask(pdu, opcode, direction, at: time) }
  }

  private mutating func take(pdu: Span<UInt8>, _ direction: HCIDirection, at time: ReceiveTime)
    throws(WireError)
  {
    try pdu.require(1, .att)
    let opcode = ATTOpcode(rawValue: pdu[0])
    switch opcode.kind {
    case .notification:
      if opcode == .multipleHandleValueNotification {
        try takeMultiple(pdu, direction, at: time)
      } else {
        try pdu.require(3, .att)
        update(pdu.handle(at: 1), opcode, direction, byteCount: pdu.count - 3, at: time)
      }
    case .indication:
      try pdu.require(3, .att)
      update(pdu.handle(at: 1), opcode, direction, byteCount: pdu.count - 3, at: time)
      ask(pdu, opcode, direction, at: time)
    case .request: ask(pdu, opcode, direction, at: time)
    case .response, .confirmation: answer(pdu, opcode, direction, at: time)
    case .command: break
    }
  }

  // MARK: Updates

  /// Handles a list of handle, length and value. Core 5.4, Vol 3, Part F, 3.4.7.4.
  private mutating func takeMultiple(
    _ pdu: Span<UInt8>, _ direction: HCIDirection, at time: ReceiveTime
  ) throws(WireError) {
    var rest = pdu.extracting(1...)
    while !rest.isEmpty {
      try rest.require(4, .att)
      let byteCount = Int(rest.u16(at: 2))
      try rest.require(4 + byteCount, .att)
      update(rest.handle(at: 0), .handleValueNotification, direction, byteCount: byteCount, at: time)
      rest = rest.extracting((4 + byteCount)...)
    }
  }

  private mutating func update(
    _ handle: AttributeHandle, _ opcode: ATTOpcode, _ direction: HCIDirection, byteCount: Int,
    at time: ReceiveTime
  ) {
    report.timeline.add(at: nanoseconds(from: report.startTime, to: time))
    guard let index = attribute(handle, opcode, direction) else {
      report.omittedUpdates += 1
      return
    }
    attributes[index].add(byteCount: byteCount, at: time)
  }

  /// Returns the index of an attribute's statistics. Usually the attribute is the same as for the previous
  /// update.
  private mutating func attribute(
    _ handle: AttributeHandle, _ opcode: ATTOpcode, _ direction: HCIDirection
  ) -> Int? {
    func isWanted(_ index: Int) -> Bool {
      attributes[index].handle == handle && attributes[index].opcode == opcode
        && attributes[index].direction == direction
    }
    if lastAttribute < attributes.count, isWanted(lastAttribute) { return lastAttribute }
    if let index = attributes.indices.first(where: isWanted) {
      lastAttribute = index
      return index
    }
    guard attributes.count < Self.maximumAttributes else { return nil }
    attributes.append(AttributeStatistics(handle: handle, opcode: opcode, direction: direction))
    lastAttribute = attributes.count - 1
    return lastAttribute
  }

  // MARK: Requests

  private mutating func ask(
    _ pdu: Span<UInt8>, _ opcode: ATTOpcode, _ direction: HCIDirection, at time: ReceiveTime
  ) {
    let kind = requestKind(opcode, direction)
    if let kind { requests[kind].count += 1 }
    var pending = Pending(opcode: opcode, time: time, kind: kind)
    if opcode == .exchangeMTURequest, pdu.count >= 3 { pending.offeredMTU = Int(pdu.u16(at: 1)) }
    let isIndication = opcode.kind == .indication
    let former =
      switch direction {
      case .hostToController: isIndication ? hostIndication : hostRequest
      case .controllerToHost: isIndication ? controllerIndication : controllerRequest
      }
    giveUp(former)
    set(pending, isIndication, direction)
  }

  private mutating func set(_ pending: Pending?, _ isIndication: Bool, _ direction: HCIDirection) {
    switch (direction, isIndication) {
    case (.hostToController, false): hostRequest = pending
    case (.hostToController, true): hostIndication = pending
    case (.controllerToHost, false): controllerRequest = pending
    case (.controllerToHost, true): controllerIndication = pending
    }
  }

  private mutating func giveUp(_ pending: Pending?) {
    if let kind = pending?.kind { requests[kind].unanswered += 1 }
  }

  private mutating func requestKind(_ opcode: ATTOpcode, _ direction: HCIDirection) -> Int? {
    if let index = requests.firstIndex(where: { $0.opcode == opcode && $0.direction == direction }) {
      return index
    }
    guard requests.count < Self.maximumRequestKinds else { return nil }
    requests.append(RequestStatistics(opcode: opcode, direction: direction))
    return requests.count - 1
  }

  /// Handles a response.
  ///
  /// - Parameter direction: direction of the response. The request was sent in the opposite direction.
  private mutating func answer(
    _ pdu: Span<UInt8>, _ opcode: ATTOpcode, _ direction: HCIDirection, at time: ReceiveTime
  ) {
    let isConfirmation = opcode == .handleValueConfirmation
    let asking: HCIDirection = direction == .hostToController ? .controllerToHost : .hostToController
    let pending =
      switch asking {
      case .hostToController: isConfirmation ? hostIndication : hostRequest
      case .controllerToHost: isConfirmation ? controllerIndication : controllerRequest
      }
    guard let pending, Self.isAnswer(pdu, opcode, to: pending.opcode) else {
      report.unaskedResponses += 1
      return
    }
    set(nil, isConfirmation, asking)
    if let kind = pending.kind {
      requests[kind].latency.add(nanoseconds(from: pending.time, to: time))
      if opcode == .errorResponse { requests[kind].errors += 1 }
    }
    if opcode == .exchangeMTUResponse, let offered = pending.offeredMTU, pdu.count >= 3 {
      let mtu = max(ATT.defaultMTU, min(offered, Int(pdu.u16(at: 1))))
      note(.mtu(mtu), at: time)
    }
  }

  /// Returns whether a PDU is the response to a request. The opcode of a response exceeds the opcode of the
  /// request by one, and an Error Response contains the opcode of the request.
  private static func isAnswer(_ pdu: Span<UInt8>, _ opcode: ATTOpcode, to asked: ATTOpcode) -> Bool {
    if opcode == .errorResponse { return pdu.count >= 2 && pdu[1] == asked.rawValue }
    return Int(asked.rawValue) + 1 == Int(opcode.rawValue)
  }

  // MARK: Events

  mutating func note(_ value: ParameterChange.Value, at time: ReceiveTime) {
    guard report.changes.count < ConnectionReport.maximumChanges else {
      report.omittedChanges += 1
      return
    }
    report.changes.append(ParameterChange(time: time, value: value))
  }

  /// Returns the final report. The connection must not be used afterwards.
  mutating func finish(_ end: ConnectionReport.End, hasEvents: Bool, drops: Int) -> ConnectionReport {
    for pending in [hostRequest, hostIndication, controllerRequest, controllerIndication] { giveUp(pending) }
    report.end = end
    report.drops = drops - dropsAtStart
    if hasEvents {
      report.completedPackets = report.completedPackets ?? 0
    } else {
      report.completedPackets = nil
    }
    report.attributes = attributes.map(\.report).sorted {
      ($0.handle, $0.opcode.rawValue, $0.direction.rawValue)
        < ($1.handle, $1.opcode.rawValue, $1.direction.rawValue)
    }
    report.requests = requests.map(\.report).sorted {
      ($0.direction.rawValue, $0.opcode.rawValue) < ($1.direction.rawValue, $1.opcode.rawValue)
    }
    return report
  }
}

public import BLEStack
public import BLEWire

/// The peripheral's end of one connection: L2CAP and ATT over what carries its frames.
public final class PeripheralLink {
  /// What became of a value that was to be pushed.
  public enum PushOutcome: Hashable, Sendable {
    /// It is on its way.
    case queued
    /// The central did not ask for it, or the link is about to end.
    case notSubscribed
    /// One indication at a time. Core 5.4, Vol 3, Part F, 3.3.2.
    case awaitsConfirmation
    /// The link takes no more for now and has not taken this; `roomAvailable` follows.
    case full
  }

  /// Frames beyond those of `VirtualAir.Configuration.queuedFrames` that a central may cause by its requests. Answers to
  /// more are dropped and counted as faults.
  static let maximumAnswersQueued = 64

  let bearer: any PeripheralBearer
  /// A push was refused; whoever pushed is told when there is room.
  package var isFull = false
  /// PDUs and frames that made no sense: dropped and counted.
  public private(set) var faults = 0

  /// Why the link is to end, as the central shall be told.
  private var endReason: HCIStatus?
  private var isLeaving = false

  /// In one property: each access to it is checked.
  fileprivate struct Attributes {
    var server: ATTServer
    var database: GATTServerDatabase
  }

  private var attributes: Attributes
  /// In place of the server, where the device says what it was told to.
  private var answerer: ((Span<UInt8>) -> [[UInt8]])?
  private var recombiner = L2CAPRecombiner()
  /// Storage of one frame, out of here while there is one: to send it may lead to the next.
  private var scratch: [UInt8] = []
  private var written: [AttributeHandle] = []
  private var nextSignalIdentifier: UInt8 = 1
  private var pairing: LinkSecurity?

  package init(
    _ bearer: any PeripheralBearer, database: GATTServerDatabase, receiveMTU: Int,
    security: PeripheralSecurity? = nil
  ) {
    self.bearer = bearer
    attributes = Attributes(
      server: ATTServer(database: database, receiveMTU: receiveMTU), database: database)
    pairing = security.map { LinkSecurity($0, own: bearer.address, peer: bearer.peer) }
    if let pairing { attributes.server.security = pairing.level }
    if let security {
      let peer = bearer.peer
      attributes.server.signatureCheck = { security.accepts($0, from: peer) }
    }
    scratch.reserveCapacity(receiveMTU + L2CAPFrame.headerByteCount)
  }

  public var handle: ConnectionHandle { bearer.handle }
  /// The central.
  public var peer: DeviceAddress { bearer.peer }
  /// In force now.
  public var parameters: LinkParameters {
    bearer.parameters ?? .untold
  }

  /// ATT_MTU in force.
  public var mtu: Int { attributes.server.mtu }

  /// The peripheral's attributes, with the values of the moment.
  public var database: GATTServerDatabase { attributes.database }

  /// Replaces a value, as the device itself does it: no permission is asked.
  ///
  /// - Precondition: the handle exists and the value fits.
  public func setValue(_ value: Span<UInt8>, of handle: AttributeHandle) {
    attributes.database.setValue(value, of: handle)
  }

  /// How secure the link is: what it lets the central read and write.
  public var security: ATTSecurity {
    get { attributes.server.security }
    set { attributes.server.security = newValue }
  }

  /// Whether the central wants the value of this characteristic pushed.
  public func isSubscribed(to valueHandle: AttributeHandle, _ push: ServerPush = .notification) -> Bool {
    attributes.server.isSubscribed(to: valueHandle, push, in: attributes.database)
  }

  /// Sends a value, if the central asked for it; cut to ATT_MTU − 3 octets.
  @discardableResult
  public func push(
    _ push: ServerPush = .notification, of valueHandle: AttributeHandle, value: Span<UInt8>
  ) -> PushOutcome {
    guard !isLeaving else { return .notSubscribed }
    if !bearer.hasRoom, isSubscribed(to: valueHandle, push) {
      isFull = true
      return .full
    }
    var frame = takeScratch()
    let result = attributes.append(push, of: valueHandle, value: value, to: &frame)
    if result == .encoded { send(&frame, on: ATT.channelID) }
    swap(&frame, &scratch)
    switch result {
    case .encoded: return .queued
    case .notSubscribed: return .notSubscribed
    case .awaitsConfirmation: return .awaitsConfirmation
    }
  }

  /// Gives the device other attributes; a central that wants to hear of it is sent Service Changed, for all handles.
  public func change(to services: [GATTServiceDescription]) {
    let changed = GATTServerDatabase(services)
    attributes.server.databaseChanged(from: attributes.database, to: changed)
    attributes.database = changed
    guard let handle = changed.valueHandle(of: .serviceChanged) else { return }
    let value = [UInt8](encoding: 4) {
      $0.append(HandleRange.all.start)
      $0.append(HandleRange.all.end)
    }
    push(.indication, of: handle, value: value.span)
  }

  /// Asks the central for its MTU, as some peripherals do. Core 5.4, Vol 3, Part F, 3.4.2.
  public func requestMTU() {
    let request = ExchangeMTU(request: UInt16(attributes.server.receiveMTU))
    let pdu = [UInt8](encoding: ExchangeMTU.byteCount) { request.encode(into: &$0) }
    send(pdu.span, on: ATT.channelID)
  }

  /// Asks the central for other connection parameters. Core 5.4, Vol 3, Part A, 4.20.
  ///
  /// - Parameters:
  ///   - interval: the range wished for, in units of 1.25 ms.
  ///   - latency: connection events that we may leave out.
  ///   - supervisionTimeout: in units of 10 ms.
  public func requestParameters(
    interval: ClosedRange<UInt16>, latency: UInt16, supervisionTimeout: UInt16
  ) {
    let data = [UInt8](encoding: 8) {
      $0.append(u16: interval.lowerBound)
      $0.append(u16: interval.upperBound)
      $0.append(u16: latency)
      $0.append(u16: supervisionTimeout)
    }
    sendSignal(L2CAPSignal.connectionParameterUpdateRequest, nextSignalIdentifier, data)
    // 0 is not an identifier.
    nextSignalIdentifier = nextSignalIdentifier == .max ? 1 : nextSignalIdentifier + 1
  }

  /// Ends the link after the packets sent so far; the central is told this reason.
  ///
  /// With Connection Timeout the device goes without a word: the central finds out by its supervision time-out, at the
  /// pace of the air after that time.
  public func disconnect(_ reason: HCIStatus) {
    guard !isLeaving else { return }
    isLeaving = true
    endReason = reason
  }

  /// Whether the link is encrypted, and whether by a key that nobody in the middle knows.
  public var isEncrypted: Bool { pairing?.isEncrypted ?? false }
  public var isAuthenticated: Bool { pairing?.isAuthenticated ?? false }

  /// The key that the central is to encrypt with; `nil` where there is none.
  func key(_ random: UInt64, _ diversifier: UInt16) -> UInt128? { pairing?.key(random, diversifier) }

  func encryptionEnded(_ status: HCIStatus) {
    send(pairing?.encryptionEnded(status, now: now) ?? [])
  }

  /// When its Security Manager has waited long enough.
  var securityDeadline: MonotonicTime? { pairing?.deadline }

  func expireSecurity(now: MonotonicTime) { send(pairing?.expire(now: now) ?? []) }

  private var now: MonotonicTime { bearer.now }

  private func send(_ answers: [SecurityManagerPDU]) {
    if let pairing { attributes.server.security = pairing.level }
    for answer in answers {
      let octets = [UInt8](encoding: SecurityManagerPDU.maximumByteCount) { answer.encode(into: &$0) }
      send(octets.span, on: L2CAPFrame.FixedChannel.securityManager)
    }
  }

  /// Once only.
  package func takeEndReason() -> HCIStatus? { endReason.take() }

  // MARK: From the central

  /// Takes one fragment; answers what can be answered at once.
  ///
  /// - Returns: handles of attributes that were written, in order.
  func receive(
    _ packet: borrowing ACLPacket, check: ATTServer.WriteCheck
  ) -> [AttributeHandle] {
    written.removeAll(keepingCapacity: true)
    do throws(WireError) {
      try recombiner.receive(packet) { frame in accept(frame, check) }
    } catch { faults += 1 }
    return written
  }

  /// Takes one ATT PDU, where L2CAP is somebody else's.
  ///
  /// - Returns: handles of attributes that were written, in order.
  package func receive(att pdu: Span<UInt8>, check: ATTServer.WriteCheck) -> [AttributeHandle] {
    written.removeAll(keepingCapacity: true)
    if pdu.count > 0 { acceptATT(pdu, check) } else { faults += 1 }
    return written
  }

  private func accept(_ frame: borrowing L2CAPFrame, _ check: ATTServer.WriteCheck) {
    guard frame.payload.count > 0 else {
      faults += 1
      return
    }
    switch frame.channelID {
    case ATT.channelID: acceptATT(frame.payload, check)
    case L2CAPFrame.FixedChannel.signalling: acceptSignal(frame.payload)
    case L2CAPFrame.FixedChannel.securityManager: acceptSecurity(frame.payload)
    default: faults += 1
    }
  }

  /// Hands ATT PDUs to `body` from now on, and sends what it returns.
  package func answerATT(_ body: @escaping (Span<UInt8>) -> [[UInt8]]) { answerer = body }

  package func sendATT(_ pdu: Span<UInt8>) { send(pdu, on: ATT.channelID) }

  private func acceptATT(_ pdu: Span<UInt8>, _ check: ATTServer.WriteCheck) {
    if let answerer {
      for answer in answerer(pdu) { sendATT(answer.span) }
      return
    }
    let opcode = ATTOpcode(rawValue: pdu[0])
    switch opcode.kind {
    case .request, .command, .confirmation:
      var frame = takeScratch()
      attributes.answer(pdu, into: &frame) { handle, value in
        let refusal = check(handle, value)
        if refusal == nil { written.append(handle) }
        return refusal
      }
      if frame.count > L2CAPFrame.headerByteCount {
        // A refused request of several writes has stored none of them.
        if frame[L2CAPFrame.headerByteCount] == ATTOpcode.errorResponse.rawValue {
          written.removeAll(keepingCapacity: true)
        }
        send(&frame, on: ATT.channelID)
      }
      swap(&frame, &scratch)
    case .response:
      // The only request that peripherals make here. An error leaves the MTU as it is.
      if opcode == .exchangeMTUResponse, let response = try? ExchangeMTU(validating: pdu) {
        attributes.server.exchangedMTU(peerMTU: response.mtu)
      }
    case .indication:
      let pdu = [HandleValueIndication.confirmation]
      send(pdu.span, on: ATT.channelID)
    case .notification: break
    }
  }

  /// A peripheral knows no request of the central's: Command Reject, "not understood".
  ///
  /// Core 5.4, Vol 3, Part A, 4.1.
  private func acceptSignal(_ payload: Span<UInt8>) {
    guard let signal = try? L2CAPSignal(validating: payload) else {
      faults += 1
      return
    }
    switch signal.code {
    case L2CAPSignal.commandReject, L2CAPSignal.connectionParameterUpdateResponse: break
    default: sendSignal(L2CAPSignal.commandReject, signal.identifier, [0, 0])
    }
  }

  /// Without security a Pairing Request is answered with Pairing Failed, "Pairing Not Supported".
  ///
  /// Core 5.4, Vol 3, Part H, 3.5.5. The rings of this family need no bond.
  private func acceptSecurity(_ payload: Span<UInt8>) {
    if pairing != nil { return send(pairing?.receive(payload, now: now) ?? []) }
    let (pairingRequest, pairingFailed, notSupported): (UInt8, UInt8, UInt8) = (0x01, 0x05, 0x05)
    if payload[0] == pairingRequest {
      let pdu = [pairingFailed, notSupported]
      send(pdu.span, on: L2CAPFrame.FixedChannel.securityManager)
    }
  }

  // MARK: To the central

  private func sendSignal(_ code: UInt8, _ identifier: UInt8, _ data: [UInt8]) {
    let payload = [UInt8](encoding: 4 + data.count) {
      L2CAPSignal(code: code, identifier: identifier, data: data.span).encode(into: &$0)
    }
    send(payload.span, on: L2CAPFrame.FixedChannel.signalling)
  }

  private func send(_ payload: Span<UInt8>, on channelID: UInt16) {
    var frame = takeScratch()
    frame.append(addingCapacity: L2CAPFrame.headerByteCount + payload.count) {
      $0.append(zeros: L2CAPFrame.headerByteCount)
      $0.append(payload)
    }
    send(&frame, on: channelID)
    swap(&frame, &scratch)
  }

  /// Empty, with the capacity of earlier frames.
  private func takeScratch() -> [UInt8] {
    var frame: [UInt8] = []
    swap(&frame, &scratch)
    frame.removeAll(keepingCapacity: true)
    return frame
  }

  /// Writes the header of a frame, for which there is room at its start, and sends it.
  private func send(_ frame: inout [UInt8], on channelID: UInt16) {
    guard !bearer.isOverfull else {
      faults += 1
      return
    }
    let byteCount = UInt16(truncatingIfNeeded: frame.count - L2CAPFrame.headerByteCount)
    var octets = frame.mutableSpan
    octets[0] = UInt8(truncatingIfNeeded: byteCount)
    octets[1] = UInt8(truncatingIfNeeded: byteCount >> 8)
    octets[2] = UInt8(truncatingIfNeeded: channelID)
    octets[3] = UInt8(truncatingIfNeeded: channelID >> 8)
    bearer.send(frame: frame.span)
  }
}

extension PeripheralLink.Attributes {
  /// Appends the header's room and the PDU.
  fileprivate mutating func append(
    _ push: ServerPush, of handle: AttributeHandle, value: Span<UInt8>, to frame: inout [UInt8]
  ) -> PushResult {
    var result = PushResult.notSubscribed
    frame.append(addingCapacity: L2CAPFrame.headerByteCount + server.mtu) { output in
      output.append(zeros: L2CAPFrame.headerByteCount)
      result = server.push(push, of: handle, value: value, database: database, into: &output)
    }
    return result
  }

  /// Appends the header's room and the answer, if there is one.
  fileprivate mutating func answer(_ pdu: Span<UInt8>, into frame: inout [UInt8], check: ATTServer.WriteCheck)
  {
    frame.append(addingCapacity: L2CAPFrame.headerByteCount + server.receiveMTU) { output in
      output.append(zeros: L2CAPFrame.headerByteCount)
      server.receive(pdu, database: &database, into: &output, check: check)
    }
  }
}

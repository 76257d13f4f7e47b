public import BLEStack
public import BLEWire

/// The peripheral's end of a connection. Processes L2CAP and ATT, and sends through a bearer.
public final class PeripheralLink {
  /// Result of `push`.
  public enum PushOutcome: Hashable, Sendable {
    /// The value is queued or sent.
    case queued
    /// The central has not subscribed, or the link is about to end.
    case notSubscribed
    /// An indication is outstanding, and only one is allowed at a time. Core 5.4, Vol 3, Part F, 3.3.2.
    case awaitsConfirmation
    /// The link's queue is full and the value was not queued. `roomAvailable` is called when there is room
    /// again.
    case full
  }

  /// Maximum number of frames that a central's requests may queue, in addition to
  /// `VirtualAir.Configuration.queuedFrames`. Further responses are dropped and counted as faults.
  static let maximumAnswersQueued = 64

  let bearer: any PeripheralBearer
  /// Whether a push was refused because the queue was full. The peripheral is notified when there is room.
  package var isFull = false
  /// Number of invalid PDUs and frames that were dropped.
  public private(set) var faults = 0

  /// Reason for ending the link. Sent to the central.
  private var endReason: HCIStatus?
  private var isLeaving = false

  /// Grouped in one property, because Swift checks each access to a property of a class for exclusivity.
  fileprivate struct Attributes {
    var server: ATTServer
    var database: GATTServerDatabase
  }

  private var attributes: Attributes
  /// Answers ATT PDUs instead of the server, if set. For scripted devices.
  private var answerer: ((Span<UInt8>) -> [[UInt8]])?
  private var recombiner = L2CAPRecombiner()
  /// Reused buffer for one frame. Moved out while in use, because sending may reenter.
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
  /// Address of the central.
  public var peer: DeviceAddress { bearer.peer }
  /// Parameters in force.
  public var parameters: LinkParameters {
    bearer.parameters ?? .untold
  }

  /// ATT_MTU in force.
  public var mtu: Int { attributes.server.mtu }

  /// The peripheral's attributes with their current values.
  public var database: GATTServerDatabase { attributes.database }

  /// Replaces a value on behalf of the device itself, without a permission check.
  ///
  /// - Precondition: the handle exists and the value fits.
  public func setValue(_ value: Span<UInt8>, of handle: AttributeHandle) {
    attributes.database.setValue(value, of: handle)
  }

  /// Security of the link, which determines what the central may read and write.
  public var security: ATTSecurity {
    get { attributes.server.security }
    set { attributes.server.security = newValue }
  }

  /// Returns whether the central has subscribed to this characteristic.
  public func isSubscribed(to valueHandle: AttributeHandle, _ push: ServerPush = .notification) -> Bool {
    attributes.server.isSubscribed(to: valueHandle, push, in: attributes.database)
  }

  /// Sends a value if the central has subscribed. The value is truncated to ATT_MTU − 3 bytes.
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

  /// Replaces the device's attributes. If the central has subscribed to Service Changed, sends it for all
  /// handles.
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

  /// Sends an MTU request to the central, as some peripherals do. Core 5.4, Vol 3, Part F, 3.4.2.
  public func requestMTU() {
    let request = ExchangeMTU(request: UInt16(attributes.server.receiveMTU))
    let pdu = [UInt8](encoding: ExchangeMTU.byteCount) { request.encode(into: &$0) }
    send(pdu.span, on: ATT.channelID)
  }

  /// Requests new connection parameters from the central. Core 5.4, Vol 3, Part A, 4.20.
  ///
  /// - Parameters:
  ///   - interval: the requested range, in units of 1.25 ms.
  ///   - latency: number of connection events that the peripheral may skip.
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
    // 0 is not a valid identifier.
    nextSignalIdentifier = nextSignalIdentifier == .max ? 1 : nextSignalIdentifier + 1
  }

  /// Ends the link after the queued packets. The central receives this reason.
  ///
  /// With Connection Timeout, the device disappears without sending a packet. The central detects this by its
  /// supervision timeout, which takes its full time at the pace `.air`.
  public func disconnect(_ reason: HCIStatus) {
    guard !isLeaving else { return }
    isLeaving = true
    endReason = reason
  }

  /// Whether the link is encrypted.
  public var isEncrypted: Bool { pairing?.isEncrypted ?? false }
  public var isAuthenticated: Bool { pairing?.isAuthenticated ?? false }

  /// Returns the key for the central's encryption request, or `nil` if no key has this Rand and EDIV.
  func key(_ random: UInt64, _ diversifier: UInt16) -> UInt128? { pairing?.key(random, diversifier) }

  func encryptionEnded(_ status: HCIStatus) {
    send(pairing?.encryptionEnded(status, now: now) ?? [])
  }

  /// Time at which the Security Manager times out.
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

  /// Returns the reason for ending the link on the first call, then `nil`.
  package func takeEndReason() -> HCIStatus? { endReason.take() }

  // MARK: From the central

  /// Processes one fragment, and sends the responses that are possible immediately.
  ///
  /// - Returns: Handles of attributes that were written, in order.
  func receive(
    _ packet: borrowing ACLPacket, check: ATTServer.WriteCheck
  ) -> [AttributeHandle] {
    written.removeAll(keepingCapacity: true)
    do throws(WireError) {
      try recombiner.receive(packet) { frame in accept(frame, check) }
    } catch { faults += 1 }
    return written
  }

  /// Processes one ATT PDU, if L2CAP is handled elsewhere.
  ///
  /// - Returns: Handles of attributes that were written, in order.
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

  /// Passes all further ATT PDUs to `body`, and sends the PDUs that `body` returns.
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
        // A refused request with several writes has stored no value.
        if frame[L2CAPFrame.headerByteCount] == ATTOpcode.errorResponse.rawValue {
          written.removeAll(keepingCapacity: true)
        }
        send(&frame, on: ATT.channelID)
      }
      swap(&frame, &scratch)
    case .response:
      // Exchange MTU is the only request that peripherals send. On an error the MTU stays unchanged.
      if opcode == .exchangeMTUResponse, let response = try? ExchangeMTU(validating: pdu) {
        attributes.server.exchangedMTU(peerMTU: response.mtu)
      }
    case .indication:
      let pdu = [HandleValueIndication.confirmation]
      send(pdu.span, on: ATT.channelID)
    case .notification: break
    }
  }

  /// Rejects a signalling request with Command Reject, "not understood", because a peripheral supports no
  /// signalling requests.
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

  /// Processes a Security Manager PDU. A device without security answers a Pairing Request with Pairing
  /// Failed, "Pairing Not Supported".
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

  /// Returns an empty buffer with the capacity of earlier frames.
  private func takeScratch() -> [UInt8] {
    var frame: [UInt8] = []
    swap(&frame, &scratch)
    frame.removeAll(keepingCapacity: true)
    return frame
  }

  /// Writes the header into the space reserved at the frame's start, and sends the frame.
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
  /// Appends space for the header, then the PDU.
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

  /// Appends space for the header, then the response, if any.
  fileprivate mutating func answer(_ pdu: Span<UInt8>, into frame: inout [UInt8], check: ATTServer.WriteCheck)
  {
    frame.append(addingCapacity: L2CAPFrame.headerByteCount + server.receiveMTU) { output in
      output.append(zeros: L2CAPFrame.headerByteCount)
      server.receive(pdu, database: &database, into: &output, check: check)
    }
  }
}

/// The bearer of a `PeripheralLink`'s frames: its end of a link in the virtual air, or a link of a real
/// adapter.
package protocol PeripheralBearer: AnyObject {
  var handle: ConnectionHandle { get }
  /// The peripheral's address on this link.
  var address: DeviceAddress { get }
  /// The central's address.
  var peer: DeviceAddress { get }
  /// Parameters in force; `nil` if unknown.
  var parameters: LinkParameters? { get }
  var now: MonotonicTime { get }
  /// Whether more values may be sent.
  var hasRoom: Bool { get }
  /// Whether too many responses are queued because the central does not read them. If so, no response may be
  /// added.
  var isOverfull: Bool { get }

  /// Sends one L2CAP frame including its header.
  func send(frame: Span<UInt8>)
}

extension LinkEnd: PeripheralBearer {
  var parameters: LinkParameters? { link?.parameters }
  var now: MonotonicTime { link?.air.now ?? MonotonicTime(nanoseconds: 0) }
  /// Whether too many responses are queued. If so, no response may be added.
  var isOverfull: Bool { link?.isOverfull(end: self) ?? false }

  func send(frame: Span<UInt8>) { send(frame, .firstFlushable) }
}

public import BLECore
public import BLEStack
public import BLEWire

/// The peripheral's end of one connection: L2CAP and ATT over ACL fragments.
public final class PeripheralLink {
  public let handle: ConnectionHandle
  /// The central.
  public let peer: DeviceAddress
  public internal(set) var parameters: LinkParameters
  /// 1 is LE 1M, 2 is LE 2M.
  var phy: (transmit: UInt8, receive: UInt8) = (1, 1)
  /// The peripheral's attributes, with the values of the moment.
  public var database: GATTServerDatabase
  /// PDUs and frames that made no sense: dropped and counted.
  public private(set) var faults = 0

  /// Why the link is to end, as the central shall be told.
  private(set) var endReason: HCIStatus?

  private var server: ATTServer
  private var recombiner = L2CAPRecombiner()
  private let outbox: PacketQueue
  private let fragmentByteCount: Int
  private var scratch: [UInt8] = []
  private var written: [AttributeHandle] = []
  private var nextSignalIdentifier: UInt8 = 1

  init(
    handle: ConnectionHandle, peer: DeviceAddress, parameters: LinkParameters,
    database: GATTServerDatabase, receiveMTU: Int, outbox: PacketQueue, fragmentByteCount: Int
  ) {
    self.handle = handle
    self.peer = peer
    self.parameters = parameters
    self.database = database
    self.outbox = outbox
    self.fragmentByteCount = fragmentByteCount
    server = ATTServer(database: database, receiveMTU: receiveMTU)
    scratch.reserveCapacity(receiveMTU + L2CAPFrame.headerByteCount)
  }

  /// ATT_MTU in force.
  public var mtu: Int { server.mtu }

  /// Whether the central wants the value of this characteristic pushed.
  public func isSubscribed(to valueHandle: AttributeHandle, _ push: ServerPush = .notification) -> Bool {
    server.isSubscribed(to: valueHandle, push, in: database)
  }

  /// Sends a value, if the central asked for it; cut to ATT_MTU − 3 octets.
  @discardableResult
  public func push(
    _ push: ServerPush = .notification, of valueHandle: AttributeHandle, value: Span<UInt8>
  ) -> PushResult {
    guard endReason == nil else { return .notSubscribed }
    scratch.removeAll(keepingCapacity: true)
    var result = PushResult.notSubscribed
    scratch.append(addingCapacity: server.mtu) { output in
      result = server.push(push, of: valueHandle, value: value, database: database, into: &output)
    }
    if result == .encoded { sendScratch() }
    return result
  }

  /// Asks the central for its MTU, as some peripherals do. Core 5.4, Vol 3, Part F, 3.4.2.
  public func requestMTU() {
    let request = ExchangeMTU(request: UInt16(server.receiveMTU))
    let pdu = [UInt8](encoding: ExchangeMTU.byteCount) { request.encode(into: &$0) }
    send(pdu.span, on: ATT.channelID)
  }

  /// Asks the central for other connection parameters. Core 5.4, Vol 3, Part A, 4.20.
  ///
  /// - Parameters:
  ///   - interval: the range wished for, in units of 1.25 ms.
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
  public func disconnect(_ reason: HCIStatus) {
    if endReason == nil { endReason = reason }
  }

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

  private func acceptATT(_ pdu: Span<UInt8>, _ check: ATTServer.WriteCheck) {
    let opcode = ATTOpcode(rawValue: pdu[0])
    switch opcode.kind {
    case .request, .command, .confirmation:
      scratch.removeAll(keepingCapacity: true)
      scratch.append(addingCapacity: server.receiveMTU) { output in
        server.receive(pdu, database: &database, into: &output) { handle, value in
          let refusal = check(handle, value)
          if refusal == nil { written.append(handle) }
          return refusal
        }
      }
      // A refused request of several writes has stored none of them.
      if scratch.first == ATTOpcode.errorResponse.rawValue { written.removeAll(keepingCapacity: true) }
      if !scratch.isEmpty { sendScratch() }
    case .response:
      // The only request that peripherals make here. An error leaves the MTU as it is.
      if opcode == .exchangeMTUResponse, let response = try? ExchangeMTU(validating: pdu) {
        server.exchangedMTU(peerMTU: response.mtu)
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

  /// Pairing Request is answered with Pairing Failed, "Pairing Not Supported".
  ///
  /// Core 5.4, Vol 3, Part H, 3.5.5. The rings of this family need no bond.
  private func acceptSecurity(_ payload: Span<UInt8>) {
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

  private func sendScratch() {
    let pdu = scratch  // shares the buffer for as long as its span is lent
    send(pdu.span, on: ATT.channelID)
  }

  /// Cuts a frame into ACL packets of at most `fragmentByteCount` octets.
  private func send(_ payload: Span<UInt8>, on channelID: UInt16) {
    let first = min(payload.count, fragmentByteCount - L2CAPFrame.headerByteCount)
    outbox.append(.acl, capacity: ACLPacket.headerByteCount + fragmentByteCount) { output in
      appendHeader(.firstFlushable, byteCount: L2CAPFrame.headerByteCount + first, &output)
      output.append(u16: UInt16(truncatingIfNeeded: payload.count))
      output.append(u16: channelID)
      output.append(payload.extracting(..<first))
    }
    var offset = first
    while offset < payload.count {
      let end = min(payload.count, offset + fragmentByteCount)
      outbox.append(.acl, capacity: ACLPacket.headerByteCount + fragmentByteCount) { output in
        ACLPacket(
          handle: handle, boundary: .continuation, data: payload.extracting(offset..<end)
        ).encode(into: &output)
      }
      offset = end
    }
  }

  private func appendHeader(
    _ boundary: ACLPacket.Boundary, byteCount: Int, _ output: inout OutputSpan<UInt8>
  ) {
    output.append(u16: handle.rawValue | UInt16(boundary.rawValue) << 12)
    output.append(u16: UInt16(truncatingIfNeeded: byteCount))
  }
}

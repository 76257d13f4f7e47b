import BLEStack
import BLEWire

/// State of one link: for each direction, a partial frame, a pending request and a pending indication.
final class TrackedLink {
  /// A PDU whose response is pending. Requests and indications are independent of each other.
  private struct Asked {
    var opcode: ATTOpcode
    var handle: AttributeHandle?
    /// The attribute type in a discovery request.
    var type: BluetoothUUID?
    /// The service in a Find By Type Value Request.
    var service: BluetoothUUID?

    /// Returns whether a PDU with this opcode is the response. The opcode of a response or confirmation
    /// exceeds the opcode of the request or indication by one.
    func isAnswered(by opcode: UInt8) -> Bool { Int(self.opcode.rawValue) + 1 == Int(opcode) }
  }

  private struct Side {
    var request: Asked?
    var indication: Asked?
  }

  let adapter: UInt16
  let handle: ConnectionHandle
  let peer: DeviceAddress?
  private let remote: AttributeTypes
  private let local: AttributeTypes
  private var fromHost = L2CAPRecombiner()
  private var fromController = L2CAPRecombiner()
  private var host = Side()
  private var controller = Side()

  /// Creates a link without pending frames or requests.
  ///
  /// - Parameters:
  ///   - remote: known attribute types of the peer.
  ///   - local: known attribute types of the host.
  init(
    _ adapter: UInt16, _ handle: ConnectionHandle, peer: DeviceAddress?, remote: AttributeTypes,
    local: AttributeTypes
  ) {
    self.adapter = adapter
    self.handle = handle
    self.peer = peer
    self.remote = remote
    self.local = local
  }

  func receive(
    _ packet: borrowing ACLPacket, _ direction: HCIDirection, _ body: (borrowing L2CAPFrame) -> Void
  ) throws(WireError) {
    switch direction {
    case .hostToController: try fromHost.receive(packet, body)
    case .controllerToHost: try fromController.receive(packet, body)
    }
  }

  /// Handles a truncated fragment. Passes the available part of the frame, including the header, to `body`.
  func receive(
    cut packet: borrowing ACLPacket, _ direction: HCIDirection, _ body: (Span<UInt8>) -> Void
  ) {
    switch direction {
    case .hostToController: fromHost.receiveCut(packet, body)
    case .controllerToHost: fromController.receiveCut(packet, body)
    }
  }

  /// Decodes the start of a PDU sent in `direction`. Does not store attribute types.
  @_lifetime(copy pdu)
  func decode(cut pdu: Span<UInt8>, _ direction: HCIDirection) -> DecodedATT {
    var att = DecodedATT(pdu, answering: asked(answeredBy: pdu, direction)?.handle)
    switch direction {
    case .hostToController: Self.note(att, pdu, from: &host, to: &controller)
    case .controllerToHost: Self.note(att, pdu, from: &controller, to: &host)
    }
    if let handle = att.handle { att.uuid = server(of: att.opcode.kind, direction)[handle] }
    return att
  }

  /// Decodes a PDU sent in `direction`. Stores the attribute types in a discovery response.
  @_lifetime(copy pdu)
  func decode(_ pdu: Span<UInt8>, _ direction: HCIDirection) -> DecodedATT {
    let asked = asked(answeredBy: pdu, direction)
    var att = DecodedATT(pdu, answering: asked?.handle)
    (att.askedType, att.askedService) = (asked?.type, asked?.service)
    let attributes = server(of: att.opcode.kind, direction)
    if att.problem == nil { attributes.learn(from: att, pdu) }
    switch direction {
    case .hostToController: Self.note(att, pdu, from: &host, to: &controller)
    case .controllerToHost: Self.note(att, pdu, from: &controller, to: &host)
    }
    if let handle = att.handle { att.uuid = attributes[handle] }
    return att
  }

  /// Returns the server's attributes, to which the handles in the PDU refer.
  private func server(of kind: ATTOpcode.Kind, _ direction: HCIDirection) -> AttributeTypes {
    switch kind {
    case .request, .command, .confirmation: direction == .hostToController ? remote : local
    case .response, .notification, .indication: direction == .hostToController ? local : remote
    }
  }

  /// Returns the pending request or indication to which `pdu`, sent in `direction`, is the response.
  private func asked(answeredBy pdu: Span<UInt8>, _ direction: HCIDirection) -> Asked? {
    guard !pdu.isEmpty else { return nil }
    let asking = direction == .hostToController ? controller : host
    if let request = asking.request, request.isAnswered(by: pdu[0]) { return request }
    if let indication = asking.indication, indication.isAnswered(by: pdu[0]) { return indication }
    return nil
  }

  private static func note(
    _ att: borrowing DecodedATT, _ pdu: Span<UInt8>, from sender: inout Side, to receiver: inout Side
  ) {
    switch att.opcode.kind {
    case .request:
      sender.request = Asked(
        opcode: att.opcode, handle: att.handle, type: searchedType(pdu), service: searchedService(pdu))
    case .indication: sender.indication = Asked(opcode: att.opcode, handle: att.handle)
    case .response: receiver.request = nil
    case .confirmation: receiver.indication = nil
    case .command, .notification: break
    }
  }

  private static func searchedType(_ pdu: Span<UInt8>) -> BluetoothUUID? {
    switch ATTOpcode(rawValue: pdu.isEmpty ? 0 : pdu[0]) {
    case .readByTypeRequest, .readByGroupTypeRequest:
      pdu.count < 5 ? nil : pdu.uuid(at: 5, byteCount: pdu.count - 5)
    case .findByTypeValueRequest where pdu.count >= 7: BluetoothUUID(pdu.u16(at: 5))
    default: nil
    }
  }

  private static func searchedService(_ pdu: Span<UInt8>) -> BluetoothUUID? {
    guard ATTOpcode(rawValue: pdu.isEmpty ? 0 : pdu[0]) == .findByTypeValueRequest,
      let request = try? FindByTypeValueRequest(validating: pdu), request.type == .primaryService
    else { return nil }
    return request.value.count == 2 || request.value.count == 16
      ? request.value.uuid(at: 0, byteCount: request.value.count) : nil
  }
}

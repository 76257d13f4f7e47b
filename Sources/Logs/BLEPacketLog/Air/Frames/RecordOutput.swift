import BLEWire

/// Passes the records of an air packet to the reader's closure, one after the other.
struct RecordOutput {
  /// Header of the frame that is being translated.
  var header = PacketRecordHeader()
  private var octets: [UInt8] = []

  /// Passes a record without type to `body`: a PDU that no HCI packet expresses, or a malformed frame.
  func note(_ pdu: Span<UInt8>, _ packet: AirPacket, _ body: (borrowing PacketRecord) -> Void) {
    var header = header
    header.air = packet
    header.originalByteCount = max(pdu.count, header.originalByteCount - 1)
    body(PacketRecord(header, packet: pdu))
  }

  /// Passes a record without type to `body`, for a decrypted payload with a header of two bytes.
  mutating func note(
    _ first: UInt8, _ payload: Span<UInt8>, _ packet: AirPacket, _ body: (borrowing PacketRecord) -> Void
  ) {
    start()
    octets.append(first)
    octets.append(UInt8(truncatingIfNeeded: payload.count))
    octets.append(copying: payload)
    var header = header
    header.air = packet
    lend(header, body)
  }

  /// Passes an event of the central's controller to `body`.
  ///
  /// - Parameter packet: the packet that the event fully expresses, if any.
  mutating func event(
    _ packet: AirPacket?, _ body: (borrowing PacketRecord) -> Void,
    _ encode: (inout OutputSpan<UInt8>) -> Void
  ) {
    start()
    octets.append(addingCapacity: HCIEventPacket.maximumByteCount) { encode(&$0) }
    octets[1] = UInt8(octets.count - HCIEventPacket.headerByteCount)
    var header = header
    header.type = .event
    header.direction = .controllerToHost
    header.air = packet
    lend(header, body)
  }

  /// Passes a fragment of a frame to `body`.
  mutating func data(
    _ handle: ConnectionHandle, _ payload: Span<UInt8>, isStart: Bool, _ packet: AirPacket,
    _ body: (borrowing PacketRecord) -> Void
  ) {
    let isFromHost = packet.direction == .fromCentral
    let first: ACLPacket.Boundary = isFromHost ? .firstNonFlushable : .firstFlushable
    let data = ACLPacket(handle: handle, boundary: isStart ? first : .continuation, data: payload)
    start()
    octets.append(addingCapacity: ACLPacket.headerByteCount + payload.count) { data.encode(into: &$0) }
    var header = header
    header.type = .acl
    header.direction = isFromHost ? .hostToController : .controllerToHost
    header.air = packet
    lend(header, body)
  }

  private mutating func start() { octets.removeAll(keepingCapacity: true) }

  private func lend(_ header: PacketRecordHeader, _ body: (borrowing PacketRecord) -> Void) {
    var header = header
    header.originalByteCount = octets.count
    body(PacketRecord(header, packet: octets.span))
  }
}

/// Events that the host of a central receives for a link. The caller fills in the length.
enum HCIEvents {
  private static func start(_ subevent: LESubevent, _ output: inout OutputSpan<UInt8>) {
    start(.leMeta, &output)
    output.append(subevent.rawValue)
  }

  private static func start(_ code: HCIEventCode, _ output: inout OutputSpan<UInt8>) {
    output.append(code.rawValue)
    output.append(0)
  }

  static func connectionComplete(
    _ handle: ConnectionHandle, _ peer: DeviceAddress, _ parameters: LinkParameters,
    into output: inout OutputSpan<UInt8>
  ) {
    start(.leMeta, &output)
    LEConnectionComplete(handle: handle, peer: peer, parameters: parameters).encode(into: &output)
  }

  static func disconnectionComplete(
    _ handle: ConnectionHandle, _ reason: HCIStatus, into output: inout OutputSpan<UInt8>
  ) {
    start(.disconnectionComplete, &output)
    DisconnectionComplete(status: .success, handle: handle, reason: reason).encode(into: &output)
  }

  static func connectionUpdateComplete(
    _ handle: ConnectionHandle, _ parameters: LinkParameters, into output: inout OutputSpan<UInt8>
  ) {
    start(.connectionUpdateComplete, &output)
    output.append(0)
    output.append(u16: handle.rawValue)
    output.append(u16: parameters.interval)
    output.append(u16: parameters.latency)
    output.append(u16: parameters.supervisionTimeout)
  }

  /// Makes an LE PHY Update Complete event. Zero bits mean that the PHY does not change; the event then has
  /// LE 1M, because the current PHY is unknown.
  static func phyUpdateComplete(
    _ handle: ConnectionHandle, _ phys: LinkProcedures.PHYs, into output: inout OutputSpan<UInt8>
  ) {
    func number(_ bits: UInt8) -> UInt8 { bits & 4 != 0 ? 3 : bits & 2 != 0 ? 2 : 1 }
    start(.phyUpdateComplete, &output)
    output.append(0)
    output.append(u16: handle.rawValue)
    output.append(number(phys.toPeripheral))
    output.append(number(phys.toCentral))
  }

  static func dataLengthChange(
    _ handle: ConnectionHandle, _ effect: LinkProcedures.Effect, into output: inout OutputSpan<UInt8>
  ) {
    guard case .dataLength(let transmit, let transmitTime, let receive, let receiveTime) = effect else {
      return
    }
    start(.dataLengthChange, &output)
    output.append(u16: handle.rawValue)
    output.append(u16: transmit)
    output.append(u16: transmitTime)
    output.append(u16: receive)
    output.append(u16: receiveTime)
  }

  /// Makes an Encryption Change event. Core 5.4, Vol 4, Part E, 7.7.8.
  static func encryptionChange(_ handle: ConnectionHandle, into output: inout OutputSpan<UInt8>) {
    start(HCIEventCode(rawValue: 0x08), &output)
    output.append(0)
    output.append(u16: handle.rawValue)
    output.append(1)
  }
}

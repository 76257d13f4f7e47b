public import BLEWire

/// Encodes packets as a btsnoop file, without I/O and without allocating.
///
/// Write the file header once, then a record for each packet. A record is written completely or not at all;
/// `record…ByteCount` returns its size. A file that is cut between two records is therefore valid.
public struct BTSnoopWriter: Sendable {
  /// The largest record: header, type byte and the longest ACL packet.
  public static let maximumRecordByteCount = BTSnoopRecordHeader.byteCount + 1 + 4 + 65_535

  public let format: BTSnoopFormat
  /// Packets dropped so far, stored in each record. Set it to the number of packets that the queue before the
  /// writer dropped.
  public var cumulativeDrops: UInt32 = 0

  public init(format: BTSnoopFormat = .h4) { self.format = format }

  /// Encodes the first 16 bytes of the file.
  public func encodeHeader(into output: inout OutputSpan<UInt8>) {
    BTSnoopHeader(format: format).encode(into: &output)
  }

  /// Returns the size of a record for a packet of `byteCount` bytes, without its H4 type byte.
  public func recordByteCount(packet byteCount: Int) -> Int {
    BTSnoopRecordHeader.byteCount + (format == .h4 ? 1 : 0) + byteCount
  }

  /// Encodes one HCI packet.
  ///
  /// - Parameters:
  ///   - packet: the packet without its H4 type byte.
  ///   - type: command, event or data.
  ///   - direction: direction of the packet.
  ///   - adapter: the `0` of `hci0`; stored only in format 2001.
  ///   - time: time of the packet, stored in microseconds.
  ///   - output: must have room for the record.
  public func encode(
    _ packet: Span<UInt8>, type: HCIPacketType, direction: HCIDirection, adapter: UInt16 = 0,
    at time: ReceiveTime, into output: inout OutputSpan<UInt8>
  ) {
    encodeRecordHeader(
      packetByteCount: packet.count, type: type, direction: direction, adapter: adapter, at: time,
      into: &output)
    output.append(packet)
  }

  /// Returns the size of a record for an L2CAP payload of `byteCount` bytes.
  public func recordByteCount(l2capPayload byteCount: Int) -> Int {
    recordByteCount(packet: ACLPacket.byteCount(l2capPayload: byteCount))
  }

  /// Encodes the payload of an L2CAP socket as the one ACL packet that would have carried it.
  ///
  /// For logs in modes where the kernel handles L2CAP. There, only the payload, an ATT PDU, is visible.
  /// - Parameters:
  ///   - payload: at most 65,531 bytes.
  ///   - channelID: ID of the L2CAP channel.
  ///   - handle: handle of the connection.
  ///   - direction: direction of the packet.
  ///   - adapter: the `0` of `hci0`; stored only in format 2001.
  ///   - time: time of the packet, stored in microseconds.
  ///   - output: must have room for the record.
  public func encode(
    l2capPayload payload: Span<UInt8>, channelID: UInt16 = ATT.channelID, handle: ConnectionHandle,
    direction: HCIDirection, adapter: UInt16 = 0, at time: ReceiveTime,
    into output: inout OutputSpan<UInt8>
  ) {
    encodeRecordHeader(
      packetByteCount: ACLPacket.byteCount(l2capPayload: payload.count), type: .acl, direction: direction,
      adapter: adapter, at: time, into: &output)
    ACLPacket.encode(
      l2capPayload: payload, channelID: channelID, handle: handle, direction: direction, into: &output)
  }

  private func encodeRecordHeader(
    packetByteCount: Int, type: HCIPacketType, direction: HCIDirection, adapter: UInt16,
    at time: ReceiveTime, into output: inout OutputSpan<UInt8>
  ) {
    let byteCount = UInt32(packetByteCount + (format == .h4 ? 1 : 0))
    BTSnoopRecordHeader(
      originalByteCount: byteCount, includedByteCount: byteCount,
      flags: flags(type: type, direction: direction, adapter: adapter),
      cumulativeDrops: cumulativeDrops, microseconds: BTSnoopRecordHeader.microseconds(of: time)
    ).encode(into: &output)
    if format == .h4 { output.append(type.rawValue) }
  }

  func flags(type: HCIPacketType, direction: HCIDirection, adapter: UInt16) -> UInt32 {
    if format == .monitor {
      return UInt32(adapter) << 16 | UInt32(BTSnoopMonitorOpcode.opcode(type: type, direction: direction))
    }
    let fromController = direction == .controllerToHost ? BTSnoopFlags.controllerToHost : 0
    switch type {
    // Format 1001 distinguishes commands and events by direction. A log with a wrong direction must not turn
    // one into the other.
    case .command where format == .unencapsulated: return BTSnoopFlags.commandOrEvent
    case .event where format == .unencapsulated:
      return BTSnoopFlags.commandOrEvent | BTSnoopFlags.controllerToHost
    case .command, .event: return fromController | BTSnoopFlags.commandOrEvent
    default: return fromController
    }
  }
}

extension ACLPacket {
  static func byteCount(l2capPayload byteCount: Int) -> Int {
    headerByteCount + L2CAPFrame.headerByteCount + byteCount
  }

  /// Encodes the payload of an L2CAP socket as the one packet that would have carried it.
  static func encode(
    l2capPayload payload: Span<UInt8>, channelID: UInt16 = ATT.channelID, handle: ConnectionHandle,
    direction: HCIDirection, into output: inout OutputSpan<UInt8>
  ) {
    let frameByteCount = L2CAPFrame.headerByteCount + payload.count
    precondition(frameByteCount <= 65_535, "an ACL packet has a length of 16 bits")
    // The boundary flag of a first fragment depends on the direction. Core 5.4, Vol 4, Part E, 5.4.2.
    let boundary: Boundary = direction == .hostToController ? .firstNonFlushable : .firstFlushable
    output.append(u16: handle.rawValue | UInt16(boundary.rawValue) << 12)
    output.append(u16: UInt16(frameByteCount))
    L2CAPFrame(channelID: channelID, payload: payload).encode(into: &output)
  }
}

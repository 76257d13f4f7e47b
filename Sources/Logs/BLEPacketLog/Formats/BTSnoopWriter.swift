public import BLEWire

/// Turns packets into the octets of a btsnoop file, without I/O and without allocating.
///
/// The file header first, once, then a record for each packet. Each record is written whole into the
/// output or not at all (`record…ByteCount` says what it takes), so a file cut between two records is a
/// complete file.
public struct BTSnoopWriter: Sendable {
  /// The largest record: header, type octet and the longest ACL packet.
  public static let maximumRecordByteCount = BTSnoopRecordHeader.byteCount + 1 + 4 + 65_535

  public let format: BTSnoopFormat
  /// Packets that did not make it into the file so far; each record carries the count. Set it to what the
  /// queue before the writer lost.
  public var cumulativeDrops: UInt32 = 0

  public init(format: BTSnoopFormat = .h4) { self.format = format }

  /// The file's first 16 octets.
  public func encodeHeader(into output: inout OutputSpan<UInt8>) {
    BTSnoopHeader(format: format).encode(into: &output)
  }

  /// Octets of the record of a packet of `byteCount` octets (without its H4 type octet).
  public func recordByteCount(packet byteCount: Int) -> Int {
    BTSnoopRecordHeader.byteCount + (format == .h4 ? 1 : 0) + byteCount
  }

  /// One HCI packet.
  ///
  /// - Parameters:
  ///   - packet: without its H4 type octet.
  ///   - type: command, event or data.
  ///   - direction: who sent it.
  ///   - adapter: the `0` of `hci0`; only format 2001 keeps it.
  ///   - time: written in microseconds.
  ///   - output: has room for the record.
  public func encode(
    _ packet: Span<UInt8>, type: HCIPacketType, direction: HCIDirection, adapter: UInt16 = 0,
    at time: ReceiveTime, into output: inout OutputSpan<UInt8>
  ) {
    encodeRecordHeader(
      packetByteCount: packet.count, type: type, direction: direction, adapter: adapter, at: time,
      into: &output)
    output.append(packet)
  }

  /// Octets of the record of an L2CAP payload of `byteCount` octets.
  public func recordByteCount(l2capPayload byteCount: Int) -> Int {
    recordByteCount(packet: ACLPacket.headerByteCount + L2CAPFrame.headerByteCount + byteCount)
  }

  /// What an L2CAP socket carried, as the one ACL packet that would have carried it.
  ///
  /// For logs of the modes in which the kernel keeps L2CAP: there the payload, an ATT PDU, is all that is
  /// seen.
  /// - Parameters:
  ///   - payload: at most 65,531 octets.
  ///   - channelID: of the L2CAP channel.
  ///   - handle: of the connection.
  ///   - direction: who sent it.
  ///   - adapter: the `0` of `hci0`; only format 2001 keeps it.
  ///   - time: written in microseconds.
  ///   - output: has room for the record.
  public func encode(
    l2capPayload payload: Span<UInt8>, channelID: UInt16 = ATT.channelID, handle: ConnectionHandle,
    direction: HCIDirection, adapter: UInt16 = 0, at time: ReceiveTime,
    into output: inout OutputSpan<UInt8>
  ) {
    let frameByteCount = L2CAPFrame.headerByteCount + payload.count
    precondition(frameByteCount <= 65_535, "an ACL packet has a length of 16 bits")
    encodeRecordHeader(
      packetByteCount: ACLPacket.headerByteCount + frameByteCount, type: .acl, direction: direction,
      adapter: adapter, at: time, into: &output)
    // The boundary flag of a first fragment differs by direction. Core 5.4, Vol 4, Part E, 5.4.2.
    let boundary: ACLPacket.Boundary =
      direction == .hostToController ? .firstNonFlushable : .firstFlushable
    output.append(u16: handle.rawValue | UInt16(boundary.rawValue) << 12)
    output.append(u16: UInt16(frameByteCount))
    L2CAPFrame(channelID: channelID, payload: payload).encode(into: &output)
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
    // Format 1001 tells the two by their direction: a log that has it wrong must not turn one into the other.
    case .command where format == .unencapsulated: return BTSnoopFlags.commandOrEvent
    case .event where format == .unencapsulated:
      return BTSnoopFlags.commandOrEvent | BTSnoopFlags.controllerToHost
    case .command, .event: return fromController | BTSnoopFlags.commandOrEvent
    default: return fromController
    }
  }
}

public import BLEWire

/// Encodes records as a packet log of any supported output format, without I/O.
///
/// Call `start` first, then append each record, then call `finish`. A log that ends between two records is
/// valid.
public struct PacketLogWriter: Sendable {
  public enum Format: Hashable, Sendable {
    case btsnoop(BTSnoopFormat)
    /// pcapng, with nanoseconds, an interface for each adapter, comments and drops.
    case pcapng(LinkType)
    /// pcap, with nanoseconds but without drops, and with adapters only for `linuxMonitor`.
    case pcap(LinkType)
  }

  /// Size of the longest ACL packet in bytes. A longer packet is not an HCI packet.
  private static let longestPacketByteCount = 4 + 65_535

  public let format: Format
  /// Number of records written so far.
  public private(set) var recordCount = 0
  /// Number of records that the format cannot store.
  public private(set) var leftOut = 0

  private var btsnoop: BTSnoopWriter
  private var pcapng: PcapNGWriter

  /// Creates a writer.
  ///
  /// - Parameters:
  ///   - format: format of the file.
  ///   - comment: comment on the whole log; stored only in pcapng.
  public init(_ format: Format, comment: String = "") {
    self.format = format
    if case .btsnoop(let kind) = format {
      btsnoop = BTSnoopWriter(format: kind)
    } else {
      btsnoop = BTSnoopWriter()
    }
    if case .pcapng(let linkType) = format {
      pcapng = PcapNGWriter(linkType, comment: comment)
    } else {
      pcapng = PcapNGWriter(.h4WithDirection, comment: "")
    }
  }

  /// Encodes the header before the first record.
  public mutating func start(into octets: inout [UInt8]) {
    switch format {
    case .btsnoop:
      octets.append(addingCapacity: BTSnoopHeader.byteCount) { btsnoop.encodeHeader(into: &$0) }
    case .pcapng: pcapng.start(into: &octets)
    case .pcap(let linkType):
      octets.append(addingCapacity: PcapHeader.byteCount) { PcapHeader.encode(linkType, into: &$0) }
    }
  }

  /// Appends one record if the format can store it. The record's drops are added to the drops of earlier
  /// records.
  public mutating func append(_ record: borrowing PacketRecord, to octets: inout [UInt8]) {
    // Drops before a skipped record are still counted.
    btsnoop.cumulativeDrops = UInt32(
      clamping: UInt64(btsnoop.cumulativeDrops) + UInt64(record.header.drops))
    guard holds(record) else {
      leftOut += 1
      pcapng.lose(record.header.drops)
      return
    }
    recordCount += 1
    switch format {
    case .btsnoop:
      octets.append(addingCapacity: btsnoop.recordByteCount(packet: record.packet.count)) {
        btsnoop.encode(record, into: &$0)
      }
    case .pcapng: pcapng.append(record, to: &octets)
    case .pcap(let linkType):
      let capacity =
        PcapHeader.recordByteCount + linkType.overheadByteCount + record.packet.count
      octets.append(addingCapacity: capacity) { PcapHeader.encode(record, linkType, into: &$0) }
    }
  }

  /// Appends one record of the Linux monitor, an HCI packet or a note.
  ///
  /// - Parameters:
  ///   - payload: bytes after the record's header.
  ///   - record: the monitor's header.
  ///   - drops: number of records lost since the previous record.
  ///   - octets: the buffer to which the record is appended.
  public mutating func append(
    _ payload: Span<UInt8>, of record: MonitorRecordHeader, drops: UInt32, to octets: inout [UInt8]
  ) {
    var header = PacketRecordHeader()
    header.time = record.time
    header.adapter = record.adapter
    header.originalByteCount = payload.count
    header.drops = drops
    if let packet = BTSnoopMonitorOpcode.packet(record.opcode) {
      (header.type, header.direction) = packet
    } else {
      header.note = MonitorOpcode(rawValue: record.opcode)
    }
    append(PacketRecord(header, packet: payload), to: &octets)
  }

  /// Appends one HCI packet of the first adapter.
  ///
  /// - Parameters:
  ///   - packet: the packet without its H4 type byte.
  ///   - type: type of the packet; `nil` if unknown.
  ///   - direction: direction of the packet.
  ///   - time: time of the packet.
  ///   - drops: number of packets lost since the previous packet.
  ///   - octets: the buffer to which the record is appended.
  public mutating func append(
    _ packet: Span<UInt8>, type: HCIPacketType?, direction: HCIDirection, at time: ReceiveTime,
    drops: UInt32, to octets: inout [UInt8]
  ) {
    var header = PacketRecordHeader()
    header.time = time
    header.type = type
    header.direction = direction
    header.drops = drops
    append(PacketRecord(header, packet: packet), to: &octets)
  }

  /// Appends an ATT PDU as a single ACL packet. Used in modes in which the kernel handles L2CAP, so that only
  /// the PDU is visible.
  ///
  /// - Parameters:
  ///   - pdu: at most 65,531 bytes.
  ///   - handle: handle of the connection.
  ///   - direction: direction of the packet.
  ///   - time: time of the packet.
  ///   - drops: number of packets lost since the previous packet.
  ///   - octets: the buffer to which the record is appended.
  public mutating func append(
    attribute pdu: Span<UInt8>, handle: ConnectionHandle, direction: HCIDirection, at time: ReceiveTime,
    drops: UInt32, to octets: inout [UInt8]
  ) {
    guard case .btsnoop = format else {
      let packet = [UInt8](encoding: ACLPacket.byteCount(l2capPayload: pdu.count)) {
        ACLPacket.encode(l2capPayload: pdu, handle: handle, direction: direction, into: &$0)
      }
      return append(packet.span, type: .acl, direction: direction, at: time, drops: drops, to: &octets)
    }
    // Encode in place, because a recording over the kernel's sockets writes each notification in this way.
    recordCount += 1
    btsnoop.cumulativeDrops = UInt32(clamping: UInt64(btsnoop.cumulativeDrops) + UInt64(drops))
    let encoder = btsnoop
    octets.append(addingCapacity: encoder.recordByteCount(l2capPayload: pdu.count)) {
      encoder.encode(l2capPayload: pdu, handle: handle, direction: direction, at: time, into: &$0)
    }
  }

  /// Continues a btsnoop file whose last record has this number of drops.
  public mutating func goOn(afterDrops drops: Int) { btsnoop.cumulativeDrops = UInt32(clamping: drops) }

  /// Returns the maximum size of a record in bytes, including the blocks before it and the end of the log.
  public func byteCountLimit(packet byteCount: Int) -> Int {
    switch format {
    case .btsnoop: btsnoop.recordByteCount(packet: byteCount)
    case .pcapng: pcapng.byteCountLimit(packet: byteCount)
    case .pcap(let linkType): PcapHeader.recordByteCount + linkType.overheadByteCount + byteCount
    }
  }

  /// Encodes the end of the log: for pcapng, the counts of packets and drops of each interface.
  public mutating func finish(into octets: inout [UInt8]) {
    if case .pcapng = format { pcapng.finish(into: &octets) }
  }

  /// Returns whether a reader of the format can identify the record and accepts its size.
  private func holds(_ record: borrowing PacketRecord) -> Bool {
    if case .btsnoop = format {
      guard record.packet.count <= Self.longestPacketByteCount else { return false }
    } else {
      guard record.packet.count < PacketLogReader.maximumPacketByteCount - 8 else { return false }
    }
    switch format {
    case .btsnoop(.monitor), .pcapng(.linuxMonitor), .pcap(.linuxMonitor):
      return record.type != nil || record.note != nil
    case .btsnoop(.unencapsulated):
      return record.type == .command || record.type == .event || record.type == .acl
    default:
      // An empty record has no type byte.
      return record.type != nil
        || record.note == nil && record.header.air == nil && record.packet.isEmpty
    }
  }
}

public import BLEWire

/// Metadata of a record.
public struct PacketRecordHeader: Hashable, Sendable, BitwiseCopyable {
  /// Number of the record in the log, from 1.
  public var index = 0
  public var time = ReceiveTime(nanoseconds: 0)
  /// Type of the packet; `nil` for a record that is not an HCI packet: a note, an empty record, or a packet
  /// of another interface type.
  public var type: HCIPacketType?
  public var direction = HCIDirection.hostToController
  /// Number of the adapter, such as 0 for `hci0`; also 0 in formats without adapters.
  public var adapter: UInt16 = 0
  /// Type of a record without an HCI packet, if the log contains it.
  public var note: MonitorOpcode?
  /// Metadata of the air packet in the record, or of the air packet from which the record was made.
  /// `PacketLogReader` sets only the link type; `AirTranslator` makes HCI packets from such records.
  public var air: AirPacket?
  /// Size of the original packet in bytes, without its H4 type byte.
  public var originalByteCount = 0
  /// Number of packets that the log's writer lost between the previous record and this record.
  public var drops: UInt32 = 0
  /// Number of packets lost since the start of the log.
  public var cumulativeDrops: UInt32 = 0
  /// Number of times that the writer's clock was set, or may have been set, before this record; 0 unless the
  /// record comes from a `LogTimeline`.
  public var clockSteps = 0

  package init() {}

  /// Adapter and opcode as in the flags of btsnoop format 2001.
  public var flags: UInt32 {
    let opcode = note?.rawValue ?? BTSnoopMonitorOpcode.opcode(type: type ?? .vendor, direction: direction)
    return UInt32(adapter) << 16 | UInt32(opcode)
  }
}

/// One record of a packet log of any format.
///
/// The record borrows the reader's bytes, and is valid only during the call that delivered it.
public struct PacketRecord: ~Escapable {
  public let header: PacketRecordHeader
  /// The packet without its H4 type byte, or the note's bytes.
  public let packet: Span<UInt8>
  /// Comment on the packet in UTF-8; empty if there is no comment. Only pcapng has comments.
  public let comment: Span<UInt8>

  public var index: Int { header.index }
  public var time: ReceiveTime { header.time }
  public var type: HCIPacketType? { header.type }
  public var direction: HCIDirection { header.direction }
  public var adapter: UInt16 { header.adapter }
  public var note: MonitorOpcode? { header.note }

  /// Whether the log contains only a part of the packet.
  public var isCut: Bool { packet.count < header.originalByteCount }

  /// Whether the log's writer cut the packet before its connection handle, so that the packet may be data of
  /// any device.
  package var isCutBeforeLink: Bool {
    guard isCut else { return false }
    // Some formats do not even have the type of such a packet, because the type is the first byte.
    guard let type else { return packet.isEmpty && note == nil && header.air == nil }
    return type == .acl && direction == .controllerToHost && packet.count < 2
  }

  /// A data packet that the log's writer cut; `nil` for a complete packet, or a packet without a handle.
  package var cutFragment: ACLPacket? {
    @_lifetime(copy self) get {
      guard type == .acl, isCut, packet.count >= 2 else { return nil }
      let header = ACLPacket.headerByteCount
      if packet.count >= header, packet.count - header >= Int(packet.u16(at: 2)) { return nil }
      let word = packet.u16(at: 0)
      return ACLPacket(
        handle: ConnectionHandle(word),
        boundary: ACLPacket.Boundary(rawValue: UInt8(word >> 12 & 3)) ?? .complete,
        data: packet.extracting(min(header, packet.count)...))
    }
  }

  @_lifetime(copy packet, copy comment)
  package init(_ header: PacketRecordHeader, packet: Span<UInt8>, comment: Span<UInt8>) {
    self.header = header
    self.packet = packet
    self.comment = comment
  }

  /// Makes a record without a comment.
  @_lifetime(copy packet)
  package init(_ header: PacketRecordHeader, packet: Span<UInt8>) {
    self.header = header
    self.packet = packet
    comment = packet.extracting(0..<0)
  }
}

/// A record that owns its bytes, for example to merge logs.
public struct StoredPacketRecord: Hashable, Sendable {
  public var header: PacketRecordHeader
  public var packet: [UInt8]
  public var comment: [UInt8]

  public init(copying record: borrowing PacketRecord) {
    header = record.header
    packet = Array(copying: record.packet)
    comment = Array(copying: record.comment)
  }

  /// Passes the record to `body`, as a reader does.
  public func withRecord<Value>(_ body: (borrowing PacketRecord) -> Value) -> Value {
    body(PacketRecord(header, packet: packet.span, comment: comment.span))
  }
}

extension [UInt8] {
  fileprivate init(copying octets: Span<UInt8>) {
    self.init(capacity: octets.count) { $0.append(octets) }
  }
}

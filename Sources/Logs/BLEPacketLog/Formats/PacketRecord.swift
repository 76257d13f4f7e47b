public import BLEWire

/// What a record says of its packet, without the packet.
public struct PacketRecordHeader: Hashable, Sendable, BitwiseCopyable {
  /// Of all records in the log, from 1.
  public var index = 0
  public var time = ReceiveTime(nanoseconds: 0)
  /// `nil` for a record that is no HCI packet: a note, an empty record, or a packet of another kind of interface.
  public var type: HCIPacketType?
  public var direction = HCIDirection.hostToController
  /// The `0` of `hci0`; 0 in the formats that do not say.
  public var adapter: UInt16 = 0
  /// What a record without HCI packet is, where the log tells.
  public var note: MonitorOpcode?
  /// What is known of the packet of the air that the record is, or was made of. The reader knows no more than the link
  /// type: `AirTranslator` makes HCI packets of such records.
  public var air: AirPacket?
  /// Octets that the packet had, without its H4 type octet.
  public var originalByteCount = 0
  /// Packets that the log's writer lost between the record before and this one.
  public var drops: UInt32 = 0
  /// The same, from the start of the log.
  public var cumulativeDrops: UInt32 = 0

  package init() {}

  /// Adapter and opcode as the flags of btsnoop's format 2001 hold them.
  public var flags: UInt32 {
    let opcode = note?.rawValue ?? BTSnoopMonitorOpcode.opcode(type: type ?? .vendor, direction: direction)
    return UInt32(adapter) << 16 | UInt32(opcode)
  }
}

/// One record of a packet log, whatever its format.
///
/// Borrows the reader's octets: it is valid only inside the call that delivered it.
public struct PacketRecord: ~Escapable {
  public let header: PacketRecordHeader
  /// The packet without its H4 type octet, or the note's octets.
  public let packet: Span<UInt8>
  /// What somebody wrote about the packet, UTF-8; empty where nobody did. Only pcapng has it.
  public let comment: Span<UInt8>

  public var index: Int { header.index }
  public var time: ReceiveTime { header.time }
  public var type: HCIPacketType? { header.type }
  public var direction: HCIDirection { header.direction }
  public var adapter: UInt16 { header.adapter }
  public var note: MonitorOpcode? { header.note }

  /// Whether the log holds less of the packet than there was.
  public var isCut: Bool { packet.count < header.originalByteCount }

  /// A data packet that lacks its end because the log's writer cut it; `nil` for what is whole, or has no handle.
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

  /// A record without comment.
  @_lifetime(copy packet)
  package init(_ header: PacketRecordHeader, packet: Span<UInt8>) {
    self.header = header
    self.packet = packet
    comment = packet.extracting(0..<0)
  }
}

/// What the Linux monitor says between the packets, by its opcode. `doc/btsnoop-protocol.rst` of BlueZ.
/// Unknown opcodes are kept.
public struct MonitorOpcode: RawRepresentable, Hashable, Sendable, BitwiseCopyable {
  public let rawValue: UInt16
  @inlinable public init(rawValue: UInt16) { self.rawValue = rawValue }

  public static let newIndex = MonitorOpcode(rawValue: 0)
  public static let deleteIndex = MonitorOpcode(rawValue: 1)
  public static let openIndex = MonitorOpcode(rawValue: 8)
  public static let closeIndex = MonitorOpcode(rawValue: 9)
  public static let indexInformation = MonitorOpcode(rawValue: 10)
  public static let vendorDiagnostics = MonitorOpcode(rawValue: 11)
  public static let systemNote = MonitorOpcode(rawValue: 12)
  public static let userLogging = MonitorOpcode(rawValue: 13)
  public static let controlOpen = MonitorOpcode(rawValue: 14)
  public static let controlClose = MonitorOpcode(rawValue: 15)
  public static let controlCommand = MonitorOpcode(rawValue: 16)
  public static let controlEvent = MonitorOpcode(rawValue: 17)
}

/// A record that outlives its reader's octets, for where logs are merged.
public struct StoredPacketRecord: Hashable, Sendable {
  public var header: PacketRecordHeader
  public var packet: [UInt8]
  public var comment: [UInt8]

  public init(copying record: borrowing PacketRecord) {
    header = record.header
    packet = Array(copying: record.packet)
    comment = Array(copying: record.comment)
  }

  /// Lends it as a reader would.
  public func withRecord<Value>(_ body: (borrowing PacketRecord) -> Value) -> Value {
    body(PacketRecord(header, packet: packet.span, comment: comment.span))
  }
}

extension [UInt8] {
  fileprivate init(copying octets: Span<UInt8>) {
    self.init(capacity: octets.count) { $0.append(octets) }
  }
}

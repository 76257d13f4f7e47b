public import BLEWire

/// Record format of a btsnoop file: the header's datalink number.
public enum BTSnoopFormat: UInt32, Hashable, Sendable, BitwiseCopyable {
  /// HCI packets without a type byte. Flags distinguish commands and events from data.
  case unencapsulated = 1001
  /// HCI packets with their H4 type byte. Android writes this format, and all programs read it.
  case h4 = 1002
  /// Records of BlueZ's monitor. The flags contain adapter and opcode, and there are other records between
  /// the packets.
  case monitor = 2001
}

/// The first 16 bytes of the file, all big-endian.
public struct BTSnoopHeader: Hashable, Sendable, BitwiseCopyable {
  public static let byteCount = 16
  /// `btsnoop` and a zero, as one number.
  @usableFromInline static let magic: UInt64 = 0x6274_736E_6F6F_7000
  public static let version: UInt32 = 1

  public let format: BTSnoopFormat

  @inlinable public init(format: BTSnoopFormat) { self.format = format }

  /// Parses a file header.
  ///
  /// - Throws: `truncated`; `invalidValue` at the magic (offset 0), the version (8) or the datalink (12).
  public init(validating octets: Span<UInt8>) throws(WireError) {
    try octets.require(Self.byteCount, .btsnoop)
    guard octets.u64BE(at: 0) == Self.magic else {
      throw WireError(.btsnoop, offset: 0, .invalidValue(octets.u32BE(at: 0)))
    }
    guard octets.u32BE(at: 8) == Self.version else {
      throw WireError(.btsnoop, offset: 8, .invalidValue(octets.u32BE(at: 8)))
    }
    guard let format = BTSnoopFormat(rawValue: octets.u32BE(at: 12)) else {
      throw WireError(.btsnoop, offset: 12, .invalidValue(octets.u32BE(at: 12)))
    }
    self.format = format
  }

  public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(u64BE: Self.magic)
    output.append(u32BE: Self.version)
    output.append(u32BE: format.rawValue)
  }
}

/// The 24 bytes before each packet, all big-endian.
public struct BTSnoopRecordHeader: Hashable, Sendable, BitwiseCopyable {
  public static let byteCount = 24
  /// Microseconds from the format's epoch, midnight of 1 January of the year 0, to the Unix epoch.
  public static let unixEpochMicroseconds: Int64 = 0x00DC_DDB3_0F2F_8000

  /// Size of the original packet in bytes.
  public var originalByteCount: UInt32
  /// Number of bytes of the packet in the file.
  public var includedByteCount: UInt32
  public var flags: UInt32
  /// Number of packets that were dropped since the start of the file.
  public var cumulativeDrops: UInt32
  /// Time since the format's epoch.
  public var microseconds: Int64

  public init(
    originalByteCount: UInt32, includedByteCount: UInt32, flags: UInt32, cumulativeDrops: UInt32,
    microseconds: Int64
  ) {
    self.originalByteCount = originalByteCount
    self.includedByteCount = includedByteCount
    self.flags = flags
    self.cumulativeDrops = cumulativeDrops
    self.microseconds = microseconds
  }

  public init(validating octets: Span<UInt8>) throws(WireError) {
    try octets.require(Self.byteCount, .btsnoop)
    originalByteCount = octets.u32BE(at: 0)
    includedByteCount = octets.u32BE(at: 4)
    flags = octets.u32BE(at: 8)
    cumulativeDrops = octets.u32BE(at: 12)
    microseconds = Int64(bitPattern: octets.u64BE(at: 16))
  }

  /// Whether the header's end is zeros: no packet, and the year 0. A power failure leaves zeros if the disk
  /// has the new length of a file but not the new data. The zeros may begin within a header.
  var isOfZeros: Bool { includedByteCount == 0 && microseconds == 0 }

  public func encode(into output: inout OutputSpan<UInt8>) {
    output.append(u32BE: originalByteCount)
    output.append(u32BE: includedByteCount)
    output.append(u32BE: flags)
    output.append(u32BE: cumulativeDrops)
    output.append(u64BE: UInt64(bitPattern: microseconds))
  }

  /// The time in nanoseconds since the Unix epoch, clamped to the range of the type.
  public var time: ReceiveTime {
    let (since1970, underflow) = microseconds.subtractingReportingOverflow(Self.unixEpochMicroseconds)
    let (nanoseconds, overflow) = since1970.multipliedReportingOverflow(by: 1_000)
    guard underflow || overflow else { return ReceiveTime(nanoseconds: nanoseconds) }
    return ReceiveTime(nanoseconds: microseconds < 0 ? .min : .max)
  }

  /// Converts a time to the file's microseconds, rounding down.
  public static func microseconds(of time: ReceiveTime) -> Int64 {
    let (quotient, remainder) = time.nanoseconds.quotientAndRemainder(dividingBy: 1_000)
    return unixEpochMicroseconds + quotient - (remainder < 0 ? 1 : 0)
  }
}

/// Flags of a record in formats 1001 and 1002.
enum BTSnoopFlags {
  /// Bit 0: set if the controller sent the packet.
  static let controllerToHost: UInt32 = 0x01
  /// Bit 1: set for commands and events, clear for data.
  static let commandOrEvent: UInt32 = 0x02
}

/// Encodes packets as a btsnoop file, without I/O and without allocating.
///
/// Write the file header once, then a record for each packet. A record is written completely or not at all;
/// `record…ByteCount` returns its size. A file that ends between two records is therefore valid.
public struct BTSnoopWriter: Sendable {
  /// The largest record: header, type byte and the longest ACL packet.
  public static let maximumRecordByteCount = BTSnoopRecordHeader.byteCount + 1 + 4 + 65_535

  public let format: BTSnoopFormat
  /// Number of packets dropped so far, stored in each record. Set this to the number of packets that the
  /// queue before the writer has dropped.
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
  ///   - adapter: number of the adapter, such as 0 for `hci0`; stored only in format 2001.
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

  /// Encodes the payload of an L2CAP socket as a single ACL packet.
  ///
  /// This is for logs in modes in which the kernel handles L2CAP, so that only the payload, an ATT PDU, is
  /// visible.
  /// - Parameters:
  ///   - payload: at most 65,531 bytes.
  ///   - channelID: ID of the L2CAP channel.
  ///   - handle: handle of the connection.
  ///   - direction: direction of the packet.
  ///   - adapter: number of the adapter, such as 0 for `hci0`; stored only in format 2001.
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

  private func flags(type: HCIPacketType, direction: HCIDirection, adapter: UInt16) -> UInt32 {
    if format == .monitor {
      return UInt32(adapter) << 16 | UInt32(BTSnoopMonitorOpcode.opcode(type: type, direction: direction))
    }
    let fromController = direction == .controllerToHost ? BTSnoopFlags.controllerToHost : 0
    switch type {
    // Format 1001 distinguishes commands and events by direction, so a wrong direction in the log must not
    // turn a command into an event.
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

  /// Encodes the payload of an L2CAP socket as a single packet.
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

extension BTSnoopWriter {
  /// Encodes a record that `PacketLogWriter.holds` accepts, in at most `recordByteCount` bytes.
  func encode(_ record: borrowing PacketRecord, into output: inout OutputSpan<UInt8>) {
    let typeByteCount = format == .h4 && record.type != nil ? 1 : 0
    BTSnoopRecordHeader(
      originalByteCount: UInt32(
        clamping: max(record.packet.count, record.header.originalByteCount) + typeByteCount),
      includedByteCount: UInt32(record.packet.count + typeByteCount),
      flags: flags(of: record), cumulativeDrops: cumulativeDrops,
      microseconds: BTSnoopRecordHeader.microseconds(of: record.time)
    ).encode(into: &output)
    if let type = record.type, format == .h4 { output.append(type.rawValue) }
    output.append(record.packet)
  }

  private func flags(of record: borrowing PacketRecord) -> UInt32 {
    if format == .monitor { return record.header.flags }
    return flags(type: record.type ?? .acl, direction: record.direction, adapter: record.adapter)
  }
}

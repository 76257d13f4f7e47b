import BLEHost
import BLEPacketLog
import BLEWire

/// File formats of a capture's packet log.
public enum CaptureLogFormat: String, CaseIterable, Sendable {
  /// Timestamps in microseconds; readable by most programs.
  case btsnoop
  /// Timestamps in nanoseconds, as in the tables.
  case pcapng

  public var fileName: String { "packets.\(rawValue)" }

  /// The format of an HCI log, by its file extension.
  init(path: String) { self = path.hasSuffix(".pcapng") ? .pcapng : .btsnoop }

  var writer: PacketLogWriter {
    switch self {
    case .btsnoop: PacketLogWriter(.btsnoop(.h4))
    case .pcapng: PacketLogWriter(.pcapng(.h4WithDirection))
    }
  }
}

/// Converts the PDUs of links, and events about them, to records of a packet log.
struct LinkLogWriter {
  /// Size of the record header and H4 type byte that `BTSnoopWriter` puts before a packet, in bytes.
  private static let overheadByteCount = BTSnoopRecordHeader.byteCount + 1

  private var btsnoop = BTSnoopWriter()
  /// `nil` for btsnoop, which encodes records directly.
  private var other: PacketLogWriter?
  private var drops = 0

  init(_ format: CaptureLogFormat) { if format != .btsnoop { other = format.writer } }

  /// Writes the file's header.
  mutating func start(into octets: inout [UInt8]) {
    let encoder = btsnoop
    guard other != nil else {
      octets.append(addingCapacity: BTSnoopHeader.byteCount) { encoder.encodeHeader(into: &$0) }
      return
    }
    other?.start(into: &octets)
  }

  /// Appends one record of a `PacketTap`.
  ///
  /// - Parameter dropped: total packets lost before this one.
  mutating func append(
    _ content: Span<UInt8>, _ tag: PacketTap.Tag, _ time: ReceiveTime, dropped: Int,
    to octets: inout [UInt8]
  ) {
    btsnoop.cumulativeDrops = UInt32(clamping: dropped)
    guard other != nil else {
      octets.append(addingCapacity: recordByteCount(content, tag)) { encode(content, tag, time, into: &$0) }
      return
    }
    let record = [UInt8](encoding: recordByteCount(content, tag)) { encode(content, tag, time, into: &$0) }
    append(record, tag.content == .event ? .event : .acl, tag.direction, time, dropped, to: &octets)
  }

  private func recordByteCount(_ content: Span<UInt8>, _ tag: PacketTap.Tag) -> Int {
    switch tag.content {
    case .attribute: btsnoop.recordByteCount(l2capPayload: content.count)
    case .event: btsnoop.recordByteCount(packet: content.count)
    }
  }

  private func encode(
    _ content: Span<UInt8>, _ tag: PacketTap.Tag, _ time: ReceiveTime, into output: inout OutputSpan<UInt8>
  ) {
    switch tag.content {
    case .attribute:
      btsnoop.encode(
        l2capPayload: content, handle: tag.handle, direction: tag.direction, at: time, into: &output)
    case .event: btsnoop.encode(content, type: .event, direction: tag.direction, at: time, into: &output)
    }
  }

  private mutating func append(
    _ record: [UInt8], _ type: HCIPacketType, _ direction: HCIDirection, _ time: ReceiveTime, _ dropped: Int,
    to octets: inout [UInt8]
  ) {
    var header = PacketRecordHeader()
    header.time = time
    header.type = type
    header.direction = direction
    header.drops = UInt32(clamping: dropped - drops)
    drops = dropped
    let packet = record.span.extracting(Self.overheadByteCount...)
    other?.append(PacketRecord(header, packet: packet), to: &octets)
  }
}

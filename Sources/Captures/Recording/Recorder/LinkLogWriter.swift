import BLEHost
import BLEPacketLog
import BLEWire

/// The kinds of packet log that a capture leaves.
public enum CaptureLogFormat: String, CaseIterable, Sendable {
  /// Times in microseconds; what most programs read.
  case btsnoop
  /// Times in nanoseconds, as the tables have them.
  case pcapng

  public var fileName: String { "packets.\(rawValue)" }

  /// Of a log of HCI packets, by the end of its name.
  init(path: String) { self = path.hasSuffix(".pcapng") ? .pcapng : .btsnoop }

  var writer: PacketLogWriter {
    switch self {
    case .btsnoop: PacketLogWriter(.btsnoop(.h4))
    case .pcapng: PacketLogWriter(.pcapng(.h4WithDirection))
    }
  }
}

/// Turns the PDUs of links, and the events around them, into the records of a packet log.
struct LinkLogWriter {
  /// H4 type octet and record header that `BTSnoopWriter` puts before a packet.
  private static let overheadByteCount = BTSnoopRecordHeader.byteCount + 1

  private var btsnoop = BTSnoopWriter()
  /// `nil` for btsnoop, which needs no record put together first.
  private var other: PacketLogWriter?
  private var drops = 0

  init(_ format: CaptureLogFormat) { if format != .btsnoop { other = format.writer } }

  /// The head of the file.
  mutating func start(into octets: inout [UInt8]) {
    let encoder = btsnoop
    guard other != nil else {
      octets.append(addingCapacity: BTSnoopHeader.byteCount) { encoder.encodeHeader(into: &$0) }
      return
    }
    other?.start(into: &octets)
  }

  /// One record of a `PacketTap`.
  ///
  /// - Parameter dropped: packets that were lost before this one, in all.
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

import BLECore
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

/// Turns the PDUs of one link into the records of a packet log.
struct LinkLogWriter {
  /// H4 type octet and record header that `BTSnoopWriter` puts before a packet.
  private static let overheadByteCount = BTSnoopRecordHeader.byteCount + 1

  private var btsnoop = BTSnoopWriter()
  /// `nil` for btsnoop, which needs no record put together first.
  private var other: PacketLogWriter?
  private var drops = 0

  init(_ format: CaptureLogFormat) { if format != .btsnoop { other = format.writer } }

  /// The head of the file and the start of the link, as one unit.
  mutating func start(_ link: RecordingFiles.LinkStart, into octets: inout [UInt8]) {
    let encoder = btsnoop
    guard other != nil else {
      octets.append(addingCapacity: BTSnoopHeader.byteCount + encoder.linkRecordByteCount) {
        encoder.encodeHeader(into: &$0)
        encoder.encode(
          linkTo: link.peer, handle: link.handle, parameters: link.parameters, at: link.time, into: &$0)
      }
      return
    }
    other?.start(into: &octets)
    let record = [UInt8](encoding: encoder.linkRecordByteCount) {
      encoder.encode(
        linkTo: link.peer, handle: link.handle, parameters: link.parameters, at: link.time, into: &$0)
    }
    append(record, .event, .controllerToHost, link.time, 0, to: &octets)
  }

  /// - Parameter dropped: packets that were lost before this one, in all.
  mutating func append(
    _ pdu: Span<UInt8>, _ tag: PacketTap.Tag, _ time: ReceiveTime, dropped: Int, to octets: inout [UInt8]
  ) {
    btsnoop.cumulativeDrops = UInt32(clamping: dropped)
    let encoder = btsnoop
    guard other != nil else {
      octets.append(addingCapacity: encoder.recordByteCount(l2capPayload: pdu.count)) {
        encoder.encode(l2capPayload: pdu, handle: tag.handle, direction: tag.direction, at: time, into: &$0)
      }
      return
    }
    let record = [UInt8](encoding: encoder.recordByteCount(l2capPayload: pdu.count)) {
      encoder.encode(l2capPayload: pdu, handle: tag.handle, direction: tag.direction, at: time, into: &$0)
    }
    append(record, .acl, tag.direction, time, dropped, to: &octets)
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

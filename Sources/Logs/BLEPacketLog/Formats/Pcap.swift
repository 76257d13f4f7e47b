public import BLEWire

/// File header of pcap, in either byte order, with microseconds or nanoseconds. `pcap-savefile(5)`.
public struct PcapHeader: Hashable, Sendable {
  public static let byteCount = 24
  static let recordByteCount = 16
  static let linkTypeOffset = 20
  static let microsecondMagic: UInt32 = 0xA1B2_C3D4
  static let nanosecondMagic: UInt32 = 0xA1B2_3C4D

  public let order: LogByteOrder
  let kind: FrameKind
  let nanosecondsPerUnit: Int64

  /// Returns the unsupported link type for which a file was rejected; `nil` for another error.
  public static func foreignLinkType(_ error: WireError) -> UInt32? {
    guard error.layer == .pcap, error.offset == linkTypeOffset, case .invalidValue(let number) = error.reason
    else {
      return nil
    }
    return number
  }

  /// Returns byte order and time unit of a file with this magic number, or `nil` for another file.
  static func recognise(_ magic: UInt32) -> (order: LogByteOrder, nanosecondsPerUnit: Int64)? {
    switch magic {
    case microsecondMagic: (.big, 1_000)
    case microsecondMagic.byteSwapped: (.little, 1_000)
    case nanosecondMagic: (.big, 1)
    case nanosecondMagic.byteSwapped: (.little, 1)
    default: nil
    }
  }

  /// Parses a file header.
  ///
  /// - Throws: `truncated`; `invalidValue` at the magic (offset 0), the major version (4) or the link type
  ///   (20).
  init(validating octets: Span<UInt8>) throws(WireError) {
    try octets.require(Self.byteCount, .pcap)
    guard let (order, unit) = Self.recognise(octets.u32BE(at: 0)) else {
      throw WireError(.pcap, offset: 0, .invalidValue(octets.u32BE(at: 0)))
    }
    let version = octets.u16(at: 4, order)
    guard version == 2 else { throw WireError(.pcap, offset: 4, .invalidValue(UInt32(version))) }
    // The upper half of the word describes checksums, which these frames do not have.
    let number = octets.u32(at: 20, order)
    kind = FrameKind(number & 0xFFFF)
    if case .other(let number) = kind {
      throw WireError(.pcap, offset: Self.linkTypeOffset, .invalidValue(number))
    }
    self.order = order
    nanosecondsPerUnit = unit
  }

  /// Returns the known minimum size of the record that starts here.
  func recordByteCount(_ start: Span<UInt8>, offset: Int) throws(WireError) -> Int {
    guard start.count >= Self.recordByteCount else { return Self.recordByteCount }
    let included = start.u32(at: 8, order)
    guard included <= PacketLogReader.maximumPacketByteCount else {
      throw WireError(.pcap, offset: offset + 8, .invalidValue(included))
    }
    return Self.recordByteCount + Int(included)
  }

  /// Passes the record in `unit` to `body`, without the fields that only the reader knows.
  func read(_ unit: Span<UInt8>, _ body: (PacketRecordHeader, borrowing LinkFrame) -> Void) {
    let frame = LinkFrame(
      kind, unit.extracting(Self.recordByteCount...), originalByteCount: Int(unit.u32(at: 12, order)),
      direction: nil)
    var header = PacketRecordHeader()
    let seconds = Int64(unit.u32(at: 0, order)) * 1_000_000_000
    header.time = ReceiveTime(
      nanoseconds: seconds + Int64(unit.u32(at: 4, order)) * nanosecondsPerUnit)
    body(header, frame)
  }
}

extension PcapHeader {
  static func encode(_ linkType: LinkType, into output: inout OutputSpan<UInt8>) {
    output.append(u32: nanosecondMagic)
    output.append(u16: 2)
    output.append(u16: 4)
    output.append(zeros: 8)
    output.append(u32: UInt32(PacketLogReader.maximumPacketByteCount))
    output.append(u32: linkType.rawValue)
  }

  /// Encodes a record header. The seconds of the time have 32 bits, so times before 1970 or after 2106 are
  /// clamped.
  static func encode(
    _ record: borrowing PacketRecord, _ linkType: LinkType, into output: inout OutputSpan<UInt8>
  ) {
    let (seconds, nanoseconds) = max(0, record.time.nanoseconds).quotientAndRemainder(
      dividingBy: 1_000_000_000)
    let overhead = record.frameOverheadByteCount(linkType)
    output.append(u32: UInt32(clamping: seconds))
    output.append(u32: UInt32(nanoseconds))
    output.append(u32: UInt32(record.packet.count + overhead))
    output.append(
      u32: UInt32(clamping: max(record.packet.count, record.header.originalByteCount) + overhead))
    record.encodeFrame(linkType, into: &output)
  }
}

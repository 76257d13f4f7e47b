import BLEWire

/// Apple's PacketLogger: records with length, time, type and packet, without a file header.
///
/// The layout is from Wireshark's reader, `wiretap/packetlogger.c`. Older machines wrote big-endian numbers;
/// newer machines write little-endian numbers.
enum PacketLoggerFormat {
  /// Number of bytes needed to determine the format: length, time and type of the first record.
  static let recognitionByteCount = 13
  static let lengthByteCount = 4
  /// Number of bytes of the seconds and microseconds, which the length includes.
  static let timeByteCount = 8
  /// Maximum length of a first record, as in Wireshark's check.
  static let maximumLength: UInt32 = 65_535 + 9

  /// Returns the byte order of a file with these first bytes, or `nil` for another format.
  static func recognise(_ start: Span<UInt8>) -> LogByteOrder? {
    // Lengths have at most 16 bits, so the zeros show the byte order.
    let order: LogByteOrder = start.u16(at: 0) == 0 && start.u16(at: 2) != 0 ? .big : .little
    let length = start.u32(at: 0, order)
    guard (8...maximumLength).contains(length), start.u32(at: 8, order) < 1_000_000 else { return nil }
    guard length > 8 else { return order }
    switch start[12] {
    case 0x00...0x03, 0x08...0x0B, 0xF7...0xFE: return order
    default: return nil
    }
  }

  /// Returns the known minimum size of the record that starts here.
  static func recordByteCount(
    _ start: Span<UInt8>, _ order: LogByteOrder, offset: Int
  ) throws(WireError) -> Int {
    guard start.count >= lengthByteCount else { return lengthByteCount }
    let length = start.u32(at: 0, order)
    guard (8...maximumLength).contains(length) else {
      throw WireError(.packetLogger, offset: offset, .invalidValue(length))
    }
    return lengthByteCount + Int(length)
  }

  /// Passes the record in `unit` to `body`, without the fields that only the reader knows.
  static func read(
    _ unit: Span<UInt8>, _ order: LogByteOrder, _ body: (borrowing PacketRecord) -> Void
  ) {
    var header = PacketRecordHeader()
    header.time = ReceiveTime(
      nanoseconds: Int64(unit.u32(at: 4, order)) * 1_000_000_000 + Int64(unit.u32(at: 8, order)) * 1_000)
    var packet = unit.extracting((lengthByteCount + timeByteCount)...)
    if !packet.isEmpty {
      let kind = packet[0]
      packet = packet.extracting(1...)
      (header.type, header.direction) = typeAndDirection(kind)
      // The record is text for the user: system, kernel, errors, power, notes, configuration, controllers.
      if kind >= 0xF7 { header.note = .systemNote }
    }
    header.originalByteCount = packet.count
    body(PacketRecord(header, packet: packet))
  }

  /// Packets of the Link Manager (0x0A, 0x0B) are not HCI packets.
  private static func typeAndDirection(_ kind: UInt8) -> (HCIPacketType?, HCIDirection) {
    switch kind {
    case 0x00: (.command, .hostToController)
    case 0x01: (.event, .controllerToHost)
    case 0x02: (.acl, .hostToController)
    case 0x03: (.acl, .controllerToHost)
    case 0x08: (.sco, .hostToController)
    case 0x09: (.sco, .controllerToHost)
    case 0x0B: (nil, .controllerToHost)
    default: (nil, .hostToController)
    }
  }
}

package import BLEPacketLog
package import BLEWire

/// A number's bytes in a file's byte order.
package func octets(_ value: some FixedWidthInteger, _ order: LogByteOrder) -> [UInt8] {
  let count = value.bitWidth / 8
  let little = (0..<count).map { UInt8(truncatingIfNeeded: value >> (8 * $0)) }
  return order == .little ? little : little.reversed()
}

/// Assembles pcapng files according to the figures of the draft (`draft-ietf-opsawg-pcapng`, 4), without our
/// writer.
package struct PcapNGBuilder {
  package let order: LogByteOrder
  package var file: [UInt8] = []

  package init(_ order: LogByteOrder = .little) {
    self.order = order
    section()
  }

  package func number(_ value: some FixedWidthInteger) -> [UInt8] { octets(value, order) }

  package mutating func section() {
    block(
      0x0A0D_0D0A, number(UInt32(0x1A2B_3C4D)) + number(UInt16(1)) + number(UInt16(0)) + number(UInt64.max))
  }

  package mutating func block(_ type: UInt32, _ content: [UInt8]) {
    let padded = content + [UInt8](repeating: 0, count: (4 - content.count % 4) % 4)
    let length = number(UInt32(padded.count + 12))
    file += number(type) + length + padded + length
  }

  package func option(_ code: UInt16, _ value: [UInt8]) -> [UInt8] {
    let padding = [UInt8](repeating: 0, count: (4 - value.count % 4) % 4)
    return number(code) + number(UInt16(value.count)) + value + padding
  }

  package mutating func interface(_ linkType: UInt16, options: [UInt8] = [], snapLength: UInt32 = 0) {
    block(1, number(linkType) + number(UInt16(0)) + number(snapLength) + options)
  }

  package mutating func enhanced(
    _ frame: [UInt8], units: UInt64, interface: UInt32 = 0, options: [UInt8] = []
  ) {
    let padding = [UInt8](repeating: 0, count: (4 - frame.count % 4) % 4)
    block(
      6,
      number(interface) + number(UInt32(units >> 32)) + number(UInt32(truncatingIfNeeded: units))
        + number(UInt32(frame.count)) + number(UInt32(frame.count)) + frame + padding + options)
  }
}

/// Makes a pcap file according to `pcap-savefile(5)`.
package func pcapFile(
  _ order: LogByteOrder, magic: UInt32 = 0xA1B2_C3D4, linkType: UInt32, _ records: [(UInt32, UInt32, [UInt8])]
) -> [UInt8] {
  var file = octets(magic, order) + octets(UInt16(2), order) + octets(UInt16(4), order)
  file += [UInt8](repeating: 0, count: 8) + octets(UInt32(65_535), order) + octets(linkType, order)
  for (seconds, fraction, frame) in records {
    file += octets(seconds, order) + octets(fraction, order)
    file += octets(UInt32(frame.count), order) + octets(UInt32(frame.count), order) + frame
  }
  return file
}

/// Makes an Apple PacketLogger file according to Wireshark's `wiretap/packetlogger.c`.
package func packetLoggerFile(_ order: LogByteOrder, _ records: [(UInt32, UInt32, UInt8, [UInt8])]) -> [UInt8]
{
  records.flatMap { seconds, microseconds, kind, packet -> [UInt8] in
    let head = [UInt32(packet.count + 9), seconds, microseconds].flatMap { octets($0, order) }
    return head + [kind] + packet
  }
}

/// The records of a log that is read in pieces of `chunk` bytes.
package struct LogReading {
  package var records: [StoredPacketRecord] = []
  package var error: WireError?
  package var format: PacketLogFormat?
  package var cumulativeDrops: UInt32 = 0

  package init(_ log: [UInt8], chunk: Int = .max) {
    var reader = PacketLogReader()
    do throws(WireError) {
      var offset = 0
      while offset < log.count {
        let end = offset + min(chunk, log.count - offset)
        try reader.read(log.span.extracting(offset..<end)) { records.append(StoredPacketRecord(copying: $0)) }
        offset = end
      }
      try reader.finish()
    } catch {
      self.error = error
    }
    format = reader.format
    cumulativeDrops = reader.cumulativeDrops
  }

  /// Format of the log as a btsnoop file.
  package var kind: BTSnoopFormat {
    if case .btsnoop(let kind) = format { return kind }
    return .h4
  }

  /// Number of records with an unknown packet type.
  package var unknown: Int { records.count { $0.header.type == nil } }

  /// Packets without notes, in the form of the other tests.
  package var packets: [LoggedPacket] {
    records.compactMap { record in
      record.header.type.map {
        LoggedPacket(
          type: $0, direction: record.header.direction, octets: record.packet,
          timeNanoseconds: record.header.time.nanoseconds, drops: record.header.cumulativeDrops)
      }
    }
  }
}

extension BTSnoopFormat {
  /// The link type that can hold all records of the format.
  package var linkType: LinkType { self == .monitor ? .linuxMonitor : .h4WithDirection }
}

/// Converts a log to another format, with everything that its reader returns.
package func converted(_ log: [UInt8], to format: PacketLogWriter.Format) -> [UInt8] {
  var writer = PacketLogWriter(format)
  var octets: [UInt8] = []
  writer.start(into: &octets)
  for record in LogReading(log).records { record.withRecord { writer.append($0, to: &octets) } }
  writer.finish(into: &octets)
  return octets
}

/// Anonymises a log.
package func anonymised(_ log: [UInt8], to format: PacketLogWriter.Format) -> [UInt8] {
  let records = LogReading(log).records
  var anonymiser = LogAnonymiser()
  for _ in 0..<2 {
    anonymiser.startOver()
    for record in records { anonymiser.learn(record) }
  }
  anonymiser.startOver()
  var writer = PacketLogWriter(format)
  var octets: [UInt8] = []
  writer.start(into: &octets)
  for record in records {
    if let record = anonymiser.rewrite(record) { record.withRecord { writer.append($0, to: &octets) } }
  }
  writer.finish(into: &octets)
  return octets
}

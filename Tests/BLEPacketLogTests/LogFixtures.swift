import BLECore
import BLEPacketLog
import BLESystem
import BLEWire
import Foundation
import TestKit
import Testing

/// A number's octets in the order that a file has.
func octets(_ value: some FixedWidthInteger, _ order: LogByteOrder) -> [UInt8] {
  let count = value.bitWidth / 8
  let little = (0..<count).map { UInt8(truncatingIfNeeded: value >> (8 * $0)) }
  return order == .little ? little : little.reversed()
}

/// Puts pcapng files together from the draft's figures (`draft-ietf-opsawg-pcapng`, 4), not with our writer.
struct PcapNGBuilder {
  let order: LogByteOrder
  var file: [UInt8] = []

  init(_ order: LogByteOrder = .little) {
    self.order = order
    section()
  }

  func number(_ value: some FixedWidthInteger) -> [UInt8] { octets(value, order) }

  mutating func section() {
    block(
      0x0A0D_0D0A, number(UInt32(0x1A2B_3C4D)) + number(UInt16(1)) + number(UInt16(0)) + number(UInt64.max))
  }

  mutating func block(_ type: UInt32, _ content: [UInt8]) {
    let padded = content + [UInt8](repeating: 0, count: (4 - content.count % 4) % 4)
    let length = number(UInt32(padded.count + 12))
    file += number(type) + length + padded + length
  }

  func option(_ code: UInt16, _ value: [UInt8]) -> [UInt8] {
    let padding = [UInt8](repeating: 0, count: (4 - value.count % 4) % 4)
    return number(code) + number(UInt16(value.count)) + value + padding
  }

  mutating func interface(_ linkType: UInt16, options: [UInt8] = [], snapLength: UInt32 = 0) {
    block(1, number(linkType) + number(UInt16(0)) + number(snapLength) + options)
  }

  mutating func enhanced(_ frame: [UInt8], units: UInt64, interface: UInt32 = 0, options: [UInt8] = []) {
    let padding = [UInt8](repeating: 0, count: (4 - frame.count % 4) % 4)
    block(
      6,
      number(interface) + number(UInt32(units >> 32)) + number(UInt32(truncatingIfNeeded: units))
        + number(UInt32(frame.count)) + number(UInt32(frame.count)) + frame + padding + options)
  }
}

/// A pcap file, by `pcap-savefile(5)`.
func pcapFile(
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

/// An Apple log, by Wireshark's `wiretap/packetlogger.c`.
func packetLoggerFile(_ order: LogByteOrder, _ records: [(UInt32, UInt32, UInt8, [UInt8])]) -> [UInt8] {
  records.flatMap { seconds, microseconds, kind, packet -> [UInt8] in
    let head = [UInt32(packet.count + 9), seconds, microseconds].flatMap { octets($0, order) }
    return head + [kind] + packet
  }
}

/// The records of a log that comes in pieces of `chunk` octets.
struct LogReading {
  var records: [StoredPacketRecord] = []
  var error: WireError?
  var format: PacketLogFormat?
  var cumulativeDrops: UInt32 = 0

  init(_ log: [UInt8], chunk: Int = .max) {
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

  /// The btsnoop format of the log.
  var kind: BTSnoopFormat {
    if case .btsnoop(let kind) = format { return kind }
    return .h4
  }

  /// As the other tests know packets; notes left out.
  var packets: [LoggedPacket] {
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
  /// The link type that has a place for all of it.
  var linkType: LinkType { self == .monitor ? .linuxMonitor : .h4WithDirection }
}

/// A log written in another format, with whatever its reader gave.
func converted(_ log: [UInt8], to format: PacketLogWriter.Format) -> [UInt8] {
  var writer = PacketLogWriter(format)
  var octets: [UInt8] = []
  writer.start(into: &octets)
  for record in LogReading(log).records { record.withRecord { writer.append($0, to: &octets) } }
  writer.finish(into: &octets)
  return octets
}

/// A log in format 2001 without the requests on which btmon 5.66 crashes.
func withoutReadByType(_ log: [UInt8]) -> [UInt8] {
  var writer = PacketLogWriter(.btsnoop(.monitor))
  var octets: [UInt8] = []
  writer.start(into: &octets)
  for record in LogReading(log).records {
    let packet = record.packet
    let isRequest =
      record.header.type == .acl && packet.count > 8 && packet[6] == ATT.channelID
      && packet[8] == ATTOpcode.readByTypeRequest.rawValue
    if !isRequest { record.withRecord { writer.append($0, to: &octets) } }
  }
  writer.finish(into: &octets)
  return octets
}

/// The logs of the repository, and those of real devices where there are any.
enum Logs {
  static var own: [URL] { Place.captures(withSuffix: ".btsnoop").map { URL(filePath: $0) } }

  static var all: [URL] { own + [Place.treadmill].compactMap(\.self).map { URL(filePath: $0) } }

  /// The own ones with those that are another's copy: pcapng, compressed.
  static var everyFormat: [URL] {
    Place.captures(withSuffix: "").filter { !$0.hasSuffix(".txt") && !$0.hasSuffix(".md") }
      .map { URL(filePath: $0) }
  }

  /// A log as its reader wants it, decompressed.
  static func octets(of file: URL) throws -> [UInt8] {
    var input = try CompressedInput(path: file.path)
    var octets: [UInt8] = []
    while true {
      let piece = try input.next()
      if piece.isEmpty { return octets }
      octets += piece
    }
  }
}

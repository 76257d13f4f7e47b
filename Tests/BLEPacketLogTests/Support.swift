import BLECore
import BLEPacketLog
import BLEWire
import Foundation
import TestKit
import Testing

/// A packet of a log under construction, and what a reader gives back.
struct LoggedPacket: Hashable {
  var type: HCIPacketType
  var direction: HCIDirection
  var octets: [UInt8]
  var timeNanoseconds: Int64 = 1_700_000_000_123_456_000
  var drops: UInt32 = 0

  static func acl(
    _ direction: HCIDirection, _ octets: String, timeNanoseconds: Int64 = 1_700_000_000_123_456_000
  ) -> LoggedPacket {
    LoggedPacket(
      type: .acl, direction: direction, octets: octetsOf(octets), timeNanoseconds: timeNanoseconds)
  }
}

/// The octets of a whole log.
func log(_ packets: [LoggedPacket], format: BTSnoopFormat = .h4) -> [UInt8] {
  var writer = BTSnoopWriter(format: format)
  var log = [UInt8](encoding: BTSnoopHeader.byteCount) { writer.encodeHeader(into: &$0) }
  for packet in packets {
    writer.cumulativeDrops = packet.drops
    let writer = writer
    log += [UInt8](encoding: writer.recordByteCount(packet: packet.octets.count)) {
      writer.encode(
        packet.octets.span, type: packet.type, direction: packet.direction,
        at: ReceiveTime(nanoseconds: packet.timeNanoseconds), into: &$0)
    }
  }
  return log
}

/// What a reader makes of a log that comes in pieces of `chunk` octets.
struct Reading {
  var packets: [LoggedPacket] = []
  var unknown = 0
  var error: WireError?

  init(_ log: [UInt8], chunk: Int = .max) {
    var reader = PacketLogReader()
    do throws(WireError) {
      var offset = 0
      while offset < log.count {
        let end = offset + min(chunk, log.count - offset)
        try reader.read(log.span.extracting(offset..<end)) { record in
          guard let type = record.type else {
            unknown += 1
            return
          }
          packets.append(
            LoggedPacket(
              type: type, direction: record.direction, octets: array(record.packet),
              timeNanoseconds: record.time.nanoseconds, drops: record.header.cumulativeDrops))
        }
        offset = end
      }
      try reader.finish()
    } catch {
      self.error = error
    }
  }
}

/// What the decoder and the JSON printer make of a log: the lines of `ringtap log show --json`.
func decodedLines(_ log: [UInt8]) throws -> [PacketLine] {
  var reader = PacketLogReader()
  var decoder = PacketDecoder()
  var printer = PacketPrinter(style: .json)
  try reader.read(log.span) { record in decoder.decode(record) { printer.print($0) } }
  try reader.finish()
  return try printer.octets.split(separator: UInt8(ascii: "\n")).map {
    try JSONDecoder().decode(PacketLine.self, from: Data($0))
  }
}

/// A line of `log show --json`, read by a JSON library that is not ours.
struct PacketLine: Decodable, Hashable {
  struct Attribute: Decodable, Hashable {
    var opcode: Int
    var handle: Int?
    var offset: Int?
    var value: String?
    var parameters: String?
  }

  var index: Int
  var timeNs: Int64
  var direction: String
  var packetType: String
  var connectionHandle: Int?
  var att: Attribute?
  var problem: String?
}

package import BLEPacketLog
package import BLEWire
import TestKit

/// A packet to be written to a log, or returned by a reader.
package struct LoggedPacket: Hashable {
  package var type: HCIPacketType
  package var direction: HCIDirection
  package var octets: [UInt8]
  package var timeNanoseconds: Int64
  package var drops: UInt32

  package init(
    type: HCIPacketType, direction: HCIDirection, octets: [UInt8],
    timeNanoseconds: Int64 = 1_700_000_000_123_456_000, drops: UInt32 = 0
  ) {
    self.type = type
    self.direction = direction
    self.octets = octets
    self.timeNanoseconds = timeNanoseconds
    self.drops = drops
  }

  package static func acl(
    _ direction: HCIDirection, _ octets: String, timeNanoseconds: Int64 = 1_700_000_000_123_456_000
  ) -> LoggedPacket {
    LoggedPacket(
      type: .acl, direction: direction, octets: octetsOf(octets), timeNanoseconds: timeNanoseconds)
  }
}

/// Makes a complete log.
package func log(_ packets: [LoggedPacket], format: BTSnoopFormat = .h4) -> [UInt8] {
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

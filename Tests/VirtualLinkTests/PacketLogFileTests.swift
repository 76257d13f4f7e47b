import BLEEmulation
import BLEHost
import BLELinux
import BLEPacketLog
import BLEWire
import Foundation
import Recording
import TestKit
import Testing

/// The log of exclusive mode: all packets between host and controller.
@Suite(.timeLimit(.minutes(1))) struct PacketLogFileTests {
  @Test func logsEveryPacketOfASession() async throws {
    try await withFolder { folder in
      let path = folder + "/hci.btsnoop"
      let log = try await PacketLogFile.start(path)
      let ring = quietRing()
      let link = try await VirtualLink.open([ring]) { log.capturing($0) }
      let connection = try await link.adapter.connect(
        to: ring.address, asking: LinkRequest(), timeout: .seconds(10), tap: nil)
      _ = try await connection.read(AttributeHandle(0x0007))
      await connection.close()
      await link.close()
      let outcome = await log.finish()
      #expect(outcome.lost == 0)
      #expect(outcome.failure == nil)

      let octets = [UInt8](try Data(contentsOf: URL(filePath: path)))
      var reader = PacketLogReader()
      var packets: [(HCIPacketType?, HCIDirection, [UInt8])] = []
      try reader.read(octets.span) { record in
        packets.append(
          (record.type, record.direction, record.packet.indices.map { record.packet[$0] }))
      }
      try reader.finish()
      #expect(packets.count == outcome.packets)
      // Reset first, Disconnection Complete (0x05) last, and one Read Request (0x0A) for handle 7 with its
      // response.
      #expect(packets.first?.2 == [0x03, 0x0C, 0x00])
      #expect(packets.last?.0 == .event)
      #expect(packets.last?.2.first == 0x05)
      let att = packets.filter { $0.0 == .acl }
      #expect(att.map(\.1) == [.hostToController, .controllerToHost])
      #expect(att.first.map { Array($0.2.dropFirst(8)) } == [0x0A, 0x07, 0x00])
      #expect(att.last?.2[8] == 0x0B)
    }
  }

  @Test func overwritesNothing() async throws {
    try await withFolder { folder in
      let path = folder + "/log"
      try Data("mine".utf8).write(to: URL(filePath: path))
      await #expect(throws: HostError.self) { _ = try await PacketLogFile.start(path) }
      #expect(try Data(contentsOf: URL(filePath: path)) == Data("mine".utf8))
    }
  }
}

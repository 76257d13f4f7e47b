import BLEPacketLog
import BLEWire
import Foundation
import LogKit
import TestKit
import Testing

/// The logs in `Captures`, compared with tshark's decode from when they were made. Runs without tshark.
@Suite struct PacketLogCaptureTests {
  @Test(arguments: Logs.own)
  func agreesWithTheExpectedDecode(_ file: URL) throws {
    let expected = file.deletingPathExtension().appendingPathExtension("tshark.txt")
    let theirs = try Tshark.packets(in: String(contentsOf: expected, encoding: .utf8))
    let reading = LogReading([UInt8](try Data(contentsOf: file)))
    #expect(reading.error == nil)
    #expect(reading.records.count == theirs.count)
    for (record, packet) in zip(reading.records, theirs) {
      #expect(record.header.index == packet.index)
      #expect(record.header.time.nanoseconds == packet.timeNs)
      if let handle = packet.connectionHandle {
        #expect(record.header.type == .acl)
        #expect(Int(record.packet[0]) | Int(record.packet[1] & 0x0F) << 8 == handle)
      }
      // tshark has these fields only for format 1002.
      if let direction = packet.direction {
        #expect((record.header.direction == .controllerToHost) == (direction == "controllerToHost"))
      }
      if let type = packet.packetType {
        let names: [HCIPacketType: String] = [.command: "command", .acl: "acl", .event: "event"]
        #expect(record.header.type.flatMap { names[$0] } == type)
      }
    }
  }

  /// The pcapng copy has the same content as the original.
  @Test func agreesWithItsOriginal() throws {
    let original = [UInt8](try Data(contentsOf: URL(filePath: Place.capture("exclusive-monitor.btsnoop"))))
    let copy = [UInt8](try Data(contentsOf: URL(filePath: Place.capture("exclusive-monitor.pcapng"))))
    #expect(LogReading(copy).records == LogReading(original).records)
    #expect(LogReading(copy).format == .pcapng)
    #expect(converted(copy, to: .btsnoop(.monitor)) == original)
  }

  /// So does the compressed copy.
  @Test func agreesWithItsOriginalCompressed() throws {
    let original = URL(filePath: Place.capture("bluetoothd-monitor.btsnoop"))
    let copy = URL(filePath: Place.capture("bluetoothd-monitor.btsnoop.gz"))
    #expect(try Logs.octets(of: copy) == [UInt8](Data(contentsOf: original)))
    #expect(try Data(contentsOf: copy).starts(with: [0x1F, 0x8B]))
  }
}

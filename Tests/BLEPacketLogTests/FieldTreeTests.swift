@testable import BLEDissector
import BLEWire
import JSONText
import LogKit
import TestKit
import Testing

import BLEPacketLog

/// The fields of a packet's parameters.
@Suite struct FieldTreeTests {
  private func fields(_ event: String) throws -> [Field] {
    let packet = LoggedPacket(type: .event, direction: .controllerToHost, octets: octetsOf(event))
    var reader = PacketLogReader()
    var decoder = PacketDecoder()
    var fields: [Field] = []
    try reader.read(log([packet]).span) { record in
      decoder.decode(record) { fields = HCIDissector.dissect($0, for: .anyone).fields }
    }
    return fields
  }

  /// LE Connection Complete after its subevent. Core 5.4, Vol 4, Part E, 7.7.65.1.
  @Test func saysWhereEachFieldIs() throws {
    let fields = try fields("3e13 01 00 4000 00 01b2a1000dcb70 180000 00f401 00")
    let places = fields.filter { $0.label != .hidden }.map { ($0.name, $0.octets) }
    #expect(
      places.map(\.0) == [
        nil, "handle", "role", "peerAddressType", "peerAddress", "connectionIntervalMs", "connectionLatency",
        "supervisionTimeoutMs", "centralClockAccuracy",
      ])
    #expect(
      places.map(\.1) == [
        0..<1, 1..<3, 3..<4, 4..<5, 5..<11, 11..<13, 13..<15, 15..<17, 17..<18,
      ])
  }

  /// Two handles are announced, one and a half are there.
  @Test func saysWhatIsMissingInAList() throws {
    let fields = try fields("1308 02 4000 0100 4100 03")
    let handles = try #require(fields.first { $0.name == "handles" })
    #expect(handles.children.count == 2)
    #expect(handles.children[1].children.map(\.name) == ["handle", "problem", "octets"])
    #expect(handles.children[1].children.last?.octets == 7..<8)
  }
}

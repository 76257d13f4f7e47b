import BLEDissector
import BLEPacketLog
import BLEWire
import Foundation
import LogKit
import TestKit
import Testing

/// Handles get the UUIDs that discovery in the same log found. PDUs from Core 5.4, Vol 3, Part F, 3.4.
@Suite struct DiscoveryTests {
  private struct Line: Decodable {
    struct Attribute: Decodable { var uuid: String? }
    var connectionHandle: Int?
    var att: Attribute?
  }

  private func acl(_ direction: HCIDirection, _ pdu: String, handle: UInt8 = 0x40) -> LoggedPacket {
    let pdu = octetsOf(pdu)
    return LoggedPacket(
      type: .acl, direction: direction,
      octets: [
        handle, direction == .hostToController ? 0 : 0x20, UInt8(pdu.count + 4), 0, UInt8(pdu.count), 0, 4, 0,
      ] + pdu)
  }

  private func event(_ octets: String) -> LoggedPacket {
    LoggedPacket(type: .event, direction: .controllerToHost, octets: octetsOf(octets))
  }

  private func uuids(_ packets: [LoggedPacket]) throws -> [String?] {
    var reader = PacketLogReader()
    var decoder = PacketDecoder()
    var printer = PacketPrinter(style: .json)
    let octets = log(packets)
    try reader.read(octets.span) { record in decoder.decode(record) { printer.print($0) } }
    return try printer.octets.split(separator: UInt8(ascii: "\n")).map {
      try JSONDecoder().decode(Line.self, from: Data($0)).att?.uuid
    }
  }

  private static let heartRate = "00002a37-0000-1000-8000-00805f9b34fb"
  private static let nus = "6e400003-b5a3-f393-e0a9-e50e24dcca9e"

  @Test func learnsFromCharacteristicDeclarations() throws {
    let found = try uuids([
      acl(.controllerToHost, "1b 1200 0048"),
      acl(.hostToController, "08 0100 ffff 0328"), acl(.controllerToHost, "09 07 1100 10 1200 372a"),
      acl(.controllerToHost, "1b 1200 0048"), acl(.hostToController, "0a 1200"),
      acl(.controllerToHost, "0b 0048"),
      acl(.controllerToHost, "1b 1300 0048"),
    ])
    #expect(found[0] == nil, "not known yet")
    #expect(found[3] == Self.heartRate)
    #expect(found[4] == Self.heartRate)
    #expect(found[5] == Self.heartRate)
    #expect(found[6] == nil)
  }

  @Test func learnsFromFindInformation() throws {
    let found = try uuids([
      acl(.hostToController, "04 1200 1300"),
      acl(.controllerToHost, "05 02 1200 9ecadc240ee5a9e093f3a3b50300406e"),
      acl(.controllerToHost, "1b 1200 01"),
    ])
    #expect(found[2] == Self.nus)
  }

  @Test func learnsFromADeclarationThatIsRead() throws {
    let found = try uuids([
      acl(.hostToController, "04 1100 1100"), acl(.controllerToHost, "05 01 1100 0328"),
      acl(.hostToController, "0a 1100"), acl(.controllerToHost, "0b 10 1200 372a"),
      acl(.controllerToHost, "1b 1200 0048"),
    ])
    #expect(found[4] == Self.heartRate)
  }

  /// The host may be a server, too: the same handle on the other side is another attribute.
  @Test func keepsTheTwoSidesApart() throws {
    let found = try uuids([
      acl(.hostToController, "04 1200 1200"), acl(.controllerToHost, "05 01 1200 372a"),
      acl(.controllerToHost, "0a 1200"), acl(.hostToController, "0b 00"), acl(.hostToController, "0a 1200"),
    ])
    #expect(found[2] == nil)
    #expect(found[3] == nil)
    #expect(found[4] == Self.heartRate)
  }

  /// A peer that reconnects is not discovered again; another peer on the same connection handle is another
  /// server.
  @Test func remembersAPeer() throws {
    let peer = "3e13 01 00 4000 00 01b2a1000dcb70 180000 00f401 00"
    let other = "3e13 01 00 4000 00 01b3a1000dcb70 180000 00f401 00"
    let found = try uuids([
      event(peer), acl(.hostToController, "04 1200 1200"), acl(.controllerToHost, "05 01 1200 372a"),
      event("0504 00 4000 13"), event(other), acl(.controllerToHost, "1b 1200 01"),
      event("0504 00 4000 13"), event(peer), acl(.controllerToHost, "1b 1200 01"),
    ])
    #expect(found[5] == nil)
    #expect(found[8] == Self.heartRate)
  }
}

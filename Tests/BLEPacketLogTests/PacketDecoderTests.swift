import BLEDissector
import BLEPacketLog
import BLEWire
import LogKit
import TestKit
import Testing

@Suite struct PacketDecoderTests {
  /// One PDU on connection 0x040, channel 4, in one fragment.
  private func acl(_ direction: HCIDirection, pdu: String, handle: UInt16 = 0x040) -> LoggedPacket {
    let pdu = octetsOf(pdu)
    let word = handle | (direction == .hostToController ? 0 : 0x2000)
    let words = [word, UInt16(pdu.count + 4), UInt16(pdu.count), 4]
    let head = words.flatMap { word -> [UInt8] in [UInt8(word & 0xFF), UInt8(word >> 8)] }
    return LoggedPacket(type: .acl, direction: direction, octets: head + pdu)
  }

  private func attributes(_ packets: [LoggedPacket]) throws -> [PacketLine.Attribute?] {
    try decodedLines(log(packets)).map(\.att)
  }

  /// PDUs from Core 5.4, Vol 3, Part F, 3.4; `handle` and `value` follow the table of `DecodedATT`.
  @Test(
    arguments: [
      ("12 1100 55aa", 0x11, nil, "55aa"), ("12 1100", 0x11, nil, ""), ("52 1000 a104", 0x10, nil, "a104"),
      ("1b 1200 0502", 0x12, nil, "0502"), ("1d 0300", 0x03, nil, ""),
      ("d2 1000 77 000000000102030405060708", 0x10, nil, "77"),
      ("16 2000 0500 0102", 0x20, 5, "0102"), ("17 2000 0500 0102", 0x20, 5, "0102"),
      ("0a 0300", 0x03, nil, nil), ("0c 0300 1600", 0x03, 0x16, nil), ("01 0a 0300 02", 0x03, nil, nil),
      ("05 01 0500 0229", 0x05, nil, nil), ("07 0100 0500 0600 ffff", 0x01, nil, nil),
      ("09 07 0200 02 0300 002a", 0x02, nil, nil), ("11 06 0100 0500 0018", 0x01, nil, nil),
      ("0e 0300 0500", 0x03, nil, nil), ("20 0300 0500", 0x03, nil, nil), ("23 0300 0100 aa", 0x03, nil, nil),
      ("04 0100 ffff", nil, nil, nil), ("06 0100 ffff 0028 0d18", nil, nil, "0d18"),
      ("08 0100 ffff 0328", nil, nil, nil), ("02 f700", nil, nil, nil),
      ("1e", nil, nil, nil), ("18 01", nil, nil, nil), ("7f 0102", nil, nil, nil),
    ] as [(String, Int?, Int?, String?)])
  func reducesEachPDU(pdu: String, handle: Int?, offset: Int?, value: String?) throws {
    let direction: HCIDirection = .controllerToHost
    let line = try #require(try decodedLines(log([acl(direction, pdu: pdu)])).first)
    let att = try #require(line.att)
    #expect(line.connectionHandle == 0x040)
    #expect(line.problem == nil)
    let octets = octetsOf(pdu)
    #expect(att.opcode == Int(octets[0]))
    #expect(att.handle == handle)
    #expect(att.offset == offset)
    #expect(att.value == value)
    // `parameters` has everything that is not in other keys.
    #expect(att.parameters == nil || octetsOf(att.parameters ?? "") == Array(octets[1...]))
    let isSaid =
      (value != nil && octets[0] != 0xD2 && octets[0] != 0x06) || [0x0A, 0x0C, 0x1E].contains(octets[0])
    #expect((att.parameters == nil) == isSaid)
  }

  @Test(arguments: [
    "12 11", "1b", "1d 03", "16 2000 05", "0a", "0c 0300", "01 0a 0300", "05 01 05", "09 07 02",
  ])
  func saysWhyAShortPDUHasNoHandle(_ pdu: String) throws {
    let line = try #require(try decodedLines(log([acl(.controllerToHost, pdu: pdu)])).first)
    #expect(line.att?.opcode == Int(octetsOf(pdu)[0]))
    #expect(line.att?.handle == nil)
    #expect(line.att?.value == nil)
    #expect(line.problem?.hasPrefix("ATT at byte") == true)
  }

  @Test func givesAResponseTheHandleOfItsRequest() throws {
    let read = acl(.hostToController, pdu: "0a 0300")
    let answer = acl(.controllerToHost, pdu: "0b 4142")
    #expect(try attributes([answer])[0]?.handle == nil)
    #expect(try attributes([read, answer])[1] == .init(opcode: 0x0B, handle: 3, value: "4142"))
    #expect(try attributes([read, answer, answer])[2]?.handle == nil, "one answer to a request")
    // Responses to another request, on another link, or in the same direction do not match.
    #expect(try attributes([read, acl(.controllerToHost, pdu: "13")])[1]?.handle == nil)
    #expect(try attributes([read, acl(.controllerToHost, pdu: "0b", handle: 0x041)])[1]?.handle == nil)
    #expect(try attributes([read, acl(.hostToController, pdu: "0b 01")])[1]?.handle == nil)
    // A notification in between does not matter, and the peer may send a request at the same time.
    let lines = try attributes([
      acl(.hostToController, pdu: "12 1500 0100"), acl(.controllerToHost, pdu: "0a 0900"),
      acl(.controllerToHost, pdu: "1b 1200 05"), acl(.controllerToHost, pdu: "13"),
      acl(.hostToController, pdu: "0b 07"),
    ])
    #expect(lines.map(\.?.handle) == [0x15, 0x09, 0x12, 0x15, 0x09])
    // An indication may arrive while a request is outstanding, and vice versa.
    let indicated = try attributes([
      read, acl(.controllerToHost, pdu: "1d 0700 01"), acl(.hostToController, pdu: "1e"), answer,
      acl(.hostToController, pdu: "1e"),
    ])
    #expect(indicated.map(\.?.handle) == [3, 7, 7, 3, nil])
  }

  @Test func putsFragmentsTogetherForEachLinkAndDirection() throws {
    // A notification of 5 bytes in three fragments, with another link and the other direction in between.
    let lines = try decodedLines(
      log([
        .acl(.controllerToHost, "4020 0500 0800 0400 1b"),
        .acl(.controllerToHost, "4120 0600 0400 0400 1b05"),
        .acl(.hostToController, "4000 0700 0300 0400 0a0300"),
        .acl(.controllerToHost, "4010 0300 120001"),
        .acl(.controllerToHost, "4110 0200 0099"),
        .acl(.controllerToHost, "4010 0400 02030405"),
      ]))
    #expect(lines.map { $0.att?.opcode } == [nil, nil, 0x0A, nil, 0x1B, 0x1B])
    #expect(lines[4].att == .init(opcode: 0x1B, handle: 5, value: "99"))
    #expect(lines[5].att == .init(opcode: 0x1B, handle: 0x12, value: "0102030405"))
    #expect(lines[5].connectionHandle == 0x040)
    #expect(lines.allSatisfy { $0.problem == nil })
  }

  @Test func forgetsALinkThatEnded() throws {
    let disconnected = LoggedPacket(
      type: .event, direction: .controllerToHost, octets: octetsOf("05 04 00 4000 13"))
    let lines = try decodedLines(
      log([
        acl(.hostToController, pdu: "0a 0300"), .acl(.controllerToHost, "4020 0500 0800 0400 1b"),
        disconnected, acl(.controllerToHost, pdu: "0b 01"), .acl(.controllerToHost, "4010 0300 120001"),
      ]))
    #expect(lines[3].att == .init(opcode: 0x0B, value: "01"))
    #expect(lines[4].problem != nil, "a continuation without a start")
  }

  @Test func namesOddPacketsAndGoesOn() throws {
    let lines = try decodedLines(
      log([
        .acl(.controllerToHost, ""), .acl(.controllerToHost, "402005"),
        .acl(.controllerToHost, "4020 0900 0300 0400 0a0300"), .acl(.controllerToHost, "4010 0100 00"),
        LoggedPacket(type: .event, direction: .controllerToHost, octets: octetsOf("05 09 00")),
        LoggedPacket(type: HCIPacketType(rawValue: 0x33), direction: .controllerToHost, octets: [1, 2]),
        acl(.controllerToHost, pdu: ""), acl(.controllerToHost, pdu: "1b 1200 05"),
      ]))
    #expect(lines.map(\.index) == Array(1...8))
    #expect(
      lines.map(\.packetType) == ["acl", "acl", "acl", "acl", "event", "unknown", "acl", "acl"])
    #expect(lines.map { $0.problem != nil } == [true, true, true, true, true, false, true, false])
    #expect(lines[7].att?.value == "05")
  }

  @Test func limitsTheLinks() throws {
    var packets: [LoggedPacket] = []
    for handle in 0..<UInt16(PacketDecoder.maximumLinks + 1) {
      packets.append(acl(.hostToController, pdu: "0a 0300", handle: handle))
    }
    // Link 0 was evicted, link 1 is still known.
    packets.append(acl(.controllerToHost, pdu: "0b", handle: 1))
    packets.append(acl(.controllerToHost, pdu: "0b", handle: 0))
    let lines = try decodedLines(log(packets))
    #expect(lines[lines.count - 2].att?.handle == 3)
    #expect(lines[lines.count - 1].att?.handle == nil)
  }

  @Test func readsOnlyTheATTChannel() throws {
    let lines = try decodedLines(
      log([
        .acl(.controllerToHost, "4020 0600 0200 0500 0b01"),
        .acl(.controllerToHost, "4020 0600 0200 0600 0b01"),
      ]))
    #expect(lines.map(\.att) == [nil, nil])
  }
}

@Suite struct PacketPrinterTests {
  private func text(_ packets: [LoggedPacket]) throws -> String {
    var reader = PacketLogReader()
    var decoder = PacketDecoder()
    var printer = PacketPrinter(style: .text)
    try reader.read(log(packets).span) { record in decoder.decode(record) { printer.print($0) } }
    return String(decoding: printer.octets, as: UTF8.self)
  }

  @Test func printsForPeople() throws {
    let start: Int64 = 1_700_000_000_000_000_000
    let reset = LoggedPacket(
      type: .command, direction: .hostToController, octets: octetsOf("030c00"), timeNanoseconds: start)
    let printed = try text([
      reset,
      .acl(.hostToController, "0002 0b00 0700 0400 12 1100 55aa0102", timeNanoseconds: start + 1_500_000),
      .acl(
        .controllerToHost, "0022 1700 1300 0400 1b 1200 a10229812acd29c1010c01000000003c",
        timeNanoseconds: start - 2_000),
      .acl(.controllerToHost, "0022 0900 01", timeNanoseconds: start + 61_000_000_000),
    ])
    #expect(
      printed == """
        < HCI Command: Reset (0x03|0x0003) plen 0                            #1 0.000000
        < ACL Data TX: Handle 512 flags 0x00 dlen 11                         #2 0.001500
              ATT: Write Request (0x12) len 6
                Handle: 0x0011
                  Data: 55aa0102
        > ACL Data RX: Handle 512 flags 0x02 dlen 23                        #3 -0.000002
              ATT: Handle Value Notification (0x1b) len 18
                Handle: 0x0012
                  Data: a10229812acd29c1010c01000000003c
                  Ring PPG: 10625, max 10957, min 10689, diff 268
        > ACL Data RX: Handle 512 flags 0x02 dlen 1                         #4 61.000000
                ! malformed: ACL data at byte 2: the length field says 9 bytes, 1 is there
                00 22 09 00 01                                   ."...

        """)
  }

  @Test func hasTheKeysOfTheDesign() throws {
    var reader = PacketLogReader()
    var decoder = PacketDecoder()
    var printer = PacketPrinter(style: .json)
    let packets: [LoggedPacket] = [
      LoggedPacket(
        type: .event, direction: .controllerToHost, octets: octetsOf("0e0401030c00"), timeNanoseconds: -5_000),
      .acl(.controllerToHost, "0022 0900 0500 0400 1b 1200 0502", timeNanoseconds: 1_612_150_092_774_733_000),
    ]
    try reader.read(log(packets).span) { record in decoder.decode(record) { printer.print($0) } }
    #expect(
      String(decoding: printer.octets, as: UTF8.self) == """
        {"index":1,"timeNs":"-5000","direction":"controllerToHost","packetType":"event",\
        "adapter":0,"event":14,"eventName":"Command Complete","opcode":3075,"opcodeName":"Reset","status":0,\
        "statusName":"Success","parameters":{"numHciCommandPackets":1}}
        {"index":2,"timeNs":"1612150092774733000","direction":"controllerToHost","packetType":"acl",\
        "adapter":0,"connectionHandle":512,"l2cap":{"cid":4},"att":{"opcode":27,"handle":18,"value":"0502"}}

        """)
  }
}

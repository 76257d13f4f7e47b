import BLEPacketLog
import BLEWire
import LogKit
import TestKit
import Testing

@Suite struct BTSnoopWriterTests {
  /// The first 44 bytes of a log written by an Android phone, an HCI Reset. tshark gives its time as
  /// 1612150079.092423.
  static let androidReset = octetsOf(
    """
    6274736e6f6f7000 00000001 000003ea
    00000004 00000004 00000002 00000000 00e297f0fff976c7 01030c00
    """.replacing("\n", with: ""))

  @Test func writesWhatAndroidWrites() {
    let reset = LoggedPacket(
      type: .command, direction: .hostToController, octets: octetsOf("030c00"),
      timeNanoseconds: 1_612_150_079_092_423_000)
    #expect(log([reset]) == Self.androidReset)
    #expect(LogReading(Self.androidReset).packets == [reset])
  }

  @Test(
    arguments: [
      (.command, .hostToController, 0x02), (.event, .controllerToHost, 0x03), (.acl, .hostToController, 0x00),
      (.acl, .controllerToHost, 0x01), (.sco, .hostToController, 0x00), (.iso, .controllerToHost, 0x01),
    ] as [(HCIPacketType, HCIDirection, UInt8)])
  func setsTheFlags(_ type: HCIPacketType, _ direction: HCIDirection, _ flags: UInt8) {
    for format in [BTSnoopFormat.h4, .unencapsulated] {
      let packet = LoggedPacket(type: type, direction: direction, octets: [0, 0, 0, 0])
      let octets = log([packet], format: format)
      #expect(Array(octets[24..<28]) == [0, 0, 0, flags])
      #expect(octets.count == 16 + 24 + (format == .h4 ? 5 : 4))
    }
  }

  /// BlueZ's `doc/btsnoop-protocol.rst`: adapter in the upper half, opcode in the lower.
  @Test(
    arguments: [
      (.command, .hostToController, 2), (.event, .controllerToHost, 3), (.acl, .hostToController, 4),
      (.acl, .controllerToHost, 5), (.sco, .hostToController, 6), (.sco, .controllerToHost, 7),
      (.iso, .hostToController, 18), (.iso, .controllerToHost, 19),
    ] as [(HCIPacketType, HCIDirection, UInt8)])
  func writesMonitorOpcodes(_ type: HCIPacketType, _ direction: HCIDirection, _ opcode: UInt8) {
    let octets: [UInt8] = [1, 2, 3]
    let record = [UInt8](encoding: 64) {
      BTSnoopWriter(format: .monitor).encode(
        octets.span, type: type, direction: direction, adapter: 3, at: ReceiveTime(nanoseconds: 0), into: &$0)
    }
    #expect(Array(record[8..<12]) == [0, 3, 0, opcode])
    #expect(record.count == 24 + 3)
  }

  @Test func wrapsAnL2CAPPayload() {
    let pdu = octetsOf("1b1200 0502")
    let writer = BTSnoopWriter()
    for (direction, header) in [
      (HCIDirection.controllerToHost, "02 0022 0900"), (.hostToController, "02 0002 0900"),
    ] {
      let record = [UInt8](encoding: writer.recordByteCount(l2capPayload: pdu.count)) {
        writer.encode(
          l2capPayload: pdu.span, handle: ConnectionHandle(0x0200), direction: direction,
          at: ReceiveTime(nanoseconds: 0), into: &$0)
      }
      #expect(Array(record[24...]) == octetsOf(header + "05000400 1b12000502"))
      #expect(record.count == writer.recordByteCount(l2capPayload: pdu.count))
      #expect(Array(record[0..<8]) == [0, 0, 0, 14, 0, 0, 0, 14])
    }
  }

  @Test(
    arguments: [
      (0, 0x00DC_DDB3_0F2F_8000), (999, 0x00DC_DDB3_0F2F_8000), (1_000, 0x00DC_DDB3_0F2F_8001),
      (-1, 0x00DC_DDB3_0F2F_7FFF), (946_684_800_000_000_000, 0x00E0_3AB4_4A67_6000),
    ] as [(Int64, Int64)])
  func countsFromTheEpoch(nanoseconds: Int64, microseconds: Int64) {
    #expect(BTSnoopRecordHeader.microseconds(of: ReceiveTime(nanoseconds: nanoseconds)) == microseconds)
  }

  @Test(arguments: [Int64.min, .max, 0, -1])
  func takesAnyTime(_ microseconds: Int64) {
    var header = BTSnoopRecordHeader(
      originalByteCount: 0, includedByteCount: 0, flags: 0, cumulativeDrops: 0, microseconds: microseconds)
    _ = header.time
    header.microseconds = BTSnoopRecordHeader.microseconds(of: ReceiveTime(nanoseconds: microseconds))
    _ = header.time
  }
}

@Suite struct BTSnoopReaderTests {
  static let packets: [LoggedPacket] = [
    LoggedPacket(type: .command, direction: .hostToController, octets: octetsOf("030c00")),
    LoggedPacket(type: .event, direction: .controllerToHost, octets: octetsOf("0e0401030c00")),
    LoggedPacket(type: .acl, direction: .hostToController, octets: octetsOf("00020700030004000a0300")),
    LoggedPacket(
      type: .acl, direction: .controllerToHost, octets: octetsOf("00220700030004000b0102"), drops: 7),
    LoggedPacket(type: .acl, direction: .controllerToHost, octets: [], drops: 0xFFFF_FFFF),
  ]

  @Test(arguments: [BTSnoopFormat.h4, .unencapsulated, .monitor])
  func givesBackWhatWasWritten(_ format: BTSnoopFormat) {
    let reading = LogReading(log(Self.packets, format: format))
    #expect(reading.packets == Self.packets)
    #expect(reading.error == nil)
  }

  @Test(arguments: [BTSnoopFormat.h4, .unencapsulated, .monitor])
  func readsPiecesOfAnySize(_ format: BTSnoopFormat) {
    let log = log(Self.packets, format: format)
    for chunk in 1...log.count {
      let reading = LogReading(log, chunk: chunk)
      #expect(reading.packets == Self.packets)
      #expect(reading.error == nil)
    }
  }

  @Test func keepsTheGoodRecordsOfATornLog() {
    let whole = log(Self.packets)
    // Start of each record, and end of the last one.
    var borders = [16]
    for packet in Self.packets { borders.append(borders[borders.count - 1] + 24 + 1 + packet.octets.count) }
    for count in 0..<whole.count {
      for chunk in [1, 7, Int.max] {
        let reading = LogReading(Array(whole[..<count]), chunk: chunk)
        let complete = max(0, borders.count { $0 <= count } - 1)
        #expect(reading.packets == Array(Self.packets[..<complete]))
        let start = count < 16 ? 0 : borders[complete]
        if count == start, count > 0 {
          #expect(reading.error == nil)
        } else {
          #expect(reading.error?.layer == (count < 16 ? .packetLog : .btsnoop))
          #expect(reading.error?.offset == start)
          guard case .truncated(let needed, let available) = reading.error?.reason else {
            Issue.record("cut at \(count): \(String(describing: reading.error))")
            continue
          }
          #expect(available == count - start)
          #expect(needed > available)
        }
      }
    }
  }

  @Test(arguments: [(0, 0x6374_736E), (8, 2), (12, 1003), (12, 1000), (12, 0xFFFF_FFFF)] as [(Int, UInt32)])
  func refusesOtherFiles(offset: Int, value: UInt32) {
    var octets = log(Self.packets)
    octets.replaceSubrange(offset..<offset + 4, with: [24, 16, 8, 0].map { UInt8(value >> $0 & 0xFF) })
    for chunk in [1, Int.max] {
      let reading = LogReading(octets, chunk: chunk)
      #expect(reading.packets.isEmpty)
      #expect(
        reading.error == WireError(offset == 0 ? .packetLog : .btsnoop, offset: offset, .invalidValue(value)))
    }
  }

  @Test(arguments: [0xFFFF_FFFF, 0x8000_0000, 65_541, 0x7FFF_FFFF] as [UInt32])
  func stopsAtAnImpossibleLength(_ length: UInt32) {
    var octets = log(Self.packets)
    let start = 16 + 28
    octets.replaceSubrange(start + 4..<start + 8, with: [24, 16, 8, 0].map { UInt8(length >> $0 & 0xFF) })
    for chunk in [1, 30, Int.max] {
      let reading = LogReading(octets, chunk: chunk)
      #expect(reading.packets == [Self.packets[0]])
      #expect(reading.error == WireError(.btsnoop, offset: start + 4, .invalidValue(length)))
    }
  }

  @Test func repeatsItsError() {
    var reader = PacketLogReader()
    let bad = octetsOf("00000000000000000000000000000000")
    let good = log(Self.packets)
    let expected = WireError(.packetLog, offset: 0, .invalidValue(0))
    #expect(throws: expected) { try reader.read(bad.span) { _ in } }
    #expect(throws: expected) { try reader.read(good.span) { _ in } }
    #expect(throws: expected) { try reader.finish() }
  }

  @Test func takesTheLongestPacket() {
    let longest = LoggedPacket(
      type: .acl, direction: .controllerToHost, octets: [UInt8](repeating: 0x55, count: 4 + 65_535))
    let log = log([longest, Self.packets[0]])
    #expect(log.count == 16 + BTSnoopWriter.maximumRecordByteCount + 28)
    for chunk in [1_000, 65_536, Int.max] {
      #expect(LogReading(log, chunk: chunk).packets == [longest, Self.packets[0]])
    }
  }

  /// An index record, a note and user logging between the packets of format 2001.
  @Test func passesOverMonitorNotes() throws {
    var octets = log(Self.packets, format: .monitor)
    for opcode: UInt8 in [0, 8, 12, 13] {
      octets += octetsOf("00000003 00000003 000000") + [opcode] + octetsOf("00000000 00dcddb30f2f8000 6e6f00")
    }
    octets += log([Self.packets[0]], format: .monitor)[16...]
    let reading = LogReading(octets)
    #expect(reading.packets == Self.packets + [Self.packets[0]])
    #expect(reading.unknown == 4)
    // Notes are numbered too, as in tshark and btmon.
    #expect(try decodedLines(octets).map(\.index) == [1, 2, 3, 4, 5, 10])
  }

  /// bumble sets bit 4 instead of bit 1: for H4 packets the type byte decides.
  @Test func readsBumblesFlags() {
    var octets = log([Self.packets[1]])
    octets[27] = 0x11
    #expect(LogReading(octets).packets == [Self.packets[1]])
  }

  @Test func survivesRandomOctets() {
    var generator = SeededGenerator(state: 1)
    let whole = log(Self.packets)
    for _ in 0..<2_000 {
      var octets = whole
      for _ in 0..<Int.random(in: 1...8, using: &generator) {
        octets[Int.random(in: octets.indices, using: &generator)] = UInt8.random(
          in: 0...255, using: &generator)
      }
      let reading = LogReading(octets, chunk: Int.random(in: 1...200, using: &generator))
      #expect(reading.packets.count + reading.unknown <= whole.count / 24)
      _ = try? decodedLines(octets)
    }
  }
}

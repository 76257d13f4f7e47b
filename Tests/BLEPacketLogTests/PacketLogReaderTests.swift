import BLEPacketLog
import BLEWire
import LogKit
import TestKit
import Testing

/// Fixtures are laid out by hand from the descriptions of the formats.
@Suite struct PacketLogReaderTests {
  static let reset = octetsOf("01 030c00")
  static let complete = octetsOf("04 0e0401030c00")

  @Test(arguments: [LogByteOrder.little, .big])
  func readsPcapWithDirection(_ order: LogByteOrder) {
    let frames = [octetsOf("00000000") + Self.reset, octetsOf("00000001") + Self.complete]
    for (magic, unit) in [(UInt32(0xA1B2_C3D4), Int64(1_000)), (0xA1B2_3C4D, 1)] {
      let file = pcapFile(
        order, magic: magic, linkType: 201,
        [(1_700_000_000, 123_456, frames[0]), (4_000_000_000, 999_999, frames[1])])
      for chunk in [1, 5, 17, Int.max] {
        let reading = LogReading(file, chunk: chunk)
        #expect(reading.error == nil)
        #expect(
          reading.packets == [
            LoggedPacket(
              type: .command, direction: .hostToController, octets: octetsOf("030c00"),
              timeNanoseconds: 1_700_000_000_000_000_000 + 123_456 * unit),
            LoggedPacket(
              type: .event, direction: .controllerToHost, octets: octetsOf("0e0401030c00"),
              timeNanoseconds: 4_000_000_000_000_000_000 + 999_999 * unit),
          ])
      }
    }
  }

  /// Adapter and opcode are big-endian, whatever the file's byte order.
  @Test(arguments: [LogByteOrder.little, .big])
  func readsPcapOfTheMonitor(_ order: LogByteOrder) {
    let file = pcapFile(
      order, linkType: 254,
      [
        (1, 0, octetsOf("0003 0000 00 01 a6a5a4a3a2a1 6863693000000000")),
        (2, 0, octetsOf("0003 0002 030c00")),
        (3, 0, octetsOf("0003 0005 0020 0400 0000 0400")), (4, 0, octetsOf("ffff 000c 6e6f746500")),
        (5, 0, octetsOf("0003 0063 00")),
      ])
    let records = LogReading(file).records
    #expect(records.map(\.header.adapter) == [3, 3, 3, 0xFFFF, 3])
    #expect(
      records.map(\.header.note) == [.newIndex, nil, nil, .systemNote, MonitorOpcode(rawValue: 0x63)])
    #expect(records.map(\.header.type) == [nil, .command, .acl, nil, nil])
    #expect(records[2].header.direction == .controllerToHost)
    #expect(records[3].packet == Array("note\0".utf8))
  }

  /// If the file has no direction, the type and the boundary flag determine it.
  @Test func readsPcapWithoutDirection() {
    let frames = ["01 030c00", "04 0e0401030c00", "02 0000 0400 0000 0400", "02 0020 0400 0000 0400"]
    let file = pcapFile(.little, linkType: 187, frames.map { (1, 0, octetsOf($0)) })
    #expect(
      LogReading(file).packets.map(\.direction) == [
        .hostToController, .controllerToHost, .hostToController, .controllerToHost,
      ])
  }

  @Test(arguments: [LogByteOrder.little, .big])
  func readsPcapNG(_ order: LogByteOrder) {
    var log = PcapNGBuilder(order)
    log.block(0x0000_0BAD, [1, 2, 3, 4, 5, 6, 7, 8])  // unknown
    log.interface(201, options: log.option(2, Array("hci2".utf8)) + log.option(9, [9]) + log.option(0, []))
    log.interface(187)
    log.interface(1)  // Ethernet
    log.enhanced(
      octetsOf("00000001") + Self.complete, units: 1_700_000_000_123_456_789,
      options: log.option(1, Array("here".utf8)) + log.option(4, log.number(UInt64(3))) + log.option(0, []))
    // Direction from the flags: 2 is outbound.
    log.enhanced(
      octetsOf("02 0020 0400 0000 0400"), units: 1_700_000_000_123_456, interface: 1,
      options: log.option(2, log.number(UInt32(2))))
    log.enhanced(octetsOf("ffffffffffff ffffffffffff 0800"), units: 7, interface: 2)
    log.block(4, [0, 0, 0, 0])  // name resolution
    // Simple and obsolete packets belong to the first interface.
    log.block(3, log.number(UInt32(8)) + octetsOf("00000000") + Self.reset)
    log.block(
      2,
      log.number(UInt16(0)) + log.number(UInt16(4)) + log.number(UInt32(0)) + log.number(UInt32(9))
        + log.number(UInt32(8)) + log.number(UInt32(20)) + octetsOf("00000000") + Self.reset)
    for chunk in [1, 3, 100, Int.max] {
      let reading = LogReading(log.file, chunk: chunk)
      #expect(reading.error == nil)
      let records = reading.records
      #expect(records.map(\.header.index) == [1, 2, 3, 4, 5])
      #expect(records.map(\.header.adapter) == [2, 1, 2, 2, 2])
      #expect(records.map(\.header.type) == [.event, .acl, nil, .command, .command])
      #expect(
        records.map(\.header.direction) == [
          .controllerToHost, .hostToController, .hostToController, .hostToController, .hostToController,
        ])
      #expect(
        records.map(\.header.time.nanoseconds) == [
          1_700_000_000_123_456_789, 1_700_000_000_123_456_000, 7_000, 7_000, 9,
        ])
      #expect(records.map(\.header.drops) == [3, 0, 0, 0, 4])
      #expect(records.map(\.header.cumulativeDrops) == [3, 3, 3, 3, 7])
      #expect(records[0].comment == Array("here".utf8))
      #expect(records[4].header.originalByteCount == 20 - 5)
    }
  }

  /// `if_tsresol`: powers of ten and of two, and `if_tsoffset`.
  @Test(
    arguments: [
      (6, 1_500_000, 0, 1_500_000_000), (0, 7, 0, 7_000_000_000), (3, 5, 0, 5_000_000), (9, 11, 0, 11),
      (12, 1_999, 0, 1), (0x80, 7, 0, 7_000_000_000), (0x81, 3, 0, 1_500_000_000),
      (0x8A, 512, 0, 500_000_000), (0x94, 1 << 19, 0, 500_000_000), (0xA0, 1 << 31, 0, 500_000_000),
      (6, 1, 10, 10_000_001_000), (6, 1, -1, -999_999_000), (127, .max, 0, 0), (0xFF, .max, 0, 0),
      (0, .max, 0, Int64.max), (9, UInt64(bitPattern: -5), 0, -5),
    ] as [(UInt8, UInt64, Int64, Int64)])
  func readsAnyResolution(resolution: UInt8, units: UInt64, offset: Int64, nanoseconds: Int64) {
    for order in [LogByteOrder.little, .big] {
      var log = PcapNGBuilder(order)
      log.interface(201, options: log.option(9, [resolution]) + log.option(14, log.number(offset)))
      log.enhanced(octetsOf("00000000") + Self.reset, units: units)
      #expect(LogReading(log.file).records.map(\.header.time.nanoseconds) == [nanoseconds])
    }
  }

  /// Each section has its own byte order and interfaces.
  @Test func readsSeveralSections() {
    var first = PcapNGBuilder(.big)
    first.interface(187)
    first.enhanced(Self.reset, units: 1)
    var second = PcapNGBuilder(.little)
    second.interface(201, options: second.option(2, Array("hci7".utf8)))
    second.enhanced(octetsOf("00000001") + Self.complete, units: 2)
    let reading = LogReading(first.file + second.file)
    #expect(reading.error == nil)
    #expect(reading.records.map(\.header.adapter) == [0, 7])
    #expect(reading.records.map(\.packet) == [octetsOf("030c00"), octetsOf("0e0401030c00")])
  }

  /// Statistics count drops that no packet reported.
  @Test(arguments: [LogByteOrder.little, .big])
  func countsDropsOfStatistics(_ order: LogByteOrder) {
    var log = PcapNGBuilder(order)
    log.interface(187)
    log.enhanced(Self.reset, units: 1, options: log.option(4, log.number(UInt64(3))))
    log.block(
      5,
      log.number(UInt32(0)) + log.number(UInt64(0)) + log.option(5, log.number(UInt64(4)))
        + log.option(7, log.number(UInt64(6))) + log.option(0, []))
    #expect(LogReading(log.file).cumulativeDrops == 10)
  }

  /// An unknown block may be longer than any packet; it is not stored.
  @Test func passesOverALongBlock() {
    var log = PcapNGBuilder()
    log.block(10, [UInt8](repeating: 7, count: 3 << 20))
    log.interface(187)
    log.enhanced(Self.reset, units: 1)
    for chunk in [65_536, 1 << 22] {
      let reading = LogReading(log.file, chunk: chunk)
      #expect(reading.error == nil)
      #expect(reading.records.count == 1)
    }
  }

  @Test(arguments: [LogByteOrder.big, .little])
  func readsPacketLogger(_ order: LogByteOrder) {
    let file = packetLoggerFile(
      order,
      [
        (1_700_000_000, 5, 0x00, octetsOf("030c00")), (1_700_000_000, 6, 0x01, octetsOf("0e0401030c00")),
        (1_700_000_001, 7, 0x02, octetsOf("0000 0400 0000 0400")),
        (1_700_000_001, 8, 0x03, octetsOf("0020 0400 0000 0400")),
        (1_700_000_001, 9, 0xFC, Array("hello".utf8)),
        (1_700_000_001, 10, 0x0B, [1, 2]), (1_700_000_002, 999_999, 0x09, octetsOf("0100 00")),
      ])
    for chunk in [1, 14, Int.max] {
      let reading = LogReading(file, chunk: chunk)
      #expect(reading.error == nil)
      #expect(reading.format == .packetLogger(order))
      #expect(reading.records.map(\.header.type) == [.command, .event, .acl, .acl, nil, nil, .sco])
      #expect(
        reading.packets.map(\.direction) == [
          .hostToController, .controllerToHost, .hostToController, .controllerToHost, .controllerToHost,
        ])
      #expect(reading.records[4].header.note == .systemNote)
      #expect(reading.records[6].header.time.nanoseconds == 1_700_000_002_999_999_000)
      #expect(reading.records[1].packet == octetsOf("0e0401030c00"))
    }
  }

  /// Records keep the order of the file, not of their times.
  @Test func keepsTimeThatGoesBack() {
    let file = pcapFile(
      .little, linkType: 187, [(9, 0, Self.reset), (3, 0, Self.complete), (5, 0, Self.reset)])
    #expect(
      LogReading(file).records.map(\.header.time.nanoseconds) == [
        9_000_000_000, 3_000_000_000, 5_000_000_000,
      ])
  }

  /// H4 has five types; others are kept unchanged.
  @Test func keepsUnknownTypes() {
    let file = pcapFile(
      .little, linkType: 201, [(1, 0, octetsOf("00000001 77 0102")), (1, 0, octetsOf("00000001"))])
    let records = LogReading(file).records
    #expect(records.map(\.header.type) == [HCIPacketType(rawValue: 0x77), nil])
    #expect(records.map(\.packet) == [[1, 2], []])
  }
}

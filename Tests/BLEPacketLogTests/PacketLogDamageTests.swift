import BLEPacketLog
import BLEWire
import LogKit
import TestKit
import Testing

/// Damaged logs: the good part is read, and the offset of the damage is reported.
@Suite struct PacketLogDamageTests {
  struct Sample: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var file: [UInt8]
    /// End offset of each record, block or file header, and the number of complete packets before it.
    var ends: [(offset: Int, packets: Int)]
    var layer: WireError.Layer
  }

  static let frames = [octetsOf("00000000 01 030c00"), octetsOf("00000001 04 0e0401030c00")]

  static let samples: [Sample] = {
    var samples: [Sample] = []
    for order in [LogByteOrder.little, .big] {
      let one = pcapFile(order, linkType: 201, [(1, 2, frames[0])])
      let two = pcapFile(order, linkType: 201, [(1, 2, frames[0]), (3, 4, frames[1])])
      samples.append(
        Sample(
          testDescription: "pcap \(order)", file: two,
          ends: [(0, 0), (24, 0), (one.count, 1), (two.count, 2)],
          layer: .pcap))
      var log = PcapNGBuilder(order)
      var ends = [(0, 0), (log.file.count, 0)]
      log.interface(201, options: log.option(2, Array("hci0".utf8)))
      ends.append((log.file.count, 0))
      for (index, frame) in frames.enumerated() {
        log.enhanced(frame, units: 5)
        ends.append((log.file.count, index + 1))
      }
      samples.append(Sample(testDescription: "pcapng \(order)", file: log.file, ends: ends, layer: .pcapng))
      let packets: [(UInt32, UInt32, UInt8, [UInt8])] = [
        (1, 2, 0x00, octetsOf("030c00")), (3, 4, 0x01, octetsOf("0e0401030c00")),
      ]
      let first = packetLoggerFile(order, [packets[0]]).count
      let whole = packetLoggerFile(order, packets)
      samples.append(
        Sample(
          testDescription: "PacketLogger \(order)", file: whole,
          ends: [(0, 0), (first, 1), (whole.count, 2)],
          layer: .packetLogger))
    }
    return samples
  }()

  @Test(arguments: samples)
  func keepsWhatIsWhole(_ sample: Sample) {
    for count in 0...sample.file.count {
      for chunk in [1, 7, Int.max] {
        let reading = LogReading(Array(sample.file[..<count]), chunk: chunk)
        guard let last = sample.ends.last(where: { $0.offset <= count }) else { return }
        #expect(reading.records.count == last.packets)
        if count == last.offset, count > 0 {
          #expect(reading.error == nil)
          continue
        }
        #expect(reading.error?.offset == last.offset)
        #expect(reading.error?.layer == (reading.format == nil ? .packetLog : sample.layer))
        guard case .truncated(let needed, let available) = reading.error?.reason else {
          Issue.record("cut at \(count): \(String(describing: reading.error))")
          continue
        }
        #expect(available == count - last.offset)
        #expect(needed > available)
      }
    }
  }

  /// After a power failure, zeros fill parts of a file that were allocated but not written: they are not
  /// records.
  @Test(arguments: [24, 100, 4_000])
  func takesNoZerosForBTSnoopRecords(_ zeros: Int) {
    let file =
      octetsOf("6274736e6f6f7000 00000001 000003ea")
      + octetsOf("00000004 00000004 00000002 00000000 00e3d5e3 8d0b9a80 01 030c00")
    for chunk in [1, 7, Int.max] {
      let reading = LogReading(file + [UInt8](repeating: 0, count: zeros), chunk: chunk)
      #expect(reading.records.count == 1)
      #expect(reading.error == WireError(.btsnoop, offset: file.count, .invalidValue(0)))
    }
  }

  @Test(arguments: [UInt32(1 << 20) + 1, 0x7FFF_FFFF, 0xFFFF_FFFF])
  func refusesLongPcapRecords(_ length: UInt32) {
    for order in [LogByteOrder.little, .big] {
      var file = pcapFile(order, linkType: 201, [(1, 2, Self.frames[0]), (3, 4, Self.frames[1])])
      let second = 24 + 16 + Self.frames[0].count
      file.replaceSubrange(second + 8..<second + 12, with: octets(length, order))
      for chunk in [1, Int.max] {
        let reading = LogReading(file, chunk: chunk)
        #expect(reading.records.count == 1)
        #expect(reading.error == WireError(.pcap, offset: second + 8, .invalidValue(length)))
      }
    }
  }

  @Test(arguments: [0, 7, 65_545, 0xFFFF_FFFF] as [UInt32])
  func refusesOddPacketLoggerLengths(_ length: UInt32) {
    for order in [LogByteOrder.little, .big] {
      let first = packetLoggerFile(order, [(1, 2, 0x00, octetsOf("030c00"))])
      let file = first + octets(length, order) + [UInt8](repeating: 0, count: 40)
      let reading = LogReading(file)
      #expect(reading.records.count == 1)
      #expect(reading.error == WireError(.packetLogger, offset: first.count, .invalidValue(length)))
    }
  }

  /// Zero, too short, odd, and 4 GB, in a packet's block.
  @Test(arguments: [0, 8, 11, 0x31, 0xFFFF_FFFC, 0xFFFF_FFFF] as [UInt32])
  func refusesOddBlockLengths(_ length: UInt32) {
    for order in [LogByteOrder.little, .big] {
      var log = PcapNGBuilder(order)
      log.interface(201)
      log.enhanced(Self.frames[0], units: 1)
      let start = log.file.count
      log.enhanced(Self.frames[1], units: 2)
      log.file.replaceSubrange(start + 4..<start + 8, with: octets(length, order))
      for chunk in [1, Int.max] {
        let reading = LogReading(log.file, chunk: chunk)
        #expect(reading.records.count == 1)
        #expect(reading.error == WireError(.pcapng, offset: start + 4, .invalidValue(length)))
      }
    }
  }

  /// An unknown block that claims 4 GB: it is skipped without being stored, and the file ends inside it.
  @Test func missesTheEndOfALongBlock() {
    var log = PcapNGBuilder()
    let start = log.file.count
    log.file +=
      octets(UInt32(99), .little) + octets(UInt32(0xFFFF_FFF0), .little) + [UInt8](repeating: 0, count: 999)
    let reading = LogReading(log.file, chunk: 100)
    #expect(reading.error?.layer == .pcapng)
    #expect(reading.error?.offset == log.file.count)
    #expect(reading.error?.reason == .truncated(needed: 0xFFFF_FFF0 - 1_007, available: 0))
    #expect(start + 1_007 == log.file.count)
  }

  @Test func refusesABlockWhoseEndsDiffer() {
    var log = PcapNGBuilder()
    log.interface(201)
    log.enhanced(Self.frames[0], units: 1)
    let end = log.file.count - 4
    log.file[end] += 4
    let claimed = Int(log.file[end])
    #expect(
      LogReading(log.file).error
        == WireError(.pcapng, offset: end, .lengthMismatch(claimed: claimed, available: claimed - 4)))
  }

  @Test func refusesAnInterfaceThatIsNotThere() {
    var log = PcapNGBuilder()
    log.interface(201)
    let start = log.file.count
    log.enhanced(Self.frames[0], units: 1, interface: 1)
    #expect(LogReading(log.file).error == WireError(.pcapng, offset: start + 8, .invalidValue(1)))
  }

  @Test func refusesAPacketLongerThanItsBlock() {
    var log = PcapNGBuilder()
    log.interface(201)
    let start = log.file.count
    log.enhanced(Self.frames[0], units: 1)
    log.file[start + 8 + 12] = 9
    #expect(
      LogReading(log.file).error
        == WireError(.pcapng, offset: start + 20, .lengthMismatch(claimed: 9, available: 8)))
  }

  /// Offsets of pcapng's byte-order magic and version, and of pcap's version and link type.
  @Test func refusesOtherVersions() {
    var log = PcapNGBuilder()
    log.file[8] = 0
    #expect(LogReading(log.file).error == WireError(.pcapng, offset: 8, .invalidValue(0x1A2B_3C00)))
    log = PcapNGBuilder()
    log.file[12] = 2
    #expect(LogReading(log.file).error == WireError(.pcapng, offset: 12, .invalidValue(2)))
    var pcap = pcapFile(.little, linkType: 201, [])
    pcap[4] = 3
    #expect(LogReading(pcap).error == WireError(.pcap, offset: 4, .invalidValue(3)))
    #expect(
      LogReading(pcapFile(.little, linkType: 1, [])).error == WireError(.pcap, offset: 20, .invalidValue(1)))
  }

  /// Text, a compressed log that was not decompressed, zeros, and nearly PacketLogger.
  @Test(
    arguments: [
      "7b226d616769632022", "1f8b0800000000000003", "28b52ffd0458", "00000000000000000000000000000000",
      "0000000c 00000001 00000002 55 030c00", "0000000c 00000001 000f4240 00 030c00",
    ])
  func refusesOtherFiles(_ hex: String) {
    let file = octetsOf(hex) + [UInt8](repeating: 0x20, count: 16)
    let magic = file[..<4].reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
    for chunk in [1, Int.max] {
      let reading = LogReading(file, chunk: chunk)
      #expect(reading.records.isEmpty)
      #expect(reading.error == WireError(.packetLog, offset: 0, .invalidValue(magic)))
    }
  }

  @Test(arguments: samples)
  func survivesRandomOctets(_ sample: Sample) {
    var generator = SeededGenerator(state: 4)
    for _ in 0..<2_000 {
      var file = sample.file
      for _ in 0..<Int.random(in: 1...8, using: &generator) {
        file[Int.random(in: file.indices, using: &generator)] = UInt8.random(in: 0...255, using: &generator)
      }
      let reading = LogReading(file, chunk: Int.random(in: 1...200, using: &generator))
      #expect(reading.records.count <= file.count / 12)
    }
  }
}

import BLEPacketLog
import BLEWire
import Foundation
import LogKit
import TestKit
import Testing

@Suite struct PacketLogConversionTests {
  /// pcapng can hold everything that btsnoop has.
  @Test(arguments: Logs.all)
  func comesBackFromPcapNG(_ file: URL) throws {
    let log = [UInt8](try Data(contentsOf: file))
    let kind = LogReading(log).kind
    let there = converted(log, to: .pcapng(kind.linkType))
    #expect(LogReading(there).format == .pcapng)
    #expect(converted(there, to: .btsnoop(kind)) == log)
    guard kind == .h4 else { return }
    // Through the monitor's format, and through the one without type bytes.
    let monitor = converted(log, to: .btsnoop(.monitor))
    #expect(converted(converted(monitor, to: .pcapng(.linuxMonitor)), to: .btsnoop(.monitor)) == monitor)
    #expect(converted(monitor, to: .btsnoop(.h4)) == log)
    let bare = converted(log, to: .btsnoop(.unencapsulated))
    #expect(converted(converted(bare, to: .pcapng(.h4WithDirection)), to: .btsnoop(.unencapsulated)) == bare)
    #expect(converted(bare, to: .btsnoop(.h4)) == log)
  }

  /// A truncated packet, an empty record, drops, notes and adapters: by hand, in all three formats.
  @Test(arguments: [BTSnoopFormat.h4, .unencapsulated, .monitor])
  func keepsWhatIsRare(_ format: BTSnoopFormat) {
    var file = octetsOf("6274736e6f6f7000 00000001") + octets(format.rawValue, .big)
    func record(original: UInt32, flags: UInt32, drops: UInt32, microseconds: UInt64, _ packet: String) {
      let packet = octetsOf(packet)
      file += octets(original, .big) + octets(UInt32(packet.count), .big) + octets(flags, .big)
      file += octets(drops, .big) + octets(microseconds, .big) + packet
    }
    let type = format == .h4 ? "04" : ""
    let event: UInt32 = format == .monitor ? 0x0002_0003 : 3
    record(original: 300, flags: event, drops: 0, microseconds: 0x00E2_97F0_FFF9_76C7, type + "0e0401030c00")
    record(original: 9, flags: event, drops: 7, microseconds: 0x00DC_DDB3_0F2F_7FFF, type + "0e0401030c00")
    record(
      original: 9, flags: event, drops: 0xFFFF_FFFF, microseconds: 0x00DC_DDB3_0F2F_8000,
      type + "0e0401030c00")
    if format == .h4 {
      record(original: 0, flags: 1, drops: 0xFFFF_FFFF, microseconds: 0x00DC_DDB3_0F2F_8001, "")
    }
    if format == .monitor {
      record(
        original: 16, flags: 0x0003_0000, drops: 0xFFFF_FFFF, microseconds: 0x00DC_DDB3_0F2F_8005,
        "0001a6a5a4a3a2a16863693300000000")
      record(
        original: 3, flags: 0xFFFF_0063, drops: 0xFFFF_FFFF, microseconds: 0x00DC_DDB3_0F2F_8006, "010203")
    }
    let linkType: LinkType = format == .monitor ? .linuxMonitor : .h4WithDirection
    #expect(converted(converted(file, to: .pcapng(linkType)), to: .btsnoop(format)) == file)
    #expect(converted(file, to: .btsnoop(format)) == file)
  }

  /// Nanoseconds, comments and drops survive a conversion from pcapng to pcapng.
  @Test func keepsWhatOnlyPcapNGHas() {
    var log = PcapNGBuilder(.big)
    for name in ["hci4", "hci0"] {
      log.interface(201, options: log.option(2, Array(name.utf8)) + log.option(9, [9]))
    }
    let frame = octetsOf("00000001 04 0e0401030c00")
    log.enhanced(frame, units: 1_700_000_000_123_456_789, options: log.option(1, Array("büro".utf8)))
    log.enhanced(
      frame, units: 1_700_000_000_123_456_788, interface: 1, options: log.option(4, log.number(UInt64(9))))
    let written = LogReading(converted(log.file, to: .pcapng(.h4WithDirection)))
    #expect(written.records == LogReading(log.file).records)
    #expect(written.cumulativeDrops == 9)
    #expect(written.records.map(\.header.adapter) == [4, 0])
  }

  /// btsnoop's packets are limited to HCI's maximum length.
  @Test func leavesOutWhatIsTooLong() {
    let frame = octetsOf("00000001 02") + [UInt8](repeating: 1, count: 65_540)
    let file = pcapFile(.little, linkType: 201, [(1, 0, frame), (2, 0, Array(frame.dropLast()))])
    for (format, count) in [(PacketLogWriter.Format.btsnoop(.h4), 1), (.pcapng(.linuxMonitor), 2)] {
      let reading = LogReading(converted(file, to: format))
      #expect(reading.error == nil)
      #expect(reading.records.count == count)
    }
  }

  /// Format 1001 distinguishes commands from events by their direction. Found by fuzzing: an event sent by
  /// the host was converted into a command.
  @Test func keepsTypesWhoseDirectionIsWrong() {
    let event = LoggedPacket(type: .event, direction: .hostToController, octets: octetsOf("13050140000100"))
    let command = LoggedPacket(type: .command, direction: .controllerToHost, octets: octetsOf("030c00"))
    let packets = LogReading(converted(log([event, command]), to: .btsnoop(.unencapsulated))).packets
    #expect(packets.map(\.type) == [.event, .command])
    #expect(packets.map(\.octets) == [event.octets, command.octets])
  }

  @Test func leavesOutWhatHasNoPlace() {
    let monitor = pcapFile(
      .little, linkType: 254,
      [(1, 0, octetsOf("ffff 000c 6e6f746500")), (2, 0, octetsOf("0003 0002 030c00"))])
    for format in [PacketLogWriter.Format.btsnoop(.h4), .btsnoop(.unencapsulated), .pcap(.h4WithDirection)] {
      var writer = PacketLogWriter(format)
      var octets: [UInt8] = []
      for record in LogReading(monitor).records { record.withRecord { writer.append($0, to: &octets) } }
      #expect(writer.leftOut == 1)
      #expect(writer.recordCount == 1)
    }
  }
}

/// Our output, read by independent programs.
@Suite @MainActor struct PacketLogWitnessTests {
  static let formats: [(String, PacketLogWriter.Format)] = [
    ("h4.btsnoop", .btsnoop(.h4)), ("monitor.btsnoop", .btsnoop(.monitor)),
    ("h4.pcapng", .pcapng(.h4WithDirection)), ("monitor.pcapng", .pcapng(.linuxMonitor)),
    ("h4.pcap", .pcap(.h4WithDirection)), ("monitor.pcap", .pcap(.linuxMonitor)),
  ]

  /// The same packets, with the same times and ATT fields, in every format to which we convert the log.
  @Test(arguments: Logs.all)
  func tsharkSeesTheSame(_ file: URL) throws {
    let log = [UInt8](try Data(contentsOf: file))
    let records = LogReading(log).records
    let all = try Self.fields(of: file)
    try #require(all.count == records.count)
    // Formats of HCI packets cannot hold notes.
    let packets = zip(all, records).compactMap { $1.header.type == nil ? nil : $0 }
    try withFolder { folder in
      let copies = Self.formats.map { folder + "/" + $0.0 }
      for ((_, format), copy) in zip(Self.formats, copies) {
        try Data(converted(log, to: format)).write(to: URL(filePath: copy))
      }
      // Concatenated in one file, because tshark takes longer to start than to read.
      let merged = URL(filePath: folder + "/all.pcapng")
      let merge = try Program.run(Place.tool("mergecap"), ["-a", "-w", merged.path] + copies)
      try #require(merge.status == 0, "\(merge.errors)")
      var read = try Self.fields(of: merged)[...]
      for (name, _) in Self.formats {
        let original = name.hasPrefix("monitor") ? all : packets
        #expect(Array(read.prefix(original.count)) == original, "\(name)")
        read = read.dropFirst(original.count)
      }
      #expect(read.isEmpty)
    }
  }

  /// Fields that do not depend on the format; tshark appends zeros to btsnoop's microseconds.
  static func fields(of file: URL) throws -> [Substring] {
    let names = [
      "frame.time_epoch", "bthci_cmd.opcode", "bthci_evt.code", "bthci_acl.chandle",
      "btl2cap.cid",
      "btatt.opcode", "btatt.handle", "btatt.value", "bthci_evt.bd_addr", "bthci_cmd.bd_addr", "btsmp.opcode",
    ]
    let run = try Program.run(
      "tshark", ["-r", file.path, "-T", "fields"] + names.flatMap { ["-e", $0] })
    try #require(run.status == 0, "\(run.errors)")
    return run.output.split(separator: "\n")
  }

  /// tshark shows the comment, the interface and all digits of the time. It has no field for drops.
  @Test func tsharkSeesWhatOnlyPcapNGHas() throws {
    var log = PcapNGBuilder()
    log.interface(201, options: log.option(2, Array("hci4".utf8)) + log.option(9, [9]))
    log.enhanced(
      octetsOf("00000001 04 0e0401030c00"), units: 1_700_000_000_123_456_789,
      options: log.option(1, Array("hello".utf8)) + log.option(4, log.number(UInt64(9))))
    let file = log.file
    try withFolder { folder in
      let copy = URL(filePath: folder + "/log.pcapng")
      try Data(converted(file, to: .pcapng(.h4WithDirection))).write(to: copy)
      let known = try Program.run(
        "tshark",
        [
          "-r", copy.path, "-T", "fields", "-e", "frame.time_epoch", "-e", "frame.interface_name", "-e",
          "frame.comment",
        ])
      #expect(known.output == "1700000000.123456789\thci4\thello\n", "\(known.errors)")
      let capinfos = try Program.run(Place.tool("capinfos"), [copy.path])
      #expect(capinfos.status == 0)
      #expect(capinfos.output.contains("Time precision = nanoseconds (9)"))
      #expect(capinfos.output.contains("Name = hci4"))
    }
  }

  @Test(arguments: Logs.all)
  func capinfosCountsTheSame(_ file: URL) throws {
    let log = [UInt8](try Data(contentsOf: file))
    let records = LogReading(log).records
    let capinfos = try Place.tool("capinfos")
    try withFolder { folder in
      for (name, format) in Self.formats + [("hci.btsnoop", .btsnoop(.unencapsulated))] {
        let copy = URL(filePath: folder + "/" + name)
        try Data(converted(log, to: format)).write(to: copy)
        let count = name.hasPrefix("monitor") ? records.count : records.count { $0.header.type != nil }
        let run = try Program.run(capinfos, ["-T", "-r", "-m", "-c", copy.path])
        #expect(run.status == 0, "\(run.errors)")
        #expect(
          run.output.split(separator: ",").last.map { $0.trimmingCharacters(in: .whitespacesAndNewlines) }
            == "\(count)")
      }
    }
  }

  /// Wireshark's own editcap converts our logs as we do. It has no link type for format 1001.
  @Test(arguments: Logs.all.filter { !$0.path.hasSuffix("-hci.btsnoop") })
  func readsWhatEditcapWrites(_ file: URL) throws {
    let editcap = try Place.tool("editcap")
    let original = LogReading([UInt8](try Data(contentsOf: file))).packets.map { packet in
      var packet = packet
      packet.drops = 0
      return packet
    }
    #expect(!original.isEmpty)
    try withFolder { folder in
      for format in ["pcapng", "pcap", "nsecpcap"] {
        let copy = URL(filePath: folder + "/" + format)
        let run = try Program.run(editcap, ["-F", format, file.path, copy.path])
        try #require(run.status == 0, "\(run.errors)")
        let reading = LogReading([UInt8](try Data(contentsOf: copy)))
        #expect(reading.error == nil)
        #expect(reading.packets == original)
      }
    }
  }

  /// btmon 5.66 reads our output to its end. It crashes on Read By Type requests, also in format 2001
  /// (CONTRIBUTING.md). The phone's log has them, and so do logs of bluetoothd; the latter are written
  /// without them.
  @Test(arguments: Logs.own)
  func btmonReadsBTSnoop(_ file: URL) throws {
    let log = OldBtmon.readable([UInt8](try Data(contentsOf: file)))
    try withFolder { folder in
      for kind in [BTSnoopFormat.monitor, .h4, .unencapsulated] {
        let copy = URL(filePath: folder + "/log.btsnoop")
        try Data(converted(log, to: .btsnoop(kind))).write(to: copy)
        let run = try Program.run(Place.tool("btmon"), ["-r", copy.path])
        #expect(run.status == 0, "\(run.errors)")
        // Each packet's line starts with its direction.
        let packets = run.output.split(separator: "\n").count { $0.hasPrefix("< ") || $0.hasPrefix("> ") }
        #expect(packets == LogReading(log).packets.count)
      }
    }
  }

  /// bumble reads format 1002. At the end of every file it prints TRUNCATED once.
  @Test(arguments: Logs.all)
  func bumbleReadsH4(_ file: URL) throws {
    let log = [UInt8](try Data(contentsOf: file))
    try withFolder { folder in
      let copy = URL(filePath: folder + "/h4.btsnoop")
      let monitor = converted(log, to: .pcapng(.linuxMonitor))
      try Data(converted(monitor, to: .btsnoop(.h4))).write(to: copy)
      let run = try Program.run(Place.bumble() + "/bin/bumble-show", ["--format", "snoop", copy.path])
      #expect(run.status == 0, "\(run.errors)")
      #expect(!run.output.contains("!!!"))
      let lines = run.output.split(separator: "\n")
      #expect(lines.count { $0.contains("TRUNCATED") } == 1)
      // An ATT packet has a line for each layer; every packet has at least one.
      #expect(lines.count { $0.contains("CONTROLLER") && $0.hasPrefix("[") } >= LogReading(log).packets.count)
    }
  }

  /// tshark reads PacketLogger, too, and accepts our fixture.
  @Test(arguments: [LogByteOrder.big, .little])
  func tsharkReadsThePacketLoggerFixture(_ order: LogByteOrder) throws {
    let file = packetLoggerFile(
      order,
      [
        (1_700_000_000, 5, 0x00, octetsOf("030c00")), (1_700_000_000, 6, 0x01, octetsOf("0e0401030c00")),
        (1_700_000_001, 7, 0x03, octetsOf("0020 0700 0300 0400 0b0102")),
      ])
    try withFolder { folder in
      let (theirs, ours) = (URL(filePath: folder + "/log.pklg"), URL(filePath: folder + "/log.pcapng"))
      try Data(file).write(to: theirs)
      try Data(converted(file, to: .pcapng(.h4WithDirection))).write(to: ours)
      let expected = try Self.fields(of: theirs)
      #expect(expected.count == 3)
      #expect(try Self.fields(of: ours) == expected)
    }
  }
}

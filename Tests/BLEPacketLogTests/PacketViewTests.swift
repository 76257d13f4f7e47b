import BLEDissector
import BLEPacketLog
import BLEWire
import Foundation
import LogKit
import TestKit
import Testing

/// Selection of the packets that `log show` prints. The expected numbers are counted by hand in `dialogue`.
@Suite struct PacketViewTests {
  private static let start: Int64 = 1_700_000_000_000_000_000

  private static func packet(_ type: HCIPacketType, _ direction: HCIDirection, _ octets: String, _ index: Int)
    -> LoggedPacket
  {
    LoggedPacket(
      type: type, direction: direction, octets: octetsOf(octets),
      timeNanoseconds: start + Int64(index - 1) * 1_000_000_000)
  }

  /// One packet a second.
  private static let dialogue: [LoggedPacket] = [
    packet(.command, .hostToController, "030c00", 1),
    packet(.event, .controllerToHost, "0e0401030c00", 2),
    packet(.event, .controllerToHost, "3e13 01 00 4000 00 01b2a1000dcb70 180000 00f401 00", 3),
    packet(
      .acl, .hostToController,
      "4000 0900 0500 0400 08 0100ffff 0328".replacing("0900 0500", with: "0b00 0700"), 4),
    packet(.acl, .controllerToHost, "4020 0d00 0900 0400 09 07 1100 10 1200 372a", 5),
    packet(.acl, .controllerToHost, "4020 0900 0500 0400 1b 1200 0048", 6),
    packet(.acl, .controllerToHost, "4120 0900 0500 0400 1b 1200 0049", 7),
    packet(.acl, .controllerToHost, "4020 0600 0200 0600 0b 01", 8),
    packet(.acl, .controllerToHost, "4020 0a00 0600 0500 13 01 0200 0000", 9),
    packet(.acl, .controllerToHost, "4020 0900 0500 0400 1b 1200 004a", 10),
  ]

  private func shown(
    _ filter: PacketFilter, style: PacketPrinter.Style = .json, context: Int = 0, _ octets: [UInt8]? = nil
  ) throws -> String {
    let octets = octets ?? log(Self.dialogue)
    var reader = PacketLogReader()
    var decoder = PacketDecoder()
    var view = PacketView(filter, PacketPrinter(style: style), context: context)
    try reader.read(octets.span) { record in
      view.note(record.time)
      if record.type == nil { view.take(note: record) } else { decoder.decode(record) { view.take($0) } }
    }
    return String(decoding: view.octets, as: UTF8.self)
  }

  private func indices(context: Int = 0, _ change: (inout PacketFilter) -> Void) throws -> [Int] {
    var filter = PacketFilter()
    change(&filter)
    return try shown(filter, context: context).split(separator: "\n").map {
      try JSONDecoder().decode(PacketLine.self, from: Data($0.utf8)).index
    }
  }

  @Test func filtersByTime() throws {
    #expect(try indices { $0.since = .fromStart(7_500_000_000) } == [9, 10])
    #expect(try indices { $0.until = .fromStart(1_000_000_000) } == [1, 2])
    #expect(try indices { $0.since = .absolute(Self.start + 9_000_000_000) } == [10])
    #expect(try indices { $0.until = .absolute(Self.start - 1) } == [])
  }

  @Test func filtersByLink() throws {
    #expect(try indices { $0.handle = ConnectionHandle(0x41) } == [7])
    #expect(try indices { $0.handle = ConnectionHandle(0x40) } == [3, 4, 5, 6, 8, 9, 10])
    // The link to that address, and the event that contains it, whatever the address type.
    #expect(try indices { $0.address = DeviceAddress("70:CB:0D:00:A1:B2") } == [3, 4, 5, 6, 8, 9, 10])
    #expect(try indices { $0.address = DeviceAddress("70:CB:0D:00:A1:B3") } == [])
    #expect(try indices { $0.adapter = 0 } == Array(1...10))
    #expect(try indices { $0.adapter = 1 } == [])
  }

  @Test func filtersByDirectionAndLayer() throws {
    #expect(try indices { $0.direction = .hostToController } == [1, 4])
    #expect(try indices { $0.layers = [.hci] } == [1, 2, 3])
    #expect(try indices { $0.layers = [.l2cap] } == [4, 5, 6, 7, 8, 9, 10])
    #expect(try indices { $0.layers = [.smp] } == [8])
    #expect(try indices { $0.layers = [.att, .hci] } == [1, 2, 3, 4, 5, 6, 7, 10])
  }

  @Test func filtersByAttribute() throws {
    #expect(try indices { $0.attOpcodes = [.handleValueNotification] } == [6, 7, 10])
    #expect(try indices { $0.attributes = [.handle(AttributeHandle(0x12))] } == [6, 7, 10])
    // The link 0x41 was not discovered.
    #expect(try indices { $0.attributes = [.uuid(BluetoothUUID(0x2A37))] } == [6, 10])
    #expect(try indices { $0.pattern = [0x12, 0x00, 0x00] } == [6, 7, 10])
    #expect(try indices { $0.pattern = [0x49] } == [7])
  }

  @Test(
    arguments: [
      ("0x1b", 0x1B), ("27", 0x1B), ("Handle Value Notification", 0x1B), ("handle-value-notification", 0x1B),
      ("WriteRequest", 0x12), ("write command", 0x52), ("notification", 0x1B),
      ("", nil), ("0x1bb", nil), ("nothing", nil),
    ] as [(String, UInt8?)])
  func readsOpcodes(_ text: String, _ opcode: UInt8?) {
    #expect(PacketFilter.attOpcode(text)?.rawValue == opcode)
  }

  /// Absolute times by `date -d … +%s`.
  @Test(
    arguments: [
      ("0", .fromStart(0)), ("12.5", .fromStart(12_500_000_000)), ("-0.000000001", .fromStart(-1)),
      ("1970-01-01T00:00:00Z", .absolute(0)), ("2024-02-29T12:34:56", .absolute(1_709_210_096_000_000_000)),
      ("2026-11-21T06:50:00.25Z", .absolute(1_795_243_800_250_000_000)),
      ("2026-11-21T07:50:00.25+01:00", .absolute(1_795_243_800_250_000_000)),
      ("2000-03-01T00:00:00-02:30", .absolute(951_877_800_000_000_000)),
      ("2100-03-01T00:00:00", .absolute(4_107_542_400_000_000_000)),
      ("1:30", .fromStart(90_000_000_000)), ("1:02:03.5", .fromStart(3_723_500_000_000)),
      ("90:00", .fromStart(5_400_000_000_000)),
      ("2026-11-21 06:50:00.250 UTC", .absolute(1_795_243_800_250_000_000)),
      ("1:5", nil), ("1:60", nil), ("1:60:00", nil), (":30", nil), ("-1:30", nil), ("1:-2", nil),
      ("1:2:03", nil),
      ("UTC", nil), ("2026-11-21 UTC", nil), ("99999999:00", nil),
      ("", nil), ("yesterday", nil), ("1.2.3", nil), ("1e5", nil), ("2026-13-01T00:00:00", nil),
      ("2026-11-21", nil), ("2026-11-21T06:50", nil), ("2026-11-21T25:00:00", nil),
      ("2026-11-21T06:50:00Zulu", nil),
      ("99999999999", nil), ("2026-11-21T06:50:00.", nil), ("٣", nil),
    ] as [(String, PacketFilter.Instant?)])
  func readsTimes(_ text: String, _ instant: PacketFilter.Instant?) {
    #expect(PacketFilter.Instant(text) == instant)
  }

  @Test(
    arguments: [
      ("0x0012", .handle(AttributeHandle(0x12))), ("2a37", .uuid(BluetoothUUID(0x2A37))), ("0x12345", nil),
      ("12", nil),
      (
        "6e400003-b5a3-f393-e0a9-e50e24dcca9e",
        .uuid(BluetoothUUID(high: 0x6E40_0003_B5A3_F393, low: 0xE0A9_E50E_24DC_CA9E))
      ),
    ] as [(String, PacketFilter.Attribute?)])
  func readsAttributes(_ text: String, _ attribute: PacketFilter.Attribute?) {
    #expect(PacketFilter.Attribute(text) == attribute)
  }

  @Test func showsNeighbours() throws {
    #expect(try indices(context: 1) { $0.layers = [.smp] } == [7, 8, 9])
    #expect(try indices(context: 2) { $0.handle = ConnectionHandle(0x41) } == [5, 6, 7, 8, 9])
    #expect(try indices(context: 1) { $0.direction = .hostToController } == [1, 2, 3, 4, 5])
    #expect(try indices(context: 20) { $0.layers = [.smp] } == Array(1...10))
  }

  @Test func separatesGroups() throws {
    var filter = PacketFilter()
    filter.pattern = [0x03, 0x0C, 0x00]
    func groups(_ context: Int) throws -> [Int] {
      try shown(filter, style: .text, context: context).split(separator: "--\n").map { group in
        group.split(separator: "\n").count { $0.hasPrefix("<") || $0.hasPrefix(">") }
      }
    }
    #expect(try groups(1) == [3], "1, 2 and the one after")
    filter.pattern = []
    filter.attOpcodes = [.handleValueNotification]
    #expect(try groups(1) == [6], "5 to 8, 9 and 10 touch")
    filter.pattern = [0x03, 0x28]
    filter.attOpcodes = []
    filter.layers = [.att, .smp]
    #expect(try groups(1) == [3])
    filter.pattern = []
    filter.layers = []
    filter.direction = .hostToController
    #expect(try groups(0) == [2], "grep has no separator without context")
    #expect(try groups(1) == [5])
    filter.direction = nil
    filter.layers = [.smp, .hci]
    #expect(try groups(1) == [4, 3])
  }

  /// New Index, Open Index, Index Info, System Note and User Logging of a log as `btmon -w` could write it,
  /// with the output of `btmon -r` 5.66.
  @Test func showsMonitorNotes() throws {
    var octets = log([], format: .monitor)
    let notes: [(UInt8, String)] = [
      (0, "0000 010203040506 6863693000000000"), (8, ""), (10, "010203040506 0200"),
      (12, "4c696e7578 00"), (13, "0608 72696e6774617000 68656c6c6f00"),
      (14, "02000000 0000 02 1600 01000000 10 72696e677461702d7265636569766500"), (15, "02000000"), (9, ""),
      (1, ""),
    ]
    for (opcode, note) in notes {
      let note = octetsOf(note)
      octets += [0, 0, 0, UInt8(note.count), 0, 0, 0, UInt8(note.count), 0, 0, 0, opcode, 0, 0, 0, 0]
      octets += octetsOf("00dcddb30f2f8000") + note
    }
    let titles = try shown(PacketFilter(), style: .text, octets).split(separator: "\n").map {
      $0.replacing(/[ ]+#[0-9]+ .*$/, with: "")
    }
    #expect(
      titles == [
        "= New Index: 06:05:04:03:02:01 (Primary,Virtual,hci0)", "= Open Index: 06:05:04:03:02:01",
        "= Index Info: 06:05:04:03:02:01 (Intel Corp.)", "= Note: Linux", "= ringtap: hello",
        "@ RAW Open: ringtap-receive (privileged) version 2.22 {0x0002}",
        "@ RAW Close: ringtap-receive {0x0002}",
        "= Close Index: 06:05:04:03:02:01", "= Delete Index: 06:05:04:03:02:01",
      ])
    var filter = PacketFilter()
    filter.layers = [.hci]
    #expect(try shown(filter, style: .text, octets).isEmpty)
  }
}

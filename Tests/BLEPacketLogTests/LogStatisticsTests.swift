@testable import BLEDissector
import BLEWire
import Foundation
import JSONText
import LogKit
import TestKit
import Testing

import BLEPacketLog

#if canImport(FoundationXML)
  import FoundationXML
#endif

/// Statistics of a log.
func statistics(of log: [UInt8], chunk: Int = .max) throws -> LogReport {
  var statistics = LogStatistics()
  var reader = PacketLogReader()
  var offset = 0
  while offset < log.count {
    let end = offset + min(chunk, log.count - offset)
    try reader.read(log.span.extracting(offset..<end)) { record in statistics.take(record) }
    offset = end
  }
  return statistics.finish()
}

/// A log written packet by packet, with its own clock. Bytes by hand from Core 5.4, Vol 4, Part E, 5.4 and 7.
private struct Script {
  static let start: Int64 = 1_700_000_000_000_000_000
  var packets: [LoggedPacket] = []
  var drops: UInt32 = 0

  mutating func packet(
    _ milliseconds: Int64, _ type: HCIPacketType, _ direction: HCIDirection, _ octets: String
  ) {
    packets.append(
      LoggedPacket(
        type: type, direction: direction, octets: octetsOf(octets),
        timeNanoseconds: Self.start + milliseconds * 1_000_000, drops: drops))
  }

  mutating func event(_ milliseconds: Int64, _ octets: String) {
    packet(milliseconds, .event, .controllerToHost, octets)
  }

  /// Adds an ATT PDU in one ACL packet on handle 0x0040.
  mutating func att(_ milliseconds: Int64, _ direction: HCIDirection, _ pdu: String) {
    let count = octetsOf(pdu).count
    let header = direction == .hostToController ? "4000" : "4020"
    packet(milliseconds, .acl, direction, "\(header) \(octet(count + 4))00 \(octet(count))00 0400 \(pdu)")
  }

  /// Handle 0x0040, interval 24 (30 ms), latency 0, timeout 500 (5 s).
  mutating func connect(_ milliseconds: Int64, address: String = "665544332211") {
    event(milliseconds, "3e13 01 00 4000 00 01 \(address) 1800 0000 f401 00")
  }

  private func octet(_ number: Int) -> String { hexadecimal(UInt8(number)) }

  func report() throws -> LogReport { try statistics(of: log(packets)) }
}

private func milliseconds(_ count: Int64) -> Int64 { count * 1_000_000 }

struct LogStatisticsTests {
  @Test func saysNothingOfAnEmptyLog() throws {
    let report = try Script().report()
    #expect(report.records == 0)
    #expect(report.firstTime == nil)
    #expect(report.duration == 0)
    #expect(report.connections.isEmpty)
    let text = StatisticsText(report).utf8
    #expect(String(text) == "0 records in 0.000 s\n")
  }

  @Test func followsAConnectionFromItsStartToItsEnd() throws {
    var script = Script()
    script.connect(100)
    script.event(150, "3e0a 03 00 4000 0600 0000 f401")
    script.event(160, "3e0b 07 4000 fb00 4808 fb00 4808")
    script.event(170, "3e06 0c 00 4000 02 02")
    script.event(180, "3e0a 03 3b 4000 0600 0000 f401")
    script.att(200, .hostToController, "02 0502")
    script.att(260, .controllerToHost, "03 f700")
    script.event(261, "1305 01 4000 0100")
    script.event(1_100, "0504 00 4000 13")
    let report = try script.report()
    try #require(report.connections.count == 1)
    let connection = report.connections[0]
    #expect(connection.peer == DeviceAddress("11:22:33:44:55:66", type: .random))
    #expect(connection.role == .central)
    #expect(connection.origin == .connected)
    #expect(connection.parameters == LinkParameters(interval: 24, latency: 0, supervisionTimeout: 500))
    #expect(connection.end == .disconnected(.remoteUserTerminated))
    #expect(connection.duration == milliseconds(1_000))
    let times = connection.changes.map { ($0.time.nanoseconds - Script.start) / 1_000_000 }
    #expect(times == [150, 160, 170, 180, 260])
    #expect(
      connection.changes.map(\.value) == [
        .timing(LinkParameters(interval: 6, latency: 0, supervisionTimeout: 500)),
        .dataLength(transmit: 251, receive: 251), .phy(transmit: 2, receive: 2),
        .refused(.unacceptableConnectionParameters), .mtu(247),
      ])
    // A PDU of 3 bytes and an L2CAP header of 4, in one second.
    #expect(connection.sent == ConnectionReport.Traffic(packets: 1, octets: 7))
    #expect(connection.received == ConnectionReport.Traffic(packets: 1, octets: 7))
    #expect(connection.throughput(connection.sent) == 7)
    #expect(connection.uncompletedPackets == 0)
    try #require(connection.requests.count == 1)
    #expect(connection.requests[0].latency?.maximum == milliseconds(60))
  }

  @Test func startsAnotherConnectionWhenAHandleComesBack() throws {
    var script = Script()
    script.att(0, .controllerToHost, "1b 0300 01")
    script.connect(1_000)
    script.att(1_010, .controllerToHost, "1b 0300 01")
    script.connect(2_000, address: "010000000000")
    script.att(2_010, .hostToController, "52 0300 01")
    script.event(3_000, "0504 00 4000 08")
    // Still unacknowledged when the connection ended.
    script.att(3_001, .hostToController, "52 0300 01")
    script.att(9_000, .controllerToHost, "1b 0300 01")
    let report = try script.report()
    #expect(report.connections.map(\.origin) == [.middle, .connected, .connected, .middle])
    #expect(
      report.connections.map(\.end) == [
        .replaced, .replaced, .disconnected(.connectionTimeout), .endOfLog,
      ])
    #expect(report.connections.map { $0.attributes.map(\.count) } == [[1], [1], [], [1]])
    #expect(report.latePackets == 1)
    #expect(report.connections[2].uncompletedPackets == 1)
    #expect(report.connections[2].peer?.bits == 1)
  }

  /// Every 20 ms, with one pause of 400 ms, then one that is 5 ms late.
  @Test func measuresIntervalsJitterAndGaps() throws {
    var script = Script()
    var times = (0..<50).map { Int64($0) * 20 }
    times += (0..<50).map { 980 + 400 + Int64($0) * 20 }
    times += [2_385, 2_400]
    for time in times { script.att(time, .controllerToHost, "1b 1200 0102030405") }
    let attribute = try #require(try script.report().connections.first?.attributes.first)
    #expect(attribute.handle == AttributeHandle(0x12))
    #expect(attribute.count == 102)
    #expect(attribute.octets == 510)
    let intervals = zip(times.dropFirst(), times).map { milliseconds($0 - $1) }
    try ExactDurations(intervals).expectAgreement(attribute.intervals)
    try ExactDurations(zip(intervals.dropFirst(), intervals).map { abs($0 - $1) })
      .expectAgreement(attribute.jitter)
    #expect(attribute.gapCount == 1)
    #expect(
      attribute.gaps == [
        AttributeReport.Gap(
          time: ReceiveTime(nanoseconds: Script.start + milliseconds(980)), duration: milliseconds(400))
      ])
  }

  /// The longest gaps are listed, all are counted.
  @Test func listsTheLongestGaps() throws {
    var script = Script()
    var time: Int64 = 0
    for gap in 1...20 {
      for _ in 0..<20 {
        script.att(time, .controllerToHost, "1b 1200 00")
        time += 10
      }
      time += 1_000 + Int64(gap) * 10
    }
    script.att(time, .controllerToHost, "1b 1200 00")
    let attribute = try #require(try script.report().connections.first?.attributes.first)
    #expect(attribute.gapCount == 20)
    #expect(attribute.gaps.map(\.duration) == (11...20).reversed().map { milliseconds(1_010 + $0 * 10) })
  }

  @Test func countsRequestsWithoutAnAnswer() throws {
    var script = Script()
    script.att(0, .hostToController, "0a 0300")
    script.att(10, .hostToController, "0a 0400")
    script.att(15, .controllerToHost, "0b 01")
    script.att(20, .hostToController, "12 0300 01")
    script.att(50, .controllerToHost, "01 12 0300 05")
    script.att(60, .controllerToHost, "0b 01")
    script.att(70, .controllerToHost, "1d 0300 01")
    script.att(71, .hostToController, "0a 0300")
    script.att(80, .hostToController, "1e")
    let connection = try #require(try script.report().connections.first)
    let requests = connection.requests
    #expect(requests.map(\.opcode) == [.readRequest, .writeRequest, .handleValueIndication])
    #expect(requests.map(\.count) == [3, 1, 1])
    #expect(requests.map(\.errors) == [0, 1, 0])
    #expect(requests.map(\.unanswered) == [2, 0, 0])
    #expect(
      requests.map { $0.latency?.maximum } == [milliseconds(5), milliseconds(30), milliseconds(10)])
    #expect(connection.unaskedResponses == 1)
    // The log has no events, so completions are unknown.
    #expect(connection.uncompletedPackets == nil)
  }

  @Test func countsLossesAndErrors() throws {
    var script = Script()
    script.connect(0)
    script.drops = 7
    for time: Int64 in [10, 20, 30] { script.att(time, .hostToController, "52 0300 01") }
    script.event(40, "1305 01 4000 0200")
    // A notification without a handle, a continuation without a start, and a truncated event.
    script.att(50, .controllerToHost, "1b 03")
    script.packet(60, .acl, .controllerToHost, "4010 0100 00")
    script.event(70, "0504 00")
    script.packet(80, .command, .hostToController, "0d20 00")
    script.event(90, "0f04 0c 01 0d20")
    script.event(100, "0e04 01 0320 12")
    script.drops = 9
    script.event(50, "0e04 01 0320 00")
    // Another log was appended: its drop count starts again.
    script.drops = 2
    script.event(110, "0e04 01 0320 00")
    let report = try script.report()
    #expect(report.drops == 11)
    #expect(report.malformed == 3)
    #expect(report.timeReversals == 1)
    #expect(report.commands == [0x200D: 1])
    #expect(
      report.commandErrors == [
        LogReport.CommandError(opcode: HCIOpcode(rawValue: 0x200D), status: .commandDisallowed): 1,
        LogReport.CommandError(opcode: HCIOpcode(rawValue: 0x2003), status: .invalidParameters): 1,
      ])
    let connection = try #require(report.connections.first)
    #expect(connection.uncompletedPackets == 1)
    #expect(connection.malformed == 2)
    #expect(connection.drops == 11)
  }

  /// The later forms of the event, and BR/EDR's, with the address at the same or another offset.
  @Test(arguments: [
    ("3e1f 0a 00 4000 01 01 665544332211 000000000000 000000000000 1800 0000 f401 00", true),
    ("3e22 29 00 4000 01 01 665544332211 000000000000 000000000000 1800 0000 f401 00 ff ffff", true),
    ("030b 00 4000 665544332211 01 00", false),
  ])
  func knowsEachConnectionComplete(_ event: String, _ isLowEnergy: Bool) throws {
    var script = Script()
    script.event(0, event)
    script.att(5, .controllerToHost, "1b 1200 00")
    let report = try script.report()
    try #require(report.connections.count == 1)
    let connection = report.connections[0]
    #expect(report.malformed == 0)
    #expect(connection.origin == .connected)
    #expect(connection.peer?.description == "11:22:33:44:55:66")
    #expect(connection.peer?.type == (isLowEnergy ? .random : .public))
    #expect(connection.role == (isLowEnergy ? .peripheral : nil))
    #expect(connection.parameters?.interval == (isLowEnergy ? 24 : nil))
    #expect(connection.transport == (isLowEnergy ? .lowEnergy : .classic))
    // ATT's fixed channel does not exist on BR/EDR.
    #expect(connection.attributes.count == (isLowEnergy ? 1 : 0))
  }

  @Test func takesMultipleNotificationsApart() throws {
    var script = Script()
    script.att(0, .controllerToHost, "23 0300 0200 0102 0500 0100 09")
    script.att(10, .controllerToHost, "23 0300 0200 0102 0500 0900 09")
    let report = try script.report()
    let attributes = try #require(report.connections.first?.attributes)
    #expect(attributes.map(\.handle.rawValue) == [3, 5])
    #expect(attributes.map(\.count) == [2, 1])
    #expect(report.malformed == 1)
  }

  /// Beyond the limits, entries are counted but not stored.
  @Test func boundsWhatItKeeps() throws {
    var script = Script()
    for number in 0..<40 {
      let handle = hexadecimal(UInt8(number))
      script.att(Int64(number), .controllerToHost, "1b \(handle)00 01")
    }
    for number in 0..<40 {
      script.packet(100, .acl, .controllerToHost, "\(hexadecimal(UInt8(number)))20 0500 0100 0400 1e")
    }
    let report = try script.report()
    #expect(report.connections.count == 41)
    #expect(report.connections.count { $0.end == .evicted } == 9)
    #expect(report.connections[0].attributes.count == ConnectionAccount.maximumAttributes)
    #expect(report.connections[0].omittedUpdates == 16)
  }

  /// Arbitrary bytes do not trap.
  @Test func survivesNoise() throws {
    var random = SeededGenerator(state: 11)
    let types: [HCIPacketType] = [.command, .acl, .event, .event, .acl, .iso]
    let packets = (0..<20_000).map { index in
      var octets = (0..<Int.random(in: 0...40, using: &random)).map { _ in
        UInt8.random(in: 0...255, using: &random)
      }
      let type = types[index % types.count]
      // A correct length lets the noise reach further.
      if type == .event, octets.count >= 2 {
        octets[0] = [0x03, 0x05, 0x0E, 0x0F, 0x13, 0x3E][Int(octets[0]) % 6]
        octets[1] = UInt8(octets.count - 2)
      } else if type == .acl, octets.count >= 8 {
        octets[0] %= 4
        octets[1] = 0x20
        octets[2] = UInt8(octets.count - 4)
        octets[3] = 0
        octets.replaceSubrange(4..<8, with: [UInt8(octets.count - 8), 0, 4, 0])
      }
      return LoggedPacket(
        type: type, direction: index.isMultiple(of: 3) ? .hostToController : .controllerToHost,
        octets: octets,
        timeNanoseconds: Int64.random(in: 0...2_000_000_000_000_000_000, using: &random))
    }
    let report = try statistics(of: log(packets), chunk: 4_096)
    #expect(report.records == 20_000)
    #expect(report.packets.counts.reduce(0) { $0 + $1.sent + $1.received } == 20_000)
    #expect(!StatisticsText(report).utf8.isEmpty)
    _ = try checkedPicture(report)
  }

  @Test func writesJSON() throws {
    var script = Script()
    script.connect(0)
    script.att(100, .controllerToHost, "1b 1200 0102")
    script.att(150, .controllerToHost, "1b 1200 0102")
    script.event(1_000, "0504 00 4000 13")
    var line = JSONLine()
    line.value(try script.report())
    let json = try JSONSerialization.jsonObject(with: Data(line.octets)) as? [String: Any]
    #expect(json?["records"] as? Int == 4)
    #expect(json?["durationNs"] as? Int == 1_000_000_000)
    let connection = try #require((json?["connections"] as? [[String: Any]])?.first)
    #expect(connection["address"] as? String == "11:22:33:44:55:66")
    #expect(connection["reason"] as? Int == 0x13)
    #expect((connection["parameters"] as? [String: Any])?["intervalMs"] as? Double == 30)
    let attribute = try #require((connection["attributes"] as? [[String: Any]])?.first)
    #expect(attribute["count"] as? Int == 2)
    #expect((attribute["intervalNs"] as? [String: Any])?["max"] as? Int == 50_000_000)
  }
}

/// A picture's elements in order, as an independent XML parser finds them.
func checkedPicture(_ report: LogReport) throws -> [(name: String, attributes: [String: String])] {
  final class Elements: NSObject, XMLParserDelegate {
    var list: [(name: String, attributes: [String: String])] = []

    func parser(
      _ parser: XMLParser, didStartElement name: String, namespaceURI: String?, qualifiedName: String?,
      attributes: [String: String]
    ) { list.append((name, attributes)) }
  }
  let parser = XMLParser(data: Data(StatisticsPicture(report).octets))
  let elements = Elements()
  parser.delegate = elements
  try #require(parser.parse(), "not valid XML: \(String(describing: parser.parserError))")
  for (name, attributes) in elements.list where name == "rect" {
    let x = try #require(attributes["x"].map(Double.init) ?? 0)
    let width = try #require(attributes["width"].flatMap(Double.init))
    #expect(x >= 0 && x + width <= 960)
  }
  return elements.list
}

struct StatisticsPictureTests {
  @Test func drawsWhatTheReportSays() throws {
    var script = Script()
    script.connect(0)
    script.event(500, "3e0a 03 00 4000 0600 0000 f401")
    for time in Array(0..<100) + Array(200..<300) {
      script.att(Int64(time) * 20, .controllerToHost, "1b 1200 00")
    }
    script.event(6_500, "0504 00 4000 13")
    let elements = try checkedPicture(try script.report())
    #expect(elements.first?.name == "svg")
    #expect(elements.count { $0.name == "path" } == 1)
    #expect(elements.count { $0.attributes["stroke"] == "#c53030" } == 1)
    // 500 of 6,500 ms, on 860 pixels from 70 on.
    let change = try #require(elements.first { $0.attributes["stroke"] == "#b7791f" })
    #expect(change.attributes["x1"] == "136.15")
    // The gap from 1,980 to 4,000 ms.
    let gap = try #require(elements.first { $0.attributes["fill-opacity"] == "0.45" })
    #expect(gap.attributes["x"] == "331.97")
    #expect(gap.attributes["width"] == "267.26")
  }
}

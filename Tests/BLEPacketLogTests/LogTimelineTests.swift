import BLEDissector
import BLEPacketLog
import BLEWire
import LogKit
import TestKit
import Testing

/// Logs whose writer's clock was set, and logs that have data before the start of their link. Bytes by hand
/// from Core 5.4, Vol 4, Part E, 5.4 and 7.
@Suite struct LogTimelineTests {
  /// A log of one adapter, written record by record.
  private struct Script {
    static let start: Int64 = 1_760_000_000_000_000_000
    var packets: [LoggedPacket] = []
    /// Current error of the writer's clock.
    var offset: Int64 = 0

    mutating func packet(
      _ milliseconds: Int64, _ type: HCIPacketType, _ direction: HCIDirection, _ octets: String
    ) {
      packets.append(
        LoggedPacket(
          type: type, direction: direction, octets: octetsOf(octets),
          timeNanoseconds: Self.start + (milliseconds + offset) * 1_000_000))
    }

    mutating func event(_ milliseconds: Int64, _ octets: String) {
      packet(milliseconds, .event, .controllerToHost, octets)
    }

    mutating func att(
      _ milliseconds: Int64, _ pdu: String, _ direction: HCIDirection = .controllerToHost,
      handle: String = "40"
    ) {
      let count = octetsOf(pdu).count
      let header = handle + (direction == .hostToController ? "00" : "20")
      packet(milliseconds, .acl, direction, "\(header) \(octet(count + 4))00 \(octet(count))00 0400 \(pdu)")
    }

    mutating func connect(_ milliseconds: Int64, address: String = "9a78563412c4") {
      event(milliseconds, "3e13 01 00 4000 00 01 \(address) 1800 0000 c800 00")
    }

    /// Adds a heart rate every second.
    mutating func notify(from first: Int64, count: Int64) {
      for number in 0..<count { att(first + 1_000 * number, "1b1200 16\(octet(60 + Int(number) % 30)) e803") }
    }
  }

  private func read(_ script: Script) throws -> (report: LogReport, times: [Int64], indexes: [Int]) {
    var timeline = LogTimeline()
    var reader = PacketLogReader()
    var records: [StoredPacketRecord] = []
    try reader.read(log(script.packets).span) { record in
      timeline.take(record) { records.append(StoredPacketRecord(copying: $0)) }
    }
    try reader.finish()
    timeline.finish { records.append(StoredPacketRecord(copying: $0)) }
    var statistics = LogStatistics()
    for record in records { record.withRecord { statistics.take($0) } }
    let indexes = records.map(\.header.index)
    let times = records.map { ($0.header.time.nanoseconds - Script.start) / 1_000_000 }
    #expect(indexes.sorted() == Array(1...script.packets.count))
    var report = statistics.finish()
    report.take(timeline)
    return (report, times, indexes)
  }

  private func seconds(_ report: LogReport) -> [Double] { report.clockSteps.map(\.span.seconds) }

  // MARK: Clocks

  @Test(arguments: [-3_600, -86_400, -37, -5] as [Int64]) func followsAClockThatIsSetBack(_ step: Int64)
    throws
  {
    var script = Script()
    script.connect(0)
    script.notify(from: 1_000, count: 60)
    script.offset = step * 1_000
    script.notify(from: 61_000, count: 60)
    let (report, times, _) = try read(script)
    #expect(times == [0] + (1...120).map { 1_000 * $0 })
    #expect(seconds(report) == [Double(step)] && report.clockSteps.map(\.index) == [62])
    #expect(report.clockSteps.map(\.isCertain) == [true] && report.clockStepCount == 1)
    #expect(report.connections.map(\.duration) == [120_000_000_000] && report.timeReversals == 0)
    #expect(report.connections[0].attributes[0].intervals?.maximum == 1_000_000_000)
    #expect(report.duration == 120_000_000_000)
  }

  /// The clock is set back twice, then corrected.
  @Test func followsSeveralSteps() throws {
    var script = Script()
    script.connect(0)
    for (start, offset) in [(1_000, 0), (31_000, -3_600_000), (61_000, -4_500_000), (91_000, 0)]
      as [(Int64, Int64)]
    {
      script.offset = offset
      script.notify(from: start, count: 30)
    }
    let (report, times, _) = try read(script)
    #expect(times == [0] + (1...120).map { 1_000 * $0 })
    #expect(seconds(report) == [-3_600, -900, 4_500])
    #expect(report.clockSteps.map(\.isCertain) == [true, true, true])
  }

  /// Responses that arrive an hour after their requests.
  @Test(arguments: [
    ["< 0a1300", "> 0b01"], ["< 120f00 0100", "> 13"], ["< 520f00 01", "3 1305 01 4000 0100"],
    ["1 0514 02 4000", "3 0e07 01 0514 00 4000 c4"],
  ]) func findsAForwardStepByAnAnswer(_ pair: [String]) throws {
    for between in [[], ["> 1b1200 1650 e803"]] {
      var script = Script()
      script.connect(0)
      // Makes the log show when packets were sent.
      script.att(100, "520f00 00", .hostToController)
      script.event(130, "1305 01 4000 0100")
      var time: Int64 = 1_000
      for (place, text) in ([pair[0]] + between + [pair[1]]).enumerated() {
        if place == 1 { script.offset = 3_600_000 }
        let octets = String(text.dropFirst(2))
        switch text.first {
        case "<": script.att(time, octets, .hostToController)
        case ">": script.att(time, octets)
        case "1": script.packet(time, .command, .hostToController, octets)
        default: script.event(time, octets)
        }
        time += 40
      }
      script.notify(from: 2_000, count: 5)
      let (report, _, _) = try read(script)
      #expect(report.clockSteps.count == 1 && report.clockSteps.first?.isCertain == true, "\(pair)")
      // The time that passed in between is not known exactly, so it counts as zero.
      #expect(abs((seconds(report).first ?? 0) - 3_600) < 0.1)
      #expect(report.connections.map { ($0.duration + 50_000_000) / 1_000_000_000 } == [6])
    }
  }

  /// Notifications that continue after a jump may mean a pause or a step; the times are not changed.
  @Test func saysWhatItCannotTell() throws {
    var script = Script()
    script.connect(0)
    script.notify(from: 1_000, count: 30)
    script.offset = 3_600_000
    script.notify(from: 31_000, count: 30)
    let (report, times, _) = try read(script)
    #expect(seconds(report) == [3_600] && report.clockSteps.map(\.isCertain) == [false])
    #expect(times.last == 3_660_000 && report.connections.map(\.duration) == [3_660_000_000_000])
  }

  /// Pauses of an hour: before another link, with a packet in between, in an irregular stream, and after a
  /// repeated request.
  @Test(arguments: 0..<5) func takesAPauseForNoStep(_ kind: Int) throws {
    var script = Script()
    script.connect(0)
    script.att(500, "0a1300", .hostToController)
    if kind != 4 { script.att(530, "0b01") }
    if kind != 2 { script.notify(from: 1_000, count: 30) }
    switch kind {
    case 0:
      script.event(31_000, "0504 00 4000 13")
      script.offset = 3_600_000
      script.connect(31_500)
    case 1:
      for minute in 1..<60 as Range<Int64> { script.event(31_000 + minute * 60_000, "ff02 0102") }
      script.offset = 3_600_000
    case 2:
      for time in [1_000, 1_900, 7_000, 7_050, 30_000] as [Int64] { script.att(time, "1b1200 1650") }
      script.offset = 3_600_000
    case 3:
      script.offset = 3_600_000
      script.event(30_900, "ff02 0102")
    default:
      script.offset = 3_600_000
      // The first request got no response in the log; this one does.
      script.att(30_500, "0a1300", .hostToController)
      script.att(30_530, "0b01")
    }
    script.notify(from: 32_000, count: 30)
    let (report, times, _) = try read(script)
    #expect(report.clockStepCount == 0)
    #expect(times.last == 3_661_000)
  }

  /// Two writers of one file: one record is late, although the clock was not set.
  @Test func takesARecordOutOfOrderForNoStep() throws {
    var script = Script()
    script.connect(0)
    script.notify(from: 1_000, count: 10)
    script.att(4_000, "1b1200 1650")
    script.notify(from: 11_000, count: 10)
    let (report, times, _) = try read(script)
    #expect(report.clockStepCount == 0 && report.timeReversals == 1)
    #expect(times.last == 20_000 && times == times.sorted())
  }

  /// Concatenated files, the older one last.
  @Test func takesAnotherLogForNoStep() throws {
    var script = Script()
    script.connect(0)
    script.notify(from: 1_000, count: 10)
    script.offset = -30 * 86_400_000
    script.connect(20_000)
    script.notify(from: 21_000, count: 10)
    let (report, times, _) = try read(script)
    #expect(report.clockStepCount == 0 && report.timeReversals == 1)
    let last: Int64 = 30_000 - 30 * 86_400_000
    #expect(times.last == last)
  }

  /// Some records have impossible times, as after a fault of the writer's. The records around them go on.
  @Test(
    arguments: [3_600_000, -3_600_000, 31_500_000_000, -31_500_000_000, 7_000_000_000_000] as [Int64], 1...4)
  func leavesOutImpossibleTimes(_ offset: Int64, _ count: Int) throws {
    var script = Script()
    script.connect(0)
    script.notify(from: 1_000, count: 20)
    script.offset = offset
    script.notify(from: 21_000, count: Int64(count))
    script.offset = 0
    script.notify(from: 21_000 + 1_000 * Int64(count), count: 20)
    let (report, times, indexes) = try read(script)
    #expect(report.clockStepCount == 0 && report.disorderedRecords == count)
    #expect(times == times.sorted() && times.last == 40_000 + 1_000 * Int64(count))
    #expect(indexes == indexes.sorted())
    let said = StatisticsText.clockSteps(report)
    #expect(said.count == 1 && said[0].contains("the time of a neighbour"), "\(said)")
  }

  /// Times that go back by ten years amid a stream: it is not known how much time passed.
  @Test func doubtsTimesThatGoBackAmidAStream() throws {
    var script = Script()
    script.connect(0)
    script.notify(from: 1_000, count: 20)
    script.offset = -3_650 * 86_400_000
    script.notify(from: 21_000, count: 20)
    let (report, times, _) = try read(script)
    #expect(report.clockSteps.map(\.isCertain) == [false] && report.timeReversals == 1)
    #expect(times.last == 40_000 + script.offset)
    let said = StatisticsText.clockSteps(report)
    #expect(said.count == 1 && said[0].hasPrefix("the times go back by 31536000"), "\(said)")
  }

  // MARK: Early data

  @Test(arguments: [1, 8, 40, 150] as [Int64]) func joinsDataThatStandBeforeTheirLink(_ lead: Int64) throws {
    var script = Script()
    script.att(0, "02f700")
    script.packet(lead / 2, .acl, .controllerToHost, "4020 0600 0200 0600 0b01")
    script.event(lead / 2, "ff02 0102")
    script.connect(lead)
    script.att(lead + 10, "031700", .hostToController)
    script.notify(from: 1_000, count: 3)
    let (report, times, indexes) = try read(script)
    #expect(report.connections.count == 1 && report.connections.first?.origin == .connected)
    let link = try #require(report.connections.first)
    #expect(link.peer?.description == "C4:12:34:56:78:9A" && link.received.packets == 5)
    #expect(link.requests.map(\.unanswered) == [0] && link.unaskedResponses == 0)
    #expect(indexes.prefix(4) == [4, 1, 2, 3] && times.prefix(2) == [0, 0])
  }

  /// A log that begins in the middle of a link, whose handle is reused. Data is not held that long, and the
  /// host did not know of this data.
  @Test func keepsALinkThatIsOlderThanTheLog() throws {
    var late = Script()
    late.att(0, "1b1200 1650")
    late.connect(5_000)
    late.att(5_100, "1b1200 1650")
    #expect(try read(late).report.connections.map(\.origin) == [.middle, .connected])
    var answered = Script()
    answered.att(0, "02f700")
    answered.att(10, "031700", .hostToController)
    answered.connect(100)
    #expect(try read(answered).report.connections.map(\.origin) == [.middle, .connected])
  }

  /// Data between two links with the same handle belongs to the nearer one.
  @Test func tellsLateFromEarlyData() throws {
    func script(_ data: Int64) -> Script {
      var script = Script()
      script.connect(0)
      script.att(10, "0a1300", .hostToController)
      script.event(1_000, "0504 00 4000 13")
      script.att(data, "02f700")
      script.connect(1_100, address: "010203040506")
      script.att(1_150, "031700", .hostToController)
      return script
    }
    let late = try read(script(1_003)).report
    #expect(late.latePackets == 1 && late.connections.map(\.received.packets) == [0, 0])
    #expect(late.connections.last?.unaskedResponses == 1)
    let early = try read(script(1_090)).report
    #expect(early.latePackets == 0 && early.connections.map(\.received.packets) == [0, 1])
    #expect(early.connections.last?.requests.map(\.unanswered) == [0])
  }

  /// Held records are delivered at the end, and at a limit.
  @Test func losesNoRecord() throws {
    var script = Script()
    for number in 0..<1_000 as Range<Int64> {
      script.att(number / 50, "1b1200 16", handle: octet(Int(number % 7)))
    }
    #expect(try read(script).indexes == Array(1...1_000))
    #expect(try read(script).report.connections.count == 7)
  }
}

private func octet(_ number: Int) -> String { hexadecimal(UInt8(number)) }

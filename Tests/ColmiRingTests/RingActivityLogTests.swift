import BLEWire
import ColmiRing
import TestKit
import Testing

@Suite struct RingActivityLogTests {
  private func feed(
    _ frames: [[UInt8]], _ assembler: inout RingActivityLogAssembler
  ) throws -> RingLogStep<RingActivityLog> {
    var last = RingLogStep<RingActivityLog>.incomplete
    for octets in frames { last = assembler.receive(try RingFrame(validating: octets.span)) }
    return last
  }

  private func log(_ frames: [[UInt8]]) throws -> RingActivityLog {
    var assembler = RingActivityLogAssembler()
    guard case .complete(let log) = try feed(frames, &assembler) else { throw Incomplete() }
    return log
  }

  private struct Incomplete: Error {}

  private func record(_ digits: String) -> [UInt8] {
    let start = octetsOf(digits)
    return (start + [UInt8](repeating: 0, count: 16 - start.count)).resummed
  }

  /// The unit is proved by the capture: 0x48 reports 13,046 small calories for the same day.
  @Test func tellsKilocalories() throws {
    let log = try log(try RingRequestVector.named("steps-rt11cr-20251211").frames)
    #expect(log.kilocalories == 13.04)
    #expect(log.records.map(\.startMinute) == [0, 60, 780, 840, 1020, 1080, 1140, 1200])
    let without = try self.log(try RingRequestVector.named("steps-r11-20260617").frames)
    #expect(without.kilocalories == nil)
    #expect(without.calorieUnit == nil)
  }

  @Test(arguments: [0, 1, 2, 3] as [UInt64])
  func takesRecordsInAnyOrder(seed: UInt64) throws {
    let frames = try RingRequestVector.named("steps-rt11cr-20251211").frames
    let expected = try log(frames)
    var generator = SplitMix(state: seed)
    var assembler = RingActivityLogAssembler()
    let unasked = octetsOf("7312000bef0222090007cf0000000082")
    let shuffled = [frames[0]] + frames.dropFirst().shuffled(using: &generator)
    for frame in shuffled.dropLast() {
      #expect(try feed([frame], &assembler) == .incomplete)
      #expect(try feed([unasked], &assembler) == .foreign)
      #expect(try feed([frame], &assembler) == .repeated)
    }
    #expect(try feed([shuffled[8]], &assembler) == .complete(expected))
    #expect(assembler.counters.repeated == 8)
    #expect(assembler.counters.foreign == 8)
  }

  @Test func tellsWhichRecordsWereLost() throws {
    let frames = try RingRequestVector.named("steps-rt11cr-20251211").frames
    for lost in 1..<9 {
      var assembler = RingActivityLogAssembler()
      var rest = frames
      rest.remove(at: lost)
      #expect(try feed(rest, &assembler) == .incomplete)
      #expect(assembler.hasLastRecord == (lost != 8))
      let partial = assembler.finish()
      let log = try #require(partial)
      #expect(log.missingRecords == [lost - 1])
      #expect(log.records.count == 7)
      let nothing = assembler.finish()
      #expect(nothing == nil)
    }
  }

  @Test func completesWithoutAHeader() throws {
    let frames = try RingRequestVector.named("steps-20241015").frames
    let log = try log([frames[1]])
    #expect(log.recordCount == 1)
    #expect(log.calorieUnit == nil)
  }

  @Test func endsWithoutRecords() throws {
    var none = RingActivityLogAssembler()
    #expect(try feed([octets(of: RingCommand(0x43, 0xFF))], &none) == .noData)
    let empty = try log([octets(of: RingCommand(0x43, 0xF0))])
    #expect(empty.records.isEmpty)
    #expect(empty.calorieUnit == .unknown(flag: 0))
    var refused = RingActivityLogAssembler()
    #expect(try feed([octets(of: RingCommand(0xC3, 0xEE))], &refused) == .refused(code: 0xEE))
  }

  /// Digits above 9, and invalid dates. Year 00 is 2000: some rings send it.
  @Test(
    arguments: [
      ("43 25 13 01 10 00 01", nil), ("43 25 02 29 10 00 01", nil), ("43 2a 01 01 10 00 01", nil),
      ("43 25 00 01 10 00 01", nil), ("43 25 01 00 10 00 01", nil), ("43 99 99 99 10 00 01", nil),
      ("43 24 02 29 10 00 01", "2024-2-29"), ("43 00 01 01 10 00 01", "2000-1-1"),
    ] as [(String, String?)])
  func keepsRecordsWithImpossibleDates(_ digits: String, _ expected: String?) throws {
    let octets = record(digits)
    let log = try log([octets])
    switch log.records[0].date {
    case .valid(let date): #expect("\(date.year)-\(date.month)-\(date.day)" == expected)
    case .impossible(let year, let month, let day):
      #expect(expected == nil)
      #expect([year, month, day] == Array(octets[1...3]))
    }
  }

  @Test func keepsRecordsWithImpossibleSlots() throws {
    #expect(try log([record("43 25 01 01 60 00 01 00 00 07")]).records[0].startMinute == nil)
    #expect(try log([record("43 25 01 01 5f 00 01")]).records[0].startMinute == 1425)
    #expect(try log([record("43 25 01 01 60 00 01 00 00 07")]).steps == 7)
  }

  @Test func refusesContradictions() throws {
    var assembler = RingActivityLogAssembler()
    let header = octets(of: RingCommand(0x43, payload: [0xF0, 2, 1].span))
    #expect(try feed([header], &assembler) == .incomplete)
    #expect(
      try feed([record("43 25 01 01 10 00 03")], &assembler) == .rejected(.recordCount(3, announced: 2)))
    #expect(try feed([record("43 25 01 01 10 02 02")], &assembler) == .rejected(.index(2, count: 2)))
    #expect(try feed([record("43 25 01 01 10 00 02")], &assembler) == .incomplete)
    #expect(try feed([record("43 25 01 01 10 00 02 00 00 01")], &assembler) == .incomplete)
    #expect(assembler.counters.rejected == 2)
    #expect(assembler.counters.changed == 1)
    let other = octets(of: RingCommand(0x43, payload: [0xF0, 1, 1].span))
    #expect(try feed([other], &assembler) == .incomplete)
    guard case .complete(let log) = try feed([record("43 25 01 01 10 00 01")], &assembler) else {
      Issue.record("another header begins another log")
      return
    }
    #expect(log.recordCount == 1)
    #expect(assembler.counters.restarted == 1)
  }
}

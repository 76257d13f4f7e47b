import BLEWire
import ColmiRing
import TestKit
import Testing

@Suite struct RingDayLogTests {
  private static let heartRate = "hrlog-rt11cr-20251211-225417"
  private static let unasked = ["73010000000000000000000000000074", "2ff40000000000000000000000000023"]
    .map(octetsOf)

  /// Feeds frames and returns the result of the last one.
  private func feed(
    _ frames: [[UInt8]], _ assembler: inout RingDayLogAssembler
  ) throws -> RingLogStep<RingDayLog> {
    var last = RingLogStep<RingDayLog>.incomplete
    for octets in frames { last = assembler.receive(try RingFrame(validating: octets.span)) }
    return last
  }

  private func log(_ step: RingLogStep<RingDayLog>) throws -> RingDayLog {
    guard case .complete(let log) = step else { throw Incomplete() }
    return log
  }

  private struct Incomplete: Error {}

  private func header(_ opcode: UInt8, _ frameCount: UInt8, _ interval: UInt8) -> [UInt8] {
    octets(of: RingCommand(opcode, payload: [0, frameCount, interval].span))
  }

  @Test func completesWithTheLastFrame() throws {
    let frames = try RingRequestVector.named(Self.heartRate).frames
    var assembler = RingDayLogAssembler(.heartRate, day: .timestamp(1_765_493_657))
    #expect(try feed(frames.dropLast(), &assembler) == .incomplete)
    #expect(assembler.isOpen && !assembler.hasLastFrame)
    let log = try log(try feed([frames[23]], &assembler))
    #expect(log.isComplete)
    #expect(log.samples.count == 288)
    #expect(log.day == .timestamp(1_765_493_657))
    #expect(log.entries.first == RingDayLog.Entry(slot: 263, value: 114))
    #expect(log.entries.count == 12)
    #expect(try feed([frames[23]], &assembler) == .foreign)
    let rest = assembler.finish()
    #expect(rest == nil)
  }

  @Test(arguments: [0, 1, 2, 3, 4] as [UInt64])
  func takesFramesInAnyOrder(seed: UInt64) throws {
    let frames = try RingRequestVector.named(Self.heartRate).frames
    var straight = RingDayLogAssembler(.heartRate)
    let expected = try log(try feed(frames, &straight))
    var generator = SplitMix(state: seed)
    var assembler = RingDayLogAssembler(.heartRate)
    var steps: [RingLogStep<RingDayLog>] = []
    for frame in frames.shuffled(using: &generator) {
      steps.append(try feed(Self.unasked, &assembler))
      steps.append(try feed([frame], &assembler))
    }
    #expect(steps.last == .complete(expected))
    #expect(steps.filter { $0 == .foreign }.count == 24)
    #expect(assembler.counters.foreign == 48)
    #expect(assembler.counters.rejected == 0)
  }

  @Test func countsRepeats() throws {
    let frames = try RingRequestVector.named(Self.heartRate).frames
    var assembler = RingDayLogAssembler(.heartRate)
    for frame in frames.dropLast() {
      #expect(try feed([frame], &assembler) == .incomplete)
      #expect(try feed([frame], &assembler) == .repeated)
    }
    #expect(try log(try feed([frames[23]], &assembler)).isComplete)
    #expect(assembler.counters.repeated == 23)
  }

  @Test func givesWhatThereIsWhenItStopsHalfWay() throws {
    let vector = try RingRequestVector.named("hrv-partial-fixture")
    var assembler = RingDayLogAssembler(.heartRateVariability)
    #expect(try feed(vector.frames, &assembler) == .incomplete)
    let partial = assembler.finish()
    let log = try #require(partial)
    #expect(log.missingFrames == [2, 3, 4])
    #expect(log.entries.map(\.slot) == [0, 2, 4, 6, 8, 10])
    #expect(log.samples.count == 48)
    #expect(!assembler.isOpen)
    #expect(try feed(vector.frames, &assembler) == .foreign)
  }

  /// Each frame is lost in turn: it is reported, and only its slots are empty.
  @Test func tellsWhichFrameWasLost() throws {
    let frames = try RingRequestVector.named("hrlog-20260213").frames
    var straight = RingDayLogAssembler(.heartRate)
    let whole = try log(try feed(frames, &straight))
    for lost in 1..<24 {
      var assembler = RingDayLogAssembler(.heartRate)
      var rest = frames
      rest.remove(at: lost)
      #expect(try feed(rest, &assembler) == .incomplete)
      #expect(assembler.hasLastFrame == (lost != 23))
      let partial = assembler.finish()
      let log = try #require(partial)
      #expect(log.missingFrames == [lost])
      let slots = lost == 1 ? 0..<9 : (9 + 13 * (lost - 2))..<(9 + 13 * (lost - 1))
      #expect(log.entries == whole.entries.filter { !slots.contains($0.slot) })
    }
  }

  @Test func saysNothingWithoutAHeader() throws {
    let frames = try RingRequestVector.named(Self.heartRate).frames
    var assembler = RingDayLogAssembler(.heartRate)
    #expect(try feed(Array(frames.dropFirst()), &assembler) == .incomplete)
    #expect(assembler.isOpen)
    let rest = assembler.finish()
    #expect(rest == nil)
  }

  @Test func refusesAnotherDay() throws {
    let frames = try RingRequestVector.named("stress-rt11cr-20251215").frames
    var assembler = RingDayLogAssembler(.stress, day: .daysAgo(3))
    #expect(try feed(Array(frames[...1]), &assembler) == .rejected(.otherDay(.daysAgo(0))))
    #expect(assembler.counters.rejected == 1)

    var second = RingDayLogAssembler(.stress)
    _ = try feed(Array(frames[...1]), &second)
    let other = octets(of: RingCommand(0x37, 0x01, 0x02))
    #expect(try feed([other], &second) == .rejected(.otherDay(.daysAgo(2))))
    #expect(try log(try feed(Array(frames[2...]), &second)).day == .daysAgo(0))
  }

  @Test func refusesImpossibleHeadersAndFrames() throws {
    var assembler = RingDayLogAssembler(.stress)
    for count in [0, 1, 0xFF] as [UInt8] {
      #expect(try feed([header(0x37, count, 30)], &assembler) == .rejected(.frameCount(count)))
    }
    #expect(try feed([header(0x37, 5, 0)], &assembler) == .rejected(.interval(0)))
    #expect(try feed([header(0x37, 5, 30)], &assembler) == .incomplete)
    for index in [5, 6, 0xFE] as [UInt8] {
      let frame = octets(of: RingCommand(0x37, index))
      #expect(try feed([frame], &assembler) == .rejected(.index(index, count: 5)))
    }
    #expect(assembler.counters.rejected == 7)
  }

  /// Frames beyond the number in a header that arrives late.
  @Test func dropsFramesBeyondALateHeader() throws {
    let frames = try RingRequestVector.named("stress-rt11cr-20251215").frames
    let beyond = [5, 6].map { octets(of: RingCommand(0x37, $0, 9)) }
    var assembler = RingDayLogAssembler(.stress)
    #expect(try feed(beyond + [frames[0]], &assembler) == .incomplete)
    #expect(assembler.counters.rejected == 2)
    let log = try log(try feed(Array(frames[1...]), &assembler))
    #expect(log.entries.count == 18)
  }

  /// The maximum number of frames in byte 1, at the interval that needs the most slots.
  @Test func takesTheLongestLog() throws {
    var assembler = RingDayLogAssembler(.unnamed)
    var frames = [header(0x7A, 0xFE, 1)]
    for index in 1...UInt8(0xFD) { frames.append(octets(of: RingCommand(0x7A, index, index))) }
    let log = try log(try feed(frames, &assembler))
    #expect(log.samples.count == 1440)
    #expect(log.day == .daysAgo(1))
    #expect(log.entries.first == RingDayLog.Entry(slot: 12, value: 2))
  }

  @Test func beginsAgainWithAnotherHeader() throws {
    let frames = try RingRequestVector.named("stress-rt11cr-20251211").frames
    var assembler = RingDayLogAssembler(.stress)
    #expect(try feed([header(0x37, 9, 15)] + frames, &assembler) != .incomplete)
    #expect(assembler.counters.restarted == 1)
  }

  /// Today's log is requested again while it grows.
  @Test func takesTheLaterOfTwo() throws {
    let frames = try RingRequestVector.named("stress-rt11cr-20251211").frames
    var assembler = RingDayLogAssembler(.stress)
    _ = try feed(Array(frames.dropLast()), &assembler)
    let later = octets(of: RingCommand(0x37, payload: [3, 0, 0x2A].span))
    #expect(try feed([later], &assembler) == .incomplete)
    let log = try log(try feed([frames[4]], &assembler))
    // 12 slots of frame 1, 13 of frame 2, then the second one of frame 3.
    #expect(log.entries.map(\.slot) == [26, 44, 45])
    #expect(assembler.counters.changed == 1)
  }

  @Test func endsWithoutData() throws {
    var assembler = RingDayLogAssembler(.heartRate)
    let none = try RingRequestVector.named("nodata-hr").frames
    #expect(try feed(none, &assembler) == .noData)
    var refused = RingDayLogAssembler(.heartRate)
    let refusal = octets(of: RingCommand(0x95, 0xEE))
    #expect(try feed([refusal], &refused) == .refused(code: 0xEE))
    let other = octets(of: RingCommand(0x86, 0xEE))
    var third = RingDayLogAssembler(.heartRate)
    #expect(try feed([other], &third) == .foreign)
  }
}

/// The same numbers in each run. Vigna's splitmix64.
struct SplitMix: RandomNumberGenerator {
  var state: UInt64

  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var number = state
    number = (number ^ number >> 30) &* 0xBF58_476D_1CE4_E5B9
    number = (number ^ number >> 27) &* 0x94D0_49BB_1331_11EB
    return number ^ number >> 31
  }
}

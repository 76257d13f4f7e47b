import BLEWire
import ColmiRing
import Foundation
import TestKit
import Testing

/// Numbers, gaps and fitted times of ticks whose true times are known.
@Suite struct TickClockTests {
  static let streams = [
    SimulatedStream(rate: 1, connectionInterval: 0.05, ticks: 600),
    SimulatedStream(rate: 4.18, connectionInterval: 0.03, ticks: 2_000),
    SimulatedStream(rate: 25, connectionInterval: 0.03, ticks: 5_000),
    SimulatedStream(rate: 50, connectionInterval: 0.015, ticks: 10_000),
    SimulatedStream(rate: 50, connectionInterval: 0.05, ticks: 10_000),
    SimulatedStream(rate: 100, connectionInterval: 0.03, ticks: 10_000),
    SimulatedStream(rate: 1_000, connectionInterval: 0.0075, ticks: 20_000),
    SimulatedStream(rate: 997.3, connectionInterval: 0.03, ticks: 20_000),
  ]

  /// Deviation from the mean: the constant part of the delay cannot be measured.
  private func deviation(_ errors: [Double]) -> Double {
    let mean = errors.mean
    return errors.map { $0 - mean }.rootMeanSquare
  }

  private func errors(
    _ stream: SimulatedStream, _ placed: [PlacedTick], of time: (PlacedTick) -> ReceiveTime
  ) -> [Double] {
    zip(stream.arrivals, placed).map { arrival, placed in
      Double(time(placed).nanoseconds - SimulatedStream.epoch) / 1e9 - arrival.sensor
    }
  }

  /// Late ticks do not count as lost, and the fitted times are several times more accurate than the
  /// timestamps.
  @Test(arguments: streams)
  func fitsTheSensorsClock(_ stream: SimulatedStream) throws {
    var clock = TickClock()
    let placed = stream.placed(&clock)
    #expect(placed.map(\.index) == Array(0..<stream.ticks))
    #expect(placed.map(\.tick.time) == stream.arrivals.map(\.kernel))
    #expect(clock.report.missing == 0 && clock.report.restarts == 0)
    let rate = try #require(clock.period.map { 1e9 / $0 })
    #expect(abs(rate / stream.rate - 1) < 0.001)
    let stamps = deviation(errors(stream, placed, of: \.tick.time))
    let fitted = deviation(errors(stream, placed, of: \.fittedTime))
    #expect(fitted < stamps / 3)
    // The reported error is the timestamps' true error.
    #expect(abs(clock.report.residual / 1e9 - stamps) < 0.2 * stamps)
    Figures.note(
      "\(stream.testDescription): rate \(rate), stamps off by \(stamps * 1e3) ms RMS, fitted \(fitted * 1e3) ms"
    )
  }

  /// Each gap is found, with its length; and if a tick takes longer than the jitter, at its exact place.
  @Test(arguments: streams)
  func findsWhatNeverCame(_ stream: SimulatedStream) {
    var stream = stream
    let n = stream.ticks
    stream.lost = Set(Array(n / 3..<n / 3 + 3) + Array(n / 2..<n / 2 + n / 20) + [9 * n / 10])
    var clock = TickClock()
    let placed = stream.placed(&clock)
    // At 1,000 Hz, single ticks are less than the uncertainty of the rate after 20 s: only the long gap is
    // certain to be found.
    let ticksOfEvent = Int(stream.connectionInterval * stream.rate)
    guard stream.rate < 500 else {
      #expect(abs(clock.report.missing - stream.lost.count) <= max(4, ticksOfEvent))
      return
    }
    // If the interval is a whole number of ticks, a single lost tick looks like a clock drift of one tick.
    let ticksOfInterval = stream.connectionInterval * stream.rate
    if ticksOfInterval >= 1, ticksOfInterval == ticksOfInterval.rounded() {
      #expect(stream.lost.count - 1...stream.lost.count ~= clock.report.missing)
      // With so many lost ticks, one more may be missing at the end.
      #expect(stream.lost.count...stream.lost.count + 1 ~= clock.report.missingAtMost ?? 0)
      return
    }
    #expect(clock.report.missing == stream.lost.count)
    let wrong = zip(placed, stream.arrivals).count { $0.index != $1.number }
    // The timestamps do not show which tick of a burst is missing: each gap may affect the ticks of two
    // events.
    #expect(wrong <= 6 * ticksOfEvent)
    #expect(placed.last?.index == n - 1)
    guard ticksOfEvent == 0 else { return }
    #expect(clock.report.gaps == 3)
    #expect(clock.report.longestGap == n / 20)
  }

  /// A link that stalls and then delivers everything has lost nothing.
  @Test(arguments: [25.0, 50, 100, 1_000])
  func doesNotTakeAStallForALoss(rate: Double) {
    var stream = SimulatedStream(rate: rate, connectionInterval: 0.03, ticks: Int(20 * rate))
    stream.stall = (Int(10 * rate), 0.8)
    var clock = TickClock()
    let placed = stream.placed(&clock)
    #expect(clock.report.missing == 0)
    #expect(placed.map(\.index) == Array(0..<stream.ticks))
    #expect(clock.report.latest > 0.7e9)
  }

  /// A host that is late by a whole period for some seconds has lost nothing, nor has one that is still late
  /// when the stream ends.
  @Test(arguments: [0.04, 0.08], [25.0, 60])
  func doesNotTakeALateHostForALoss(late: Double, end: Double) {
    let stream = SimulatedStream(rate: 25, connectionInterval: 0.03, ticks: Int(25 * end))
    var (clock, placed, last) = (TickClock(), [PlacedTick](), Int64.min)
    for arrival in stream.arrivals {
      let isLate = 22..<26 ~= arrival.kernelSeconds
      last = max(last &+ 100_000, arrival.kernel.nanoseconds + (isLate ? Int64(late * 1e9) : 0))
      clock.take(RingTick(time: ReceiveTime(nanoseconds: last)))
      while let tick = clock.next() { placed.append(tick) }
    }
    clock.finish()
    while let tick = clock.next() { placed.append(tick) }
    #expect(placed.map(\.index) == Array(0..<stream.ticks))
    #expect(clock.report.missing == 0)
    // The last ticks may be late, or one or two may be missing.
    if end == 25 { #expect(clock.report.missingAtMost == Int(late * 25)) }
  }

  /// If the host is punctual, a loss is reported within seconds.
  @Test func reportsALossWithinSeconds() {
    var stream = SimulatedStream(rate: 50, connectionInterval: 0.03, ticks: 1_250)
    stream.lost = [1_050]
    var clock = TickClock()
    for arrival in stream.arrivals {
      clock.take(RingTick(time: arrival.kernel))
      while clock.next() != nil {}
    }
    #expect(clock.report.missing == 1)
  }

  /// The stream pauses for minutes, as after a lost link: the fit restarts, and the pause is reported.
  @Test func beginsAnewAfterALongPause() {
    var stream = SimulatedStream(rate: 50, connectionInterval: 0.03, ticks: 10_000)
    stream.lost = Set(2_000..<8_000)
    var clock = TickClock()
    let placed = stream.placed(&clock)
    #expect(placed.count == 4_000)
    #expect(clock.report.restarts == 1)
    #expect(placed.filter(\.isRestart).map(\.tick.time) == [stream.arrivals[2_000].kernel])
    #expect(abs(clock.report.missing - 6_000) <= 60)
  }

  /// The kernel's clock is set back by an hour: this is reported, and the results stay valid.
  @Test func survivesAClockThatIsSet() {
    let stream = SimulatedStream(rate: 25, connectionInterval: 0.03, ticks: 2_000)
    var clock = TickClock()
    var placed: [PlacedTick] = []
    for (index, arrival) in stream.arrivals.enumerated() {
      let shift: Int64 = index < 1_000 ? 0 : 3_600_000_000_000
      clock.take(RingTick(time: ReceiveTime(nanoseconds: arrival.kernel.nanoseconds - shift)))
      while let tick = clock.next() { placed.append(tick) }
    }
    clock.finish()
    while let tick = clock.next() { placed.append(tick) }
    #expect(placed.map(\.index) == Array(0..<2_000))
    #expect(clock.report.restarts == 1 && clock.report.missing == 0)
    #expect(placed[1_000].isRestart)
    #expect(clock.report.latest < 0.2e9 && clock.report.earliest > -0.2e9)
  }

  /// Streams too short for a rate still give all of their ticks.
  @Test(arguments: 0...5) func takesShortStreams(count: Int) {
    let stream = SimulatedStream(rate: 1, connectionInterval: 0.05, ticks: count, lossOfEvents: 0)
    var clock = TickClock()
    #expect(stream.placed(&clock).map(\.index) == Array(0..<count))
  }

  /// Nonsensical timestamps: all equal, or jumping over centuries and back. Nothing traps, and all ticks are
  /// returned.
  @Test(arguments: [
    [Int64](repeating: 5, count: 10_000),
    (0..<10_000).map { $0.isMultiple(of: 2) ? 0 : 4_000_000_000_000_000_000 },
    (0..<10_000).map { Int64(9_999 - $0) * 1_000_000_000 },
  ])
  func survivesNonsense(_ stamps: [Int64]) {
    var clock = TickClock()
    var count = 0
    for stamp in stamps {
      clock.take(RingTick(time: ReceiveTime(nanoseconds: stamp)))
      while clock.next() != nil { count += 1 }
    }
    clock.finish()
    while clock.next() != nil { count += 1 }
    #expect(count == stamps.count)
  }
}

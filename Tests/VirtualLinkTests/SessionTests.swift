import BLEEmulation
import BLEHost
import BLELinux
import BLEStack
import BLEWire
import Testing

import Recording
import SensorSessions

/// Sessions that lose their link, in virtual time.
@Suite(.timeLimit(.minutes(2))) struct SessionTests {
  private static let start = ReceiveTime(nanoseconds: 1_700_000_000_000_000_000)
  /// Samples per second of each of the three kinds.
  private static let tickRate = 5.0
  private static let losses = 50

  private static func plan(_ ring: EmulatedRing.Configuration) -> DeviceSession.Plan {
    var plan = DeviceSession.Plan(ring.address)
    plan.patience = .seconds(60)
    plan.connectTimeout = .seconds(5)
    return plan
  }

  /// Ten minutes with a loss every twelve seconds: in turn the ring disconnects, falls silent, or is visible
  /// but does not receive the connect.
  @Test func fiftyLossesInTenMinutes() async throws {
    let ring = quietRing(rate: 3 * Self.tickRate)
    let link = try await VirtualLink.open([ring], pace: .air, clock: .virtual(from: Self.start))
    let session = DeviceSession(Self.plan(ring), on: link.adapter)
    let sink = SampleSink<RingRawReading>(SampleChannel(capacity: RingSession.queueCapacity), for: .recorder)
    let loop = link.loop
    let running = Task(executorPreference: loop) {
      try await session.run(SensorProfile<RingSession>((), sink))
    }
    let script = Task(executorPreference: loop) {
      try await LossScript(ring.address, link.emulation, loop).run(Self.losses)
    }
    try await script.value
    running.cancel()
    try await running.value
    await link.close()

    let gaps = await session.gaps
    let links = await session.links
    #expect(gaps.count == Self.losses)
    #expect(links.count(where: { $0.end != nil }) >= Self.losses)
    for (gap, loss) in zip(gaps, LossScript.losses(Self.losses)) {
      #expect(gap.reason?.rawValue == loss.reason)
      #expect(gap.failures.contains { $0.reason?.rawValue == 0x3E } == (loss == .deaf))
      #expect(gap.attempts == gap.failures.count + 1)
      #expect(gap.recoveryNanoseconds != nil)
    }
    let samples = Self.drain(sink)
    #expect(samples.count == sink.counts.values && sink.counts.malformed == 0 && sink.counts.dropped == 0)
    try Self.expectWhole(samples, gaps)
    Self.report(gaps)
  }

  private static func drain(_ sink: SampleSink<RingRawReading>) -> [RingRawReading] {
    var samples: [RingRawReading] = []
    while let sample = sink.samples.ring.pop() { samples.append(sample) }
    return samples
  }

  /// Between two gaps every tick is there: three samples, one tick after the previous one, plus the delay of
  /// a connection event.
  private static func expectWhole(_ samples: [RingRawReading], _ gaps: [SessionGap]) throws {
    let tick = Int64(1e9 / tickRate)
    let slack: Int64 = 60_000_000
    let begins: [Int64] = gaps.compactMap { $0.firstSampleAt?.nanoseconds }
    var first = try #require(samples.first).time.nanoseconds
    var link = 0
    var index = 0
    for sample in samples {
      let time = sample.time.nanoseconds
      if link < begins.count, time >= begins[link] {
        first = begins[link]
        link += 1
        index = 0
      }
      #expect(abs(time - first - Int64(index / 3) * tick) <= slack)
      index += 1
    }
    #expect(link == begins.count)
  }

  private static func report(_ gaps: [SessionGap]) {
    for kind in LossScript.Loss.allCases {
      let gaps = zip(gaps, LossScript.losses(gaps.count)).filter { $0.1 == kind }.map(\.0)
      let recoveries = gaps.compactMap(\.recoveryNanoseconds).sorted()
      guard !recoveries.isEmpty else { continue }
      let median = recoveries[recoveries.count / 2]
      print(
        "from the loss to the first new sample, \(kind): median \(median / 1_000_000) ms of \(gaps.count)")
    }
  }
}

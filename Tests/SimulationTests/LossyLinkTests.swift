import Testing

import Simulation

/// The ring's ticks and clock over links that lose packets but not their content. `Tools/simulate --clock`
/// runs all combinations, and prints the table of the guide `FromRingToPulse`.
@Suite(.timeLimit(.minutes(3))) struct LossyLinkTests {
  /// Rows are complete ticks of the ring. Its rate is known within 20 ppm, its times within 2 ms, or 5 ms if
  /// a fifth is lost, apart from a constant of at most an interval.
  @Test(arguments: LinkTrials.some) func keepsTheRingsTicksAndTimes(_ link: LossyLink) {
    let outcome = LinkOutcome(link)
    #expect(outcome.overload < LinkTrials.overload)
    #expect(outcome.rows == link.ticks && outcome.split == 0 && outcome.mixed == 0)
    #expect(outcome.told == 0 && outcome.restarts == 0)
    #expect(abs(outcome.rateError) <= 20)
    #expect(outcome.deviation <= (link.loss >= 0.2 ? 0.005 : 0.002))
    #expect(outcome.offset >= 0 && outcome.offset <= link.interval)
    #expect(abs(outcome.rateError) <= max(2, outcome.rateUncertainty))
  }

  /// Only ticks that the ring drops are reported, in their place: one in a thousand, and one in fifty.
  @Test(arguments: [
    (25.0, 0.05, 0.1, 1), (50, 0.125, 0.05, 1), (50, 0.03, 0.05, 1), (100, 0.0075, 0.2, 1),
    (100, 0.125, 0.01, 1),
    (50, 0.0075, 0, 1), (25, 0.0075, 0, 20), (50, 0.03, 0.1, 20),
  ])
  func findsWhatTheRingDrops(_ rate: Double, _ interval: Double, _ loss: Double, _ perMille: Int) {
    var link = LossyLink(rate: rate, interval: interval)
    (link.loss, link.kind, link.droppedPerMille) = (loss, .events, perMille)
    let outcome = LinkOutcome(link)
    #expect(outcome.dropped >= 9)
    #expect(outcome.rows == link.ticks - outcome.dropped && outcome.split == 0 && outcome.mixed == 0)
    #expect(outcome.told == outcome.dropped && Double(outcome.found) >= 0.99 * Double(outcome.dropped))
    #expect(abs(outcome.rateError) <= 20)
  }

  /// If the interval is a whole multiple of the tick, a dropped tick looks like clock drift: such ticks are
  /// not reported as missing, but counted as possibly missing.
  @Test(arguments: [(100.0, 0.03, 0.05, 1), (100, 0.05, 0, 1), (25, 0.04, 0.1, 2)])
  func tellsHowManyMayBeMissing(_ rate: Double, _ interval: Double, _ loss: Double, _ perMille: Int) {
    var link = LossyLink(rate: rate, interval: interval)
    (link.loss, link.kind, link.droppedPerMille) = (loss, .events, perMille)
    let outcome = LinkOutcome(link)
    #expect(outcome.dropped >= 9 && outcome.holdsMissing)
    #expect(outcome.holdsRate)
  }

  /// Gaps in the first seconds, while the rate is unknown: the number of missing ticks is reported as a
  /// range, and the rate is known.
  @Test(arguments: [
    (50.0, 0.05, [(0.89, 1.36)]), (38.76, 0.085, [(1.3, 1.86)]),
    (100, 0.04875, [(0.89, 1.72), (3.12, 3.81)]),
    (9.57, 0.08625, [(0.36, 0.73)]), (25, 0.00875, [(0.5, 1.1)]),
  ])
  func countsWhatIsMissingInTheFirstSeconds(_ rate: Double, _ interval: Double, _ pauses: [(Double, Double)])
  {
    var link = LossyLink(rate: rate, interval: interval)
    (link.loss, link.kind, link.seconds, link.slow) = (0.03, .events, 150, 60)
    link.pauses = pauses.map { (start: $0.0, end: $0.1) }
    let outcome = LinkOutcome(link)
    #expect(outcome.dropped >= 3 && outcome.holdsMissing && !outcome.isFalseNone)
    #expect(outcome.holdsRate && abs(outcome.rateError) < 150)
  }

  /// A link that carries exactly a whole number of ticks per event, without losses, looks like a slower ring:
  /// neither its rate nor the number of missing ticks is reported. A link that catches up after a lost event
  /// is known to carry everything.
  @Test(arguments: [(100.0, 0.1025, 21), (50, 0.06375, 8), (25, 0.11375, 6)])
  func tellsNothingOfALinkThatMayBeFull(_ rate: Double, _ interval: Double, _ framesPerEvent: Int) {
    var link = LossyLink(rate: rate, interval: interval)
    (link.seconds, link.framesPerEvent, link.queueLimit) = (60, framesPerEvent, 30)
    let outcome = LinkOutcome(link)
    #expect(outcome.dropped > 300 && outcome.holdsMissing)
    #expect(outcome.rateUncertainty.isInfinite)
    (link.framesPerEvent, link.queueLimit, link.loss, link.kind) = (.max, .max, 0.05, .events)
    #expect(LinkOutcome(link).rateUncertainty.isFinite)
  }

  /// A tick slightly longer than the interval skips an event from time to time: no tick is missing.
  @Test(arguments: [(39.26, 0.025), (88.61, 0.01125), (23.46, 0.0425)])
  func inventsNothingWhereTickAndIntervalAreAlmostEqual(_ rate: Double, _ interval: Double) {
    var link = LossyLink(rate: rate, interval: interval)
    (link.seconds, link.slow) = (60, -40)
    let outcome = LinkOutcome(link)
    #expect(outcome.told == 0 && outcome.holdsMissing && outcome.holdsRate)
  }

  /// Tick and interval are equal, but the crystals differ: over ten minutes the rate is known to within an
  /// interval, 67 ppm, and no tick is missing.
  @Test(arguments: [0, 0.03], [-90.0, -25, 25, 70]) func knowsNoMoreThanTheSpanAllows(
    _ loss: Double, _ slow: Double
  ) {
    var link = LossyLink(rate: 25, interval: 0.04)
    (link.loss, link.kind, link.slow, link.controllerSlow) = (loss, .events, slow, 10)
    let outcome = LinkOutcome(link)
    #expect(outcome.told == 0 && outcome.holdsRate)
    #expect(outcome.rateUncertainty > 60)
  }

  /// Random links of each kind: the reported range includes the ring's rate, and without dropped ticks none
  /// is reported.
  @Test(arguments: LinkKind.allCases) func holdsTheRingsRate(_ kind: LinkKind) {
    for seed in [3, 7] as [UInt64] {
      var link = LinkDraw.link(kind, seed: seed)
      link.seconds = 60
      let outcome = LinkOutcome(link)
      #expect(outcome.holdsRate, "seed \(seed)")
      if kind.keepsAllTicks { #expect(outcome.told == 0, "seed \(seed)") }
      #expect(outcome.split == 0 && outcome.mixed == 0, "seed \(seed)")
    }
  }

  /// Links on which the host was late, or tick and event drifted through each other: nothing was dropped, so
  /// nothing is reported as missing.
  @Test(
    arguments: [
      (.lateHost, 5_009), (.lateHost, 5_037), (.lateHost, 5_044), (.lateHost, 20_257), (.free, 20_265),
      (.free, 60_033), (.timers, 70_054), (.timers, 20_326), (.timers, 90_049), (.timers, 300_181),
      (.free, 300_147),
    ] as [(LinkKind, UInt64)])
  func inventsNothing(_ kind: LinkKind, _ seed: UInt64) {
    let outcome = LinkOutcome(LinkDraw.link(kind, seed: seed))
    #expect(outcome.dropped == 0 && outcome.told == 0)
  }

  /// Gaps in the first seconds that end within a connection interval, or are long compared with the seconds
  /// known so far: some ticks may be missing.
  @Test(arguments: [5_038, 5_042, 5_053, 5_071, 5_106, 31_007] as [UInt64]) func countsEarlyGaps(
    _ seed: UInt64
  ) {
    let outcome = LinkOutcome(LinkDraw.link(.earlyGaps, seed: seed))
    #expect(outcome.dropped > 0 && outcome.holdsMissing && outcome.holdsRate)
  }

  /// Links that are lost every two seconds: each starts its own line, and the rate is the ring's.
  @Test func beginsALineOnEachLink() {
    for seed in 1...12 as ClosedRange<UInt64> {
      var link = LinkDraw.link(.reconnects, seed: seed)
      (link.rate, link.seconds) = (100, 10)
      link.reconnects = (0..<3).map { (2 + 2.4 * Double($0), 0.4) }
      let outcome = LinkOutcome(link)
      #expect(outcome.restarts == 3 && outcome.holdsRate, "seed \(seed)")
      #expect(abs(outcome.rateError) < 30_000 && outcome.deviation < 0.05, "seed \(seed)")
    }
  }

  /// A full link pauses anywhere in a tick, and for a long time in one place: rows still hold the frames of
  /// one tick.
  @Test(arguments: [3, 4, 6, 9], [LossyLink.Overflow.frames, .ticks]) func joinsNoTicksOfAFullLink(
    _ framesPerEvent: Int, _ overflow: LossyLink.Overflow
  ) {
    for seed in 1...12 as ClosedRange<UInt64> {
      var link = LossyLink(rate: 1.07 * Double(framesPerEvent) / 3 / 0.05, interval: 0.05)
      (link.framesPerEvent, link.queueLimit, link.overflow) = (framesPerEvent, 12, overflow)
      (link.loss, link.kind, link.seconds, link.seed) = (0.03, .packets, 60, seed)
      let outcome = LinkOutcome(link)
      #expect(outcome.split == 0 && outcome.mixed == 0, "seed \(seed)")
    }
  }
}

import Testing

@testable import Simulation

/// The ring's ticks and clock over links that lose packets and none of what they carry. `Tools/simulate --clock` tries all
/// combinations, and prints the table of the guide `FromRingToPulse`.
@Suite(.timeLimit(.minutes(3))) struct LossyLinkTests {
  /// Rows are the ring's ticks, whole; its rate is known within 20 ppm, its times within 2 ms, or 5 where a fifth is lost,
  /// but for a constant of an interval at most.
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

  /// Ticks that the ring drops are told, at their place, and no others: one in a thousand, and one in fifty.
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

  /// Where the interval is a whole multiple of the tick, a tick that was dropped looks like a drift of the clock: what cannot be
  /// told apart is not told as missing, but counted as what may be.
  @Test(arguments: [(100.0, 0.03, 0.05, 1), (100, 0.05, 0, 1), (25, 0.04, 0.1, 2)])
  func tellsHowManyMayBeMissing(_ rate: Double, _ interval: Double, _ loss: Double, _ perMille: Int) {
    var link = LossyLink(rate: rate, interval: interval)
    (link.loss, link.kind, link.droppedPerMille) = (loss, .events, perMille)
    let outcome = LinkOutcome(link)
    #expect(outcome.dropped >= 9 && outcome.holdsMissing)
    #expect(outcome.holdsRate)
  }

  /// Gaps in the first seconds, while the rate is unknown: how many ticks are missing is told to a range, and the rate is known.
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

  /// A link that carries exactly whole ticks with each event and loses none looks like a slower ring: neither its rate nor the
  /// number of missing ticks is told. One that catches up after a lost event is known to carry all.
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

  /// A tick that is a little longer than the interval leaves out an event now and then: no tick is missing.
  @Test(arguments: [(39.26, 0.025), (88.61, 0.01125), (23.46, 0.0425)])
  func inventsNothingWhereTickAndIntervalAreAlmostEqual(_ rate: Double, _ interval: Double) {
    var link = LossyLink(rate: rate, interval: interval)
    (link.seconds, link.slow) = (60, -40)
    let outcome = LinkOutcome(link)
    #expect(outcome.told == 0 && outcome.holdsMissing && outcome.holdsRate)
  }

  /// Tick and interval are equal, the crystals are not: the rate is known to an interval over ten minutes, 67 ppm, and no tick
  /// is missing.
  @Test(arguments: [0, 0.03], [-90.0, -25, 25, 70]) func knowsNoMoreThanTheSpanAllows(
    _ loss: Double, _ slow: Double
  ) {
    var link = LossyLink(rate: 25, interval: 0.04)
    (link.loss, link.kind, link.slow, link.controllerSlow) = (loss, .events, slow, 10)
    let outcome = LinkOutcome(link)
    #expect(outcome.told == 0 && outcome.holdsRate)
    #expect(outcome.rateUncertainty > 60)
  }

  /// Drawn links of each kind: the range of the rate holds the ring's, and without dropped ticks none is told.
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

  /// Links that are lost each two seconds: each begins its own line, and the rate is that of the ring.
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

  /// A full link pauses anywhere in a tick, and for long at one place: rows hold the frames of one tick all the same.
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

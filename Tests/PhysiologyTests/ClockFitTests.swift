import Physiology
import Testing

/// The line below late stamps, against linear programming.
@Suite struct ClockFitTests {
  /// What scipy's HiGHS finds: seed, and nanoseconds of offset and period. `Fixtures/make_clock_fixtures.py` makes them.
  private static let lines: [(seed: UInt64, offset: Double, period: Double)] = [
    (1, 69695.0, 40003870.982),
    (2, 132489.0, 40004703.568),
    (3, 648437.1, 40006192.310),
  ]

  /// Ticks of 40.0012 ms that wait for events of 48.75 ms, one in four for some more: as the script has them.
  private func stamps(_ seed: UInt64) -> [Int64] {
    var (state, last) = (seed, Int64(0))
    return (0..<400).map { tick in
      state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      var event = (Int64(tick) * 40_001_200 + 48_749_999) / 48_750_000
      if state >> 60 < 4 { event += 1 + Int64((state >> 40) % 5) }
      last = max(last, event * 48_750_000 + Int64((state >> 20) % 300_000))
      return last
    }
  }

  @Test(arguments: lines) func isTheLineOfLinearProgramming(
    _ line: (seed: UInt64, offset: Double, period: Double)
  ) {
    let stamps = stamps(line.seed)
    var fit = ClockFit(index: 0, time: stamps[0], period: 50_000_000, isKnown: false)
    for (index, stamp) in stamps.enumerated() { fit.take(stamp, at: index) }
    #expect(abs(fit.period - line.period) < 0.01)
    #expect(abs(Double(fit.time(of: 0)) - line.offset) < 1)
    for (index, stamp) in stamps.enumerated() { #expect(fit.lateness(of: stamp, at: index) > -1) }
  }

  /// A line that begins anew keeps its period, and gives way to what is early.
  @Test func beginsAnew() {
    var fit = ClockFit(index: 0, time: 0, period: 40_000_000, isKnown: false)
    for index in 0..<100 { fit.take(Int64(index) * 40_000_000, at: index) }
    fit.begin(at: 200, 9_000_000_000)
    #expect(fit.period == 40_000_000 && fit.time(of: 201) == 9_040_000_000)
    fit.take(9_030_000_000, at: 201)
    #expect(fit.time(of: 202) == 9_070_000_000)
  }
}

import Physiology
import Testing

/// The line below late timestamps, compared with linear programming.
@Suite struct ClockFitTests {
  /// Results of scipy's HiGHS: seed, and offset and period in nanoseconds. Made by
  /// `Fixtures/make_clock_fixtures.py`.
  private static let lines: [(seed: UInt64, offset: Double, period: Double)] = [
    (1, 69695.0, 40003870.982),
    (2, 132489.0, 40004703.568),
    (3, 648437.1, 40006192.310),
  ]

  /// Ticks of 40.0012 ms that wait for events every 48.75 ms; one in four waits longer. The script generates
  /// the same.
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

  /// After a restart the line keeps its period, and moves down to early timestamps.
  @Test func beginsAnew() {
    var fit = ClockFit(index: 0, time: 0, period: 40_000_000, isKnown: false)
    for index in 0..<100 { fit.take(Int64(index) * 40_000_000, at: index) }
    fit.begin(at: 200, 9_000_000_000)
    #expect(fit.period == 40_000_000 && fit.time(of: 201) == 9_040_000_000)
    fit.take(9_030_000_000, at: 201)
    #expect(fit.time(of: 202) == 9_070_000_000)
  }
}

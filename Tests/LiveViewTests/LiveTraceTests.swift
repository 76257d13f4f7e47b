import Testing

@testable import LiveView

/// Extremes and rates of a stream, compared with values computed by hand.
struct LiveTraceTests {
  private static let slot = LiveTrace.slotNanoseconds

  private static func extremes(_ low: Float, _ high: Float) -> LiveExtremes { LiveExtremes(low, high) }

  @Test func keepsTheExtremesOfEachColumn() {
    var trace = LiveTrace()
    for (value, slot) in [(5.0, 0), (9, 0), (1, 0), (4, 1), (6, 2), (-3, 5)] as [(Double, Int64)] {
      trace.add(value, at: slot * Self.slot + 7)
    }
    #expect(
      trace.columns(6, slotsEach: 1, until: 5 * Self.slot) == [
        LiveExtremes(1, 9, first: 5, last: 1), Self.extremes(4, 4), Self.extremes(6, 6), nil, nil,
        Self.extremes(-3, -3),
      ])
    // Columns begin at multiples of their length.
    #expect(
      trace.columns(3, slotsEach: 2, until: 5 * Self.slot)
        == [
          LiveExtremes(1, 9, first: 5, last: 4), Self.extremes(6, 6), Self.extremes(-3, -3),
        ])
    #expect(trace.columns(2, slotsEach: 2, until: 9 * Self.slot) == [nil, nil])
    #expect(trace.columns(2, slotsEach: 4, until: 8 * Self.slot) == [Self.extremes(-3, -3), nil])
  }

  @Test func forgetsWhatIsOld() {
    var trace = LiveTrace()
    let count = LiveTrace.capacity + 100
    for slot in 0..<count { trace.add(Double(slot), at: Int64(slot) * Self.slot) }
    let columns = trace.columns(count, slotsEach: 1, until: Int64(count - 1) * Self.slot)
    #expect(columns[..<100].allSatisfy { $0 == nil })
    #expect(columns[100] == Self.extremes(100, 100) && columns[count - 1] == Self.extremes(4195, 4195))
  }

  /// A clock that is set back, nonsensical times, and values that are not numbers.
  @Test func takesAnything() {
    var trace = LiveTrace()
    trace.add(1, at: 10 * Self.slot)
    trace.add(2, at: 3 * Self.slot)
    #expect(trace.columns(2, slotsEach: 1, until: 3 * Self.slot) == [nil, Self.extremes(2, 2)])
    for time in [Int64.min, .max, -1, 0] { trace.add(3, at: time) }
    for value in [Double.nan, .infinity, 1e300] { trace.add(value, at: 0) }
    #expect(trace.columns(2, slotsEach: 1, until: 0) == [Self.extremes(3, 3), Self.extremes(3, 3)])
    #expect(trace.columns(2, slotsEach: 1, until: .max) == [nil, nil])
  }

  /// Newer samples continue where the stored ones end.
  @Test func takesNewerSamples() {
    var trace = LiveTrace()
    trace.add(5, at: 0)
    let newer: [(time: Int64, value: Float)] = [(7, 2), (Self.slot, .nan), (2 * Self.slot, 8)]
    #expect(
      trace.columns(3, slotsEach: 1, until: 2 * Self.slot, newer)
        == [LiveExtremes(2, 5, first: 5, last: 2), nil, Self.extremes(8, 8)])
  }

  @Test func knowsSlowStreams() {
    var measured = LiveRate()
    for sample in 0..<5 as Range<Int64> { measured.add(at: sample * 60_000_000_000) }
    #expect(measured.perSecond == 1.0 / 60)
  }

  @Test(arguments: [(25, 1), (1, 1), (130, 130), (300, 3)]) func countsSamplesASecond(
    _ rate: Int, _ bunch: Int
  ) {
    var measured = LiveRate()
    for sample in 0..<15 * rate {
      let time = Int64(sample / bunch * bunch) * 1_000_000_000 / Int64(rate)
      measured.add(at: 1_700_000_000_500_000_000 + time)
    }
    #expect(measured.perSecond == Double(rate))
  }

  @Test func aRateNeedsTwoArrivals() {
    var measured = LiveRate()
    for _ in 0..<130 { measured.add(at: 5_000_000_000) }
    #expect(measured.perSecond == nil)
    measured.add(at: 7_000_000_000)
    #expect(measured.perSecond == 65)
    // After a pause the rate is measured from scratch.
    for sample in 0..<101 as Range<Int64> { measured.add(at: 100_000_000_000 + 20_000_000 * sample) }
    #expect(measured.perSecond == 50)
    measured.add(at: 105_000_000_000)
    #expect(measured.perSecond == nil)
  }
}

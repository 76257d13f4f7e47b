import BLEWire
import Testing

@Suite struct TimeTests {
  @Test func receiveTimesAreOrderedByNanoseconds() {
    let early = ReceiveTime(nanoseconds: 1_700_000_000_000_000_000)
    let late = ReceiveTime(nanoseconds: 1_700_000_000_000_000_001)
    #expect(early < late)
    #expect(!(late < early))
    #expect(early != late)
    #expect(ReceiveTime(nanoseconds: -1) < ReceiveTime(nanoseconds: 0))
    #expect([late, early].sorted() == [early, late])
  }

  @Test(
    arguments: [
      (.zero, 0), (.nanoseconds(1), 1), (.milliseconds(1500), 1_500_000_000), (.seconds(30), 30_000_000_000),
      (.seconds(-2), -2_000_000_000), (.milliseconds(-1500), -1_500_000_000),
      (.seconds(86_400), 86_400_000_000_000),
    ] as [(Duration, Int64)])
  func advances(by duration: Duration, nanoseconds: Int64) {
    let start = MonotonicTime(nanoseconds: 5)
    let end = start.advanced(by: duration)
    #expect(end.nanoseconds == 5 + nanoseconds)
    #expect(start.duration(to: end) == duration)
    #expect(end.duration(to: start) == .zero - duration)
  }

  /// A nanosecond clock drops fractions.
  @Test func dropsFractionsOfNanoseconds() {
    let start = MonotonicTime(nanoseconds: 0)
    #expect(
      start.advanced(by: Duration(secondsComponent: 1, attosecondsComponent: 999_999_999)).nanoseconds
        == 1_000_000_000)
  }

  @Test func isOrdered() {
    #expect(MonotonicTime(nanoseconds: 1) < MonotonicTime(nanoseconds: 2))
    #expect(!(MonotonicTime(nanoseconds: 2) < MonotonicTime(nanoseconds: 2)))
  }

  /// A deadline beyond the clock's range becomes its last moment instead of trapping.
  @Test(arguments: [
    (Duration.seconds(1e10), Int64.max), (.seconds(1e18), .max), (.nanoseconds(Int64.max), .max),
    (.seconds(-1e18), .min), (.seconds(9), 9_000_000_005), (.nanoseconds(-3), 2),
  ]) func aDeadlineEndsWithTheClock(_ duration: Duration, _ nanoseconds: Int64) {
    #expect(MonotonicTime(nanoseconds: 5).advanced(by: duration).nanoseconds == nanoseconds)
  }
}

/// Estimates the period of a tick from the stamps at which ticks arrived.
///
/// Arrivals are late by up to a connection interval, and at high rates several ticks share one: then no single
/// interval means anything. So it looks at the time that 2ⁿ ticks took, with n such that this is half a second or
/// more, and averages all such times that are within a quarter of their median: the jitter of the arrivals is a few
/// per cent of each and cancels out, and the times that span a gap worth the name are left out.
///
/// Limits: it needs `minimumTicks` ticks, and where single ticks are lost at more than 2 Hz the period looks longer by
/// their share. It is a first guess; `ClockFit` finds the rest.
public struct RateEstimator: Sendable {
  public static let capacity = 1_024
  public static let minimumTicks = 4
  /// What a span of ticks takes, at least: nanoseconds.
  private static let minimumSpan: Int64 = 500_000_000

  private var stamps: [Int64]
  private var scratch: [Int64]
  /// Stamps taken; the last `capacity` are kept.
  public private(set) var count = 0

  public init() {
    stamps = [Int64](repeating: 0, count: Self.capacity)
    scratch = stamps
  }

  /// - Parameter time: nanoseconds, in order.
  public mutating func take(_ time: Int64) {
    stamps[count % Self.capacity] = time
    count += 1
  }

  /// The period in nanoseconds; `nil` before there are `minimumTicks` ticks or where no time passes between them.
  /// Allocates nothing, but looks at all stamps: not for each tick.
  public mutating func period() -> Double? {
    let kept = min(count, Self.capacity)
    guard kept >= Self.minimumTicks else { return nil }
    var lag = 1
    while lag < kept / 2, span(of: lag, kept: kept) < Double(Self.minimumSpan) { lag *= 2 }
    let period = span(of: lag, kept: kept) / Double(lag)
    return period > 0 ? period : nil
  }

  /// What `lag` ticks usually took.
  private mutating func span(of lag: Int, kept: Int) -> Double {
    let times = kept - lag
    for index in 0..<times {
      let later = (count - 1 - index) % Self.capacity
      let earlier = (count - 1 - index - lag) % Self.capacity
      scratch[index] = stamps[later] - stamps[earlier]
    }
    sort(times)
    let median = Double(scratch[times / 2])
    var sum = 0.0
    var used = 0
    for index in 0..<times where abs(Double(scratch[index]) - median) <= 0.25 * median {
      sum += Double(scratch[index])
      used += 1
    }
    return used > 0 ? sum / Double(used) : median
  }

  /// Shell sort: in place, where the library's sort takes memory of its own.
  private mutating func sort(_ count: Int) {
    var step = 1
    while step < count / 3 { step = 3 * step + 1 }
    while step > 0 {
      for index in step..<max(step, count) {
        let value = scratch[index]
        var place = index
        while place >= step, scratch[place - step] > value {
          scratch[place] = scratch[place - step]
          place -= step
        }
        scratch[place] = value
      }
      step /= 3
    }
  }
}

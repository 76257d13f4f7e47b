/// Finds pauses in which ticks were dropped among the first ticks of a stream, while the rate is still
/// unknown.
///
/// After a delay on the link, the waiting ticks arrive in a burst; after a drop, there is no burst. The rate
/// is computed from the ticks after the last pause. The rate then gives a range for the number of missing
/// ticks in each pause.
struct EarlyPauses: Sendable {
  /// Pause: index of the first tick after it, and bounds of the number of ticks missing in it.
  struct Pause: Sendable {
    var place: Int
    var least = 0
    var most = 0
  }

  static let limit = 8
  /// Minimum length of an examined pause. It must be longer than `shortest` nanoseconds, longer than
  /// `fewestEvents` times the usual time between events, and longer than either `fewestPeriods` periods or a
  /// period plus `late` nanoseconds.
  private static let shortest = 80_000_000.0
  private static let fewestPeriods = 2.5
  private static let late = 150_000_000.0
  private static let fewestEvents = 1.2
  /// Minimum share of a pause's ticks that must follow in a burst for the pause to be a delay.
  private static let shareAfter = 0.8
  /// Share of the total time above which a pause is subtracted before the mean period is computed.
  private static let largestShareOfMean = 0.1
  /// Assumed relative error of a period with unknown uncertainty.
  private static let largestShare = 0.05
  /// Maximum time until delayed ticks arrive, as a multiple of the usual time between events.
  private static let eventsAfter = 5.0
  /// Minimum time between ticks of different connection events, in nanoseconds.
  private static let event = 4_000_000.0
  /// Timestamp jitter from radio and host, in nanoseconds.
  private static let jitter = 1_000_000.0
  /// Assumption about lateness: among this number of events, one is as little late as the least late event of
  /// all.
  private static let events = 3.0
  /// Maximum relative deviation at which interval and period count as multiples of each other. A drift can
  /// then make all events after a pause late.
  private static let inStep = 0.03

  private(set) var found: [Pause] = []
  private var steps: [Double] = []
  /// Times of the ticks since the first tick, in nanoseconds.
  private var times: [Double] = []
  private var first: Int64 = 0

  init() {
    found.reserveCapacity(Self.limit)
    steps.reserveCapacity(TickClock.capacity)
    times.reserveCapacity(TickClock.capacity)
  }

  mutating func removeAll() {
    found.removeAll(keepingCapacity: true)
    times.removeAll(keepingCapacity: true)
  }

  /// Processes the timestamp of the next tick.
  mutating func take(_ time: Int64) {
    if times.isEmpty { first = time }
    times.append(Double(time &- first))
  }

  /// Finds pauses and stores them in `found`. The numbers of missing ticks are not set yet.
  mutating func find() {
    let count = times.count
    found.removeAll(keepingCapacity: true)
    steps.removeAll(keepingCapacity: true)
    var start = 0
    for place in 1..<max(1, count) where times[place] - times[place - 1] > Self.event {
      steps.append(times[place] - times[start])
      start = place
    }
    guard steps.count >= 8 else { return }
    let usual = medianStep()
    // The mean period includes the pauses, so it is too long at first. The pauses found are subtracted step
    // by step.
    var period = times[count - 1] / Double(count - 1)
    for _ in 0..<3 {
      found.removeAll(keepingCapacity: true)
      var paused = 0.0
      for place in 1..<count {
        let pause = times[place] - times[place - 1]
        guard
          pause
            > max(
              Self.shortest, min(Self.fewestPeriods * period, period + Self.late), Self.fewestEvents * usual),
          found.count < Self.limit, !isMadeUpFor(pause, place, period, usual)
        else { continue }
        found.append(Pause(place: place))
        paused += pause - max(usual, period)
      }
      period = (times[count - 1] - paused) / Double(count - 1)
    }
  }

  /// Returns the median of `steps` and reorders them. Hoare's selection algorithm does not allocate, unlike
  /// `sort`. `swapAt` would allocate without optimisation.
  private mutating func medianStep() -> Double {
    let middle = steps.count / 2
    var (low, high) = (0, steps.count - 1)
    while low < high {
      let pivot = steps[(low + high) / 2]
      var (left, right) = (low, high)
      while left <= right {
        while steps[left] < pivot { left += 1 }
        while steps[right] > pivot { right -= 1 }
        guard left <= right else { break }
        (steps[left], steps[right]) = (steps[right], steps[left])
        left += 1
        right -= 1
      }
      if middle > right, middle < left { break }
      if middle <= right { high = right } else { low = left }
    }
    return steps[middle]
  }

  /// Returns whether delayed ticks arrive in a burst after a pause.
  private func isMadeUpFor(_ pause: Double, _ place: Int, _ period: Double, _ usual: Double) -> Bool {
    // If ticks were dropped in a long pause, the mean period is too long.
    let isLong = pause > Self.largestShareOfMean * times[times.count - 1]
    let without = isLong ? period - (pause - max(usual, period)) / Double(times.count - 1) : period
    var last = place
    while last < times.count, times[last] - times[place] < max(pause, Self.eventsAfter * usual) {
      let after = times[last] - times[place]
      let balance = Double(last - place + 1) - after / max(1, without)
      if balance >= max(1.5, Self.shareAfter * pause / period) { return true }
      last += 1
    }
    return false
  }

  /// Sets the numbers of missing ticks, and removes pauses that may have no missing ticks.
  ///
  /// - Parameters:
  ///   - period: tick period in nanoseconds, computed from the ticks after the last pause.
  ///   - uncertainty: relative uncertainty of `period`; `nil` if unknown. It is then also unknown whether
  ///     ticks are missing.
  ///   - interval: connection interval in nanoseconds.
  /// - Returns: the number of ticks that may be missing in the removed pauses.
  mutating func measure(period: Double, uncertainty: Double?, interval: Double) -> Int {
    let ratio = max(interval / period, period / interval)
    let isInStep = abs(ratio - ratio.rounded()) <= Self.inStep * ratio
    for pause in found.indices {
      let place = found[pause].place
      let first = pause > 0 ? found[pause - 1].place : 0
      let end = pause + 1 < found.count ? found[pause + 1].place : times.count
      let before = edge(first..<place, at: place - 1, period)
      let after = edge(place..<end, at: place, period)
      let length = after.time - before.time
      let off = (uncertainty ?? Self.largestShare) * (length + before.reach + after.reach) + Self.jitter
      let ticks = length / period - 1
      let low = ticks - (off + interval * (isInStep ? 1 : min(1, Self.events / after.events))) / period
      let high = ticks + (off + interval * (isInStep ? 1 : min(1, Self.events / before.events))) / period
      let least = uncertainty == nil ? 0 : max(0, low.rounded(.up))
      found[pause].least = Int(min(least, 1e6))
      found[pause].most = Int(min(max(least, high.rounded(.down)), 1e6))
    }
    guard uncertainty != nil else { return 0 }
    var (doubtful, kept) = (0, 0)
    for pause in found.indices {
      if found[pause].least == 0 {
        doubtful += found[pause].most
      } else {
        found[kept] = found[pause]
        kept += 1
      }
    }
    // `removeAll(where:)` would allocate without optimisation.
    while found.count > kept { found.removeLast() }
    return doubtful
  }

  /// Finds the least late tick of a range, and computes from it when the tick at `place` would have arrived
  /// without delay.
  ///
  /// - Returns: this time, in nanoseconds since the first tick; the time between the two ticks, in
  ///   nanoseconds; and the number of connection events in the range.
  private func edge(
    _ places: Range<Int>, at place: Int, _ period: Double
  ) -> (time: Double, reach: Double, events: Double) {
    var (least, reach, events) = (Double.infinity, 0.0, 1.0)
    for other in places {
      let now = times[other] + period * Double(place - other)
      if now < least { (least, reach) = (now, period * Double(abs(place - other))) }
      if other > places.lowerBound, times[other] - times[other - 1] > Self.event { events += 1 }
    }
    return (least, reach, events)
  }
}

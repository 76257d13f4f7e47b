/// Statistics of a link's connection events: the share of events that deliver a tick on time, and the time
/// between events.
struct LinkEvents: Sendable {
  /// Minimum time between ticks of different connection events, in nanoseconds; at most half a period.
  private static let pause = 4_000_000.0
  /// Number of events over which `share` is averaged.
  private static let memory = 64.0
  /// −ln of the accepted probability that a random run of late events is mistaken for a loss: one in a
  /// million.
  private static let doubt = 14.0

  private static let smallBacklog = 4.0
  /// Decay factor of `longestRow` per event; halves the value in 700 events.
  private static let rowMemory = 1 - 1.0 / 1_024

  private var share = 0.5
  private var wasOnTime = false
  /// Lateness of the current event's last tick, in periods.
  private var level = 0.0
  private var row = 0
  private var longestRow = 0.0
  /// Moving average, over `memory` events, of the lateness of each event's last tick, in periods.
  private(set) var mean = 0.5
  /// Smallest lateness in a group of six events, in periods; the maximum over the groups, which decays
  /// slowly.
  private(set) var floor = 0.0
  private var least = Double.infinity
  private var ofFew = 0
  private static let few = 6
  private var last: Int64?
  /// Estimate of the 10th percentile of the pauses between events, in nanoseconds. `nil` before the first
  /// pause.
  private(set) var shortestPause: Double?

  func isPause(_ nanoseconds: Int64, _ period: Double) -> Bool {
    Double(nanoseconds) > min(Self.pause, period / 2)
  }

  /// Number of consecutive events without an on-time tick that proves a loss. It is computed from the share
  /// of on-time events as if late events were random. It is at least four times the longest row of late
  /// events, because a link at its limit can be late for a while.
  var proof: Int {
    max(6, Int((Self.doubt * (1 / share - 0.5)).rounded(.up)), Int((4 * longestRow).rounded(.up)))
  }

  /// Maximum difference between an event's lateness and the smallest lateness, in periods, for the event to
  /// count towards the proof. It is larger on a link that is usually on time, where ticks lost one after
  /// another increase the lateness. On a link that is rarely on time, a larger difference may be a backlog.
  var backlog: Double { share > 0.5 ? Self.smallBacklog : 1 }

  /// Processes the timestamp of the next tick.
  ///
  /// - Parameters:
  ///   - time: timestamp of the tick, in nanoseconds.
  ///   - late: lateness minus the minimum lateness of the last seconds, in periods.
  ///   - isOnTime: whether the tick counts as on time.
  ///   - period: tick period, in nanoseconds.
  mutating func take(_ time: Int64, late: Double, isOnTime: Bool, _ period: Double) {
    defer { last = time }
    guard let last, isPause(time &- last, period) else {
      level = late
      return wasOnTime = wasOnTime || isOnTime
    }
    mean += (max(0, level) - mean) / Self.memory
    least = min(least, max(0, level))
    ofFew += 1
    if ofFew == Self.few {
      floor = max(least, floor * 0.95)
      (least, ofFew) = (.infinity, 0)
    }
    share += ((wasOnTime ? 1 : 0) - share) / Self.memory
    share = max(0.01, share)
    row = wasOnTime || level > 1 + Self.smallBacklog ? 0 : row + 1
    longestRow = max(Double(row), longestRow * Self.rowMemory)
    (wasOnTime, level) = (isOnTime, late)
    let pause = Double(time &- last)
    // Converges to the 10th percentile.
    guard let shortest = shortestPause else { return shortestPause = pause }
    shortestPause = shortest + (pause < shortest ? 0.09 : 0.01) * (pause - shortest)
  }
}

/// Minimum lateness over the last few seconds, in nanoseconds. It is the reference for "on time" while the
/// fitted line changes or the clock is slewed. The minimum of the last two blocks is used, so old values
/// expire.
struct UsualLateness: Sendable {
  private static let blockTicks = 16
  private static let blockNanoseconds: Int64 = 2_000_000_000

  private var before: Double?
  private var current: Double?
  private var start: Int64 = 0
  private var ticks = 0

  var lowest: Double { min(current ?? before ?? 0, before ?? .infinity) }

  mutating func take(_ lateness: Double, at time: Int64) {
    if ticks >= Self.blockTicks, time &- start >= Self.blockNanoseconds {
      before = current
      current = nil
      ticks = 0
    }
    if ticks == 0 { start = time }
    ticks += 1
    current = min(current ?? .infinity, lateness)
  }

  /// Adjusts the values after the line moved by `shift` nanoseconds.
  mutating func follow(_ shift: Double) {
    before = before.map { $0 - shift }
    current = current.map { $0 - shift }
  }
}

/// Minimum lateness of the last 8 to 16 connection events, in nanoseconds.
struct RecentLateness: Sendable {
  private static let blockEvents = 8

  private var before: Double?
  private var current: Double?
  private var events = 0

  /// The minimum in nanoseconds; `nil` during the first 8 events.
  var lowest: Double? { before.map { min($0, current ?? .infinity) } }

  mutating func take(_ lateness: Double, isNextEvent: Bool) {
    if isNextEvent {
      events += 1
      if events == Self.blockEvents { (before, current, events) = (current, nil, 0) }
    }
    current = min(current ?? .infinity, lateness)
  }

  /// Adjusts the values after the line moved by `shift` nanoseconds.
  mutating func follow(_ shift: Double) {
    before = before.map { $0 - shift }
    current = current.map { $0 - shift }
  }
}

/// Finds pauses of the whole stream that are not followed by a burst. After a delay, the waiting ticks arrive
/// in a burst. After a pause without a burst, either ticks were dropped, or the link was lost and established
/// again. Uses fixed memory.
struct StreamPauses: Sendable {
  /// Minimum length of an examined pause, in nanoseconds.
  private static let shortest = 100_000_000.0
  /// Minimum length of an examined pause, in periods.
  private static let fewestPeriods = 2.5
  /// Minimum length of an examined pause, as a multiple of the usual time between connection events.
  private static let fewestEvents = 3.0
  /// Minimum time between ticks of different connection events, in nanoseconds.
  private static let pause = 4_000_000.0
  private static let leastTicks = 8

  private var first: Int64?
  private var last: Int64 = 0
  private var ticks = 0
  private var usual = 0.0
  /// Length of the examined pause, in nanoseconds; 0 if no pause is examined.
  private var length = 0.0
  /// End of the examined pause: the timestamp of the tick after it.
  private var end: Int64 = 0
  /// Number of ticks since the examined pause.
  private var since = 0.0
  /// Mean time between ticks including pauses, in nanoseconds.
  var period: Double { max(1, Double(last &- (first ?? last)) / Double(max(1, ticks - 1))) }

  /// Processes the timestamp of the next tick.
  ///
  /// - Parameter period: tick period in nanoseconds; `nil` while unknown.
  /// - Returns: the length in nanoseconds of a pause without a burst, if this tick completes its examination;
  ///   otherwise 0.
  mutating func take(_ time: Int64, period: Double?) -> Double {
    guard first != nil else {
      (first, last, ticks) = (time, time, 1)
      return 0
    }
    let pause = Double(time &- last)
    let period = period ?? self.period
    (last, ticks, since) = (time, ticks + 1, since + 1)
    var found = 0.0
    if length > 0 {
      let after = Double(time &- end)
      if since - after / period >= max(1.5, length / period / 2) {
        length = 0
      } else if after >= length {
        found = length
        length = 0
      }
    }
    guard pause > Self.pause else { return found }
    let isLong = pause > max(Self.shortest, Self.fewestPeriods * period, Self.fewestEvents * usual)
    if length == 0, ticks > Self.leastTicks, isLong { (length, end, since) = (pause, time, 1) }
    usual += (min(pause, usual > 0 ? 2 * usual : pause) - usual) / min(16, Double(ticks))
    return found
  }
}

/// Classifies jumps of the lateness as losses or clock drift. A jump is a position from which all ticks are
/// late by whole periods although no tick missed a connection event. Either ticks were lost, or the ring's
/// clock drifted by one connection event relative to the controller's.
///
/// A drift delays ticks by the greatest common divisor of period and interval, which is at most one period
/// and equals one only if the interval is a whole number of periods. Jumps of a drift are evenly spaced. They
/// can begin at any tick, because the line may have absorbed the first jumps. At most the longest evenly
/// spaced series of jumps can be a drift, so this number of jumps is doubtful. Jumps that continue an earlier
/// series after a pause are also doubtful. If the drift is slow, a jump of a drift rises slowly but a loss
/// raises the lateness at once. All other jumps are losses. Memory is fixed and allocated in the initializer.
struct ClockJumps: Sendable {
  /// Minimum number of ticks between jumps of a drift. It is small for intervals that are only almost a whole
  /// number of periods.
  private static let shortestDistance = 32.0
  /// Minimum number of ticks between jumps if only the crystals drift: by at most 250 ppm, of which 50 are
  /// the controller's (Core 5.4, Vol 6, Part B, 4.2.1) and 200 the ring's. A series with shorter distances
  /// counts only if it contains a third of all jumps.
  private static let shortestOfCrystals = 3_000.0
  /// Tolerance for the distances in a series, as a fraction of the distance. The largest of the three
  /// tolerances applies.
  private static let tolerance = 0.025
  /// Tolerance for the distances in a series, in ticks.
  private static let leastTolerance = 4.0
  /// Tolerance for the distances in a series, in connection events.
  private static let eventsOfTolerance = 2.0
  /// Minimum number of jumps in a series that later jumps can continue.
  private static let leastToContinue = 3
  /// Maximum tolerance for a jump that continues a series, as a fraction of the distance.
  private static let toleranceToContinue = 1.0 / 6
  /// Maximum number of remembered jumps.
  private static let capacity = 512
  /// Relative tolerance for an interval to count as a whole number of periods. If the deviation is larger, a
  /// drift does not delay a tick by a whole period at once.
  private static let nearWhole = 0.01
  /// Like `nearWhole`, for jumps at the distance that follows from the drift.
  private static let quiteNearWhole = 0.03
  /// Tolerance of the distance that follows from the drift, as a fraction of it.
  private static let toleranceOfDue = 0.1
  /// Jitter of a ring's timer, in nanoseconds.
  private static let timerJitter = 1_000_000.0
  /// Maximum tolerance because of this jitter, as a fraction of the distance.
  private static let mostTolerance = 0.15
  /// Maximum difference between a distance and the expected distance, as a fraction of the expected distance.
  private static let toleranceOfExpected = 0.2
  /// Shortest connection interval, in periods, at which a drift can delay a tick by a whole period.
  private static let shortestInterval = 0.75
  /// Limits for slow drifts, of less than `slowDrift` periods per event. A loss raises the lateness by a
  /// whole period at once. If the rise is less than `leastRise`, the jump is a drift. If the rise is less
  /// than `wholeRise` minus the drift over the compared events (`eventsOfRise` of which precede the jump),
  /// the loss is uncertain.
  private static let slowDrift = 0.03
  private static let leastRise = 0.5
  private static let wholeRise = 0.85
  private static let eventsOfRise = 12.0

  private var numbers = [Int](repeating: 0, count: capacity)
  private var count = 0
  /// Tolerance for the distances on this link, in ticks.
  private var slack = Self.leastTolerance
  /// Distance and last jump of the latest series of at least `leastToContinue` jumps; the distance is 0
  /// before the first such series.
  private var (distance, end) = (0.0, 0)
  /// Expected distance between jumps of a drift: the number of ticks in which interval and period drift by a
  /// period; infinite without a drift.
  private var expected = Double.infinity
  /// Tolerance of the expected distance, as a fraction of it.
  private var jitter = Self.tolerance
  /// Number of ticks whose loss is uncertain.
  private(set) var doubtful = 0

  /// Jump by one or more ticks, and the state of the link at that time.
  struct Jump {
    var ticks: Int
    /// Number of the first late tick.
    var number: Int
    /// Minimum lateness of the events after the jump minus that of the events before it, in periods.
    var rise: Double
    /// Number of events after the jump that `rise` includes.
    var events: Int
    /// Connection interval in periods; infinite if unknown.
    var intervalPeriods: Double
    /// Tick period, in nanoseconds.
    var period: Double
  }

  /// Processes the next jump.
  ///
  /// - Returns: whether the jump is a loss.
  mutating func isLoss(_ jump: Jump) -> Bool {
    let interval = jump.intervalPeriods
    guard jump.ticks == 1, interval >= Self.shortestInterval else { return true }
    let isKnown = interval.isFinite
    let (whole, off) = isKnown ? (interval.rounded(), abs(interval - interval.rounded())) : (1, 0)
    expected = whole / off
    jitter = min(Self.mostTolerance, max(Self.tolerance, Self.timerJitter / jump.period))
    if off > Self.nearWhole * whole, off > Self.quiteNearWhole * whole || !isDue(jump.number) {
      return true
    }
    if count == Self.capacity {
      for place in 1..<count { numbers[place - 1] = numbers[place] }
      count -= 1
    }
    numbers[count] = jump.number
    count += 1
    slack = max(Self.leastTolerance, isKnown ? Self.eventsOfTolerance * interval : 0)
    let isSlow = isKnown && off < Self.slowDrift
    if isSlow, jump.rise < Self.leastRise { return false }
    let wholeRise = Self.wholeRise - (Double(jump.events) + Self.eventsOfRise) * off
    let isPartial = isSlow && jump.rise < wholeRise
    guard isPartial || longestSeries() > doubtful || continuesSeries(jump.number) else { return true }
    doubtful += 1
    return false
  }

  /// Returns whether a drift since the last jump would now have reached a period.
  private func isDue(_ number: Int) -> Bool {
    count > 0 && abs(Double(number - numbers[count - 1]) - expected) < Self.toleranceOfDue * expected
  }

  /// Returns the tolerance for the distances of a series, as a fraction of the distance. It is larger for the
  /// expected distance, because the jitter of a ring's timer shifts the jumps of a drift.
  private func tolerance(_ distance: Double) -> Double {
    abs(distance - expected) < Self.toleranceOfExpected * expected ? jitter : Self.tolerance
  }

  /// Returns whether a jump continues the latest series. Some jumps of the series may be hidden, because
  /// ticks were late for another reason.
  private mutating func continuesSeries(_ number: Int) -> Bool {
    guard distance > 0 else { return false }
    let passed = Double(number - end)
    let steps = (passed / distance).rounded()
    let most = min(max(slack, tolerance(distance) * passed), Self.toleranceToContinue * distance)
    guard steps >= 1, abs(passed - steps * distance) <= most else { return false }
    (end, distance) = (number, passed / steps)
    return true
  }

  /// Returns the number of jumps that may be a drift: the longest evenly spaced series that ends at the last
  /// jump.
  private mutating func longestSeries() -> Int {
    let last = numbers[count - 1]
    // Count a single jump if the next jump of a drift is not due yet.
    var longest = 1
    for place in 0..<count - 1 {
      let distance = Double(last - numbers[place])
      guard distance >= Self.shortestDistance else { break }
      let length = series(distance)
      guard distance >= Self.shortestOfCrystals || 3 * length >= count else { continue }
      longest = max(longest, length)
      if length >= Self.leastToContinue { (self.distance, end) = (distance, last) }
    }
    return longest
  }

  /// Returns the length of the series with the given distance that ends at the last jump. The series extends
  /// back until a jump is missing. Jumps older than the stored jumps are assumed to continue the series.
  private func series(_ distance: Double) -> Int {
    let slack = max(slack, tolerance(distance) * distance)
    var (found, at) = (1, Double(numbers[count - 1]))
    var place = count - 2
    while at - distance > slack {
      let due = at - distance
      while place >= 0, Double(numbers[place]) > due + slack { place -= 1 }
      guard place >= 0 else { return count == Self.capacity ? found + Int(due / distance) : found }
      // If several jumps are close, use the nearest jump.
      while place > 0, abs(Double(numbers[place - 1]) - due) < abs(Double(numbers[place]) - due) {
        place -= 1
      }
      guard Double(numbers[place]) >= due - slack else { return found }
      (found, at) = (found + 1, Double(numbers[place]))
      place -= 1
    }
    return found
  }
}

/// Detects whether the timestamps of connection events lie on the link's time grid.
///
/// The controller's events are accurate to 500 ppm (Core 5.4, Vol 6, Part B, 4.2), and ring and radio delay
/// ticks by whole events. In contrast, a slow host delays timestamps by arbitrary times. Uses fixed memory.
struct EventPhase: Sendable {
  /// Minimum tolerance of the grid, in nanoseconds.
  private static let leastTolerance = 300_000.0
  /// Maximum tolerance of the grid, in nanoseconds.
  private static let mostTolerance = 1_000_000.0
  /// Factor between the mean distance from the grid and the tolerance, before the two limits are applied.
  private static let spreads = 1.5
  /// Maximum correction of the grid per event, in nanoseconds.
  private static let step = 5_000.0
  /// Additional correction of the grid, in nanoseconds per nanosecond since the last event.
  private static let drift = 0.000_2
  /// Number of events over which `share` and `spread` are averaged.
  private static let memory = 64.0
  /// Share of events on the grid below which the next event starts a new grid.
  private static let leastShare = 0.2

  /// Time of the last event on the grid, in nanoseconds; `nil` before the first event.
  private var point: Int64?
  /// Mean distance of timestamps from the grid, in nanoseconds.
  private var spread = 0.0
  /// Share of events on the grid.
  private(set) var share = 0.0

  /// Processes the timestamp of the next event.
  ///
  /// - Parameter interval: connection interval in nanoseconds; infinite if unknown.
  /// - Returns: whether the timestamp is on the grid.
  @discardableResult mutating func take(_ time: Int64, interval: Double) -> Bool {
    guard interval.isFinite, let last = point else {
      (point, share) = (time, 0)
      return false
    }
    let passed = Double(time &- last)
    let whole = (passed / interval).rounded() * interval
    let off = passed - whole
    let most = Self.step + Self.drift * abs(passed)
    // Invalid timestamps can have any value.
    point = last &+ Int64(max(-4e18, min(4e18, whole + max(-most, min(most, off)))))
    let isOn = abs(off) <= max(Self.leastTolerance, min(Self.mostTolerance, Self.spreads * spread))
    spread += (min(abs(off), Self.mostTolerance) - spread) / Self.memory
    share += ((isOn ? 1 : 0) - share) / Self.memory
    if share < Self.leastShare, !isOn { point = time }
    return isOn
  }
}

/// Evidence that late ticks were not delayed by the host: the events stay on the link's time grid as before.
struct HostProof: Sendable {
  private static let leastEvents = 8
  /// Minimum share of events on the grid before the first late tick. Below it, the grid proves nothing.
  private static let leastShareBefore = 0.4
  /// Minimum share of events on the grid since the first late tick, relative to the share before.
  private static let leastRatio = 0.75

  private var phase: EventPhase
  private let before: Double
  private var (all, onGrid) = (0, 0)

  /// Starts at the first late tick.
  ///
  /// - Parameter phase: state of the grid before the first late tick.
  init(_ phase: EventPhase) { (self.phase, before) = (phase, phase.share) }

  mutating func take(_ time: Int64, interval: Double) {
    all += 1
    if phase.take(time, interval: interval) { onGrid += 1 }
  }

  var isPunctual: Bool {
    all >= Self.leastEvents && before >= Self.leastShareBefore
      && Double(onGrid) >= Self.leastRatio * before * Double(all)
  }
}

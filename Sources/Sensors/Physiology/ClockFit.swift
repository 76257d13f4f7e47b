/// Fits a sensor's clock to the arrival timestamps of its ticks by a straight line. The line lies below all
/// timestamps and as close to them as possible. Memory is constant and allocated only in the initializer.
///
/// A packet is never early. It is late because it waits for the next connection event, because the radio
/// failed or slept at some events, and because earlier packets are queued. The clock therefore follows from
/// the lower edge of the timestamps, not from their mean. The lower edge is the lower convex hull of the
/// points (tick number, timestamp), and the line is the hull's edge in the middle of the remembered time.
/// This line minimises the sum of the distances to all timestamps (Moon, Skelly and Towsley, Estimation and
/// Removal of Clock Skew from Network Delay Measurements, INFOCOM 1999; by convex hulls: Zhang, Liu and Xia,
/// Clock Synchronization Algorithms for Network Measurements, INFOCOM 2002). A stall of the link does not
/// move the line.
///
/// The fit remembers the tick with the least lateness in each block. A block is one tick at first, then 2, 4,
/// 8 … ticks, until each of the `blockLimit` blocks lasts `blockSeconds`. If all timestamps in a quarter of
/// the blocks are later than the line by more than `largestDrift`, one of the clocks changed its rate or was
/// set. The fit then forgets the older half of the blocks.
///
/// Lateness also has an upper bound: if a connection event delivered other ticks but not this one, the tick
/// was produced after that event. A line with another period is possible if it implies only a few more missed
/// events than the best line. `periodUncertainty` is the largest difference between a possible period and the
/// best period. If the connection interval is a multiple of the tick period, arrivals follow the controller's
/// clock until the two clocks have drifted apart by an interval. Until then, the uncertainty of the period is
/// one interval divided by the number of ticks. If ticks drift relative to the events, the period is known
/// more accurately.
///
/// The minimum delay remains unknown: the whole line may be late by up to a connection interval.
public struct ClockFit: Sendable {
  /// Maximum number of remembered blocks.
  public static let blockLimit = 512
  /// Maximum duration of a block, unless one tick is longer.
  public static let blockSeconds = 1.0
  /// Minimum number of blocks before a new line may replace a known period.
  private static let blocksOfAGuess = 16
  /// Minimum time in seconds before a new line may replace a known period.
  private static let secondsOfAGuess = 16.0
  /// Minimum number of blocks before the fit may forget blocks.
  private static let blocksToJudge = 64
  /// Minimum time in seconds before the fit may forget blocks: a stalled link takes half a minute to catch
  /// up.
  private static let secondsToJudge = 128.0
  /// Maximum number of remembered waits.
  private static let waitLimit = 2_048
  /// Minimum number of waits for computing the range of the period.
  private static let leastWaits = 8
  /// Maximum share of ticks that miss an event on the best line. Above this share, the range of the period is
  /// unbounded.
  private static let largestShareMissed = 0.4
  /// Number of additional missed events, compared with the best line, up to which another line is still
  /// possible. `surplus` and `surplusOfLost` increase it.
  private static let leastSurplus = 2
  /// Increase of `leastSurplus`, as a multiple of the square root of the best line's missed events.
  private static let surplus = 0.5
  /// Increase of `leastSurplus`, as a multiple of the number of ticks times the share of lost events.
  private static let surplusOfLost = 0.1
  /// Factor by which the range of the period is widened, so that it contains the true period in 95 of 100
  /// links of each kind. Determined with `Tools/simulate --clock`.
  private static let margin = 1.3
  /// Search for possible periods around the best period. The first step moves the line by this fraction of a
  /// connection interval over the remembered time. After `steps` steps the distance doubles, up to
  /// `largestShare` of the period.
  private static let stepsOfInterval = 32
  private static let steps = 96
  private static let largestShare = 0.2
  private static let halvings = 6
  /// Maximum number of parts of a tick period for the test whether the connection interval is a multiple of a
  /// part.
  private static let largestParts = 8
  /// Maximum drift, in parts of a tick period, at which ticks and events count as synchronous.
  private static let largestBeats = 1.2
  /// Jitter of timestamps and of a ring's timer, in nanoseconds.
  private static let jitter = 500_000.0
  /// If the connection interval is shorter than this share of the tick period, some events deliver no tick.
  private static let slowTicks = 0.9
  private static let leastUncertainty = 1e-6
  /// Maximum lateness of the least late tick in a quarter of the blocks, in nanoseconds. A larger value means
  /// that a clock changed.
  private static let largestDrift = 10_000_000.0
  /// Minimum earliness of forgotten ticks, in periods, to count as missing ticks.
  private static let leastUnnumbered = 0.75

  /// The least late tick of a block: number and timestamp, both relative to the first tick.
  private struct Point: Sendable {
    var index: Double
    var time: Double
  }

  /// Bounds for the production time of a tick whose connection event differs from the previous tick's event.
  /// `before` is the timestamp of the previous tick's event. The tick was produced after that event or, if
  /// later, after the event one interval before its own.
  private struct Wait: Sendable {
    var index: Double
    var time: Double
    var before: Double
  }

  private var points: [Point]
  private var count = 0
  /// Corners of the lower convex hull, as indices into `points`.
  private var hull: [Int]
  private var corners = 0
  private var originIndex: Int
  private var origin: Int64
  /// Height of the line at tick `originIndex`, in nanoseconds after `origin`.
  private var offset = 0.0
  /// Tick period of the line, in nanoseconds.
  public private(set) var period: Double
  private var isGuess: Bool
  private var ticksOfBlock = 1
  private var ticksOfThis = 0
  private var best = Point(index: 0, time: 0)
  private var waits: [Wait]
  private var waitCount = 0
  /// Every `waitStep`-th wait is remembered.
  private var waitStep = 1
  private var waitsSkipped = 0
  private var events = EventGrid()
  /// Number of periods by which forgotten ticks were too early for the lines that replaced theirs. If no
  /// clock changed its rate, this number of ticks is missing but not counted in the tick numbers.
  public private(set) var unnumbered = 0.0
  /// Bounds of the period from previous lines, in nanoseconds; `nil` on the first line.
  private var known: (low: Double, high: Double)?

  /// Starts a line at the first tick.
  ///
  /// - Parameters:
  ///   - index: number of the first tick.
  ///   - time: its timestamp, in nanoseconds.
  ///   - period: estimated tick period in nanoseconds, above 0.
  ///   - isKnown: whether the period comes from an earlier fit. A known period is kept until the line's own
  ///     period is more accurate.
  public init(index: Int, time: Int64, period: Double, isKnown: Bool) {
    self.period = period
    isGuess = isKnown
    origin = time
    originIndex = index
    points = [Point](repeating: Point(index: 0, time: 0), count: Self.blockLimit)
    hull = [Int](repeating: 0, count: Self.blockLimit)
    waits = [Wait](repeating: Wait(index: 0, time: 0, before: 0), count: Self.waitLimit)
  }

  /// Starts a new line with the same period, for a sensor whose clock continues but whose tick numbers do
  /// not.
  public mutating func begin(at index: Int, _ time: Int64) {
    known = periods
    (originIndex, origin, offset, isGuess) = (index, time, 0, true)
    (count, corners, ticksOfBlock, ticksOfThis) = (0, 0, 1, 0)
    (waitCount, waitStep, waitsSkipped) = (0, 1, 0)
    events.begin()
  }

  /// Starts a new line at tick `index`, which arrived at `time` (nanoseconds). `period` is the estimated tick
  /// period in nanoseconds, above 0.
  public mutating func begin(at index: Int, _ time: Int64, period: Double) {
    begin(at: index, time)
    (self.period, isGuess, known) = (period, false, nil)
  }

  /// Starts the fit of another stream at tick `index`, which arrived at `time` (nanoseconds), and reuses the
  /// memory. `period` is the estimated tick period in nanoseconds, above 0.
  public mutating func reset(index: Int, time: Int64, period: Double) {
    begin(at: index, time, period: period)
    events.reset()
    unnumbered = 0
  }

  /// Returns the time at which tick `index` would arrive without delay, in nanoseconds on the clock of the
  /// timestamps.
  public func time(of index: Int) -> Int64 {
    // A line through invalid timestamps may exceed the range of `Int64`.
    origin &+ Int64(max(-4e18, min(4e18, expected(Double(index - originIndex)).rounded())))
  }

  /// Returns the lateness of a timestamp relative to the line, in nanoseconds; negative if early.
  public func lateness(of time: Int64, at index: Int) -> Double {
    // Invalid timestamps wrap around. Subtract before the conversion to Double, which would lose the
    // nanoseconds of a timestamp.
    Double(time &- origin) - expected(Double(index - originIndex))
  }

  private func expected(_ index: Double) -> Double { offset + period * index }

  private func lateness(_ point: Point) -> Double { point.time - expected(point.index) }

  /// Relative uncertainty of the period. `nil` if nothing is known yet, or if so many ticks miss the next
  /// event that any period is possible.
  public var periodUncertainty: Double? {
    guard let periods else { return nil }
    return max(periods.high - period, period - periods.low) / period + Self.leastUncertainty
  }

  /// Whether so many ticks miss the next event that any period is possible; `false` before enough ticks were
  /// received.
  public var isPeriodUnbounded: Bool { waitCount >= Self.leastWaits && periods == nil }

  /// Shortest and longest possible period, in nanoseconds.
  private var periods: (low: Double, high: Double)? {
    guard let own = ownPeriods else { return known }
    guard let known else { return own }
    let (low, high) = (max(known.low, own.low), min(known.high, own.high))
    return low <= high ? (low, high) : (min(known.low, own.low), max(known.high, own.high))
  }

  /// Shortest and longest possible period according to the current line, in nanoseconds.
  private var ownPeriods: (low: Double, high: Double)? {
    guard waitCount >= Self.leastWaits, count >= 2 else { return nil }
    let span = waits[waitCount - 1].index - waits[0].index
    guard span > 0 else { return nil }
    let step = min(events.interval, period) / span / Double(Self.stepsOfInterval)
    var counts = InlineArray<193, Int>(repeating: 0)
    var fewest = Int.max
    for place in counts.indices {
      counts[place] = missed(period + Double(place - Self.steps) * step)
      fewest = min(fewest, counts[place])
    }
    guard Double(fewest) <= Self.largestShareMissed * Double(waitCount) else { return nil }
    // If events were lost or cut short, a line that follows the timestamps themselves counts too few missed
    // events. Frequent losses therefore increase the limit.
    let surplus =
      Double(fewest).squareRoot() * Self.surplus + events.longSteps * Self.surplusOfLost * Double(waitCount)
    let limit = fewest + Self.leastSurplus + Int(surplus)
    var (first, last) = (Self.steps, Self.steps)
    for place in counts.indices where counts[place] <= limit {
      (first, last) = (min(first, place), max(last, place))
    }
    guard let low = farthest(-step, from: Self.steps - first, limit),
      let high = farthest(step, from: last - Self.steps, limit)
    else { return nil }
    let slack = Self.jitter / span
    let least = beat(span) / span
    return (period - max(least, low * Self.margin) - slack, period + max(least, high * Self.margin) + slack)
  }

  /// Returns the largest drift between ticks and connection events that cannot be detected, in nanoseconds.
  /// If the ratio of the two periods is almost a ratio of small integers, this is their greatest common
  /// divisor. Returns 0 for other ratios, and if the drift over `span` ticks is large enough to be detected.
  private func beat(_ span: Double) -> Double {
    guard events.interval.isFinite else { return 0 }
    for parts in 1...Self.largestParts {
      let divisor = period / Double(parts)
      let ratio = events.interval / divisor
      guard ratio > 0.5 else { continue }
      let drift = abs(ratio - ratio.rounded()) * divisor * span * period / events.interval
      if drift <= Self.largestBeats * divisor { return divisor }
    }
    return 0
  }

  /// Returns the maximum error of the period in the direction of `step`, in nanoseconds; `nil` if unbounded.
  /// The search starts at `steps` steps.
  private func farthest(_ step: Double, from steps: Int, _ limit: Int) -> Double? {
    func isPossible(_ steps: Double) -> Bool { missed(period + step * steps) <= limit }
    var (inside, outside) = (Double(steps), Double(steps + 1))
    if steps == Self.steps {
      while isPossible(outside) {
        (inside, outside) = (outside, 2 * outside)
        guard outside * abs(step) < Self.largestShare * period else { return nil }
      }
    }
    for _ in 0..<Self.halvings {
      let middle = (inside + outside) / 2
      if isPossible(middle) { inside = middle } else { outside = middle }
    }
    return outside * abs(step)
  }

  /// Returns the number of ticks that would have missed a connection event after their production if `period`
  /// were the true period. The line has this period and lies below all timestamps.
  private func missed(_ period: Double) -> Int {
    var lowest = Double.infinity
    for place in 0..<corners {
      lowest = min(lowest, points[hull[place]].time - period * points[hull[place]].index)
    }
    if ticksOfThis > 0 { lowest = min(lowest, best.time - period * best.index) }
    // Events without ticks occur only if the tick period is longer than the connection interval.
    let interval = events.interval < Self.slowTicks * period ? events.interval : .infinity
    var missed = 0
    for place in 0..<waitCount {
      let wait = waits[place]
      let line = lowest + period * wait.index
      if wait.before > line + Self.jitter || wait.time - interval > line { missed += 1 }
    }
    return missed
  }

  /// Longest connection interval that is consistent with the timestamps, in nanoseconds; infinite while
  /// unknown. The true interval may be a fraction of it.
  public var eventInterval: Double { events.interval }

  /// Processes the timestamp of the next tick. Tick numbers must be ascending.
  ///
  /// - Returns: the shift of the line at this tick, in nanoseconds; positive if the line moved to a later
  ///   time.
  @discardableResult public mutating func take(_ time: Int64, at index: Int) -> Double {
    let point = Point(index: Double(index - originIndex), time: Double(time &- origin))
    let before = expected(point.index)
    let late = point.time - before
    // A tick is never early, so an early tick moves the line at once.
    if late < 0 { offset += late }
    if ticksOfThis == 0 || lateness(point) < lateness(best) { best = point }
    ticksOfThis += 1
    if let before = events.take(point.time) {
      note(Wait(index: point.index, time: point.time, before: before))
    }
    if ticksOfThis >= ticksOfBlock {
      ticksOfThis = 0
      close()
    }
    return expected(point.index) - before
  }

  /// Increases all tick numbers from `index` on by `ticks`, the number of ticks that were lost before
  /// `index`.
  public mutating func insert(_ ticks: Int, before index: Int) {
    for place in 0..<count where points[place].index >= Double(index - originIndex) {
      points[place].index += Double(ticks)
    }
    for place in 0..<waitCount where waits[place].index >= Double(index - originIndex) {
      waits[place].index += Double(ticks)
    }
    if best.index >= Double(index - originIndex) { best.index += Double(ticks) }
    fit()
  }

  private mutating func note(_ wait: Wait) {
    waitsSkipped += 1
    guard waitsSkipped >= waitStep else { return }
    waitsSkipped = 0
    if waitCount == Self.waitLimit {
      for place in 0..<Self.waitLimit / 2 { waits[place] = waits[2 * place + 1] }
      waitCount = Self.waitLimit / 2
      waitStep *= 2
    }
    waits[waitCount] = wait
    waitCount += 1
  }

  private mutating func close() {
    if count == Self.blockLimit {
      let span = (points[count - 1].index - points[0].index) * period
      let isLong = span >= Double(Self.blockLimit) * Self.blockSeconds * 1e9
      if isLong { forget(Self.blockLimit / 8) } else { mergeBlocks() }
    }
    // If a tick number occurs twice, only the earlier timestamp is kept.
    if count > 0, points[count - 1].index >= best.index {
      points[count - 1].time = min(points[count - 1].time, best.time)
    } else {
      points[count] = best
      count += 1
    }
    fit()
    if count >= Self.blocksToJudge, hasChanged {
      let forgotten = count / 2
      forget(forgotten)
      fit()
      var earliest = 0.0
      for place in count..<count + forgotten { earliest = min(earliest, lateness(points[place])) }
      if -earliest >= Self.leastUnnumbered * period { unnumbered -= earliest / period }
    }
  }

  /// Removes the oldest blocks. Their points are moved behind the other points.
  private mutating func forget(_ blocks: Int) {
    // `swapAt` would allocate memory without optimisation.
    for place in blocks..<count {
      (points[place - blocks], points[place]) = (points[place], points[place - blocks])
    }
    count -= blocks
    var first = 0
    while first < waitCount, waits[first].index < points[0].index { first += 1 }
    for place in first..<waitCount { waits[place - first] = waits[place] }
    waitCount -= first
  }

  private mutating func mergeBlocks() {
    for place in 0..<count / 2 {
      let (a, b) = (points[2 * place], points[2 * place + 1])
      points[place] = lateness(a) <= lateness(b) ? a : b
    }
    count /= 2
    ticksOfBlock *= 2
  }

  /// Whether a clock changed: in some quarter of the blocks, even the least late tick is off the line by more
  /// than `largestDrift`.
  private var hasChanged: Bool {
    let quarter = count / 4
    let span = (points[count - 1].index - points[0].index) * period
    guard span >= Self.secondsToJudge * 1e9 else { return false }
    for first in stride(from: 0, through: 3 * quarter, by: quarter) {
      var least = Double.infinity
      for place in first..<first + quarter { least = min(least, lateness(points[place])) }
      if least > Self.largestDrift { return true }
    }
    return false
  }

  /// Computes the lower convex hull (Andrew's monotone chain), and sets the line to its edge in the middle.
  private mutating func fit() {
    guard count > 0 else { return }
    findHull()
    let seconds = (points[count - 1].time - points[0].time) / 1e9
    if isGuess {
      if count < Self.blocksOfAGuess || seconds < Self.secondsOfAGuess { return level() }
      // The period of previous lines is kept until the new line's own period is more accurate.
      if let known {
        guard let own = ownPeriods, own.high - own.low < known.high - known.low else { return level() }
      }
      isGuess = false
    }
    guard corners >= 2 else { return level() }
    let middle = (points[0].index + points[count - 1].index) / 2
    var edge = 1
    while edge < corners - 1, points[hull[edge]].index < middle { edge += 1 }
    let (a, b) = (points[hull[edge - 1]], points[hull[edge]])
    // If timestamps repeat or go backwards, the period stays positive.
    period = max(1, (b.time - a.time) / (b.index - a.index))
    level()
  }

  private mutating func findHull() {
    corners = 0
    for place in 0..<count {
      while corners >= 2, !turnsUp(points[hull[corners - 2]], points[hull[corners - 1]], points[place]) {
        corners -= 1
      }
      hull[corners] = place
      corners += 1
    }
  }

  /// Moves the line below all remembered points without changing its period.
  private mutating func level() {
    var lowest = Double.infinity
    for place in 0..<count { lowest = min(lowest, points[place].time - period * points[place].index) }
    // The first ticks of a new line may all be late, so a new line only moves down.
    offset = isGuess ? min(offset, lowest) : lowest
  }

  private func turnsUp(_ a: Point, _ b: Point, _ c: Point) -> Bool {
    (b.time - a.time) * (c.index - b.index) < (c.time - b.time) * (b.index - a.index)
  }
}

/// Connection events of a link, inferred from the timestamps of ticks.
private struct EventGrid: Sendable {
  /// Minimum time between two ticks in different events, in nanoseconds.
  private static let pause = 4_000_000.0
  /// Unit of connection intervals, in nanoseconds (Core 5.4, Vol 6, Part B, 4.5.1).
  private static let unit = 1_250_000.0
  private static let leastUnits = 6
  private static let mostUnits = 3_200
  /// Maximum number of remembered steps between events.
  private static let capacity = 128
  /// Number of new steps after which the interval is computed again.
  private static let leastSteps = 16
  /// Tolerance for a step to count as a multiple of the interval, in nanoseconds. Seven of ten steps must be
  /// multiples.
  private static let tolerance = 1_000_000.0

  /// Minimum number of steps that are not multiples of the interval for the test of its fractions.
  private static let leastOff = 2
  /// Largest divisor of the interval that is tested.
  private static let largestDivisor = 32

  /// Minimum ratio of a long step to the mean step.
  private static let longStep = 1.4

  private var last: Double?
  private var start = 0.0
  private var steps = [Double](repeating: 0, count: capacity)
  private var count = 0
  /// Longest connection interval of which most steps are multiples, in nanoseconds; infinite if there is
  /// none. The true interval may be a fraction of it.
  private(set) var interval = Double.infinity

  /// Forgets the last event, and keeps the interval.
  mutating func begin() { last = nil }

  /// Resets everything without freeing memory.
  mutating func reset() { (last, start, count, interval) = (nil, 0, 0, .infinity) }

  /// Processes the timestamp of the next tick, in nanoseconds since any epoch.
  ///
  /// - Returns: the first timestamp of the previous event, if this tick starts a new event; otherwise `nil`.
  mutating func take(_ time: Double) -> Double? {
    defer { last = time }
    guard let last else {
      start = time
      return nil
    }
    guard time - last > Self.pause else { return nil }
    defer { start = time }
    steps[count % Self.capacity] = time - start
    count += 1
    if count.isMultiple(of: Self.leastSteps) { interval = longest() }
    return start
  }

  /// Share of steps that are much longer than the mean step, because the events between were lost or had no
  /// tick.
  var longSteps: Double {
    let known = min(count, Self.capacity)
    var (sum, long) = (0.0, 0)
    for place in 0..<known { sum += steps[place] }
    for place in 0..<known where steps[place] * Double(known) > Self.longStep * sum { long += 1 }
    return known > 0 ? Double(long) / Double(known) : 0
  }

  private func longest() -> Double {
    let known = min(count, Self.capacity)
    var longest = 0.0
    for place in 0..<known { longest = max(longest, steps[place]) }
    var units = min(Self.mostUnits, Int(min(longest / Self.unit, 1e6)) + 1)
    while units >= Self.leastUnits {
      let interval = Double(units) * Self.unit
      let off = stepsOff(interval)
      if 10 * off <= 3 * known { return off < Self.leastOff ? interval : part(of: interval) ?? interval }
      units -= 1
    }
    return .infinity
  }

  /// Returns the largest fraction of `interval` of which all steps are multiples; `nil` if no fraction fits.
  /// The fraction is the true connection interval if the sensor sends in about every n-th event, but sometimes
  /// in an event before or after.
  private func part(of interval: Double) -> Double? {
    for divisor in 2...Self.largestDivisor {
      let part = interval / Double(divisor)
      guard part >= Double(Self.leastUnits) * Self.unit else { return nil }
      if stepsOff(part) == 0 { return part }
    }
    return nil
  }

  /// Returns the number of steps that are not multiples of an interval.
  private func stepsOff(_ interval: Double) -> Int {
    var off = 0
    for place in 0..<min(count, Self.capacity) {
      let number = (steps[place] / interval).rounded()
      if number < 1 || abs(steps[place] - number * interval) > Self.tolerance { off += 1 }
    }
    return off
  }
}

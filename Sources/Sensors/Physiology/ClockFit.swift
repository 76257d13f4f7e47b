/// Fits a sensor's clock to the stamps at which its ticks arrived: the line below all of them that lies nearest to
/// them. In constant memory, allocated at the start.
///
/// A packet is never early. It is late by its wait for the next connection event, by events in which the radio failed
/// or slept, and by what stood before it in the queue; so the mean of the stamps says nothing, and their lower edge
/// says all. That edge is the lower convex hull of (tick number, stamp), and the line is the hull's edge in the middle
/// of the time that is remembered: it minimises the sum of the distances to all stamps (Moon, Skelly and Towsley,
/// Estimation and Removal of Clock Skew from Network Delay Measurements, INFOCOM 1999; by convex hulls: Zhang, Liu and
/// Xia, Clock Synchronization Algorithms for Network Measurements, INFOCOM 2002). A stall of the link moves nothing.
///
/// It remembers the most punctual tick of each block: of every tick at first, then of 2, 4, 8 … as the blocks are to
/// last `blockSeconds`, `blockLimit` of them. Where all stamps of a quarter lie off the line, one of the clocks has
/// changed its pace or was set: the older half is forgotten.
///
/// Lateness has an upper bound, too: a tick that did not come with an event that brought others was made after that
/// event. A line with another period is possible as long as few more ticks than with the best one would have missed
/// such an event; `periodUncertainty` is how far such lines lie from this one. Where the interval is a whole multiple of
/// the tick, arrivals keep to the controller's clock until the two have drifted apart by an interval; so the period is
/// known to an interval over the time that is remembered. Where tick and event drift through each other, it is known better.
///
/// The smallest delay of all stays unknown: the whole line may be late by that, up to a connection interval.
public struct ClockFit: Sendable {
  /// What is remembered, at most: blocks, each of `blockSeconds` or of a tick where that is longer.
  public static let blockLimit = 512
  public static let blockSeconds = 1.0
  /// A known period stands until the line has seen so many blocks, and so many seconds.
  private static let blocksOfAGuess = 16
  private static let secondsOfAGuess = 16.0
  /// Blocks and seconds below which nothing is forgotten: a link that stood still takes half a minute to catch up.
  private static let blocksToJudge = 64
  private static let secondsToJudge = 128.0
  /// Waits that are remembered, at most, and below which no range is known.
  private static let waitLimit = 2_048
  private static let leastWaits = 8
  /// The share of ticks that miss an event on the best line, at most: if it is more, an event that was missed proves nothing.
  private static let largestShareMissed = 0.4
  /// By how many more ticks than the best line another one may miss: so many, and so many times the root of the best's.
  private static let leastSurplus = 2
  private static let surplus = 0.5
  /// And a share of all that grows with that of the events that were lost.
  private static let surplusOfLost = 0.1
  /// What `Tools/simulate --clock` has the range need so that it holds the truth in 95 of 100 links of each kind.
  private static let margin = 1.3
  /// Other periods are tried in steps that move a line by such a part of an interval over all that is remembered, to either
  /// side; then in steps that double, up to a share of the period.
  private static let stepsOfInterval = 32
  private static let steps = 96
  private static let largestShare = 0.2
  private static let halvings = 6
  /// Parts of a tick that an interval may be a multiple of, and by how many of them the two may have drifted to be in step.
  private static let largestParts = 8
  private static let largestBeats = 1.2
  /// What stamps and a ring's timer waver by: nanoseconds.
  private static let jitter = 500_000.0
  /// Share of a period below which an interval has events between ticks.
  private static let slowTicks = 0.9
  private static let leastUncertainty = 1e-6
  /// The most punctual of a quarter may be off the line by this: nanoseconds.
  private static let largestDrift = 10_000_000.0

  /// A tick that was the most punctual of its block: number and stamp, both since the first tick.
  private struct Point: Sendable {
    var index: Double
    var time: Double
  }

  /// A tick that came with another event than the tick before, and the stamp of that event: it was made after that, or
  /// after the last event before its own, unless that event was cut short.
  private struct Wait: Sendable {
    var index: Double
    var time: Double
    var before: Double
  }

  private var points: [Point]
  private var count = 0
  /// Of the lower hull: places in `points`.
  private var hull: [Int]
  private var corners = 0
  private var originIndex: Int
  private var origin: Int64
  /// The line: nanoseconds after `origin` at tick `originIndex`.
  private var offset = 0.0
  /// Nanoseconds from tick to tick.
  public private(set) var period: Double
  private var isGuess: Bool
  private var ticksOfBlock = 1
  private var ticksOfThis = 0
  private var best = Point(index: 0, time: 0)
  private var waits: [Wait]
  private var waitCount = 0
  /// Every so-many-th wait is remembered.
  private var waitStep = 1
  private var waitsSkipped = 0
  private var events = EventGrid()
  /// Shortest and longest period by the lines before this one: nanoseconds. `nil` on the first line.
  private var known: (low: Double, high: Double)?

  /// - Parameters:
  ///   - index: number of the first tick.
  ///   - time: its stamp in nanoseconds.
  ///   - period: a guess in nanoseconds, above 0.
  ///   - isKnown: the period was fitted before, and stands until this line has seen enough to know better.
  public init(index: Int, time: Int64, period: Double, isKnown: Bool) {
    self.period = period
    isGuess = isKnown
    origin = time
    originIndex = index
    points = [Point](repeating: Point(index: 0, time: 0), count: Self.blockLimit)
    hull = [Int](repeating: 0, count: Self.blockLimit)
    waits = [Wait](repeating: Wait(index: 0, time: 0, before: 0), count: Self.waitLimit)
  }

  /// Begins another line at a tick, with the period of this one: the sensor's clock is the same, its ticks are not.
  public mutating func begin(at index: Int, _ time: Int64) {
    known = periods
    (originIndex, origin, offset, isGuess) = (index, time, 0, true)
    (count, corners, ticksOfBlock, ticksOfThis) = (0, 0, 1, 0)
    (waitCount, waitStep, waitsSkipped) = (0, 1, 0)
    events.begin()
  }

  /// Begins anew, with another period as a first guess: nanoseconds, above 0.
  public mutating func begin(at index: Int, _ time: Int64, period: Double) {
    begin(at: index, time)
    (self.period, isGuess, known) = (period, false, nil)
  }

  /// When tick `index` arrives if it is not late: nanoseconds, on the clock of the stamps.
  public func time(of index: Int) -> Int64 {
    // A line through stamps that make no sense may leave what a stamp can be.
    origin &+ Int64(max(-4e18, min(4e18, expected(Double(index - originIndex)).rounded())))
  }

  /// How much later than the line a stamp is: nanoseconds, below zero where it is early.
  public func lateness(of time: Int64, at index: Int) -> Double {
    // Stamps that make no sense wrap around; a Double of one would lose its nanoseconds.
    Double(time &- origin) - expected(Double(index - originIndex))
  }

  private func expected(_ index: Double) -> Double { offset + period * index }

  private func lateness(_ point: Point) -> Double { point.time - expected(point.index) }

  /// By how much the period may be off: a share of it. `nil` before anything is known, and where ticks wait so often for
  /// more than the next event that any period is possible.
  public var periodUncertainty: Double? {
    guard let periods else { return nil }
    return max(periods.high - period, period - periods.low) / period + Self.leastUncertainty
  }

  /// Whether enough is known to say that any period is possible: ticks wait so often for more than the next event.
  public var isPeriodUnbounded: Bool { waitCount >= Self.leastWaits && periods == nil }

  /// The shortest and the longest period that are possible: nanoseconds.
  private var periods: (low: Double, high: Double)? {
    guard let own = ownPeriods else { return known }
    guard let known else { return own }
    let (low, high) = (max(known.low, own.low), min(known.high, own.high))
    return low <= high ? (low, high) : (min(known.low, own.low), max(known.high, own.high))
  }

  /// Those of the present line.
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
    // A line along the very stamps of the events hides those that were lost and those that were cut short.
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

  /// By how much tick and event may have drifted against each other without a trace: their greatest common divisor if they
  /// are in the ratio of small numbers and have not passed through each other since; else 0.
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

  /// How far the period may be off in the direction of a step, at least so many of them: nanoseconds; `nil` if there is no
  /// bound.
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

  /// How many ticks would have missed an event that they were made before, were this the period: on the latest line that
  /// is below all stamps.
  private func missed(_ period: Double) -> Int {
    var lowest = Double.infinity
    for place in 0..<corners {
      lowest = min(lowest, points[hull[place]].time - period * points[hull[place]].index)
    }
    if ticksOfThis > 0 { lowest = min(lowest, best.time - period * best.index) }
    // Only a sensor that is slower than its link has events without a tick.
    let interval = events.interval < Self.slowTicks * period ? events.interval : .infinity
    var missed = 0
    for place in 0..<waitCount {
      let wait = waits[place]
      let line = lowest + period * wait.index
      if wait.before > line + Self.jitter || wait.time - interval > line { missed += 1 }
    }
    return missed
  }

  /// The longest time between connection events that the stamps keep to: nanoseconds, infinite while it is unknown. The
  /// true one may be a fraction of it.
  public var eventInterval: Double { events.interval }

  /// Takes the stamp of a tick into account. Numbers must rise.
  ///
  /// - Returns: by how much the line moved at this tick: nanoseconds, above zero to later times.
  @discardableResult public mutating func take(_ time: Int64, at index: Int) -> Double {
    let point = Point(index: Double(index - originIndex), time: Double(time &- origin))
    let before = expected(point.index)
    let late = point.time - before
    // Never early: the line gives way at once.
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

  /// Ticks were lost before one that was taken already: all from that number on had a higher one.
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
    // A number that comes twice has one point, the earlier.
    if count > 0, points[count - 1].index >= best.index {
      points[count - 1].time = min(points[count - 1].time, best.time)
    } else {
      points[count] = best
      count += 1
    }
    fit()
    if count >= Self.blocksToJudge, hasChanged {
      forget(count / 2)
      fit()
    }
  }

  private mutating func forget(_ blocks: Int) {
    for place in blocks..<count { points[place - blocks] = points[place] }
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

  /// Whether even the most punctual of a quarter are off the line: below a hull, one of the clocks has bent.
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

  /// The lower hull by Andrew's monotone chain, and its edge in the middle.
  private mutating func fit() {
    guard count > 0 else { return }
    findHull()
    let seconds = (points[count - 1].time - points[0].time) / 1e9
    if isGuess {
      if count < Self.blocksOfAGuess || seconds < Self.secondsOfAGuess { return level() }
      // The period of the lines before stands until this one knows it better.
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
    // Stamps that stand still or run backwards must not turn the clock round.
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

  /// Puts the line, with its period, below all that is remembered.
  private mutating func level() {
    var lowest = Double.infinity
    for place in 0..<count { lowest = min(lowest, points[place].time - period * points[place].index) }
    // What the first ticks of a new line are late by is not known before others were on time.
    offset = isGuess ? min(offset, lowest) : lowest
  }

  private func turnsUp(_ a: Point, _ b: Point, _ c: Point) -> Bool {
    (b.time - a.time) * (c.index - b.index) < (c.time - b.time) * (b.index - a.index)
  }
}

/// The connection events of a link, as far as the stamps of ticks tell them.
private struct EventGrid: Sendable {
  /// A pause between two ticks that parts events: nanoseconds.
  private static let pause = 4_000_000.0
  /// Connection intervals are multiples of this: nanoseconds (Core 5.4, Vol 6, Part B, 4.5.1).
  private static let unit = 1_250_000.0
  private static let leastUnits = 6
  private static let mostUnits = 3_200
  /// Times from event to event that are remembered, and after how many of them the interval is looked for.
  private static let capacity = 128
  private static let leastSteps = 16
  /// Seven of ten steps are multiples of the interval, but for this: nanoseconds.
  private static let tolerance = 1_000_000.0

  /// Steps beside the interval that show a fraction of it, and the smallest fraction that is looked for.
  private static let leastOff = 2
  private static let largestDivisor = 32

  /// A long step is longer than the mean by such a factor.
  private static let longStep = 1.4

  private var last: Double?
  private var start = 0.0
  private var steps = [Double](repeating: 0, count: capacity)
  private var count = 0
  /// The longest interval that the events keep to: nanoseconds, infinite if there is none. The true one may be a fraction of it.
  private(set) var interval = Double.infinity

  /// Forgets the last event, not the interval.
  mutating func begin() { last = nil }

  /// Takes the stamp of the next tick: nanoseconds since any moment.
  ///
  /// - Returns: the first stamp of the event before; `nil` for a tick of the same event as the one before.
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

  /// The share of steps that are longer than most: events between them were lost, or had no tick.
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

  /// A fraction of an interval that every step is a multiple of, where some are none of the interval: ticks that come almost
  /// once in so many events.
  private func part(of interval: Double) -> Double? {
    for divisor in 2...Self.largestDivisor {
      let part = interval / Double(divisor)
      guard part >= Double(Self.leastUnits) * Self.unit else { return nil }
      if stepsOff(part) == 0 { return part }
    }
    return nil
  }

  /// Steps that are no multiple of an interval.
  private func stepsOff(_ interval: Double) -> Int {
    var off = 0
    for place in 0..<min(count, Self.capacity) {
      let number = (steps[place] / interval).rounded()
      if number < 1 || abs(steps[place] - number * interval) > Self.tolerance { off += 1 }
    }
    return off
  }
}

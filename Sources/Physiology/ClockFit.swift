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
/// What nobody can know is the smallest delay of all: the whole line may be late by that, up to a connection interval.
/// Where the interval is a whole multiple of the tick, arrivals keep to the controller's clock until the two have
/// drifted apart by a tick: until then the rate is the controller's.
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
  /// The most punctual of a quarter may be off the line by this: nanoseconds.
  private static let largestDrift = 10_000_000.0

  /// A tick that was the most punctual of its block: number and stamp, both since the first tick.
  private struct Point: Sendable {
    var index: Double
    var time: Double
  }

  private var points: [Point]
  private var count = 0
  /// Of the lower hull: places in `points`.
  private var hull: [Int]
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
  }

  /// Begins another line at a tick, with the period of this one: the sensor's clock is the same, its ticks are not.
  public mutating func begin(at index: Int, _ time: Int64) {
    (originIndex, origin, offset, isGuess) = (index, time, 0, true)
    (count, ticksOfBlock, ticksOfThis) = (0, 1, 0)
  }

  /// Begins anew, with another period as a first guess: nanoseconds, above 0.
  public mutating func begin(at index: Int, _ time: Int64, period: Double) {
    begin(at: index, time)
    (self.period, isGuess) = (period, false)
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

  /// By how much the period may be off: a share of it. `nil` before anything is known.
  ///
  /// A line may turn about the middle of what is remembered by as much as the most punctual ticks of either half usually
  /// lie above it.
  public var periodUncertainty: Double? {
    guard count >= 4 else { return nil }
    let span = (points[count - 1].index - points[0].index) * period
    guard span > 0 else { return nil }
    var sum = 0.0
    for place in 0..<count { sum += min(max(0, lateness(points[place])), period) }
    return 4 * sum / Double(count) / span + 1e-6
  }

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
    if best.index >= Double(index - originIndex) { best.index += Double(ticks) }
    fit()
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
    let seconds = (points[count - 1].time - points[0].time) / 1e9
    if isGuess, count < Self.blocksOfAGuess || seconds < Self.secondsOfAGuess { return level() }
    isGuess = false
    var size = 0
    for place in 0..<count {
      while size >= 2, !turnsUp(points[hull[size - 2]], points[hull[size - 1]], points[place]) { size -= 1 }
      hull[size] = place
      size += 1
    }
    guard size >= 2 else { return level() }
    let middle = (points[0].index + points[count - 1].index) / 2
    var edge = 1
    while edge < size - 1, points[hull[edge]].index < middle { edge += 1 }
    let (a, b) = (points[hull[edge - 1]], points[hull[edge]])
    // Stamps that stand still or run backwards must not turn the clock round.
    period = max(1, (b.time - a.time) / (b.index - a.index))
    level()
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

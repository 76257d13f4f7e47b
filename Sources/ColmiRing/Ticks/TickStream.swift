public import BLECore

/// Frames of the raw stream in, ticks on the sensor's own clock out: what a capture writes while it runs and what is
/// made of its tables afterwards. The same frames give the same ticks. Fixed memory, allocated at the start.
///
/// Ticks come out behind the frames: by `TickClock.lagSeconds`, by `warmUpSeconds` at the start, and where ticks may be
/// missing until `patience` ticks have told.
public struct TickStream: Sendable {
  private var order = StampOrder()
  private var grouper = RingTickGrouper()
  private var clock = TickClock()
  private var tally = TickTally()
  private var end = End.open

  private enum End { case open, begun, reached }

  public init() {}

  /// Nanoseconds from tick to tick, as fitted so far; `nil` while the clock warms up.
  public var period: Double? { clock.period }

  /// What came out so far, in numbers. Allocates: not for each tick.
  public var report: TickReport { tally.report(clock) }

  /// Takes the next frame, in the order of arrival. Call `next` until it gives nothing before the next `take`.
  public mutating func take(_ sample: RingRawSample, at time: ReceiveTime) { order.take(sample, at: time) }

  /// Ends the stream: `next` gives what is left.
  public mutating func finish() {
    order.finish()
    end = .begun
  }

  /// The next tick in order, or `nil` until more are known.
  public mutating func next() -> PlacedTick? {
    while true {
      if let placed = clock.next() {
        tally.take(placed)
        return placed
      }
      if let (sample, time) = order.pop() {
        if let tick = grouper.take(sample, at: time) { clock.take(tick) }
        continue
      }
      guard end == .begun else { return nil }
      if let tick = grouper.finish() {
        clock.take(tick)
      } else {
        clock.finish()
        end = .reached
      }
    }
  }
}

/// A stretch of ticks that never came.
public struct TickGap: Hashable, Sendable, BitwiseCopyable {
  /// Fitted times of the ticks before and after it.
  public var after: ReceiveTime
  public var before: ReceiveTime
  public var ticks: Int

  public init(after: ReceiveTime, before: ReceiveTime, ticks: Int) {
    self.after = after
    self.before = before
    self.ticks = ticks
  }
}

/// A stream of ticks in numbers.
public struct TickReport: Hashable, Sendable {
  /// What one subtype's frames have brought.
  public struct Part: Hashable, Sendable {
    public var samples = 0
    /// It comes with each so-many-th tick: 1 in all known firmware. 0 without samples.
    public var everyTicks = 0
    /// Frames that never came, between its first and its last.
    public var missing = 0
    /// Kernel stamp less fitted time, root mean square about its mean: nanoseconds.
    public var residual = 0.0
    /// 99 of 100 stamps are later than the fitted time by at most this: nanoseconds, up to a sixteenth too much.
    public var residualP99 = 0.0
    /// Samples a second by the sensor's clock; `nil` where there are none.
    public var rate: Double?

    public init() {}
  }

  public var ticks = 0
  /// Ticks that have a frame of each kind that came at all.
  public var wholeTicks = 0
  /// Ticks a second by the sensor's clock, over the last minute; `nil` where there are none.
  public var rate: Double?
  public var clock = ClockReport()
  /// The first gaps, `TickTally.gapCapacity` at most; `clock.gaps` counts all.
  public var gaps: [TickGap] = []
  /// By `RingTick.Part.rawValue`.
  public var parts = [Part](repeating: Part(), count: RingTick.Part.allCases.count)

  public init() {}
}

/// Counts what comes out of a `TickStream`. Fixed memory.
struct TickTally: Sendable {
  static let gapCapacity = 32

  private var ticks = 0
  private var lastTime: ReceiveTime?
  /// By the bits of the parts that a tick has.
  private var combinations: InlineArray<8, Int> = .init(repeating: 0)
  private var parts: [PartTally]
  private var gaps: [TickGap] = []

  init() {
    parts = RingTick.Part.allCases.map { _ in PartTally() }
  }

  mutating func take(_ placed: PlacedTick) {
    // Here, where nobody shares it: the first gap of a long stream allocates nothing.
    if ticks == 0 { gaps.reserveCapacity(Self.gapCapacity) }
    ticks += 1
    combinations[take(.spO2, placed) | take(.ppg, placed) | take(.accelerometer, placed)] += 1
    if placed.missingBefore > 0, let lastTime, gaps.count < Self.gapCapacity {
      gaps.append(TickGap(after: lastTime, before: placed.fittedTime, ticks: placed.missingBefore))
    }
    lastTime = placed.fittedTime
  }

  /// - Returns: the part's bit, where the tick has it.
  private mutating func take(_ part: RingTick.Part, _ placed: PlacedTick) -> Int {
    guard let time = placed.tick.time(of: part) else { return 0 }
    parts[part.rawValue].take(time.nanoseconds &- placed.fittedTime.nanoseconds, at: placed.index)
    return 1 << part.rawValue
  }

  func report(_ clock: TickClock) -> TickReport {
    var report = TickReport()
    report.ticks = ticks
    var seen = 0
    for present in combinations.indices where combinations[present] > 0 { seen |= present }
    report.wholeTicks = combinations[seen]
    report.rate = clock.period.map { 1e9 / $0 }
    report.clock = clock.report
    report.gaps = gaps
    report.parts = parts.map { $0.report(rate: report.rate) }
    return report
  }
}

/// One subtype's share of a `TickTally`.
private struct PartTally: Sendable {
  /// Sixteen bins an octave: a quantile is known to a sixteenth.
  private static let binsOfOctave = 16
  private static let octaves = 42

  private var samples = 0
  private var sum = 0.0
  private var sumOfSquares = 0.0
  private var bins = [Int](repeating: 0, count: Self.octaves * Self.binsOfOctave)
  private var firstIndex = 0
  private var lastIndex = 0
  /// How often the next one came so many ticks later; the last counts all that are longer.
  private var steps: InlineArray<9, Int> = .init(repeating: 0)

  mutating func take(_ residual: Int64, at index: Int) {
    if samples == 0 { firstIndex = index } else { steps[min(max(0, index &- lastIndex), 8)] += 1 }
    lastIndex = index
    samples += 1
    sum += Double(residual)
    sumOfSquares += Double(residual) * Double(residual)
    bins[Self.bin(Double(residual))] += 1
  }

  /// What is not late at all is in the first.
  private static func bin(_ residual: Double) -> Int {
    guard residual >= 1 else { return 0 }
    let place = Int(residual.exponent) * binsOfOctave + Int((residual.significand - 1) * Double(binsOfOctave))
    return min(place, octaves * binsOfOctave - 1)
  }

  /// The upper edge of a bin: nanoseconds.
  private static func edge(_ bin: Int) -> Double {
    let share = Double(bin % binsOfOctave + 1) / Double(binsOfOctave)
    return Double(1 << (bin / binsOfOctave)) * (1 + share)
  }

  func report(rate: Double?) -> TickReport.Part {
    var report = TickReport.Part()
    guard samples > 0 else { return report }
    report.samples = samples
    var usual = 1
    for step in 1..<8 where steps[step] > steps[usual] { usual = step }
    report.everyTicks = usual
    report.missing = max(0, (lastIndex &- firstIndex) / usual &+ 1 &- samples)
    report.rate = rate.map { $0 / Double(usual) }
    let mean = sum / Double(samples)
    report.residual = max(0, sumOfSquares / Double(samples) - mean * mean).squareRoot()
    var count = 0
    for bin in bins.indices {
      count += bins[bin]
      guard 100 * count >= 99 * samples else { continue }
      report.residualP99 = Self.edge(bin)
      break
    }
    return report
  }
}

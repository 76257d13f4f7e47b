public import BLEWire

/// Converts frames of the raw stream into ticks on the sensor's own clock, for a running capture and for its
/// tables. The same frames always give the same ticks. Memory is fixed and allocated in the initializer.
///
/// Ticks lag behind their frames by `TickClock.lagSeconds`, and by `warmUpSeconds` at the start. If a
/// tick may be missing, the ticks after it are held back until it is clear whether one is.
public struct TickStream: Sendable {
  private var order = StampOrder()
  private var grouper = RingTickGrouper()
  private var clock = TickClock()
  private var tally = TickTally()
  private var end = End.open
  private var link: Int?
  private var setting = ClockSetting()
  /// Time of the last frame on the wall clock as it was set at the start of the stream, in nanoseconds.
  private var lastSteady = Int64.min
  /// Whether the clock was set by an unknown amount.
  private var hasUnknownSteps = false

  /// Maximum backward step between times of one link, in nanoseconds. A larger step means that the clock was
  /// set.
  private static let disorder: Int64 = 100_000_000

  private enum End { case open, begun, reached }

  public init() {}

  /// Fitted time between ticks in nanoseconds; `nil` during the warm-up.
  public var period: Double? { clock.period }

  /// Summary of the ticks returned so far. Computing it allocates memory, so do not call it for each tick.
  public var report: TickReport {
    var report = tally.report(clock)
    if isLinkTooSlow {
      report.clock.takeLinkTooSlow()
    } else if grouper.load.mayBeFull {
      report.clock.takeRateUnknown()
    }
    if hasUnknownSteps { report.takeStepUnknown() }
    return report
  }

  /// Whether the link has been too slow to carry all frames; see `ClockReport.isLinkTooSlow`.
  public var isLinkTooSlow: Bool { grouper.load.isFull || tally.isUneven(missing: clock.missingSoFar) }

  /// Processes the next frame, in the order of arrival. Call `next` until it returns `nil` before the next
  /// `take`.
  ///
  /// - Parameters:
  ///   - sample: the frame.
  ///   - time: time at which the frame was received.
  ///   - link: a number that is unique for each link; the sensor restarts its timer on each link.
  ///   - clock: setting of the wall clock at `time`. After a step of unknown size, another line begins, and
  ///     the number of ticks missing before it is unknown.
  public mutating func take(
    _ sample: RingRawSample, at time: ReceiveTime, link: Int = 0, clock: ClockSetting = ClockSetting()
  ) {
    order.take(sample, at: time, link: link, clock)
  }

  /// Ends the stream; `next` then returns the remaining ticks.
  public mutating func finish() {
    order.finish()
    end = .begun
  }

  /// Returns the next tick in order; `nil` if more input is needed.
  public mutating func next() -> PlacedTick? {
    while true {
      if let placed = clock.next() {
        tally.take(placed)
        return placed
      }
      if let (sample, time, link, setting) = order.pop() {
        let steady = time.nanoseconds &- setting.offset
        // `lastSteady` is `Int64.min` at first, so nothing is subtracted from it.
        let isBack = link == self.link && steady &+ Self.disorder < lastSteady
        if link != self.link || setting.unknownCount != self.setting.unknownCount || isBack {
          beginLine(link, isKnown: setting.unknownCount == self.setting.unknownCount && !isBack)
        }
        (self.setting, lastSteady) = (setting, steady)
        if let tick = grouper.take(sample, at: time, offset: setting.offset) { clock.take(tick) }
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

extension TickStream {
  /// Completes the current tick. The next tick begins another line.
  private mutating func beginLine(_ link: Int, isKnown: Bool) {
    let last = grouper.beginLink()
    if self.link != nil {
      if let last { clock.take(last) }
      if !isKnown { hasUnknownSteps = true }
      clock.beginLink(pause: isKnown ? .measured : .unknown)
    }
    self.link = link
  }
}

/// Gap of one or more missing ticks.
public struct TickGap: Hashable, Sendable, BitwiseCopyable {
  /// Fitted time of the tick before the gap.
  public var after: ReceiveTime
  /// Fitted time of the tick after the gap.
  public var before: ReceiveTime
  public var ticks: Int

  public init(after: ReceiveTime, before: ReceiveTime, ticks: Int) {
    self.after = after
    self.before = before
    self.ticks = ticks
  }
}

/// Summary of a stream of ticks.
public struct TickReport: Hashable, Sendable {
  /// Statistics of one subtype's frames.
  public struct Part: Hashable, Sendable {
    public var samples = 0
    /// Number of ticks per frame: 1 in all known firmware versions; 0 without samples.
    public var everyTicks = 0
    /// Number of missing frames between the first and the last frame.
    public var missing = 0
    /// Whether further frames may be missing because the clock was set by an unknown amount.
    public var mayLackMore = false
    /// Standard deviation of the kernel timestamp minus the fitted time, in nanoseconds.
    public var residual = 0.0
    /// 99th percentile of the timestamps' lateness, in nanoseconds; up to a sixteenth too high.
    public var residualP99 = 0.0
    /// Samples per second on the sensor's clock; `nil` if there are no samples.
    public var rate: Double?

    public init() {}
  }

  public var ticks = 0
  /// Number of complete ticks, which have a frame of each kind in the stream.
  public var wholeTicks = 0
  /// Ticks per second on the sensor's clock; `nil` if there are no ticks.
  public var rate: Double?
  public var clock = ClockReport()
  /// The first gaps, at most `TickTally.gapCapacity`. `clock.gaps` counts all gaps.
  public var gaps: [TickGap] = []
  /// Statistics of each part, by `RingTick.Part.rawValue`.
  public var parts = [Part](repeating: Part(), count: RingTick.Part.allCases.count)

  public init() {}

  /// Marks the number of missing ticks as unknown, because the clock was set by an unknown amount.
  fileprivate mutating func takeStepUnknown() {
    clock.missingAtMost = nil
    for place in parts.indices { parts[place].mayLackMore = true }
  }
}

/// Statistics of the number of frames in each connection event of a link. Uses fixed memory.
///
/// If the ring produces more frames than the link carries, frames always wait. Each event then delivers the
/// maximum number of frames; only events that the radio cuts short deliver fewer. A link with spare capacity
/// delivers whole ticks, and more ticks after a failed event. Limit: if the maximum is a whole number of
/// ticks, the ring drops whole ticks and no event is ever lost, a full link looks like a link with spare
/// capacity.
struct EventLoad: Sendable {
  /// Minimum time between frames of different connection events, in nanoseconds.
  private static let pause: Int64 = 4_000_000
  private static let limit = 128
  private static let leastEvents = 32
  /// Minimum ratio of the time between two events to the usual time for an event between them to count as
  /// lost. A decision requires `leastLost` lost events.
  private static let longStep = 1.5
  private static let leastLost = 4
  private static let framesOfTick = 3
  private static let leastWhole = 8
  /// Maximum share of events on a full link that deliver more frames than a full event.
  private static let largestShareAbove = 0.002
  /// Maximum share of events on a full link that deliver fewer frames than a full event by a whole number of
  /// ticks.
  private static let largestShareBelow = 0.01
  /// Share of events with the same number of ticks from which the link may be full, if nothing else shows it.
  private static let leastShareSame = 0.97

  /// Number of events by number of frames. The last element counts all longer events.
  private var events = [Int](repeating: 0, count: limit + 1)
  /// Number of events that follow a lost event or an event that ended within a tick, by number of frames.
  private var afterLost = [Int](repeating: 0, count: limit + 1)
  private var frames = 0
  private var last: Int64?
  private var start: Int64 = 0
  /// Usual time between events, in nanoseconds.
  private var usual = 0.0
  private var isAfterLost = false

  mutating func take(_ time: Int64) {
    defer { last = time }
    if last == nil { start = time }
    if let last, time &- last > Self.pause {
      events[min(frames, Self.limit)] += 1
      if isAfterLost { afterLost[min(frames, Self.limit)] += 1 }
      let step = Double(time &- start)
      start = time
      isAfterLost = usual > 0 && step > Self.longStep * usual || !frames.isMultiple(of: Self.framesOfTick)
      usual = usual > 0 ? usual + (min(step, 2 * usual) - usual) / 16 : step
      frames = 0
    }
    frames += 1
  }

  /// Returns whether events after a loss contain no more than `full` frames. If so, a backlog was not caught
  /// up.
  private func catchesNothingUp(_ full: Int) -> Bool {
    var (all, above) = (0, 0)
    for frames in afterLost.indices {
      all += afterLost[frames]
      if frames > full { above += afterLost[frames] }
    }
    return all >= Self.leastLost && above == 0
  }

  /// Whether many events deliver whole ticks more or fewer than the usual event. On a full link, all events
  /// deliver the same number of frames; the radio can cut an event short, but rarely between two ticks.
  var hasRoom: Bool {
    var (all, usual) = (0, 1)
    for frames in events.indices {
      all += events[frames]
      if events[frames] > events[usual] { usual = frames }
    }
    guard all >= Self.leastEvents else { return false }
    var (whole, cut) = (0, 0)
    for frames in events.indices where frames != usual {
      if (usual - frames).isMultiple(of: Self.framesOfTick) {
        whole += events[frames]
      } else {
        cut += events[frames]
      }
    }
    return whole > Self.leastWhole + 2 * cut
  }

  /// Total number of events, and number of frames in a full event: at least half of the events have this
  /// number, and hardly any have more. `nil` if there is no such number.
  private var full: (all: Int, frames: Int)? {
    var all = 0
    for count in events { all += count }
    guard all >= Self.leastEvents else { return nil }
    var (full, above) = (Self.limit, 0)
    while full > 0, Double(above + events[full]) <= Self.largestShareAbove * Double(all) {
      above += events[full]
      full -= 1
    }
    return full < Self.limit && 2 * events[full] >= all ? (all, full) : nil
  }

  /// Whether the link may be full: events deliver the same number of ticks, at least two, and no lost or
  /// shortened event shows whether they could deliver more.
  var mayBeFull: Bool {
    guard let (all, full) = full, full > Self.framesOfTick, full.isMultiple(of: Self.framesOfTick) else {
      return false
    }
    return Double(events[full]) >= Self.leastShareSame * Double(all)
  }

  var isFull: Bool {
    guard let (all, full) = full else { return false }
    guard !full.isMultiple(of: Self.framesOfTick) else {
      return full > Self.framesOfTick && catchesNothingUp(full)
    }
    var (whole, cut) = (0, 0)
    for frames in 1..<full {
      if (full - frames).isMultiple(of: Self.framesOfTick) {
        whole += events[frames]
      } else {
        cut += events[frames]
      }
    }
    return Double(whole) <= Self.largestShareBelow * Double(all) + 0.6 * Double(cut)
  }
}

/// Statistics of a `TickStream`'s output. Uses fixed memory.
struct TickTally: Sendable {
  private static let gapCapacity = 32

  /// Maximum share of frames that a ring drops. A higher share means that the link is too slow.
  private static let largestShareDropped = 0.01

  private var ticks = 0
  private var lastTime: ReceiveTime?
  /// Number of ticks by the bit set of their parts.
  private var combinations: InlineArray<8, Int> = .init(repeating: 0)
  private var parts: [PartTally]
  private var gaps: [TickGap] = []

  init() {
    parts = RingTick.Part.allCases.map { _ in PartTally() }
    gaps.reserveCapacity(Self.gapCapacity)
  }

  mutating func take(_ placed: PlacedTick) {
    ticks += 1
    combinations[take(.spO2, placed) | take(.ppg, placed) | take(.accelerometer, placed)] += 1
    if placed.missingBefore > 0, let lastTime, gaps.count < Self.gapCapacity {
      gaps.append(TickGap(after: lastTime, before: placed.fittedTime, ticks: placed.missingBefore))
    }
    lastTime = placed.fittedTime
  }

  /// Processes one part of a tick.
  ///
  /// - Returns: the part's bit if the tick has this part, otherwise 0.
  private mutating func take(_ part: RingTick.Part, _ placed: PlacedTick) -> Int {
    guard let time = placed.tick.steadyTime(of: part) else { return 0 }
    parts[part.rawValue].take(time &- placed.steadyTime, at: placed.index)
    return 1 << part.rawValue
  }

  /// Returns whether so many ticks are incomplete that the ring must also have dropped whole ticks. The ring
  /// sends the frames of a tick together, and the radio loses none.
  ///
  /// - Parameter missing: number of missing ticks.
  fileprivate func isUneven(missing: Int) -> Bool {
    var (dropped, all) = (0, 0)
    for part in parts where part.samples > 0 {
      dropped += max(0, part.missing - missing / part.everyTicks)
      all += part.samples
    }
    return Double(dropped) > Self.largestShareDropped * Double(all)
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

/// Statistics of one subtype in a `TickTally`.
private struct PartTally: Sendable {
  /// Number of histogram bins per octave. A quantile is accurate to a sixteenth.
  private static let binsOfOctave = 16
  private static let octaves = 42

  private(set) var samples = 0
  private var sum = 0.0
  private var sumOfSquares = 0.0
  private var bins = [Int](repeating: 0, count: Self.octaves * Self.binsOfOctave)
  private var firstIndex = 0
  private var lastIndex = 0
  /// Number of frames by distance from the previous frame, in ticks. The last element counts all longer
  /// distances.
  private var steps: InlineArray<9, Int> = .init(repeating: 0)

  mutating func take(_ residual: Int64, at index: Int) {
    if samples == 0 { firstIndex = index } else { steps[min(max(0, index &- lastIndex), 8)] += 1 }
    lastIndex = index
    samples += 1
    sum += Double(residual)
    sumOfSquares += Double(residual) * Double(residual)
    bins[Self.bin(Double(residual))] += 1
  }

  /// Returns the bin of a residual in nanoseconds. The first bin includes residuals that are not late.
  private static func bin(_ residual: Double) -> Int {
    guard residual >= 1 else { return 0 }
    let place = Int(residual.exponent) * binsOfOctave + Int((residual.significand - 1) * Double(binsOfOctave))
    return min(place, octaves * binsOfOctave - 1)
  }

  /// Returns the upper edge of a bin, in nanoseconds.
  private static func edge(_ bin: Int) -> Double {
    let share = Double(bin % binsOfOctave + 1) / Double(binsOfOctave)
    return Double(1 << (bin / binsOfOctave)) * (1 + share)
  }

  /// Most frequent distance between frames, in ticks.
  var everyTicks: Int {
    var usual = 1
    for step in 1..<8 where steps[step] > steps[usual] { usual = step }
    return usual
  }

  /// Number of missing frames between the first and the last frame.
  var missing: Int { max(0, (lastIndex &- firstIndex) / everyTicks &+ 1 &- samples) }

  func report(rate: Double?) -> TickReport.Part {
    var report = TickReport.Part()
    guard samples > 0 else { return report }
    (report.samples, report.everyTicks, report.missing) = (samples, everyTicks, missing)
    report.rate = rate.map { $0 / Double(everyTicks) }
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

/// Sorts frames with the same timestamp into the ring's order, so that a live link and the tables of its
/// capture give the same ticks. Uses fixed memory.
///
/// The table of each subtype preserves the order of its own frames, but not the order of frames of different
/// subtypes with the same timestamp. Frames with the same timestamp are therefore held until a frame with
/// another timestamp arrives. They are then released in the ring's order, which continues from the last
/// released frame. If there are more than `capacity` frames of a subtype with one timestamp, the held frames
/// are released early.
struct StampOrder: Sendable {
  static let capacity = 64
  private static let parts = RingTick.Part.allCases.count

  /// Held frames: `capacity` elements for each subtype.
  private var waiting: [RingRawSample]
  private var taken: InlineArray<3, Int> = [0, 0, 0]
  private var held: InlineArray<3, Int> = [0, 0, 0]
  private var time = ReceiveTime(nanoseconds: .min)
  private var link = 0
  private var clock = ClockSetting()
  private var lastPart = Self.parts - 1
  /// Frame that is not held yet, because it has another timestamp or there was no room for it.
  private var next: (sample: RingRawSample, time: ReceiveTime, link: Int, clock: ClockSetting)?
  private var isLettingGo = false

  init() {
    let none = RingRawSample.accelerometer(AccelerometerSample(x: 0, y: 0, z: 0))
    waiting = [RingRawSample](repeating: none, count: Self.parts * Self.capacity)
  }

  /// Processes the next frame. Call `pop` until it returns `nil` before the next `take`.
  mutating func take(_ sample: RingRawSample, at time: ReceiveTime, link: Int, _ clock: ClockSetting) {
    guard let part = sample.part?.rawValue else { return }
    if time == self.time, link == self.link, clock == self.clock, held[part] < Self.capacity {
      return hold(sample, part)
    }
    next = (sample, time, link, clock)
    isLettingGo = true
  }

  /// Ends the input.
  mutating func finish() { isLettingGo = true }

  /// Returns the next frame in order; `nil` if more input is needed.
  fileprivate mutating func pop() -> (
    sample: RingRawSample, time: ReceiveTime, link: Int, clock: ClockSetting
  )? {
    guard isLettingGo else { return nil }
    for step in 1...Self.parts {
      let part = (lastPart + step) % Self.parts
      guard taken[part] < held[part] else { continue }
      defer { taken[part] += 1 }
      lastPart = part
      return (waiting[part * Self.capacity + taken[part]], time, link, clock)
    }
    isLettingGo = false
    for part in 0..<Self.parts { (taken[part], held[part]) = (0, 0) }
    if let (sample, time, link, clock) = next, let part = sample.part?.rawValue {
      (self.time, self.link, self.clock) = (time, link, clock)
      hold(sample, part)
    }
    next = nil
    return nil
  }

  private mutating func hold(_ sample: RingRawSample, _ part: Int) {
    waiting[part * Self.capacity + held[part]] = sample
    held[part] += 1
  }
}

/// Setting of the wall clock at a timestamp.
///
/// Users and time daemons may set a machine's clock while a ring streams. Timestamps before and after such a
/// step are on different clocks. Only a program that watched the clock knows their offset.
public struct ClockSetting: Hashable, Sendable, BitwiseCopyable {
  /// Sum of all steps of the clock since the first timestamp, in nanoseconds; negative if it was set back.
  public var offset: Int64
  /// Number of steps whose size is unknown. The elapsed time across such a step is unknown, too.
  public var unknownCount: Int

  public init(offset: Int64 = 0, unknownCount: Int = 0) {
    (self.offset, self.unknownCount) = (offset, unknownCount)
  }
}

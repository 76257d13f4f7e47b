public import BLECore
public import Physiology

/// A tick with its place on the sensor's own clock.
@frozen public struct PlacedTick: Hashable, Sendable, BitwiseCopyable {
  /// With the kernel's stamp, untouched.
  public let tick: RingTick
  /// Number of the tick since the first one; ticks that never came have theirs too.
  public let index: Int
  /// When the tick would have arrived had nothing held it up: nanoseconds since the Unix epoch.
  public let fittedTime: ReceiveTime
  /// Ticks between the one before and this that never came.
  public let missingBefore: Int
  /// Whether the fit began anew here: nothing is known of the time since the tick before.
  public let isRestart: Bool

  @inlinable public init(
    tick: RingTick, index: Int, fittedTime: ReceiveTime, missingBefore: Int = 0, isRestart: Bool = false
  ) {
    self.tick = tick
    self.index = index
    self.fittedTime = fittedTime
    self.missingBefore = missingBefore
    self.isRestart = isRestart
  }

  /// What the signal processing takes of it: the green light, and the acceleration. A value of 0 is a dropout.
  @inlinable public var signal: SignalSample {
    let light: Double? = if let ppg = tick.ppg, ppg.value != 0 { Double(ppg.value) } else { nil }
    return SignalSample(
      index: index, time: fittedTime, isRestart: isRestart, light: light,
      acceleration: tick.accelerometer.map(\.acceleration))
  }
}

/// Places the ticks of a stream on the sensor's clock: numbers them, finds those that never came, and fits their
/// times. Fixed memory, allocated at the start.
///
/// A tick that comes late was held up, or ticks before it are lost. Only what follows can tell: after a hold-up the
/// ticks that waited come in a burst and catch up with the clock; after a loss all stay late by whole periods. So
/// where a tick is late by more than three quarters of a period, measured from the least lateness of the last
/// second or two, the clock waits until one of the following is not, or until `patience` ticks and half a second
/// tell nothing new. The least lateness in multiples of the period is what was lost.
///
/// Ticks come out behind those that go in, by `lagSeconds` once the rate is known and by `warmUpSeconds` at the
/// start, so that the fit has seen both sides of each.
///
/// Limits: where a period is shorter than the jitter, stamps cannot tell which tick of a burst was lost, only that
/// one was; and in the first seconds, while the rate is not known well enough, losses shorter than
/// the jitter may be taken for a slower clock. A loss in the last half second of a stream is not told from
/// lateness. Where the kernel's clock is set back, or after a pause of more than `longestGapSeconds`, the fit begins
/// anew: a link was lost and made again, and the ring starts its timer with the stream. A link that comes back sooner
/// leaves the line off by up to half a period, until a minute has forgotten it.
public struct TickClock: Sendable {
  public static let capacity = 4_096
  public static let warmUpSeconds = 4.0
  public static let lagSeconds = 1.0
  public static let minimumWarmUp = 12
  public static let patience = 16
  public static let longestGapSeconds = 2.5
  private static let firstLook = 32

  /// Ticks of one gap, at most: stamps that make no sense must not overflow the numbers.
  private static let largestGap = 4e9

  /// Ticks waiting: `count` from `head`, of which the first `placed` have a number.
  private var waiting: [RingTick]
  private var numbers: [Int]
  private var missing: [Int]
  private var restarts: [Bool]
  private var head = 0
  private var count = 0
  private var placed = 0

  private var rate = RateEstimator()
  private var fit: ClockFit?
  private var lastNumber = -1
  private var lastTime: Int64 = 0
  private var usual = UsualLateness()
  /// When the line began.
  private var fitStart: Int64 = 0
  private var isFinished = false
  /// Whether the ticks that have a number go out without a lag, because the next one begins another line.
  private var isSettling = false
  /// By how much the tick that was looked at last is later than the most punctual that followed it: nanoseconds.
  private var holdUp = 0.0
  public private(set) var report = ClockReport()

  public init() {
    waiting = [RingTick](repeating: RingTick(time: ReceiveTime(nanoseconds: 0)), count: Self.capacity)
    numbers = [Int](repeating: 0, count: Self.capacity)
    missing = numbers
    restarts = [Bool](repeating: false, count: Self.capacity)
  }

  /// Nanoseconds from tick to tick, as fitted so far; `nil` while the clock warms up.
  public var period: Double? { fit?.period }

  /// Takes the next tick, in the order of arrival. Call `next` until it gives nothing before the next `take`.
  public mutating func take(_ tick: RingTick) {
    precondition(count < Self.capacity, "ticks must be taken out of the clock as they are put in")
    waiting[slot(count)] = tick
    count += 1
    rate.take(tick.time.nanoseconds)
    if fit == nil { warmUp() }
    place()
  }

  /// Ends the stream: what waits is decided with what is known.
  public mutating func finish() {
    isFinished = true
    if fit == nil { warmUp() }
    place()
  }

  /// The next tick in order, or `nil` until more are known.
  public mutating func next() -> PlacedTick? {
    if isSettling, placed == 0 {
      isSettling = false
      place()
    }
    guard let fit, placed > 0 else { return nil }
    let position = slot(0)
    let number = numbers[position]
    let lag = Double(lastNumber - number) * fit.period
    guard isFinished || isSettling || count == Self.capacity || lag >= Self.lagSeconds * 1e9 else {
      return nil
    }
    let tick = waiting[position]
    head = slot(1)
    count -= 1
    placed -= 1
    let fitted = fit.time(of: number)
    report.add(
      residual: Double(tick.time.nanoseconds - fitted), missing: missing[position],
      isRestart: restarts[position])
    return PlacedTick(
      tick: tick, index: number, fittedTime: ReceiveTime(nanoseconds: fitted),
      missingBefore: missing[position], isRestart: restarts[position])
  }

  private func slot(_ position: Int) -> Int { (head + position) % Self.capacity }

  // MARK: Placing

  private mutating func warmUp() {
    let first = waiting[slot(0)].time.nanoseconds
    let last = count > 0 ? waiting[slot(count - 1)].time.nanoseconds : first
    let isLong = Double(last - first) >= Self.warmUpSeconds * 1e9 && count >= Self.minimumWarmUp
    guard isFinished || isLong || count == Self.capacity else { return }
    guard count > 0 else { return }
    let mean = count > 1 ? Double(last - first) / Double(count - 1) : 1e9
    let period = rate.period() ?? max(1, mean)
    fitStart = first
    // Through the most punctual of the first ticks.
    var early = 0.0
    for position in 0..<min(count, Self.firstLook) {
      let late = Double(waiting[slot(position)].time.nanoseconds - first) - Double(position) * period
      early = min(early, late)
    }
    fit = ClockFit(
      index: 0, time: first + Int64(max(early, -1e9)), period: period,
      guessTicks: min(count, RateEstimator.capacity))
  }

  private mutating func place() {
    guard fit != nil else { return }
    while placed < count {
      let position = slot(placed)
      let time = waiting[position].time.nanoseconds
      guard let lost = lostTicks(before: placed, time) else { return }
      let jump = Double(lost) * (fit?.period ?? 0) > Self.longestGapSeconds * 1e9
      let isEarly = lost < 0
      numbers[position] = lastNumber + 1 + max(0, lost)
      missing[position] = max(0, lost)
      // Two lines cannot be told apart in a queue that knows one: ticks of the old line go out first.
      if (jump || isEarly), lastNumber >= 0 {
        guard placed == 0 else {
          isSettling = true
          return
        }
        restarts[position] = true
        // A link that comes back first delivers what waited: the line goes through the most punctual.
        let start = isEarly ? time : time - Int64(min(holdUp, 1e12))
        fit = ClockFit(
          index: numbers[position], time: start, period: fit?.period ?? 1, guessTicks: RateEstimator.capacity)
        usual = UsualLateness()
        usual.take(0, at: time)
        fitStart = time
      } else {
        restarts[position] = false
      }
      let number = numbers[position]
      if let fit { usual.take(fit.lateness(of: time, at: number), at: time) }
      usual.follow(fit?.take(time, at: number) ?? 0)
      (lastNumber, lastTime) = (number, time)
      placed += 1
    }
  }

  /// Ticks lost before the one at `position` in the queue: below zero if it is too early for the line, `nil` if only
  /// what follows can tell.
  private mutating func lostTicks(before position: Int, _ time: Int64) -> Int? {
    guard let fit, lastNumber >= 0 else { return 0 }
    let period = fit.period
    let lateness = fit.lateness(of: time, at: lastNumber + 1) - usual.lowest
    if lateness < -max(period, 100_000_000) { return -1 }
    let limit = 0.75 * period + margin(time)
    guard lateness > limit else { return 0 }
    var least = lateness
    var level = Double.infinity
    var sinceBetter = 0
    var betterTime = time
    var ahead = position + 1
    while ahead < count {
      let later = waiting[slot(ahead)].time.nanoseconds
      let late = fit.lateness(of: later, at: lastNumber + 1 + ahead - position) - usual.lowest
      // In time again; or so much later that what happened happened there.
      if late <= limit || late > least + usual.spread + limit { return 0 }
      if late < least - 0.5 * period {
        (sinceBetter, betterTime, level) = (0, later, .infinity)
      } else {
        sinceBetter += 1
        level = min(level, late)
      }
      least = min(least, late)
      if sinceBetter >= Self.patience, later - betterTime >= 500_000_000 { break }
      ahead += 1
    }
    if ahead == count {
      guard isFinished || count == Self.capacity else { return nil }
      // Too few followed to tell a loss from lateness.
      guard least > limit + usual.spread else { return 0 }
    }
    // A burst that waited while others were lost is less late at its end than all that follows: the gap is behind it.
    if level.isFinite, least < level - 0.5 * (period + usual.spread) { return 0 }
    holdUp = lateness - least
    return Int(min((least / period).rounded(), Self.largestGap))
  }

  /// What the line may be off by after a second or two, since its slope is not known better: nanoseconds.
  private func margin(_ time: Int64) -> Double {
    let seconds = min(ClockFit.memorySeconds, max(1, Double(time - fitStart) / 1e9))
    return 0.4 * usual.spread / seconds
  }
}

/// The least and the greatest lateness of the last one to two seconds, or 16 to 32 ticks: what "in time" means while
/// the line is still settling. In two blocks, so that old extremes are forgotten.
private struct UsualLateness: Sendable {
  private struct Block {
    var lowest: Double
    var highest: Double
  }

  private var before: Block?
  private var current: Block?
  private var start: Int64 = 0
  private var ticks = 0

  var lowest: Double { min(current?.lowest ?? before?.lowest ?? 0, before?.lowest ?? .infinity) }

  var spread: Double {
    guard current != nil || before != nil else { return 0 }
    return max(current?.highest ?? -.infinity, before?.highest ?? -.infinity) - lowest
  }

  mutating func take(_ lateness: Double, at time: Int64) {
    if ticks >= 16, time - start >= 1_000_000_000 {
      before = current
      current = nil
      ticks = 0
    }
    if ticks == 0 { start = time }
    ticks += 1
    guard let block = current else { return current = Block(lowest: lateness, highest: lateness) }
    current = Block(lowest: min(block.lowest, lateness), highest: max(block.highest, lateness))
  }

  /// The line has moved: what was so late is less late now.
  mutating func follow(_ shift: Double) {
    before?.lowest -= shift
    before?.highest -= shift
    current?.lowest -= shift
    current?.highest -= shift
  }
}

/// How well the clock fits, over the ticks that came out.
public struct ClockReport: Hashable, Sendable {
  public private(set) var ticks = 0
  /// Ticks that never came.
  public private(set) var missing = 0
  /// Stretches in which ticks are missing.
  public private(set) var gaps = 0
  /// The longest of them, in ticks.
  public private(set) var longestGap = 0
  /// Times the fit had to begin anew.
  public private(set) var restarts = 0
  private var sum = 0.0
  private var sumOfSquares = 0.0
  /// Kernel stamp less fitted time, the extremes: nanoseconds.
  public private(set) var earliest = 0.0
  public private(set) var latest = 0.0

  public init() {}

  /// How late a tick is on average: nanoseconds.
  public var meanLateness: Double { ticks > 0 ? sum / Double(ticks) : 0 }

  /// Root mean square of the residuals about their mean: nanoseconds.
  public var residual: Double {
    guard ticks > 0 else { return 0 }
    return max(0, sumOfSquares / Double(ticks) - meanLateness * meanLateness).squareRoot()
  }

  mutating func add(residual: Double, missing: Int, isRestart: Bool) {
    earliest = ticks == 0 ? residual : min(earliest, residual)
    latest = ticks == 0 ? residual : max(latest, residual)
    ticks += 1
    sum += residual
    sumOfSquares += residual * residual
    self.missing += missing
    if missing > 0 { gaps += 1 }
    longestGap = max(longestGap, missing)
    if isRestart { restarts += 1 }
  }
}

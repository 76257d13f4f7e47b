public import BLEWire
public import Physiology

/// Tick with its number and time on the sensor's clock.
@frozen public struct PlacedTick: Hashable, Sendable, BitwiseCopyable {
  /// Tick with its original kernel timestamp.
  public let tick: RingTick
  /// Number of the tick, starting at 0. Missing ticks are counted too.
  public let index: Int
  /// Time at which the tick would have arrived without delay, in nanoseconds since the Unix epoch.
  public let fittedTime: ReceiveTime
  /// Number of missing ticks directly before this tick.
  public let missingBefore: Int
  /// Whether the fit restarted at this tick. The time since the previous tick is then unknown.
  public let isRestart: Bool
  /// Whether the wall clock was set by a known amount before this tick. Fitted times jump by this amount;
  /// tick numbers and the sensor's clock continue.
  public let isClockSet: Bool

  @inlinable public init(
    tick: RingTick, index: Int, fittedTime: ReceiveTime, missingBefore: Int = 0, isRestart: Bool = false,
    isClockSet: Bool = false
  ) {
    self.tick = tick
    self.index = index
    self.fittedTime = fittedTime
    self.missingBefore = missingBefore
    self.isRestart = isRestart
    self.isClockSet = isClockSet
  }

  /// `fittedTime` on the wall clock as it was set at the start of the stream, in nanoseconds.
  var steadyTime: Int64 { fittedTime.nanoseconds &- tick.clockOffset }

  /// `signal` with times on the wall clock as it was set at the start of the stream. A clock step therefore
  /// causes no restart.
  public var steadySignal: SignalSample {
    let signal = signal
    return SignalSample(
      index: index, time: ReceiveTime(nanoseconds: steadyTime), isRestart: isRestart, light: signal.light,
      acceleration: signal.acceleration)
  }

  /// Green light and acceleration, as input for the signal processing.
  @inlinable public var signal: SignalSample {
    SignalSample(
      index: index, time: fittedTime, isRestart: isRestart || isClockSet,
      light: tick.ppg?.reading.map { Double($0) },
      acceleration: tick.accelerometer.map(\.acceleration))
  }
}

/// Places the ticks of a stream on the sensor's clock: numbers the ticks, detects missing ticks, and fits
/// their times. Memory is fixed and allocated in the initializer.
///
/// A tick can be late because it was delayed or because ticks before it were lost. Only later ticks can
/// distinguish the two: after a delay, the waiting ticks catch up with the clock; after a loss, all ticks
/// stay late by whole periods. A tick counts as late if it is later than the least late tick of the last
/// seconds by more than three quarters of a period. The clock then waits for one of two outcomes. If a
/// following tick is on time, nothing was lost. If many consecutive connection events have no on-time tick,
/// ticks were lost. The required number of events is chosen so that chance would cause it once in a million
/// times on this link. The number of lost ticks is the minimum lateness in periods. Events during which the
/// link still catches up do not count.
///
/// A delayed host also makes ticks late. Delays of the host are ruled out if the events stayed on the link's
/// time grid (`HostProof`) and the ticks are late by whole periods. If they are not ruled out, ticks count as
/// lost only after 8 s without an on-time tick. If the stream ends earlier, the ticks are reported as
/// possibly missing.
///
/// The rate is unknown in the first seconds. Pauses in this time are measured by the rate of the ticks that
/// follow (`EarlyPauses`). If the number of ticks missing in a pause is not exactly known, another line
/// begins after the pause.
///
/// In the first seconds, and again after `FirstTicks.limit` ticks, `FirstTicks` decides between a sensor that
/// dropped ticks and a slower sensor.
///
/// Output lags behind input by `lagSeconds` and `lagTicks`, and by `warmUpSeconds` at the start, so that the
/// fit includes ticks on both sides of each tick.
///
/// Limits:
/// - Timestamps do not show which tick of a burst was lost; the loss is reported before the burst.
/// - A loss at the very end of a stream cannot be distinguished from a delay.
/// - If the sensor's own clock stops, for example in an emulation in a paused virtual machine, ticks are
///   reported as missing, because frames have no numbers. If only the frames were delayed, on either side of
///   the link, nothing is reported.
/// - If the connection interval is a multiple of the period, a slow drift between sensor and controller looks
///   like a ring that loses a tick each time the two have drifted by one period (`ClockJumps`).
/// - The fit restarts if the kernel's clock is set back, and after a pause of more than `longestGapSeconds`
///   that is not a delay. In such a pause, the link was lost and established again, and the ring starts its
///   timer with the stream. If a link returns sooner and the caller does not call `beginLink`, the fitted
///   times are off by up to half a period until the fit has forgotten the old link.
public struct TickClock: Sendable {
  public static let capacity = 4_096
  public static let warmUpSeconds = 4.0
  public static let lagSeconds = 1.0
  public static let lagTicks = 24
  public static let minimumWarmUp = 12
  public static let longestGapSeconds = 2.5
  /// Maximum relative uncertainty of the period for the line to be reused as a first estimate on the next
  /// link.
  private static let largestGuess = 0.003
  /// Maximum lateness of an on-time tick relative to the least late tick of the last seconds, in periods.
  private static let onTime = 0.75
  /// Time after which a late tick is no longer attributed to a loss, in nanoseconds.
  private static let longestDoubt: Int64 = 10_000_000_000
  private static let shortestDoubt: Int64 = 500_000_000
  /// Minimum time until late ticks count as lost if a delay of the host is not ruled out, in nanoseconds.
  private static let unevenDoubt: Int64 = 8_000_000_000
  /// Possible error of the tick numbers after a pause of the stream, in periods: one, and half a period more
  /// in case the ring restarted its timer.
  private static let phaseOfPause = 1.5
  /// Minimum number of late events for ticks to count as possibly missing without proof.
  private static let leastDoubt = 6
  /// Maximum connection interval of a stream, in nanoseconds.
  private static let longestInterval = 500_000_000.0
  /// Timestamp jitter from radio and host, in nanoseconds.
  private static let jitter = 1_000_000.0
  /// Tolerated backward step of timestamps, for example between processors, in nanoseconds.
  private static let largestStepBack: Int64 = 10_000_000

  /// Minimum expected number of missing ticks at the end of a stream for a tick to be reported as possibly
  /// missing.
  private static let leastLikely = 0.01
  /// Time in nanoseconds after which the clock starts even if the time since the last pause is too short for
  /// a warm-up.
  private static let longestWarmUp = 15e9

  /// Maximum number of ticks in a gap, so that invalid timestamps cannot make the numbers overflow.
  private static let largestGap = 4e9

  /// Ring buffer of ticks: `count` ticks from `head`, of which the first `placed` have a number.
  private var waiting: [RingTick]
  private var numbers: [Int]
  private var missing: [Int]
  private var restarts: [Bool]
  private var head = 0
  private var count = 0
  private var placed = 0
  /// Number of waiting ticks before which nothing was lost, because a later tick is on time.
  private var cleared = 0

  private var fit: ClockFit?
  /// Memory of the next fit while `fit` is `nil`, so that a fit can begin without allocation.
  private var unused: ClockFit? = ClockFit(index: 0, time: 0, period: 1, isKnown: false)
  /// Number of the last warm-up tick. The fit receives warm-up ticks before they are placed.
  private var lastOfWarmUp = -1
  /// The first ticks of the stream with their numbers, kept for the second examination.
  private var first = FirstTicks()
  private var isFirst = true
  /// Number of missing ticks that the next placed tick reports.
  private var owed = 0
  /// Number of ticks whose loss is uncertain.
  private var doubtful = 0
  private var jumps = ClockJumps()
  /// Pauses among the first ticks.
  private var early = EarlyPauses()
  /// Number of placed pauses among `early`.
  private var earlyPlaced = 0
  /// Number of ticks that may be missing in the pauses among the first ticks.
  private var loose = 0
  /// Number of ticks that may be missing at the end of the stream, where no later ticks can decide.
  private var untold = 0
  private var pauses = StreamPauses()
  /// Possible error of the tick numbers because of pauses, in periods.
  private var phases = 0.0
  private var lastNumber = -1
  /// Lateness of the last tick, in periods.
  private var lastLate = 0.0
  /// Number of the last on-time tick.
  private var lastOnTime = -1
  private var lastTime: Int64 = 0
  private var lastFitted = Int64.min
  /// Minimum lateness over the last few seconds.
  private var usual = UsualLateness()
  /// Minimum lateness over the last few connection events.
  private var recent = RecentLateness()
  private var events = LinkEvents()
  private var phase = EventPhase()
  private var isFinished = false
  /// Whether the first waiting tick is the first of a link.
  private var startsLink = false
  /// Whether all numbered ticks are released without a lag, because the next tick begins another line.
  private var isSettling = false
  /// Whether the time between the last tick and the next link is known.
  private var pause = Pause.measured
  /// `RingTick.clockOffset` of the last released tick.
  private var lastOffset: Int64?
  /// Part of the last late tick's lateness that was a delay, in nanoseconds: its lateness minus the minimum
  /// lateness of the ticks after it.
  private var holdUp = 0.0
  private var tally = ClockReport()

  public init() {
    waiting = [RingTick](repeating: RingTick(time: ReceiveTime(nanoseconds: 0)), count: Self.capacity)
    numbers = [Int](repeating: 0, count: Self.capacity)
    missing = [Int](repeating: 0, count: Self.capacity)
    restarts = [Bool](repeating: false, count: Self.capacity)
  }

  /// Fitted time between ticks in nanoseconds; `nil` during the warm-up.
  public var period: Double? { fit?.period }

  /// Number of missing ticks so far.
  var missingSoFar: Int { tally.missing }

  /// Quality of the fit so far.
  public var report: ClockReport {
    var report = tally
    // Each possibly missing tick lengthens the line by a period.
    let doubtful = doubtful + jumps.doubtful
    let unnumbered = Int(min((fit?.unnumbered ?? 0).rounded(), Self.largestGap))
    report.missingAtMost = tally.missing + max(doubtful, unnumbered) + max(untold, untoldByShare) + loose
    // If some jumps may be a drift, the next jump of the drift may be due.
    let next = jumps.doubtful > 0 ? 1.0 : 0
    let stretch = lastNumber > 0 ? (Double(doubtful) + next + phases) / Double(lastNumber) : 0
    report.rateUncertainty = fit?.periodUncertainty.map { $0 + stretch }
    report.offsetUncertainty = phases > 0 ? nil : events.shortestPause
    if fit?.isPeriodUnbounded == true { report.takeRateUnknown() }
    return report
  }

  /// Number of ticks that may be missing after the last on-time tick. 0 if a drop is unlikely at the ring's
  /// drop rate; otherwise at least 1, and the lateness of the last tick minus one connection interval, in
  /// periods.
  private var untoldByShare: Int {
    guard lastNumber > 0 else { return 0 }
    let untold = Double(tally.missing) * Double(lastNumber - lastOnTime)
    guard untold > Self.leastLikely * Double(lastNumber) else { return 0 }
    let late = lastLate - (fit.map { $0.eventInterval / $0.period } ?? .infinity)
    return Int(min(max(1, late.rounded()), Self.largestGap))
  }

  /// Processes the next tick, in the order of arrival. Call `next` until it returns `nil` before the next
  /// `take`.
  public mutating func take(_ tick: RingTick) {
    precondition(count < Self.capacity, "ticks must be taken out of the clock as they are put in")
    if isFinished {
      (isFinished, startsLink) = (false, true)
      if (fit?.periodUncertainty ?? 1) > Self.largestGuess { (unused, fit) = (fit ?? unused, nil) }
    }
    waiting[slot(count)] = tick
    count += 1
    note(pause: pauses.take(tick.steadyTime, period: fit?.period))
    if fit == nil {
      if lastNumber < 0 { early.take(tick.steadyTime) }
      warmUp()
    }
    place()
  }

  /// Accounts for a pause in which ticks were dropped or the link was lost. If the rate is known, the number
  /// of missing ticks follows from it, with an error of up to half a period if the ring restarted its timer.
  private mutating func note(pause: Double) {
    guard pause > 0 else { return }
    let periods = pause / (fit?.period ?? pauses.period)
    if fit != nil, lastNumber <= lastOfWarmUp {
      doubtful += Int(min(periods, Self.largestGap))
    } else {
      phases += Self.phaseOfPause
    }
  }

  /// Whether the time between two lines can be computed from the timestamps.
  public enum Pause: Hashable, Sendable {
    case measured
    /// Unknown, because the clock was set by an unknown amount. No ticks are counted as missing.
    case unknown
  }

  /// Ends the line after the link was lost, because the sensor restarts its timer on the next link. Waiting
  /// ticks are returned based on the data received so far. Call `next` until it returns `nil` before the next
  /// `take`.
  public mutating func beginLink(pause: Pause = .measured) {
    guard count > 0 || lastNumber >= 0 else { return }
    if pause == .unknown { self.pause = .unknown }
    finish()
    (isFirst, pauses) = (false, StreamPauses())
    early.removeAll()
    earlyPlaced = 0
  }

  /// Ends the stream. Waiting ticks are returned based on the data received so far.
  public mutating func finish() {
    isFinished = true
    if fit == nil { warmUp() }
    place()
  }

  /// Returns the next tick in order; `nil` if more input is needed.
  public mutating func next() -> PlacedTick? {
    if isSettling, placed == 0 {
      isSettling = false
      place()
    }
    guard let fit, placed > 0 else { return nil }
    let position = slot(0)
    let number = numbers[position]
    let lag = lastNumber - number
    let isSettled = lag >= Self.lagTicks && Double(lag) * fit.period >= Self.lagSeconds * 1e9
    guard isFinished || isSettling || count == Self.capacity || isSettled else { return nil }
    let tick = waiting[position]
    head = slot(1)
    count -= 1
    placed -= 1
    cleared = max(0, cleared - 1)
    var fitted = fit.time(of: number)
    // The line may have moved to earlier times since the last tick was released, but released times must
    // increase.
    if !restarts[position], lastFitted > .min {
      fitted = max(fitted, lastFitted &+ Int64(min(fit.period / 2, 1e15)))
    }
    lastFitted = fitted
    let isClockSet = lastOffset.map { $0 != tick.clockOffset } ?? false
    lastOffset = tick.clockOffset
    tally.add(
      residual: Double(tick.steadyTime &- fitted), missing: missing[position],
      isRestart: restarts[position])
    return PlacedTick(
      tick: tick, index: number, fittedTime: ReceiveTime(nanoseconds: fitted &+ tick.clockOffset),
      missingBefore: missing[position], isRestart: restarts[position], isClockSet: isClockSet)
  }

  private func slot(_ position: Int) -> Int { (head + position) % Self.capacity }

  private func time(_ position: Int) -> Int64 { waiting[slot(position)].steadyTime }

  // MARK: Placing

  private mutating func warmUp() {
    guard count > 0 else { return }
    // The line ends before a tick whose timestamp steps back. This tick begins another line.
    let whole = isStepBack(count - 1) ? count - 1 : count
    let (first, last) = (time(0), time(whole - 1))
    let length = Double(last &- first)
    let isLong = length >= Self.warmUpSeconds * 1e9 && count >= Self.minimumWarmUp
    let isEnd = isFinished || count == Self.capacity || whole < count
    guard isLong || isEnd else { return }
    if whole == count, isLong, length < Self.longestWarmUp {
      early.find()
      // `last` would allocate memory without optimisation.
      if !early.found.isEmpty {
        let pause = early.found[early.found.count - 1]
        let length = Double(last &- time(pause.place))
        let isLong = length >= Self.warmUpSeconds * 1e9 && whole - pause.place >= Self.minimumWarmUp
        if isLong { return placePauses(whole) }
        guard isEnd else { return }
      }
    }
    early.removeAll()
    let mean = whole > 1 ? length / Double(whole - 1) : 1e9
    let start = lastNumber + 1 + ticksWithoutLink(until: first, period: mean)
    numbers[slot(0)] = start
    beginFit(at: start, 0..<whole, period: mean)
    lastOfWarmUp = start + whole - 1
    if isFirst, let period { placeFirst(whole, period) }
  }

  /// Fits a line to queued ticks, using the memory of `unused`. The first tick has the number `number`.
  private mutating func beginFit(at number: Int, _ positions: Range<Int>, period: Double) {
    (fit, unused) = (fit ?? unused, nil)
    let first = time(positions.lowerBound)
    fit?.reset(index: number, time: first, period: max(1, period))
    for position in positions {
      let time = time(position)
      fit?.take(time, at: number + position - positions.lowerBound)
    }
  }

  /// Begins the line if there are pauses among the first ticks. Its period is computed from the ticks after
  /// the last pause.
  private mutating func placePauses(_ whole: Int) {
    let start = early.found[early.found.count - 1].place
    let mean = Double(time(whole - 1) &- time(start)) / Double(whole - 1 - start)
    beginFit(at: start, start..<whole, period: mean)
    if let fit {
      let interval = fit.eventInterval.isFinite ? fit.eventInterval : max(fit.period, Self.longestInterval)
      loose = early.measure(period: fit.period, uncertainty: fit.periodUncertainty, interval: interval)
    }
    beginEarly(at: 0, 0)
  }

  /// Begins a line at a queued tick among the first ticks. The line includes all later ticks, unless a pause
  /// starts another line.
  private mutating func beginEarly(at position: Int, _ number: Int) {
    let start = time(position)
    (usual, recent) = (UsualLateness(), RecentLateness())
    first.removeAll()
    lastOfWarmUp = number - 1
    for pause in earlyPlaced..<early.found.count where early.found[pause].least < early.found[pause].most {
      fit?.begin(at: number, start)
      return
    }
    guard let period = fit?.period else { return }
    fit?.begin(at: number, start, period: period)
    var pause = earlyPlaced
    for place in position..<count {
      lastOfWarmUp += 1
      if pause < early.found.count, early.found[pause].place == tally.ticks + place {
        lastOfWarmUp += early.found[pause].least
        pause += 1
      }
      let time = time(place)
      fit?.take(time, at: lastOfWarmUp)
    }
  }

  /// Places the first ticks if some ticks were dropped.
  private mutating func placeFirst(_ whole: Int, _ period: Double) {
    for position in 0..<whole { first.take(time(position), at: position) }
    let events = events
    guard let drops = first.drops(period: period, isPause: { events.isPause($0, period) }) else {
      return first.removeAll()
    }
    for position in 0..<drops.end {
      (numbers[position], restarts[position]) = (position + first.before[position], false)
      missing[position] = first.before[position] - (position > 0 ? first.before[position - 1] : 0)
    }
    refit(drops.end, drops.period)
    (placed, lastOfWarmUp) = (drops.end, -1)
    first.removeAll()
    for position in 0..<placed { first.take(time(position), at: numbers[position]) }
  }

  /// Examines the first ticks again when `FirstTicks.limit` ticks are available. A sensor that dropped one or
  /// two ticks in the first seconds cannot be distinguished from a slow sensor, but with more drops it can.
  /// Released ticks keep their numbers; the next tick reports the missing ticks.
  private mutating func placeAgain() {
    isFirst = false
    let (events, period) = (events, fit?.period ?? 1)
    guard placed < first.count,
      let drops = first.drops(period: period, isPause: { events.isPause($0, period) })
    else { return }
    for position in 0..<placed {
      let place = first.count - placed + position
      numbers[slot(position)] += first.before[place]
      missing[slot(position)] += first.before[place] - (position > 0 ? first.before[place - 1] : 0)
    }
    if placed == 0 { owed = first.before[first.count - 1] }
    refit(first.count, drops.period)
  }

  /// Restarts the line from the first `count` ticks.
  private mutating func refit(_ count: Int, _ period: Double) {
    fit?.begin(at: first.numbers[0], first.stamps[0], period: period)
    for place in 0..<count { fit?.take(first.stamps[place], at: first.numbers[place] + first.before[place]) }
    (usual, recent, events, phase) = (UsualLateness(), RecentLateness(), LinkEvents(), EventPhase())
    for place in 0..<count { note(first.stamps[place], at: first.numbers[place] + first.before[place]) }
  }

  private func isStepBack(_ position: Int) -> Bool {
    position > 0 && time(position) < time(position - 1) &- Self.largestStepBack
  }

  /// Returns the number of ticks that were due between the last tick and the first tick of a link; 0 before
  /// the first link.
  private func ticksWithoutLink(until time: Int64, period: Double) -> Int {
    guard lastNumber >= 0, pause == .measured else { return 0 }
    return Int(
      min(max(0, ((Double(time) - Double(lastTime)) / max(1, period)).rounded() - 1), Self.largestGap))
  }

  /// Places the first tick of a link.
  private mutating func placeNewLink() {
    guard let period = fit?.period else { return }
    startsLink = false
    phase = EventPhase()
    let (position, time) = (slot(0), time(0))
    let lost = ticksWithoutLink(until: time, period: period)
    // If the line began with this link, it already contains the link's ticks.
    let isTaken = lastOfWarmUp > lastNumber
    let number = isTaken ? numbers[position] : lastNumber + 1 + lost
    (numbers[position], missing[position], restarts[position]) = (number, number - lastNumber - 1, true)
    (usual, recent) = (UsualLateness(), RecentLateness())
    if !isTaken {
      begin(at: number, time)
      follow(fit?.take(time, at: number) ?? 0)
    }
    note(time, at: number)
    placed = 1
    pause = .measured
  }

  private mutating func place() {
    guard fit != nil else { return }
    if startsLink { placeNewLink() }
    while placed < count {
      let position = slot(placed)
      let time = waiting[position].steadyTime
      let pause =
        earlyPlaced < early.found.count && early.found[earlyPlaced].place == tally.ticks + placed
        ? early.found[earlyPlaced] : nil
      guard let lost = pause?.least ?? lostTicks(before: placed, time) else { return }
      let gap = Double(lost) * (fit?.period ?? 0)
      let isBack = lost < 0
      let number = lastNumber + 1 + max(0, lost)
      let isLoose = pause.map { $0.most > $0.least } ?? false
      // Ticks of the old line are released first, because the queue can hold ticks of only one line.
      if isBack || isLoose || gap > max(Self.longestGapSeconds * 1e9, 4 * holdUp), lastNumber >= 0 {
        guard placed == 0 else {
          isSettling = true
          return
        }
        restarts[position] = true
        if let pause {
          earlyPlaced += 1
          loose += pause.most - pause.least
          beginEarly(at: 0, number)
        } else {
          begin(at: number, isBack ? time : time &- Int64(min(holdUp, 1e12)))
        }
      } else {
        restarts[position] = false
        if pause != nil {
          earlyPlaced += 1
        } else if lost > 0, number <= lastOfWarmUp + lost {
          // The fit contains the tick under its previous number.
          fit?.insert(lost, before: lastNumber + 1)
          lastOfWarmUp += lost
        }
      }
      (numbers[position], missing[position]) = (number, max(0, lost) + owed)
      owed = 0
      if number > lastOfWarmUp { follow(fit?.take(time, at: number) ?? 0) }
      note(time, at: number)
      placed += 1
      remember(time, number)
    }
  }

  private mutating func remember(_ time: Int64, _ number: Int) {
    guard isFirst else { return }
    first.take(time, at: number)
    if first.count == FirstTicks.limit { placeAgain() }
  }

  /// Adjusts the minimum lateness after the line moved by `shift` nanoseconds.
  private mutating func follow(_ shift: Double) {
    usual.follow(shift)
    recent.follow(shift)
  }

  /// Records the lateness of a numbered tick.
  private mutating func note(_ time: Int64, at number: Int) {
    guard let fit else { return }
    let late = fit.lateness(of: time, at: number)
    let periods = (late - usual.lowest) / fit.period
    let isNextEvent = lastNumber >= 0 && events.isPause(time &- lastTime, fit.period)
    if isNextEvent { phase.take(time, interval: fit.eventInterval) }
    recent.take(late, isNextEvent: isNextEvent)
    events.take(time, late: periods, isOnTime: periods <= Self.onTime, fit.period)
    usual.take(late, at: time)
    if periods <= Self.onTime { lastOnTime = number }
    (lastNumber, lastTime, lastLate) = (number, time, periods)
  }

  private mutating func begin(at number: Int, _ time: Int64) {
    isFirst = false
    fit?.begin(at: number, time)
    lastOfWarmUp = number - 1
    (usual, recent) = (UsualLateness(), RecentLateness())
  }

  /// Returns the number of ticks lost before the tick at `position` in the queue; negative if the timestamps
  /// step back there; `nil` if later ticks must decide.
  private mutating func lostTicks(before position: Int, _ time: Int64) -> Int? {
    guard let fit, lastNumber >= 0 else { return 0 }
    if time < lastTime &- Self.largestStepBack { return -1 }
    if position < cleared { return 0 }
    let limit = Self.onTime * fit.period
    func late(_ place: Int) -> Double {
      fit.lateness(of: self.time(place), at: lastNumber + 1 + place - position) - usual.lowest
    }
    let lateness = late(position)
    guard lateness > limit else { return 0 }
    let longPause = Self.longestGapSeconds * 1e9
    let isLongPause = Double(time) - Double(lastTime) > longPause
    var (least, leastAfter, plateau, level) = (lateness, Double.infinity, Double.infinity, lateness)
    var (before, betterTime, quiet, levels, levelCount) = (time, time, 0, 0.0, 0.0)
    var host = HostProof(phase)
    host.take(time, interval: fit.eventInterval)
    var ahead = position + 1
    var isDecided = false
    while ahead < count, !isDecided {
      let now = self.time(ahead)
      if now < before &- Self.largestStepBack || Double(now) - Double(before) > longPause { break }
      let late = late(ahead)
      if late <= limit {
        cleared = ahead
        return 0
      }
      // An event proves nothing while the link catches up, or while it is later than before.
      if events.isPause(now - before, fit.period) {
        if level <= least + events.backlog * fit.period { quiet += 1 }
        (levels, levelCount) = (levels + level, levelCount + 1)
        host.take(now, interval: fit.eventInterval)
      }
      if late < least - fit.period / 8 { (quiet, betterTime) = (0, now) }
      (least, leastAfter) = (min(least, late), min(leastAfter, late))
      plateau = 2 * quiet < events.proof ? .infinity : min(plateau, late)
      (level, before) = (late, now)
      isDecided = quiet >= events.proof && now - betterTime >= Self.shortestDoubt
      if isDecided, now - time < Self.unevenDoubt {
        isDecided = host.isPunctual && isLikeBefore(least, mean: levels / levelCount, fit.period)
      }
      if !isDecided, now - betterTime > Self.longestDoubt {
        // The link is on time so rarely that late ticks prove nothing, except after a pause of the whole
        // stream.
        if isLongPause { break }
        guard quiet >= Self.leastDoubt else { return 0 }
        _ = isLoss(min((least / fit.period).rounded(), Self.largestGap), rise: 1, events: 0, fit)
        usual = UsualLateness()
        return 0
      }
      ahead += 1
    }
    if !isDecided {
      let isLast = isFinished || count == Self.capacity || ahead < count
      guard isLast else { return nil }
      let isOpen = isFinished && ahead == count
      let isProof =
        isLongPause
        ? !isOpen || 2 * quiet >= events.proof
        : 2 * quiet >= events.proof && host.isPunctual
          && isLikeBefore(least, mean: levels / levelCount, fit.period)
      guard isProof else {
        // The stream ended before it was clear whether ticks were lost.
        if isLongPause || 6 * quiet >= events.proof {
          untold = max(untold, Int(min((least / fit.period).rounded(), Self.largestGap)))
        }
        return 0
      }
    }
    let lost = min((least / fit.period).rounded(), Self.largestGap)
    // If this tick or a later tick would be early after a loss before it, the loss happened later.
    let slack = min(fit.period / 4, max(fit.period / 32, Self.jitter))
    let fitsBehind = min(lateness, leastAfter) >= min(lost * fit.period, plateau) - slack
    guard isLongPause || fitsBehind else { return 0 }
    let rise = recent.lowest.map { (least + usual.lowest - $0) / fit.period } ?? lost
    if !isLongPause, !isLoss(lost, rise: rise, events: Int(levelCount), fit) {
      usual = UsualLateness()
      return 0
    }
    holdUp = lateness - least
    return Int(lost)
  }

  /// Returns whether ticks are late by whole periods and as evenly as before. Only a loss has this effect at
  /// once.
  private func isLikeBefore(_ least: Double, mean: Double, _ period: Double) -> Bool {
    let rest = least - (least / period).rounded() * period
    let slack = min(period / 4, max(period / 32, Self.jitter))
    return rest <= slack + events.floor * period && mean - least <= 1.5 * events.mean * period + slack
  }

  /// Returns whether late ticks are explained by a loss, not a drift: all ticks from the next tick on are
  /// late by whole periods although no tick missed a connection event.
  ///
  /// - Parameters:
  ///   - periods: number of periods by which the ticks are late.
  ///   - rise: see `ClockJumps.Jump`.
  ///   - events: see `ClockJumps.Jump`.
  ///   - fit: current fit of the clock.
  private mutating func isLoss(_ periods: Double, rise: Double, events: Int, _ fit: ClockFit) -> Bool {
    jumps.isLoss(
      ClockJumps.Jump(
        ticks: Int(periods), number: lastNumber + 1, rise: rise, events: events,
        intervalPeriods: fit.eventInterval / fit.period, period: fit.period))
  }
}

/// Quality of the clock's fit for the returned ticks.
public struct ClockReport: Hashable, Sendable {
  public private(set) var ticks = 0
  /// Number of ticks known to be missing.
  public private(set) var missing = 0
  /// Maximum number of missing ticks, including `missing`. It includes ticks for which the timestamps cannot
  /// distinguish a loss from clock drift. `nil` if the timestamps give no bound: the link was or may have
  /// been too slow for the ring, or ticks missed the next event so often that any rate is possible.
  public internal(set) var missingAtMost: Int? = 0
  /// Whether the link was too slow to carry all frames. The ring's rate and the number of missing ticks are
  /// then unknown.
  public private(set) var isLinkTooSlow = false
  /// Number of gaps: places where one or more ticks are missing.
  public private(set) var gaps = 0
  /// Length of the longest gap, in ticks.
  public private(set) var longestGap = 0
  /// Number of times that the fit was restarted.
  public private(set) var restarts = 0
  private var sum = 0.0
  private var sumOfSquares = 0.0
  /// Smallest difference between kernel timestamp and fitted time, in nanoseconds.
  public private(set) var earliest = 0.0
  /// Largest difference between kernel timestamp and fitted time, in nanoseconds.
  public private(set) var latest = 0.0
  /// Relative uncertainty of the rate. `nil` if nothing is known yet, or if `missingAtMost` is `nil`.
  public fileprivate(set) var rateUncertainty: Double?
  /// Maximum common delay of all fitted times, in nanoseconds. It is at most a connection interval, estimated
  /// as the 10th percentile of the pauses between arrivals. `nil` before two arrivals, if `missingAtMost` is
  /// `nil`, and after a pause in which the ring may have restarted its timer.
  public fileprivate(set) var offsetUncertainty: Double?

  public init() {}

  /// Mean lateness of a tick, in nanoseconds.
  public var meanLateness: Double { ticks > 0 ? sum / Double(ticks) : 0 }

  /// Standard deviation of the residuals, in nanoseconds.
  public var residual: Double {
    guard ticks > 0 else { return 0 }
    return max(0, sumOfSquares / Double(ticks) - meanLateness * meanLateness).squareRoot()
  }

  mutating func takeLinkTooSlow() {
    isLinkTooSlow = true
    takeRateUnknown()
  }

  /// Marks the number of missing ticks and the rate as unknown.
  mutating func takeRateUnknown() {
    (missingAtMost, rateUncertainty, offsetUncertainty) = (nil, nil, nil)
  }

  fileprivate mutating func add(residual: Double, missing: Int, isRestart: Bool) {
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

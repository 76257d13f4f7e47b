/// How often the events of a link bring a tick that is on time, and how far apart they are.
struct LinkEvents: Sendable {
  /// A pause between two ticks that parts events: nanoseconds, or half a period.
  private static let pause = 4_000_000.0
  /// Of how many events the share is.
  private static let memory = 64.0
  /// −ln of how seldom chance may look like a loss: one in a million.
  private static let doubt = 14.0

  private static let smallBacklog = 4.0
  /// A row of late events counts half as much after 700 events.
  private static let rowMemory = 1 - 1.0 / 1_024

  private var share = 0.5
  private var wasOnTime = false
  /// How late the last tick of the event was: periods.
  private var level = 0.0
  private var row = 0
  private var longestRow = 0.0
  /// How late the last ticks of events are on average, and the most that the most punctual of a few of them is: periods.
  private(set) var mean = 0.5
  private(set) var floor = 0.0
  private var least = Double.infinity
  private var ofFew = 0
  private static let few = 6
  private var last: Int64?
  /// The pause that nine of ten are longer than: nanoseconds. `nil` before any.
  private(set) var shortestPause: Double?

  func isPause(_ nanoseconds: Int64, _ period: Double) -> Bool {
    Double(nanoseconds) > min(Self.pause, period / 2)
  }

  /// So many events in a row without a tick that is on time prove that it is not chance: by their share where they come
  /// as chance has it, and four times the longest row of late ones, where a link at its limit is late for a while.
  var proof: Int {
    max(6, Int((Self.doubt * (1 / share - 0.5)).rounded(.up)), Int((4 * longestRow).rounded(.up)))
  }

  /// By how many periods more than the least an event may be late and still bring proof. Ticks that are lost one after
  /// the other make it so; a link that is seldom on time makes it so as well, when it has much to catch up with.
  var backlog: Double { share > 0.5 ? Self.smallBacklog : 1 }

  /// - Parameter late: since what is usual, in periods.
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
    // A tenth of the steps go down, by nine times as much.
    guard let shortest = shortestPause else { return shortestPause = pause }
    shortestPause = shortest + (pause < shortest ? 0.09 : 0.01) * (pause - shortest)
  }
}

/// The least lateness of the last seconds: what "on time" means where the line is still settling or a clock is being
/// slewed. In two blocks, so that old values are forgotten.
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

  /// The line has moved: what was so late is less late now.
  mutating func follow(_ shift: Double) {
    before = before.map { $0 - shift }
    current = current.map { $0 - shift }
  }
}

/// Pauses of the whole stream that nothing makes up for: ticks were dropped, or a link was lost and made again. Fixed memory.
///
/// After a hold-up the ticks that waited come in a burst.
struct StreamPauses: Sendable {
  /// Pauses that are looked at: nanoseconds, periods, and times what is usual between events.
  private static let shortest = 100_000_000.0
  private static let fewestPeriods = 2.5
  private static let fewestEvents = 3.0
  /// A pause between two ticks that parts events: nanoseconds.
  private static let pause = 4_000_000.0
  private static let leastTicks = 8

  private var first: Int64?
  private var last: Int64 = 0
  private var ticks = 0
  private var usual = 0.0
  /// The pause that is looked at: its length, its end, and the ticks since then.
  private var length = 0.0
  private var end: Int64 = 0
  private var since = 0.0
  /// From tick to tick on average, pauses included: nanoseconds.
  var period: Double { max(1, Double(last &- (first ?? last)) / Double(max(1, ticks - 1))) }

  /// Takes the stamp of the next tick.
  ///
  /// - Parameter period: nanoseconds from tick to tick; `nil` while it is unknown.
  /// - Returns: the length of a pause that is known now to be without a burst: nanoseconds; 0 for none.
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

/// Ticks from which on all are later by whole periods, where no tick shows that it missed an event: ticks were lost, or the
/// ring's clock has drifted by a connection event against the controller's.
///
/// A drift makes ticks later by the greatest common divisor of period and interval: by one period at most, and only if an
/// interval is a whole number of periods. It comes at even distances through the whole stream. So of all jumps no more can be
/// a drift than the longest such series has: so many are doubtful, all others are losses. Fixed memory, allocated at the start.
struct ClockJumps: Sendable {
  /// Ticks from one jump of a drift to the next, at least: they are few if the interval is not quite a whole number of periods.
  private static let shortestDistance = 32.0
  /// And at least so many where crystals alone drift: by 250 ppm at most, the controller's by 50 (Core 5.4, Vol 6, Part B,
  /// 4.2.1), the ring's by 200. Shorter ones must be a third of all.
  private static let shortestOfCrystals = 3_000.0
  /// Distances of a drift differ by at most such a share, or so many ticks.
  private static let tolerance = 0.01
  private static let leastTolerance = 2.0
  /// Jumps that are remembered, at most.
  private static let capacity = 512
  /// An interval is a whole number of periods if it is off by less than this share: if it is off by more, a drift makes no tick
  /// later by a period at once.
  private static let nearWhole = 0.01

  private var numbers = [Int](repeating: 0, count: capacity)
  private var count = 0
  /// How many ticks may be lost.
  private(set) var doubtful = 0

  /// Takes the next one.
  ///
  /// - Parameter intervalPeriods: the connection interval, in periods; infinite if it is unknown.
  /// - Returns: whether it is a loss.
  mutating func isLoss(_ ticks: Int, at number: Int, intervalPeriods: Double) -> Bool {
    if ticks > 1 || intervalPeriods < 0.75 { return true }
    let whole = intervalPeriods.rounded()
    if intervalPeriods.isFinite, abs(intervalPeriods - whole) > Self.nearWhole * whole { return true }
    if count == Self.capacity {
      for place in 1..<count { numbers[place - 1] = numbers[place] }
      count -= 1
    }
    numbers[count] = number
    count += 1
    guard longestSeries > doubtful else { return true }
    doubtful += 1
    return false
  }

  /// How many of the jumps up to the last one may be a drift: those at one even distance from it, back to the start.
  private var longestSeries: Int {
    let last = numbers[count - 1]
    // A single one, if the next is not due yet.
    var longest = 1
    for place in 0..<count - 1 {
      let distance = Double(last - numbers[place])
      guard distance >= Self.shortestDistance else { break }
      let length = series(distance)
      if distance >= Self.shortestOfCrystals || 3 * length >= count { longest = max(longest, length) }
    }
    return longest
  }

  /// The jumps at a distance from the last one, and from each other; 1 if one is missing. Those that are forgotten count.
  private func series(_ distance: Double) -> Int {
    let slack = max(Self.leastTolerance, Self.tolerance * distance)
    var (found, at) = (1, Double(numbers[count - 1]))
    var place = count - 2
    while at - distance > slack {
      let due = at - distance
      while place >= 0, Double(numbers[place]) > due + slack { place -= 1 }
      guard place >= 0 else { return count == Self.capacity ? found + Int(due / distance) : 1 }
      // Of several near it, the nearest.
      while place > 0, abs(Double(numbers[place - 1]) - due) < abs(Double(numbers[place]) - due) {
        place -= 1
      }
      guard Double(numbers[place]) >= due - slack else { return 1 }
      (found, at) = (found + 1, Double(numbers[place]))
      place -= 1
    }
    return found
  }
}

/// Pauses among the first ticks of a stream that nothing makes up for: ticks were dropped while the rate is unknown.
///
/// After a hold-up of the link the ticks that waited come in a burst, after such a pause they do not. The rate is known by
/// the ticks that follow the last one; how many are missing in each is known then to a range.
struct EarlyPauses: Sendable {
  /// A pause: before which tick, and how many are missing in it.
  struct Pause: Sendable {
    var place: Int
    var least = 0
    var most = 0
  }

  static let limit = 8
  /// Pauses that are looked at: nanoseconds, periods or so much longer than one, and times what is usual between events.
  private static let shortest = 80_000_000.0
  private static let fewestPeriods = 2.5
  private static let late = 150_000_000.0
  private static let fewestEvents = 1.2
  /// Which share of the ticks of a pause comes after a hold-up, at least.
  private static let shareAfter = 0.8
  /// By how much an unknown period is off at most.
  private static let largestShare = 0.05
  /// For so many pauses between events the ticks that waited may come.
  private static let eventsAfter = 5.0
  /// A pause between two ticks that parts events: nanoseconds.
  private static let event = 4_000_000.0
  /// What stamps waver by on their way through radio and host: nanoseconds.
  private static let jitter = 1_000_000.0
  /// The most punctual of so many events is one of the most punctual of all.
  private static let events = 3.0

  private(set) var found: [Pause] = []
  private var steps: [Double] = []
  /// Of the ticks so far, since the first one: nanoseconds.
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

  /// Takes the stamp of the next tick.
  mutating func take(_ time: Int64) {
    if times.isEmpty { first = time }
    times.append(Double(time &- first))
  }

  /// Looks for pauses: fills in `found`, all but the numbers of missing ticks.
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
    steps.sort()
    let usual = steps[steps.count / 2]
    // With the pauses it would be too long: they are taken out as they are found.
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

  /// Whether the ticks that waited come after a pause.
  private func isMadeUpFor(_ pause: Double, _ place: Int, _ period: Double, _ usual: Double) -> Bool {
    var last = place
    while last < times.count, times[last] - times[place] < max(pause, Self.eventsAfter * usual) {
      let after = times[last] - times[place]
      let balance = Double(last - place + 1) - after / period
      if balance >= max(1.5, Self.shareAfter * pause / period) { return true }
      last += 1
    }
    return false
  }

  /// Fills in how many ticks are missing, and keeps the pauses that are sure to have some.
  ///
  /// - Returns: how many may be missing in the others.
  ///
  /// - Parameters:
  ///   - period: nanoseconds, by the ticks after the last pause.
  ///   - uncertainty: by how much that may be off: a share; `nil` if it is unknown, and so is whether ticks are missing.
  ///   - interval: between connection events: nanoseconds.
  mutating func measure(period: Double, uncertainty: Double?, interval: Double) -> Int {
    for pause in found.indices {
      let place = found[pause].place
      let first = pause > 0 ? found[pause - 1].place : 0
      let end = pause + 1 < found.count ? found[pause + 1].place : times.count
      let before = edge(first..<place, at: place - 1, period)
      let after = edge(place..<end, at: place, period)
      let length = after.time - before.time
      let off = (uncertainty ?? Self.largestShare) * (length + before.reach + after.reach) + Self.jitter
      let ticks = length / period - 1
      let low = ticks - (off + interval * min(1, Self.events / after.events)) / period
      let high = ticks + (off + interval * min(1, Self.events / before.events)) / period
      let least = uncertainty == nil ? 0 : max(0, low.rounded(.up))
      found[pause].least = Int(min(least, 1e6))
      found[pause].most = Int(min(max(least, high.rounded(.down)), 1e6))
    }
    guard uncertainty != nil else { return 0 }
    var doubtful = 0
    for pause in found where pause.least == 0 { doubtful += pause.most }
    found.removeAll { $0.least == 0 }
    return doubtful
  }

  /// When a tick would have come by the most punctual of some: nanoseconds since the first of all; how far from it that one is,
  /// and how many events there are.
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

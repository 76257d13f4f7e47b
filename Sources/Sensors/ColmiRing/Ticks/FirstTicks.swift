/// Detects whether the sensor dropped some of its first ticks, while its rate and the link are still unknown.
///
/// A sensor that sometimes drops ticks looks like a slower sensor whose ticks are late. The hypothesis with
/// the shorter description is chosen (minimum description length; Rissanen, Modeling by shortest data
/// description, Automatica 14, 465–471, 1978). The description contains the connection event of each drop
/// and, for each event, the number of available ticks that were not delivered. Candidate periods start at
/// that of the slower sensor and decrease. Among the periods with nearly the shortest description, the one
/// with the shortest description of the lateness, in eighths of a period, is chosen.
///
/// Memory is fixed and allocated in the initializer. Loops use indices, because a loop over elements
/// allocates in unoptimised builds.
struct FirstTicks: Sendable {
  /// Maximum number of examined ticks.
  static let limit = 1_024
  private static let eventLimit = 256
  private static let leastEvents = 16
  /// Number of last events that cannot be classified, because the events after them are unknown.
  private static let openEvents = 6
  /// Maximum share of ticks that a sensor drops.
  private static let largestShare = 0.06
  /// Cost of the hypothesis that the sensor drops ticks. All costs are in nats.
  private static let priorCost = 10.0
  /// Maximum difference between costs that count as equal.
  private static let margin = 8.0
  /// Minimum saving for drops to be accepted when all `limit` ticks are available.
  private static let proof = 40.0
  /// Minimum saving, as a fraction of the cost without drops, when all `limit` ticks are available.
  private static let shareOfProof = 0.55
  /// Minimum saving for drops to be accepted in the first seconds.
  private static let firstProof = 25.0
  private static let leastPlaces = 3
  /// Maximum relative difference between distances that count as equal.
  private static let evenness = 0.3
  /// Minimum number of distances for `largestShareEven` to apply.
  private static let leastDistances = 6
  /// Maximum share of equal distances between drops. A larger share indicates clock drift.
  private static let largestShareEven = 0.6
  private static let binsOfPeriod = 8
  private static let binLimit = 8 * binsOfPeriod
  /// Tested offsets of the line: number of periods by which the line is earlier than the least late tick.
  private static let phases: InlineArray<2, Double> = [0, 0.25]

  /// Timestamps in nanoseconds.
  private(set) var stamps: [Int64] = []
  /// Tick numbers known so far.
  private(set) var numbers: [Int] = []
  /// Number of newly detected missing ticks up to each position. They are not included in the tick numbers
  /// yet.
  private(set) var before: [Int] = []
  /// Time of each tick since the first tick, in nanoseconds.
  private var times: [Double] = []
  /// Number of each tick since the first tick.
  private var indices: [Double] = []
  /// Index of the last tick of each connection event.
  private var lasts: [Int] = []
  /// Lateness of each connection event, in eighths of a period.
  private var lateness = [Int](repeating: 0, count: eventLimit)
  /// Number of dropped ticks up to each event: whole periods of lateness that remain in all later events.
  private var floors = [Int](repeating: 0, count: eventLimit)
  /// Costs of all candidates.
  private var costs: [Cost] = []
  /// Distances between drops, in ticks.
  private var distances: [Double] = []
  /// Number of events by lateness, in eighths of a period beyond the dropped ticks.
  private var histogram = [Int](repeating: 0, count: binLimit)

  init() {
    stamps.reserveCapacity(Self.limit)
    numbers.reserveCapacity(Self.limit)
    before.reserveCapacity(Self.limit)
    times.reserveCapacity(Self.limit)
    indices.reserveCapacity(Self.limit)
    lasts.reserveCapacity(Self.eventLimit)
    distances.reserveCapacity(Self.eventLimit)
    costs.reserveCapacity(Self.phases.count * (Int(Self.largestShare * 8 * Double(Self.limit)) + 1))
  }

  var count: Int { stamps.count }
  /// Number of ticks from the first tick to the end of the last event.
  private var span: Double { lasts.isEmpty ? 0 : indices[lasts[lasts.count - 1]] }

  mutating func removeAll() {
    stamps.removeAll(keepingCapacity: true)
    numbers.removeAll(keepingCapacity: true)
  }

  /// Processes the next tick. Ticks after the first `limit` are ignored.
  mutating func take(_ time: Int64, at number: Int) {
    guard count < Self.limit else { return }
    stamps.append(time)
    numbers.append(number)
  }

  /// Detects dropped ticks. If there are any, sets `before` to the number of drops up to each position.
  ///
  /// - Parameters:
  ///   - slow: fitted period in nanoseconds, if no ticks were dropped.
  ///   - isPause: returns whether a pause of this many nanoseconds separates two connection events.
  /// - Returns: the period in nanoseconds, and the first undecided position, because it is too near the end;
  ///   `nil` if nothing was dropped.
  mutating func drops(period slow: Double, isPause: (Int64) -> Bool) -> (period: Double, end: Int)? {
    measure(isPause)
    guard lasts.count >= Self.leastEvents, span <= Double(2 * Self.limit) else { return nil }
    // If no event is late by a period, there are no drops to detect.
    var withoutDrops = Double.infinity
    for place in Self.phases.indices { withoutDrops = min(withoutDrops, cost(slow, Self.phases[place]).held) }
    guard withoutDrops > 0 else { return nil }
    costs.removeAll(keepingCapacity: true)
    var least = Double.infinity
    for step in 0...Int(Self.largestShare * 4 * span) {
      for place in Self.phases.indices {
        let cost = cost(candidate(step, slow), Self.phases[place])
        (least, withoutDrops) = (min(least, cost.lost), min(withoutDrops, cost.held))
        costs.append(cost)
      }
    }
    let proof = count == Self.limit ? max(Self.proof, Self.shareOfProof * withoutDrops) : Self.firstProof
    guard least < withoutDrops - proof else { return nil }
    var best = (exact: Double.infinity, period: slow, phase: 0.0)
    for place in costs.indices
    where costs[place].lost <= least + Self.margin && costs[place].exact < best.exact {
      let phase = Self.phases[place % Self.phases.count]
      best = (costs[place].exact, candidate(place / Self.phases.count, slow), phase)
    }
    _ = cost(best.period, best.phase)
    before.removeAll(keepingCapacity: true)
    for _ in 0...lasts[0] { before.append(0) }
    for event in 1..<lasts.count {
      for _ in lasts[event - 1] + 1...lasts[event] { before.append(floors[event] - floors[0]) }
    }
    let all = floors[lasts.count - 1] - floors[0]
    guard all > 0, Double(all) <= 2 * Self.largestShare * span, areUneven() else { return nil }
    for _ in before.count..<count { before.append(all) }
    return (best.period, lasts[lasts.count - Self.openEvents - 1] + 1)
  }

  /// Returns whether drops occur at three or more places with uneven distances. Clock drift, and a burst
  /// after a delay on the link, look like drops. The jumps of a drift are evenly spaced, except where a tick
  /// was dropped too.
  private mutating func areUneven() -> Bool {
    distances.removeAll(keepingCapacity: true)
    var last = 0.0
    for event in 1..<lasts.count where floors[event] > floors[event - 1] {
      let now = indices[lasts[event]]
      if last > 0 { distances.append(now - last) }
      last = now
    }
    guard distances.count >= Self.leastPlaces - 1 else { return false }
    var (shortest, longest, sum, most) = (Double.infinity, 0.0, 0.0, 0)
    for place in distances.indices {
      let usual = distances[place]
      (shortest, longest, sum) = (min(shortest, usual), max(longest, usual), sum + usual)
      var same = 0
      for other in distances.indices where abs(distances[other] - usual) <= Self.evenness * usual {
        same += 1
      }
      most = max(most, same)
    }
    guard longest - shortest > Self.evenness * sum / Double(distances.count) else { return false }
    return distances.count < Self.leastDistances
      || Double(most) < Self.largestShareEven * Double(distances.count)
  }

  private mutating func measure(_ isPause: (Int64) -> Bool) {
    times.removeAll(keepingCapacity: true)
    indices.removeAll(keepingCapacity: true)
    lasts.removeAll(keepingCapacity: true)
    // The first event contains only the ticks since the start, so its last tick may be earlier than in other
    // events. It is skipped.
    var isFirst = true
    for place in 0..<count {
      if place > 0, lasts.count < Self.eventLimit, isPause(stamps[place] &- stamps[place - 1]) {
        if !isFirst { lasts.append(place - 1) }
        isFirst = false
      }
      times.append(Double(stamps[place] &- stamps[0]))
      indices.append(Double(numbers[place] - numbers[0]))
    }
  }

  /// Returns the candidate period at a step. Each step moves the last tick by a quarter of a period.
  private func candidate(_ step: Int, _ slow: Double) -> Double {
    slow * (1 - Double(step) / (4 * span))
  }

  /// Description lengths of the ticks for one candidate period, in nats.
  private struct Cost: Sendable {
    /// Cost of the lateness of each event, in eighths of a period, if ticks were dropped.
    var exact = Double.infinity
    /// Cost of the number of undelivered ticks in each event, if ticks were dropped.
    var lost = Double.infinity
    /// Cost of the number of undelivered ticks in each event, if no ticks were dropped.
    var held = Double.infinity
  }

  /// Computes the costs, and sets `lateness` and `floors`.
  private mutating func cost(_ period: Double, _ phase: Double) -> Cost {
    var earliest = Double.infinity
    for event in lasts.indices {
      let place = lasts[event]
      earliest = min(earliest, times[place] - period * indices[place])
    }
    let start = earliest - phase * period
    for event in lasts.indices {
      let place = lasts[event]
      let late = (times[place] - period * indices[place] - start) / period
      // Invalid timestamps can have any value.
      lateness[event] = Int(min(late * Double(Self.binsOfPeriod), 1e15).rounded(.down))
    }
    let open = lasts.count - Self.openEvents
    var least = Int.max
    for place in lasts.indices {
      let event = lasts.count - 1 - place
      least = min(least, lateness[event] / Self.binsOfPeriod)
      floors[event] = least
    }
    // Events from `open` on cannot be classified yet.
    for event in open..<lasts.count { floors[event] = floors[open - 1] }
    for bin in histogram.indices { histogram[bin] = 0 }
    var (lost, held) = (0, 0)
    for event in lasts.indices {
      let late = lateness[event] - floors[event] * Self.binsOfPeriod
      histogram[min(late, Self.binLimit - 1)] += 1
      lost += late / Self.binsOfPeriod
      held += lateness[event] / Self.binsOfPeriod
    }
    let count = Double(lasts.count)
    var exact = 0.0
    for bin in histogram.indices where histogram[bin] > 0 {
      let events = histogram[bin]
      exact += logarithm(count) / 2 - Double(events) * logarithm(Double(events) / count)
    }
    let drops = Double(floors[lasts.count - 1] - floors[0])
    let forDrops = drops > 0 ? Self.priorCost + drops * (logarithm(count / drops) + 1) : 0
    return Cost(
      exact: exact + forDrops, lost: geometric(lost) + forDrops, held: geometric(held))
  }

  /// Returns the cost of describing one number per event with the given sum, by the geometric distribution
  /// with the same mean.
  private func geometric(_ sum: Int) -> Double {
    let mean = Double(sum) / Double(lasts.count)
    guard mean > 0 else { return 0 }
    return Double(lasts.count) * ((mean + 1) * logarithm(mean + 1) - mean * logarithm(mean))
  }
}

/// Returns the natural logarithm of a positive number, accurate to eleven digits. This layer has no C
/// library.
private func logarithm(_ number: Double) -> Double {
  // ln m = 2 artanh((m − 1) / (m + 1)), with m from 1 to 2.
  let ratio = (number.significand - 1) / (number.significand + 1)
  let square = ratio * ratio
  var sum = 0.0
  for power in stride(from: 21.0, through: 1, by: -2) { sum = sum * square + 1 / power }
  return Double(number.exponent) * 0.693_147_180_559_945_3 + 2 * ratio * sum
}

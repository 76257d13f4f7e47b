/// Tells whether the sensor dropped ticks among its first ones, while neither its rate nor the link is known.
///
/// A sensor that drops ticks now and then looks like a slower one whose ticks come late. Which of the two it is, is what
/// costs less to tell (minimum description length; Rissanen, Modeling by shortest data description, Automatica 14,
/// 465–471, 1978): for each drop the event before which it was, and for each connection event how many ticks it held
/// back that were there to be sent. Periods are tried from that of the slower sensor down; which of them is the
/// sensor's, the distribution of the lateness tells, in eighths of a period.
///
/// Fixed memory, allocated at the start. Loops go over indices: unless optimised, one over elements allocates.
struct FirstTicks: Sendable {
  /// Ticks that are looked at, and events of them, at most.
  static let limit = 1_024
  private static let eventLimit = 256
  private static let leastEvents = 16
  /// Events at the end, of which nobody knows what follows.
  private static let openEvents = 6
  /// The share of its ticks that a sensor drops, at most.
  private static let largestShare = 0.06
  /// What it costs that a sensor drops ticks at all: natural units of information, as are the costs of events.
  private static let priorCost = 10.0
  /// What costs so little more is as likely.
  private static let margin = 8.0
  /// By how much less it must cost with drops than without when there are many ticks: so much, and such a share.
  private static let proof = 40.0
  private static let shareOfProof = 0.55
  /// And by so much in the first seconds.
  private static let firstProof = 25.0
  private static let leastPlaces = 3
  /// Even distances differ by at most such a share of their mean.
  private static let evenness = 0.3
  private static let binsOfPeriod = 8
  private static let binLimit = 8 * binsOfPeriod
  /// Of a period, by how much later than the most punctual of the first ticks the line may begin.
  private static let phases: InlineArray<2, Double> = [0, 0.25]

  /// Stamps in nanoseconds, and numbers as far as they are known.
  private(set) var stamps: [Int64] = []
  private(set) var numbers: [Int] = []
  /// How many ticks up to each place never came, but for those that its number tells.
  private(set) var before: [Int] = []
  /// Of the ticks since the first one.
  private var times: [Double] = []
  private var indices: [Double] = []
  /// The last tick of each event.
  private var lasts: [Int] = []
  /// How late it is, in eighths of a period, and how many whole periods of these never end: what was dropped.
  private var lateness = [Int](repeating: 0, count: eventLimit)
  private var floors = [Int](repeating: 0, count: eventLimit)
  /// Of all candidates.
  private var costs: [Cost] = []
  /// How many events are so late.
  private var histogram = [Int](repeating: 0, count: binLimit)

  init() {
    stamps.reserveCapacity(Self.limit)
    numbers.reserveCapacity(Self.limit)
    before.reserveCapacity(Self.limit)
    times.reserveCapacity(Self.limit)
    indices.reserveCapacity(Self.limit)
    lasts.reserveCapacity(Self.eventLimit)
    costs.reserveCapacity(Self.phases.count * (Int(Self.largestShare * 8 * Double(Self.limit)) + 1))
  }

  var count: Int { stamps.count }
  /// From the first tick to the end of the last event: ticks.
  private var span: Double { lasts.isEmpty ? 0 : indices[lasts[lasts.count - 1]] }

  mutating func removeAll() {
    stamps.removeAll(keepingCapacity: true)
    numbers.removeAll(keepingCapacity: true)
  }

  /// Takes the next tick; no more than `limit`.
  mutating func take(_ time: Int64, at number: Int) {
    guard count < Self.limit else { return }
    stamps.append(time)
    numbers.append(number)
  }

  /// Finds what was dropped: fills in `before`.
  ///
  /// - Parameters:
  ///   - slow: of the line below all ticks, had none been dropped: nanoseconds.
  ///   - isPause: whether so many nanoseconds part two events.
  /// - Returns: the period in nanoseconds, and from which place on ticks are too near the end to tell; `nil` where nothing
  ///   was dropped.
  mutating func drops(period slow: Double, isPause: (Int64) -> Bool) -> (period: Double, end: Int)? {
    measure(isPause)
    guard lasts.count >= Self.leastEvents, span <= Double(2 * Self.limit) else { return nil }
    // Where no event holds anything back there is nothing to tell.
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
    guard all > 0, Double(all) <= 2 * Self.largestShare * span, areUneven else { return nil }
    for _ in before.count..<count { before.append(all) }
    return (best.period, lasts[lasts.count - Self.openEvents - 1] + 1)
  }

  /// Whether three places or more have drops, at uneven distances. A clock that drifts against the controller's, and a burst
  /// that the link was late with, look like drops as well; the drift comes at even distances.
  private var areUneven: Bool {
    var (places, first, last) = (0, 0.0, 0.0)
    var (shortest, longest) = (Double.infinity, 0.0)
    for event in 1..<lasts.count where floors[event] > floors[event - 1] {
      let now = indices[lasts[event]]
      if places == 0 {
        first = now
      } else {
        (shortest, longest) = (min(shortest, now - last), max(longest, now - last))
      }
      (places, last) = (places + 1, now)
    }
    guard places >= Self.leastPlaces else { return false }
    return longest - shortest > Self.evenness * (last - first) / Double(places - 1)
  }

  private mutating func measure(_ isPause: (Int64) -> Bool) {
    times.removeAll(keepingCapacity: true)
    indices.removeAll(keepingCapacity: true)
    lasts.removeAll(keepingCapacity: true)
    for place in 0..<count {
      if place > 0, lasts.count < Self.eventLimit, isPause(stamps[place] &- stamps[place - 1]) {
        lasts.append(place - 1)
      }
      times.append(Double(stamps[place] &- stamps[0]))
      indices.append(Double(numbers[place] - numbers[0]))
    }
  }

  /// Over all ticks, a step is a quarter of a period.
  private func candidate(_ step: Int, _ slow: Double) -> Double {
    slow * (1 - Double(step) / (4 * span))
  }

  /// What it costs to tell the ticks: natural units of information.
  private struct Cost: Sendable {
    /// By how late each event is, in eighths of a period, with drops.
    var exact = Double.infinity
    /// By how many ticks each event held back, with drops, and without any.
    var lost = Double.infinity
    var held = Double.infinity
  }

  /// Fills in `lateness` and `floors`.
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
      // Stamps that make no sense lie anywhere.
      lateness[event] = Int(min(late * Double(Self.binsOfPeriod), 1e15).rounded(.down))
    }
    let open = lasts.count - Self.openEvents
    var least = Int.max
    for place in lasts.indices {
      let event = lasts.count - 1 - place
      least = min(least, lateness[event] / Self.binsOfPeriod)
      floors[event] = least
    }
    // What follows the last ones is not known.
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

  /// What it costs to tell numbers of such a sum, one for each event, by the geometric distribution of their mean.
  private func geometric(_ sum: Int) -> Double {
    let mean = Double(sum) / Double(lasts.count)
    guard mean > 0 else { return 0 }
    return Double(lasts.count) * ((mean + 1) * logarithm(mean + 1) - mean * logarithm(mean))
  }
}

/// The natural logarithm of a number above 0, to eleven digits: this layer has no C library.
private func logarithm(_ number: Double) -> Double {
  // ln m = 2 artanh((m − 1) / (m + 1)), and m is 1 … 2.
  let ratio = (number.significand - 1) / (number.significand + 1)
  let square = ratio * ratio
  var sum = 0.0
  for power in stride(from: 21.0, through: 1, by: -2) { sum = sum * square + 1 / power }
  return Double(number.exponent) * 0.693_147_180_559_945_3 + 2 * ratio * sum
}

import Physiology

/// Beats of a heart rate strap. The strap measures the intervals between beats on its own clock, and reports
/// them up to a second after the last beat. Each timestamp bounds the times of the beats: the reported beats
/// were earlier, and the next beat was later.
struct StrapBeats: Sendable {
  /// Consecutive beats without a visible gap.
  struct Stretch: Sendable {
    /// Times of the beats on the strap's clock, in seconds since the start of the stretch.
    var places: [Double] = []
    /// Timestamp of each measurement in seconds, and number of the stretch's beats up to and including it.
    var measurements: [(stamp: Double, beats: Int)] = []
    /// Offset from `places` to the kernel's clock in seconds, accurate to a few hundredths of a second.
    var offset = 0.0
  }

  static let ticksPerSecond = 1024.0
  /// Maximum delay of a measurement in addition to its wait for a connection event, in seconds.
  private static let late = 0.25
  /// Minimum number of measurements for computing the strap's measurement period.
  private static let fewest = 20
  /// Pause in seconds after which the strap may have restarted.
  private static let longestPause = 10.0
  /// Number of earlier measurements used in a comparison.
  private static let recent = 30
  /// Minimum share of measurements within a quarter of the period from the line.
  private static let steady = 0.9
  /// Maximum accepted contradiction between bounds, in seconds.
  private static let tolerance = 0.1
  /// Maximum share of bounds that contradict the other bounds.
  private static let wrong = 0.1

  private(set) var stretches: [Stretch] = []
  private var measurements: [(stamp: Double, intervals: [Double])] = []

  /// Processes the next interval.
  ///
  /// - Parameters:
  ///   - ticks: length of the interval, in units of 1/1024 s.
  ///   - seconds: timestamp of the measurement that contained the interval.
  mutating func take(_ ticks: Int, at seconds: Double) {
    let interval = Double(ticks) / Self.ticksPerSecond
    if let last = measurements.last, last.stamp == seconds {
      measurements[measurements.count - 1].intervals.append(interval)
    } else {
      measurements.append((seconds, [interval]))
    }
  }

  /// Ends the input and closes the last stretch.
  mutating func finish() {
    var first = 0
    var bounds = Bounds()
    var index = 0
    while index < measurements.count {
      let before = index > first ? measurements[index - 1].stamp : nil
      if let jump = bounds.take(measurements[index], after: before) {
        close(measurements[first..<first + jump])
        first += jump
        (bounds, index) = (Bounds(), first)
      } else {
        index += 1
      }
    }
    close(measurements[first...])
  }

  /// Bounds of the times of beats, from consecutive measurements.
  private struct Bounds {
    private var place = 0.0
    /// Bounds of the offset to the kernel's clock: the next beat comes after the previous measurement, and
    /// the last beat before the measurement that reports it.
    private var (least, most) = (Double.infinity, -Double.infinity)
    private var lates: [Double] = []

    /// Processes the next measurement.
    ///
    /// - Returns: the number of measurements before a missing or doubled interval, if this measurement proves
    ///   it; otherwise `nil`.
    mutating func take(_ measurement: (stamp: Double, intervals: [Double]), after before: Double?) -> Int? {
      if let before { most = max(most, before - place - measurement.intervals[0]) }
      place += measurement.intervals.reduce(0, +)
      let now = measurement.stamp - place
      lates.append(now)
      let jumps = zip(lates.dropFirst(), lates)
      if most > least + StrapBeats.late {
        return jumps.enumerated().max { $0.element.0 - $0.element.1 < $1.element.0 - $1.element.1 }.map {
          $0.offset + 1
        }
      }
      if now < most - StrapBeats.late - StrapBeats.tolerance {
        return jumps.enumerated().min { $0.element.0 - $0.element.1 < $1.element.0 - $1.element.1 }.map {
          $0.offset + 1
        }
      }
      least = min(least, now)
      return nil
    }
  }

  private mutating func close(_ measurements: ArraySlice<(stamp: Double, intervals: [Double])>) {
    var stretch = Stretch()
    var place = 0.0
    for measurement in measurements {
      for interval in measurement.intervals {
        // The beat before the first interval belongs to the previous measurement, or was lost.
        place += interval
        stretch.places.append(place)
      }
      stretch.measurements.append((measurement.stamp, stretch.places.count))
    }
    guard !stretch.measurements.isEmpty else { return }
    let bounds = stretch.measurements.map { stamp, beats in
      (
        before: stamp - stretch.places[beats - 1],
        after: beats < stretch.places.count ? stamp - stretch.places[beats] : nil
      )
    }
    let least = bounds.map(\.before).min() ?? 0
    let most = bounds.compactMap(\.after).max() ?? least
    stretch.offset = (least + max(most, least - 1)) / 2
    stretches.append(stretch)
  }

  /// Times of the beats on the kernel's clock in seconds, ascending, accurate to a few hundredths of a
  /// second.
  var beats: [Double] {
    var beats: [Double] = []
    for stretch in stretches where stretch.places.count > 1 {
      for place in stretch.places where place + stretch.offset > beats.last ?? -.infinity {
        beats.append(place + stretch.offset)
      }
    }
    return beats
  }

  // MARK: Lateness of the strap

  /// Delay between the given times of the beats and their report by the strap.
  struct Lateness: Sendable {
    /// Distance from the given times to the line below the strap's measurements, in seconds.
    let distance: LineBand
    /// Lateness of that line because of the link.
    let wait: LinkWait
  }

  /// Computes the lateness of the strap.
  ///
  /// - Parameters:
  ///   - times: times of the beats of each stretch, in seconds; `nil` for unknown times.
  ///   - intervals: connection intervals of the link.
  /// - Returns: `nil` if the strap does not measure at a steady rate, or if the bounds contradict each other.
  func lateness(of times: [[Double?]], _ intervals: [LinkWait.Interval]) -> Lateness? {
    guard let (expected, stamps) = steadyTimes() else { return nil }
    let frames = zip(expected, stamps).map { LinkWait.Frame(time: $0, stamp: $1) }
    guard let wait = LinkWait(frames, intervals) else {
      return nil
    }
    let measured = Dictionary(zip(stamps, expected)) { first, _ in first }
    var (above, below): ([LineBand.Bound], [LineBand.Bound]) = ([], [])
    for (stretch, times) in zip(stretches, times) {
      for (stamp, beats) in stretch.measurements {
        guard let time = measured[stamp] else { continue }
        if let last = times[beats - 1] { below.append(LineBand.Bound(seconds: time, value: time - last)) }
        if beats < times.count, let next = times[beats] {
          above.append(LineBand.Bound(seconds: time, value: time - next))
        }
      }
    }
    guard let kept = Self.agreed(above: above, below: below),
      let band = LineBand(above: kept.above, below: kept.below)
    else {
      return nil
    }
    return Lateness(distance: band, wait: wait)
  }

  /// Removes bounds that contradict most other bounds.
  ///
  /// - Returns: `nil` if too many bounds contradict the other bounds, or if there are too few bounds.
  private static func agreed(
    above: [LineBand.Bound], below: [LineBand.Bound]
  ) -> (above: [LineBand.Bound], below: [LineBand.Bound])? {
    let all = above.count + below.count
    guard above.count >= fewest, below.count >= fewest else { return nil }
    // A level agrees with a lower bound that is not above it, and with an upper bound that is not below it.
    let lower = above.map(\.value).sorted()
    let upper = below.map(\.value).sorted()
    var best = (count: -1, level: 0.0)
    var fitting = 0
    for (index, level) in upper.enumerated() {
      while fitting < lower.count, lower[fitting] <= level + tolerance { fitting += 1 }
      let count = fitting + upper.count - index
      if count > best.count { best = (count, level) }
    }
    guard Double(all - best.count) <= wrong * Double(all) else { return nil }
    return (
      above.filter { $0.value <= best.level + tolerance }, below.filter { $0.value >= best.level - tolerance }
    )
  }

  /// Returns the times at which the strap measured, from the line below the timestamps; `nil` if the strap
  /// does not measure at a steady rate.
  private func steadyTimes() -> (expected: [Double], stamps: [Double])? {
    var parts: [[Double]] = [[]]
    for stamp in measurements.map(\.stamp) {
      if let last = parts[parts.count - 1].last, stamp - last > Self.longestPause { parts.append([]) }
      parts[parts.count - 1].append(stamp)
    }
    guard let stamps = parts.max(by: { $0.count < $1.count }), stamps.count >= Self.fewest else { return nil }
    let steps = zip(stamps.dropFirst(), stamps).map { $0 - $1 }
    let rough = steps.sorted()[steps.count / 2]
    guard rough > 0 else { return nil }
    // A step differs from the period by the difference of two waits; these differences cancel in the sum of
    // the steps.
    let usual = steps.reduce(0, +) / steps.reduce(0) { $0 + max(1, ($1 / rough).rounded()) }
    var numbers = [0.0]
    for (index, stamp) in stamps.enumerated().dropFirst() {
      let recent = max(0, index - Self.recent)..<index
      let punctual = recent.map { stamps[$0] - numbers[$0] * usual }.min() ?? stamps[0]
      numbers.append(max(numbers[index - 1] + 1, ((stamp - punctual) / usual).rounded()))
    }
    guard let (level, period) = Self.lineBelow(zip(numbers, stamps).map { ($0, $1) }) else { return nil }
    let expected = numbers.map { level + $0 * period }
    let punctuals = zip(expected, stamps).count { $1 - $0 < usual / 4 }
    guard Double(punctuals) >= Self.steady * Double(stamps.count) else { return nil }
    return (expected, stamps)
  }

  /// Returns the edge of the lower convex hull in the middle of the points.
  private static func lineBelow(_ points: [(x: Double, y: Double)]) -> (level: Double, slope: Double)? {
    var hull: [(x: Double, y: Double)] = []
    func turnsUp(_ a: (x: Double, y: Double), _ b: (x: Double, y: Double), _ c: (x: Double, y: Double))
      -> Bool
    {
      (b.y - a.y) * (c.x - b.x) < (c.y - b.y) * (b.x - a.x)
    }
    for point in points {
      while hull.count >= 2, !turnsUp(hull[hull.count - 2], hull[hull.count - 1], point) { hull.removeLast() }
      hull.append(point)
    }
    guard hull.count >= 2, let first = hull.first, let last = hull.last else { return nil }
    let middle = (first.x + last.x) / 2
    let end = hull.indices.dropFirst().first { hull[$0].x >= middle } ?? hull.count - 1
    let (a, b) = (hull[end - 1], hull[end])
    let slope = (b.y - a.y) / (b.x - a.x)
    return (a.y - slope * a.x, slope)
  }
}

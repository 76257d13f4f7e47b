import Physiology

/// Beats of a strap. The strap measures the intervals between beats by its own clock, and reports them up to
/// a second after the last beat. Each timestamp therefore bounds the times of beats: the reported beats came
/// before it, the next beat after it.
struct StrapBeats: Sendable {
  /// Intervals without a visible gap.
  struct Stretch: Sendable {
    /// Times of the beats by the strap's clock, in seconds since the first.
    var places: [Double] = []
    /// Timestamp of each measurement in seconds, and the number of beats up to and including it.
    var measurements: [(stamp: Double, beats: Int)] = []
    /// Seconds to add to `places` for times on the kernel's clock, accurate to some hundredths of a second.
    var offset = 0.0
  }

  static let ticksPerSecond = 1024.0
  /// Maximum delay of a measurement in seconds, apart from its wait for a connection event.
  private static let late = 0.25
  /// Minimum number of measurements that determines the strap's pace.
  private static let fewest = 20
  /// Pause in seconds after which the strap may have restarted.
  private static let longestPause = 10.0
  /// Number of earlier measurements used in a comparison.
  private static let recent = 30
  /// Minimum share of measurements that must be within a quarter of the pace from the line.
  private static let steady = 0.9
  /// Maximum contradiction between bounds that is tolerated, in seconds.
  private static let tolerance = 0.1
  /// Share of bounds that may contradict the others.
  private static let wrong = 0.1

  private(set) var stretches: [Stretch] = []
  private var measurements: [(stamp: Double, intervals: [Double])] = []

  /// Processes the next interval.
  ///
  /// - Parameters:
  ///   - ticks: in 1/1024 s.
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

  /// Bounds on the times of beats, from consecutive measurements.
  private struct Bounds {
    private var place = 0.0
    /// Bounds of the offset to the kernel's clock: the next beat comes after the previous measurement, and
    /// the last beat before the measurement that reports it.
    private var (least, most) = (Double.infinity, -Double.infinity)
    private var lates: [Double] = []

    /// Processes the next measurement.
    ///
    /// - Returns: the number of measurements before a missing or doubled interval if this measurement
    ///   confirms one; otherwise `nil`.
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
        // The beat before a stretch's first interval came with the previous measurement, or was lost.
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

  /// Times on the kernel's clock, ascending, accurate to some hundredths of a second.
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

  /// Delay from the given times of the beats until the strap reports them.
  struct Lateness: Sendable {
    /// Distance from the given times to the line below the strap's measurements.
    let distance: LineBand
    /// Delay of that line due to the link.
    let wait: LinkWait
  }

  /// - Parameters:
  ///   - times: times of the beats of each stretch, in seconds; `nil` for unknown ones.
  ///   - intervals: intervals of the connection.
  /// - Returns: `nil` if the strap does not measure at a steady pace, or if its data contradict each other.
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

  /// Removes bounds that contradict most others.
  private static func agreed(
    above: [LineBand.Bound], below: [LineBand.Bound]
  ) -> (above: [LineBand.Bound], below: [LineBand.Bound])? {
    let all = above.count + below.count
    guard above.count >= fewest, below.count >= fewest else { return nil }
    // A level agrees with the lower bounds that are below it and the upper bounds that are above it.
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

  /// Times at which the strap measures if its pace is steady: the line below the timestamps.
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
    // A step differs from the pace by the difference of two waits; in a sum of steps these cancel.
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

  /// The edge of the lower convex hull in the middle of the points.
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

import BLECore

/// When the beats of a strap were: it tells the intervals between them by its own clock, with a measurement that comes up to a second
/// after the last of them is over. So the beats lie on the line below all stamps; where the strap measures at a steady pace, between
/// that line and the one of the beats that were not told yet.
///
/// Of the line's slope that edge tells little, a hundred thousandth in ten minutes; who knows it better, from another sensor, says so.
struct StrapBeats: Sendable {
  /// Of an interval: nanoseconds.
  private static let tick = 1e9 / 1024
  /// Measurements that are looked back upon.
  private static let recent = 64
  /// How much later than the earliest of those one may come before intervals are taken for lost, and how much earlier before the strap
  /// has begun anew: nanoseconds.
  private static let usual = -1.2e9...1.8e9

  /// Measurements from which a strap's pace is told.
  private static let fewest = 60
  /// By how much a beat may seem to lie on both sides of a measurement: nanoseconds.
  private static let disorder = 20e6

  /// Measurements that follow each other without a lost interval.
  private struct Stretch: Sendable {
    /// Of beats: 1/1024 s since the first.
    var places: [Int] = []
    /// The last beat of each measurement, its stamp, and how many beats there were until then.
    var measurements: [(place: Int, stamp: Int64, beats: Int)] = []

    var start: (place: Int, stamp: Int64) { (measurements[0].place, measurements[0].stamp) }
  }

  private var stretches = [Stretch()]
  private var total = 0
  private var stamp: Int64?
  /// Nanoseconds for 1/1024 s of the strap, by the kernel's clock.
  private var pace = Self.tick

  /// What the kernel's clock takes for a second of the strap's.
  var secondsPerSecond: Double { pace / Self.tick }

  /// Takes the next interval.
  ///
  /// - Parameters:
  ///   - ticks: 1/1024 s.
  ///   - time: of the measurement that it came with: nanoseconds since the Unix epoch.
  mutating func take(_ ticks: Int, at time: Int64) {
    if let stamp, stamp != time { close(stamp) }
    stamp = time
    total += ticks
    stretches[stretches.count - 1].places.append(total)
  }

  /// All have come.
  mutating func finish() {
    if let stamp { close(stamp) }
    if let longest = stretches.max(by: { $0.measurements.count < $1.measurements.count }) {
      let slope = Self.slope(longest.measurements.map { ($0.place, $0.stamp) })
      // A quartz is better than a thousandth: a slope beyond is one of too few measurements.
      if let slope, abs(slope / Self.tick - 1) < 0.001 { pace = slope }
    }
  }

  /// All intervals of a measurement are there.
  private mutating func close(_ stamp: Int64) {
    let last = stretches.count - 1
    let before = stretches[last].measurements.suffix(Self.recent)
    if let earliest = before.map({ Double($0.stamp) - Double($0.place) * Self.tick }).min() {
      let late = Double(stamp) - Double(total) * Self.tick - earliest
      if !Self.usual.contains(late), let place = stretches[last].places.popLast() {
        stretches.append(Stretch(places: [place]))
      }
    }
    let place = stretches.count - 1
    stretches[place].measurements.append((total, stamp, stretches[place].places.count))
  }

  /// Nanoseconds for one place, of the edge below all stamps in its middle; `nil` where there are too few.
  private static func slope(_ points: [(place: Int, stamp: Int64)]) -> Double? {
    var hull: [(place: Int, stamp: Int64)] = []
    for point in points {
      while hull.count >= 2, !turnsUp(hull[hull.count - 2], hull[hull.count - 1], point) { hull.removeLast() }
      if let last = hull.last, last.place >= point.place { continue }
      hull.append(point)
    }
    guard hull.count >= 2, let first = hull.first, let last = hull.last else { return nil }
    let middle = (first.place + last.place) / 2
    let end = hull.indices.dropFirst().first { hull[$0].place >= middle } ?? hull.count - 1
    let (a, b) = (hull[end - 1], hull[end])
    return Double(b.stamp - a.stamp) / Double(b.place - a.place)
  }

  private static func turnsUp(
    _ a: (place: Int, stamp: Int64), _ b: (place: Int, stamp: Int64), _ c: (place: Int, stamp: Int64)
  ) -> Bool {
    Double(b.stamp - a.stamp) * Double(c.place - b.place) < Double(c.stamp - b.stamp)
      * Double(b.place - a.place)
  }

  /// The same where a second of the strap's clock is known to take longer by a share.
  func slower(by share: Double) -> StrapBeats {
    var strap = self
    strap.pace *= 1 + share
    return strap
  }

  /// When the measurements of a stretch were made, where the strap makes them at a steady pace: a stamp is later by the wait for
  /// the link's next event, which many measurements tell from the least of them.
  ///
  /// - Returns: nanoseconds since the first stamp; `nil` where the pace is not steady, or they are few.
  private static func steadyTimes(_ stretch: Stretch) -> [Double]? {
    let stamps = stretch.measurements.map { $0.stamp - stretch.start.stamp }
    let steps = zip(stamps.dropFirst(), stamps).map(-)
    guard steps.count >= fewest else { return nil }
    let usual = Double(steps.sorted()[steps.count / 2])
    var numbers = [0]
    for step in steps {
      numbers.append(numbers[numbers.count - 1] + max(1, Int((Double(step) / usual).rounded())))
    }
    guard let period = slope(Array(zip(numbers, stamps))) else { return nil }
    let late = zip(numbers, stamps).map { Double($1) - Double($0) * period }
    guard let least = late.min(), let most = late.max(), most - least < usual / 4 else { return nil }
    let edge = earliest(of: late)
    return numbers.map { edge + Double($0) * period }
  }

  /// The earliest of many that are late by chance is late by the range over their number.
  private static func earliest(of late: [Double]) -> Double {
    let (least, most) = (late.min() ?? 0, late.max() ?? 0)
    return least - (most - least) / Double(late.count + 1)
  }

  /// Where the beats of a stretch lie by the kernel's clock: what is added to their places.
  ///
  /// A measurement has the beats before it, and none of those after it. Where it is known when it was made, that holds the beats
  /// from both sides.
  private func offset(of stretch: Stretch) -> Double {
    let start = stretch.start
    let stamps = stretch.measurements.map { Double($0.stamp - start.stamp) }
    let times = Self.steadyTimes(stretch)
    func late(_ time: Double, _ place: Int) -> Double { time - Double(place - start.place) * pace }
    let before = zip(times ?? stamps, stretch.measurements).map { late($0, $1.place) }
    let edge = Self.earliest(of: before)
    guard let times, let least = before.min() else { return edge }
    let after = zip(times, stretch.measurements).compactMap { time, measurement in
      measurement.beats < stretch.places.count ? late(time, stretch.places[measurement.beats]) : nil
    }
    guard let most = after.max(), most < least + Self.disorder else { return edge }
    return (least + most) / 2
  }

  /// Nanoseconds since the Unix epoch, rising.
  var beats: [Int64] {
    var beats: [Int64] = []
    for stretch in stretches where stretch.places.count > 1 && !stretch.measurements.isEmpty {
      let (start, offset) = (stretch.start, offset(of: stretch))
      for place in stretch.places {
        let time = start.stamp &+ Int64((offset + Double(place - start.place) * pace).rounded())
        if time > beats.last ?? .min { beats.append(time) }
      }
    }
    return beats
  }
}

import BLECore

/// When the beats of a strap were: it tells the intervals between them by its own clock, with a measurement that comes up to a second
/// after the last of them is over. So the beats lie on the line below all stamps.
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

  /// Measurements that follow each other without a lost interval.
  private struct Stretch: Sendable {
    /// Of beats: 1/1024 s since the first.
    var places: [Int] = []
    /// The last beat of each measurement, and its stamp.
    var measurements: [(place: Int, stamp: Int64)] = []
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
      pace = Self.slope(longest)
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
    stretches[stretches.count - 1].measurements.append((total, stamp))
  }

  /// Of the edge below all stamps, in its middle.
  private static func slope(_ stretch: Stretch) -> Double {
    var hull: [(place: Int, stamp: Int64)] = []
    for point in stretch.measurements {
      while hull.count >= 2, !turnsUp(hull[hull.count - 2], hull[hull.count - 1], point) { hull.removeLast() }
      if let last = hull.last, last.place >= point.place { continue }
      hull.append(point)
    }
    guard hull.count >= 2, let first = hull.first, let last = hull.last else { return tick }
    let middle = (first.place + last.place) / 2
    let end = hull.indices.dropFirst().first { hull[$0].place >= middle } ?? hull.count - 1
    let (a, b) = (hull[end - 1], hull[end])
    let slope = Double(b.stamp - a.stamp) / Double(b.place - a.place)
    // A quartz is better than a thousandth: a slope beyond is one of too few measurements.
    return abs(slope / tick - 1) < 0.001 ? slope : tick
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

  /// Nanoseconds since the Unix epoch, rising.
  var beats: [Int64] {
    var beats: [Int64] = []
    for stretch in stretches where stretch.places.count > 1 && !stretch.measurements.isEmpty {
      let start = stretch.measurements[0]
      let late = stretch.measurements.map {
        Double($0.stamp - start.stamp) - Double($0.place - start.place) * pace
      }
      let (least, most) = (late.min() ?? 0, late.max() ?? 0)
      // The earliest of many that are late by chance is late by the range over their number.
      let edge = least - (most - least) / Double(late.count + 1)
      for place in stretch.places {
        let time = start.stamp &+ Int64((edge + Double(place - start.place) * pace).rounded())
        if time > beats.last ?? .min { beats.append(time) }
      }
    }
    return beats
  }
}

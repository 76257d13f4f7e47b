import JSONText
import Physiology
import Recording

/// How much later than a sensor sends it a recording has what it measured: the wait for a connection event, and the time on the air.
///
/// A straight line below all stamps has the most punctual frames on it. How long those waited is told by the others: no frame waits
/// longer than one connection interval unless a packet was lost, so the more the waits differ, the less is left. If the
/// sensor's steps are a multiple of the interval, all frames wait equally long, and anything up to an interval is possible.
struct LinkWait: Sendable {
  /// A frame: when the last of its samples was measured by the line, and its stamp, in seconds.
  struct Frame {
    var time: Double
    var stamp: Double
    var rows = 1
    /// Seconds from sample to sample; 0 if there is one in each frame.
    var period = 0.0
  }

  /// What one connection event brought, or several that follow each other: when the last of it was measured by the line, and the
  /// first stamp.
  private struct Arrival {
    var expected: Double
    var stamp: Double
    /// From one stamp of an event to the next one: less than 1.5 intervals.
    var goesOn = false

    var late: Double { stamp - expected }
  }

  /// Connection intervals in force, in order: from when, and how long, in seconds.
  struct Interval: Sendable {
    var since: Double
    var length: Double
  }

  private let band: LineBand

  /// From the start of a connection event to the stamp of its first frame: the central's packet, a pause, and the frame itself,
  /// at 2 Mbit/s and without payload, or at 1 Mbit/s and as long as the MTU allows. Core 5.4, Vol 6, Part B, 2.1 and 4.1.
  private static let shortest = 0.000_25
  private static func longest(_ isLong: Bool) -> Double { isLong ? 0.003_5 : 0.001 }
  /// Frames of one event follow each other without a longer pause: seconds.
  private static let pause = 0.006
  /// Stamps vary by this: seconds.
  private static let jitter = 0.001_5
  /// Intervals after which an event is not the next one.
  private static let next = 1.5
  /// Of the events, so many must be the last of what a sensor had; else it sends in each.
  private static let lasts = 0.25
  /// Arrivals that an interval must have to tell something.
  private static let fewest = 20
  /// Bytes of a link's packet unless a longer one was agreed on, and about those of a row: Core 5.4, Vol 6, Part B, 4.5.10.
  private static let packet = 27
  private static let bytesOfRow = 3
  /// Fragments that one event surely has room for, and seconds that each takes at 1 Mbit/s with its acknowledgement.
  private static let fewFragments = 4
  private static let exchange = 0.000_71
  /// Waits of so many arrivals are of all lengths if no larger share of the interval is missing.
  private static let chunk = 40
  private static let largestGap = 0.2
  /// The share of arrivals that may wait seemingly long because a packet was lost.
  private static let lost = 0.03
  /// Connection intervals that are looked for where nothing tells them: units of 1.25 ms.
  private static let known = 6...400

  /// Where the lateness of the line lies at a time: seconds.
  func range(at seconds: Double) -> ClosedRange<Double> {
    let range = band.range(at: seconds)
    return max(0, range.lowerBound)...max(0, range.lowerBound, range.upperBound)
  }

  /// By how much the pace of the line may be off: a share.
  var paceError: ClosedRange<Double> { band.slopes }

  /// - Parameters:
  ///   - frames: in order of their stamps.
  ///   - intervals: as the recording tells them; empty if it does not.
  ///   - isStraight: times of the frames are by a straight line; else only their mean is known.
  ///   - hasWholeFrames: the link's packets hold any frame; else a long one is sent in fragments, whose last one has the stamp.
  /// - Returns: `nil` if it cannot be known.
  init?(_ frames: [Frame], _ intervals: [Interval], isStraight: Bool = true, hasWholeFrames: Bool = true) {
    var intervals = intervals
    if intervals.isEmpty {
      guard let length = Self.interval(of: Self.arrivals(frames, intervals).map(\.stamp)) else { return nil }
      intervals = [Interval(since: -.infinity, length: length)]
    }
    let arrivals = Self.arrivals(frames, intervals)
    let isSampled = frames.contains { $0.period > 0 }
    let fragments = hasWholeFrames || !isSampled ? 1 : Self.fragments(frames)
    let longest = Self.longest(isSampled) + Self.hold(frames) + Double(fragments - 1) * Self.exchange
    let above = arrivals.map { LineBand.Bound(seconds: $0.expected, value: Self.shortest - $0.late) }
    var below: [LineBand.Bound] = []
    for (index, interval) in intervals.enumerated() {
      let end = index + 1 < intervals.count ? intervals[index + 1].since : .infinity
      // What came in the first events of an interval may have waited for the change.
      let events = arrivals.filter { $0.stamp >= interval.since + 1 && $0.stamp < end }
      // Of a sensor that sends several frames at once, those of one time must be told from those of the next.
      let batches = isSampled ? Self.batches(events) : events
      let these = batches ?? events
      guard these.count >= Self.fewest else { continue }
      // If not all waits come about, an event that another link of the same radio takes away may be missed each time.
      let isFilled = batches != nil && Self.isFilled(these, interval.length)
      // Fragments of a long frame may take another event.
      let missed = (isFilled ? 0 : interval.length) + (fragments > Self.fewFragments ? interval.length : 0)
      let least = these.map(\.late).sorted()[Int(Self.lost * Double(these.count))]
      var bounds = these.map { arrival in
        // What was sent again waited so many intervals longer.
        if batches == nil {
          return LineBand.Bound(seconds: arrival.expected, value: interval.length + missed + longest - least)
        }
        let events = ((arrival.late - least + Self.jitter) / interval.length).rounded(.down)
        return LineBand.Bound(
          seconds: arrival.expected,
          value: interval.length * (1 + max(0, events)) + missed + longest - arrival.late)
      }
      bounds.sort { $0.value < $1.value }
      below += bounds.dropFirst(Int(Self.lost * Double(bounds.count)))
    }
    guard isStraight else {
      guard let mean = Self.mean(above, below) else { return nil }
      band = mean
      return
    }
    guard let band = LineBand(above: above, below: below) else { return nil }
    self.band = band
  }

  /// Packets of the shortest data length that the longest frame takes.
  private static func fragments(_ frames: [Frame]) -> Int {
    let rows = frames.map(\.rows).max() ?? 1
    return (rows * bytesOfRow + packet - 1) / packet
  }

  /// Whether the waits of arrivals that follow each other are usually of all lengths up to an interval.
  private static func isFilled(_ arrivals: [Arrival], _ interval: Double) -> Bool {
    let size = min(chunk, arrivals.count)
    let gaps = stride(from: 0, through: arrivals.count - size, by: size).map { start in
      let phases = arrivals[start..<start + size].map { arrival in
        let events = arrival.late / interval
        return events - events.rounded(.down)
      }.sorted()
      let around = phases[0] + 1 - phases[size - 1]
      return zip(phases.dropFirst(), phases).map(-).reduce(around, max)
    }
    return gaps.sorted()[gaps.count / 2] < largestGap
  }

  /// Times that wander about the line: the bounds of most of them, everywhere.
  private static func mean(_ above: [LineBand.Bound], _ below: [LineBand.Bound]) -> LineBand? {
    let times = (above + below).map(\.seconds)
    guard let first = times.min(), let last = times.max(), !below.isEmpty else { return nil }
    // Of the waits, the lower bounds are of those that waited least, the upper ones of those that waited most.
    let low = above.map(\.value).sorted()[above.count / 4]
    let high = below.map(\.value).sorted()[below.count * 3 / 4]
    func both(_ value: Double) -> [LineBand.Bound] {
      [LineBand.Bound(seconds: first, value: value), LineBand.Bound(seconds: last, value: value)]
    }
    return LineBand(above: both(min(low, high)), below: both(max(low, high)))
  }

  /// What each connection event brought.
  private static func arrivals(_ frames: [Frame], _ intervals: [Interval]) -> [Arrival] {
    let shortest = intervals.map(\.length).min() ?? 0.007_5
    let pause = min(pause, shortest * 0.6)
    var arrivals: [Arrival] = []
    var (before, place) = (-Double.infinity, 0)
    for frame in frames {
      if frame.stamp - before < pause {
        arrivals[arrivals.count - 1].expected = max(arrivals[arrivals.count - 1].expected, frame.time)
      } else {
        while place + 1 < intervals.count, intervals[place + 1].since <= frame.stamp { place += 1 }
        if !arrivals.isEmpty, place < intervals.count {
          arrivals[arrivals.count - 1].goesOn = frame.stamp - before < next * intervals[place].length
        }
        arrivals.append(Arrival(expected: frame.time, stamp: frame.stamp))
      }
      before = frame.stamp
    }
    return arrivals
  }

  /// Events that follow each other without a pause bring what was complete at once, unless a sensor sends in each.
  ///
  /// - Returns: `nil` if it sends in each.
  private static func batches(_ events: [Arrival]) -> [Arrival]? {
    let ends = events.count { !$0.goesOn }
    guard Double(ends) >= lasts * Double(events.count) else { return nil }
    var batches: [Arrival] = []
    var isOpen = false
    for event in events {
      if isOpen {
        batches[batches.count - 1].expected = max(batches[batches.count - 1].expected, event.expected)
      } else {
        batches.append(event)
      }
      isOpen = event.goesOn
    }
    return batches
  }

  /// How long a sample may be old when a sensor sends what it has: if it does so at a pace that its samples do not fit, frames
  /// have one sample more or less, and the last one is up to a sample old. Seconds.
  private static func hold(_ frames: [Frame]) -> Double {
    guard let period = frames.map(\.period).filter({ $0 > 0 }).min() else { return 0 }
    var counts: [Int: Int] = [:]
    for frame in frames where frame.period == period { counts[frame.rows, default: 0] += 1 }
    let usual = counts.sorted { $0.value > $1.value }.prefix(2)
    guard let first = usual.first, let second = usual.dropFirst().first, abs(first.key - second.key) == 1,
      10 * second.value >= first.value
    else { return 0 }
    return period
  }

  /// The longest interval that all steps from event to event are a multiple of.
  private static func interval(of events: [Double]) -> Double? {
    let steps = zip(events.dropFirst(), events).map { $0 - $1 }.filter { $0 > 0.005 && $0 < 5 }
    guard steps.count >= fewest else { return nil }
    return known.reversed().map { Double($0) * 0.001_25 }.first { length in
      let off = steps.count { abs($0 - length * ($0 / length).rounded()) > jitter }
      return Double(off) <= lost * Double(steps.count)
    }
  }

  /// The intervals that `session.json` tells of a recording.
  ///
  /// - Parameter origin: the zero of all seconds: nanoseconds since the Unix epoch.
  static func intervals(of capture: RecordedCapture, origin: Int64) -> [Interval] {
    (capture.session?["connection"]?["changes"]?.array ?? []).compactMap { change in
      guard let time = change["timeNs"]?.nanoseconds, let milliseconds = change["intervalMs"]?.real,
        milliseconds > 0
      else { return nil }
      return Interval(since: Double(time &- origin) / 1e9, length: milliseconds / 1e3)
    }
  }
}

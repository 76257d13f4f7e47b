import JSONText
import Physiology
import Recording

/// Delay between a sensor having a measurement to send and the recording's timestamp: the wait for a
/// connection event plus the transmission time.
///
/// The least late frames lie on a straight line below all timestamps. The scatter of the other frames shows
/// how long the least late frames waited. Unless a packet is lost, no frame waits longer than one connection
/// interval. The more the waits differ, the smaller is therefore the uncertainty. If the sensor's period is a
/// multiple of the interval, all frames wait equally long, and this wait can have any length up to one
/// interval.
struct LinkWait: Sendable {
  /// Frame: fitted time of its last sample and its receive timestamp, in seconds.
  struct Frame {
    var time: Double
    var stamp: Double
    var rows = 1
    /// Sample period in seconds; 0 if each frame has one sample.
    var period = 0.0
  }

  /// Frames of one connection event or of several consecutive events: fitted time of their last sample, and
  /// the first timestamp.
  private struct Arrival {
    var expected: Double
    var stamp: Double
    /// Whether the next event follows within 1.5 intervals.
    var goesOn = false

    var late: Double { stamp - expected }
  }

  /// Connection interval: its start time and its length, in seconds.
  struct Interval: Sendable {
    var since: Double
    var length: Double
  }

  private let band: LineBand

  /// Minimum and maximum time from the start of a connection event to the timestamp of its first frame, in
  /// seconds: the central's packet, the inter-frame space, and the frame. The minimum is for 2 Mbit/s without
  /// payload, the maximum for 1 Mbit/s with a full MTU. Core 5.4, Vol 6, Part B, 2.1 and 4.1.
  private static let shortest = 0.000_25
  private static func longest(_ isLong: Bool) -> Double { isLong ? 0.003_5 : 0.001 }
  /// Maximum pause between frames of one event, in seconds.
  private static let pause = 0.006
  /// Timestamp jitter, in seconds.
  private static let jitter = 0.001_5
  /// Maximum distance of consecutive events, in intervals.
  private static let next = 1.5
  /// Minimum share of events that end a batch. If the share is smaller, the sensor is assumed to send in
  /// every event.
  private static let lasts = 0.25
  /// Minimum number of arrivals for an estimate, during one setting of the connection interval.
  private static let fewest = 20
  /// Default size in bytes of a link-layer packet's payload. Core 5.4, Vol 6, Part B, 4.5.10.
  private static let packet = 27
  /// Approximate size of a table row in a frame, in bytes.
  private static let bytesOfRow = 3
  /// Number of fragments that fit into any event.
  private static let fewFragments = 4
  /// Time to transmit a fragment and its acknowledgement at 1 Mbit/s, in seconds.
  private static let exchange = 0.000_71
  /// Number of arrivals for the test whether waits take all values up to an interval. They do if no gap
  /// between the waits is longer than `largestGap`, as a fraction of the interval.
  private static let chunk = 40
  private static let largestGap = 0.2
  /// Share of arrivals that may seem to wait long because a packet was lost.
  private static let lost = 0.03
  /// Candidate connection intervals in units of 1.25 ms, for a recording without a list of its intervals.
  private static let known = 6...400

  /// Returns the range of the line's lateness at a given time, in seconds.
  func range(at seconds: Double) -> ClosedRange<Double> {
    let range = band.range(at: seconds)
    return max(0, range.lowerBound)...max(0, range.lowerBound, range.upperBound)
  }

  /// Range of the line's slope error, as a relative error of the sensor's period.
  var paceError: ClosedRange<Double> { band.slopes }

  /// Computes the range of the wait.
  ///
  /// - Parameters:
  ///   - frames: frames in order of their timestamps.
  ///   - intervals: connection intervals from the recording; empty if unknown.
  ///   - isStraight: whether the frames' times lie on a straight line. If not, only the mean wait is
  ///     computed.
  ///   - hasWholeFrames: whether one packet can hold any frame. If not, long frames are sent in fragments,
  ///     and the timestamp is that of the last fragment.
  /// - Returns: `nil` if the wait cannot be determined.
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
      // Frames of the first second may have waited for the change of the interval.
      let events = arrivals.filter { $0.stamp >= interval.since + 1 && $0.stamp < end }
      // If a sensor sends several frames at once, treat them as one batch.
      let batches = isSampled ? Self.batches(events) : events
      let these = batches ?? events
      guard these.count >= Self.fewest else { continue }
      // If the waits do not take all values up to the interval, each wait may include an event that was
      // displaced by another link of the same radio.
      let isFilled = batches != nil && Self.isFilled(these, interval.length)
      // Fragments of a long frame may need another event.
      let missed = (isFilled ? 0 : interval.length) + (fragments > Self.fewFragments ? interval.length : 0)
      let least = these.map(\.late).sorted()[Int(Self.lost * Double(these.count))]
      var bounds = these.map { arrival in
        // A retransmitted frame waits one more interval per retry.
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

  /// Returns the number of packets with the default data length that the longest frame needs.
  private static func fragments(_ frames: [Frame]) -> Int {
    let rows = frames.map(\.rows).max() ?? 1
    return (rows * bytesOfRow + packet - 1) / packet
  }

  /// Returns whether the waits of consecutive arrivals usually take all values up to an interval.
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

  /// Returns constant bounds that hold for most of the times, for times that scatter around the line; `nil`
  /// without upper bounds.
  private static func mean(_ above: [LineBand.Bound], _ below: [LineBand.Bound]) -> LineBand? {
    let times = (above + below).map(\.seconds)
    guard let first = times.min(), let last = times.max(), !below.isEmpty else { return nil }
    // The lower bounds come from the shortest waits, the upper bounds from the longest waits.
    let low = above.map(\.value).sorted()[above.count / 4]
    let high = below.map(\.value).sorted()[below.count * 3 / 4]
    func both(_ value: Double) -> [LineBand.Bound] {
      [LineBand.Bound(seconds: first, value: value), LineBand.Bound(seconds: last, value: value)]
    }
    return LineBand(above: both(min(low, high)), below: both(max(low, high)))
  }

  /// Groups frames by connection event.
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

  /// Merges consecutive events into batches. A batch is data that the sensor sent at once.
  ///
  /// - Returns: `nil` if the sensor sends in every event.
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

  /// Returns the maximum age of a frame's last sample at the time of sending, in seconds.
  ///
  /// If the sending period is not a multiple of the sample period, the number of samples per frame varies by
  /// one. The last sample can then be up to one sample period old.
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

  /// Returns the longest connection interval of which nearly all steps between events are multiples, in
  /// seconds.
  private static func interval(of events: [Double]) -> Double? {
    let steps = zip(events.dropFirst(), events).map { $0 - $1 }.filter { $0 > 0.005 && $0 < 5 }
    guard steps.count >= fewest else { return nil }
    return known.reversed().map { Double($0) * 0.001_25 }.first { length in
      let off = steps.count { abs($0 - length * ($0 / length).rounded()) > jitter }
      return Double(off) <= lost * Double(steps.count)
    }
  }

  /// Reads a recording's connection intervals from `session.json`.
  ///
  /// - Parameter origin: zero of all times in seconds, as nanoseconds since the Unix epoch.
  static func intervals(of capture: RecordedCapture, origin: Int64) -> [Interval] {
    (capture.session?["connection"]?["changes"]?.array ?? []).compactMap { change in
      guard let time = change["timeNs"]?.nanoseconds, let milliseconds = change["intervalMs"]?.real,
        milliseconds > 0
      else { return nil }
      return Interval(since: Double(time &- origin) / 1e9, length: milliseconds / 1e3)
    }
  }
}

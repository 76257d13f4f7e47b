/// Sample rate during the last seconds, measured by arrival times. Uses fixed memory.
struct LiveRate: Sendable {
  /// Length of the window, in seconds.
  static let seconds: Int64 = 10
  /// A pause longer than both limits, in periods and in nanoseconds, is an interruption. Samples before it
  /// are ignored.
  private static let longestPeriods = 3.0
  private static let longestPause: Int64 = 1_500_000_000

  /// The first arrival within a second.
  private struct Mark {
    var second: Int64 = .min
    var time: Int64 = 0
    /// Number of samples before the arrival.
    var count = 0
  }

  /// Marks of the last seconds. The mark of second s is at index s modulo the array's length.
  private var marks = [Mark](repeating: Mark(), count: Int(Self.seconds) + 1)
  private var count = 0
  private var last: Int64?
  /// Samples per second, updated once per second; `nil` before the second sample.
  private(set) var perSecond: Double?

  /// Counts a sample.
  ///
  /// - Parameter time: arrival time in nanoseconds since the Unix epoch.
  mutating func add(at time: Int64) {
    if let last, isOver(after: time &- last) { self = LiveRate() }
    defer { (count, last) = (count + 1, time) }
    let second = time / 1_000_000_000
    let place = Int(second.magnitude % UInt64(marks.count))
    guard marks[place].second != second else { return }
    let mark = Mark(second: second, time: time, count: count)
    measure(until: mark)
    marks[place] = mark
  }

  private func isOver(after pause: Int64) -> Bool {
    guard let perSecond, pause > Self.longestPause else { return false }
    return Double(pause) * perSecond > Self.longestPeriods * 1e9
  }

  /// Computes the rate from the first arrival within the window. For a slow stream, uses the last arrival
  /// before the window.
  private mutating func measure(until last: Mark) {
    var first: Mark?
    for mark in marks where mark.second != .min && mark.time < last.time {
      let isRecent = mark.second >= last.second - Self.seconds
      guard let other = first else {
        first = mark
        continue
      }
      let isOtherRecent = other.second >= last.second - Self.seconds
      let isBetter = isRecent == isOtherRecent ? isRecent == (mark.time < other.time) : isRecent
      if isBetter { first = mark }
    }
    perSecond = first.map { Double(last.count - $0.count) * 1e9 / (Double(last.time) - Double($0.time)) }
  }
}

/// How many samples a second come, over the last seconds and by their arrival. Fixed memory.
struct LiveRate: Sendable {
  /// How far back it looks, in seconds.
  static let seconds: Int64 = 10
  /// A pause of more periods, and of more nanoseconds, is none of the stream's: what came before it does not count.
  private static let longestPeriods = 3.0
  private static let longestPause: Int64 = 1_500_000_000

  /// The first arrival in a second.
  private struct Mark {
    var second: Int64 = .min
    var time: Int64 = 0
    /// Samples before it.
    var count = 0
  }

  /// Of second s at s modulo the length.
  private var marks = [Mark](repeating: Mark(), count: Int(Self.seconds) + 1)
  private var count = 0
  private var last: Int64?
  /// Samples a second, made anew each second; `nil` before the second one.
  private(set) var perSecond: Double?

  /// - Parameter time: nanoseconds since the Unix epoch.
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

  /// Since the first arrival of the last seconds; of a slow stream since the one before.
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

/// The rate of a window by the count of its beats, which one missed or doubled beat does not move.
///
/// An irregular rhythm has as many beats as were found. Where all other intervals are alike, one that is twice as long is
/// either a beat that was missed or a pause of the heart, and two that last for one or for three are a beat too many or too
/// few. Above `fastPerMinute` the usual intervals are counted instead: a heart that is in step again after its pause is rare
/// there. Below, nothing tells, and the rate is the middle of both counts. In a rhythm that is irregular, a beat that
/// looks unlike the others and splits an interval of usual length is either noise or an ectopic beat between two others,
/// and counts as half a beat.
enum BeatRate {
  /// Intervals this close to the median, or to its double, are alike: a share of it.
  static let tolerance = 0.2
  /// The same for an interval that a doubtful beat splits: the rhythm need not be regular.
  static let splitTolerance = 0.3
  static let fastPerMinute = 100.0
  /// One interval in so many may be corrected.
  static let intervalsForEach = 8

  /// An interval between two beats: seconds, and whether the beat that ends it looks like the others.
  struct Interval: Sendable, BitwiseCopyable {
    var seconds: Double
    var isLike: Bool
  }

  /// - Parameters:
  ///   - intervals: in order.
  ///   - median: of these intervals, in seconds.
  /// - Returns: beats a minute; `nil` without an interval.
  static func perMinute(_ intervals: Span<Interval>, median: Double) -> Double? {
    var sum = 0.0
    for index in intervals.indices { sum += intervals[index].seconds }
    guard sum > 0 else { return nil }
    let isFast = 60 / median >= fastPerMinute
    var count = Double(intervals.count)
    if let change = change(intervals, median: median) {
      count += isFast ? Double(change) : Double(change) / 2
    } else {
      count -= Double(splits(intervals, median: median)) / 2
    }
    return 60 * count / sum
  }

  /// Beats to add so that intervals unlike the others last for whole numbers of these; `nil` where the rhythm is irregular.
  private static func change(_ intervals: Span<Interval>, median: Double) -> Int? {
    var (change, runs, index) = (0, 0, 0)
    while index < intervals.count {
      let first = index
      var run = 0.0
      while index < intervals.count, !isNear(intervals[index].seconds, median, tolerance) {
        run += intervals[index].seconds
        index += 1
      }
      guard index > first else {
        index += 1
        continue
      }
      let beats = (run / median).rounded()
      guard abs(run - beats * median) <= tolerance * median, abs(Int(beats) - (index - first)) <= 1 else {
        return nil
      }
      (change, runs) = (change + Int(beats) - (index - first), runs + 1)
    }
    return runs <= max(1, intervals.count / intervalsForEach) ? change : nil
  }

  /// Beats unlike the others that split an interval of usual length.
  private static func splits(_ intervals: Span<Interval>, median: Double) -> Int {
    var splits = 0
    for index in 0..<max(0, intervals.count - 1) where !intervals[index].isLike {
      if isNear(intervals[index].seconds + intervals[index + 1].seconds, median, splitTolerance) {
        splits += 1
      }
    }
    return splits
  }

  private static func isNear(_ interval: Double, _ median: Double, _ tolerance: Double) -> Bool {
    abs(interval - median) <= tolerance * median
  }
}

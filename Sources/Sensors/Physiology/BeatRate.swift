/// The rate of a window by the count of its beats, which tolerates one missed or doubled beat.
///
/// In an irregular rhythm, the beats found are counted. If all other intervals are alike, an interval of
/// twice the length is either a missed beat or a pause of the heart; two intervals that together last for one
/// or three are a beat too many or too few. Above `fastPerMinute`, the number of usual intervals is counted
/// instead, because at that rate, a heart rarely resumes its rhythm in phase after a pause. Below it, the two
/// cases cannot be distinguished, and the rate is the mean of both counts. In an irregular rhythm, a beat
/// that looks unlike the others and splits an interval of usual length is either noise or an ectopic beat
/// between two others. It counts as half a beat.
enum BeatRate {
  /// Maximum deviation of similar intervals from the median or its double, as a share of the median.
  static let tolerance = 0.2
  /// Maximum deviation for an interval split by a doubtful beat, because the rhythm need not be regular.
  static let splitTolerance = 0.3
  static let fastPerMinute = 100.0
  /// At most one of this many intervals may be corrected.
  static let intervalsForEach = 8

  /// An interval between two beats: its length in seconds, and whether the beat that ends it looks like the
  /// others.
  struct Interval: Sendable, BitwiseCopyable {
    var seconds: Double
    var isLike: Bool
  }

  /// - Parameters:
  ///   - intervals: intervals in order.
  ///   - median: median of these intervals, in seconds.
  /// - Returns: beats per minute; `nil` without an interval.
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

  /// Number of beats to add so that each deviating interval lasts for a whole number of usual ones; `nil` if
  /// the rhythm is irregular.
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

  /// Number of beats unlike the others that split an interval of usual length.
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

/// Histogram of durations, for percentiles of any number of durations in bounded memory. The width of the
/// buckets grows with the duration.
///
/// Each octave of nanoseconds has 64 buckets, so the error of a percentile is at most 1/128 of its value.
/// Minimum, maximum, count and mean are exact. The layout is that of HdrHistogram.
package struct LogLinearHistogram: Sendable {
  /// Maximum relative error: half of a bucket's width divided by the bucket's start.
  package static let relativeError = 1.0 / 128
  /// Maximum duration, about 39 hours. Longer durations are counted in the last bucket.
  package static let maximumNanoseconds: Int64 = 1 << 47 - 1

  private static let subBucketBits = 6
  private static let subBuckets = 1 << subBucketBits

  package private(set) var count = 0
  package private(set) var minimum = Int64.max
  package private(set) var maximum: Int64 = 0
  private var sum = 0.0
  /// Counts of the buckets up to the highest bucket in use, at most 2,688.
  private var counts: [UInt32] = []

  package init() {}

  /// Adds a duration.
  ///
  /// - Parameter nanoseconds: the duration; a negative value counts as 0.
  package mutating func add(_ nanoseconds: Int64) {
    let value = max(0, nanoseconds)
    count += 1
    sum += Double(value)
    minimum = min(minimum, value)
    maximum = max(maximum, value)
    let index = Self.index(min(value, Self.maximumNanoseconds))
    if index >= counts.count {
      counts.append(contentsOf: repeatElement(0, count: index + 1 - counts.count))
    }
    counts[index] &+= 1
  }

  package mutating func add(_ other: LogLinearHistogram) {
    count += other.count
    sum += other.sum
    minimum = min(minimum, other.minimum)
    maximum = max(maximum, other.maximum)
    if other.counts.count > counts.count {
      counts.append(contentsOf: repeatElement(0, count: other.counts.count - counts.count))
    }
    for index in other.counts.indices { counts[index] &+= other.counts[index] }
  }

  package var mean: Double { count == 0 ? 0 : sum / Double(count) }

  /// Returns the percentile by nearest rank: the smallest duration that at least `perMille` thousandths of
  /// the durations do not exceed; `nil` if there are no durations.
  package func percentile(perMille: Int) -> Int64? {
    guard count > 0 else { return nil }
    let rank = max(1, (count * perMille + 999) / 1_000)
    // The last percentile is the exact maximum.
    if rank >= count { return maximum }
    var seen = 0
    for index in counts.indices {
      seen += Int(counts[index])
      if seen >= rank { return min(max(Self.middle(of: index), minimum), maximum) }
    }
    return maximum
  }

  /// Returns the number of longer durations, with the precision of the buckets.
  package func count(above nanoseconds: Int64) -> Int {
    guard nanoseconds >= 0 else { return count }
    let first = Self.index(min(nanoseconds, Self.maximumNanoseconds)) + 1
    guard first < counts.count else { return 0 }
    return counts[first...].reduce(0) { $0 + Int($1) }
  }

  /// The buckets in use, with start, end (exclusive) and count.
  package var buckets: [(start: Int64, end: Int64, count: Int)] {
    counts.indices.filter { counts[$0] > 0 }.map {
      (Self.start(of: $0), Self.start(of: $0) + Self.width(of: $0), Int(counts[$0]))
    }
  }

  private static func index(_ value: Int64) -> Int {
    guard value >= subBuckets else { return Int(value) }
    let shift = 63 - value.leadingZeroBitCount - subBucketBits
    return shift << subBucketBits + Int(value >> Int64(shift))
  }

  /// Returns the octave of a bucket. In octave 0, buckets are one nanosecond wide.
  private static func shift(of index: Int) -> Int { max(0, index / subBuckets - 1) }
  private static func width(of index: Int) -> Int64 { 1 << Int64(shift(of: index)) }
  private static func middle(of index: Int) -> Int64 { start(of: index) + width(of: index) / 2 }

  private static func start(of index: Int) -> Int64 {
    Int64(index - shift(of: index) * subBuckets) << Int64(shift(of: index))
  }
}

/// Summary of a set of durations, in nanoseconds. The percentiles have the precision of `LogLinearHistogram`.
package struct DurationSummary: Hashable, Sendable {
  package var count: Int
  package var minimum: Int64
  package var mean: Double
  package var p50: Int64
  package var p90: Int64
  package var p99: Int64
  package var p999: Int64
  package var maximum: Int64

  /// Summarises a histogram; `nil` if the histogram is empty.
  package init?(_ histogram: LogLinearHistogram) {
    guard let p50 = histogram.percentile(perMille: 500), let p90 = histogram.percentile(perMille: 900),
      let p99 = histogram.percentile(perMille: 990), let p999 = histogram.percentile(perMille: 999)
    else { return nil }
    count = histogram.count
    minimum = histogram.minimum
    mean = histogram.mean
    self.p50 = p50
    self.p90 = p90
    self.p99 = p99
    self.p999 = p999
    maximum = histogram.maximum
  }
}

/// Counts durations in buckets whose width grows with the duration, so that percentiles of any number of
/// them take bounded memory.
///
/// Each octave of nanoseconds has 64 buckets: a percentile is at most 1/128 of its value away from the exact
/// one. Least, greatest, count and mean are exact. The layout is that of HdrHistogram.
package struct LogLinearHistogram: Sendable {
  /// Half of a bucket's width over its start.
  package static let relativeError = 1.0 / 128
  /// About 39 hours; what is longer counts in the last bucket.
  package static let maximumNanoseconds: Int64 = 1 << 47 - 1

  private static let subBucketBits = 6
  private static let subBuckets = 1 << subBucketBits

  package private(set) var count = 0
  package private(set) var minimum = Int64.max
  package private(set) var maximum: Int64 = 0
  private var sum = 0.0
  /// As long as the highest bucket in use: at most 2,688 entries.
  private var counts: [UInt32] = []

  package init() {}

  /// - Parameter nanoseconds: less than zero counts as zero.
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

  /// The least duration that so many in a thousand do not exceed (nearest rank), or `nil` where none was added.
  package func percentile(perMille: Int) -> Int64? {
    guard count > 0 else { return nil }
    let rank = max(1, (count * perMille + 999) / 1_000)
    // The last one is known exactly.
    if rank >= count { return maximum }
    var seen = 0
    for index in counts.indices {
      seen += Int(counts[index])
      if seen >= rank { return min(max(Self.middle(of: index), minimum), maximum) }
    }
    return maximum
  }

  /// How many durations are longer, to the resolution of the buckets.
  package func count(above nanoseconds: Int64) -> Int {
    guard nanoseconds >= 0 else { return count }
    let first = Self.index(min(nanoseconds, Self.maximumNanoseconds)) + 1
    guard first < counts.count else { return 0 }
    return counts[first...].reduce(0) { $0 + Int($1) }
  }

  /// The buckets in use: start, end (exclusive) and count of each.
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

  /// The octave above the first, in which each bucket is one nanosecond wide.
  private static func shift(of index: Int) -> Int { max(0, index / subBuckets - 1) }
  private static func width(of index: Int) -> Int64 { 1 << Int64(shift(of: index)) }
  private static func middle(of index: Int) -> Int64 { start(of: index) + width(of: index) / 2 }

  private static func start(of index: Int) -> Int64 {
    Int64(index - shift(of: index) * subBuckets) << Int64(shift(of: index))
  }
}

/// What is said about a set of durations, in nanoseconds. Percentiles as `LogLinearHistogram` has them.
package struct DurationSummary: Hashable, Sendable {
  package var count: Int
  package var minimum: Int64
  package var mean: Double
  package var p50: Int64
  package var p90: Int64
  package var p99: Int64
  package var p999: Int64
  package var maximum: Int64

  /// `nil` where nothing was counted.
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

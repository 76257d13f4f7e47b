import BLEDissector
import TestKit
import Testing

import BLEPacketLog

/// Exact percentiles by sorting, which needs all values in memory: the reference for the histogram.
struct ExactDurations {
  let sorted: [Int64]

  init(_ durations: some Sequence<Int64>) { sorted = durations.sorted() }

  var mean: Double { sorted.reduce(0) { $0 + Double($1) } / Double(sorted.count) }

  /// Nearest rank: the smallest value that this many in a thousand do not exceed.
  func percentile(perMille: Int) -> Int64 { sorted[max(1, (sorted.count * perMille + 999) / 1_000) - 1] }

  /// Expects a summary to be the same: exactly, except for percentiles, which have the stated error.
  func expectAgreement(
    _ summary: DurationSummary?, _ comment: Comment? = nil, sourceLocation: SourceLocation = #_sourceLocation
  ) throws {
    let summary = try #require(summary, comment, sourceLocation: sourceLocation)
    #expect(summary.count == sorted.count, comment, sourceLocation: sourceLocation)
    #expect(summary.minimum == sorted[0], comment, sourceLocation: sourceLocation)
    #expect(summary.maximum == sorted[sorted.count - 1], comment, sourceLocation: sourceLocation)
    #expect(abs(summary.mean - mean) < 1_000, comment, sourceLocation: sourceLocation)
    for (perMille, ours) in [(500, summary.p50), (900, summary.p90), (990, summary.p99), (999, summary.p999)]
    {
      let exact = percentile(perMille: perMille)
      #expect(
        abs(Double(ours - exact)) <= Double(exact) / 128, comment, sourceLocation: sourceLocation)
    }
  }
}

struct HistogramTests {
  @Test func hasNoPercentileOfNothing() {
    #expect(LogLinearHistogram().percentile(perMille: 500) == nil)
    #expect(DurationSummary(LogLinearHistogram()) == nil)
  }

  /// Below 128 ns each duration has its own bucket.
  @Test func isExactForTheShortest() throws {
    var histogram = LogLinearHistogram()
    for value in 1...100 { histogram.add(Int64(value)) }
    let summary = try #require(DurationSummary(histogram))
    #expect(
      [summary.p50, summary.p90, summary.p99, summary.p999, summary.maximum] == [50, 90, 99, 100, 100])
    #expect(summary.mean == 50.5)
    #expect(histogram.count(above: 90) == 10)
  }

  /// From a nanosecond to hours, with every magnitude equally likely.
  @Test(arguments: [1, 2, 7, 1_000, 20_000])
  func staysWithinItsError(_ count: Int) throws {
    var random = SeededGenerator(state: UInt64(count))
    var histogram = LogLinearHistogram()
    let values = (0..<count).map { _ in
      Int64.random(in: 0..<(1 << Int64.random(in: 1...46, using: &random)), using: &random)
    }
    for value in values { histogram.add(value) }
    try ExactDurations(values).expectAgreement(DurationSummary(histogram))
    #expect(histogram.buckets.reduce(0) { $0 + $1.count } == count)
    #expect(histogram.buckets.allSatisfy { $0.start < $0.end })
  }

  @Test func eachValueLiesInItsBucket() throws {
    for value: Int64 in [0, 1, 63, 64, 127, 128, 129, 255, 256, 1_000_000, 1 << 46, (1 << 47) - 1] {
      var histogram = LogLinearHistogram()
      histogram.add(value)
      let bucket = try #require(histogram.buckets.first)
      #expect((bucket.start..<bucket.end).contains(value))
      #expect(Double(bucket.end - bucket.start - 1) <= Double(bucket.start) / 64)
    }
  }

  /// Values above the range and below zero: the extremes stay exact, and memory is bounded.
  @Test func takesWhatDoesNotFit() {
    var histogram = LogLinearHistogram()
    histogram.add(.max)
    histogram.add(.min)
    #expect(histogram.maximum == .max)
    #expect(histogram.minimum == 0)
    #expect(histogram.count(above: 1_000) == 1)
    #expect(histogram.percentile(perMille: 1_000) == .max)
  }

  @Test func addsUp() throws {
    var both = LogLinearHistogram()
    var other = LogLinearHistogram()
    for value in 1...60 { both.add(Int64(value) * 1_000) }
    for value in 61...100 { other.add(Int64(value) * 1_000) }
    both.add(other)
    try ExactDurations((1...100).map { $0 * 1_000 }).expectAgreement(DurationSummary(both))
  }

  @Test func timelineDoublesItsBins() {
    var timeline = RateTimeline()
    for second in 0..<1_000 { timeline.add(at: Int64(second) * 1_000_000_000) }
    #expect(timeline.binWidth == 2_000_000_000)
    #expect(timeline.counts.count == 500)
    #expect(timeline.counts.allSatisfy { $0 == 2 })
    timeline.add(at: -1)
    #expect(timeline.counts[0] == 3)
    timeline.add(at: .max)
    #expect(timeline.counts.count <= RateTimeline.maximumBins)
    #expect(timeline.counts.reduce(0, +) == 1_002)
  }
}

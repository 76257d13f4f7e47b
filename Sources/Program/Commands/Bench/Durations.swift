import Histogram
import JSONText

/// A histogram of durations with three significant digits, for percentiles. It uses HdrHistogram.
struct Durations: Sendable {
  /// Maximum: one minute. Longer durations count as one minute.
  static let limit: UInt64 = 60_000_000_000

  // The range is fixed, so the histogram allocates only here.
  private(set) var histogram = Histogram<UInt64>(
    highestTrackableValue: limit, numberOfSignificantValueDigits: .three)

  /// Adds a duration.
  ///
  /// - Parameter nanoseconds: a negative value counts as 0. It can occur if the clock was set back.
  mutating func add(_ nanoseconds: Int64) { histogram.record(min(UInt64(max(0, nanoseconds)), Self.limit)) }

  /// The percentiles; `nil` if no duration was added.
  var summary: Summary? { histogram.totalCount == 0 ? nil : Summary(histogram) }

  /// Percentiles in nanoseconds.
  struct Summary: Hashable, Sendable {
    let p50, p90, p99, p999, max: UInt64
    let mean: Double

    fileprivate init(_ histogram: Histogram<UInt64>) {
      p50 = histogram.valueAtPercentile(50)
      p90 = histogram.valueAtPercentile(90)
      p99 = histogram.valueAtPercentile(99)
      p999 = histogram.valueAtPercentile(99.9)
      max = histogram.max
      mean = histogram.mean
    }

    /// Writes the summary as a member of the open object.
    func encode(_ name: String, into line: inout JSONLine) {
      line.key(name)
      line.object { line in
        line.member("p50", p50)
        line.member("p90", p90)
        line.member("p99", p99)
        line.member("p999", p999)
        line.member("max", max)
        line.member("mean", mean)
      }
    }

    /// Five columns of a table row, in microseconds.
    var columns: String {
      [p50, p90, p99, p999, max].map { BenchText.column(Double($0) / 1000) }.joined()
    }

    static let heading = ["p50", "p90", "p99", "p99.9", "max"].map { BenchText.padded("\($0) µs") }.joined()
  }
}

package enum BenchText {
  static let columnWidth = 12

  static func padded(_ text: String) -> String {
    String(repeating: " ", count: max(1, columnWidth - text.count)) + text
  }

  /// Formats a number with one decimal as a column.
  static func column(_ value: Double) -> String { padded(number(value)) }

  package static func number(_ value: Double) -> String { "\((value * 10).rounded() / 10)" }

  package static func precise(_ value: Double) -> String { "\((value * 1000).rounded() / 1000)" }
}

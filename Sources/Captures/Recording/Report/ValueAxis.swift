/// Range of a plot's value axis: all visible values except outliers. `data.js` implements the same rule for
/// the web page.
///
/// A number is an outlier if it is far, alone and rare:
/// - far: outside the core by more than three times the width of the core. The core is the range from the 2nd
///   to the 98th percentile, combined over all shown series.
/// - alone: none of the five rows before and after it in its series is far. A burst of motion has many far
///   samples, a wave of an electrocardiogram has several.
/// - rare: at most one in 200 numbers of its series is far and alone, or two in a short series. Narrow R
///   peaks are more frequent.
///
/// Fewer than 64 numbers have no outliers, so a user who zooms in on an outlier sees it.
package struct ValueAxis: Sendable {
  package struct Rule: Hashable, Sendable {
    /// Minimum span of the axis, in its unit. It prevents small changes from filling the axis.
    package var leastSpan: Double
    /// Minimum span of the axis, as a fraction of its largest value.
    package var leastShare: Double
    /// Values that the axis always includes.
    package var includes: ClosedRange<Double>?
    /// Whether all values are shown, with no outliers, as for sums and settings.
    package var keepsAll: Bool

    package init(
      leastSpan: Double = 0, leastShare: Double = 0.02, includes: ClosedRange<Double>? = nil,
      keepsAll: Bool = false
    ) {
      (self.leastSpan, self.leastShare) = (leastSpan, leastShare)
      (self.includes, self.keepsAll) = (includes, keepsAll)
    }

    /// Creates the rule for a quantity. A hand at rest moves by some mg; the light of a weak pulse changes by
    /// 1 %.
    ///
    /// - Parameter unit: unit in `RecordedColumn` or in a report.
    package init(unit: String) {
      self.init()
      switch unit {
      case "g": leastSpan = 0.25
      case "mg": leastSpan = 250
      case "1/min", "per minute": leastSpan = 20
      case "Cel", "°C": leastSpan = 0.5
      case "uV", "µV": leastSpan = 500
      case "ms": leastSpan = 50
      case "counts": leastShare = 0.005
      default: break
      }
    }
  }

  package private(set) var low: Double
  package private(set) var high: Double
  /// Indices of the outliers of each series, ascending.
  package private(set) var outliers: [[Int]]

  /// Computes the range.
  ///
  /// - Parameter series: visible numbers; NaN for a row without a number; all series have the same length.
  /// - Returns: `nil` if there are no numbers.
  package init?(_ series: [[Double]], _ rule: Rule) {
    let cores = series.map { rule.keepsAll ? Self.hull($0[...]) : Self.core($0) }
    guard let core = Self.union(cores) else { return nil }
    outliers = series.map { _ in [] }
    if !rule.keepsAll, core.upperBound > core.lowerBound {
      let wide = Self.widened(core, rule)
      let reach = Self.reach * (wide.upperBound - wide.lowerBound)
      let limits = wide.lowerBound - reach...wide.upperBound + reach
      outliers = series.map { Self.outliers($0, beyond: limits) }
    }
    let hulls = zip(series, outliers).map { numbers, outliers in
      Self.union(Self.stretches(numbers, between: outliers).map(Self.hull))
    }
    guard var span = Self.union(hulls) else { return nil }
    if let includes = rule.includes {
      span = min(span.lowerBound, includes.lowerBound)...max(span.upperBound, includes.upperBound)
    }
    span = Self.widened(span, rule)
    (low, high) = (span.lowerBound, span.upperBound)
  }

  // MARK: Rule

  private static let tail = 0.02
  private static let reach = 3.0
  private static let neighbours = 5
  private static let rarity = 200
  private static let fewest = 64
  /// Maximum number of rows for computing percentiles. If there are more, only every second, third … row is
  /// used.
  private static let sampleLimit = 8_192

  private static func core(_ numbers: [Double]) -> ClosedRange<Double>? {
    let sorted = sample(numbers).sorted()
    guard sorted.count >= fewest else { return hull(numbers[...]) }
    let place = Int(tail * Double(sorted.count - 1))
    return sorted[place]...sorted[sorted.count - 1 - place]
  }

  private static func sample(_ numbers: [Double]) -> [Double] {
    stride(from: 0, to: numbers.count, by: step(numbers)).map { numbers[$0] }.filter { !$0.isNaN }
  }

  private static func step(_ numbers: [Double]) -> Int {
    max(1, (numbers.count + sampleLimit - 1) / sampleLimit)
  }

  private static func outliers(_ numbers: [Double], beyond limits: ClosedRange<Double>) -> [Int] {
    let count = sample(numbers).count
    guard count >= fewest else { return [] }
    let far = numbers.indices.filter { !numbers[$0].isNaN && !limits.contains(numbers[$0]) }
    let alone = far.indices.filter { place in
      (place == 0 || far[place] - far[place - 1] > neighbours)
        && (place == far.count - 1 || far[place + 1] - far[place] > neighbours)
    }
    return alone.count <= max(2, count * step(numbers) / rarity) ? alone.map { far[$0] } : []
  }

  /// Widens a range to the minimum span of the rule. A range above 0 is not extended below 0.
  private static func widened(_ span: ClosedRange<Double>, _ rule: Rule) -> ClosedRange<Double> {
    let (low, high) = (span.lowerBound, span.upperBound)
    var least = max(rule.leastSpan, max(abs(low), abs(high)) * rule.leastShare)
    if least == 0 { least = 1 }
    guard high - low < least else { return span }
    var bottom = (low + high) / 2 - least / 2
    if low >= 0, bottom < 0 { bottom = 0 }
    return bottom...bottom + least
  }

  // MARK: Ranges

  private static func hull(_ numbers: ArraySlice<Double>) -> ClosedRange<Double>? {
    var (low, high) = (Double.infinity, -Double.infinity)
    // Comparisons with NaN are false.
    for number in numbers {
      if number < low { low = number }
      if number > high { high = number }
    }
    return low <= high ? low...high : nil
  }

  private static func union(_ ranges: [ClosedRange<Double>?]) -> ClosedRange<Double>? {
    ranges.compactMap(\.self).reduce(nil) { union, range in
      guard let union else { return range }
      return min(union.lowerBound, range.lowerBound)...max(union.upperBound, range.upperBound)
    }
  }

  private static func stretches(_ numbers: [Double], between places: [Int]) -> [ArraySlice<Double>] {
    var start = 0
    var stretches: [ArraySlice<Double>] = []
    for place in places {
      stretches.append(numbers[start..<place])
      start = place + 1
    }
    return stretches + [numbers[start...]]
  }
}

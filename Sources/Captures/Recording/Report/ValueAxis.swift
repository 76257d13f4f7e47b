/// The values that a plot's axis spans: all in view but outliers. `data.js` has the same rule for the page.
///
/// A number is left out where it is far, alone and rare, all three:
/// - far: more than three widths of the core beyond the core. The core is the hull, over all series that are shown, of what
///   lies between the 2nd and the 98th percentile of each.
/// - alone: in its series no other of the five rows before and after it is far. A burst of motion has many such samples, a wave
///   of an electrocardiogram some.
/// - rare: of its series' numbers at most one in 200 is so, or two of few. R peaks come more often, however narrow.
///
/// Of fewer than 64 numbers none is left out: who zooms in on an outlier sees it.
package struct ValueAxis: Sendable {
  package struct Rule: Hashable, Sendable {
    /// The axis spans at least this, in its unit, and at least this share of its greatest value: what hardly changes must
    /// not look as if it did.
    package var leastSpan: Double
    package var leastShare: Double
    /// What it spans in any case.
    package var includes: ClosedRange<Double>?
    /// Sums and settings have no outliers.
    package var keepsAll: Bool

    package init(
      leastSpan: Double = 0, leastShare: Double = 0.02, includes: ClosedRange<Double>? = nil,
      keepsAll: Bool = false
    ) {
      (self.leastSpan, self.leastShare) = (leastSpan, leastShare)
      (self.includes, self.keepsAll) = (includes, keepsAll)
    }

    /// The smallest spans of a quantity. A hand at rest moves by some mg, and the light of a weak pulse changes by 1 %.
    ///
    /// - Parameter unit: as in `RecordedColumn`, or as a report writes it.
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
  /// Places of those left out, rising, for each series.
  package private(set) var outliers: [[Int]]

  /// - Parameter series: numbers in view, NaN where a row has none; all of the same length.
  /// - Returns: `nil` without any number.
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
  /// Of more rows each second, third … tells the percentiles.
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

  /// - Returns: at least as wide as the rule asks for; not below 0 for that.
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
    // False for NaN.
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

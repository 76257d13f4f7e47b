import TestKit
import Testing

@testable import CaptureTools
import Recording

/// Ranges of a plot's value axis, for numbers whose range is known by hand.
@Suite struct ValueAxisTests {
  /// A wave with a period of 20: 100, 101 … 110, 109 … .
  private func wave(_ count: Int) -> [Double] {
    (0..<count).map { index in Double(100 + abs(index % 20 - 10)) }
  }

  private func check(
    _ series: [Double]..., rule: ValueAxis.Rule = ValueAxis.Rule(), spans: ClosedRange<Double>,
    outliers: [[Int]]? = nil, _ location: SourceLocation = #_sourceLocation
  ) throws {
    let axis = try #require(ValueAxis(series, rule), sourceLocation: location)
    #expect(axis.low...axis.high == spans, sourceLocation: location)
    #expect(axis.outliers == outliers ?? series.map { _ in [] }, sourceLocation: location)
  }

  @Test func dropoutsAndOneOutlier() throws {
    var numbers = wave(1_000)
    for place in stride(from: 7, to: 1_000, by: 50) { numbers[place] = .nan }
    try check(numbers, spans: 100...110)
    (numbers[500], numbers[41]) = (65_000, 0)
    try check(numbers, spans: 100...110, outliers: [[41, 500]])
    // Next to a dropout it counts as isolated, too.
    numbers[499] = .nan
    try check(numbers, spans: 100...110, outliers: [[41, 500]])
  }

  /// The limit is three widths of the core beyond it: 100 − 30 … 110 + 30.
  @Test func howFar() throws {
    for (number, high) in [(140.0, 140.0), (140.5, 110)] {
      var numbers = wave(1_000)
      numbers[300] = number
      try check(numbers, spans: 100...high, outliers: [high == 110 ? [300] : []])
    }
  }

  /// 75 beats/min at 130 Hz on a quiet line, each peak one sample wide: 1 in 104. And 40 beats/min: 1 in 195.
  @Test(arguments: [104, 195]) func peaksOfAnElectrocardiogram(_ beat: Int) throws {
    let numbers = (0..<130 * 60).map { $0 % beat == 50 ? 1_000.0 : Double($0 % 3 * 5 - 5) }
    try check(numbers, spans: -5...1_000)
  }

  /// A quarter of a second of motion at 25 Hz in ten minutes of rest: 4 g in both directions.
  @Test func burstOfMotion() throws {
    var numbers = (0..<15_000).map { Double($0 % 5) * 0.002 }
    for place in 0..<6 { numbers[9_000 + place] = place % 2 == 0 ? 4 : -4 }
    try check(numbers, spans: -4...4)
    // Every second value only, next to a series that is at rest.
    for place in [9_000, 9_002, 9_004] { numbers[place] = 0 }
    try check(numbers, (0..<15_000).map { _ in 1 }, spans: -4...1)
  }

  /// Two outliers that are only five rows apart count as one event, not as isolated values.
  @Test func aloneAndRare() throws {
    var numbers = wave(400)
    (numbers[200], numbers[205]) = (0, 0)
    try check(numbers, spans: 0...110)
    (numbers[205], numbers[206]) = (105, 0)
    try check(numbers, spans: 100...110, outliers: [[200, 206]])
    // Two of 400 are rare, three are not.
    numbers[300] = 0
    try check(numbers, spans: 0...110)
  }

  @Test func fewNumbers() throws {
    for (count, low) in [(63, 0.0), (64, 100)] {
      var numbers = wave(count)
      numbers[30] = 0
      try check(numbers, spans: low...110, outliers: [low == 0 ? [] : [30]])
    }
  }

  @Test func leastSpan() throws {
    let rate = ValueAxis.Rule(leastSpan: 20)
    try check([72, 72.5, 73], rule: rate, spans: 62.5...82.5)
    try check([3, 4], rule: rate, spans: 0...20)
    try check([60, 180], rule: rate, spans: 60...180)
    try check([1_000, 1_001], spans: 990.49...1_010.51)
    try check([0, 0], spans: 0...1)
    try check([0.97, 0.98], rule: ValueAxis.Rule(includes: 0...1), spans: 0...1)
  }

  /// A hand at rest moves by 7 mg; a light of 30,000 counts varies by 1 % with a weak pulse.
  @Test func leastSpanOfAQuantity() throws {
    for unit in ["g", "mg", "1/min", "per minute", "Cel", "°C", "uV", "µV", "ms"] {
      let least = try #require(
        [
          "g": 0.25, "mg": 250, "1/min": 20, "per minute": 20, "Cel": 0.5, "°C": 0.5, "uV": 500, "µV": 500,
          "ms": 50,
        ][unit])
      try check([0.5, 0.507], rule: ValueAxis.Rule(unit: unit), spans: try span(0.5, 0.507, least))
    }
    try check([29_850, 30_150], rule: ValueAxis.Rule(unit: "counts"), spans: 29_850...30_150)
    try check([30_000, 30_000], rule: ValueAxis.Rule(unit: "counts"), spans: 29_925...30_075)
  }

  /// The centre is kept, but the axis of numbers above 0 does not begin below 0.
  private func span(_ low: Double, _ high: Double, _ least: Double) throws -> ClosedRange<Double> {
    let bottom = max(0, (low + high) / 2 - least / 2)
    return bottom...bottom + least
  }

  /// A flag that falls once, and sums.
  @Test func nothingToCut() throws {
    var flags = [Double](repeating: 1, count: 1_000)
    flags[500] = 0
    try check(flags, spans: 0...1)
    var sums = wave(1_000)
    sums[500] = 9_000
    try check(sums, rule: ValueAxis.Rule(includes: 0...0, keepsAll: true), spans: 0...9_000)
    #expect(ValueAxis([[.nan], []], ValueAxis.Rule()) == nil)
  }
}

extension ReportSection {
  /// Axes of the plots as in a picture: low, high, and the number of values of each series beyond them.
  var axes: [(range: [Double], outliers: [Int])] {
    charts.map { chart in
      let table = tables[chart.table].table
      let rows = chart.rows(of: table, in: stretch)
      let numbers = chart.series.filter(\.isShown).map { table.numbers($0.column, in: rows) }
      let axis = ValueAxis(numbers, chart.axis)
      return (
        axis.map { [$0.low, $0.high] } ?? [0, 1], axis?.outliers.map(\.count) ?? numbers.map { _ in 0 }
      )
    }
  }
}

import BLEDissector
import Recording

/// Contents of a report, independent of its output format: a page or a picture.
package struct ReportDocument: Sendable {
  package var title: String
  var subtitle = ""
  /// Problems of the whole report, the worst first.
  package var problems: [ReportProblem] = []
  /// Facts about the whole file that belong to no section.
  var facts: [ReportSection.Facts] = []
  var sections: [ReportSection] = []

  /// Number of samples in the report.
  package var sampleCount: Int {
    sections.reduce(0) { $0 + $1.tables.filter { !$0.isDerived }.reduce(0) { $0 + $1.table.count } }
  }
  /// Texts of all problems.
  package var problemTexts: [String] { allProblems.map(\.text) }
  /// Whether something could not be read, or was lost.
  package var hasErrors: Bool { allProblems.contains { $0.severity == .error } }
  /// Whether something could not be read.
  package var isIncomplete: Bool { allProblems.contains { $0.severity == .error && !$0.isLoss } }
  /// Whether something is known to be lost.
  package var hasLosses: Bool {
    allProblems.contains { $0.isLoss } || sections.contains { !$0.allLosses.isEmpty }
  }
  private var allProblems: [ReportProblem] { problems + sections.flatMap(\.problems) }

  /// Summary of gaps and losses: `no gaps, nothing lost`; `2 gaps, 26 ticks lost`; `gaps not known, losses
  /// not known`.
  package var missingText: String {
    let gaps = sections.reduce(0) { $0 + $1.gapCount }
    let losses = sections.flatMap(\.allLosses)
    let isKnown = sections.allSatisfy(\.knowsLosses)
    let nothing = sections.allSatisfy(\.isNumbered) ? "nothing lost" : "nothing dropped here"
    return (gaps > 0 ? ReportText.count(gaps, "gap") : isKnown ? "no gaps" : "gaps not known") + ", "
      + (losses.isEmpty
        ? isKnown ? nothing : "losses not known" : ReportSection.Loss.text(losses) + " lost")
  }
}

/// An error, a loss, or missing data.
package struct ReportProblem: Hashable, Sendable {
  package enum Severity: String, Sendable, Comparable {
    case error, warning, note

    private var rank: Int {
      switch self {
      case .error: 0
      case .warning: 1
      case .note: 2
      }
    }

    package static func < (left: Severity, right: Severity) -> Bool { left.rank < right.rank }
  }

  package var severity: Severity
  package var text: String
  /// Whether the problem reports a loss.
  package var isLoss = false

  init(_ severity: Severity, _ text: String, isLoss: Bool = false) {
    self.severity = severity
    self.text = text
    self.isLoss = isLoss
  }
}

/// The part of a report on one device or one recording.
struct ReportSection: Sendable {
  /// Names and values under a heading.
  struct Facts: Sendable {
    var title: String
    var rows: [(name: String, value: String)] = []

    /// Adds a row if the value is not empty.
    mutating func add(_ name: String, _ value: String?) {
      if let value, !value.isEmpty { rows.append((name, value)) }
    }
  }

  struct Table: Sendable {
    var table: ReportTable
    /// Whether the table was computed from others.
    var isDerived = false
  }

  struct Chart: Sendable {
    enum Style: String, Sendable { case line, dots, steps }

    struct Series: Sendable {
      /// Index among the table's columns.
      var column: Int
      var label: String
      var isShown: Bool
    }

    var title: String
    var unit: String
    /// Index among the section's tables.
    var table: Int
    var style = Style.line
    /// How the range of the value axis is chosen.
    var axis = ValueAxis.Rule()
    var series: [Series]
  }

  /// A mark on the time axis; times are in nanoseconds since the Unix epoch.
  struct Mark: Hashable, Sendable {
    enum Kind: String, Sendable {
      /// A stretch without any samples while the recording ran, usually because of a lost link.
      case gap
      /// Data that was sent, or due, is known to be missing; the rest arrived.
      case loss
      /// One attribute or stream had no values for a while, which may be normal for it.
      case pause
      /// An event.
      case event
      /// The samples arrived, but were not good enough for a pulse.
      case rejected
    }

    var from: Int64
    var to: Int64
    var kind: Kind
    var text: String
    /// Amount that is missing, for a loss.
    var loss: Loss?
  }

  /// A number of lost items of one kind.
  struct Loss: Hashable, Sendable {
    enum Unit: String, CaseIterable, Sendable { case tick, sample, notification, packet, row }

    var count: Int
    var unit: Unit
  }

  struct Change: Hashable, Sendable {
    var time: Int64
    var text: String
  }

  struct Histogram: Sendable {
    var title: String
    var durations: LogLinearHistogram
  }

  var title: String
  /// Key results of the analysis.
  var figures: [Figure] = []
  var problems: [ReportProblem] = []
  var facts: [Facts] = []
  var tables: [Table] = []
  var charts: [Chart] = []
  var marks: [Mark] = []
  var changes: [Change] = []
  var histograms: [Histogram] = []
  var conversation = ATTConversation()
  /// Losses without a mark.
  var unmarkedLosses: [Loss] = []
  /// Whether a sensor's clock or numbering proves that nothing else is lost.
  var isNumbered = true
  /// Whether there is any record of losses and gaps.
  var knowsLosses = true
  /// Whether the losses without a mark include all samples that are missing according to the sensor's clock.
  /// If so, marked ticks are not counted again.
  var knowsMissing = false
  var unmarkedGaps = 0
  /// The stretch that plots show at first, and pictures show only; `nil` for all.
  var view: ClosedRange<Int64>?
  /// Start and end in nanoseconds since the Unix epoch, if they are known from other sources than the tables.
  var begins: Int64?
  var ends: Int64?
  /// Times on the sensor's own clock, one for each row, by table name.
  var sensorTimes: [(name: String, times: TableTimes)] = []
  /// The time axis shared with the other sections; `nil` for the section's own start and end.
  var sharedAxis: ClosedRange<Int64>?

  /// The time axis in use.
  var timeAxis: ClosedRange<Int64> { sharedAxis ?? start...max(start, end) }

  /// Earliest time in the section.
  var start: Int64 {
    (tables.compactMap(\.table.first) + [begins].compactMap(\.self)).min() ?? 0
  }

  /// Latest time in the section.
  var end: Int64 {
    (tables.filter { $0.table.count > 0 }.map(\.table.last) + [ends ?? .min, start]).max() ?? start
  }

  /// Adds a table, and a chart for each unit among its columns.
  mutating func add(_ table: ReportTable, title: String, style: Chart.Style = .line, isDerived: Bool = false)
  {
    tables.append(Table(table: table, isDerived: isDerived))
    var units: [String] = []
    for column in table.columns where column.values > 0 && !units.contains(column.unit) {
      units.append(column.unit)
    }
    for unit in units {
      let columns = table.columns.enumerated().filter { $1.unit == unit && $1.values > 0 }
      // Numbers without a unit are not comparable, so each gets its own chart.
      let groups = unit.isEmpty ? columns.map { [$0] } : [columns]
      for group in groups {
        let label = group.map(\.element.name).joined(separator: ", ")
        charts.append(
          Chart(
            title: group[0].offset == 0 ? title : "\(title): \(label)", unit: unit,
            table: tables.count - 1, style: style, axis: Self.axis(style, unit, group.map(\.element)),
            series: group.map { place, column in
              Chart.Series(
                column: place, label: column.name, isShown: Self.isShownFirst(column.name, of: table.name))
            }))
      }
    }
  }

  /// Moves recorded tables to their sensors' clocks. Call this after finding gaps, which depend on arrival
  /// times.
  mutating func placeOnSensorClocks() {
    for (name, times) in sensorTimes {
      for index in tables.indices where tables[index].table.name == name && !tables[index].isDerived {
        tables[index].table.place(at: times)
      }
    }
  }

  /// Chooses the axis rule: shares and flags span 0 to 1, and steps start at 0.
  private static func axis(
    _ style: Chart.Style, _ unit: String, _ columns: [ReportTable.Column]
  ) -> ValueAxis.Rule {
    let isFlag = unit.isEmpty && columns.allSatisfy { $0.smallest >= 0 && $0.largest <= 1 }
    if style == .steps { return ValueAxis.Rule(includes: 0...0, keepsAll: true) }
    var rule = ValueAxis.Rule(unit: unit)
    if isFlag || unit.hasPrefix("share") { rule.includes = 0...1 }
    return rule
  }

  /// Whether a column is shown initially: of the four light values, only the first, which is the signal.
  private static func isShownFirst(_ column: String, of table: String) -> Bool {
    !(["led ", "red "].contains(where: column.hasPrefix) && ["ppg", "spo2"].contains(table))
  }
}

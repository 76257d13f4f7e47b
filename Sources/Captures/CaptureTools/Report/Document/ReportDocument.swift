import BLEDissector
import Recording

/// What a report says, whatever it is written as: a page, a picture.
package struct ReportDocument: Sendable {
  package var title: String
  var subtitle = ""
  /// What concerns the whole, the worst first.
  package var problems: [ReportProblem] = []
  /// Of the whole file, where it is not of one section.
  var facts: [ReportSection.Facts] = []
  var sections: [ReportSection] = []

  /// Samples that it shows.
  package var sampleCount: Int {
    sections.reduce(0) { $0 + $1.tables.filter { !$0.isDerived }.reduce(0) { $0 + $1.table.count } }
  }
  /// All problems, in words.
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

  /// `no gaps, nothing lost`; `2 gaps, 26 ticks lost`; `gaps not known, losses not known`.
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

/// Something that went wrong, or is not there.
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
  /// Whether it tells that something was lost.
  package var isLoss = false

  init(_ severity: Severity, _ text: String, isLoss: Bool = false) {
    self.severity = severity
    self.text = text
    self.isLoss = isLoss
  }
}

/// What a report says of one device, or of one recording.
struct ReportSection: Sendable {
  /// Names and values under a heading.
  struct Facts: Sendable {
    var title: String
    var rows: [(name: String, value: String)] = []

    /// Adds a row, where there is a value.
    mutating func add(_ name: String, _ value: String?) {
      if let value, !value.isEmpty { rows.append((name, value)) }
    }
  }

  struct Table: Sendable {
    var table: ReportTable
    /// Whether it was made of others.
    var isDerived = false
  }

  struct Chart: Sendable {
    enum Style: String, Sendable { case line, dots, steps }

    struct Series: Sendable {
      /// Its place among the columns of the table.
      var column: Int
      var label: String
      var isShown: Bool
    }

    var title: String
    var unit: String
    /// Its place among the tables of the section.
    var table: Int
    var style = Style.line
    /// How its value axis is chosen.
    var axis = ValueAxis.Rule()
    var series: [Series]
  }

  /// Something on the time axis: nanoseconds since the Unix epoch.
  struct Mark: Hashable, Sendable {
    enum Kind: String, Sendable {
      /// A stretch in which nothing came though the recording ran: mostly a lost link.
      case gap
      /// Something that was sent, or was due, is known to be missing while all else came.
      case loss
      /// Nothing came of one attribute or stream for a while, which may be its way.
      case pause
      /// Something happened.
      case event
      /// Came, and was not good enough for a pulse.
      case rejected
    }

    var from: Int64
    var to: Int64
    var kind: Kind
    var text: String
    /// How much is missing, of a loss.
    var loss: Loss?
  }

  /// So much of something never came.
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
  /// What an analysis found of what people look for first.
  var figures: [Figure] = []
  var problems: [ReportProblem] = []
  var facts: [Facts] = []
  var tables: [Table] = []
  var charts: [Chart] = []
  var marks: [Mark] = []
  var changes: [Change] = []
  var histograms: [Histogram] = []
  var conversation = ATTConversation()
  /// Losses and gaps that have no mark.
  var unmarkedLosses: [Loss] = []
  /// Whether a sensor's clock or numbers prove that nothing else is lost.
  var isNumbered = true
  /// Whether anything says what was lost, and when nothing came.
  var knowsLosses = true
  /// Whether the losses without mark have all samples that are missing by the sensor's clock: then ticks that are marked are no
  /// further ones.
  var knowsMissing = false
  var unmarkedGaps = 0
  /// What plots show at first, and pictures at all; `nil`: everything.
  var view: ClosedRange<Int64>?
  /// Nanoseconds since the Unix epoch, as far as others than the tables tell it.
  var begins: Int64?
  var ends: Int64?
  /// Of tables by name, a time on the sensor's own clock for each row.
  var sensorTimes: [(name: String, times: TableTimes)] = []
  /// The time axis that it shares with the other sections; `nil`: from its own start to its own end.
  var sharedAxis: ClosedRange<Int64>?

  /// The time axis.
  var timeAxis: ClosedRange<Int64> { sharedAxis ?? start...max(start, end) }

  /// The first moment of all.
  var start: Int64 {
    (tables.compactMap(\.table.first) + [begins].compactMap(\.self)).min() ?? 0
  }

  /// The last moment of all.
  var end: Int64 {
    (tables.filter { $0.table.count > 0 }.map(\.table.last) + [ends ?? .min, start]).max() ?? start
  }

  /// Adds a table, and a chart for each unit that its columns have.
  mutating func add(_ table: ReportTable, title: String, style: Chart.Style = .line, isDerived: Bool = false)
  {
    tables.append(Table(table: table, isDerived: isDerived))
    var units: [String] = []
    for column in table.columns where column.values > 0 && !units.contains(column.unit) {
      units.append(column.unit)
    }
    for unit in units {
      let columns = table.columns.enumerated().filter { $1.unit == unit && $1.values > 0 }
      // Numbers without a unit have nothing in common.
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

  /// Puts recorded tables on the clocks of their sensors. Gaps are told by arrival: they come first.
  mutating func placeOnSensorClocks() {
    for (name, times) in sensorTimes {
      for index in tables.indices where tables[index].table.name == name && !tables[index].isDerived {
        tables[index].table.place(at: times)
      }
    }
  }

  /// Shares, and flags, span 0 to 1; steps begin at 0.
  private static func axis(
    _ style: Chart.Style, _ unit: String, _ columns: [ReportTable.Column]
  ) -> ValueAxis.Rule {
    let isFlag = unit.isEmpty && columns.allSatisfy { $0.smallest >= 0 && $0.largest <= 1 }
    if style == .steps { return ValueAxis.Rule(includes: 0...0, keepsAll: true) }
    var rule = ValueAxis.Rule(unit: unit)
    if isFlag || unit.hasPrefix("share") { rule.includes = 0...1 }
    return rule
  }

  /// Of the light's four numbers the first is the signal.
  private static func isShownFirst(_ column: String, of table: String) -> Bool {
    !(["led ", "red "].contains(where: column.hasPrefix) && ["ppg", "spo2"].contains(table))
  }
}

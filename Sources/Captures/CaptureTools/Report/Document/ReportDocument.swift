package import BLEDissector
import BLELinux
package import BLEPacketLog
import BLEWire
import JSONText
import Recording

/// Contents of a report, independent of the output format (page or picture).
package struct ReportDocument: Sendable {
  package var title: String
  var subtitle = ""
  /// Problems of the whole report, worst first.
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
  /// Whether data could not be read or was lost.
  package var hasErrors: Bool { allProblems.contains { $0.severity == .error } }
  /// Whether data could not be read.
  package var isIncomplete: Bool { allProblems.contains { $0.severity == .error && !$0.isLoss } }
  /// Whether data is known to be lost.
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
    return (gaps > 0 ? counted(gaps, "gap") : isKnown ? "no gaps" : "gaps not known") + ", "
      + (losses.isEmpty
        ? isKnown ? nothing : "losses not known" : ReportSection.Loss.text(losses) + " lost")
  }
}

/// Problem shown in a report: an error, a loss, or missing data.
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

/// Part of a report about one device or one recording.
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
    /// Whether the table was computed from other tables.
    var isDerived = false
  }

  struct Chart: Sendable {
    enum Style: String, Sendable { case line, dots, steps }

    struct Series: Sendable {
      /// Index of the column in the table.
      var column: Int
      var label: String
      var isShown: Bool
    }

    var title: String
    var unit: String
    /// Index of the table in the section.
    var table: Int
    var style = Style.line
    /// Rule for the range of the value axis.
    var axis = ValueAxis.Rule()
    var series: [Series]
  }

  /// Mark on the time axis. Times are in nanoseconds since the Unix epoch.
  struct Mark: Hashable, Sendable {
    enum Kind: String, Sendable {
      /// Period without any samples during the recording, usually because of a lost link.
      case gap
      /// Part of the data is known to be missing; other data arrived.
      case loss
      /// One attribute or stream had no values for a while. This can be normal.
      case pause
      /// An event.
      case event
      /// The samples arrived, but were not good enough for a pulse measurement.
      case rejected
    }

    var from: Int64
    var to: Int64
    var kind: Kind
    var text: String
    /// Amount of missing data, for a loss.
    var loss: Loss?
  }

  /// Number of lost items of one kind.
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
  /// Losses without a mark on the time axis.
  var unmarkedLosses: [Loss] = []
  /// Whether a sensor's clock or numbering proves that nothing else was lost.
  var isNumbered = true
  /// Whether losses and gaps were recorded.
  var knowsLosses = true
  /// Whether `unmarkedLosses` includes all samples that are missing according to the sensor's clock. Marked
  /// ticks are then not counted again.
  var knowsMissing = false
  var unmarkedGaps = 0
  /// Period that a page shows at first, and the only period that a picture shows; `nil` for the whole axis.
  var view: ClosedRange<Int64>?
  /// Recorded start in nanoseconds since the Unix epoch; `nil` if only the tables give a start.
  var begins: Int64?
  /// Recorded end in nanoseconds since the Unix epoch; `nil` if only the tables give an end.
  var ends: Int64?
  /// Times of each row on the sensor's own clock, by table name.
  var sensorTimes: [(name: String, times: TableTimes)] = []
  /// Time axis shared with the other sections; `nil` to use the section's own start and end.
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

  /// Adds a table, and one chart for each unit in its columns.
  mutating func add(_ table: ReportTable, title: String, style: Chart.Style = .line, isDerived: Bool = false)
  {
    tables.append(Table(table: table, isDerived: isDerived))
    var units: [String] = []
    for column in table.columns where column.values > 0 && !units.contains(column.unit) {
      units.append(column.unit)
    }
    for unit in units {
      let columns = table.columns.enumerated().filter { $1.unit == unit && $1.values > 0 }
      // Numbers without a unit are not comparable, so each column gets its own chart.
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

  /// Replaces the times of recorded tables by times on their sensors' clocks. Call this after finding gaps,
  /// which depend on arrival times.
  mutating func placeOnSensorClocks() {
    for (name, times) in sensorTimes {
      for index in tables.indices where tables[index].table.name == name && !tables[index].isDerived {
        tables[index].table.place(at: times)
      }
    }
  }

  /// Returns the rule of the value axis. Shares and flags span 0 to 1, and steps start at 0.
  private static func axis(
    _ style: Chart.Style, _ unit: String, _ columns: [ReportTable.Column]
  ) -> ValueAxis.Rule {
    let isFlag = unit.isEmpty && columns.allSatisfy { $0.smallest >= 0 && $0.largest <= 1 }
    if style == .steps { return ValueAxis.Rule(includes: 0...0, keepsAll: true) }
    var rule = ValueAxis.Rule(unit: unit)
    if isFlag || unit.hasPrefix("share") { rule.includes = 0...1 }
    return rule
  }

  /// Returns whether a column is shown initially. Of the four light values, only the first value is shown,
  /// because it is the signal.
  private static func isShownFirst(_ column: String, of table: String) -> Bool {
    !(["led ", "red "].contains(where: column.hasPrefix) && ["ppg", "spo2"].contains(table))
  }
}

extension ReportDocument {
  /// Reads a capture's directory, or a packet log of any supported format.
  ///
  /// - Parameters:
  ///   - title: title of the page; `nil` for the default.
  ///   - keys: keys of encrypted links in a sniffer's capture.
  ///   - progress: called from time to time.
  package static func read(
    _ path: String, title: String?, keys: [AirKey] = [], progress: (String) -> Void
  ) throws(ReportError) -> ReportDocument {
    var document: ReportDocument
    // A folder lists at least "." and ".."; a file lists no names.
    if Files.names(in: path).isEmpty {
      document = try log(path, keys, progress)
    } else {
      document = try captures(CaptureGroup.members(of: path), path, progress)
    }
    if let title { document.title = title }
    document.shareTimeAxis()
    let axis = document.sections.lazy.compactMap(\.sharedAxis).first
    let seconds = axis.map { Double($0.upperBound &- $0.lowerBound) / 1e9 } ?? 0
    document.subtitle = [
      axis.map(\.lowerBound).map { UTCText($0).iso }, "\(NumberText.fixed(seconds, 1)) s",
      document.sampleCount > 0 ? counted(document.sampleCount, "sample") : nil, path,
    ].compactMap(\.self).joined(separator: " · ")
    return document
  }

  /// Gives all sections the same time axis, so that simultaneous events are at the same position.
  private mutating func shareTimeAxis() {
    let timed = sections.indices.filter { sections[$0].start != 0 }
    guard let first = timed.map({ sections[$0].start }).min(),
      let last = timed.map({ sections[$0].end }).max()
    else { return }
    for index in timed { sections[index].sharedAxis = first...max(first, last) }
  }

  /// Reads each capture into a section. If there are several captures, a capture without content is reported
  /// as a problem.
  private static func captures(
    _ directories: [String], _ path: String, _ progress: (String) -> Void
  ) throws(ReportError) -> ReportDocument {
    var document = ReportDocument(title: CaptureGroup.name(path))
    for directory in directories {
      do throws(ReportError) {
        document.sections.append(try CaptureReport.section(directory, progress: progress))
      } catch {
        guard directories.count > 1 else { throw error }
        document.problems.append(ReportProblem(.error, "\(error)"))
      }
    }
    if directories.count == 1 { document.title = document.sections[0].title }
    return document
  }

  private static func log(
    _ path: String, _ keys: [AirKey], _ progress: (String) -> Void
  ) throws(ReportError) -> ReportDocument {
    let survey = try PacketSurvey.read(path, keeping: .samples, keys: keys, progress: progress)
    var document = ReportDocument(title: CaptureGroup.name(path))
    document.problems = survey.problems.sorted { $0.severity < $1.severity }
    document.sections = survey.devices.map { section($0, survey.drops) }
    if document.sections.count == 1 {
      document.sections[0].facts.insert(survey.facts, at: 0)
    } else {
      document.facts = [survey.facts]
    }
    if survey.devices.isEmpty {
      let what = survey.log.records == 0 ? "The log has no packets." : "The log has no connection."
      document.problems.append(ReportProblem(.warning, what))
    }
    return document
  }

  private static func section(
    _ device: PacketSurvey.Device, _ drops: [ReportSection.Mark]
  ) -> ReportSection {
    var section = ReportSection(title: device.title)
    section.begins = device.connections.map(\.startTime.nanoseconds).min()
    section.ends = device.connections.map(\.endTime.nanoseconds).max()
    section.facts = device.facts
    if let text = device.streams.knownByPayload.text {
      section.problems.append(ReportProblem(.note, ReportText.sentence(text)))
    }
    if device.streams.restarts > 0 {
      section.problems.append(
        SessionFacts.problem(restarts: device.streams.restarts, of: CyclingTables.tables[0].name))
    }
    for table in device.streams.tables {
      section.add(
        table, title: ReportText.title(table.name), style: table.name == "rr_intervals" ? .dots : .line)
    }
    let (samples, sources) = (device.streams.ringSamples, device.streams.sources)
    if !samples.isEmpty || !sources.isEmpty,
      let (report, findings) = try? CaptureAnalysis.findings(
        of: samples, clockSets: device.streams.clockSets, sources)
    {
      AnalysisSection.add(report, findings, to: &section)
    }
    let gaps = device.connectionMarks.filter { $0.kind == .gap }
    let ledger = device.streams.ledger { after, before in
      gaps.contains { $0.covers(after...max(after, before), within: SessionReport.gapDoubt) }
    }
    section.knowsMissing = true
    if ledger.received > 0 {
      var facts = ReportSection.Facts(title: "Received and lost")
      facts.add("Received", "\(ledger.received)")
      facts.rows += ledger.facts
      facts.add("Repeated", "\(ledger.repeated)")
      section.facts.append(facts)
      section.unmarkedLosses += ledger.losses
      section.problems += ledger.problems(lastMalformed: nil)
      section.isNumbered = ledger.isNumbered
    }
    section.add(device.updates, title: "Notifications and indications", style: .steps, isDerived: true)
    section.addIntervals(device.intervals)
    let (start, end) = (section.start, section.end)
    section.marks +=
      device.connectionMarks + device.pauses + drops.filter { $0.to >= start && $0.from <= end }
    section.widenGaps()
    section.placeOnSensorClocks()
    section.joinLossesToGaps()
    section.marks.sort { $0.from < $1.from }
    section.changes = device.changes
    section.histograms = device.histograms
    section.conversation = device.conversation
    return section
  }
}

extension ReportSection {
  /// Adds the connection interval as a stepped chart.
  mutating func addIntervals(_ steps: [(time: Int64, milliseconds: Double)]) {
    guard let last = steps.last else { return }
    var table = ReportTable("interval", [ReportTable.Column(name: "interval", unit: "ms", divisor: 100)])
    for step in steps { table.append(at: step.time, [step.milliseconds]) }
    // The last step lasts until the end.
    if end > last.time { table.append(at: end, [last.milliseconds]) }
    add(table, title: "Connection interval", style: .steps, isDerived: true)
  }
}

extension PacketSurvey {
  var facts: ReportSection.Facts {
    var facts = ReportSection.Facts(title: "Packet log")
    facts.add("Began", log.firstTime.map { UTCText($0.nanoseconds).iso })
    facts.add("Lasted", ReportText.seconds(log.duration))
    facts.add("Records", "\(log.records)")
    for count in log.packets.counts {
      facts.add(
        "\(count.type.name)",
        "\(count.sent) sent, \(count.received) received, \(counted(count.octets, "byte"))")
    }
    facts.add("Connections", "\(log.connections.count + log.omittedConnections)")
    facts.add("Lost by its writer", "\(log.drops)")
    return facts
  }
}

extension PacketSurvey.Device {
  var facts: [ReportSection.Facts] {
    connections.prefix(6).enumerated().map { index, connection in
      var facts = ReportSection.Facts(
        title: connections.count == 1 ? "Connection" : "Connection \(index + 1) of \(connections.count)")
      facts.add("With", StatisticsText.title(connection))
      facts.add("From", UTCText(connection.startTime.nanoseconds).iso)
      facts.add("Lasted", ReportText.seconds(connection.duration))
      facts.add("At first", connection.parameters.map { StatisticsText.text($0) })
      for (name, traffic) in [("Sent", connection.sent), ("Received", connection.received)] {
        facts.add(
          name,
          "\(counted(traffic.packets, "packet")), \(NumberText.fixed(connection.throughput(traffic), 0)) bytes a second"
        )
      }
      facts.add("End", StatisticsText.text(connection.end))
      if connection.malformed > 0 { facts.add("Malformed", "\(connection.malformed)") }
      return facts
    }
  }

  /// Table of the rate of value updates over time.
  var updates: ReportTable {
    var table = ReportTable(
      "updates", [ReportTable.Column(name: "updates", unit: "per second", divisor: 100)])
    for connection in connections {
      let timeline = connection.timeline
      let perSecond = 1e9 / Double(timeline.binWidth)
      var time = connection.startTime.nanoseconds
      for count in timeline.counts {
        table.append(at: time, [Double(count) * perSecond])
        time = time &+ timeline.binWidth
      }
      if !timeline.counts.isEmpty { table.append(at: time, [0]) }
    }
    return table
  }
}

/// Error that prevents a report.
package enum ReportError: Error, Sendable, CustomStringConvertible {
  /// The directory contains no part of a capture.
  case nothing(String, String)
  /// The file cannot be opened or is not a packet log.
  case unreadable(String)
  /// The task was cancelled.
  case interrupted
  /// No stream has this name. The array lists the existing names.
  case noStream(String, [String])
  /// The time is outside the recording. The range is from the start to the end of the recording.
  case outside(String, ClosedRange<Int64>)
  /// The requested period ends before it begins, or has no length.
  case noStretch(from: String, to: String)

  package var description: String {
    switch self {
    case .nothing(let directory, let why): "nothing to report in \(directory): \(why)"
    case .unreadable(let why): "\(why); give a capture's directory or a packet log"
    case .interrupted: "interrupted"
    case .noStream(let name, let names):
      names.isEmpty
        ? "no stream '\(name)': the capture has no streams"
        : "no stream '\(name)'; there are \(names.joined(separator: ", "))"
    case .outside(let option, let recording):
      "\(option) is outside the recording, which lasts "
        + "\(ReportText.length(ReportText.difference(recording.lowerBound, recording.upperBound))) from "
        + "\(UTCText(recording.lowerBound).iso) to \(UTCText(recording.upperBound).iso)"
    case .noStretch(let from, let to): "--from \(from) is not before --to \(to)"
    }
  }
}

/// Part of a report to show: some of the streams, in a period of time.
package struct ReportView: Sendable {
  /// Time in the form written by the user.
  package struct Moment: Sendable {
    package var text: String
    package var instant: PacketFilter.Instant

    /// Parses a time.
    ///
    /// - Returns: `nil` if the text is not a valid time.
    package init?(_ text: String) {
      guard let instant = PacketFilter.Instant(text) else { return nil }
      (self.text, self.instant) = (text, instant)
    }

    /// Returns the time in nanoseconds since the Unix epoch.
    ///
    /// - Parameter start: start of the recording, in nanoseconds since the Unix epoch.
    fileprivate func time(since start: Int64) -> Int64 {
      switch instant {
      case .absolute(let time): time
      case .fromStart(let offset): start.addingReportingOverflow(offset).partialValue
      }
    }
  }

  package var from: Moment?
  package var to: Moment?
  /// Names of tables, case-insensitive; empty for all tables.
  package var streams: [String]

  package init(from: Moment? = nil, to: Moment? = nil, streams: [String] = []) {
    (self.from, self.to, self.streams) = (from, to, streams)
  }
}

extension ReportDocument {
  /// Removes the plots of other streams, and sets the period to show. A picture shows only this period; a
  /// page shows it at first.
  ///
  /// - Throws: `ReportError`: `noStream`, `noStretch`, `outside`.
  package mutating func show(_ view: ReportView) throws(ReportError) {
    try keep(view.streams.map { $0.lowercased() })
    guard view.from != nil || view.to != nil, !sections.isEmpty else { return }
    var nearest: ReportError?
    var isShown = false
    for index in sections.indices {
      do throws(ReportError) {
        sections[index].view = try sections[index].stretch(view)
        isShown = true
      } catch {
        if case .noStretch = error { throw error }
        // The time may be within the recording of another device.
        nearest = nearest ?? error
        sections[index].charts = []
      }
    }
    if !isShown, let nearest { throw nearest }
    let shown = sections.first { $0.view != nil }
    if let shown, let stretch = shown.view {
      let start = shown.timeAxis.lowerBound
      let (from, to) = (stretch.lowerBound &- start, stretch.upperBound &- start)
      subtitle += " · \(ReportText.elapsed(from)) … \(ReportText.elapsed(to)) of it"
    }
  }

  private mutating func keep(_ names: [String]) throws(ReportError) {
    guard !names.isEmpty else { return }
    let known = sections.flatMap { section in section.charts.map { section.tables[$0.table].table.name } }
    for name in names where !known.contains(name) {
      throw .noStream(
        name, known.enumerated().filter { known.firstIndex(of: $1) == $0 }.map(\.element))
    }
    for index in sections.indices { sections[index].keep(names) }
  }
}

extension ReportSection {
  /// Removes the plots of all other tables. The time axis does not change.
  fileprivate mutating func keep(_ names: [String]) {
    (begins, ends) = (start, end)
    charts = charts.filter { names.contains(tables[$0.table].table.name) }
  }

  fileprivate func stretch(_ view: ReportView) throws(ReportError) -> ClosedRange<Int64> {
    let axis = timeAxis
    let from = view.from?.time(since: axis.lowerBound) ?? axis.lowerBound
    let to = view.to?.time(since: axis.lowerBound) ?? axis.upperBound
    if let first = view.from, let last = view.to, from >= to {
      throw .noStretch(from: first.text, to: last.text)
    }
    if let first = view.from, !(axis.lowerBound..<axis.upperBound).contains(from) || from >= end {
      throw .outside("--from \(first.text)", start...max(start, end))
    }
    if let last = view.to, to <= start { throw .outside("--to \(last.text)", start...max(start, end)) }
    return from...max(from, min(to, axis.upperBound))
  }
}

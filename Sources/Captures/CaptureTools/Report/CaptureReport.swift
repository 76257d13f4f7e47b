import BLEDissector
import BLELinux
import BLEWire
import JSONText
import Recording

/// Builds a report section from a capture's directory: tables, `session.json`, packet log, and results of an
/// analysis.
struct CaptureReport {
  private let directory: String
  private var section: ReportSection
  private var facts: SessionFacts?
  private var problems: [ReportProblem] = []

  /// Reads a capture into a section.
  ///
  /// - Throws: an error if there is nothing to show.
  static func section(
    _ directory: String, progress: (String) -> Void
  ) throws(ReportError) -> ReportSection {
    var report = CaptureReport(directory)
    let hasTables = try report.readTables(progress)
    let hasLog = report.readLog(progress)
    guard hasTables || hasLog || report.facts != nil else {
      throw .nothing(directory, report.problems.map(\.text).joined(separator: "; "))
    }
    progress("analysing")
    if hasTables { report.analyse() }
    return report.finished()
  }

  private init(_ directory: String) {
    self.directory = directory
    section = ReportSection(
      title: Files.absolute(directory)?.split(separator: "/").last.map(String.init) ?? directory)
  }

  // MARK: Tables

  private mutating func readTables(_ progress: (String) -> Void) throws(ReportError) -> Bool {
    readSession()
    let capture: RecordedCapture
    do throws(ConversionError) { capture = try RecordedCapture(directory) } catch {
      problems.append(ReportProblem(.error, "\(error)."))
      return false
    }
    problems += capture.problems.filter { !$0.hasPrefix("session.json") }.map {
      ReportProblem(.error, "\($0).")
    }
    problems += capture.leftOut.filter(Self.isRecorded).map { ReportProblem(.warning, "\($0).") }
    // The table of ticks repeats the rows of the other tables.
    let hasStreams = capture.tables.contains { $0.content == .samples }
    for table in capture.tables where table.content == .samples || !hasStreams {
      do throws(SystemError) { try read(table, of: capture, progress) } catch {
        problems.append(ReportProblem(.error, "\(error)."))
      }
    }
    return true
  }

  /// Returns whether to report a problem. Files of an analysis are not recorded tables, so their problems are
  /// not reported.
  private static func isRecorded(_ problem: String) -> Bool {
    !AnalysisTables.Table.allCases.contains { $0 != .ticks && problem.hasPrefix($0.fileName) }
  }

  private mutating func readSession() {
    do throws(SessionDocument.Problem) {
      let facts = SessionFacts(try SessionDocument.read(in: directory))
      problems += facts.problems
      self.facts = facts
    } catch {
      let what = SessionDocument.isMissing(in: directory) ? "there is no session.json" : "\(error)"
      problems.append(
        ReportProblem(
          .error, "\(what): device, times and losses of the recording are not known. The tables are shown."))
    }
  }

  private mutating func read(
    _ table: RecordedTable, of capture: RecordedCapture, _ progress: (String) -> Void
  ) throws(SystemError) {
    let reader = try capture.reader(table)
    var kept = ReportTable(table)
    while reader.next() {
      kept.append(reader.words)
      if reader.rows.isMultiple(of: 65_536) { progress("\(table.name): \(counted(reader.rows, "row"))") }
    }
    if let problem = reader.problem { problems.append(ReportProblem(.error, "\(problem).")) }
    if kept.count == 0, reader.problem == nil {
      problems.append(ReportProblem(.note, "\(table.fileName) has no rows."))
    }
    section.add(
      kept, title: ReportText.title(table.name), style: table.name == "rr_intervals" ? .dots : .line)
  }

  // MARK: Packets

  private mutating func readLog(_ progress: (String) -> Void) -> Bool {
    let names = Files.names(in: directory)
    let known = [facts?.packetLog, "packets.btsnoop", "packets.pcapng"].compactMap(\.self)
    guard let name = known.first(where: names.contains) else {
      problems.append(
        ReportProblem(
          .note, "There is no packet log: latencies and the ATT conversation are not known."))
      return false
    }
    let path = directory + "/" + name
    do throws(SystemError) { _ = try FileDescriptor.regularFile(path) } catch {
      problems.append(ReportProblem(.error, "\(error)."))
      return false
    }
    do throws(ReportError) {
      let survey = try PacketSurvey.read(path, keeping: .conversation, progress: progress)
      problems += survey.problems
      for device in survey.devices { take(device) }
      return !survey.devices.isEmpty
    } catch {
      problems.append(ReportProblem(.error, "\(error)."))
      return false
    }
  }

  private mutating func take(_ device: PacketSurvey.Device) {
    section.histograms += device.histograms
    section.conversation.append(device.conversation)
    if facts?.changes.isEmpty ?? true { section.changes += device.changes }
    if facts == nil { section.marks += device.connectionMarks }
  }

  // MARK: Analysis

  private mutating func analyse() {
    do throws(AnalysisError) {
      let (report, findings) = try CaptureAnalysis.findings(of: directory)
      AnalysisSection.add(report, findings, to: &section)
    } catch {
      problems.append(ReportProblem(.note, "Nothing was analysed: \(error)."))
    }
  }

  // MARK: Combining

  private func finished() -> ReportSection {
    var section = section
    if let facts {
      section.title = facts.title ?? section.title
      section.begins = facts.begins
      section.ends = facts.ends
      section.facts = facts.facts + section.facts
      section.marks += facts.marks
      section.unmarkedLosses += facts.ledger.losses
      section.isNumbered = facts.ledger.isNumbered || !facts.ledger.knowsMissing
      section.knowsMissing = facts.ledger.knowsMissing
      section.unmarkedGaps = facts.unlistedGaps
      section.changes += facts.changes.map { ReportSection.Change(time: $0.time, text: $0.text) }
      section.addIntervals(
        facts.changes.compactMap { change in change.intervalMilliseconds.map { (change.time, $0) } })
    }
    section.knowsLosses = facts?.knowsLosses ?? false
    if facts == nil { section.widenGaps() }
    section.placeOnSensorClocks()
    section.addPauses()
    section.addSilentEnd()
    section.joinLossesToGaps()
    section.facts.append(streams)
    if section.histograms.isEmpty {
      section.histograms = section.tables.filter { !$0.isDerived && $0.table.count > 1 }.map {
        ReportSection.Histogram(
          title: "\(ReportText.title($0.table.name)): from sample to sample", durations: $0.table.intervals)
      }
    }
    section.problems = (problems + section.problems).sorted { $0.severity < $1.severity }
    return section
  }

  private var streams: ReportSection.Facts {
    var facts = ReportSection.Facts(title: "Streams")
    for table in section.tables where !table.isDerived {
      facts.add(ReportText.title(table.table.name), Self.extent(table.table))
    }
    return facts
  }

  private static func extent(_ table: ReportTable) -> String {
    guard let rate = table.rate else { return counted(table.count, "sample") }
    return "\(counted(table.count, "sample")), \(NumberText.fixed(rate, 2)) a second on average"
  }
}

extension ReportSection {
  /// Maximum number of marked pauses per table.
  private static let pauseLimit = 1_000

  /// Marks unmarked periods without samples: as a gap if all streams pause, otherwise as a pause.
  fileprivate mutating func addPauses() {
    var pauses: [(range: Range<Int64>, tables: [String])] = []
    let streams = tables.filter { !$0.isDerived && $0.table.count > 1 }
    for table in streams {
      let name = ReportText.title(table.table.name)
      let ranges = table.table.pauses(limit: Self.pauseLimit)
      if ranges.count == Self.pauseLimit {
        problems.append(
          ReportProblem(
            .note, "Only the first \(counted(Self.pauseLimit, "pause")) of \(name) are marked and counted."))
      }
      for range in ranges where !isMarked(range) {
        // Streams that are sent together also pause together.
        if let place = pauses.firstIndex(where: { $0.range.overlaps(range) }) {
          if !pauses[place].tables.contains(name) { pauses[place].tables.append(name) }
        } else {
          pauses.append((range, [name]))
        }
      }
    }
    for pause in pauses {
      marks.append(
        Mark(
          from: pause.range.lowerBound, to: pause.range.upperBound,
          kind: pause.tables.count == streams.count ? .gap : .pause,
          text: "no data from \(pause.tables.joined(separator: ", ")); the cause is not recorded"))
    }
  }

  /// Marks a long time between the last sample and the end as a gap. The loss of a silent link may not have
  /// been detected.
  fileprivate mutating func addSilentEnd() {
    let streams = tables.filter { !$0.isDerived && $0.table.count > 1 }.map(\.table)
    guard let ends, let last = streams.map(\.last).max(),
      let step = streams.map(\.longestStep).min(), last < ends,
      ReportText.difference(last, ends) > max(Self.shortestSilence, step), !isMarked(last..<ends)
    else { return }
    marks.append(
      Mark(from: last, to: ends, kind: .gap, text: "no data until the recording ended"))
  }

  /// Minimum duration of such a silence, in nanoseconds. Ending a recording takes less time.
  private static let shortestSilence: Int64 = 2_000_000_000

  /// Returns whether a gap or loss covers most of a range.
  private func isMarked(_ range: Range<Int64>) -> Bool {
    marks.contains { mark in
      (mark.kind == .gap || mark.kind == .loss) && mark.covers(range.lowerBound...range.upperBound)
    }
  }
}

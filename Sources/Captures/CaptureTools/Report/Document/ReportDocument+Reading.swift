import BLEDissector
import BLELinux
package import BLEPacketLog
import BLEWire
import Recording

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
    // A folder lists at least two names ("." and ".."); a file lists no names.
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
      document.sampleCount > 0 ? ReportText.count(document.sampleCount, "sample") : nil, path,
    ].compactMap(\.self).joined(separator: " · ")
    return document
  }

  /// Gives all devices the same time axis, so that events at the same position happened at the same time.
  private mutating func shareTimeAxis() {
    let timed = sections.indices.filter { sections[$0].start != 0 }
    guard let first = timed.map({ sections[$0].start }).min(),
      let last = timed.map({ sections[$0].end }).max()
    else { return }
    for index in timed { sections[index].sharedAxis = first...max(first, last) }
  }

  /// Reads each capture into a section. One without content is a problem if there are several captures.
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
        "\(count.type.name)", "\(count.sent) sent, \(count.received) received, \(count.octets) bytes")
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
          "\(traffic.packets) packets, \(NumberText.fixed(connection.throughput(traffic), 0)) bytes a second"
        )
      }
      facts.add("End", StatisticsText.text(connection.end))
      if connection.malformed > 0 { facts.add("Malformed", "\(connection.malformed)") }
      return facts
    }
  }

  /// Rate of value updates over time.
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

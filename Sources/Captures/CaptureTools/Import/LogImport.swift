package import BLEDissector
import BLEHost
package import BLELinux
package import BLEPacketLog
import BLEStack
package import BLEWire
import ColmiRing
package import Recording
package import SensorSessions

/// Makes captures from a packet log, as if its devices had been recorded.
///
/// The log is read twice: first for connections and attribute types, then for the values. A single device
/// becomes one capture. Several devices become one capture each, in folders named after their addresses.
package struct LogImport {
  /// Error that prevents the import.
  package enum Failure: Error, Sendable, CustomStringConvertible {
    case unreadable(ReportError)
    case outputExists(String)
    /// The log has no readings of known sensors. The text describes its contents.
    case noReadings(String)
    case output(SystemError)
    case interrupted

    package var description: String {
      switch self {
      case .unreadable(let error): "\(error)"
      case .outputExists(let path): "\(path) already exists and is not empty; choose another --output"
      case .noReadings(let text): text
      case .output(let error): "\(error)"
      case .interrupted: "interrupted"
      }
    }
  }

  /// Capture of one device.
  package struct Capture: Sendable {
    package var directory: String
    package var report: SessionReport
  }

  package struct Outcome: Sendable {
    package var captures: [Capture] = []
    /// Descriptions of data that could not be read or written.
    package var problems: [String] = []
    /// Information about the log for the user, apart from errors.
    package var remarks: [String] = []
    /// Devices with attribute values in the log that belong to no known sensor.
    package var others: [LogDevice] = []
    package var packets = 0
  }

  package let log: String
  package let output: String
  package var knownDevices: KnownDevices?
  /// Keys of encrypted links in a sniffer's capture.
  package var keys: [AirKey] = []
  /// Calendar of a ring's days; `nil` to derive it from the host's setting of the ring's clock in the log.
  package var calendar: RingCalendar?
  /// Calendar until the host sets the ring's clock in the log.
  package var fallbackCalendar = RingCalendar.utc
  private let attributes: LogAttributes

  /// Prepares an import.
  ///
  /// - Parameters:
  ///   - log: path of a file of any supported format.
  ///   - output: folder to create; it must not exist or must be empty.
  ///   - attributes: attribute types specified by the user.
  package init(
    _ log: String, into output: String, attributes: [(handle: AttributeHandle, uuid: BluetoothUUID)] = []
  ) {
    self.log = log
    self.output = output
    self.attributes = LogAttributes(attributes)
  }

  package func run(progress: (String) -> Void = { _ in }) throws(Failure) -> Outcome {
    guard Files.names(in: output).allSatisfy({ $0 == "." || $0 == ".." }) else { throw .outputExists(output) }
    var outcome = Outcome()
    let (report, names, advertisers, omitted) = try survey(&outcome, progress)
    outcome.packets = report.records
    // The process ID makes the name unique.
    let draft = "\(output).\(ProcessFacts.ownID).partial"
    do throws(Failure) {
      try Self.output { () throws(SystemError) in
        try Files.removeTree(draft)
        try Files.createDirectory(draft)
      }
      var devices = ImportedDevices(report.connections.map { LogDevice($0) }, advertisers, in: draft) {
        ImportedStory(into: $0, calendar, fallback: fallbackCalendar)
      }
      var decoder = PacketDecoder(attributes)
      var advertised = AdvertisedDevices()
      let steps = report.clockSteps
      var next = 0
      _ = try read(progress) { record in
        while next < steps.count, record.index >= steps[next].index {
          next += 1
          devices.noteClockStep()
        }
        devices.note(cut: record)
        advertised.take(record) { devices.take($0, of: $1, isRepeated: $2) }
        decoder.decode(record) { devices.take($0) }
      }
      if omitted > 0 {
        outcome.problems.append("\(counted(omitted, "device is", "devices are")) left out: more than 64")
      }
      try finish(&devices, report, names, draft, &outcome)
    } catch {
      try? Files.removeTree(draft)
      throw error
    }
    return outcome
  }

  // MARK: First pass

  private func survey(
    _ outcome: inout Outcome, _ progress: (String) -> Void
  ) throws(Failure) -> (LogReport, [LogDevice: String], advertisers: [LogDevice], omitted: Int) {
    var survey = ImportSurvey(attributes)
    let (problem, timeline) = try read(progress) { survey.take($0) }
    if let problem { outcome.problems.append(problem) }
    for device in survey.devices {
      guard let address = device.address, let known = knownDevices?.device(at: address) else { continue }
      for service in known.discovery.database.services {
        for characteristic in service.characteristics {
          attributes.assume(
            characteristic.uuid, at: characteristic.valueHandle, of: device, by: .knownDevice)
        }
      }
    }
    survey.conclude()
    let (names, omitted, advertisers) = (survey.names, survey.omittedDevices.count, survey.advertisers)
    if advertisers.omittedCount > 0 {
      outcome.problems.append(
        "\(advertisers.omittedCount) advertised values are left out: of more than 64 devices")
    }
    var report = survey.finish()
    report.take(timeline)
    outcome.remarks = StatisticsText.clockSteps(report).map { "\(LogReader.name(of: log)): \($0)" }
    return (
      report, names.merging(advertisers.names) { told, _ in told }, advertisers.devices, omitted
    )
  }

  private func read(
    _ progress: (String) -> Void, _ body: (borrowing PacketRecord) -> Void
  ) throws(Failure) -> (problem: String?, timeline: LogTimeline) {
    do throws(ReportError) { return try LogFile.read(log, keys: keys, progress: progress, body) } catch {
      if case .interrupted = error { throw .interrupted }
      throw .unreadable(error)
    }
  }

  private static func output(_ body: () throws(SystemError) -> Void) throws(Failure) {
    do throws(SystemError) { try body() } catch { throw .output(error) }
  }

  // MARK: Finishing

  private func finish(
    _ devices: inout ImportedDevices, _ log: LogReport, _ names: [LogDevice: String], _ draft: String,
    _ outcome: inout Outcome
  ) throws(Failure) {
    let found = devices.all.filter { $0.value.hasReadings }
    outcome.others = devices.all.filter { !$0.value.hasReadings }.map(\.key)
    guard !found.isEmpty else { throw .noReadings(Self.nothing(in: self.log, log, devices.valued.count)) }
    for (device, var imported) in found {
      let links = log.connections.filter { LogDevice($0) == device }
      var report = Self.report(of: device, links, imported.spans)
      report.deviceName = names[device]
      report.lost.packetLog = log.drops + devices.unknownCuts(device)
      for (place, step) in log.clockSteps.enumerated() {
        var told = ClockStep(seenAt: step.seenAt, span: step.span)
        told.isElapsedKnown = false
        if place < imported.rowsBeforeSteps.count { told.rows = imported.rowsBeforeSteps[place] }
        if step.isCertain { report.clockSteps.append(told) } else { report.clockDoubts.append(told) }
      }
      report.clockStepCount = log.clockStepCount - log.clockSteps.count { !$0.isCertain }
      var origin = origin(device, devices.handles[device] ?? [], devices.ringAttributes(of: device))
      outcome.problems += imported.story.finish(&origin)
      report.origin = origin
      imported.finish(&report)
      if let failure = imported.failure {
        outcome.problems.append("\(imported.directory): \(failure)")
      }
      do throws(SystemError) {
        var folder = try CaptureDirectory(creating: imported.directory, report)
        try folder.finish(report)
      } catch { throw .output(error) }
      let name = found.count == 1 ? "" : String(imported.directory.dropFirst(draft.count))
      outcome.captures.append(Capture(directory: output + name, report: report))
    }
    try Self.output { () throws(SystemError) in
      if found.count == 1, let directory = found.first?.value.directory {
        try Files.rename(directory, to: output)
        try Files.removeTree(draft)
      } else {
        try Files.rename(draft, to: output)
      }
    }
  }

  private static func nothing(in log: String, _ report: LogReport, _ devices: Int) -> String {
    let what =
      report.records == 0
      ? "the log has no packets"
      : report.connections.isEmpty
        ? "the log has \(counted(report.records, "packet")) and no connection"
        : devices == 0
          ? "the log has \(counted(report.connections.count, "connection")) and no attribute values"
            + (report.connections.allSatisfy { $0.transport == .classic } ? ": only BR/EDR" : "")
          : "the log has attribute values of \(counted(devices, "device")), but none of a known "
            + "sensor; `ringtap log show` lists them; give the types of its attributes with --attributes"
    let cut = report.cut == 0 ? "" : "; the log's writer cut \(counted(report.cut, "packet")) short"
    return "\(LogReader.name(of: log)): nothing to import: \(what)\(cut)"
  }

  private func origin(
    _ device: LogDevice, _ handles: Set<AttributeHandle>, _ ringAttributes: Set<AttributeHandle>
  ) -> ImportOrigin {
    var origin = ImportOrigin(log: log.split(separator: "/").last.map(String.init) ?? log)
    for handle in handles.sorted() {
      guard let known = attributes.type(of: handle, device) else { continue }
      origin.attributes.append(
        ImportOrigin.Attribute(handle: handle, uuid: known.uuid, knownBy: known.source.rawValue))
    }
    for handle in ringAttributes.subtracting(handles).sorted() {
      origin.attributes.append(
        ImportOrigin.Attribute(
          handle: handle, uuid: RingUUID.commandNotify, knownBy: AttributeSource.payload.rawValue))
    }
    return origin
  }
}

/// Devices of a log during the second pass.
private struct ImportedDevices {
  /// Devices, in order of their first links.
  private(set) var all: [(key: LogDevice, value: ImportedDevice)] = []
  /// Attributes whose values were examined.
  private(set) var handles: [LogDevice: Set<AttributeHandle>] = [:]
  /// Devices with attribute values in the log, of known and unknown attributes.
  private(set) var valued: Set<LogDevice> = []
  private var readings: [LogDevice: LogReadings] = [:]
  private var places: [LogDevice: Int] = [:]

  /// Number of records that were truncated before the handle of their link.
  private var cutData = 0
  /// Number of truncated advertisements.
  private var cutAdvertisements = 0

  /// Devices whose advertised values are used. Devices with a connection are excluded, because a connection
  /// has more values.
  private var advertisers: Set<LogDevice> = []

  init(
    _ connected: [LogDevice], _ advertisers: [LogDevice], in directory: String,
    _ story: (String) -> ImportedStory
  ) {
    self.advertisers = Set(advertisers).subtracting(connected)
    for device in connected + advertisers where places[device] == nil {
      places[device] = all.count
      let folder = directory + "/" + device.fileName
      all.append((device, ImportedDevice(into: folder, story(folder))))
    }
  }

  /// Counts a truncated record of an unknown device.
  mutating func note(cut record: borrowing PacketRecord) {
    if record.isCutBeforeLink { cutData += 1 }
    switch record.type {
    case .event where record.isCut:
      let packet = record.packet
      if packet.count > 0, packet[0] != HCIEventCode.leMeta.rawValue { return }
      let reports: [LESubevent] = [.advertisingReport, .extendedAdvertisingReport]
      if packet.count > 2, !reports.contains(LESubevent(rawValue: packet[2])) { return }
      cutAdvertisements += 1
    case nil where record.isCutBeforeLink: cutAdvertisements += 1
    default: break
    }
  }

  /// Records that the clock was set or may have been set before the next packet.
  mutating func noteClockStep() {
    for place in all.indices { all[place].value.noteClockStep() }
  }

  /// Returns the number of truncated records that may belong to the device.
  func unknownCuts(_ device: LogDevice) -> Int { advertisers.contains(device) ? cutAdvertisements : cutData }

  /// Returns the attributes that were recognised only because their values are samples of a ring.
  func ringAttributes(of device: LogDevice) -> Set<AttributeHandle> {
    readings[device]?.ringAttributes ?? []
  }

  /// Processes an advertised value.
  mutating func take(_ reading: AdvertisedReading, of device: LogDevice, isRepeated: Bool) {
    guard advertisers.contains(device), let place = places[device] else { return }
    guard !isRepeated else { return all[place].value.leaveOut(.repeated) }
    switch reading {
    case .heartRate(let sample): all[place].value.take(sample)
    case .temperature(let sample): all[place].value.take(sample)
    }
  }

  mutating func take(_ packet: borrowing DecodedPacket) {
    guard packet.concernsReadings, let device = packet.device, let place = places[device] else { return }
    if packet.beginsLink {
      all[place].value.link += 1
      all[place].value.story.endLink()
    }
    all[place].value.story.take(packet)
    if packet.att?.value != nil { valued.insert(device) }
    if let att = packet.att, att.uuid != nil, let handle = att.handle, att.value != nil {
      handles[device, default: []].insert(handle)
    }
    readings[device, default: LogReadings()].take(packet, into: &all[place].value)
  }
}

extension LogDevice {
  /// File name for the device: `70-CB-0D-00-A1-B2`, or `hci0-handle-40` if the log lacks the address.
  var fileName: String {
    switch self {
    case .peer(let address): address.fileName
    case .link(let adapter, let handle):
      "hci\(adapter)-handle-\(String(handle.rawValue, radix: 16))"
    }
  }
}

extension LogImport {
  /// Returns a description of a device's links in the log, as a recording would contain it.
  fileprivate static func report(
    of device: LogDevice, _ links: [ConnectionReport], _ spans: [Int: ImportedDevice.Span]
  ) -> SessionReport {
    let readings = spans.values.map(\.first).min()
    let start = links.first?.startTime ?? readings ?? ReceiveTime(nanoseconds: 0)
    var report = SessionReport(
      device: device.address ?? .any, deviceName: nil, adapter: "hci\(links.first?.adapter ?? 0)",
      mode: "import", startedAt: start)
    report.endedAt = links.map(\.endTime).max() ?? spans.values.map(\.last).max()
    report.endReason = links.last.map { StatisticsText.text($0.end) } ?? "the log ended"
    report.linkCount = links.count
    report.firstSampleAt = readings
    report.lastSampleAt = spans.values.map(\.last).max()
    report.changes = links.flatMap(changes)
    if case .disconnected(let reason)? = links.last?.end { report.disconnectReason = reason }
    // The number of the log's first link is 1 if the log contains the start of the link, otherwise 0.
    let first = links.first?.origin == .middle ? 0 : 1
    for place in links.indices.dropLast() {
      var gap = SessionGap(end: end(links[place].end), lostAt: links[place].endTime)
      if case .disconnected(let reason) = links[place].end { gap.reason = reason }
      gap.lastSampleAt = spans[place + first]?.last
      gap.attempts = 1
      gap.connectedAt = links[place + 1].startTime
      gap.firstSampleAt = spans[place + 1 + first]?.first
      report.gapCount += 1
      if report.gaps.count < SessionReport.importedGaps.count { report.gaps.append(gap) }
    }
    return report
  }

  private static func end(_ end: ConnectionReport.End) -> BearerEnd {
    guard case .disconnected(let reason) = end else { return .linkLost(.unknown) }
    // 0x16: Connection Terminated By Local Host.
    return reason.rawValue == 0x16 ? .closedLocally : .linkLost(LinkLoss(reason))
  }

  private static func changes(of link: ConnectionReport) -> [LinkChange] {
    let first = link.parameters.map { LinkChange(time: link.startTime, value: .timing($0)) }
    return [first].compactMap(\.self)
      + link.changes.compactMap { change in
        switch change.value {
        case .timing(let parameters): LinkChange(time: change.time, value: .timing(parameters))
        case .phy(let transmit, let receive):
          LinkChange(
            time: change.time,
            value: .phy(transmit: LEPHY(rawValue: transmit), receive: LEPHY(rawValue: receive)))
        case .dataLength(let transmit, let receive):
          LinkChange(time: change.time, value: .dataLength(transmit: transmit, receive: receive))
        case .mtu, .refused: nil
        }
      }
  }
}

extension SessionReport {
  fileprivate static let importedGaps = Limit(
    4_096, "gaps of an imported log that are listed", by: .file, whenFull: "further ones are counted",
    counted: "`gapCount` in `session.json`")
}

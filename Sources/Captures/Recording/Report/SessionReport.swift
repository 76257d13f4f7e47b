public import BLEHost
public import BLELinux
public import BLEWire
public import ColmiRing
package import JSONText
public import SensorSessions

/// Contents of `session.json`, and of the last line of `capture --json`.
public struct SessionReport: Hashable, Sendable {
  /// Number of rows in one table's file.
  public struct Stream: Hashable, Sendable {
    public var name: String
    public var file: String
    public var samples: Int
    /// Number of samples without an optical reading; `nil` for a table without optical readings.
    public var dropouts: Int?
    /// Number of times the sensor's counters restarted or went back; `nil` for a table without counters.
    public var restarts: Int?
    /// Columns after the time column, for a user-defined sensor.
    package var columns: [RecordedColumn] = []
    /// Statistics of this stream's ticks; `nil` if it has no ticks.
    public var part: TickReport.Part?

    package init(name: String, file: String, samples: Int) {
      self.name = name
      self.file = file
      self.samples = samples
    }
  }

  /// Version of the file format of a capture. Tables of format 1 cannot be read; their `session.json`
  /// contains no version.
  public static let formatVersion = 2

  public var device: DeviceAddress
  public var deviceName: String?
  public var adapter: String
  public var mode: String
  /// Tuning of the receive thread; `nil` for the default.
  public var receiveThread: ReceiveThreadReport?
  public var startedAt: ReceiveTime
  public var endedAt: ReceiveTime?
  public var endReason: String?
  /// Time by which the wall clock was set forward during the recording, compared with the monotonic clock;
  /// `nil` if it was not set. All timestamps in the report are wall-clock times.
  public var clockStepNanoseconds: Int64?
  /// The first steps of the wall clock.
  public var clockSteps: [ClockStep] = []
  /// Total number of steps of the wall clock.
  public var clockStepCount = 0
  /// Pauses in an imported log during which its clock may have been set forward.
  package var clockDoubts: [ClockStep] = []
  /// Number of notifications received while recording.
  public var received = 0
  /// Number of notifications and ATT PDUs with an invalid format.
  public var malformed: Int {
    get { lost.malformed }
    set { lost.malformed = newValue }
  }
  /// Description of the last notification or PDU with an invalid format.
  public var lastMalformed: String?
  /// Number of complete frames that are not samples, such as replies of the ring.
  public var otherFrames = 0
  /// Number of samples that were received again, on another characteristic or with the same sensor time. Each
  /// sample is recorded once.
  public var repeated = 0
  /// Whether the sensor's samples have numbers or times. If not, losses before this machine cannot be
  /// detected.
  public private(set) var isNumbered = false
  /// Number of truncated notifications from which a sample could be recorded.
  package var usedCuts = 0
  /// Number of `TableAccount` values added.
  private var accountCount = 0
  /// Number of samples with timestamps from ringtap, because the kernel provided none.
  public var withoutKernelStamp = 0
  /// Number of unusable packets from the controller during the recording. Notifications may be missing. See
  /// `Adapter.faults`.
  public var adapterFaults = 0
  public var lost = Loss()
  /// Files that were removed during the recording.
  public var removedFiles: [RemovedFile] = []
  public var streams: [Stream] = []
  /// Summary of the sensor's clock.
  public var ticks: TickReport?
  /// File of the table of ticks.
  public var ticksFile: String?
  /// Number of rows of the table of ticks.
  public var tickRows = 0
  public var packetLog: String?
  /// ATT_MTU of the link.
  public var mtu: Int?
  /// Connection handle of the link.
  public var connectionHandle: ConnectionHandle?
  /// Size of the kernel's receive queue, in bytes of kernel memory.
  public var receiveBufferByteCount: Int?
  /// Requested parameters of the link.
  public var asked = LinkRequest()
  /// Changes of the link's parameters, in order; empty if the kernel does not report them.
  public var changes: [LinkChange] = []
  /// Gaps: periods without a link, in order. If there are very many, some are omitted.
  public var gaps: [SessionGap] = []
  /// Number of all gaps.
  public var gapCount = 0
  public var linkCount = 0
  /// Number of ATT requests on all links. Each request is a round trip.
  public var attRequests = 0
  /// Number of ignored responses from the device that matched no request.
  public var strayResponses = 0
  /// Number of ignored values on handles without a subscription.
  public var unsubscribedValues = 0
  /// Unusual behaviour of the device.
  public var remarks: [LinkRemark] = []
  /// Number of ATT requests before the first sample, for each link with samples, in order.
  public var requestsBeforeFirstSample: [Int] = []
  /// Number of links that reused the attributes discovered on an earlier link.
  public var linksWithKnownAttributes = 0
  /// Timestamp of the first sample.
  public var firstSampleAt: ReceiveTime?
  /// Timestamp of the last sample.
  public var lastSampleAt: ReceiveTime?
  /// Time from the start of the command to the first sample, in nanoseconds.
  public var timeToFirstSample: Int64?
  /// Reason for the end of the last link reported by the controller, if known.
  public var disconnectReason: HCIStatus?

  /// Packet log from which the capture was imported; `nil` if it was recorded.
  package var origin: ImportOrigin?

  package init(
    device: DeviceAddress, deviceName: String?, adapter: String, mode: String, startedAt: ReceiveTime
  ) {
    self.device = device
    self.deviceName = deviceName
    self.adapter = adapter
    self.mode = mode
    self.startedAt = startedAt
  }

  /// Copies the counts of a sample sink.
  mutating func take(_ counts: SampleCounts) {
    received = counts.received
    malformed += counts.malformed
    otherFrames = counts.other
    repeated = counts.repeated
    lost.sampleQueue = counts.dropped
  }

  /// Adds notifications that the writer of a replayed log truncated.
  mutating func takeCut(_ count: Int) {
    received += count
    lost.cut += count
  }

  /// Copies the number of rows in the files, and the summary of the sensor's clock.
  mutating func take(_ outcome: Recorder.Outcome, as format: TableFormat) {
    for place in streams.indices {
      streams[place].samples = outcome.rows[place]
      if place < outcome.dropouts.count { streams[place].dropouts = outcome.dropouts[place] }
      if place < outcome.restarts.count { streams[place].restarts = outcome.restarts[place] }
    }
    take(outcome.account)
    if let place = outcome.tickTable { tickRows = outcome.rows[place] }
    if let clock = outcome.clockSteps { (clockSteps, clockStepCount) = (clock.steps, clock.count) }
    if let ticks = outcome.ticks { take(ticks, as: format) }
  }

  /// Adds the samples without a row. Ticks that were due while there was no link do not count as lost.
  package mutating func take(_ account: TableAccount) {
    repeated += account.repeated
    lost.late += account.late
    lost.unplaced += account.unplaced
    isNumbered = account.isNumbered && (isNumbered || accountCount == 0)
    accountCount += 1
    let withoutLink = account.stretches.filter { stretch in gaps.contains { Self.covers($0, stretch) } }
    let missing = account.missing - withoutLink.reduce(0) { $0 + $1.count }
    let elsewhere =
      lost.kernelQueue + lost.sampleQueue + lost.cut - usedCuts + lost.malformed
      + (origin == nil ? 0 : lost.packetLog)
    lost.missing += account.missing(max(0, missing), besides: elsewhere)
  }

  /// Maximum distance between missing ticks and the gap that explains them, in nanoseconds. The last ticks
  /// before a gap are late because the link is failing. The first ticks after it are late because the new
  /// link catches up. Timestamps cannot show where among these late ticks the missing ticks belong
  /// (`TickClock`).
  package static let gapDoubt: Int64 = 500_000_000

  /// Returns whether more than half of a period is within a gap or close to it.
  private static func covers(_ gap: SessionGap, _ stretch: TableAccount.Stretch) -> Bool {
    let from = Double((gap.lastSampleAt ?? gap.lostAt).nanoseconds) - Double(gapDoubt)
    let to = Double((gap.firstSampleAt ?? gap.connectedAt ?? gap.lostAt).nanoseconds) + Double(gapDoubt)
    let (after, before) = (Double(stretch.after.nanoseconds), Double(stretch.before.nanoseconds))
    return 2 * (min(to, before) - max(from, after)) > before - after
  }

  /// Copies the summary of a ring's clock.
  package mutating func take(_ ticks: TickReport, as format: TableFormat) {
    self.ticks = ticks
    ticksFile = format.fileName(TickRows.table.name)
    for stream in RingStream.allCases {
      guard let place = streams.firstIndex(where: { $0.name == stream.name }) else { continue }
      streams[place].part = ticks.parts[stream.part.rawValue]
    }
  }

  /// Writes the report as one JSON object and a line feed.
  package func encode(into line: inout JSONLine) {
    line.object { line in
      line.member("formatVersion", Self.formatVersion)
      line.member("device") { line in
        line.member("address", device.description)
        line.member("addressType", device.type.name)
        if let deviceName { line.member("name", deviceName) }
      }
      line.member("adapter", adapter)
      line.member("mode", mode)
      receiveThread?.encode(into: &line)
      line.member("startedAtNs", startedAt)
      if let endedAt { line.member("endedAtNs", endedAt) } else { line.nullMember("endedAtNs") }
      line.optional("endReason", endReason)
      if let step = clockStepNanoseconds { line.member("clockStepMs", Self.milliseconds(step)) }
      encodeClockSteps(&line)
      line.member("received", received)
      line.member("malformed", malformed)
      if let lastMalformed { line.member("lastMalformed", lastMalformed) }
      line.member("otherFrames", otherFrames)
      line.member("repeated", repeated)
      line.member("numbered", isNumbered)
      line.member("withoutKernelStamp", withoutKernelStamp)
      line.member("adapterFaults", adapterFaults)
      line.member("lost") { line in lost.encode(into: &line) }
      encodeRemovedFiles(&line)
      line.member("streams") { line in
        for stream in streams {
          line.member(stream.name) { line in
            line.member("samples", stream.samples)
            if let dropouts = stream.dropouts { line.member("dropouts", dropouts) }
            if let restarts = stream.restarts { line.member("restarts", restarts) }
            line.member("file", stream.file)
            stream.encodeColumns(into: &line)
            stream.part?.encode(into: &line)
          }
        }
      }
      encodeTicks(&line)
      if let packetLog { line.member("packetLog", packetLog) }
      origin?.encode(into: &line)
      encodeGaps(&line)
      encodeConnection(&line)
    }
    line.endLine()
  }

  private func encodeClockSteps(_ line: inout JSONLine) {
    if clockStepCount > 0 {
      line.member("clockStepCount", clockStepCount)
      encode(clockSteps, as: "clockSteps", &line)
    }
    if !clockDoubts.isEmpty { encode(clockDoubts, as: "clockDoubts", &line) }
  }

  private func encode(_ steps: [ClockStep], as name: String, _ line: inout JSONLine) {
    line.key(name)
    line.array { line in
      for step in steps {
        line.object { line in
          line.member("seenAtNs", step.seenAt)
          line.member("stepMs", Self.milliseconds(step.span.nanoseconds))
          if !step.isElapsedKnown { line.member("elapsedKnown", false) }
          if !step.rows.isEmpty {
            line.member("rows") { line in
              for stream in streams {
                if let rows = step.rows[stream.name] { line.member(stream.name, rows) }
              }
            }
          }
        }
      }
    }
  }

  private func encodeTicks(_ line: inout JSONLine) {
    guard let ticks else { return }
    line.member("ticks") { line in
      if let ticksFile { line.member("file", ticksFile) }
      line.member("rows", tickRows)
      line.member("whole", ticks.wholeTicks)
      if let rate = ticks.rate { line.member("rateHz", rate) }
      line.member("clock") { line in ticks.encodeClock(into: &line) }
    }
  }

}

extension JSONLine {
  package mutating func member(_ name: String, _ body: (inout JSONLine) -> Void) {
    member(name, object: body)
  }

  fileprivate mutating func nullMember(_ name: String) {
    key(name)
    null()
  }

  fileprivate mutating func optional(_ name: String, _ text: String?) {
    key(name)
    if let text { value(text) } else { null() }
  }
}

extension SessionReport.Stream {
  fileprivate func encodeColumns(into line: inout JSONLine) {
    guard !columns.isEmpty else { return }
    line.member(
      "columns",
      array: { line in
        for column in columns {
          line.object { line in
            line.member("name", column.name)
            if !column.unit.isEmpty { line.member("unit", column.unit) }
            if case .float64(let decimals) = column.kind { line.member("decimals", decimals) }
          }
        }
      })
  }
}

/// Writes members about lost links in `session.json`: `links`, `firstSampleAtNs`, `lastSampleAtNs`,
/// `timeToFirstSampleMs`, `attRequests`, `medianRecoveryMs`, `unsubscribedValues` and `gaps`.
extension SessionReport {
  private func encodeGaps(_ line: inout JSONLine) {
    line.member("links", linkCount)
    if let time = firstSampleAt { line.member("firstSampleAtNs", time) }
    if let time = lastSampleAt { line.member("lastSampleAtNs", time) }
    if let timeToFirstSample { line.member("timeToFirstSampleMs", Self.milliseconds(timeToFirstSample)) }
    if let median = medianRecoveryNanoseconds {
      line.member("medianRecoveryMs", Self.milliseconds(median))
    }
    line.member("attRequests") { line in
      line.member("total", attRequests)
      line.member(
        "beforeFirstSample",
        array: { line in for count in requestsBeforeFirstSample { line.value(count) } })
      line.member("linksWithKnownAttributes", linksWithKnownAttributes)
      line.member("strayResponses", strayResponses)
    }
    line.member("unsubscribedValues", unsubscribedValues)
    if !remarks.isEmpty {
      line.member("remarks", array: { line in for remark in remarks { line.value("\(remark)") } })
    }
    line.member("gapCount", gapCount)
    line.member("gaps", array: { line in for gap in gaps { line.object { encode(gap, &$0) } } })
  }

  private func encode(_ gap: SessionGap, _ line: inout JSONLine) {
    line.member("cause", "\(gap.end)")
    if let reason = gap.reason { line.member("reason", reason) }
    if let time = gap.lastSampleAt { line.member("lastSampleAtNs", time) }
    line.member("lostAtNs", gap.lostAt)
    if gap.pause > .zero {
      line.member("pauseMs", Int(gap.pause / .milliseconds(1)))
      line.member("shortLinks", gap.shortLinks)
    }
    line.member("attempts", gap.attempts)
    line.member(
      "failures",
      array: { line in
        for failure in gap.failures {
          line.object { line in
            line.member("timeNs", failure.time)
            line.member("why", "\(failure.error)")
            if let reason = failure.reason { line.member("reason", reason) }
          }
        }
      })
    if let time = gap.connectedAt { line.member("connectedAtNs", time) }
    if let time = gap.firstSampleAt { line.member("firstSampleAtNs", time) }
    if let count = gap.requestsBeforeFirstSample { line.member("attRequests", count) }
    if let recovery = recoveryNanoseconds(gap) { line.member("recoveryMs", Self.milliseconds(recovery)) }
    if let length = lengthNanoseconds(gap) { line.member("lengthMs", Self.milliseconds(length)) }
  }

  /// Converts nanoseconds to milliseconds, rounded to a microsecond.
  static func milliseconds(_ nanoseconds: Int64) -> Double {
    (Double(nanoseconds) / 1000).rounded() / 1000
  }
}

/// Computes durations of gaps in nanoseconds, without the steps of the wall clock.
extension SessionReport {
  /// Returns the time from the last sample before a gap to the first sample after it, in nanoseconds; `nil`
  /// if either sample is missing.
  package func lengthNanoseconds(_ gap: SessionGap) -> Int64? {
    guard let start = gap.lastSampleAt, let end = gap.firstSampleAt else { return nil }
    return elapsed(from: start, to: end)
  }

  /// Returns the time from a loss to the first new sample, in nanoseconds; `nil` without a new sample, or if
  /// samples have the timestamps of a log.
  private func recoveryNanoseconds(_ gap: SessionGap) -> Int64? {
    gap.firstSampleAt.map { elapsed(from: gap.lostAt, to: $0) }.flatMap { $0 < 0 ? nil : $0 }
  }

  /// Median time from a loss to the first new sample, in nanoseconds; `nil` if no gap has ended.
  package var medianRecoveryNanoseconds: Int64? {
    let sorted = gaps.compactMap(recoveryNanoseconds).sorted()
    return sorted.isEmpty ? nil : sorted[sorted.count / 2]
  }

  /// Returns the time elapsed between two wall-clock times in nanoseconds, without the steps of the clock
  /// between them. `end` is later than `start`.
  ///
  /// A clock that was set back shows the same times twice. For `start`, the first occurrence of the time is
  /// used; for `end`, the first occurrence that is not before `start`.
  private func elapsed(from start: ReceiveTime, to end: ReceiveTime) -> Int64 {
    // Periods between the steps of the clock, and the clock's offset from its setting at the start.
    var settings: [(times: ClosedRange<Int64>, offset: Int64)] = []
    var (first, offset) = (min(startedAt, start).nanoseconds, 0 as Int64)
    for step in clockSteps where step.isElapsedKnown {
      let last = step.seenAt.nanoseconds &- step.span.nanoseconds
      settings.append((first...max(first, last), offset))
      offset &+= step.span.nanoseconds
      first = step.seenAt.nanoseconds
    }
    settings.append((first...Int64.max, offset))
    let before = settings.firstIndex { $0.times.contains(start.nanoseconds) } ?? 0
    let after =
      settings.indices[before...].first {
        settings[$0].times.contains(end.nanoseconds)
          && ($0 > before || end >= start)
      } ?? settings.count - 1
    return (end - start).nanoseconds &- (settings[after].offset &- settings[before].offset)
  }
}

extension JSONLine {
  mutating func member(_ name: String, _ reason: HCIStatus) {
    member(name) { line in
      line.member("code", reason.rawValue)
      line.member("name", reason.name)
    }
  }
}

extension SessionReport {
  /// Copies the properties of the links from a session that has ended.
  mutating func take(_ session: DeviceSession) async {
    let statistics = await session.statistics
    malformed = statistics.malformed
    lastMalformed = statistics.lastMalformed?.description
    withoutKernelStamp = statistics.withoutKernelStamp
    lost.kernelQueue = statistics.kernelQueueDrops
    asked = session.plan.request
    gaps = await session.gaps
    gapCount = await session.gapCount
    linkCount = await session.linkCount
    attRequests = statistics.requests
    strayResponses = statistics.strayResponses
    unsubscribedValues = statistics.unsubscribed
    remarks = await session.remarks
    firstSampleAt = await session.firstSampleAt
    lastSampleAt = await session.lastSampleAt
    fill(await session.links)
  }

  private mutating func fill(_ links: [DeviceSession.LinkSummary]) {
    // The same parameters are requested on each link, so repeated refusals are omitted.
    for change in links.flatMap(\.changes) {
      if case .refused = change.value, changes.contains(where: { $0.value == change.value }) { continue }
      changes.append(change)
    }
    requestsBeforeFirstSample = links.compactMap(\.requestsBeforeFirstSample)
    linksWithKnownAttributes = links.count(where: \.usedEarlierDiscovery)
    guard let last = links.last else { return }
    mtu = last.mtu
    connectionHandle = last.handle
    receiveBufferByteCount = last.receiveBufferByteCount
    disconnectReason = last.disconnectReason
  }
}

/// Tuning of a receive thread, for `session.json` and `ringtap bench`, because it affects measurements.
public struct ReceiveThreadReport: Hashable, Sendable, CustomStringConvertible {
  public var tuning: LoopTuning
  /// Whether the memory of the process was locked.
  public var locksMemory: Bool

  /// Reads the tuning of a loop.
  ///
  /// - Returns: `nil` if the tuning is the default.
  public init?(_ loop: EventLoop) {
    guard !loop.tuning.isDefault else { return nil }
    (tuning, locksMemory) = (loop.tuning, loop.locksMemory)
  }

  public var description: String {
    var parts: [String] = []
    if tuning.spinMicroseconds > 0 { parts.append("polls for \(tuning.spinMicroseconds) µs") }
    if let processor = tuning.processor { parts.append("on processor \(processor)") }
    if let priority = tuning.realTimePriority {
      parts.append(
        "SCHED_FIFO \(priority), memory " + (locksMemory ? "resident" : "not locked (CAP_IPC_LOCK)"))
    }
    return parts.joined(separator: ", ")
  }

  /// Writes the member `receiveThread`.
  package func encode(into line: inout JSONLine) {
    line.member("receiveThread") { line in
      if tuning.spinMicroseconds > 0 { line.member("spinMicroseconds", tuning.spinMicroseconds) }
      if let processor = tuning.processor { line.member("processor", processor) }
      if let priority = tuning.realTimePriority {
        line.member("realTimePriority", priority)
        line.member("locksMemory", locksMemory)
      }
    }
  }
}

extension SessionReport {
  mutating func takeTuning(of loop: EventLoop) { receiveThread = ReceiveThreadReport(loop) }
}

extension TickReport {
  /// Writes the members of `clock`.
  package func encodeClock(into line: inout JSONLine) {
    line.member("residualRmsNs", clock.residual)
    line.member("meanLatenessNs", clock.meanLateness)
    line.member("earliestNs", clock.earliest)
    line.member("latestNs", clock.latest)
    if let share = clock.rateUncertainty { line.member("rateUncertaintyPpm", share * 1e6) }
    if let nanoseconds = clock.offsetUncertainty { line.member("offsetUncertaintyNs", nanoseconds) }
    line.member("missingTicks", clock.missing)
    if let ticks = clock.missingAtMost { line.member("missingTicksAtMost", ticks) }
    line.member("linkTooSlow", clock.isLinkTooSlow)
    line.member("gaps", clock.gaps)
    line.member("longestGapTicks", clock.longestGap)
    line.member("restarts", clock.restarts)
    line.key("firstGaps")
    line.array { line in
      for gap in gaps {
        line.object { line in
          line.member("afterNs", gap.after)
          line.member("beforeNs", gap.before)
          line.member("ticks", gap.ticks)
        }
      }
    }
  }
}

extension TickReport.Part {
  /// Writes the members of a part, without the name of its stream.
  package func encode(into line: inout JSONLine) {
    guard samples > 0 else { return }
    if let rate { line.member("rateHz", rate) }
    line.member("residualRmsNs", residual)
    line.member("residualP99Ns", residualP99)
    // Omit the number if it is unknown whether further samples are missing.
    if !mayLackMore { line.member("missing", missing) }
  }
}

extension SessionReport {
  /// Writes the member `removedFiles` of `session.json`, if there are any removed files.
  private func encodeRemovedFiles(_ line: inout JSONLine) {
    guard !removedFiles.isEmpty else { return }
    line.member(
      "removedFiles",
      array: { line in
        for file in removedFiles {
          line.object { line in
            line.member("file", file.name)
            if file.change == .cut { line.member("change", file.change.rawValue) }
            line.member("noticedAtNs", file.noticedAt)
            line.member("rows", file.rows)
          }
        }
      })
  }
}

/// Member `importedFrom` of `session.json`: the packet log from which a capture was imported.
package struct ImportOrigin: Hashable, Sendable {
  /// Attribute whose values were imported, and how its type was determined.
  package struct Attribute: Hashable, Sendable {
    package var handle: AttributeHandle
    package var uuid: BluetoothUUID
    /// Source of the attribute's type: `file`, `discovery`, `knownDevice` or `payload`.
    package var knownBy: String

    package init(handle: AttributeHandle, uuid: BluetoothUUID, knownBy: String) {
      self.handle = handle
      self.uuid = uuid
      self.knownBy = knownBy
    }
  }

  /// File name of the log.
  package var log: String
  package var attributes: [Attribute] = []
  /// Number of a ring's messages by kind, or by command if the kind is unknown.
  package var messages: [(name: String, count: Int)] {
    counts.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
  }
  package var counts: [String: Int] = [:]

  package init(log: String) { self.log = log }

  func encode(into line: inout JSONLine) {
    line.member("importedFrom") { line in
      line.member("log", log)
      line.member(
        "attributes",
        array: { line in
          for attribute in attributes {
            line.object { line in
              line.member("handle", attribute.handle.rawValue)
              line.member("uuid", attribute.uuid.description)
              line.member("knownBy", attribute.knownBy)
            }
          }
        })
      guard !counts.isEmpty else { return }
      line.member("messages") { line in for (name, count) in messages { line.member(name, count) } }
    }
  }
}

/// File of a recording that was removed, replaced, truncated or moved out of its directory during the
/// recording.
public struct RemovedFile: Hashable, Sendable {
  /// Kind of change to the file.
  public enum Change: String, Hashable, Sendable {
    /// Removed, replaced or moved away.
    case removed
    /// Truncated, as by logrotate's `copytruncate`.
    case cut
  }

  /// Name of the file in the capture's directory.
  public let name: String
  public let change: Change
  /// Time at which the change was detected, about a second after the last write to the file.
  public let noticedAt: ReceiveTime
  /// Number of lost rows or packets: written before the removal or received afterwards.
  public internal(set) var rows = 0

  init(name: String, change: Change, noticedAt: ReceiveTime) {
    self.name = name
    self.change = change
    self.noticedAt = noticedAt
  }
}

/// Files whose removal was detected during a recording.
public struct FileRemoval: Hashable, Sendable {
  /// Files that can still be written.
  public enum Rest: Hashable, Sendable {
    case others
    /// No files are left, so the recording ends.
    case nothing
  }

  public let files: [RemovedFile]
  public let leaves: Rest

  /// Returns the message for the user when the removal is detected.
  public func text(in directory: String) -> String {
    switch leaves {
    case .nothing: "\(directory) was removed, and its recording is lost; the recording ends"
    case .others:
      Self.names(files, directory) + ", and their contents are lost; the other files continue"
    }
  }

  private static func names(_ files: [RemovedFile], _ directory: String) -> String {
    let changes = Set(files.map(\.change))
    let what =
      changes == [.removed]
      ? "removed or moved away" : changes == [.cut] ? "cut short" : "removed, moved away or cut short"
    return files.map { "\(directory)/\($0.name)" }.joined(separator: ", ")
      + (files.count == 1 ? " was " : " were ") + what
  }

  /// Returns the message for the user at the end of the recording.
  static func text(_ files: [RemovedFile], in directory: String) -> String {
    names(files, directory) + " during the recording; lost with "
      + (files.count == 1 ? "it: " : "them: ") + files.map { "\($0.rows)" }.joined(separator: ", ")
      + " rows or packets"
  }
}

public import BLEHost
public import BLEWire
public import ColmiRing
package import JSONText
public import SensorSessions

/// The contents of `session.json`, which are also the last line of `capture --json`.
public struct SessionReport: Hashable, Sendable {
  /// Number of samples in one table's file.
  public struct Stream: Hashable, Sendable {
    public var name: String
    public var file: String
    public var samples: Int
    /// Samples without a reading of the light; `nil` if this does not apply.
    public var dropouts: Int?
    /// Number of times that the sensor's counters restarted or went back; `nil` for a table without counters.
    public var restarts: Int?
    /// Columns after the time, of a user-defined sensor.
    package var columns: [RecordedColumn] = []
    /// Statistics of this stream's ticks; `nil` if it has no ticks.
    public var part: TickReport.Part?

    package init(name: String, file: String, samples: Int) {
      self.name = name
      self.file = file
      self.samples = samples
    }
  }

  /// Version of a capture's file format. Tables of format 1, whose `session.json` states no version, cannot be
  /// read.
  public static let formatVersion = 2

  public var device: DeviceAddress
  public var deviceName: String?
  public var adapter: String
  public var mode: String
  /// Tuning of the receive thread, if not the default.
  public var receiveThread: ReceiveThreadReport?
  public var startedAt: ReceiveTime
  public var endedAt: ReceiveTime?
  public var endReason: String?
  /// How far the wall clock was set forward during the recording, relative to the monotonic clock; `nil` if
  /// it was not set. All timestamps here use the wall clock.
  public var clockStepNanoseconds: Int64?
  /// The first steps of the wall clock, and the total number of steps.
  public var clockSteps: [ClockStep] = []
  public var clockStepCount = 0
  /// Pauses in an imported log during which its clock may have been set forward.
  package var clockDoubts: [ClockStep] = []
  /// Notifications that arrived while recording.
  public var received = 0
  /// Notifications and ATT PDUs with an invalid format.
  public var malformed: Int {
    get { lost.malformed }
    set { lost.malformed = newValue }
  }
  /// Description of the last notification or PDU with an invalid format.
  public var lastMalformed: String?
  /// Complete frames that are not samples: replies of the ring.
  public var otherFrames = 0
  /// Samples that were received again, on another characteristic or with the same sensor time; each is
  /// recorded once.
  public var repeated = 0
  /// Whether the sensor's samples have numbers or times. Without them, losses before this machine cannot be
  /// detected.
  public internal(set) var isNumbered = false
  /// Notifications that a log's writer truncated, but from which a sample was recorded.
  package var usedCuts = 0
  /// Number of accounts added.
  private var accountCount = 0
  /// Samples timestamped by ringtap because the kernel provided no timestamp.
  public var withoutKernelStamp = 0
  /// Unusable packets from the controller during the recording: notifications may be missing. See
  /// `Adapter.faults`.
  public var adapterFaults = 0
  public var lost = Loss()
  /// Files that were removed during the recording.
  public var removedFiles: [RemovedFile] = []
  public var streams: [Stream] = []
  /// Findings about the sensor's clock, and the file of the table of ticks.
  public var ticks: TickReport?
  public var ticksFile: String?
  /// Number of rows in that file.
  public var tickRows = 0
  public var packetLog: String?
  /// ATT_MTU of the link, and its connection handle.
  public var mtu: Int?
  public var connectionHandle: ConnectionHandle?
  /// Size of the kernel's receive queue, in bytes of kernel memory.
  public var receiveBufferByteCount: Int?
  /// Requested parameters of the link.
  public var asked = LinkRequest()
  /// Changes of the link's parameters, in order; empty if the kernel does not report them.
  public var changes: [LinkChange] = []
  /// Times without a link, in order, and the numbers of gaps and links. If there are very many gaps, not all
  /// are kept.
  public var gaps: [SessionGap] = []
  public var gapCount = 0
  public var linkCount = 0
  /// ATT requests over all links; each is a round trip.
  public var attRequests = 0
  /// Responses from the device that matched no request. They were ignored.
  public var strayResponses = 0
  /// Values received on handles without a subscription. They were ignored.
  public var unsubscribedValues = 0
  /// Unusual behaviour of the device.
  public var remarks: [LinkRemark] = []
  /// ATT requests of each link before its first sample, in order, without links that had no samples.
  public var requestsBeforeFirstSample: [Int] = []
  /// Number of links that reused the attributes discovered on an earlier link.
  public var linksWithKnownAttributes = 0
  /// Timestamps of the first and the last sample.
  public var firstSampleAt: ReceiveTime?
  public var lastSampleAt: ReceiveTime?
  /// Time from the start of the command to the first sample, in nanoseconds.
  public var timeToFirstSample: Int64?
  /// The controller's reason for the end of the last link, if known.
  public var disconnectReason: HCIStatus?

  /// The packet log that the capture was imported from; `nil` if it was recorded.
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

  /// Copies the counts of a sink.
  mutating func take(_ counts: SampleCounts) {
    received = counts.received
    malformed += counts.malformed
    otherFrames = counts.other
    repeated = counts.repeated
    lost.sampleQueue = counts.dropped
  }

  /// Adds the number of notifications that the writer of a replayed log truncated.
  mutating func takeCut(_ count: Int) {
    received += count
    lost.cut += count
  }

  /// Copies the number of rows in the files, and the findings about the sensor's clock.
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

  /// Adds samples without a row. Ticks that were due while there was no link are not counted as lost.
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

  /// Maximum distance of missing ticks from a gap, in nanoseconds. The last ticks before a gap are late on a
  /// failing link; the first ones after it are late while the new link catches up. Timestamps cannot show
  /// which of them follow the missing ticks (`TickClock`).
  package static let gapDoubt: Int64 = 500_000_000

  /// Whether more than half of a stretch is in a gap or close to it.
  private static func covers(_ gap: SessionGap, _ stretch: TableAccount.Stretch) -> Bool {
    let from = Double((gap.lastSampleAt ?? gap.lostAt).nanoseconds) - Double(gapDoubt)
    let to = Double((gap.firstSampleAt ?? gap.connectedAt ?? gap.lostAt).nanoseconds) + Double(gapDoubt)
    let (after, before) = (Double(stretch.after.nanoseconds), Double(stretch.before.nanoseconds))
    return 2 * (min(to, before) - max(from, after)) > before - after
  }

  /// Copies the findings about a ring's clock.
  package mutating func take(_ ticks: TickReport, as format: TableFormat) {
    self.ticks = ticks
    ticksFile = format.fileName(TickRows.table.name)
    for stream in RingStream.allCases {
      guard let place = streams.firstIndex(where: { $0.name == stream.name }) else { continue }
      streams[place].part = ticks.parts[stream.part.rawValue]
    }
  }

  /// Encodes the report as one JSON object and a line feed.
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

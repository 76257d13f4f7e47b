public import BLEHost
public import BLEWire
public import ColmiRing
package import JSONText
public import SensorSessions

/// Everything `session.json` says; also the last line of `capture --json`.
public struct SessionReport: Hashable, Sendable {
  /// Samples of one table that are in its file.
  public struct Stream: Hashable, Sendable {
    public var name: String
    public var file: String
    public var samples: Int
    /// Those without a reading of the light; `nil` for what has none.
    public var dropouts: Int?
    /// Times that the sensor's counts began anew or went back; `nil` for a table without counts.
    public var restarts: Int?
    /// Those behind the time, of a sensor that a program described itself.
    package var columns: [RecordedColumn] = []
    /// Its share of the ticks; `nil` for what does not come in ticks.
    public var part: TickReport.Part?

    package init(name: String, file: String, samples: Int) {
      self.name = name
      self.file = file
      self.samples = samples
    }
  }

  /// Of what a capture's directory has in it: 1, which no file names, had other columns, 0 for a dropout, and integers for
  /// nanoseconds since the Unix epoch. See `OldTables`.
  public static let formatVersion = 2

  public var device: DeviceAddress
  public var deviceName: String?
  public var adapter: String
  public var mode: String
  /// How the receive thread got at its processor, where anything was asked for.
  public var receiveThread: ReceiveThreadReport?
  public var startedAt: ReceiveTime
  public var endedAt: ReceiveTime?
  public var endReason: String?
  /// By how much the wall clock, whose stamps all times here are, was set forward meanwhile, beside the clock that is
  /// never stepped; `nil` where it went on as it should.
  public var clockStepNanoseconds: Int64?
  /// Each time at which it was set, of the first ones, and how many there were.
  public var clockSteps: [ClockStep] = []
  public var clockStepCount = 0
  /// Pauses of an imported log that may as well be times at which its clock was set forward.
  package var clockDoubts: [ClockStep] = []
  /// Notifications that arrived while recording.
  public var received = 0
  /// Notifications and ATT PDUs that broke their format.
  public var malformed: Int {
    get { lost.malformed }
    set { lost.malformed = newValue }
  }
  /// The last of these, in words.
  public var lastMalformed: String?
  /// Whole frames that are no samples: replies of the ring.
  public var otherFrames = 0
  /// Samples that came a second time, on another characteristic or by the sensor's clock; recorded once.
  public var repeated = 0
  /// Whether the sensor numbers its samples, or tells their times: else a loss before this machine does not show.
  public internal(set) var isNumbered = false
  /// Notifications that a log's writer cut, but of which a sample is recorded.
  package var usedCuts = 0
  /// Kinds of sensors that were taken over.
  private var accountCount = 0
  /// Samples with our stamp because the kernel gave none.
  public var withoutKernelStamp = 0
  /// What the controller sent meanwhile that could not be used: notifications may be missing. See `Adapter.faults`.
  public var adapterFaults = 0
  public var lost = Loss()
  /// Files that somebody took away during the recording.
  public var removedFiles: [RemovedFile] = []
  public var streams: [Stream] = []
  /// What became known of the sensor's clock, and the table that says it tick by tick.
  public var ticks: TickReport?
  public var ticksFile: String?
  /// Rows of it that are in its file.
  public var tickRows = 0
  public var packetLog: String?
  /// ATT_MTU in force, and the link's handle on its controller.
  public var mtu: Int?
  public var connectionHandle: ConnectionHandle?
  /// The kernel's receive queue, in octets of kernel memory.
  public var receiveBufferByteCount: Int?
  /// What the link was asked for.
  public var asked = LinkRequest()
  /// What became known of the link, in order; empty where the kernel keeps it to itself.
  public var changes: [LinkChange] = []
  /// Times without a link, in order, and how many there were of them and of links: of very many not all are kept.
  public var gaps: [SessionGap] = []
  public var gapCount = 0
  public var linkCount = 0
  /// ATT requests over all links: each is a round trip.
  public var attRequests = 0
  /// Responses of the device that belong to no request. They were ignored.
  public var strayResponses = 0
  /// Values of handles that nobody had subscribed to. They were ignored.
  public var unsubscribedValues = 0
  /// What is odd about the device.
  public var remarks: [LinkRemark] = []
  /// Those of each link until its first sample, in order; a link without samples has no place.
  public var requestsBeforeFirstSample: [Int] = []
  /// Links that began with the attributes that an earlier one had found.
  public var linksWithKnownAttributes = 0
  /// Stamps of the first sample of all and of the last.
  public var firstSampleAt: ReceiveTime?
  public var lastSampleAt: ReceiveTime?
  /// From the start of the command to the first sample, in nanoseconds.
  public var timeToFirstSample: Int64?
  /// The controller's word for the end of the last link, where it is known.
  public var disconnectReason: HCIStatus?

  /// The packet log that it was made of; `nil` for what was recorded.
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

  /// Takes over what a sink counted.
  mutating func take(_ counts: SampleCounts) {
    received = counts.received
    malformed += counts.malformed
    otherFrames = counts.other
    repeated = counts.repeated
    lost.sampleQueue = counts.dropped
  }

  /// Takes over how many notifications the writer of a replayed log cut.
  mutating func takeCut(_ count: Int) {
    received += count
    lost.cut += count
  }

  /// Takes over how many rows are in the files, and what became known of the sensor's clock.
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

  /// Takes over which samples have no row. Ticks that were due while there was no link are in no loss.
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

  /// The last ticks before a gap are late on a link that fails, the first behind it while the new one catches up: which of them
  /// the missing ones stood before, timestamps cannot tell (`TickClock`). Nanoseconds.
  package static let gapDoubt: Int64 = 500_000_000

  /// Whether more than half of a stretch lies in a gap, or close to it.
  private static func covers(_ gap: SessionGap, _ stretch: TableAccount.Stretch) -> Bool {
    let from = Double((gap.lastSampleAt ?? gap.lostAt).nanoseconds) - Double(gapDoubt)
    let to = Double((gap.firstSampleAt ?? gap.connectedAt ?? gap.lostAt).nanoseconds) + Double(gapDoubt)
    let (after, before) = (Double(stretch.after.nanoseconds), Double(stretch.before.nanoseconds))
    return 2 * (min(to, before) - max(from, after)) > before - after
  }

  /// Takes over what became known of a ring's clock.
  package mutating func take(_ ticks: TickReport, as format: TableFormat) {
    self.ticks = ticks
    ticksFile = format.fileName(TickRows.table.name)
    for stream in RingStream.allCases {
      guard let place = streams.firstIndex(where: { $0.name == stream.name }) else { continue }
      streams[place].part = ticks.parts[stream.part.rawValue]
    }
  }

  /// One JSON object and a line feed.
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

import BLECore
public import BLEHost
import BLELinux
import BLEStack
public import SensorSessions
import Synchronization

/// Records the stream of a sensor into a directory: tables, packet log and `session.json`, as a capture of a ring does.
///
/// Samples go from the session's own queue to the writer's thread. A lost link is made again while the plan is patient, and
/// the tables go on.
public struct SensorRecording: Sendable {
  /// What remains: the report, and what ended it early if anything did.
  public struct Result: Sendable {
    public var report: SessionReport
    public var values: Int
    public var failure: HostError?
  }

  private enum End: Hashable, Sendable {
    case count, duration, disk, sensor
    /// The session is over: the link was lost for good, or the stream did not start.
    case session(HostError?)

    /// As in `session.json`; the words of a ring's capture.
    var text: String {
      switch self {
      case .count: "count reached"
      case .duration: "duration over"
      case .disk: "the disk refused to take more"
      case .sensor: "the sensor stopped the stream by itself"
      case .session(nil): "interrupted"
      case .session(let error?): "\(error)"
      }
    }

    /// What it ended with before its time.
    var failure: HostError? {
      switch self {
      case .count, .duration, .disk: nil
      case .sensor: .unsuitable(text)
      case .session(let error): error
      }
    }
  }

  public let directory: String
  public let limits: RecordingLimits
  /// For who watches; `nil`: nothing of the recording wakes while the sensor is silent.
  package var live: (any RecordingWatcher)?
  private let format: TableFormat
  private let session: DeviceSession
  private let packets: PacketQueue

  public init(
    _ plan: DeviceSession.Plan, on adapter: any Adapter, into directory: String, _ limits: RecordingLimits,
    as format: TableFormat = .csv
  ) {
    self.format = format
    self.directory = directory
    self.limits = limits
    packets = PacketQueue(byteCount: Recorder.packetQueueByteCount)
    var plan = plan
    plan.tap = PacketTap(packets)
    session = DeviceSession(plan, on: adapter)
  }

  /// Records until there is a reason to end, and stops the stream.
  ///
  /// - Throws: what kept it from starting; later the result carries the failure instead.
  public func heartRate(_ settings: HeartRateSession.Settings) async throws(HostError) -> Result {
    try await record(HeartRateSession.self, settings) { HeartRateTables(counts: $1) }
  }

  public func thermometer() async throws(HostError) -> Result {
    try await record(ThermometerSession.self, ()) { TemperatureTables(counts: $1) }
  }

  public func cycling() async throws(HostError) -> Result {
    try await record(CyclingSession.self, ()) { CyclingTables(counts: $1) }
  }

  public func polar(_ settings: PolarSession.Settings) async throws(HostError) -> Result {
    try await record(PolarSession.self, settings) {
      PolarTables($0.type, sampleRate: $0.sampleRate, factor: $0.factor, counts: $1)
    }
  }

  // MARK: One recording

  /// Records any kind of sensor.
  func record<Session: SensorSession, Tables: SampleTables>(
    _ type: Session.Type, _ settings: Session.Settings,
    _ tables: @escaping @Sendable (Session, SensorCounts) -> Tables
  ) async throws(HostError) -> Result where Tables.Sample == Session.Sample {
    let (ends, end) = AsyncStream.makeStream(of: End.self, bufferingPolicy: .bufferingOldest(1))
    let counts = SensorCounts(limit: limits.count) { end.yield(.count) }
    let clock = session.adapter.loop.clock
    let begunAt = clock.now()
    let recording = OpenRecording(directory, clock) { end.yield(.disk) }
    let sink = SampleSink<Session.Sample> { end.yield(.sensor) }
    let profile = SensorProfile<Session>(settings, sink) {
      [session, packets, directory, format, live] started, connection throws(HostError) in
      var report = SessionReport(
        device: connection.peer, deviceName: started.facts.model, adapter: session.adapter.name,
        mode: session.adapter.mode, startedAt: clock.now())
      report.packetLog = CaptureLogFormat.btsnoop.fileName
      report.takeTuning(of: session.adapter.loop)
      live?.note(started.facts)
      let tables = tables(started, counts)
      report.streams = tables.tables.map {
        SessionReport.Stream(name: $0.name, file: format.fileName($0.name), samples: 0)
      }
      try await recording.begin(report, on: connection) { pace throws(SystemError) in
        let samples = sink.samples.ring
        let recorder = try await Recorder.start(
          in: directory, samples, tables, as: format, packets: packets, pace: pace, live: live)
        recorder.hold(clock) { !samples.isEmpty }
        return recorder
      }
    }
    // Capture `samples`: `profile` would make a retain cycle.
    let samples = profile.samples
    live?.follow(session) { [packets] in ReceiveCounts(counts, samples, packets) }
    let loop = session.adapter.loop
    let running = loop.task { [session] () -> HostError? in
      defer { profile.finish() }
      do throws(HostError) {
        try await session.run(profile)
        return nil
      } catch { return error }
    }
    let watch = loop.task { _ = end.yield(.session(await running.value)) }
    let timer = timer(profile, end)
    var reason: End?
    for await first in ends {
      reason = first
      break
    }
    timer.cancel()
    // Its end stops the stream and closes the link: the sensor's battery depends on it.
    running.cancel()
    await watch.value
    guard let files = recording.take() else { throw await running.value ?? .gatt(.closed(.closedLocally)) }
    var report = files.report
    await fill(&report, profile.samples)
    report.endReason = reason?.text ?? "interrupted"
    report.timeToFirstSample = report.firstSampleAt.map { $0.nanoseconds - begunAt.nanoseconds }
    let failure = await files.finish(&report, packets, clock) { report, outcome in
      for (table, rows) in outcome.rows.enumerated() { report.streams[table].samples = rows }
      // Only now has the writer seen all that came.
      let samples = profile.samples
      report.received = counts.values + counts.states + samples.dropped + samples.malformed
    }
    return Result(report: report, values: counts.values, failure: failure ?? reason?.failure)
  }

  private func fill<Sample>(
    _ report: inout SessionReport, _ samples: SampleChannel<Sample>
  ) async {
    await report.take(session)
    report.malformed += samples.malformed
    report.lost.sampleQueue = samples.dropped
  }

  /// From the first stream on.
  private func timer<Session: SensorSession>(
    _ profile: SensorProfile<Session>, _ end: AsyncStream<End>.Continuation
  ) -> Task<Void, Never> {
    let loop = session.adapter.loop
    return loop.task { [limits, live] in
      var sessions = profile.sessions.makeAsyncIterator()
      guard await sessions.next() != nil else { return }
      live?.begin()
      guard let duration = limits.duration else { return }
      if (try? await loop.wait(for: duration)) != nil { _ = end.yield(.duration) }
    }
  }
}

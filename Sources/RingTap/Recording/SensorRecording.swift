import BLECore
public import BLEHost
import BLESensors
import BLEStack
import BLESystem
import Synchronization

/// Records the stream of a sensor into a directory: tables, packet log and `session.json`, as a capture of a ring does.
///
/// Samples go from the session's own queue to the writer's thread. A lost link is made again while the plan is patient, and
/// the tables go on.
public struct SensorRecording: Sendable {
  /// When to end, beside a link that stays lost, a full disk and a cancelled task. All `nil`: only these.
  public struct Limits: Sendable {
    public var duration: Duration?
    /// Values; states of the sensor do not count.
    public var count: Int?

    public init(duration: Duration? = nil, count: Int? = nil) {
      self.duration = duration
      self.count = count
    }
  }

  /// How it stands, for a progress line.
  public struct Progress: Sendable {
    public var values: Int
    public var malformed: Int
    public var lost: Int
    public var gaps: Int
    public var elapsed: Duration
  }

  /// What remains: the report, and what ended it early if anything did.
  public struct Result: Sendable {
    public var report: SessionReport
    public var values: Int
    public var failure: HostError?
  }

  private enum End: Hashable, Sendable {
    case count, duration, disk
    /// The session is over: the link was lost for good, or the stream did not start.
    case session(HostError?)

    /// As in `session.json`; the words of a ring's capture.
    var text: String {
      switch self {
      case .count: "count reached"
      case .duration: "duration over"
      case .disk: "the disk refused to take more"
      case .session(nil): "interrupted"
      case .session(let error?): "\(error)"
      }
    }
  }

  public let directory: String
  public let limits: Limits
  private let session: DeviceSession
  private let packets: RecordRing

  public init(_ plan: DeviceSession.Plan, on adapter: any Adapter, into directory: String, _ limits: Limits) {
    self.directory = directory
    self.limits = limits
    packets = RecordRing(byteCount: Recorder.packetQueueByteCount)
    var plan = plan
    plan.tap = PacketTap(packets)
    session = DeviceSession(plan, on: adapter)
  }

  /// Records until there is a reason to end, and stops the stream.
  ///
  /// - Throws: what kept it from starting; later the result carries the failure instead.
  public func heartRate(
    _ settings: HeartRateSession.Settings, progress: @escaping @Sendable (Progress) -> Void
  ) async throws(HostError) -> Result {
    try await record(HeartRateSession.self, settings, progress) { HeartRateTables(counts: $1) }
  }

  public func thermometer(
    progress: @escaping @Sendable (Progress) -> Void
  ) async throws(HostError) -> Result {
    try await record(ThermometerSession.self, (), progress) { TemperatureTables(counts: $1) }
  }

  public func polar(
    _ settings: PolarSession.Settings, progress: @escaping @Sendable (Progress) -> Void
  ) async throws(HostError) -> Result {
    try await record(PolarSession.self, settings, progress) {
      PolarTables($0.type, sampleRate: $0.sampleRate, factor: $0.factor, counts: $1)
    }
  }

  // MARK: One recording

  private func record<Session: SensorSession, Tables: SampleTables>(
    _ type: Session.Type, _ settings: Session.Settings, _ progress: @escaping @Sendable (Progress) -> Void,
    _ tables: @escaping @Sendable (Session, SensorCounts) -> Tables
  ) async throws(HostError) -> Result where Tables.Sample == Session.Sample {
    let (ends, end) = AsyncStream.makeStream(of: End.self, bufferingPolicy: .bufferingOldest(1))
    let counts = SensorCounts(limit: limits.count) { end.yield(.count) }
    let files = SensorFiles(directory, session.adapter.loop.clock) { end.yield(.disk) }
    let sink = SampleSink<Session.Sample>()
    let profile = SensorProfile<Session>(settings, sink) {
      [session, packets] started, connection throws(HostError) in
      let report = SessionReport(
        device: connection.peer, deviceName: started.facts.model, adapter: session.adapter.name,
        mode: session.adapter.mode, startedAt: session.adapter.loop.clock.now())
      try await files.begin(report, sink.samples.ring, tables(started, counts), packets, on: connection)
    }
    let loop = session.adapter.loop
    let running = Task(executorPreference: loop.preference) { [session] () -> HostError? in
      defer { profile.finish() }
      do throws(HostError) {
        try await session.run(profile)
        return nil
      } catch { return error }
    }
    let watch = Task(executorPreference: loop.preference) { _ = end.yield(.session(await running.value)) }
    let tasks = [ticker(profile, counts, progress), timer(profile, end)]
    var reason: End?
    for await first in ends {
      reason = first
      break
    }
    for task in tasks { task.cancel() }
    // Its end stops the stream and closes the link: the sensor's battery depends on it.
    running.cancel()
    await watch.value
    guard let opened = files.take() else { throw await running.value ?? .gatt(.closed(.closedLocally)) }
    return await finish(opened, profile, counts, reason)
  }

  private func finish<Session: SensorSession>(
    _ opened: consuming SensorFiles.Opened, _ profile: SensorProfile<Session>, _ counts: SensorCounts,
    _ reason: End?
  ) async -> Result {
    let (recorder, tables, clock) = (opened.recorder, opened.tables, session.adapter.loop.clock)
    let outcome = await clock.standing { await recorder.finish() }
    var report = opened.report
    await report.take(session)
    let samples = profile.samples
    report.endReason =
      profile.isEndedBySensor ? "the sensor stopped the stream by itself" : reason?.text ?? "interrupted"
    report.endedAt = clock.now()
    report.malformed += samples.malformed
    report.received = counts.values + counts.states + samples.dropped + samples.malformed
    report.lost.sampleQueue = samples.dropped
    report.lost.packetLog = packets.dropped + outcome.lostPackets
    report.lost.disk = outcome.lostSamples
    report.streams = zip(tables, outcome.rows).map {
      SessionReport.Stream(name: $0.name, file: $0.fileName, samples: $1)
    }
    var failure = outcome.failure.map { HostError.system($0) }
    if case .session(let error)? = reason { failure = failure ?? error }
    do throws(SystemError) { try opened.folder.finish(report) } catch { failure = failure ?? .system(error) }
    return Result(report: report, values: counts.values, failure: failure)
  }

  private func ticker<Session: SensorSession>(
    _ profile: SensorProfile<Session>, _ counts: SensorCounts,
    _ progress: @escaping @Sendable (Progress) -> Void
  ) -> Task<Void, Never> {
    let begin = ContinuousClock.now
    return Task { [session] in
      while (try? await Task.sleep(for: .seconds(1))) != nil {
        let drops = await session.statistics.kernelQueueDrops + session.currentStatistics.kernelQueueDrops
        progress(
          Progress(
            values: counts.values, malformed: profile.samples.malformed,
            lost: profile.samples.dropped + drops, gaps: await session.gapCount,
            elapsed: ContinuousClock.now - begin))
      }
    }
  }

  /// From the first stream on.
  private func timer<Session: SensorSession>(
    _ profile: SensorProfile<Session>, _ end: AsyncStream<End>.Continuation
  ) -> Task<Void, Never> {
    let loop = session.adapter.loop
    return Task(executorPreference: loop.preference) { [limits] in
      var sessions = profile.sessions.makeAsyncIterator()
      guard await sessions.next() != nil, let duration = limits.duration else { return }
      if (try? await loop.wait(for: duration)) != nil { _ = end.yield(.duration) }
    }
  }
}

/// The files of a recording: made on the first link, kept through all that follow.
private final class SensorFiles: Sendable {
  /// What is open.
  struct Opened: ~Copyable {
    let report: SessionReport
    var folder: CaptureDirectory
    let recorder: Recorder
    let tables: [RecordedTable]
  }

  private let directory: String
  private let clock: LoopClock
  private let failed: @Sendable () -> Void
  private let opened = Mutex<Opened?>(nil)

  /// - Parameter failed: called where the disk refuses to go on.
  init(_ directory: String, _ clock: LoopClock, failed: @escaping @Sendable () -> Void) {
    self.directory = directory
    self.clock = clock
    self.failed = failed
  }

  func begin<Tables: SampleTables>(
    _ report: SessionReport, _ samples: BoundedRing<Tables.Sample>, _ tables: Tables, _ packets: RecordRing,
    on connection: Connection
  ) async throws(HostError) {
    if let recorder = opened.withLock({ $0?.recorder }) { return await connection.addWake(recorder.wake) }
    do throws(SystemError) {
      var report = report
      report.packetLog = CaptureLogFormat.btsnoop.fileName
      let folder = try CaptureDirectory(creating: directory, report)
      let recorder = try await clock.standing { () async throws(SystemError) in
        try await Recorder.start(
          in: directory, samples, tables, packets: packets, pace: clock.isVirtual ? .held : .free)
      }
      clock.hold { !samples.isEmpty }
      recorder.onFailure(failed)
      await connection.addWake(recorder.wake)
      // The stream runs already.
      recorder.wake.signal()
      // A closure cannot consume what it captures, but it can take it.
      var made: Opened? = Opened(report: report, folder: folder, recorder: recorder, tables: tables.tables)
      opened.withLock { $0 = made.take() }
    } catch { throw .system(error) }
  }

  /// The open files, if any were made. Once only.
  func take() -> Opened? { opened.withLock { $0.take() } }
}

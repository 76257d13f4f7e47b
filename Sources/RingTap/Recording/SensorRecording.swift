import BLECore
public import BLEHost
import BLESensors
import BLEStack
import BLESystem
import Synchronization

/// Records the stream of a sensor into a directory: tables, packet log and `session.json`, as a capture of a ring does.
///
/// Samples go from the session's own queue to the writer's thread; nobody else may read them meanwhile.
public struct SensorRecording: Sendable {
  /// When to end, beside a lost link, a full disk and a cancelled task. All `nil`: only these.
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
    public var elapsed: Duration
  }

  /// What remains: the report, and what ended it early if anything did.
  public struct Result: Sendable {
    public var report: SessionReport
    public var values: Int
    public var failure: HostError?
  }

  public let directory: String
  public let limits: Limits
  /// For the connect: the packet log begins there.
  public let tap: PacketTap
  private let packets: RecordRing

  public init(directory: String, limits: Limits) {
    self.directory = directory
    self.limits = limits
    packets = RecordRing(byteCount: Recorder.packetQueueByteCount)
    tap = PacketTap(packets)
  }

  /// Records until there is a reason to end, and stops the stream.
  ///
  /// - Throws: what kept it from starting; later the result carries the failure instead.
  public func run(
    _ session: HeartRateSession, of connection: Connection, over adapter: any Adapter,
    progress: @escaping @Sendable (Progress) -> Void
  ) async throws(HostError) -> Result {
    try await record(
      session.samples, of: connection, over: adapter, named: session.facts.model, progress,
      { await session.stop() }
    ) { HeartRateTables(counts: $0) }
  }

  public func run(
    _ session: ThermometerSession, of connection: Connection, over adapter: any Adapter,
    progress: @escaping @Sendable (Progress) -> Void
  ) async throws(HostError) -> Result {
    try await record(
      session.samples, of: connection, over: adapter, named: session.facts.model, progress,
      { await session.stop() }
    ) { TemperatureTables(counts: $0) }
  }

  public func run(
    _ session: PolarSession, of connection: Connection, over adapter: any Adapter,
    progress: @escaping @Sendable (Progress) -> Void
  ) async throws(HostError) -> Result {
    try await record(
      session.frames, of: connection, over: adapter, named: session.facts.model, progress,
      { await session.stop() }
    ) { PolarTables(session.type, sampleRate: session.sampleRate, factor: session.factor, counts: $0) }
  }

  // MARK: One recording

  private enum End: Hashable, Sendable {
    case count, duration, disk
    case link(BearerEnd)

    /// As in `session.json`; the words of a ring's capture.
    var text: String {
      switch self {
      case .count: "count reached"
      case .duration: "duration over"
      case .disk: "the disk refused to take more"
      case .link(let end): "\(end)"
      }
    }
  }

  private func record<Tables: SampleTables>(
    _ samples: SampleChannel<Tables.Sample>, of connection: Connection, over adapter: any Adapter,
    named name: String?, _ progress: @escaping @Sendable (Progress) -> Void,
    _ stop: @escaping @Sendable () async -> Void, _ tables: (SensorCounts) -> Tables
  ) async throws(HostError) -> Result {
    let clock = adapter.loop.clock
    var report = SessionReport(
      device: connection.peer, deviceName: name, adapter: adapter.name, mode: adapter.mode,
      startedAt: clock.now())
    report.packetLog = CaptureLogFormat.btsnoop.fileName
    let (ends, end) = AsyncStream.makeStream(of: End.self, bufferingPolicy: .bufferingOldest(1))
    let counts = SensorCounts(limit: limits.count) { end.yield(.count) }
    let tables = tables(counts)
    var folder = try makeFolder(report)
    let recorder = try await start(samples, tables, connection, clock)
    recorder.onFailure { end.yield(.disk) }
    await connection.addWake(recorder.wake)
    recorder.wake.signal()

    let tasks = timers(samples, counts, connection, end, progress)
    var reason: End?
    for await first in ends {
      reason = first
      break
    }
    for task in tasks { task.cancel() }
    report.endReason = reason?.text ?? "interrupted"
    // Nothing below may be skipped by a cancelled task; the sensor must be told, its battery depends on it.
    await Task(executorPreference: connection.loop.preference) {
      if await connection.end == nil { await stop() }
    }.value
    let outcome = await clock.standing { await recorder.finish() }
    report.endedAt = clock.now()
    await fill(&report, samples, counts, outcome, tables.tables, connection)
    var failure = outcome.failure.map { HostError.system($0) }
    if case .link(let end)? = reason { failure = failure ?? .gatt(.closed(end)) }
    do throws(SystemError) { try folder.finish(report) } catch { failure = failure ?? .system(error) }
    return Result(report: report, values: counts.values, failure: failure)
  }

  private func makeFolder(_ report: SessionReport) throws(HostError) -> CaptureDirectory {
    do throws(SystemError) { return try CaptureDirectory(creating: directory, report) } catch {
      throw .system(error)
    }
  }

  private func start<Tables: SampleTables>(
    _ samples: SampleChannel<Tables.Sample>, _ tables: Tables, _ connection: Connection, _ clock: LoopClock
  ) async throws(HostError) -> Recorder {
    let link = RecordingFiles.LinkStart(
      peer: connection.peer, handle: connection.handle, parameters: await connection.link.timing,
      time: clock.now())
    let recorder: Recorder
    do throws(SystemError) {
      recorder = try await clock.standing { () async throws(SystemError) in
        try await Recorder.start(in: directory, samples.ring, tables, packets: packets, link: link)
      }
    } catch { throw .system(error) }
    let ring = samples.ring
    clock.hold { !ring.isEmpty }
    return recorder
  }

  private func timers<Sample>(
    _ samples: SampleChannel<Sample>, _ counts: SensorCounts, _ connection: Connection,
    _ end: AsyncStream<End>.Continuation, _ progress: @escaping @Sendable (Progress) -> Void
  ) -> [Task<Void, Never>] {
    let begin = ContinuousClock.now
    var tasks = [
      Task {
        while (try? await Task.sleep(for: .seconds(1))) != nil {
          progress(
            Progress(
              values: counts.values, malformed: samples.malformed,
              lost: samples.dropped + (await connection.statistics.kernelQueueDrops),
              elapsed: ContinuousClock.now - begin))
        }
      },
      Task(executorPreference: connection.loop.preference) { _ = end.yield(.link(await connection.ended())) },
    ]
    if let duration = limits.duration {
      tasks.append(
        Task(executorPreference: connection.loop.preference) {
          if (try? await connection.loop.wait(for: duration)) != nil { _ = end.yield(.duration) }
        })
    }
    return tasks
  }

  private func fill<Sample>(
    _ report: inout SessionReport, _ samples: SampleChannel<Sample>, _ counts: SensorCounts,
    _ outcome: Recorder.Outcome, _ tables: [RecordedTable], _ connection: Connection
  ) async {
    let statistics = await connection.statistics
    report.malformed = samples.malformed + statistics.malformed
    report.received = counts.values + counts.states + samples.dropped + samples.malformed
    report.withoutKernelStamp = statistics.withoutKernelStamp
    report.lost.kernelQueue = statistics.kernelQueueDrops
    report.lost.sampleQueue = samples.dropped
    report.lost.packetLog = packets.dropped + outcome.lostPackets
    report.lost.disk = outcome.lostSamples
    report.streams = zip(tables, outcome.rows).map {
      SessionReport.Stream(name: $0.name, file: $0.fileName, samples: $1)
    }
    report.mtu = await connection.mtu
    report.connectionHandle = connection.handle
    report.receiveBufferByteCount = await connection.receiveBufferByteCount
    report.changes = await connection.changes
    report.disconnectReason = await connection.disconnectReason
  }
}

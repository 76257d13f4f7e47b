public import BLEHost
import BLELinux
import BLEStack
public import BLEWire
public import SensorSessions

/// Recording of a sensor of any kind: connects, discovers, subscribes, writes, and stops the stream.
///
/// Samples pass from the receive thread through a bounded queue to the writer's thread. After the loss of a
/// link, the recording tries to reconnect for `plan.patience`, and the tables continue.
///
/// ```swift
/// var recording = SensorRecording(of: address, on: adapter, into: "walk", RecordingLimits(duration: .seconds(60)))
/// recording.plan.patience = .seconds(30)
/// let result = try await recording.run(.ring)
/// ```
public struct SensorRecording: Sendable {
  /// Event of a recording.
  public enum News: Sendable {
    /// The stream runs for the first time.
    case begun
    case lost(SessionGap)
    /// The stream runs again.
    case back(SessionGap)
    /// The device behaves unusually. Each remark is reported once.
    case remark(LinkRemark)
    /// Files were removed. Called on the writer's thread.
    case removed(FileRemoval)
  }

  /// Result of a recording: the report, and the error that ended the recording early, if any.
  public struct Result: Sendable {
    public var report: SessionReport
    /// Number of samples with a value. A strap that is not worn sends samples without a value.
    public var values: Int
    public var failure: HostError?
    /// Current path of the directory. It differs from the requested path if the directory was moved, and is
    /// `nil` if it was removed.
    public var directory: String?
    /// Whether the recording was cancelled.
    public var isInterrupted = false
  }

  /// The device, and connection parameters. The recording replaces the tap to log packets.
  public var plan: DeviceSession.Plan
  /// The advertised name, if known.
  public var deviceName: String?
  public var adapter: any Adapter
  /// Path of the directory to create. It must not contain a capture.
  public var directory: String
  public var limits: RecordingLimits
  /// Start time for the measurement of the time to the first sample; `nil` for the start of `run`.
  public var begunAt: ReceiveTime?
  public var news: @Sendable (News) -> Void = { _ in }
  /// Whether to announce the packet log to other processes while it is written.
  public var isAnnounced = false
  public var logFormat = CaptureLogFormat.btsnoop
  public var tableFormat = TableFormat.csv
  /// Maximum age of data that is not on disk yet (`fdatasync`), at least one second. A power failure loses at
  /// most this much data. Arrays are synced at least every 25 s. Data is in the kernel within half a second,
  /// and then survives the end of the program.
  public var syncInterval = Duration.seconds(1)
  /// Watcher of the recording. Without a watcher, the recording causes no wake-ups while the sensor is
  /// silent.
  package var live: (any RecordingWatcher)?

  /// Prepares a recording.
  ///
  /// - Parameters:
  ///   - peer: address of the sensor.
  ///   - name: advertised name of the sensor, if known.
  ///   - adapter: adapter to connect with.
  ///   - directory: path of the directory to create.
  ///   - limits: limits that end the recording.
  public init(
    of peer: DeviceAddress, named name: String? = nil, on adapter: any Adapter, into directory: String,
    _ limits: RecordingLimits = RecordingLimits()
  ) {
    plan = DeviceSession.Plan(peer)
    deviceName = name
    self.adapter = adapter
    self.directory = directory
    self.limits = limits
  }

  /// Records until the recording ends, then stops the stream. If the task is cancelled, the recording ends as
  /// with Ctrl-C, with complete files.
  ///
  /// - Parameter kind: kind of the sensor.
  /// - Throws: an error that prevents the start. After the start of the stream, errors are in the result.
  public func run<Sample>(_ kind: SensorKind<Sample>) async throws(HostError) -> Result {
    try await record(kind.definition)
  }

  /// Records a sensor of a kind chosen at run time.
  public func run(_ kind: AnySensorKind) async throws(HostError) -> Result {
    try await record(kind.definition)
  }

  private func record(_ sensor: some SensorDefinition) async throws(HostError) -> Result {
    do throws(HostError) {
      let result = try await makeRecording(sensor)
      live?.end(result.report.endReason ?? "", lost: result.report.lost.total)
      return result
    } catch {
      live?.end("\(error)", lost: 0)
      throw error
    }
  }

  private func makeRecording<Sensor: SensorDefinition>(_ sensor: Sensor) async throws(HostError) -> Result {
    try CaptureDirectory.refuse(directory)
    let clock = adapter.loop.clock
    let begunAt = begunAt ?? clock.now()
    let packets = PacketQueue(byteCount: Recorder.packetQueueByteCount)
    var plan = plan
    let tap = PacketTap(packets)
    plan.tap = tap
    let samples = SampleChannel<Sensor.Sample>(capacity: Sensor.Session.queueCapacity)
    let wake: WakeEvent
    do throws(SystemError) { wake = try Recorder.makeWake(samples.ring, packets) } catch {
      throw .system(error)
    }
    plan.wake = wake
    let session = DeviceSession(plan, on: adapter)
    let end = RecordingEnd(session, limits)
    let sink = SampleSink(samples, for: .recorder, limit: limits.count, tap: tap) { end.finish($0) }
    let (faults, cut) = (await adapter.faults, await adapter.cutFrames)
    // A log is replayed no faster than its samples are written.
    await adapter.hold { samples.ring.isHalfFull || packets.isHalfFull }
    live?.follow(session) { ReceiveCounts(sink.counts, packets) }
    await end.follow(live) { [live, news] item in
      // Let the writer's thread report earlier samples first.
      if live != nil { wake.interrupt() }
      news(item)
    }
    let profile = SensorProfile<Sensor.Session>(sensor.settings, sink, told: { live?.note($0) })
    // Virtual time stands still from the start of the stream until there are files, and while samples wait for
    // the writer.
    let areFilesOpen = OneShot<Bool>()
    clock.hold { [weak profile, weak wake] in
      guard let wake, profile?.isStarted == true else { return false }
      guard let areOpen = areFilesOpen.current else { return true }
      guard areOpen, !samples.ring.isEmpty else { return false }
      wake.signal()
      return true
    }
    // Run this in its own task, because the steps below must run even if the task is cancelled.
    let running = adapter.loop.task { () -> HostError? in
      defer { profile.finish() }
      do throws(HostError) {
        try await session.run(profile)
        return nil
      } catch { return error }
    }
    adapter.loop.task { end.finish(.session(await running.value)) }
    let start = await withTaskCancellationHandler {
      await profile.firstStream()
    } onCancel: {
      // A stream that starts meanwhile is recorded. A device that does not respond must not delay the end.
      _ = adapter.loop.task {
        running.cancel()
        _ = await RecordingEnd.Reason.interrupted.end(of: running, session)
        profile.finish()
      }
    }
    guard let first = start else {
      let reason = await end.wait()
      running.cancel()
      throw await reason.end(of: running, session) ?? .gatt(.closed(.closedLocally))
    }
    // An absent sensor leaves no files: these are created once the stream runs. Samples wait in the queue.
    let tables = sensor.tables(of: first.session)
    var report = emptyReport(of: tables.tables, at: first.time)
    var files: OpenRecording
    do throws(SystemError) {
      files = try await OpenRecording(in: directory, report, begunAt: first.monotonic, clock) {
        () async throws(SystemError) in
        try await recorder(of: samples.ring, tables, packets, wake, end)
      }
    } catch {
      areFilesOpen.set(false)
      running.cancel()
      _ = await running.value
      throw .system(error)
    }
    areFilesOpen.set(true)
    files.announce(announce())
    // Samples may have arrived without waking the writer, which was not there.
    wake.signal()
    live?.begin()
    news(.begun)
    end.begin()
    let reason = await end.wait()
    // Cancelling stops the stream and closes the link, which saves the sensor's battery.
    running.cancel()
    _ = await reason.end(of: running, session)

    await report.take(session)
    report.endReason = reason.text(
      hasStreamed: await session.hasStreamed, lost: await session.gaps.last, patience: plan.patience)
    report.take(sink.counts)
    report.deviceName = profile.facts?.model ?? deviceName
    if let error = sink.lastMalformed { report.lastMalformed = error.description }
    // Samples of a replayed log have the log's timestamps.
    report.timeToFirstSample = report.firstSampleAt.map { ($0 - begunAt).nanoseconds }
      .flatMap { $0 < 0 ? nil : $0 }
    report.adapterFaults = await adapter.faults - faults
    report.takeCut(await adapter.cutFrames - cut)
    let (failure, place) = await files.finish(&report, packets, clock) { $0.take($1, as: tableFormat) }
    return Result(
      report: report, values: sink.counts.values, failure: failure ?? reason.failure, directory: place,
      isInterrupted: reason == .interrupted)
  }

  /// Creates the tables and the packet log, and starts their writer.
  private func recorder<Tables: SampleTables>(
    of samples: SampleQueue<Tables.Sample>, _ tables: Tables, _ packets: PacketQueue, _ wake: WakeEvent,
    _ end: RecordingEnd
  ) async throws(SystemError) -> Recorder {
    let recorder = try await Recorder.start(
      in: directory, samples, tables, as: tableFormat, packets: packets, format: logFormat,
      pace: adapter.loop.clock.isVirtual ? .held : .free, syncInterval: syncInterval, wake: wake, live: live
    ) { [news] removal in
      news(.removed(removal))
      if removal.leaves == .nothing { end.finish(.removed) }
    }
    recorder.onFailure { end.finish(.disk) }
    return recorder
  }

  /// Announces the packet log to other processes. Best effort: a failure does not affect the recording.
  private func announce() -> LogAnnouncement? {
    guard isAnnounced else { return nil }
    return try? LogAnnouncement(
      of: directory + "/" + logFormat.fileName,
      RunningLog.Origin(
        adapter: adapter.name, mode: adapter.mode, device: plan.peer.description, deviceName: deviceName))
  }

  /// Returns the report when the files are created.
  private func emptyReport(of tables: [RecordedTable], at startedAt: ReceiveTime) -> SessionReport {
    var report = SessionReport(
      device: plan.peer, deviceName: deviceName, adapter: adapter.name, mode: adapter.mode,
      startedAt: startedAt)
    report.packetLog = logFormat.fileName
    report.takeTuning(of: adapter.loop)
    report.streams = tables.filter { $0.content == .samples }.map { table in
      var stream = SessionReport.Stream(name: table.name, file: tableFormat.fileName(table.name), samples: 0)
      if table.isOwn { stream.columns = Array(table.columns.dropFirst()) }
      return stream
    }
    return report
  }
}

/// The open files of a recording whose stream runs.
private struct OpenRecording: ~Copyable {
  private let startedAt: ReceiveTime
  /// `startedAt` on the monotonic clock.
  private let begunAt: MonotonicTime
  private let directory: String
  private var folder: CaptureDirectory
  private let recorder: Recorder
  private var announcement: LogAnnouncement?

  /// Creates the files.
  ///
  /// - Parameters:
  ///   - report: the report as known when the stream starts.
  ///   - begunAt: the report's `startedAt` on the monotonic clock.
  ///   - start: creates tables and packet log, and starts their writer.
  init(
    in directory: String, _ report: SessionReport, begunAt: MonotonicTime, _ clock: LoopClock,
    _ start: () async throws(SystemError) -> Recorder
  ) async throws(SystemError) {
    let folder = try CaptureDirectory(creating: directory, report)
    recorder = try await clock.standing { () async throws(SystemError) in try await start() }
    self.folder = folder
    (startedAt, self.begunAt, self.directory) = (report.startedAt, begunAt, directory)
  }

  mutating func announce(_ announcement: LogAnnouncement?) { self.announcement = announcement }

  /// Closes all files, and completes the report.
  ///
  /// - Parameter take: enters the tables' results in the report.
  /// - Returns: the error that kept a file from being written completely, and the directory's current path.
  consuming func finish(
    _ report: inout SessionReport, _ packets: PacketQueue, _ clock: LoopClock,
    _ take: (inout SessionReport, Recorder.Outcome) -> Void
  ) async -> (failure: HostError?, directory: String?) {
    let recorder = recorder
    let outcome = await clock.standing { await recorder.finish() }
    announcement.take()?.end()
    report.startedAt = startedAt
    let endedAt = clock.now()
    report.endedAt = endedAt
    let step = (endedAt - startedAt) - (clock.monotonic() - begunAt)
    // Slewing, or setting the clock and setting it back, causes smaller differences.
    let least: UInt64 = outcome.clockSteps.map { $0.count > 0 } ?? false ? 100_000_000 : 1_000_000_000
    if step.nanoseconds.magnitude > least { report.clockStepNanoseconds = step.nanoseconds }
    report.lost.packetLog = packets.dropped + outcome.lostPackets
    report.lost.disk = outcome.lostSamples
    report.removedFiles = outcome.removed
    take(&report, outcome)
    var failure = outcome.failure.map { HostError.system($0) }
    let place = folder.place
    if !outcome.removed.isEmpty, failure == nil {
      failure = .unsuitable(FileRemoval.text(outcome.removed, in: place ?? directory))
    }
    do throws(SystemError) { try folder.finish(report) } catch { failure = failure ?? .system(error) }
    return (failure, place)
  }
}

// MARK: - Several sensors

/// Simultaneous recordings of several sensors on one adapter, each with its own directory and report.
public struct RecordingGroup: Sendable {
  /// Result of one recording.
  public struct Outcome: Sendable {
    public var recording: SensorRecording
    public var result: Result<SensorRecording.Result, HostError>
  }

  private let members: [(kind: AnySensorKind, recording: SensorRecording)]

  /// Creates a group.
  ///
  /// - Parameter members: recordings on the same adapter, each with its own sensor and directory.
  public init(_ members: [(kind: AnySensorKind, recording: SensorRecording)]) { self.members = members }

  /// Returns the directory of a sensor, which is named after the sensor's address: `70-CB-0D-00-A1-B2`.
  public static func directory(of address: DeviceAddress, in directory: String) -> String {
    directory + "/" + address.fileName
  }

  /// Runs all recordings to their ends. If one recording fails, the others continue. Cancelling the task ends
  /// all recordings as with Ctrl-C.
  ///
  /// - Returns: outcomes in the order of the members.
  public func run() async -> [Outcome] {
    await withTaskGroup(of: (Int, Outcome).self) { group in
      for (index, member) in members.enumerated() {
        group.addTask { (index, await Self.run(member.recording, of: member.kind)) }
      }
      var outcomes: [(Int, Outcome)] = []
      for await outcome in group { outcomes.append(outcome) }
      return outcomes.sorted { $0.0 < $1.0 }.map(\.1)
    }
  }

  private static func run(_ recording: SensorRecording, of kind: AnySensorKind) async -> Outcome {
    let result: Result<SensorRecording.Result, HostError>
    do throws(HostError) { result = .success(try await recording.run(kind)) } catch {
      result = .failure(error)
    }
    return Outcome(recording: recording, result: result)
  }
}

public import BLEHost
import BLELinux
import BLEStack
public import BLEWire
public import SensorSessions

/// One recording of a sensor of any kind: connect, discover, subscribe, write, stop the stream.
///
/// Samples go from the receive thread through a bounded queue to the writer's thread. A lost link is made again while the plan
/// is patient, and the tables go on.
///
/// ```swift
/// var recording = SensorRecording(of: address, on: adapter, into: "walk", RecordingLimits(duration: .seconds(60)))
/// recording.plan.patience = .seconds(30)
/// let result = try await recording.run(.ring)
/// ```
public struct SensorRecording: Sendable {
  /// What happened to a recording.
  public enum News: Sendable {
    case lost(SessionGap)
    /// The stream runs again.
    case back(SessionGap)
    /// Something about the device is odd: once each.
    case remark(LinkRemark)
    /// Somebody took files away. Told on the writer's thread.
    case removed(FileRemoval)
  }

  /// What remains: the report, and what ended it early if anything did.
  public struct Result: Sendable {
    public var report: SessionReport
    /// Samples with a value: a strap off the body sends others.
    public var values: Int
    public var failure: HostError?
    /// Where the files are, elsewhere than asked for where somebody moved the directory meanwhile; `nil` where it was removed.
    public var directory: String?
    /// Whether it was cancelled.
    public var isInterrupted = false
  }

  /// The device, and how to connect to it; the packet log has a tap of its own.
  public var plan: DeviceSession.Plan
  /// The advertised name, where it is known.
  public var deviceName: String?
  public var adapter: any Adapter
  /// Is made; nothing may be in it.
  public var directory: String
  public var limits: RecordingLimits
  /// From when the time to the first sample counts; `nil`: from `run`.
  public var begunAt: ReceiveTime?
  public var news: @Sendable (News) -> Void = { _ in }
  /// Whether other processes hear of the packet log while it is written.
  public var isAnnounced = false
  public var logFormat = CaptureLogFormat.btsnoop
  public var tableFormat = TableFormat.csv
  /// How old may be what the disk lacks (`fdatasync`), one second or more: what a power failure costs at most. Arrays are handed
  /// to it every 25 s at least. The kernel has it within half a second, where an end of this program costs nothing.
  public var syncInterval = Duration.seconds(1)
  /// For who watches; `nil`: nothing of the recording wakes while the sensor is silent.
  package var live: (any RecordingWatcher)?

  /// - Parameters:
  ///   - peer: the sensor.
  ///   - name: its advertised name, where it is known.
  ///   - adapter: the way to it.
  ///   - directory: is made.
  ///   - limits: when to end.
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

  /// Records until there is a reason to end, and stops the stream. A cancelled task ends it like Ctrl-C: the files are
  /// complete.
  ///
  /// - Parameter kind: of the sensor.
  /// - Throws: what kept it from starting; once the stream runs, the result carries the failure instead.
  public func run<Sample>(_ kind: SensorKind<Sample>) async throws(HostError) -> Result {
    try await kind.record(self)
  }

  /// Records a kind of sensor.
  ///
  /// - Parameters:
  ///   - type: what is done on each link.
  ///   - settings: what the stream is started with.
  ///   - tables: of the session on the first link.
  func record<Session: SensorSession, Tables: SampleTables>(
    _ type: Session.Type, _ settings: Session.Settings, _ tables: @escaping @Sendable (Session) -> Tables
  ) async throws(HostError) -> Result where Tables.Sample == Session.Sample {
    do throws(HostError) {
      let result = try await makeRecording(type, settings, tables)
      live?.end(result.report.endReason ?? "", lost: result.report.lost.total)
      return result
    } catch {
      live?.end("\(error)", lost: 0)
      throw error
    }
  }

  private func makeRecording<Session: SensorSession, Tables: SampleTables>(
    _ type: Session.Type, _ settings: Session.Settings, _ tables: @escaping @Sendable (Session) -> Tables
  ) async throws(HostError) -> Result where Tables.Sample == Session.Sample {
    try CaptureDirectory.refuse(directory)
    let clock = adapter.loop.clock
    let begunAt = begunAt ?? clock.now()
    let packets = PacketQueue(byteCount: Recorder.packetQueueByteCount)
    var plan = plan
    let tap = PacketTap(packets)
    plan.tap = tap
    let session = DeviceSession(plan, on: adapter)
    let end = RecordingEnd(session, limits)
    let sink = SampleSink<Session.Sample>(
      capacity: Session.queueCapacity, for: .recorder, limit: limits.count, tap: tap
    ) { end.finish($0) }
    let samples = sink.samples.ring
    let (faults, cut) = (await adapter.faults, await adapter.innermost.cutFrames)
    // A log is played no faster than it is written.
    await adapter.hold { samples.isHalfFull || packets.isHalfFull }
    live?.follow(session) { ReceiveCounts(sink.counts, packets) }
    let recording = OpenRecording(directory, clock) { end.finish(.disk) }
    await end.follow(live) { [live, news] item in
      // Samples from before are told before, by the writer's thread.
      if live != nil { recording.hurry() }
      news(item)
    }
    let profile = SensorProfile<Session>(settings, sink, told: { live?.note($0) }) {
      started, connection, begunAt throws(HostError) in
      let tables = tables(started)
      try await recording.begin(
        emptyReport(of: tables.tables, at: begunAt.time), begunAt: begunAt.monotonic,
        on: connection, announce: announce
      ) { pace throws(SystemError) in
        try await recorder(of: samples, tables, packets, pace) { removal in
          news(.removed(removal))
          if removal.leaves == .nothing { end.finish(.removed) }
        }
      }
      end.filesAreMade()
    }
    // Its end is ours to choose: a cancelled task must not skip what is below.
    let running = adapter.loop.task { () -> HostError? in
      do throws(HostError) {
        try await session.run(profile)
        return nil
      } catch { return error }
    }
    adapter.loop.task { end.finish(.session(await running.value)) }
    let reason = await end.wait()
    // That stops the stream and closes the link: the sensor's battery depends on it.
    running.cancel()
    let ended = await reason.end(of: running, session)
    guard let files = recording.take() else { throw ended ?? .gatt(.closed(.closedLocally)) }

    var report = files.report
    await report.take(session)
    report.endReason = reason.text(
      hasStreamed: await session.hasStreamed, lost: await session.gaps.last, patience: plan.patience)
    report.take(sink.counts)
    report.deviceName = profile.facts?.model ?? deviceName
    if let error = sink.lastMalformed { report.lastMalformed = error.description }
    // Samples of a log have its times.
    report.timeToFirstSample = report.firstSampleAt.map { ($0 - begunAt).nanoseconds }
      .flatMap { $0 < 0 ? nil : $0 }
    report.adapterFaults = await adapter.faults - faults
    report.takeCut(await adapter.innermost.cutFrames - cut)
    let (failure, place) = await files.finish(&report, packets, clock) { $0.take($1, as: tableFormat) }
    return Result(
      report: report, values: sink.counts.values, failure: failure ?? reason.failure, directory: place,
      isInterrupted: reason == .interrupted)
  }

  /// Makes the files.
  private func recorder<Tables: SampleTables>(
    of samples: SampleQueue<Tables.Sample>, _ tables: Tables, _ packets: PacketQueue, _ pace: Recorder.Pace,
    _ onRemoval: @escaping @Sendable (FileRemoval) -> Void
  ) async throws(SystemError) -> Recorder {
    let recorder = try await Recorder.start(
      in: directory, samples, tables, as: tableFormat, packets: packets, format: logFormat, pace: pace,
      syncInterval: syncInterval,
      live: live, onRemoval: onRemoval)
    recorder.hold(adapter.loop.clock) { !samples.isEmpty }
    return recorder
  }

  /// The recording is none the worse where nobody can be told.
  private func announce() -> LogAnnouncement? {
    guard isAnnounced else { return nil }
    return try? LogAnnouncement(
      of: directory + "/" + logFormat.fileName,
      RunningLog.Origin(
        adapter: adapter.name, mode: adapter.mode, device: plan.peer.description, deviceName: deviceName))
  }

  /// What is known when the files are made.
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

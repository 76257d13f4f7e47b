public import BLECore
public import BLEHost
import BLELinux
import BLEStack
import BLEWire
public import SensorSessions
import Synchronization

/// Records a ring's raw stream: connect, discover, subscribe, start, write, stop.
public struct RingCapture: Sendable {
  /// Where to find the ring.
  public struct Target: Sendable {
    public var address: DeviceAddress
    public var name: String?

    public init(address: DeviceAddress, name: String? = nil) {
      self.address = address
      self.name = name
    }
  }

  /// What happened to the link of a capture that goes on.
  public enum News: Sendable {
    case lost(SessionGap)
    /// The stream runs again.
    case back(SessionGap)
  }

  /// What remains of a capture: the report, and what ended it early if anything did.
  public struct Result: Sendable {
    public var report: SessionReport
    public var failure: HostError?
  }

  public var target: Target
  public var adapter: any Adapter
  public var limits: RecordingLimits
  public var directory: String
  public var connectTimeout = Duration.seconds(20)
  public var request = LinkRequest()
  /// How long to go on without the ring after a lost link; zero: a lost link is the end.
  public var patience = Duration.zero
  /// From when the time to the first sample counts; `nil`: from `run`.
  public var begunAt: ReceiveTime?
  public var news: @Sendable (News) -> Void = { _ in }
  /// Whether other processes hear of the packet log while it is written.
  public var isAnnounced = false
  public var logFormat = CaptureLogFormat.btsnoop
  public var tableFormat = TableFormat.csv
  /// For who watches; `nil`: nothing of the capture wakes while the ring is silent.
  package var live: (any RecordingWatcher)?

  public init(_ target: Target, adapter: any Adapter, limits: RecordingLimits, directory: String) {
    self.target = target
    self.adapter = adapter
    self.limits = limits
    self.directory = directory
  }

  /// Runs to the end. A cancelled task ends it like Ctrl-C: stream stopped, files complete.
  ///
  /// - Throws: what kept it from starting; once the stream runs, the result carries the failure instead.
  public func run() async throws(HostError) -> Result {
    let begunAt = begunAt ?? adapter.loop.clock.now()
    let packets = PacketQueue(byteCount: Recorder.packetQueueByteCount)
    let tap = PacketTap(packets)
    let sink = RingSink(limit: limits.count, tap: tap)
    let faults = await adapter.faults
    // A log is played no faster than it is written.
    await adapter.hold { sink.isHalfFull || packets.isHalfFull }

    let session = DeviceSession(plan(tap), on: adapter)
    let end = CaptureEnd(session, sink, limits)
    live?.follow(session) { ReceiveCounts(sink, packets) }
    await end.follow(live, news)
    let recording = OpenRecording(directory, adapter.loop.clock) { [weak end] in end?.finish(.disk) }
    let profile = RingProfile(sink) { connection throws(HostError) in
      try await recording.begin(emptyReport(), on: connection, announce: announce) {
        pace throws(SystemError) in
        let recorder = try await Recorder.start(
          in: directory, sink, as: tableFormat, packets: packets, format: logFormat, pace: pace,
          live: live)
        recorder.hold(adapter.loop.clock) { !sink.samples.isEmpty }
        return recorder
      }
    }
    // Its end is ours to choose: a cancelled task must not skip what is below.
    let running = adapter.loop.task { () -> HostError? in
      do throws(HostError) {
        try await session.run(profile)
        return nil
      } catch { return error }
    }
    let watch = adapter.loop.task { end.finish(.session(await running.value)) }
    let reason = await end.wait()
    running.cancel()
    await watch.value

    guard let files = recording.take() else { throw await running.value ?? .gatt(.closed(.closedLocally)) }
    var report = await report(session, sink, packets, reason)
    // Samples of a log have its times.
    report.timeToFirstSample = report.firstSampleAt.map { $0.nanoseconds - begunAt.nanoseconds }
      .flatMap { $0 < 0 ? nil : $0 }
    report.adapterFaults = await adapter.faults - faults
    let failure = await files.finish(&report, packets, adapter.loop.clock) { $0.take($1) }
    if let failure { return Result(report: report, failure: failure) }
    if case .session(let error) = reason { return Result(report: report, failure: error) }
    return Result(report: report, failure: nil)
  }

  /// The capture is none the worse where nobody can be told.
  private func announce() -> LogAnnouncement? {
    guard isAnnounced else { return nil }
    return try? LogAnnouncement(
      of: directory + "/" + logFormat.fileName,
      RunningLog.Origin(
        adapter: adapter.name, mode: adapter.mode, device: target.address.description,
        deviceName: target.name))
  }

  private func plan(_ tap: PacketTap) -> DeviceSession.Plan {
    var plan = DeviceSession.Plan(target.address)
    plan.request = request
    plan.connectTimeout = connectTimeout
    plan.patience = patience
    plan.tap = tap
    return plan
  }

  /// What is known before the first link.
  private func emptyReport() -> SessionReport {
    var report = SessionReport(
      device: target.address, deviceName: target.name, adapter: adapter.name, mode: adapter.mode,
      startedAt: adapter.loop.clock.now())
    report.packetLog = logFormat.fileName
    report.takeTuning(of: adapter.loop)
    return report
  }

  /// What is known after the last; what is in the files comes later.
  private func report(
    _ session: DeviceSession, _ sink: RingSink, _ packets: PacketQueue, _ reason: CaptureEnd.Reason
  ) async -> SessionReport {
    var report = emptyReport()
    await report.take(session)
    report.endReason = text(reason, hasStreamed: await session.hasStreamed, lost: await session.gaps.last)
    report.received = sink.received
    report.malformed += sink.malformed
    if let error = sink.lastMalformed { report.lastMalformed = error.description }
    report.otherFrames = sink.other
    report.repeated = sink.repeated
    report.lost.sampleQueue = sink.samples.dropped
    return report
  }

  /// As in `session.json`.
  private func text(_ reason: CaptureEnd.Reason, hasStreamed: Bool, lost: SessionGap?) -> String {
    switch reason {
    case .count: "count reached"
    case .duration: "duration over"
    case .interrupted, .session(nil): "interrupted"
    case .disk: "the disk refused to take more"
    case .session(let error?):
      if !hasStreamed {
        "the stream did not start"
      } else if let lost, case .noAnswer = error {
        "\(lost.end), and it was not back within \(patience.components.seconds) s"
      } else {
        "\(error)"
      }
    }
  }
}

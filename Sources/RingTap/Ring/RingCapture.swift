public import BLECore
public import BLEHost
import BLESensors
import BLEStack
import BLESystem
import BLEWire
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

  /// When to end, beside a lost link, a full disk and a cancelled task. All `nil`: only these.
  public struct Limits: Sendable {
    public var duration: Duration?
    /// Samples; the recording, packet log included, ends with the last of them.
    public var count: Int?

    public init(duration: Duration? = nil, count: Int? = nil) {
      self.duration = duration
      self.count = count
    }
  }

  /// How a capture stands, for a progress line.
  public struct Progress: Sendable {
    public var samples: Int
    public var malformed: Int
    public var lost: Int
    public var elapsed: Duration
  }

  /// What remains of a capture: the report, and what ended it early if anything did.
  public struct Result: Sendable {
    public var report: SessionReport
    public var failure: HostError?
  }

  /// How long the ring may take to obey a stop.
  private static let stopPatience = Duration.seconds(2)

  public var target: Target
  public var adapter: any Adapter
  public var limits: Limits
  public var directory: String
  public var connectTimeout = Duration.seconds(20)
  public var request = LinkRequest()
  /// Whether other processes hear of the packet log while it is written.
  public var isAnnounced = false
  public var logFormat = CaptureLogFormat.btsnoop

  public init(_ target: Target, adapter: any Adapter, limits: Limits, directory: String) {
    self.target = target
    self.adapter = adapter
    self.limits = limits
    self.directory = directory
  }

  /// Runs to the end. A cancelled task ends it like Ctrl-C: stream stopped, files complete.
  ///
  /// - Parameter progress: called about once a second.
  /// - Throws: what kept it from starting; once the stream runs, the result carries the failure instead.
  public func run(
    progress: @escaping @Sendable (Progress) -> Void
  ) async throws(HostError) -> Result {
    let packets = RecordRing(byteCount: Recorder.packetQueueByteCount)
    let tap = PacketTap(packets)
    let sink = RingSink(limit: limits.count, tap: tap)
    let faults = await adapter.faults
    // A log is played no faster than it is written.
    await adapter.hold { sink.isHalfFull || packets.isHalfFull }
    let connection = try await adapter.connect(
      to: target.address, asking: request, timeout: connectTimeout, tap: tap)
    let link = RecordingFiles.LinkStart(
      peer: target.address, handle: connection.handle, parameters: await connection.link.timing,
      time: adapter.loop.clock.now())
    do throws(HostError) {
      let ring = try await RingLink(connection)
      return try await record(ring, sink, packets, link, faults, progress)
    } catch {
      await connection.close()
      throw error
    }
  }

  private func record(
    _ ring: RingLink, _ sink: RingSink, _ packets: RecordRing, _ link: RecordingFiles.LinkStart,
    _ faultsBefore: Int, _ progress: @escaping @Sendable (Progress) -> Void
  ) async throws(HostError) -> Result {
    var report = SessionReport(
      device: target.address, deviceName: target.name, adapter: adapter.name, mode: adapter.mode,
      startedAt: adapter.loop.clock.now())
    report.packetLog = logFormat.fileName
    var folder = try hosting { () throws(SystemError) in
      try CaptureDirectory(creating: directory, report)
    }
    let recorder: Recorder
    do throws(SystemError) {
      recorder = try await adapter.loop.clock.standing { () async throws(SystemError) in
        try await Recorder.start(
          in: directory, sink, packets: packets, link: link, format: logFormat,
          pace: adapter.loop.clock.isVirtual ? .held : .free)
      }
    } catch { throw .system(error) }
    adapter.loop.clock.hold { !sink.samples.isEmpty }
    await ring.connection.addWake(recorder.wake)
    let announcement = isAnnounced ? announce() : nil

    let end = CaptureEnd(connection: ring.connection, sink: sink, recorder: recorder, limits: limits)
    var failure: HostError?
    do throws(HostError) {
      try await ring.startRaw(into: sink)
      end.startTimers(progress)
      report.endReason = await end.wait().text
    } catch {
      failure = error
      report.endReason = "the stream did not start"
    }
    // Nothing below may be skipped by a cancelled task.
    let link = await Task(executorPreference: adapter.loop.preference) { await Self.stop(ring) }.value
    let outcome = await adapter.loop.clock.standing { await recorder.finish() }
    announcement?.end()
    fill(&report, sink, packets, outcome, link)
    report.adapterFaults = await adapter.faults - faultsBefore
    if let reason = end.failure(outcome, link) { failure = failure ?? reason }
    do throws(SystemError) { try folder.finish(report) } catch { failure = failure ?? .system(error) }
    return Result(report: report, failure: failure)
  }

  /// The capture is none the worse where nobody can be told.
  private func announce() -> LogAnnouncement? {
    try? LogAnnouncement(
      of: directory + "/" + logFormat.fileName,
      RunningLog.Origin(
        adapter: adapter.name, mode: adapter.mode, device: target.address.description,
        deviceName: target.name))
  }

  /// How the bearer stood at the end.
  struct Link: Sendable {
    var statistics: BearerStatistics
    var end: BearerEnd?
    var mtu: Int
    var handle: ConnectionHandle
    var receiveBufferByteCount: Int
    var changes: [LinkChange]
    var disconnectReason: HCIStatus?
  }

  private static func stop(_ ring: RingLink) async -> Link {
    let connection = ring.connection
    let end = await connection.end
    if end == nil { await ring.stopRaw(within: stopPatience) }
    let link = Link(
      statistics: await connection.statistics, end: end, mtu: await connection.mtu,
      handle: connection.handle,
      receiveBufferByteCount: await connection.receiveBufferByteCount,
      changes: await connection.changes, disconnectReason: await connection.disconnectReason)
    await connection.close()
    return link
  }

  private func fill(
    _ report: inout SessionReport, _ sink: RingSink, _ packets: RecordRing,
    _ outcome: Recorder.Outcome, _ link: Link
  ) {
    report.endedAt = adapter.loop.clock.now()
    report.received = sink.received
    report.malformed = sink.malformed + link.statistics.malformed
    report.lastMalformed = (sink.lastMalformed ?? link.statistics.lastMalformed)?.description
    report.otherFrames = sink.other
    report.repeated = sink.repeated
    report.withoutKernelStamp = link.statistics.withoutKernelStamp
    report.lost.kernelQueue = link.statistics.kernelQueueDrops
    report.lost.sampleQueue = sink.samples.dropped
    report.lost.packetLog = packets.dropped + outcome.lostPackets
    report.lost.disk = outcome.lostSamples
    report.streams = RingStream.allCases.map {
      SessionReport.Stream(name: $0.name, file: $0.fileName, samples: outcome.samples[$0.rawValue])
    }
    report.mtu = link.mtu
    report.asked = request
    report.changes = link.changes
    report.disconnectReason = link.disconnectReason
    report.connectionHandle = link.handle
    report.receiveBufferByteCount = link.receiveBufferByteCount
  }
}

/// Turns a failed system call into an error of the host, where a `do` cannot: around noncopyable values.
private func hosting<T: ~Copyable>(
  _ body: () throws(SystemError) -> T
) throws(HostError) -> T {
  do throws(SystemError) { return try body() } catch { throw .system(error) }
}

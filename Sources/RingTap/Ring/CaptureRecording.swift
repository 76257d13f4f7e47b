import BLECore
import BLEHost
import BLESystem
import Synchronization

/// The files of a capture: made on the first link that is a ring's, kept through all that follow.
final class CaptureRecording: Sendable {
  /// What is open.
  struct Files: ~Copyable {
    let startedAt: ReceiveTime
    var folder: CaptureDirectory
    let recorder: Recorder
    var announcement: LogAnnouncement?

    /// Closes all, with the report about what is in them.
    ///
    /// - Returns: what kept a file from taking everything.
    consuming func finish(
      _ report: inout SessionReport, _ packets: RecordRing, _ clock: LoopClock
    ) async -> HostError? {
      let recorder = recorder
      let outcome = await clock.standing { await recorder.finish() }
      announcement.take()?.end()
      report.lost.packetLog = packets.dropped + outcome.lostPackets
      report.lost.disk = outcome.lostSamples
      report.take(outcome)
      report.endedAt = clock.now()
      var failure = outcome.failure.map { HostError.system($0) }
      do throws(SystemError) { try folder.finish(report) } catch { failure = failure ?? .system(error) }
      return failure
    }
  }

  private let capture: RingCapture
  private let sink: RingSink
  private let packets: RecordRing
  private let end: CaptureEnd
  private let files = Mutex<Files?>(nil)

  init(_ capture: RingCapture, _ sink: RingSink, _ packets: RecordRing, _ end: CaptureEnd) {
    self.capture = capture
    self.sink = sink
    self.packets = packets
    self.end = end
  }

  /// Before the stream starts on a link.
  ///
  /// - Throws: what keeps a file from being made.
  func begin(on connection: Connection) async throws(HostError) {
    if let recorder = files.withLock({ $0?.recorder }) { return await connection.addWake(recorder.wake) }
    do throws(SystemError) { try await open(connection) } catch { throw .system(error) }
  }

  private func open(_ connection: Connection) async throws(SystemError) {
    let report = capture.emptyReport()
    let folder = try CaptureDirectory(creating: capture.directory, report)
    let clock = capture.adapter.loop.clock
    let recorder = try await clock.standing { () async throws(SystemError) in
      try await Recorder.start(
        in: capture.directory, sink, packets: packets, format: capture.logFormat,
        pace: clock.isVirtual ? .held : .free)
    }
    clock.hold { [sink] in !sink.samples.isEmpty }
    end.watch(recorder)
    await connection.addWake(recorder.wake)
    // A closure cannot consume what it captures, but it can take it.
    var opened: Files? = Files(
      startedAt: report.startedAt, folder: folder, recorder: recorder,
      announcement: capture.isAnnounced ? announce() : nil)
    files.withLock { $0 = opened.take() }
  }

  /// The capture is none the worse where nobody can be told.
  private func announce() -> LogAnnouncement? {
    try? LogAnnouncement(
      of: capture.directory + "/" + capture.logFormat.fileName,
      RunningLog.Origin(
        adapter: capture.adapter.name, mode: capture.adapter.mode,
        device: capture.target.address.description, deviceName: capture.target.name))
  }

  /// The open files, if any were made. Once only.
  func take() -> Files? { files.withLock { $0.take() } }
}

import BLEHost
import BLELinux
import BLEWire
import Synchronization

/// The files of a recording: made on the first link whose device is what is wanted, kept through all that follow.
final class OpenRecording: Sendable {
  /// What is open.
  struct Files: ~Copyable {
    /// As it was when the files were made.
    let report: SessionReport
    let begunAt: MonotonicTime
    let directory: String
    var folder: CaptureDirectory
    let recorder: Recorder
    var announcement: LogAnnouncement?

    /// Closes all, with the report about what is in them.
    ///
    /// - Parameter take: what the report says of the tables.
    /// - Returns: what kept a file from taking everything, and where the directory is now.
    consuming func finish(
      _ report: inout SessionReport, _ packets: PacketQueue, _ clock: LoopClock,
      _ take: (inout SessionReport, Recorder.Outcome) -> Void
    ) async -> (failure: HostError?, directory: String?) {
      let recorder = recorder
      let outcome = await clock.standing { await recorder.finish() }
      announcement.take()?.end()
      report.startedAt = self.report.startedAt
      let endedAt = clock.now()
      report.endedAt = endedAt
      let step = (endedAt - report.startedAt) - (clock.monotonic() - begunAt)
      // A clock that is slewed, or set and set back, is off by less.
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

  private let directory: String
  private let clock: LoopClock
  private let failed: @Sendable () -> Void
  private let files = Mutex<Files?>(nil)

  /// - Parameter failed: called where the disk refuses to go on.
  init(_ directory: String, _ clock: LoopClock, failed: @escaping @Sendable () -> Void) {
    self.directory = directory
    self.clock = clock
    self.failed = failed
  }

  /// For each link.
  ///
  /// - Parameters:
  ///   - report: what is known before the first one.
  ///   - begunAt: `startedAt` of the report by the clock that is never stepped.
  ///   - announce: tells other processes of the packet log.
  ///   - start: makes the files.
  /// - Throws: what keeps a file from being made.
  func begin(
    _ report: SessionReport, begunAt: MonotonicTime, on connection: Connection,
    announce: () -> LogAnnouncement? = { nil },
    _ start: @Sendable (Recorder.Pace) async throws(SystemError) -> Recorder
  ) async throws(HostError) {
    if let recorder = files.withLock({ $0?.recorder }) {
      await connection.addWake(recorder.wake)
      // The stream may run already.
      return recorder.wake.signal()
    }
    do throws(SystemError) {
      let folder = try CaptureDirectory(creating: directory, report)
      let pace: Recorder.Pace = clock.isVirtual ? .held : .free
      let recorder = try await clock.standing { () async throws(SystemError) in try await start(pace) }
      recorder.onFailure(failed)
      await connection.addWake(recorder.wake)
      // The stream may run already.
      recorder.wake.signal()
      // A closure cannot consume what it captures, but it can take it.
      var made: Files? = Files(
        report: report, begunAt: begunAt, directory: directory, folder: folder, recorder: recorder,
        announcement: announce())
      files.withLock { $0 = made.take() }
    } catch { throw .system(error) }
  }

  /// Has the writer's thread look at once for whom it tells, if there are files.
  func hurry() { files.withLock { $0?.recorder }?.hurry() }

  /// The open files, if any were made. Once only.
  func take() -> Files? { files.withLock { $0.take() } }
}

import BLEHost
import BLELinux
import BLEWire
import Synchronization

/// The files of a recording, created on the first link to a suitable device and kept for all later links.
final class OpenRecording: Sendable {
  /// The open files.
  struct Files: ~Copyable {
    /// The report at the time when the files were created.
    let report: SessionReport
    let begunAt: MonotonicTime
    let directory: String
    var folder: CaptureDirectory
    let recorder: Recorder
    var announcement: LogAnnouncement?

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
      report.startedAt = self.report.startedAt
      let endedAt = clock.now()
      report.endedAt = endedAt
      let step = (endedAt - report.startedAt) - (clock.monotonic() - begunAt)
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

  private let directory: String
  private let clock: LoopClock
  private let failed: @Sendable () -> Void
  private let files = Mutex<Files?>(nil)

  /// - Parameter failed: called if writing to disk fails.
  init(_ directory: String, _ clock: LoopClock, failed: @escaping @Sendable () -> Void) {
    self.directory = directory
    self.clock = clock
    self.failed = failed
  }

  /// Creates the files if necessary; called for each link.
  ///
  /// - Parameters:
  ///   - report: the report as known before the first link.
  ///   - begunAt: the report's `startedAt` on the monotonic clock.
  ///   - announce: announces the packet log to other processes.
  ///   - start: creates the files.
  /// - Throws: an error that prevents creating a file.
  func begin(
    _ report: SessionReport, begunAt: MonotonicTime, on connection: Connection,
    announce: () -> LogAnnouncement? = { nil },
    _ start: @Sendable (Recorder.Pace) async throws(SystemError) -> Recorder
  ) async throws(HostError) {
    if let recorder = files.withLock({ $0?.recorder }) {
      await connection.addWake(recorder.wake)
      // Signal, because the stream may already be running.
      return recorder.wake.signal()
    }
    do throws(SystemError) {
      let folder = try CaptureDirectory(creating: directory, report)
      let pace: Recorder.Pace = clock.isVirtual ? .held : .free
      let recorder = try await clock.standing { () async throws(SystemError) in try await start(pace) }
      recorder.onFailure(failed)
      await connection.addWake(recorder.wake)
      // Signal, because the stream may already be running.
      recorder.wake.signal()
      // A closure cannot consume a captured value, but it can take the value out of an optional.
      var made: Files? = Files(
        report: report, begunAt: begunAt, directory: directory, folder: folder, recorder: recorder,
        announcement: announce())
      files.withLock { $0 = made.take() }
    } catch { throw .system(error) }
  }

  /// Makes the writer's thread begin a turn at once, if there are files.
  func hurry() { files.withLock { $0?.recorder }?.hurry() }

  /// Returns the open files, if any were created; `nil` on later calls.
  func take() -> Files? { files.withLock { $0.take() } }
}

import BLEHost
import BLELinux
import BLEWire
import Synchronization

/// Files of a recording. They are created on the first link to a suitable device, and used for all later
/// links.
final class OpenRecording: Sendable {
  /// The open files.
  struct Files: ~Copyable {
    /// The report when the files were created.
    let report: SessionReport
    let begunAt: MonotonicTime
    let directory: String
    var folder: CaptureDirectory
    let recorder: Recorder
    var announcement: LogAnnouncement?

    /// Closes all files and completes the report.
    ///
    /// - Parameters:
    ///   - report: the report to complete.
    ///   - packets: queue of the packet log.
    ///   - clock: clock of the loop.
    ///   - take: copies the tables' results into the report.
    /// - Returns: the error that prevented writing a file completely, and the directory's current path.
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
      // Smaller differences result from slewing, or from setting the clock and setting it back.
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

  /// Prepares the files of a recording.
  ///
  /// - Parameter failed: called if writing to disk fails.
  init(_ directory: String, _ clock: LoopClock, failed: @escaping @Sendable () -> Void) {
    self.directory = directory
    self.clock = clock
    self.failed = failed
  }

  /// Creates the files, unless they exist. Called for each link.
  ///
  /// - Parameters:
  ///   - report: the report before the first link.
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
      // Signal the writer, because the stream may already be running.
      return recorder.wake.signal()
    }
    do throws(SystemError) {
      let folder = try CaptureDirectory(creating: directory, report)
      let pace: Recorder.Pace = clock.isVirtual ? .held : .free
      let recorder = try await clock.standing { () async throws(SystemError) in try await start(pace) }
      recorder.onFailure(failed)
      await connection.addWake(recorder.wake)
      // Signal the writer, because the stream may already be running.
      recorder.wake.signal()
      // A closure cannot consume a captured value, but can take it out of an optional.
      var made: Files? = Files(
        report: report, begunAt: begunAt, directory: directory, folder: folder, recorder: recorder,
        announcement: announce())
      files.withLock { $0 = made.take() }
    } catch { throw .system(error) }
  }

  /// Makes the writer's thread begin a turn at once, if the files were created.
  func hurry() { files.withLock { $0?.recorder }?.hurry() }

  /// Returns the open files; `nil` if none were created, and on later calls.
  func take() -> Files? { files.withLock { $0.take() } }
}

import BLEHost
import BLELinux
import BLEWire
import Glibc
import LiveView
package import Outlets
import Recording
import SensorSessions
import Synchronization

/// Records one device of a daemon over one radio, in consecutive captures, until the task is cancelled, the
/// radio is lost, or another radio should try to reach the device. Recording continues after other errors.
final class DaemonDevice: Sendable {
  /// Time limit for reconnecting, longer than any capture.
  private static let patience = Duration.seconds(10 * 366 * 24 * 3600)
  /// Time limit for reconnecting if another radio may reach the device.
  private static let patienceBeforeMove = Duration.seconds(60)
  /// Timeout for connecting, short because only one device can connect at a time and other devices may be
  /// waiting.
  private static let connectTimeout = Duration.seconds(10)
  /// Pause after a disk error. The pause doubles with each error, up to an hour.
  private static let pauseForDisk = Duration.seconds(60)...Duration.seconds(3600)
  /// Free space needed to start a capture: its first files, and some minutes of rows.
  private static let neededByteCount = 1 << 20
  /// Duration of a short capture. If a short capture was removed, the next capture starts after a pause.
  private static let shortCapture = Duration.seconds(60)
  /// Pause if the previous capture's link still exists: a disconnection completes only at a connection event.
  private static let pauseForLink = Duration.seconds(1)

  /// The reason why `run` ended.
  enum End: Hashable {
    case cancelled
    case radioLost(HostError)
    /// The radio does not reach the device.
    case unreached
  }

  private enum Outcome {
    case ended(SessionReport, HostError?)
    case failed(HostError)

    /// The outcome if the disk is too full to start a capture.
    static var noRoom: Outcome { .failed(.system(.noRoom)) }

    /// Whether the files contain any samples.
    var hasRows: Bool {
      if case .ended(let report, _) = self { report.streams.contains { $0.samples > 0 } } else { false }
    }
  }

  private struct State: Sendable {
    /// The directory of the current capture. The directory is created when the device responds.
    var directory: String?
    var feed: LiveFeed?
    var counts = DaemonStatus.Counts()
    var lastProblem: String?
    var lastKind: String?
  }

  let job: DaemonJob
  private let adapter: any Adapter
  private let shelf: CaptureShelf
  private let disk: DiskThread
  private let newCaptureAfter: Duration
  private let syncInterval: Duration
  private let events: DaemonEvents
  /// Whether another radio may serve the device.
  private let mayMove: Bool
  private let state = Mutex(State())

  init(
    _ job: DaemonJob, on adapter: any Adapter, in shelf: CaptureShelf, _ disk: DiskThread,
    newCaptureAfter: Duration, syncInterval: Duration, _ events: DaemonEvents, mayMove: Bool = false,
    continuing past: Past? = nil
  ) {
    self.job = job
    self.adapter = adapter
    (self.shelf, self.disk) = (shelf, disk)
    (self.newCaptureAfter, self.syncInterval) = (newCaptureAfter, syncInterval)
    self.events = events
    self.mayMove = mayMove
    guard let past else { return }
    state.withLock {
      ($0.counts, $0.lastProblem, $0.lastKind) = (past.counts, past.lastProblem, past.lastKind)
    }
  }

  /// Counts and problem of a device that moves to another radio.
  struct Past: Sendable {
    var counts: DaemonStatus.Counts
    var lastProblem: String?
    var lastKind: String?
  }

  var past: Past {
    state.withLock { Past(counts: $0.counts, lastProblem: $0.lastProblem, lastKind: $0.lastKind) }
  }

  /// The directory of the current capture.
  var openDirectory: String? { state.withLock { $0.directory } }

  /// Returns the growth of the tables of the current capture, in rows per second.
  func rowsPerSecond() async -> Double {
    await status().streams.reduce(0) { $0 + ($1.rate ?? 0) }
  }

  /// Records until the task is cancelled, the radio is lost, or the radio does not reach the device.
  func run() async -> End {
    let home = beginHome()
    let end = await recordAll(home?.watcher)
    // Runs in a separate task, because this task may already be cancelled.
    if let problem = await Task(operation: { await home?.finish() }).value {
      events.note("\(job.device.name): Home Assistant did not receive everything: \(problem)")
    }
    return end
  }

  private func beginHome() -> HomeRun? {
    guard let plan = job.homeAssistant else { return nil }
    let device = job.device
    do throws(SystemError) {
      return try plan.begin(device.address, kind: device.sensor.name, name: device.name) { [events] in
        events.note("\(device.name): \($0)")
      }
    } catch {
      events.note("\(device.name): cannot publish to Home Assistant: \(error)")
      return nil
    }
  }

  private func recordAll(_ watcher: (any RecordingWatcher)?) async -> End {
    var (backOff, pauseForDisk) = (BackOff(), Self.pauseForDisk.lowerBound)
    while !Task.isCancelled {
      let begunAt = adapter.loop.clock.monotonic()
      let (shelf, name, now) = (shelf, job.device.name, adapter.loop.clock.now())
      let (directory, hasRoom) = await onDisk {
        (shelf.place(for: name, at: now), shelf.hasRoom(for: Self.neededByteCount))
      }
      let feed = LiveFeed(job.device.address, name: job.device.name)
      state.withLock { ($0.directory, $0.feed) = (directory, feed) }
      let outcome = hasRoom ? await record(into: directory, feed, watcher) : .noRoom
      // Connection Already Exists. Core 5.4, Vol 1, Part F, 2.11.
      if case .failed(.commandRefused(_, let status)) = outcome, status.rawValue == 0x0B {
        try? await adapter.loop.wait(for: Self.pauseForLink)
        continue
      }
      let failure = await close(outcome, directory)
      if Task.isCancelled { break }
      guard let failure else {
        (backOff, pauseForDisk) = (BackOff(), Self.pauseForDisk.lowerBound)
        continue
      }
      if failure.isOfRadio { return .radioLost(failure) }
      if case .ended(let report, _) = outcome, report.received > 0,
        report.removedFiles.isEmpty
          || begunAt.advanced(by: Self.shortCapture) < adapter.loop.clock.monotonic()
      {
        backOff = BackOff()
      }
      if outcome.hasRows { pauseForDisk = Self.pauseForDisk.lowerBound }
      var pause = backOff.next()
      if case .system = failure {
        await events.diskRefused()
        pause = pauseForDisk
        pauseForDisk = min(pauseForDisk * 2, Self.pauseForDisk.upperBound)
      }
      if pause > .zero { try? await adapter.loop.wait(for: pause) }
      if mayMove, failure.isOfReach, !Task.isCancelled { return .unreached }
    }
    return .cancelled
  }

  /// Runs `body` on the disk thread while virtual time is stopped.
  private func onDisk<Value: Sendable>(_ body: @escaping @Sendable () -> Value) async -> Value {
    await adapter.loop.clock.standing { await disk.run(body) }
  }

  // MARK: One capture

  private func record(
    into directory: String, _ feed: LiveFeed, _ watcher: (any RecordingWatcher)?
  ) async -> Outcome {
    let device = job.device
    var recording = SensorRecording(
      of: device.address, on: adapter, into: directory, RecordingLimits(duration: newCaptureAfter))
    recording.plan.request = device.link
    recording.plan.connectTimeout = Self.connectTimeout
    recording.plan.patience = mayMove ? Self.patienceBeforeMove : Self.patience
    recording.isAnnounced = true
    recording.tableFormat = device.format
    recording.syncInterval = syncInterval
    recording.live = RecordingWatchers.of([feed] + (watcher.map { [$0] } ?? []))
    recording.news = { [events] in events.link($0, of: device.name, in: directory) }
    do throws(HostError) {
      guard let kind = device.sensor.kind else {
        throw .unsuitable("there is no kind of sensor named \(device.sensor.name)")
      }
      let result = try await recording.run(kind)
      return .ended(result.report, result.failure)
    } catch { return .failed(error) }
  }

  /// Adds a capture's counts to the totals and reports the capture's end.
  ///
  /// - Returns: the error that delays the next capture; `nil` without an error.
  private func close(_ outcome: Outcome, _ directory: String) async -> HostError? {
    let failure: HostError?
    switch outcome {
    case .ended(let report, let error):
      failure = error
      state.withLock { $0.counts.take(report) }
      events.ended(report, directory, of: job.device.name)
    case .failed(let error):
      failure = error
      state.withLock { $0.counts.failedStarts += 1 }
    }
    // If the capture created the directory, remove it. With EEXIST, another program created the directory.
    if case .system(let error) = failure, error.number != EEXIST, !outcome.hasRows {
      await onDisk { try? Files.removeTree(directory) }
    }
    let text = failure.map { "\($0)" }
    // A repeated error is reported once, even if the directory's name differs.
    let kind = failure.map(Self.kind)
    let isNew = state.withLock { state in
      (state.directory, state.feed) = (nil, nil)
      defer { (state.lastProblem, state.lastKind) = (text ?? state.lastProblem, kind ?? state.lastKind) }
      return kind != nil && kind != state.lastKind
    }
    if isNew, let text, !Task.isCancelled { events.note("\(job.device.name): \(text)") }
    if failure == nil { state.withLock { ($0.lastProblem, $0.lastKind) = (nil, nil) } }
    return failure
  }

  private static func kind(_ failure: HostError) -> String {
    if case .system(let error) = failure { error.name } else { "\(failure)" }
  }

  // MARK: Status

  /// Returns the device's state.
  ///
  /// - Returns: the status with the current capture's directory, which may not exist yet.
  func status() async -> DaemonStatus.Device {
    let state = state.withLock { $0 }
    var status = DaemonStatus.Device(
      name: job.device.name, address: job.device.address, sensor: job.device.sensor.name,
      directory: state.directory, counts: state.counts,
      lastProblem: state.lastProblem)
    status.adapter = adapter.name
    if let feed = state.feed {
      status.take(feed.device(await feed.standing(), columns: 0, at: adapter.loop.clock.monotonic()))
    }
    return status
  }
}

extension HostError {
  /// Whether another radio may reach the device.
  fileprivate var isOfReach: Bool {
    switch self {
    case .noAnswer, .startTimedOut, .connectFailed, .linkFailed: true
    default: false
    }
  }
}

/// A device to record, and the plan for publishing its values.
package struct DaemonJob: Hashable, Sendable {
  package var device: DaemonConfiguration.Device
  /// The plan for Home Assistant; `nil` if nothing is published to Home Assistant.
  package var homeAssistant: HomePlan?

  package init(_ device: DaemonConfiguration.Device, homeAssistant: HomePlan? = nil) {
    (self.device, self.homeAssistant) = (device, homeAssistant)
  }
}

extension HostError {
  /// Whether the error affects all devices of the adapter. If so, the adapter must be reopened.
  fileprivate var isOfRadio: Bool {
    switch self {
    case .noBluetooth, .noAdapter, .adapterDown, .controller, .adapterBusy: true
    case .system(let error): error.condition == .adapterGone
    default: false
    }
  }
}

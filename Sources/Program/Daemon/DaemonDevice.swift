package import BLEHost
import BLELinux
import BLEWire
import Glibc
import LiveView
package import Outlets
import Recording
import SensorSessions
import Synchronization

/// One device of a daemon: capture after capture, for ever, whatever comes between.
final class DaemonDevice: Sendable {
  /// A lost link is made again for as long as the capture lasts.
  private static let patience = Duration.seconds(10 * 366 * 24 * 3600)
  /// Others wait meanwhile: one connect at a time.
  private static let connectTimeout = Duration.seconds(10)
  /// After a disk that refused: nothing changes at once. Twice as long each time, up to an hour.
  private static let pauseForDisk = Duration.seconds(60)...Duration.seconds(3600)
  /// What a capture must find free: its first files, and some minutes of rows.
  private static let neededByteCount = 1 << 20
  /// Somebody who removes one capture after the other gets no new one at once.
  private static let shortCapture = Duration.seconds(60)
  /// While the link of the capture before is not gone: its device hears of that at a connection event.
  private static let pauseForLink = Duration.seconds(1)

  private enum Outcome {
    case ended(SessionReport, HostError?)
    case failed(HostError)

    /// Not begun: the disk is full.
    static var noRoom: Outcome { .failed(.system(.noRoom)) }

    /// Whether anything that a sensor said is in the files.
    var hasRows: Bool {
      if case .ended(let report, _) = self { report.streams.contains { $0.samples > 0 } } else { false }
    }
  }

  private struct State: Sendable {
    /// Where the capture that is on goes, once its device answers.
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
  private let state = Mutex(State())

  init(
    _ job: DaemonJob, on adapter: any Adapter, in shelf: CaptureShelf, _ disk: DiskThread,
    newCaptureAfter: Duration, syncInterval: Duration, _ events: DaemonEvents
  ) {
    self.job = job
    self.adapter = adapter
    (self.shelf, self.disk) = (shelf, disk)
    (self.newCaptureAfter, self.syncInterval) = (newCaptureAfter, syncInterval)
    self.events = events
  }

  /// The capture that is written now.
  var openDirectory: String? { state.withLock { $0.directory } }

  /// Records until the task is cancelled, or the radio is gone.
  ///
  /// - Returns: how the radio went.
  func run() async -> HostError? {
    let home = beginHome()
    let lost = await recordAll(home?.watcher)
    // The end is told although this task is cancelled.
    if let problem = await Task(operation: { await home?.finish() }).value {
      events.note("\(job.device.name): Home Assistant was not told everything: \(problem)")
    }
    return lost
  }

  private func beginHome() -> HomeRun? {
    guard let plan = job.homeAssistant else { return nil }
    let device = job.device
    do throws(SystemError) {
      return try plan.begin(device.address, kind: device.sensor.name, name: device.name) { [events] in
        events.note("\(device.name): \($0)")
      }
    } catch {
      events.note("\(device.name): Home Assistant is told nothing: \(error)")
      return nil
    }
  }

  private func recordAll(_ watcher: (any RecordingWatcher)?) async -> HostError? {
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
      if failure.isOfRadio { return failure }
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
    }
    return nil
  }

  /// Waits for the disk, while virtual time stands still.
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
    recording.plan.request = job.request
    recording.plan.connectTimeout = Self.connectTimeout
    recording.plan.patience = Self.patience
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

  /// Adds up what a capture came to, and tells of it.
  ///
  /// - Returns: why the next one must wait.
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
    // The directory was not there before, so all that is in it is of this capture, unless somebody else was first.
    if case .system(let error) = failure, error.number != EEXIST, !outcome.hasRows {
      await onDisk { try? Files.removeTree(directory) }
    }
    let text = failure.map { "\($0)" }
    // What goes on and on is told once, whatever the directory is called.
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

  // MARK: How it stands

  /// - Returns: with the directory of the capture that is on, whether it is there yet or not.
  func status() async -> DaemonStatus.Device {
    let state = state.withLock { $0 }
    var status = DaemonStatus.Device(
      name: job.device.name, address: job.device.address, sensor: job.device.sensor.name,
      directory: state.directory, counts: state.counts,
      lastProblem: state.lastProblem)
    if let feed = state.feed {
      status.take(feed.device(await feed.standing(), columns: 0, at: adapter.loop.clock.monotonic()))
    }
    return status
  }
}

/// What a daemon is to record of one device, and how.
///
/// Equal to another one that does the same, however its options are written.
package struct DaemonJob: Equatable, Sendable {
  package var device: DaemonConfiguration.Device
  package var request: LinkRequest
  /// `nil`: Home Assistant is told nothing.
  package var homeAssistant: HomePlan?

  package init(
    _ device: DaemonConfiguration.Device, _ request: LinkRequest, homeAssistant: HomePlan? = nil
  ) {
    (self.device, self.request, self.homeAssistant) = (device, request, homeAssistant)
  }

  package static func == (one: DaemonJob, other: DaemonJob) -> Bool {
    var (device, otherDevice) = (one.device, other.device)
    (device.link, otherDevice.link) = (.init(), .init())
    return device == otherDevice && one.request == other.request && one.homeAssistant == other.homeAssistant
  }
}

extension HostError {
  /// Whether all devices of the adapter have it, and a new one must be had.
  fileprivate var isOfRadio: Bool {
    switch self {
    case .noBluetooth, .noAdapter, .adapterDown, .controller, .adapterBusy: true
    case .system(let error): error.condition == .adapterGone
    default: false
    }
  }
}

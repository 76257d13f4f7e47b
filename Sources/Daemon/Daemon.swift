import BLECore
package import BLEHost
import BLELinux
package import Fleet
import Recording
import SensorSessions
import Synchronization

/// Records the devices of a configuration over one adapter, unattended: every capture ends some time, and the next one
/// begins; what is too old or too much goes.
///
/// It lives on its adapter's loop.
package actor Daemon {
  /// Beside the times when something changes.
  private static let sweepInterval = Duration.seconds(600)

  private struct Entry {
    let device: DaemonDevice
    let task: Task<Void, Never>
  }

  package nonisolated let adapter: any Adapter
  package nonisolated var unownedExecutor: UnownedSerialExecutor { adapter.loop.executor }
  private nonisolated let note: @Sendable (String) -> Void
  /// What devices tell of their links.
  private nonisolated let links: NoteLimit
  private let startedAt: ReceiveTime
  private var configuration: DaemonConfiguration
  private var publisher: DaemonPublisher?
  private var publishing: Task<Void, Never>?
  private var entries: [Entry] = []
  private var lost: HostError?
  /// The task was cancelled, or the radio is gone.
  private let over = OneShot<Void>()
  private var isEnding = false
  /// Captures that retention has taken away, and what it could not.
  private var removed = 0
  private var lastProblem: String?

  /// - Parameter note: takes a line for the journal.
  package init(
    _ configuration: DaemonConfiguration, on adapter: any Adapter, note: @escaping @Sendable (String) -> Void
  ) {
    self.configuration = configuration
    self.adapter = adapter
    self.note = note
    links = NoteLimit(on: adapter.loop, note)
    startedAt = adapter.loop.clock.now()
  }

  /// Records until the task is cancelled, which ends all captures like Ctrl-C, or until the radio is gone.
  ///
  /// - Parameter plan: to publish what is recorded.
  /// - Returns: how the radio went.
  package func run(_ jobs: [DaemonJob], publishing plan: PublishRun.Plan? = nil) async -> HostError? {
    await begin(jobs)
    await publish(plan)
    let sweeping = adapter.loop.task { [self] in
      repeat { await sweep() } while (try? await adapter.loop.wait(for: Self.sweepInterval)) != nil
    }
    await withTaskCancellationHandler {
      await over.value()
    } onCancel: {
      adapter.loop.later(self) { $0.end() }
    }
    isEnding = true
    sweeping.cancel()
    await stop(entries)
    entries = []
    await publish(nil)
    sweep()
    links.flush()
    return lost
  }

  /// Goes on with another configuration: devices that are the same in both notice nothing. The radio stays.
  package func reload(
    _ configuration: DaemonConfiguration, _ jobs: [DaemonJob], publishing plan: PublishRun.Plan?
  ) async {
    let isSame =
      configuration.directory == self.configuration.directory
      && configuration.newCaptureAfter == self.configuration.newCaptureAfter
      && configuration.syncInterval == self.configuration.syncInterval
    self.configuration = configuration
    let gone = entries.filter { !isSame || !jobs.contains($0.device.job) }
    entries.removeAll { entry in gone.contains { $0.device === entry.device } }
    await stop(gone)
    await begin(jobs.filter { job in !entries.contains { $0.device.job == job } })
    if plan != publisher?.plan || !isSame { await publish(plan) }
    sweep()
  }

  private func begin(_ jobs: [DaemonJob]) async {
    let events = DaemonEvents(note: note, links: links) { [weak self] in await self?.sweep() }
    for job in jobs where !isEnding {
      let device = DaemonDevice(
        job, on: adapter, in: CaptureShelf(directory: configuration.directory),
        newCaptureAfter: configuration.newCaptureAfter, syncInterval: configuration.syncInterval, events)
      let task = adapter.loop.task { [weak self] in
        if let error = await device.run() { await self?.radioLost(error) }
      }
      entries.append(Entry(device: device, task: task))
    }
  }

  private func stop(_ entries: [Entry]) async {
    for entry in entries { entry.task.cancel() }
    for entry in entries { await entry.task.value }
  }

  private func radioLost(_ error: HostError) {
    lost = lost ?? error
    over.set(())
  }

  private func end() {
    isEnding = true
    over.set(())
  }

  // MARK: Publishing

  /// By another plan than before, or no more.
  private func publish(_ plan: PublishRun.Plan?) async {
    publishing?.cancel()
    await publishing?.value
    await publisher?.finish()
    publisher = plan.map { DaemonPublisher($0, note: note) }
    publishing = publisher.map { publisher in
      Task { await publisher.run { [weak self] in await self?.captures() ?? [] } }
    }
  }

  private var openDirectories: Set<String> { Set(entries.compactMap(\.device.openDirectory)) }

  private func captures() -> [DaemonCapture] {
    CaptureShelf(directory: configuration.directory).captures(open: openDirectories)
  }

  // MARK: Retention

  private func sweep() {
    let shelf = CaptureShelf(directory: configuration.directory)
    let captures = shelf.sizedCaptures(open: openDirectories)
    let free = (try? Files.freeByteCount(at: configuration.directory)) ?? .max
    let now = adapter.loop.clock.now()
    for capture in configuration.retention.expired(captures, at: now, free: free) {
      do throws(SystemError) {
        try Files.removeTree(capture.path)
        removed += 1
        note("\(capture.path) removed by the retention policy")
      } catch {
        let text = "cannot take \(capture.path) away: \(error)"
        if text != lastProblem { note(text) }
        lastProblem = text
      }
    }
  }

  // MARK: How it stands

  package func status() async -> DaemonStatus {
    var devices: [DaemonStatus.Device] = []
    for entry in entries { devices.append(await entry.device.status()) }
    return DaemonStatus(
      adapter: adapter.name, mode: adapter.mode, startedAt: startedAt, now: adapter.loop.clock.now(),
      directory: configuration.directory,
      freeByteCount: try? Files.freeByteCount(at: configuration.directory), removedCaptures: removed,
      publishing: await publisher?.status, devices: devices)
  }
}

/// Whom a device's recorder tells what.
struct DaemonEvents: Sendable {
  let note: @Sendable (String) -> Void
  let links: NoteLimit
  let diskRefused: @Sendable () async -> Void

  init(
    note: @escaping @Sendable (String) -> Void, links: NoteLimit,
    diskRefused: @escaping @Sendable () async -> Void
  ) {
    self.note = note
    self.links = links
    self.diskRefused = diskRefused
  }

  func link(_ news: SensorRecording.News, of device: String, in directory: String) {
    switch news {
    case .lost(let gap): links.note("\(device): \(gap.end); connecting again")
    case .back(let gap):
      let seconds = gap.recoveryNanoseconds.map { " after \($0 / 1_000_000_000) s" } ?? ""
      links.note("\(device): back\(seconds)")
    case .removed(let removal): note("\(device): \(removal.text(in: directory))")
    }
  }

  func ended(_ report: SessionReport, _ directory: String, of device: String) {
    let lost = report.lost.total > 0 ? ", \(report.lost.total) lost" : ""
    note(
      "\(device): \(report.received) notifications\(lost), \(report.gapCount) gaps in \(directory); "
        + "\(report.endReason ?? "")")
  }
}

package import BLEHost
import BLELinux
import BLEWire
import Fleet
import Glibc
import Recording
import SensorSessions
import Synchronization

/// Records the devices of a configuration unattended, over one adapter. After each capture the next one
/// starts. Captures beyond the limits of age and size are deleted.
///
/// Runs on the event loop of its adapter.
package actor Daemon {
  /// Time between regular retention sweeps. Changes cause further sweeps.
  private static let sweepInterval = Duration.seconds(600)

  private struct Entry {
    let device: DaemonDevice
    let task: Task<Void, Never>
  }

  package nonisolated let adapter: any Adapter
  package nonisolated var unownedExecutor: UnownedSerialExecutor { adapter.loop.executor }
  private nonisolated let note: @Sendable (String) -> Void
  /// Rate limit for messages about links.
  private nonisolated let links: NoteLimit
  private let startedAt: ReceiveTime
  private var configuration: DaemonConfiguration
  private var publisher: DaemonPublisher?
  private var publishing: Task<Void, Never>?
  private var entries: [Entry] = []
  private var lost: HostError?
  /// Set when the task is cancelled or the radio is lost.
  private let over = OneShot<Void>()
  private var isEnding = false
  /// Runs short file-system calls.
  private nonisolated let disk = DiskThread("ringtap-disk")
  /// Runs sweeps, which may take minutes.
  private nonisolated let broom = DiskThread("ringtap-sweep")
  private var isSweeping = false
  private var mustSweepAgain = false
  /// Number of captures removed by retention, its last error, and the symbolic links already reported.
  private var removed = 0
  private var lastProblem: String?
  private var toldLinks: Set<String> = []

  /// - Parameter note: receives lines for the journal.
  package init(
    _ configuration: DaemonConfiguration, on adapter: any Adapter, note: @escaping @Sendable (String) -> Void
  ) {
    self.configuration = configuration
    self.adapter = adapter
    self.note = note
    links = NoteLimit(on: adapter.loop, note)
    startedAt = adapter.loop.clock.now()
  }

  /// Records until the radio is lost or the task is cancelled. Cancelling ends all captures as Ctrl-C does.
  ///
  /// - Returns: the error that lost the radio.
  package func run() async -> HostError? {
    await begin(configuration.jobs)
    await publish(configuration.publishing)
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
    // The next daemon's first sweep removes what this one did not finish removing.
    disk.end()
    broom.end()
    links.flush()
    return lost
  }

  /// Applies another configuration. Devices that are equal in both continue undisturbed. The radio options do
  /// not change.
  package func reload(_ configuration: DaemonConfiguration) async {
    let (jobs, plan) = (configuration.jobs, configuration.publishing)
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
    adapter.loop.later(self) { await $0.sweep() }
  }

  private func begin(_ jobs: [DaemonJob]) async {
    let events = DaemonEvents(note: note, links: links) { [weak self] in await self?.sweep() }
    for job in jobs where !isEnding {
      let device = DaemonDevice(
        job, on: adapter, in: CaptureShelf(directory: configuration.directory),
        disk, newCaptureAfter: configuration.newCaptureAfter, syncInterval: configuration.syncInterval, events
      )
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

  /// Stops publishing, then starts again with another plan unless it is `nil`.
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

  private func captures() async -> [DaemonCapture] {
    let shelf = CaptureShelf(directory: configuration.directory)
    let captures = await disk.run { shelf.captures() }
    // Read the open directories after listing the folders: a listed capture that is not open now has ended.
    let open = openDirectories
    return captures.map { capture in
      var capture = capture
      capture.isOpen = open.contains(capture.path)
      return capture
    }
  }

  // MARK: Retention

  /// Removes captures beyond the limits. Only one sweep runs at a time. A request during a sweep starts
  /// another sweep afterwards.
  private func sweep() async {
    mustSweepAgain = true
    guard !isSweeping else { return }
    isSweeping = true
    defer { isSweeping = false }
    while mustSweepAgain, !isEnding {
      mustSweepAgain = false
      await sweepOnce()
    }
  }

  private func sweepOnce() async {
    let shelf = CaptureShelf(directory: configuration.directory)
    let goesOn = Pace { [over] in over.current == nil }
    var inventory = await standing { [broom] in
      await broom.run {
        try? shelf.removeRests(while: goesOn.next)
        return shelf.inventory()
      }
    }
    for link in inventory.links where toldLinks.insert(link).inserted {
      note("\(link) is a symbolic link: its target is not counted, and retention removes nothing there")
    }
    // Read the open directories after listing the folders, as above.
    let open = openDirectories
    for place in inventory.captures.indices {
      inventory.captures[place].isOpen = open.contains(inventory.captures[place].path)
    }
    let now = adapter.loop.clock.now()
    for capture in configuration.retention.expired(inventory.captures, at: now, free: inventory.free ?? .max)
    where !isEnding {
      let result = await standing { [broom] in
        await broom.run { Result { () throws(SystemError) in try shelf.remove(capture, while: goesOn.next) } }
      }
      do throws(SystemError) {
        try result.get()
        removed += 1
        note("\(capture.path) removed by the retention policy")
      } catch {
        let text = "cannot remove \(capture.path): \(error)"
        if text != lastProblem { note(text) }
        lastProblem = text
      }
    }
  }

  /// Waits for another thread while virtual time is stopped.
  private func standing<Value: Sendable>(_ body: () async -> Value) async -> Value {
    await adapter.loop.clock.standing { await body() }
  }

  // MARK: Status

  package func status() async -> DaemonStatus {
    var devices: [DaemonStatus.Device] = []
    for entry in entries { devices.append(await entry.device.status()) }
    let (directory, folders) = (configuration.directory, devices.map(\.directory))
    let (free, there) = await disk.run {
      (try? Files.freeByteCount(at: directory), folders.map { $0.map(Files.exists) ?? false })
    }
    for place in devices.indices where !there[place] { devices[place].directory = nil }
    return DaemonStatus(
      adapter: adapter.name, mode: adapter.mode, startedAt: startedAt, now: adapter.loop.clock.now(),
      directory: directory, freeByteCount: free, removedCaptures: removed,
      publishing: await publisher?.status, devices: devices)
  }

  /// Returns once the receive thread has processed the call. Does not wait for the disk.
  package func turn() {}
}

/// Paces a sweep: sleeps after each step for as long as the step took, so that captures get the disk for half
/// of the time.
private final class Pace: Sendable {
  private static let longest = Duration.milliseconds(500)

  private let goesOn: @Sendable () -> Bool
  private let restedAt = Mutex(SystemClock.monotonic())

  init(while goesOn: @escaping @Sendable () -> Bool) { self.goesOn = goesOn }

  /// Sleeps after a step.
  ///
  /// - Returns: whether to continue.
  func next() -> Bool {
    let took = restedAt.withLock { $0.duration(to: SystemClock.monotonic()) }
    usleep(UInt32(min(took, Self.longest) / .microseconds(1)))
    restedAt.withLock { $0 = SystemClock.monotonic() }
    return goesOn()
  }
}

/// Callbacks from a device's recorder.
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
    case .begun: note("\(device): recording into \(directory)")
    case .lost(let gap): links.note("\(device): \(gap.end); reconnecting")
    case .remark(let remark): links.note("\(device): \(remark)")
    case .back(let gap):
      let seconds = gap.recoveryNanoseconds.map { " after \($0 / 1_000_000_000) s" } ?? ""
      links.note("\(device): back\(seconds)")
    case .removed(let removal): note("\(device): \(removal.text(in: directory))")
    }
  }

  func ended(_ report: SessionReport, _ directory: String, of device: String) {
    let lost = report.lost.total > 0 ? ", \(report.lost.total) lost" : ""
    note(
      "\(device): \(counted(report.received, "notification"))\(lost), \(counted(report.gapCount, "gap")) in \(directory); "
        + "\(report.endReason ?? "")")
  }
}

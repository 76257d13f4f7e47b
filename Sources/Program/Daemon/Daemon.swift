package import BLEHost
package import BLELinux
import BLEWire
import Fleet
import Glibc
import Recording
import SensorSessions
import Synchronization

/// Records the devices of a configuration over one or more radios, without a user. When a capture ends, the
/// next capture starts. The daemon deletes captures beyond the limits of age and size.
///
/// A device waits while no radio is available for it. The capture of a device runs on the event loop of its
/// radio; the daemon runs on a separate event loop.
package actor Daemon {
  /// Time between regular sweeps, which remove old captures. A new or ended capture causes a further sweep.
  private static let sweepInterval = Duration.seconds(600)

  private struct Entry {
    let device: DaemonDevice
    /// Index of the device's radio in the configuration.
    let radio: Int
    let task: Task<Void, Never>
  }

  /// A device without a radio.
  private struct Waiting {
    let job: DaemonJob
    /// Counts and problem of the device on its last radio. Storing the device itself would prevent the radio
    /// from closing.
    var past: DaemonDevice.Past?
    /// Index of the radio that has not reached the device.
    var avoided: Int?
  }

  /// An open radio.
  private struct Post {
    let adapter: any Adapter
    let watch: AdapterWatch?
    /// Whether devices may use the radio; false if its controller has failed or is absent.
    var isUsable = true
    var isLost = false
    /// The error of a lost radio, set when no device uses the radio any more.
    let over = OneShot<HostError>()
  }

  package nonisolated let loop: EventLoop
  package nonisolated var unownedExecutor: UnownedSerialExecutor { loop.executor }
  private nonisolated let note: @Sendable (String) -> Void
  /// Rate limit for messages about links.
  private nonisolated let links: NoteLimit
  private let startedAt: ReceiveTime
  private var configuration: DaemonConfiguration
  private var publisher: DaemonPublisher?
  private var publishing: Task<Void, Never>?
  private var entries: [Entry] = []
  private var waiting: [Waiting] = []
  /// The open radios, by index in the configuration.
  private var posts: [Int: Post] = [:]
  /// Radios of which it is unknown whether they can be opened. Devices are distributed when no radio is
  /// unknown.
  private var unknown: Set<Int>
  /// The end of the daemon, set when the task is cancelled.
  private let over = OneShot<Void>()
  private var isEnding = false
  /// The thread for short file-system calls.
  private nonisolated let disk = DiskThread("ringtap-disk")
  /// The thread for sweeps, which may take minutes.
  private nonisolated let broom = DiskThread("ringtap-sweep")
  private var isSweeping = false
  private var mustSweepAgain = false
  /// Number of captures removed by retention, its last error, and the symbolic links already reported.
  private var removed = 0
  private var lastProblem: String?
  private var toldLinks: Set<String> = []

  /// Creates a daemon without radios; `add` adds radios.
  ///
  /// - Parameters:
  ///   - loop: the event loop on which the daemon runs.
  ///   - note: receives lines for the journal.
  package init(
    _ configuration: DaemonConfiguration, on loop: EventLoop, note: @escaping @Sendable (String) -> Void
  ) {
    self.init(configuration, [:], on: loop, note)
  }

  /// Creates a daemon with one radio, on the radio's event loop.
  package init(
    _ configuration: DaemonConfiguration, on adapter: any Adapter, note: @escaping @Sendable (String) -> Void
  ) {
    self.init(configuration, [0: Post(adapter: adapter, watch: nil)], on: adapter.loop, note)
  }

  private init(
    _ configuration: DaemonConfiguration, _ posts: [Int: Post], on loop: EventLoop,
    _ note: @escaping @Sendable (String) -> Void
  ) {
    self.configuration = configuration
    self.posts = posts
    self.loop = loop
    self.note = note
    links = NoteLimit(on: loop, note)
    startedAt = loop.clock.now()
    unknown = Set(configuration.radios.indices).subtracting(posts.keys)
  }

  /// Records until the task is cancelled. Cancelling ends all captures as Ctrl-C does.
  package func run() async {
    await begin(configuration.jobs)
    await publish(configuration.publishing)
    let sweeping = loop.task { [self] in
      repeat { await sweep() } while (try? await loop.wait(for: Self.sweepInterval)) != nil
    }
    await withTaskCancellationHandler {
      await over.value()
    } onCancel: {
      loop.later(self) { $0.end() }
    }
    isEnding = true
    sweeping.cancel()
    await stop(entries)
    entries = []
    await publish(nil)
    // If a removal is incomplete, the next daemon's first sweep completes it.
    disk.end()
    broom.end()
    links.flush()
  }

  /// Applies another configuration. Devices with the same settings continue undisturbed. The radios must be
  /// unchanged.
  package func reload(_ configuration: DaemonConfiguration) async {
    let (jobs, plan) = (configuration.jobs, configuration.publishing)
    let isSame =
      configuration.directory == self.configuration.directory
      && configuration.newCaptureAfter == self.configuration.newCaptureAfter
      && configuration.syncInterval == self.configuration.syncInterval
    self.configuration = configuration
    let gone = entries.filter { !isSame || !jobs.contains($0.device.job) }
    entries.removeAll { entry in gone.contains { $0.device === entry.device } }
    waiting.removeAll { !jobs.contains($0.job) }
    await stop(gone)
    await begin(jobs.filter { job in !standing.contains(job) })
    if plan != publisher?.plan || !isSame { await publish(plan) }
    loop.later(self) { await $0.sweep() }
  }

  /// The jobs of all devices, with or without a radio.
  private var standing: [DaemonJob] { entries.map(\.device.job) + waiting.map(\.job) }

  private func begin(_ jobs: [DaemonJob]) async {
    waiting += jobs.map { Waiting(job: $0) }
    await place()
  }

  private func stop(_ entries: [Entry]) async {
    for entry in entries { entry.task.cancel() }
    for entry in entries { await entry.task.value }
  }

  private func end() {
    isEnding = true
    over.set(())
  }

  // MARK: Radios

  /// Adds a radio that was opened.
  ///
  /// - Parameters:
  ///   - radio: index of the radio in the configuration.
  ///   - watch: recovers the adapter; `nil` if the adapter recovers by itself or is reopened.
  /// - Returns: a value that becomes the error when the radio is lost and no device uses it any more.
  package func add(_ adapter: any Adapter, _ watch: AdapterWatch?, at radio: Int) async -> OneShot<HostError>
  {
    let post = Post(adapter: adapter, watch: watch)
    posts[radio] = post
    unknown.remove(radio)
    await place()
    return post.over
  }

  /// Removes a radio that is about to be closed.
  package func remove(_ radio: Int) async {
    await retire(radio)
    posts[radio] = nil
  }

  /// Records that a radio cannot be opened at present.
  package func miss(_ radio: Int) async {
    guard unknown.remove(radio) != nil else { return }
    await place()
  }

  /// Returns the state of a watched radio.
  package func watchState(of radio: Int) -> AdapterWatch.State? { posts[radio]?.watch?.facts.state }

  /// Returns the number of devices that use a radio.
  package func deviceCount(of radio: Int) -> Int { entries.count { $0.radio == radio } }

  /// Returns devices to a radio whose controller responds again, or moves devices from a radio whose
  /// controller does not respond to other radios. Devices that the configuration assigns to the radio stay.
  package func mark(_ radio: Int, isUsable: Bool) async {
    guard let post = posts[radio], post.isUsable != isUsable, !post.isLost else { return }
    posts[radio]?.isUsable = isUsable
    guard !isUsable else { return await place() }
    let others = standings(of: [:])
    guard others.contains(where: \.hasRoom) else { return }
    await leave(radio) { $0.job.device.radio == nil }
    await place()
  }

  /// Removes all devices from a radio, and waits until no device uses the radio.
  private func retire(_ radio: Int) async {
    posts[radio]?.isUsable = false
    await leave(radio) { _ in true }
  }

  private func leave(_ radio: Int, where isMeant: (DaemonDevice) -> Bool) async {
    let leaving = entries.filter { $0.radio == radio && isMeant($0.device) }
    await stop(leaving)
    for entry in leaving {
      let count = entries.count
      entries.removeAll { $0.device === entry.device }
      // A reload may have removed the device in the meantime.
      guard entries.count < count, !isEnding else { continue }
      waiting.append(Waiting(job: entry.device.job, past: entry.device.past))
    }
  }

  private func radioLost(_ radio: Int, _ error: HostError) {
    guard let post = posts[radio], !post.isLost else { return }
    posts[radio]?.isUsable = false
    posts[radio]?.isLost = true
    loop.later(self) {
      await $0.retire(radio)
      $0.posts[radio] = nil
      post.over.set(error)
      await $0.place()
    }
  }

  private func standings(of loads: [Int: Double]) -> [RadioPlan.Standing] {
    posts.filter(\.value.isUsable).map { radio, _ in
      RadioPlan.Standing(
        place: radio, links: deviceCount(of: radio),
        limit: configuration.radios.indices.contains(radio) ? configuration.radios[radio].links : nil,
        load: loads[radio] ?? 0)
    }
  }

  /// Distributes the waiting devices among the radios.
  private func place() async {
    guard unknown.isEmpty, !isEnding else { return }
    let loads = await loads()
    let queue = waiting
    waiting = []
    for item in queue where !isEnding {
      let radio = RadioPlan.radio(
        for: item.job.device.radio, avoiding: item.avoided, among: standings(of: loads))
      if let radio, let post = posts[radio] {
        start(item, on: radio, post.adapter)
      } else {
        waiting.append(item)
      }
    }
  }

  /// Returns the rows per second of each radio; empty with a single radio.
  private func loads() async -> [Int: Double] {
    guard posts.count > 1 else { return [:] }
    var loads: [Int: Double] = [:]
    for entry in entries { loads[entry.radio, default: 0] += await entry.device.rowsPerSecond() }
    return loads
  }

  private func start(_ item: Waiting, on radio: Int, _ adapter: any Adapter) {
    let events = DaemonEvents(note: note, links: links) { [weak self] in await self?.sweep() }
    let device = DaemonDevice(
      item.job, on: adapter, in: CaptureShelf(directory: configuration.directory),
      disk, newCaptureAfter: configuration.newCaptureAfter, syncInterval: configuration.syncInterval, events,
      mayMove: item.job.device.radio == nil && configuration.radios.count > 1, continuing: item.past)
    let task = adapter.loop.task { [weak self] in
      let end = await device.run()
      await self?.ended(device, on: radio, end)
    }
    entries.append(Entry(device: device, radio: radio, task: task))
  }

  private func ended(_ device: DaemonDevice, on radio: Int, _ end: DaemonDevice.End) async {
    switch end {
    case .cancelled: return
    case .radioLost(let error): radioLost(radio, error)
    case .unreached:
      guard entries.contains(where: { $0.device === device }) else { return }
      entries.removeAll { $0.device === device }
      waiting.append(Waiting(job: device.job, past: device.past, avoided: radio))
      await place()
    }
  }

  // MARK: Publishing

  /// Stops publishing, then starts publishing with another plan unless the plan is `nil`.
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
    // Read the open directories after listing the folders. Otherwise a capture that starts in between would
    // look ended.
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
    // Read the open directories after listing the folders, so that no new capture looks ended.
    let open = openDirectories
    for place in inventory.captures.indices {
      inventory.captures[place].isOpen = open.contains(inventory.captures[place].path)
    }
    let now = loop.clock.now()
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

  /// Waits for `body`, which waits for another thread, while virtual time is stopped.
  private func standing<Value: Sendable>(_ body: () async -> Value) async -> Value {
    await loop.clock.standing { await body() }
  }

  // MARK: Status

  /// Returns the state of all devices and open radios.
  package func status() async -> DaemonStatus {
    var devices: [DaemonStatus.Device] = []
    for job in configuration.jobs {
      if let entry = entries.first(where: { $0.device.job == job }) {
        devices.append(await entry.device.status())
      } else if let item = waiting.first(where: { $0.job == job }) {
        devices.append(
          DaemonStatus.Device(
            name: job.device.name, address: job.device.address, sensor: job.device.sensor.name,
            directory: nil, counts: item.past?.counts ?? DaemonStatus.Counts(), lastProblem: reason(why: job))
        )
      }
    }
    let (directory, folders) = (configuration.directory, devices.map(\.directory))
    let (free, there) = await disk.run {
      (try? Files.freeByteCount(at: directory), folders.map { $0.map(Files.exists) ?? false })
    }
    for place in devices.indices where !there[place] { devices[place].directory = nil }
    let radios = posts.sorted { $0.key < $1.key }
    return DaemonStatus(
      adapters: radios.map { radio, post in
        DaemonStatus.Adapter(post.adapter, post.watch?.facts, devices: deviceCount(of: radio))
      },
      missingRadios: configuration.radios.indices.filter { posts[$0] == nil }.compactMap {
        configuration.radios[$0].name
      },
      startedAt: startedAt, now: loop.clock.now(), directory: directory, freeByteCount: free,
      removedCaptures: removed, publishing: await publisher?.status, devices: devices)
  }

  /// Returns the reason why a device has no radio.
  private func reason(why job: DaemonJob) -> String {
    if let radio = job.device.radio, configuration.radios.indices.contains(radio), posts[radio] == nil {
      return "its adapter \(configuration.radios[radio].name ?? "") is missing"
    }
    return posts.values.contains(where: \.isUsable)
      ? "no adapter has room for another device (links)" : "no adapter is usable"
  }

  /// Waits until the receive thread of each radio has processed a call, which shows that no thread hangs.
  package func turn() async {
    for post in posts.values { await post.adapter.loop.task {}.value }
  }
}

/// Slows a sweep down: after each step, sleeps for the duration of the step, so that captures can use the
/// disk for half of the time.
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

public import BLEWire
import CBluetoothLinux
import Glibc
import Synchronization

/// The receive thread: waits in epoll, calls its sources when their descriptors are ready, and runs the jobs
/// of its actors.
///
/// The loop is the serial executor of `Connection`, `Adapter` and similar actors. Their methods run between
/// two turns of the loop, so data and control share one thread and need no lock.
///
/// A resumed task normally reaches its actor through Swift's thread pool. A task that prefers this loop
/// resumes on the loop directly. In virtual time tasks must prefer the loop (see `preference`); otherwise
/// time would advance while a task is on its way.
public final class EventLoop: SerialExecutor, TaskExecutor, @unchecked Sendable {
  // The mutex guards `Shared`. `sources`, `tokens` and the state below them are used only on the loop's
  // thread (checked by preconditions).
  private struct Shared {
    var jobs: [UnownedJob] = []
    var isStopping = false
    /// Whether the thread has ended. The next job then starts a new thread for late jobs.
    var isOver = false
    var timers: [Timer] = []

    var earliestTimer: MonotonicTime? {
      // An explicit loop, because `min` would allocate a closure for each call.
      var earliest: MonotonicTime?
      for timer in timers { earliest = .earliest(earliest, timer.deadline) }
      return earliest
    }
  }

  /// A sleeping task.
  private struct Timer {
    let deadline: MonotonicTime
    /// Set to `true` when the sleep time has passed, to `false` when the sleep is cancelled.
    let sleeper: OneShot<Bool>
  }

  private static let eventsPerTurn = 64
  private static let wakeToken: UInt64 = 0
  /// Sleep time of the thread while virtual time is held.
  private static let holdMicroseconds: UInt32 = 50

  /// Time source of everything on this loop.
  public let clock: LoopClock
  private let poll: FileDescriptor
  private let wake: FileDescriptor
  private let shared = Mutex(Shared())
  /// Whether `shared` has changed since the loop last read it. A turn without changes takes no lock.
  private let hasNews = Atomic<Bool>(false)
  private let owner = Atomic<UInt>(0)
  /// Searched linearly, because hashing would not be faster for so few sources.
  private var sources: [any EventSource] = []
  /// Tokens, parallel to `sources`.
  private var tokens: [UInt64] = []
  private var nextToken: UInt64 = 1
  /// The earliest timer at the last read of `shared`.
  private var nextTimer: MonotonicTime?
  /// Whether `deadline` is up to date: nothing has changed since it was computed.
  private var isDeadlineKnown = false
  private var deadline: MonotonicTime?
  private var spinsUntil: MonotonicTime?
  /// Scheduling and spin time of the thread.
  public let tuning: LoopTuning
  /// Whether this loop keeps the process's memory resident (`mlockall`).
  public let locksMemory: Bool

  /// Starts the thread.
  ///
  /// - Parameters:
  ///   - name: shown by `ps -L` and `top -H`; at most 15 characters.
  ///   - clock: a virtual clock serves only one loop.
  ///   - tuning: scheduling and spin time of the thread.
  /// - Throws: EPERM if the tuning's priority requires CAP_SYS_NICE, EINVAL if its processor does not exist.
  public init(
    name: String, clock: LoopClock = .system, tuning: LoopTuning = LoopTuning()
  ) throws(SystemError) {
    self.clock = clock
    self.tuning = tuning
    // Without CAP_IPC_LOCK only RLIMIT_MEMLOCK bytes may be locked, and later allocations would fail.
    locksMemory = tuning.realTimePriority != nil && ProcessFacts.has(.ipcLock) && ringtap_lock_memory() == 0
    poll = FileDescriptor(owning: try checked("epoll_create1") { ringtap_epoll_create() })
    wake = FileDescriptor(owning: try checked("eventfd") { ringtap_wake_create() })
    try checked("epoll_ctl") {
      ringtap_epoll_add(poll.rawValue, wake.rawValue, Self.wakeToken, RINGTAP_READABLE)
    }
    try SystemThread.start(named: name, as: tuning.isDefault ? .ordinary : .tuned(tuning)) { self.run() }
  }

  // MARK: Sources (on the loop's thread)

  /// Adds a source. Its `ready` is called when the descriptor is ready.
  ///
  /// - Returns: The token for `update` and `remove`.
  package func add(
    _ source: any EventSource, _ descriptor: borrowing FileDescriptor, for readiness: Readiness
  ) throws(SystemError) -> UInt64 {
    precondition(isOnThread)
    guard !shared.withLock(\.isStopping) else {
      throw SystemError(call: "event loop", number: ECANCELED)
    }
    let token = nextToken
    nextToken += 1
    let number = descriptor.rawValue
    try checked("epoll_ctl") {
      ringtap_epoll_add(poll.rawValue, number, token, readiness.rawValue)
    }
    sources.append(source)
    tokens.append(token)
    return token
  }

  /// Adds a source that has deadlines but no descriptor.
  package func add(_ source: any EventSource) -> UInt64 {
    precondition(isOnThread)
    let token = nextToken
    nextToken += 1
    sources.append(source)
    tokens.append(token)
    isDeadlineKnown = false
    return token
  }

  /// Removes a source without a descriptor.
  package func remove(_ token: UInt64) {
    precondition(isOnThread)
    guard let index = tokens.firstIndex(of: token) else { return }
    tokens.remove(at: index)
    sources.remove(at: index)
  }

  package func update(
    _ token: UInt64, _ descriptor: borrowing FileDescriptor, for readiness: Readiness
  ) throws(SystemError) {
    assertIsCurrent()
    let number = descriptor.rawValue
    try checked("epoll_ctl") {
      ringtap_epoll_modify(poll.rawValue, number, token, readiness.rawValue)
    }
  }

  /// Removes a source. Call this before the descriptor is closed.
  package func remove(_ token: UInt64, _ descriptor: borrowing FileDescriptor) {
    precondition(isOnThread)
    remove(token)
    _ = ringtap_epoll_remove(poll.rawValue, descriptor.rawValue)
  }

  /// Number of sources and timers, for leak tests. Read it on the loop's thread.
  package var load: (sources: Int, sleepers: Int) {
    assertIsCurrent()
    return (sources.count, shared.withLock(\.timers.count))
  }

  /// Ends the thread after the jobs that are already queued. Calls `stopped` on each remaining source.
  public func stop() {
    shared.withLock { state in
      state.isStopping = true
      hasNews.store(true, ordering: .releasing)
    }
    signal()
  }

  // MARK: Waiting

  /// Sleeps for a duration by the loop's clock. May be called from any task.
  ///
  /// - Throws: If the task is cancelled or the loop stops.
  public func wait(for duration: Duration) async throws(CancellationError) {
    let sleeper = OneShot<Bool>()
    let timer = Timer(deadline: clock.monotonic().advanced(by: duration), sleeper: sleeper)
    let isTaken = shared.withLock { state in
      guard !state.isStopping, !Task.isCancelled else { return false }
      state.timers.append(timer)
      hasNews.store(true, ordering: .releasing)
      return true
    }
    guard isTaken else { throw CancellationError() }
    if !isOnThread { signal() }
    let isOver = await withTaskCancellationHandler {
      await sleeper.value()
    } onCancel: {
      for timer in takeTimers({ $0.sleeper === sleeper }) { timer.sleeper.set(false) }
    }
    if !isOver { throw CancellationError() }
  }

  private func takeTimers(_ isMeant: (Timer) -> Bool) -> [Timer] {
    shared.withLock { state in
      guard state.timers.contains(where: isMeant) else { return [] }
      let taken = state.timers.filter(isMeant)
      state.timers.removeAll(where: isMeant)
      hasNews.store(true, ordering: .releasing)
      return taken
    }
  }

  // MARK: Executor

  public func enqueue(_ job: consuming ExecutorJob) {
    let unowned = UnownedJob(job)
    // All steps are under the lock: as soon as the thread can take the job, it may release the last reference
    // to the loop.
    let isLate = shared.withLock { state in
      state.jobs.append(unowned)
      hasNews.store(true, ordering: .releasing)
      if !state.isOver, !isOnThread { signal() }
      defer { state.isOver = false }
      return state.isOver
    }
    // From here on only the new thread takes jobs.
    if isLate { startLatecomers() }
  }

  private func startLatecomers() {
    do throws(SystemError) {
      try SystemThread.start(named: "ringtap-late") { self.serveLatecomers() }
    } catch {
      // The thread could not be created. The next job tries again.
      shared.withLock { $0.isOver = true }
    }
  }

  public func asUnownedSerialExecutor() -> UnownedSerialExecutor {
    // SAFETY: every user keeps the loop alive: an actor holds it in a stored property, and `runJobs` runs on
    // `self`.
    unsafe UnownedSerialExecutor(ordinary: self)
  }

  /// The `unownedExecutor` of an actor. The actor must have this loop in a stored property.
  @safe public var executor: UnownedSerialExecutor { unsafe asUnownedSerialExecutor() }

  /// Executor preference for tasks that work with actors of this loop: in virtual time the loop, otherwise
  /// `nil`. With `nil`, Swift's pool runs the tasks, which keeps the receive thread free.
  public var preference: (any TaskExecutor)? { clock.isVirtual ? self : nil }

  public func checkIsolated() { precondition(isOnThread, "not on the event loop's thread") }

  public func isIsolatingCurrentContext() -> Bool? { isOnThread }

  /// Whether the caller runs on the loop's thread.
  public var isOnThread: Bool { owner.load(ordering: .relaxed) == UInt(pthread_self()) }

  // MARK: The loop

  private func run() {
    owner.store(UInt(pthread_self()), ordering: .relaxed)
    // Allocated once: the loop itself must not allocate.
    var events = [ringtap_ready](repeating: ringtap_ready(), count: Self.eventsPerTurn)
    while runJobs() {
      let count = wait(&events)
      for index in 0..<count { dispatch(events[index]) }
      expire()
    }
    // Sources and the loop retain each other. If sources remained, they and their descriptors would leak.
    let left = sources
    (sources, tokens) = ([], [])
    for source in left { source.stopped() }
    for timer in takeTimers({ _ in true }) { timer.sleeper.set(false) }
    serveLatecomers()
  }

  /// Runs the jobs that actors of this loop enqueue after the loop has ended. Otherwise the callers of these
  /// jobs would wait forever.
  private func serveLatecomers() {
    // Orders the following work after the work of the previous thread. The lock also does this, but the
    // thread sanitizer does not detect it.
    _ = owner.exchange(UInt(pthread_self()), ordering: .acquiring)
    var isOver = false
    while !isOver {
      _ = runJobs()
      isOver = shared.withLock { state in
        guard state.jobs.isEmpty else { return false }
        // The system may reuse this thread ID for another thread.
        owner.store(0, ordering: .releasing)
        state.isOver = true
        return true
      }
    }
  }

  private func dispatch(_ event: ringtap_ready) {
    isDeadlineKnown = false
    if event.token == Self.wakeToken { return ringtap_wake_drain(wake.rawValue) }
    if tuning.spinMicroseconds > 0 {
      spinsUntil = clock.monotonic().advanced(by: .microseconds(tuning.spinMicroseconds))
    }
    for index in tokens.indices where tokens[index] == event.token {
      let source = sources[index]
      return source.ready(Readiness(rawValue: event.events))
    }
  }

  private func wait(_ events: inout [ringtap_ready]) -> Int {
    let isBusy = hasNews.load(ordering: .relaxed)
    let next = isBusy ? nil : nextDeadline
    var timeout: CInt = isBusy ? 0 : -1
    if let next {
      // Rounded up, so that the deadline has passed when the wait ends.
      let milliseconds = (next - clock.monotonic() + TimeSpan(nanoseconds: 999_999)).nanoseconds / 1_000_000
      timeout = clock.isVirtual ? 0 : CInt(clamping: max(0, milliseconds))
    }
    if timeout != 0, let limit = spinsUntil {
      let count = spin(&events, until: next.map { min($0, limit) } ?? limit)
      if count != 0 || limit > clock.monotonic() { return max(0, count) }
      spinsUntil = nil
      return 0
    }
    let count = takeReady(&events, timeout)
    if count <= 0, clock.isVirtual, let next, !clock.leap(to: next) { usleep(Self.holdMicroseconds) }
    return max(0, count)
  }

  /// Polls without sleeping.
  private func spin(_ events: inout [ringtap_ready], until limit: MonotonicTime) -> Int {
    var count = 0
    repeat { count = takeReady(&events, 0) } while count == 0 && clock.monotonic() < limit
    return count
  }

  private func takeReady(_ events: inout [ringtap_ready], _ timeout: CInt) -> Int {
    // SAFETY: the array holds `eventsPerTurn` events. An interrupted wait is an empty turn.
    Int(unsafe ringtap_epoll_wait(poll.rawValue, &events, CInt(Self.eventsPerTurn), timeout))
  }

  private var nextDeadline: MonotonicTime? {
    guard !isDeadlineKnown else { return deadline }
    var earliest = nextTimer
    for index in sources.indices { earliest = .earliest(earliest, sources[index].deadline) }
    (deadline, isDeadlineKnown) = (earliest, true)
    return earliest
  }

  private func expire() {
    guard let next = nextDeadline else { return }
    let now = clock.monotonic()
    guard next <= now else { return }
    isDeadlineKnown = false
    // By index, to avoid an allocation. If a source is removed during the loop, a skipped source is called in
    // the next turn.
    var index = 0
    while index < sources.count {
      let source = sources[index]
      if let deadline = source.deadline, deadline <= now { source.expired(now: now) }
      index += 1
    }
    guard let nextTimer, nextTimer <= now else { return }
    for timer in takeTimers({ $0.deadline <= now }) { timer.sleeper.set(true) }
  }

  /// Runs the jobs that are queued now. Jobs that these jobs enqueue run in the next turn, so that sources
  /// are not starved.
  ///
  /// - Returns: `false` when the loop must end.
  private func runJobs() -> Bool {
    guard hasNews.load(ordering: .acquiring) else { return true }
    hasNews.store(false, ordering: .relaxed)
    isDeadlineKnown = false
    let (jobs, isStopping) = shared.withLock { state in
      defer { state.jobs = [] }
      nextTimer = state.earliestTimer
      // While the loop is stopping, it runs until no jobs are left.
      if state.isStopping { hasNews.store(true, ordering: .relaxed) }
      return (state.jobs, state.isStopping)
    }
    for job in jobs { run(job) }
    return !isStopping || !jobs.isEmpty
  }

  /// Runs a job. In virtual time, tasks prefer this loop, so the job must run with the loop as its task
  /// executor; otherwise, each step of a task would switch to another thread and back. In real time, tasks do
  /// not prefer the loop, so the job must run without a task executor.
  private func run(_ job: UnownedJob) {
    if clock.isVirtual {
      // SAFETY: taken out of the queue under the lock, so each job runs once.
      unsafe job.runSynchronously(
        isolatedTo: asUnownedSerialExecutor(), taskExecutor: asUnownedTaskExecutor())
    } else {
      // SAFETY: as above.
      unsafe job.runSynchronously(on: asUnownedSerialExecutor())
    }
  }

  private func signal() { ringtap_wake_signal(wake.rawValue) }
}

// MARK: - Sources

/// I/O readiness of a descriptor.
public struct Readiness: OptionSet, Sendable {
  public let rawValue: UInt32
  public init(rawValue: UInt32) { self.rawValue = rawValue }

  public static let readable = Readiness(rawValue: RINGTAP_READABLE)
  public static let writable = Readiness(rawValue: RINGTAP_WRITABLE)
  /// The peer or the kernel has closed the descriptor, or an error is pending.
  public static let hangUp = Readiness(rawValue: RINGTAP_HANG_UP)
  /// `readable` or `hangUp`: data can be read, or the end was reached. Not written as an array literal, which
  /// would allocate.
  package static let incoming = Readiness(rawValue: RINGTAP_READABLE | RINGTAP_HANG_UP)
}

/// An object with a descriptor that an `EventLoop` polls. The loop calls all methods on its thread.
public protocol EventSource: AnyObject {
  /// Called when the descriptor is ready. Must not block.
  func ready(_ readiness: Readiness)
  /// Time at which to call `expired`. Read after each turn of the loop.
  var deadline: MonotonicTime? { get }
  /// Called when `deadline` has passed.
  func expired(now: MonotonicTime)
  /// Called when the loop stops while it has this source. The loop makes no further calls, so the source must
  /// resume all waiting tasks.
  func stopped()
}

extension EventSource {
  public func stopped() {}
}

/// The event source of an actor whose executor is the loop.
///
/// Create it inside the actor: the closures are then isolated to the actor, and the loop may call them.
/// `assumeIsolated` would also work, but would cost two allocations per call.
package final class ActorSource: EventSource {
  private let whenReady: (Readiness) -> Void
  private let nextDeadline: () -> MonotonicTime?
  private let whenExpired: (MonotonicTime) -> Void
  private let whenStopped: () -> Void

  package init(
    ready: @escaping (Readiness) -> Void, deadline: @escaping () -> MonotonicTime?,
    expired: @escaping (MonotonicTime) -> Void, stopped: @escaping () -> Void
  ) {
    whenReady = ready
    nextDeadline = deadline
    whenExpired = expired
    whenStopped = stopped
  }

  package func ready(_ readiness: Readiness) { whenReady(readiness) }
  package var deadline: MonotonicTime? { nextDeadline() }
  package func expired(now: MonotonicTime) { whenExpired(now) }
  package func stopped() { whenStopped() }
}

// MARK: - Tuning

/// Scheduling of an `EventLoop`'s thread. Everything is off by default: lower latency costs power or
/// processor time.
///
/// There is no busy polling of the socket (`SO_BUSY_POLL`). With that option the kernel polls the queue of
/// the network driver that last fed the socket, by its `sk_napi_id` (`sk_busy_loop` in
/// `include/net/busy_poll.h`). Bluetooth drivers have no NAPI queue, so the ID stays 0 and the option has no
/// effect. Use `spinMicroseconds` instead.
public struct LoopTuning: Hashable, Sendable {
  /// Time for which the thread polls after the last packet before it sleeps, in microseconds; 0 … 1,000,000.
  /// With 0 the thread sleeps immediately.
  public var spinMicroseconds = 0
  /// The only processor that the thread may run on; `nil` for any processor. Other threads may use it too.
  public var processor: Int?
  /// SCHED_FIFO priority of the thread, 1 … 99; it then runs before all ordinary threads. Requires
  /// CAP_SYS_NICE or an RLIMIT_RTPRIO of at least this value. With CAP_IPC_LOCK the process's memory also
  /// stays resident (`mlockall`).
  public var realTimePriority: Int?

  public init() {}

  public var isDefault: Bool { self == LoopTuning() }
}

// MARK: - Tasks

/// Creation of tasks that work with actors of a loop.
///
/// All such tasks are created by these methods, because in virtual time they must stay on the loop: otherwise
/// time would advance while they run.
extension EventLoop {
  /// Traps in debug builds if the caller is not on the loop's thread. Protects state without a lock, which
  /// only that thread may use.
  package func assertIsCurrent() { assert(isOnThread, "not on the event loop's thread") }

  /// Starts a task.
  @discardableResult
  package func task<Value: Sendable>(_ body: @escaping @Sendable () async -> Value) -> Task<Value, Never> {
    Task(executorPreference: preference) { await body() }
  }

  /// Schedules `body` on an actor. For cancellation handlers and other code that cannot await.
  package func later<Resident: Actor>(
    _ resident: Resident, _ body: @escaping @Sendable (isolated Resident) async -> Void
  ) {
    task { await body(resident) }
  }

  /// Calls `body` after a time by the loop's clock, unless the task is cancelled or the loop stops first.
  package func after(
    _ duration: Duration, _ body: @escaping @Sendable () async -> Void
  ) -> Task<Void, Never> {
    task { if (try? await self.wait(for: duration)) != nil { await body() } }
  }

  /// Runs `body` to completion even if the calling task is cancelled. For cleanup.
  package func uninterrupted<Value: Sendable>(
    _ body: @escaping @Sendable () async -> Value
  ) async -> Value {
    await task(body).value
  }
}

/// Wakes one sleeping thread. Signalling makes a system call only while the thread sleeps.
public final class WakeEvent: Sendable {
  private let descriptor: FileDescriptor
  private let rest = Atomic<Rest>(.none)
  private let isUrgent: @Sendable () -> Bool

  /// Rest state of the thread.
  private enum Rest: UInt8, AtomicRepresentable {
    case none
    /// The thread sleeps; any signal wakes it.
    case sleep
    /// The thread pauses; only an urgent signal wakes it.
    case pause
  }

  /// Creates the event.
  ///
  /// - Parameter isUrgent: whether enough work is queued to end a pause. Called at each signal during a
  ///   pause, on the signalling thread.
  public init(urgent isUrgent: @escaping @Sendable () -> Bool = { false }) throws(SystemError) {
    descriptor = FileDescriptor(owning: try checked("eventfd") { ringtap_wake_create() })
    self.isUrgent = isUrgent
  }

  /// Wakes the thread if it sleeps. Publish the work before this call.
  public func signal() {
    // The fence orders the publication of the work before the load of `rest`. `wait` orders its store of
    // `rest` before `isIdle`.
    atomicMemoryFence(ordering: .sequentiallyConsistent)
    switch rest.load(ordering: .relaxed) {
    case .none: return
    case .sleep: break
    case .pause: if !isUrgent() { return }
    }
    // Only one of several concurrent callers makes the system call.
    if rest.exchange(.none, ordering: .relaxed) != .none { ringtap_wake_signal(descriptor.rawValue) }
  }

  /// Sleeps until `signal` is called, or for `milliseconds` (−1: no limit), if `isIdle` returns `true`.
  public func sleep(milliseconds: Int = -1, while isIdle: () -> Bool) {
    wait(.sleep, milliseconds, while: isIdle)
  }

  /// Sleeps for `milliseconds`. Only an urgent signal or `interrupt` ends the sleep early.
  public func pause(milliseconds: Int) { wait(.pause, milliseconds) { !isUrgent() } }

  private func wait(_ kind: Rest, _ milliseconds: Int, while isIdle: () -> Bool) {
    rest.store(kind, ordering: .relaxed)
    atomicMemoryFence(ordering: .sequentiallyConsistent)
    if isIdle() { ringtap_wake_wait(descriptor.rawValue, CInt(clamping: milliseconds)) }
    rest.store(.none, ordering: .relaxed)
  }

  /// Ends the current sleep or pause; otherwise, the next one.
  public func interrupt() { ringtap_wake_signal(descriptor.rawValue) }
}

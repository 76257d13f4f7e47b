import BLEWire
import CBluetoothLinux
import Glibc
import Synchronization

/// The receive thread: waits in epoll, lends readiness to its sources, and runs the jobs of the actors
/// that live on it.
///
/// It is the serial executor of `Connection`, `Adapter` and their like: their control-plane methods run
/// between two turns of the loop, so data and control share one thread and need no lock.
///
/// A task that was resumed reaches its actor by way of Swift's thread pool, unless the task prefers this loop: then it
/// comes straight here. By virtual time it must (`preference`), or time goes on meanwhile.
public final class EventLoop: SerialExecutor, TaskExecutor, @unchecked Sendable {
  // What is in `Shared` is guarded by the Mutex; `sources`, `tokens` and what stands with them is touched on the loop's
  // thread only (checked by precondition).
  private struct Shared {
    var jobs: [UnownedJob] = []
    var isStopping = false
    /// The thread has ended: the next job starts another for the latecomers.
    var isOver = false
    var timers: [Timer] = []

    var earliestTimer: MonotonicTime? {
      // A loop of its own: a closure for `min` would be made each time.
      var earliest: MonotonicTime?
      for timer in timers { earliest = .earliest(earliest, timer.deadline) }
      return earliest
    }
  }

  /// A task that sleeps.
  private struct Timer {
    let deadline: MonotonicTime
    /// Told whether the time is over.
    let sleeper: OneShot<Bool>
  }

  private static let eventsPerTurn = 64
  private static let wakeToken: UInt64 = 0
  /// How long the thread rests where virtual time is held.
  private static let holdMicroseconds: UInt32 = 50

  /// What everything on this loop takes the time from.
  public let clock: LoopClock
  private let poll: FileDescriptor
  private let wake: FileDescriptor
  private let shared = Mutex(Shared())
  /// `shared` has changed since the loop last looked: a turn without takes no lock.
  private let hasNews = Atomic<Bool>(false)
  private let owner = Atomic<UInt>(0)
  /// Few, so that looking at each costs less than hashing.
  private var sources: [any EventSource] = []
  /// Tokens, parallel to `sources`.
  private var tokens: [UInt64] = []
  private var nextToken: UInt64 = 1
  /// The earliest of `shared`'s, at the last look.
  private var nextTimer: MonotonicTime?
  /// Whether nothing has happened since `deadline` was the earliest of all.
  private var isDeadlineKnown = false
  private var deadline: MonotonicTime?
  private var spinsUntil: MonotonicTime?
  /// How the thread gets at its processor.
  public let tuning: LoopTuning
  /// Whether this loop keeps the process's memory resident.
  public let locksMemory: Bool

  /// Starts the thread.
  ///
  /// - Parameters:
  ///   - name: shown by `ps -L` and `top -H`; at most 15 characters.
  ///   - clock: a virtual one serves one loop only.
  ///   - tuning: how the thread waits, where, and how urgently.
  /// - Throws: EPERM where the tuning's priority needs CAP_SYS_NICE, EINVAL where its processor is not there.
  public init(
    name: String, clock: LoopClock = .system, tuning: LoopTuning = LoopTuning()
  ) throws(SystemError) {
    self.clock = clock
    self.tuning = tuning
    // Where only some memory may be locked, later allocations would fail.
    locksMemory = tuning.realTimePriority != nil && ProcessFacts.has(.ipcLock) && ringtap_lock_memory() == 0
    poll = FileDescriptor(owning: try checked("epoll_create1") { ringtap_epoll_create() })
    wake = FileDescriptor(owning: try checked("eventfd") { ringtap_wake_create() })
    try checked("epoll_ctl") {
      ringtap_epoll_add(poll.rawValue, wake.rawValue, Self.wakeToken, RINGTAP_READABLE)
    }
    try SystemThread.start(named: name, as: tuning.isDefault ? .ordinary : .tuned(tuning)) { self.run() }
  }

  // MARK: Sources (on the loop's thread)

  /// Serves `source` when `descriptor` is ready.
  ///
  /// - Returns: the token for `update` and `remove`.
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

  /// Adds a source that has deadlines and no descriptor.
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

  /// Call it before the descriptor closes.
  package func remove(_ token: UInt64, _ descriptor: borrowing FileDescriptor) {
    precondition(isOnThread)
    remove(token)
    _ = ringtap_epoll_remove(poll.rawValue, descriptor.rawValue)
  }

  /// Live sources and timers, for leak tests. On the loop's thread.
  package var load: (sources: Int, sleepers: Int) {
    assertIsCurrent()
    return (sources.count, shared.withLock(\.timers.count))
  }

  /// Ends the thread after the jobs that wait now. Sources that are left hear of it.
  public func stop() {
    shared.withLock { state in
      state.isStopping = true
      hasNews.store(true, ordering: .releasing)
    }
    signal()
  }

  // MARK: Waiting

  /// Waits by the loop's clock, from any task.
  ///
  /// - Throws: when the task is cancelled or the loop stops.
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
    // All under the lock: a job that can be taken may be the end of the last who holds the loop.
    let isLate = shared.withLock { state in
      state.jobs.append(unowned)
      hasNews.store(true, ordering: .releasing)
      if !state.isOver, !isOnThread { signal() }
      defer { state.isOver = false }
      return state.isOver
    }
    // Nobody takes jobs until it has begun.
    if isLate { startLatecomers() }
  }

  private func startLatecomers() {
    do throws(SystemError) {
      try SystemThread.start(named: "ringtap-late") { self.serveLatecomers() }
    } catch {
      // No thread to be had: the next job tries again.
      shared.withLock { $0.isOver = true }
    }
  }

  public func asUnownedSerialExecutor() -> UnownedSerialExecutor {
    // SAFETY: whoever runs on it holds the loop: an actor in a stored property, `runJobs` by being inside.
    unsafe UnownedSerialExecutor(ordinary: self)
  }

  /// What an actor that keeps this loop in a stored property returns as its `unownedExecutor`.
  @safe public var executor: UnownedSerialExecutor { unsafe asUnownedSerialExecutor() }

  /// What tasks that work with actors of this loop should prefer: the loop where time is virtual, else Swift's pool,
  /// which does not keep the receive thread busy.
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
    // A source keeps its loop and the loop its sources: whoever is left would stay for ever, descriptors and all.
    let left = sources
    (sources, tokens) = ([], [])
    for source in left { source.stopped() }
    for timer in takeTimers({ _ in true }) { timer.sleeper.set(false) }
    serveLatecomers()
  }

  /// Runs what actors of this loop still have to do after its end: their callers must not wait for ever.
  private func serveLatecomers() {
    // After what the one before has done, which the lock orders too, but not for the thread sanitiser.
    _ = owner.exchange(UInt(pthread_self()), ordering: .acquiring)
    var isOver = false
    while !isOver {
      _ = runJobs()
      isOver = shared.withLock { state in
        guard state.jobs.isEmpty else { return false }
        // The system may give the same number to another thread.
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

  /// Looks without sleeping.
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
    // By number, which allocates nothing; one that is passed over as another goes has its turn in the next one.
    var index = 0
    while index < sources.count {
      let source = sources[index]
      if let deadline = source.deadline, deadline <= now { source.expired(now: now) }
      index += 1
    }
    guard let nextTimer, nextTimer <= now else { return }
    for timer in takeTimers({ $0.deadline <= now }) { timer.sleeper.set(true) }
  }

  /// Runs the jobs that wait now. What they leave behind comes in the next turn: sources are never starved.
  ///
  /// - Returns: whether the loop goes on.
  private func runJobs() -> Bool {
    guard hasNews.load(ordering: .acquiring) else { return true }
    hasNews.store(false, ordering: .relaxed)
    isDeadlineKnown = false
    let (jobs, isStopping) = shared.withLock { state in
      defer { state.jobs = [] }
      nextTimer = state.earliestTimer
      // Until there are no more jobs.
      if state.isStopping { hasNews.store(true, ordering: .relaxed) }
      return (state.jobs, state.isStopping)
    }
    for job in jobs { run(job) }
    return !isStopping || !jobs.isEmpty
  }

  /// A task that prefers this loop must be told that it is there, or it would leave the thread and come back at each step;
  /// one that does not must not.
  private func run(_ job: UnownedJob) {
    if clock.isVirtual {
      // SAFETY: taken out of the queue under the lock, so each job runs once.
      unsafe job.runSynchronously(
        isolatedTo: asUnownedSerialExecutor(), taskExecutor: asUnownedTaskExecutor())
    } else {
      // SAFETY: likewise.
      unsafe job.runSynchronously(on: asUnownedSerialExecutor())
    }
  }

  private func signal() { ringtap_wake_signal(wake.rawValue) }
}

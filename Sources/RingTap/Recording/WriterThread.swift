import BLECore
import BLESystem
import Synchronization

/// What a writer's thread does: it empties queues into files.
protocol WriterJob: ~Copyable, SendableMetatype {
  /// What is in the files.
  associatedtype Outcome: Sendable

  /// Whether the queues are empty.
  var isIdle: Bool { get }
  /// Whether what was taken must still be flushed or synced.
  var isPending: Bool { get }
  /// Whether each turn ends with a flush: somebody reads along.
  var isLive: Bool { get }
  /// Whether the thread may let the queues fill for a moment before it takes from them: then it is woken a hundred
  /// times a second at most, however fast they fill.
  var gathers: Bool { get }
  /// After `end`.
  var outcome: Outcome { get }

  /// Takes what waits in the queues. At `.some` it may leave a rest to the next turn, so that a fast source does not
  /// put off the flush.
  mutating func drain(_ extent: WriterTurn, now: MonotonicTime)
  /// Hands everything to the kernel.
  mutating func flush()
  /// Hands everything that the kernel has to the disk.
  mutating func sync()
  /// The end of a turn: the place to tell of a failure.
  mutating func endTurn()
  /// Nothing more comes.
  mutating func end()
}

extension WriterJob where Self: ~Copyable {
  var gathers: Bool { false }
}

/// How much of the queues a turn takes.
enum WriterTurn: Hashable, Sendable { case some, all }

/// A thread that writes, so that the receive thread only fills bounded queues.
///
/// It sleeps while they are empty. What it has taken is with the kernel within half a second, where a killed process
/// cannot lose it, and on the disk within two, where a power failure cannot.
final class WriterThread<Outcome: Sendable>: Sendable {
  /// Signal it when a queue has got something.
  let wake: WakeEvent
  private let isStopping = Atomic<Bool>(false)
  private let state = Mutex(State())

  private struct State: Sendable {
    var outcome: Outcome?
    var waiter: CheckedContinuation<Outcome, Never>?
  }

  init() throws(SystemError) { wake = try WakeEvent() }

  /// Starts the thread, and returns when the files are open.
  ///
  /// - Parameters:
  ///   - failure: what this caller calls a thread that could not be started.
  ///   - open: opens the files, on the thread.
  func start<Job: WriterJob & ~Copyable, Failure: Error>(
    named name: String, orThrow failure: (SystemError) -> Failure,
    _ open: @escaping @Sendable () throws(Failure) -> Job
  ) async throws(Failure) where Job.Outcome == Outcome {
    let result: Result<Void, Failure> = await withCheckedContinuation { started in
      do throws(SystemError) {
        try SystemThread.start(named: name) { self.run(open, started) }
      } catch { started.resume(returning: .failure(failure(error))) }
    }
    try result.get()
  }

  /// Writes what waits, closes the files and tells what is in them.
  func finish() async -> Outcome {
    isStopping.store(true, ordering: .sequentiallyConsistent)
    return await withCheckedContinuation { continuation in
      let outcome = state.withLock { state in
        if state.outcome == nil { state.waiter = continuation }
        return state.outcome
      }
      if let outcome { continuation.resume(returning: outcome) }
      wake.interrupt()
    }
  }

  // MARK: The thread

  private func run<Job: WriterJob & ~Copyable, Failure: Error>(
    _ open: () throws(Failure) -> Job, _ started: CheckedContinuation<Result<Void, Failure>, Never>
  ) where Job.Outcome == Outcome {
    do throws(Failure) {
      var job = try open()
      started.resume(returning: .success(()))
      write(&job)
      let outcome = job.outcome
      let waiter = state.withLock { state in
        state.outcome = outcome
        return state.waiter
      }
      waiter?.resume(returning: outcome)
    } catch { started.resume(returning: .failure(error)) }
  }

  private func write<Job: WriterJob & ~Copyable>(_ job: inout Job) {
    let (flushPeriod, syncPeriod) = (Duration.milliseconds(WriterPeriod.flush), WriterPeriod.sync)
    var lastFlush = SystemClock.monotonic()
    var lastSync = lastFlush
    while true {
      // Read first: what came before the stop is drained below.
      let isLast = isStopping.load(ordering: .sequentiallyConsistent)
      let now = SystemClock.monotonic()
      job.drain(isLast ? .all : .some, now: now)
      if isLast { job.end() }
      if isLast || job.isLive || lastFlush.advanced(by: flushPeriod) <= now {
        job.flush()
        lastFlush = now
      }
      if isLast || lastSync.advanced(by: syncPeriod) <= now {
        job.sync()
        lastSync = now
      }
      job.endTurn()
      if isLast { return }
      wake.sleep(milliseconds: job.isPending ? WriterPeriod.flush : -1) {
        job.isIdle && !isStopping.load(ordering: .sequentiallyConsistent)
      }
      if job.gathers, !isStopping.load(ordering: .sequentiallyConsistent) {
        wake.pause(milliseconds: WriterPeriod.gather)
      }
    }
  }
}

private enum WriterPeriod {
  /// In milliseconds. A tenth of what the queues of a capture hold at 200,000 notifications a second.
  static let gather = 10
  /// In milliseconds.
  static let flush = 500
  static let sync = Duration.seconds(1)
}

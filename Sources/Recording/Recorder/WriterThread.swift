import BLECore
import BLELinux
import Synchronization

/// What a writer's thread does: it empties queues into files.
protocol WriterJob: ~Copyable, SendableMetatype {
  /// What is in the files.
  associatedtype Outcome: Sendable

  /// Whether the queues are empty.
  var isIdle: Bool { get }
  /// Whether what was taken must still be flushed or synced.
  var isPending: Bool { get }
  /// Whether something waits for the next turn though somebody reads along: then that comes soon.
  var isHolding: Bool { get }
  /// Whether each turn ends with a flush: somebody reads along.
  var isLive: Bool { get }
  /// Whether the thread may let the queues fill for a moment before it takes from them: then it wakes a few times a second
  /// by itself while something comes, and is woken when nothing has come for long, or a queue becomes full.
  var gathers: Bool { get }
  /// That moment, in milliseconds: a quarter of a second unless somebody wants samples sooner.
  var gatherMilliseconds: Int { get }
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
  var gatherMilliseconds: Int { WriterPeriod.gather }
  var isHolding: Bool { false }
}

/// How much of the queues a turn takes.
enum WriterTurn: Hashable, Sendable { case some, all }

/// A thread that writes, so that the receive thread only fills bounded queues.
///
/// It sleeps while they are empty, without a timer, and takes the processor from nobody when it wakes. What it has taken is
/// with the kernel within half a second, where a killed process cannot lose it, and on the disk within two, where a power
/// failure cannot, unless its job hands it on less often (`Recorder`, `--sync-interval`); a packet that came in the last tenth
/// of a second before a flush (`PacketOrder`) waits for the next.
final class WriterThread<Outcome: Sendable>: Sendable {
  /// Signal it when a queue has got something.
  let wake: WakeEvent
  private let isStopping = Atomic<Bool>(false)
  private let outcome = OneShot<Outcome>()

  /// - Parameter isUrgent: whether a queue is so full that the thread must not let it fill any longer.
  init(urgent isUrgent: @escaping @Sendable () -> Bool = { false }) throws(SystemError) {
    wake = try WakeEvent(urgent: isUrgent)
  }

  /// Starts the thread, and returns when the files are open.
  ///
  /// - Parameters:
  ///   - failure: what this caller calls a thread that could not be started.
  ///   - open: opens the files, on the thread.
  func start<Job: WriterJob & ~Copyable, Failure: Error>(
    named name: String, orThrow failure: (SystemError) -> Failure,
    _ open: @escaping @Sendable () throws(Failure) -> Job
  ) async throws(Failure) where Job.Outcome == Outcome {
    let started = OneShot<Result<Void, Failure>>()
    do throws(SystemError) {
      try SystemThread.start(named: name, as: .patient) { self.run(open, started) }
    } catch { throw failure(error) }
    try await started.get()
  }

  /// Writes what waits, closes the files and tells what is in them.
  func finish() async -> Outcome {
    isStopping.store(true, ordering: .sequentiallyConsistent)
    wake.interrupt()
    return await outcome.value()
  }

  // MARK: The thread

  private func run<Job: WriterJob & ~Copyable, Failure: Error>(
    _ open: () throws(Failure) -> Job, _ started: OneShot<Result<Void, Failure>>
  ) where Job.Outcome == Outcome {
    do throws(Failure) {
      var job = try open()
      started.set(.success(()))
      write(&job)
      outcome.set(job.outcome)
    } catch { started.set(.failure(error)) }
  }

  private func write<Job: WriterJob & ~Copyable>(_ job: inout Job) {
    let (flushPeriod, syncPeriod) = (Duration.milliseconds(WriterPeriod.flush), WriterPeriod.sync)
    var lastFlush = SystemClock.monotonic()
    var lastSync = lastFlush
    // In milliseconds: for how long there was nothing to take.
    var quiet = 0
    while true {
      // Read first: what came before the stop is drained below.
      let isLast = isStopping.load(ordering: .sequentiallyConsistent)
      let now = SystemClock.monotonic()
      let hadNothing = job.isIdle
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
      // As long as something comes it looks by itself: whoever fills the queues makes no system call to wake it, however short
      // the moments are.
      let moment = job.gatherMilliseconds
      quiet = hadNothing ? min(quiet + moment, WriterPeriod.gather) : 0
      let isQuiet = quiet >= WriterPeriod.gather
      if isQuiet || !job.gathers {
        let period = job.isHolding ? WriterPeriod.hold : job.isPending ? WriterPeriod.flush : -1
        wake.sleep(milliseconds: period) {
          job.isIdle && !isStopping.load(ordering: .sequentiallyConsistent)
        }
      }
      if job.gathers, !(isQuiet && job.isIdle), !isStopping.load(ordering: .sequentiallyConsistent) {
        wake.pause(milliseconds: moment)
      }
    }
  }
}

enum WriterPeriod {
  /// In milliseconds. Half of the flush's, which bounds what a killed process loses; a thirtieth of what the queues of a
  /// capture hold at the fastest stream of a ring. Shorter ones cost the receive thread its processor or its cache more
  /// often, and save nothing.
  static let gather = 250
  /// In milliseconds.
  static let flush = 500
  /// In milliseconds: what a packet waits for an earlier one where somebody reads along.
  static let hold = 20
  static let sync = Duration.seconds(1)
}

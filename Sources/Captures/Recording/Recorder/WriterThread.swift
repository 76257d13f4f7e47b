import BLELinux
import BLEWire
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
  /// How old may be what the disk lacks.
  var syncInterval: Duration { get }
  /// After `end`.
  var outcome: Outcome { get }

  /// Takes what waits in the queues. At `.some` it may leave a rest to the next turn, so that a fast source does not
  /// put off the flush.
  mutating func drain(_ extent: WriterTurn, now: MonotonicTime)
  /// Hands everything to the kernel.
  mutating func flush()
  /// Hands everything that the kernel has to the disk.
  mutating func sync()
  /// Looks whether the files are still there: once a second, and at the end.
  mutating func look()
  /// The end of a turn: the place to tell of a failure.
  mutating func endTurn()
  /// Nothing more comes.
  mutating func end()
}

extension WriterJob where Self: ~Copyable {
  var gathers: Bool { false }
  var gatherMilliseconds: Int { WriterPeriod.gather }
  var isHolding: Bool { false }
  var syncInterval: Duration { .seconds(1) }
  mutating func look() {}
}

/// How much of the queues a turn takes.
enum WriterTurn: Hashable, Sendable { case some, all }

/// A thread that writes, so that the receive thread only fills bounded queues.
///
/// It sleeps while they are empty, without a timer, and takes the processor from nobody when it wakes. What it has taken is
/// with the kernel within half a second, where a killed process cannot lose it, and on the disk within a second, where a power
/// failure cannot, unless its job hands it on less often (`Recorder`, `--sync-interval`). For that it hands it on earlier than once
/// a second: by what the disk took last time, twice, and by the tenth of a second for which a packet waits (`PacketOrder`). A disk
/// that takes more than a quarter of the interval is late.
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
    let flushPeriod = Duration.milliseconds(WriterPeriod.flush)
    var lastFlush = SystemClock.monotonic()
    var (lastSync, lastLook) = (lastFlush, lastFlush)
    var syncTime = Duration.zero
    // In milliseconds: for how long there was nothing to take.
    var quiet = 0
    while true {
      // Read first: what came before the stop is drained below.
      let isLast = isStopping.load(ordering: .sequentiallyConsistent)
      let now = SystemClock.monotonic()
      let hadNothing = job.isIdle
      job.drain(isLast ? .all : .some, now: now)
      if isLast { job.end() }
      let early = min(.milliseconds(WriterPeriod.packet) + syncTime * 2, job.syncInterval / 2)
      let syncDue = lastSync.advanced(by: job.syncInterval - early)
      let isSync = isLast || syncDue <= now
      if isSync || job.isLive || lastFlush.advanced(by: flushPeriod) <= now {
        job.flush()
        lastFlush = now
      }
      if isSync {
        let begun = SystemClock.monotonic()
        job.sync()
        syncTime = begun.duration(to: SystemClock.monotonic())
        lastSync = now
      }
      if isLast || lastLook.advanced(by: WriterPeriod.look) <= now {
        job.look()
        lastLook = now
      }
      job.endTurn()
      if isLast { return }
      // As long as something comes it looks by itself: whoever fills the queues makes no system call to wake it, however short
      // the moments are.
      let moment = job.gatherMilliseconds
      quiet = hadNothing ? min(quiet + moment, WriterPeriod.gather) : 0
      let isQuiet = quiet >= WriterPeriod.gather
      let next = isSync ? nil : syncDue
      if isQuiet || !job.gathers {
        let flush = WriterPeriod.until(next, atMost: WriterPeriod.flush)
        let period = job.isHolding ? WriterPeriod.hold : job.isPending ? flush : -1
        wake.sleep(milliseconds: period) {
          job.isIdle && !isStopping.load(ordering: .sequentiallyConsistent)
        }
      }
      if job.gathers, !(isQuiet && job.isIdle), !isStopping.load(ordering: .sequentiallyConsistent) {
        wake.pause(milliseconds: WriterPeriod.until(next, atMost: moment))
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
  /// In milliseconds: how long a packet waits to be put in order.
  static let packet = 100
  static let look = Duration.seconds(1)

  /// Milliseconds, rounded up.
  static func until(_ time: MonotonicTime?, atMost limit: Int) -> Int {
    guard let time else { return limit }
    let rest = TimeSpan(from: SystemClock.monotonic().nanoseconds, to: time.nanoseconds).nanoseconds
    return min(limit, max(1, Int(rest / 1_000_000) + 1))
  }
}

import BLELinux
import BLEWire
import Synchronization

/// Work of a writer's thread: it empties queues into files.
protocol WriterJob: ~Copyable, SendableMetatype {
  /// Result of writing the files.
  associatedtype Outcome: Sendable

  /// Whether the queues are empty.
  var isIdle: Bool { get }
  /// Whether data must still be flushed or synced.
  var isPending: Bool { get }
  /// Whether records are held until a later turn although the file has a live reader. The next turn then
  /// follows soon.
  var isHolding: Bool { get }
  /// Whether each turn ends with a flush, because the file has a live reader.
  var isLive: Bool { get }
  /// Whether the queues may fill for a moment before the thread empties them. The thread then polls a few
  /// times a second while data arrives. It must be woken after a long pause, and when a queue is filling up.
  var gathers: Bool { get }
  /// Time for which the queues may fill, in milliseconds. The default is 250; a watcher may require less.
  var gatherMilliseconds: Int { get }
  /// Maximum age of data that is not on disk yet.
  var syncInterval: Duration { get }
  /// Result of writing the files; valid after `end`.
  var outcome: Outcome { get }

  /// Empties the queues. With `.some`, data may remain for the next turn, so that a fast source does not
  /// delay the flush.
  mutating func drain(_ extent: WriterTurn, now: MonotonicTime)
  /// Writes all data to the kernel.
  mutating func flush()
  /// Writes all data to disk.
  mutating func sync()
  /// Checks whether the files still exist. Called once a second and at the end.
  mutating func look()
  /// Ends a turn. The job reports failures here.
  mutating func endTurn()
  /// Ends the job: writes the remaining data.
  mutating func end()
}

extension WriterJob where Self: ~Copyable {
  var gathers: Bool { false }
  var gatherMilliseconds: Int { WriterPeriod.gather }
  var isHolding: Bool { false }
  var syncInterval: Duration { .seconds(1) }
  mutating func look() {}
}

/// Amount of data that one turn takes out of the queues.
enum WriterTurn: Hashable, Sendable { case some, all }

/// Thread that writes files, so that the receive thread only fills bounded queues.
///
/// The thread sleeps without a timer while the queues are empty, and preempts no other thread when it wakes.
/// Data is in the kernel within half a second, and then survives the end of the process. Data is on disk
/// within a second, unless the job sets a longer interval (`Recorder`, `--sync-interval`), and then survives
/// a power failure. To meet this limit, a sync starts early, by twice the duration of the last sync plus the
/// 100 ms that a packet may wait (`PacketOrder`). If a sync takes more than a quarter of the interval, data
/// reaches the disk late.
final class WriterThread<Outcome: Sendable>: Sendable {
  /// Signal this event after filling a queue.
  let wake: WakeEvent
  private let isStopping = Atomic<Bool>(false)
  private let outcome = OneShot<Outcome>()

  /// - Parameter isUrgent: whether a queue must be emptied at once, because it is filling up.
  convenience init(urgent isUrgent: @escaping @Sendable () -> Bool = { false }) throws(SystemError) {
    self.init(waking: try WakeEvent(urgent: isUrgent))
  }

  init(waking wake: WakeEvent) { self.wake = wake }

  /// Starts the thread, and returns when the files are open.
  ///
  /// - Parameters:
  ///   - failure: converts the error of starting the thread.
  ///   - open: opens the files; called on the thread.
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

  /// Writes the queued data, closes the files and returns the outcome.
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
    // Time for which the queues have been empty, in milliseconds.
    var quiet = 0
    while true {
      // Read this first, so that data queued before the stop is drained below.
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
      // While data arrives, even with short pauses, the thread polls. The threads that fill the queues then
      // need no system call to wake it.
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
  /// Time for which the queues may fill, in milliseconds. It is half of the flush period, which limits the
  /// loss if the process is killed, and a thirtieth of the time in which a ring's fastest stream fills the
  /// queues. A shorter time would interrupt the receive thread more often without a benefit.
  static let gather = 250
  /// Time between flushes, in milliseconds.
  static let flush = 500
  /// Maximum time in milliseconds that a packet waits for an earlier packet if the log has a live reader.
  static let hold = 20
  /// Maximum time in milliseconds that a packet waits to be sorted.
  static let packet = 100
  static let look = Duration.seconds(1)

  /// Returns the milliseconds until `time`, rounded up and at most `limit`.
  static func until(_ time: MonotonicTime?, atMost limit: Int) -> Int {
    guard let time else { return limit }
    let rest = TimeSpan(from: SystemClock.monotonic().nanoseconds, to: time.nanoseconds).nanoseconds
    return min(limit, max(1, Int(rest / 1_000_000) + 1))
  }
}

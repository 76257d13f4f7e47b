package import BLELinux
import BLEWire
import Synchronization

/// A thread that delivers work to a slow or unreachable program or server, with rules for retries and for the
/// end.
///
/// The owner stores the pending work in bounded memory, and counts undelivered work. To add work, the owner
/// stores it and signals `wake`, which never blocks.
package final class Outbox: Sendable {
  package enum Phase: Hashable, Sendable {
    case open
    /// No further work is added; the thread still delivers pending work.
    case ending
    /// The thread ends as soon as possible without delivering pending work.
    case abandoned
  }

  /// Delays between attempts to deliver. Only one thread uses an instance.
  package struct RetryDelay {
    /// Longest delay, in milliseconds.
    private static let longest = 10_000
    /// Longest delay in milliseconds after the end of the work.
    private static let longestAtEnd = 1_000

    private var milliseconds = 250

    package init() {}

    /// Returns the next delay, in milliseconds. Each delay is twice the previous delay, up to the limit of
    /// the phase.
    package mutating func next(in phase: Phase) -> Int {
      let longest = phase == .open ? Self.longest : Self.longestAtEnd
      let next = min(milliseconds, longest)
      milliseconds = min(next * 2, longest)
      return next
    }
  }

  private struct State: Sendable {
    var phase = Phase.open
    var progressAt: MonotonicTime?
    /// Whether the thread has ended.
    var isOver = false
  }

  /// Minimum time for the thread to end, even if its last progress was long ago.
  private static let reactionTime = Duration.seconds(1)

  /// The event that wakes the thread for new work or a change of phase.
  package let wake: WakeEvent
  private let interrupt: @Sendable () -> Void
  private let state = Mutex(State())
  private let waiters = Waiters()

  /// Creates an outbox. `start` starts its thread.
  ///
  /// - Parameter interrupt: a closure that interrupts a blocked delivery, called on any thread when the
  ///   outbox is abandoned.
  package init(_ wake: WakeEvent, interrupt: @escaping @Sendable () -> Void = {}) {
    (self.wake, self.interrupt) = (wake, interrupt)
  }

  /// Starts the thread. The thread has a low priority, because a recording has precedence.
  package func start(named name: String, _ run: @escaping @Sendable () -> Void) throws(SystemError) {
    try SystemThread.start(named: name, as: .patient) { [self] in
      run()
      state.withLock { $0.isOver = true }
      waiters.wakeAll()
    }
  }

  package var phase: Phase { state.withLock(\.phase) }

  // MARK: The thread

  /// Sleeps for `milliseconds`, or until the phase is no longer `phase`.
  package func rest(milliseconds: Int, in phase: Phase) {
    let end = SystemClock.monotonic().advanced(by: .milliseconds(milliseconds))
    while self.phase == phase {
      let left = SystemClock.monotonic().duration(to: end)
      guard left > .zero else { return }
      wake.sleep(milliseconds: Int(left / .milliseconds(1)) + 1) { self.phase == phase }
    }
  }

  /// Records progress: the destination accepts work, or the thread is not blocked. Extends the time limit of
  /// `finish`.
  package func noteProgress() {
    let now = SystemClock.monotonic()
    state.withLock { $0.progressAt = now }
  }

  // MARK: The end

  /// Marks the end of the work: no further work will be added.
  package func end() {
    state.withLock { if $0.phase == .open { $0.phase = .ending } }
    wake.interrupt()
  }

  /// Ends the thread as soon as possible. Does nothing if the thread has ended.
  package func abandon() {
    let isOver = state.withLock { state in
      state.phase = .abandoned
      return state.isOver
    }
    guard !isOver else { return }
    interrupt()
    wake.interrupt()
  }

  /// Marks the end of the work and waits until the thread ends. If the task is cancelled, or the time limit
  /// is reached, the call abandons the outbox.
  ///
  /// - Parameter patience: time limit without progress.
  package func finish(within patience: Duration) async {
    end()
    await withTaskCancellationHandler {
      await wait(within: patience)
    } onCancel: {
      abandon()
    }
    abandon()
  }

  /// Waits until the thread ends or the time limit is reached, even if the task is cancelled. A blocked
  /// thread continues to run.
  ///
  /// - Parameter patience: time limit since the last progress, or since this call if there was no progress.
  package func wait(within patience: Duration) async {
    let isLate = OneShot<Void>()
    let watch = Task {
      let begunAt = SystemClock.monotonic()
      while true {
        let progressAt = state.withLock(\.progressAt) ?? begunAt
        let end = max(progressAt.advanced(by: patience), begunAt.advanced(by: Self.reactionTime))
        let left = SystemClock.monotonic().duration(to: end)
        guard left > .zero else { break }
        try await Task.sleep(for: left)
      }
      isLate.set(())
      waiters.wakeAll()
    }
    await waiters.wait { state.withLock(\.isOver) || isLate.current != nil }
    watch.cancel()
  }
}

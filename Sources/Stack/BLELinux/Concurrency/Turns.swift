import Synchronization

/// A FIFO mutex for tasks, which may be held across an `await`.
///
/// A task that takes the turn must end it, otherwise all others wait forever: write `defer { turns.end() }`
/// on the next line.
package final class Turns: Sendable {
  private struct State: Sendable {
    var isTaken = false
    /// Places of the waiting tasks, first in, first out. A place is set to `true` when its turn comes, to
    /// `false` when its task is cancelled.
    var line: [OneShot<Bool>] = []
  }

  private let state = Mutex(State())
  /// Shows the thread sanitizer that a place is created before it is set. The lock already guarantees this
  /// order.
  private let order = Atomic<Bool>(false)

  package init() {}

  /// Number of tasks that wait for their turn.
  package var waitingCount: Int { state.withLock(\.line.count) }

  /// Waits for the turn, even if the task is cancelled.
  package func take() async {
    if let place = lineUp() { _ = await place.value() }
  }

  /// Waits for the turn. If the turn is free, even a cancelled task takes it.
  ///
  /// - Throws: If the task is cancelled before its turn comes. The caller must not call `end` then.
  package func takeUnlessCancelled() async throws(CancellationError) {
    guard let place = lineUp() else { return }
    if await place.value(ifCancelled: false) { return }
    state.withLock { state in state.line.removeAll { $0 === place } }
    throw CancellationError()
  }

  /// Passes the turn to the next task in line.
  package func end() {
    // `set` fails for a task that is being cancelled at this moment. The turn then passes to the next task.
    while let next = next() {
      _ = order.load(ordering: .acquiring)
      if next.set(true) { return }
    }
  }

  /// Takes the turn if it is free, otherwise lines up.
  ///
  /// - Returns: `nil` if the caller has taken the turn.
  private func lineUp() -> OneShot<Bool>? {
    state.withLock { state in
      guard state.isTaken else {
        state.isTaken = true
        return nil
      }
      let place = OneShot<Bool>()
      _ = order.exchange(true, ordering: .acquiringAndReleasing)
      state.line.append(place)
      return place
    }
  }

  /// Removes the first place from the line; frees the turn if no task waits.
  private func next() -> OneShot<Bool>? {
    state.withLock { state in
      precondition(state.isTaken, "a turn ended that was not taken")
      guard state.line.isEmpty else { return state.line.removeFirst() }
      state.isTaken = false
      return nil
    }
  }
}

import Synchronization

/// Lets one task at a time go on, in the order in which they came: a mutex that may be held across an `await`.
///
/// Whoever took the turn must end it, else all others wait for ever: write `defer { turns.end() }` in the next line.
package final class Turns: Sendable {
  private struct State: Sendable {
    var isTaken = false
    /// In order. A place is told `true` when its turn has come, `false` when its task is cancelled.
    var line: [OneShot<Bool>] = []
  }

  private let state = Mutex(State())
  /// The lock orders what a place is made of before what is done to it, but the thread sanitizer does not see that.
  private let order = Atomic<Bool>(false)

  package init() {}

  /// Tasks that wait for their turn.
  package var waitingCount: Int { state.withLock(\.line.count) }

  /// Waits for the turn, even where the task is cancelled.
  package func take() async {
    if let place = lineUp() { _ = await place.value() }
  }

  /// Waits for the turn. A free one is taken by a cancelled task too.
  ///
  /// - Throws: where the task is cancelled before its turn has come; there is nothing to end then.
  package func takeUnlessCancelled() async throws(CancellationError) {
    guard let place = lineUp() else { return }
    if await place.value(ifCancelled: false) { return }
    state.withLock { state in state.line.removeAll { $0 === place } }
    throw CancellationError()
  }

  /// Hands the turn to the next in the line.
  package func end() {
    // Who was cancelled at this moment leaves it to the one behind.
    while let next = next() {
      _ = order.load(ordering: .acquiring)
      if next.set(true) { return }
    }
  }

  /// - Returns: `nil` where the turn was free, and is taken now.
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

  /// Takes the first out of the line; frees the turn where nobody waits.
  private func next() -> OneShot<Bool>? {
    state.withLock { state in
      precondition(state.isTaken, "a turn ended that nobody had")
      guard state.line.isEmpty else { return state.line.removeFirst() }
      state.isTaken = false
      return nil
    }
  }
}

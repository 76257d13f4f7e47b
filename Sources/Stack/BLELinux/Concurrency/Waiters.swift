import Synchronization

/// A condition variable for tasks: waiters re-check their predicate when signalled.
///
/// Change the state first, then call `wakeAll`, from any thread. A task that checks the predicate between
/// these steps either sees the change or is woken. The predicate must only read state of the waiting actor or
/// state under a lock.
package final class Waiters: Sendable {
  /// Places of the waiting tasks. A place is set to `true` when its task is woken, to `false` when its task
  /// is cancelled.
  private let places = Mutex<[OneShot<Bool>]>([])
  /// Shows the thread sanitizer that a place is created before it is set. The lock already guarantees this
  /// order.
  private let order = Atomic<Bool>(false)

  package init() {}

  package var waitingCount: Int { places.withLock(\.count) }

  /// Wakes all waiters, which then re-check their predicate.
  package func wakeAll() {
    let woken = places.withLock { places in
      let woken = places
      places = []
      return woken
    }
    _ = order.load(ordering: .acquiring)
    for place in woken { place.set(true) }
  }

  /// Waits until `isOver` returns `true`, even if the task is cancelled.
  ///
  /// - Parameter isOver: called at once, after each wake-up, and again after the task has been registered as
  ///   a waiter.
  package func wait(until isOver: () -> Bool) async {
    while !isOver() {
      let place = lineUp()
      if isOver() { return leave(place) }
      _ = await place.value()
    }
  }

  /// Waits until `isOver` returns `true`.
  ///
  /// - Throws: If the task is cancelled first.
  package func waitUnlessCancelled(until isOver: () -> Bool) async throws(CancellationError) {
    while !isOver() {
      let place = lineUp()
      if isOver() { return leave(place) }
      if await place.value(ifCancelled: false) { continue }
      leave(place)
      throw CancellationError()
    }
  }

  private func lineUp() -> OneShot<Bool> {
    let place = OneShot<Bool>()
    _ = order.exchange(true, ordering: .acquiringAndReleasing)
    places.withLock { $0.append(place) }
    return place
  }

  private func leave(_ place: OneShot<Bool>) {
    places.withLock { places in places.removeAll { $0 === place } }
  }
}

/// A FIFO mutex for tasks, which may be held across an `await`.
///
/// A task that takes the turn must end it, otherwise all waiting tasks wait forever. Write `defer {
/// turns.end() }` on the next line.
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
  /// - Throws: If the task is cancelled before its turn comes. The caller must then not call `end`.
  package func takeUnlessCancelled() async throws(CancellationError) {
    guard let place = lineUp() else { return }
    if await place.value(ifCancelled: false) { return }
    state.withLock { state in state.line.removeAll { $0 === place } }
    throw CancellationError()
  }

  /// Passes the turn to the next task in line.
  package func end() {
    // `set` fails for a task that is being cancelled at this moment. The next task then gets the turn.
    while let next = next() {
      _ = order.load(ordering: .acquiring)
      if next.set(true) { return }
    }
  }

  /// Takes the turn if it is free, otherwise joins the line.
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

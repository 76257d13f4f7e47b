import Synchronization

/// A condition variable for tasks: waiters re-check their predicate when signalled.
///
/// Change the state first, then call `wakeAll`, from any thread: a task that checks the predicate in between
/// either sees the change or is woken. The predicate must only read state of the waiting actor or state under
/// a lock.
package final class Waiters: Sendable {
  /// Places of the waiting tasks. A place is set to `true` when it is woken, to `false` when its task is
  /// cancelled.
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

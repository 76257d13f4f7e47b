import Synchronization

/// Tasks that wait until something is so, woken together whenever that may have changed.
///
/// First make it so, then call `wakeAll`, from any thread: a task that looks meanwhile misses neither. What the
/// condition reads must itself be safe where it is read: state of the actor that waits, or state under a lock.
package final class Waiters: Sendable {
  /// A place is told `true` when it is woken, `false` when its task is cancelled.
  private let places = Mutex<[OneShot<Bool>]>([])
  /// The lock orders what a place is made of before what is done to it, but the thread sanitizer does not see that.
  private let order = Atomic<Bool>(false)

  package init() {}

  package var waitingCount: Int { places.withLock(\.count) }

  /// Has all who wait look again.
  package func wakeAll() {
    let woken = places.withLock { places in
      let woken = places
      places = []
      return woken
    }
    _ = order.load(ordering: .acquiring)
    for place in woken { place.set(true) }
  }

  /// Waits until `isOver`, even where the task is cancelled.
  ///
  /// - Parameter isOver: asked at once, after each wake-up, and again when this task can be woken.
  package func wait(until isOver: () -> Bool) async {
    while !isOver() {
      let place = lineUp()
      if isOver() { return leave(place) }
      _ = await place.value()
    }
  }

  /// Waits until `isOver`.
  ///
  /// - Throws: where the task is cancelled before.
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

import Glibc
import Synchronization

/// Stops a thread at a point that a test chooses.
package final class Gate: @unchecked Sendable {
  // A POSIX semaphore may be shared between threads.
  private let opened = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)
  private let entered = Counter()

  package init() { sem_init(opened, 0, 0) }

  deinit {
    sem_destroy(opened)
    opened.deallocate()
  }

  /// Blocks the calling thread until `open`. Never call it on a thread of the cooperative pool.
  package func pass() {
    entered.add()
    while sem_wait(opened) != 0 {}
  }

  /// Waits until a thread has reached the gate.
  package func waitForSomebody() async { await entered.reaches(1) }

  package func open() { sem_post(opened) }
}

/// A number that tasks and threads can wait for.
package final class Counter: Sendable {
  private struct State: Sendable {
    var value = 0
    var waiters: [(least: Int, continuation: CheckedContinuation<Void, Never>)] = []
  }

  private let state = Mutex(State())

  package init() {}

  package var value: Int { state.withLock(\.value) }

  package func add(_ count: Int = 1) {
    let ready = state.withLock { state in
      state.value += count
      let ready = state.waiters.filter { $0.least <= state.value }
      state.waiters.removeAll { $0.least <= state.value }
      return ready
    }
    for waiter in ready { waiter.continuation.resume() }
  }

  package func reaches(_ least: Int) async {
    await withCheckedContinuation { continuation in
      let isThere = state.withLock { state in
        if state.value < least { state.waiters.append((least, continuation)) }
        return state.value >= least
      }
      if isThere { continuation.resume() }
    }
  }
}

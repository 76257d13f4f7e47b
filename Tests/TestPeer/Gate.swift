import Synchronization
import Glibc

/// Stops a thread at a point of a test's choice.
package final class Gate: @unchecked Sendable {
  // POSIX semaphores are made to be shared.
  private let entered = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)
  private let opened = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)

  package init() {
    sem_init(entered, 0, 0)
    sem_init(opened, 0, 0)
  }

  deinit {
    sem_destroy(entered)
    sem_destroy(opened)
    entered.deallocate()
    opened.deallocate()
  }

  /// Waits here until `open`.
  package func pass() {
    sem_post(entered)
    while sem_wait(opened) != 0 {}
  }

  /// Waits until somebody stands at the gate.
  package func waitForSomebody() { while sem_wait(entered) != 0 {} }

  package func open() { sem_post(opened) }
}

/// A number that tasks and threads wait for.
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

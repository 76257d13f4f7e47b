import BLELinux
import Synchronization

/// A thread for a daemon's file-system calls, which may take seconds on a memory card and must not block the
/// receive thread.
final class DiskThread: Sendable {
  private struct State: Sendable {
    var jobs: [@Sendable () -> Void] = []
    var hasBegun = false
    var isOver = false
  }

  private let name: String
  private let state = Mutex(State())
  private let wake: WakeEvent?

  /// Creates the object. The thread starts with its first job.
  ///
  /// - Parameter name: the thread's name.
  init(_ name: String) {
    self.name = name
    wake = try? WakeEvent()
  }

  /// Runs `body` on the thread, after earlier jobs. If the daemon has ended, or no thread could be started,
  /// runs `body` on the calling thread.
  func run<Value: Sendable>(_ body: @escaping @Sendable () -> Value) async -> Value {
    let result = OneShot<Value>()
    let isTaken = state.withLock { state in
      guard let wake, !state.isOver else { return false }
      if !state.hasBegun {
        let isThere: Void? = try? SystemThread.start(named: name, as: .patient) { self.main(wake) }
        guard isThere != nil else { return false }
        state.hasBegun = true
      }
      state.jobs.append { result.set(body()) }
      return true
    }
    guard isTaken, let wake else { return body() }
    wake.signal()
    return await result.value()
  }

  /// Ends the thread after its queued jobs.
  func end() {
    state.withLock { $0.isOver = true }
    wake?.signal()
  }

  private func main(_ wake: WakeEvent) {
    while true {
      wake.sleep { state.withLock { $0.jobs.isEmpty && !$0.isOver } }
      let jobs = state.withLock { state in
        defer { state.jobs = [] }
        return state.jobs
      }
      for job in jobs { job() }
      if jobs.isEmpty, state.withLock(\.isOver) { return }
    }
  }
}

import BLELinux
import Synchronization

/// A thread for file-system calls of a daemon, which may take seconds on a memory card: the receive thread makes none.
final class DiskThread: Sendable {
  private struct State: Sendable {
    var jobs: [@Sendable () -> Void] = []
    var hasBegun = false
    var isOver = false
  }

  private let name: String
  private let state = Mutex(State())
  private let wake: WakeEvent?

  /// - Parameter name: of the thread, which starts with its first job.
  init(_ name: String) {
    self.name = name
    wake = try? WakeEvent()
  }

  /// Runs `body` there, after what was given to it before. Once the daemon has ended, and where no thread can be had, it runs
  /// here.
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

  /// Ends the thread after the jobs that it has.
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

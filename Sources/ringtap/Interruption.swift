import BLESystem
import Synchronization

/// SIGINT and SIGTERM for commands that wait: taken before any thread starts, awaited where it suits.
enum Interruption {
  private struct State {
    var number: CInt?
    var waiting: [CheckedContinuation<CInt, Never>] = []
  }

  private static let state = Mutex(State())

  /// Call it first of all in `main`.
  static func take() throws(SystemError) {
    try InterruptSignals.handle { number in
      let waiting = state.withLock { state in
        state.number = number
        defer { state.waiting.removeAll() }
        return state.waiting
      }
      for continuation in waiting { continuation.resume(returning: number) }
    }
  }

  /// Returns when a signal has come, or came before; its number.
  static func next() async -> CInt {
    await withCheckedContinuation { continuation in
      let number = state.withLock { state -> CInt? in
        if state.number == nil { state.waiting.append(continuation) }
        return state.number
      }
      if let number { continuation.resume(returning: number) }
    }
  }
}

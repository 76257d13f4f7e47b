import BLESystem
import Glibc
import Synchronization

/// SIGINT, SIGTERM and SIGHUP end a command by cancelling its task, so that scans and streams are stopped first. A
/// second signal ends the process at once.
enum Interruption {
  private static let handler = Mutex<(@Sendable () -> Void)?>(nil)

  /// Call it first of all in `main`.
  static func take() throws(SystemError) {
    try InterruptSignals.handle { number in
      let handler = handler.withLock { $0.take() }
      guard let handler else {
        Console.leaveView()
        exit(128 + number)
      }
      handler()
    }
  }

  /// Does what a first signal does; nothing where nobody would be cancelled.
  static func interrupt() { handler.withLock { $0.take() }?() }

  /// Runs `body` in a task that a signal cancels.
  static func cancelling<Value: Sendable>(
    _ body: @escaping @Sendable () async throws -> Value
  ) async throws -> Value {
    let task = Task { try await body() }
    handler.withLock { $0 = { task.cancel() } }
    return try await task.value
  }
}

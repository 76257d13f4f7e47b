package import BLELinux
import Glibc
import Synchronization

/// SIGINT, SIGTERM and SIGHUP end a command by cancelling its task, so that scans and streams are stopped first. A
/// second signal ends the process at once.
package enum Interruption {
  private static let handler = Mutex<(@Sendable () -> Void)?>(nil)
  /// For SIGHUP, where that ends nothing.
  private static let hangUp = Mutex<(@Sendable () -> Void)?>(nil)

  /// Call it first of all in `main`.
  package static func take() throws(SystemError) {
    try InterruptSignals.handle { number in
      if number == SIGHUP, let reload = hangUp.withLock({ $0 }) { return reload() }
      let handler = handler.withLock { $0.take() }
      guard let handler else {
        Console.leaveView()
        exit(128 + number)
      }
      handler()
    }
  }

  /// SIGHUP does this from now on, each time, and ends nothing.
  package static func onHangUp(_ body: @escaping @Sendable () -> Void) { hangUp.withLock { $0 = body } }

  /// Does what a first signal does; nothing where nobody would be cancelled.
  package static func interrupt() { handler.withLock { $0.take() }?() }

  /// Runs `body` in a task that a signal cancels.
  package static func cancelling<Value: Sendable>(
    _ body: @escaping @Sendable () async throws -> Value
  ) async throws -> Value {
    let task = Task { try await body() }
    handler.withLock { $0 = { task.cancel() } }
    return try await task.value
  }
}

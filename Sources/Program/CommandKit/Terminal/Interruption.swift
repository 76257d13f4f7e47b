package import BLELinux
import Glibc
import Synchronization

/// SIGINT, SIGTERM and SIGHUP end a command by cancelling its task, so that scans and streams are stopped first. A
/// second signal ends the process at once.
package enum Interruption {
  /// How long a device may take to do what it is told after a signal: then its link is closed.
  package static let patience = Duration.milliseconds(600)
  /// How long after a signal anything else is waited for.
  package static let leavingPatience = Duration.milliseconds(750)
  /// How long after a signal a controller may take to be let go.
  package static let closingPatience = Duration.milliseconds(900)

  private static let handler = Mutex<(@Sendable () -> Void)?>(nil)
  /// For SIGHUP, where that ends nothing.
  private static let hangUp = Mutex<(@Sendable () -> Void)?>(nil)
  /// A first signal has come; and who waits for it.
  private static let isSignalled = Atomic(false)
  private static let waiters = Waiters()
  private static let otherCause = Mutex<String?>(nil)

  /// Call it first of all in `main`.
  package static func take() throws(SystemError) {
    try InterruptSignals.handle { number in
      if number == SIGHUP, let reload = hangUp.withLock({ $0 }) { return reload() }
      let handler = handler.withLock { $0.take() }
      guard let handler else {
        TerminalKeys.close()
        Console.leaveView()
        exit(128 + number)
      }
      isSignalled.store(true, ordering: .releasing)
      waiters.wakeAll()
      handler()
    }
  }

  /// SIGHUP does this from now on, each time, and ends nothing.
  package static func onHangUp(_ body: @escaping @Sendable () -> Void) { hangUp.withLock { $0 = body } }

  /// What has interrupted the command, where that is no signal.
  package static var cause: String? { otherCause.withLock { $0 } }

  /// Does what a first signal does, without its hurry; nothing where nobody would be cancelled.
  ///
  /// - Parameter cause: for a command that could do nothing before.
  package static func interrupt(because cause: String) {
    guard let handler = handler.withLock({ $0.take() }) else { return }
    if !isSignalled.load(ordering: .acquiring) { otherCause.withLock { $0 = cause } }
    handler()
  }

  /// Runs `body` in a task that a signal cancels.
  package static func cancelling<Value: Sendable>(
    _ body: @escaping @Sendable () async throws -> Value
  ) async throws -> Value {
    let task = Task { try await body() }
    handler.withLock { $0 = { task.cancel() } }
    return try await task.value
  }

  /// Runs `body`, and leaves it behind where a signal has come and this time has passed since: whatever it waits for, a
  /// command ends. Not for what writes files.
  ///
  /// - Throws: `CancellationError` where it is left behind.
  package static func leaving<Value: Sendable>(
    after patience: Duration = patience, _ body: @escaping @Sendable () async throws -> Value
  ) async throws -> Value {
    try await CommandKit.leaving(body) {
      try await waiters.waitUnlessCancelled { isSignalled.load(ordering: .acquiring) }
      try await Task.sleep(for: patience)
      return CancellationError()
    }
  }
}

/// Runs `body`; once `limit` returns, `body` is cancelled and left behind, and what `limit` returned is thrown.
package func leaving<Value: Sendable>(
  _ body: @escaping @Sendable () async throws -> Value,
  limit: @escaping @Sendable () async throws -> any Error
) async throws -> Value {
  let outcome = OneShot<Result<Value, any Error>>()
  let work = Task {
    do { outcome.set(.success(try await body())) } catch { outcome.set(.failure(error)) }
  }
  let watch = Task {
    outcome.set(.failure(try await limit()))
    work.cancel()
  }
  defer { watch.cancel() }
  return try await withTaskCancellationHandler {
    try await outcome.get()
  } onCancel: {
    work.cancel()
  }
}

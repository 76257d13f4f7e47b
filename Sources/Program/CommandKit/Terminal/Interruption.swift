package import BLELinux
import Glibc
import Synchronization

/// Signal handling: SIGINT, SIGTERM and SIGHUP cancel the command's task, which first stops scans and
/// streams. A second signal ends the process immediately.
package enum Interruption {
  /// Time after a signal in which a device may respond to the closing requests. Then the link is closed.
  package static let patience = Duration.milliseconds(600)
  /// Time limit after a signal for everything else that may block.
  package static let leavingPatience = Duration.milliseconds(750)
  /// Time limit after a signal for closing a controller.
  package static let closingPatience = Duration.milliseconds(900)

  private static let handler = Mutex<(@Sendable () -> Void)?>(nil)
  /// A closure that is called on SIGHUP. With a closure, SIGHUP does not end the command.
  private static let hangUp = Mutex<(@Sendable () -> Void)?>(nil)
  /// Whether a signal has arrived. The first signal also wakes `waiters`.
  private static let isSignalled = Atomic(false)
  private static let waiters = Waiters()
  private static let otherCause = Mutex<String?>(nil)

  /// Installs the signal handlers. Call this first in `main`.
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

  /// Makes SIGHUP call `body` each time instead of ending the command.
  package static func onHangUp(_ body: @escaping @Sendable () -> Void) { hangUp.withLock { $0 = body } }

  /// The cause of an interruption without a signal; otherwise `nil`.
  package static var cause: String? { otherCause.withLock { $0 } }

  /// Cancels the command like a first signal, but without time limits. Does nothing if no task is running.
  ///
  /// - Parameter cause: the reason, for a command that has no result yet.
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

  /// Runs `body`. After a signal and the time `patience`, abandons `body`, so that a command ends even if
  /// `body` blocks. Do not write files in `body`.
  ///
  /// - Throws: `CancellationError` if `body` is abandoned.
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

/// Runs `body` with a limit. When `limit` returns, cancels and abandons `body`, and throws the error that
/// `limit` has returned.
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

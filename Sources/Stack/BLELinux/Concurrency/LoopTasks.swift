/// Creation of tasks that work with actors of a loop.
///
/// All such tasks are created here, because in virtual time they must stay on the loop: otherwise time would
/// advance while they run.
extension EventLoop {
  /// Traps in debug builds if the caller is not on the loop's thread. Protects state that has no lock because
  /// only that thread uses it.
  package func assertIsCurrent() { assert(isOnThread, "not on the event loop's thread") }

  /// Starts a task.
  @discardableResult
  package func task<Value: Sendable>(_ body: @escaping @Sendable () async -> Value) -> Task<Value, Never> {
    Task(executorPreference: preference) { await body() }
  }

  /// Schedules `body` on an actor. For cancellation handlers and other code that cannot await.
  package func later<Resident: Actor>(
    _ resident: Resident, _ body: @escaping @Sendable (isolated Resident) async -> Void
  ) {
    task { await body(resident) }
  }

  /// Calls `body` after a time by the loop's clock, unless the task is cancelled or the loop stops first.
  package func after(
    _ duration: Duration, _ body: @escaping @Sendable () async -> Void
  ) -> Task<Void, Never> {
    task { if (try? await self.wait(for: duration)) != nil { await body() } }
  }

  /// Runs `body` to completion even if the calling task is cancelled. For cleanup.
  package func uninterrupted<Value: Sendable>(
    _ body: @escaping @Sendable () async -> Value
  ) async -> Value {
    await task(body).value
  }
}

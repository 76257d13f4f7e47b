/// Tasks that work with actors of a loop.
///
/// By virtual time they must not leave the loop, or time goes on without them: so all of them begin here.
extension EventLoop {
  /// Traps in debug builds where the caller is not on the loop's thread: for state that has no lock because only that
  /// thread touches it.
  package func assertIsCurrent() { assert(isOnThread, "not on the event loop's thread") }

  /// Begins a task.
  @discardableResult
  package func task<Value: Sendable>(_ body: @escaping @Sendable () async -> Value) -> Task<Value, Never> {
    Task(executorPreference: preference) { await body() }
  }

  /// Has `body` called on an actor, soon: for a cancellation handler and whatever else cannot await.
  package func later<Resident: Actor>(
    _ resident: Resident, _ body: @escaping @Sendable (isolated Resident) async -> Void
  ) {
    task { await body(resident) }
  }

  /// Calls `body` after a time by the loop's clock; not at all where the task is cancelled or the loop stops before.
  package func after(
    _ duration: Duration, _ body: @escaping @Sendable () async -> Void
  ) -> Task<Void, Never> {
    task { if (try? await self.wait(for: duration)) != nil { await body() } }
  }

  /// Runs `body` to its end even where the task that asks is cancelled: for what must be put in order.
  package func uninterrupted<Value: Sendable>(
    _ body: @escaping @Sendable () async -> Value
  ) async -> Value {
    await task(body).value
  }
}

import Synchronization

/// A value that is set once, from any thread or actor. Any number of tasks may await it, before or after it
/// is set.
///
/// The check for the value and the registration of a waiter are one atomic step, so that no value is missed
/// between them. Only this type contains a hand-written continuation; `Turns` and `Waiters` use it.
package final class OneShot<Value: Sendable>: Sendable {
  private struct State: Sendable {
    var value: Value?
    /// The first waiter. Avoids an array in the common case of a single waiter.
    var waiter: CheckedContinuation<Value, Never>?
    var others: [CheckedContinuation<Value, Never>] = []

    mutating func add(_ waiter: CheckedContinuation<Value, Never>) {
      if self.waiter == nil { self.waiter = waiter } else { others.append(waiter) }
    }
  }

  private let state = Mutex(State())

  package init() {}

  /// The value; `nil` until it is set.
  package var current: Value? { state.withLock(\.value) }

  /// Number of tasks that are waiting.
  package var waitingCount: Int { state.withLock { ($0.waiter == nil ? 0 : 1) + $0.others.count } }

  /// Sets the value and wakes all waiters.
  ///
  /// - Returns: `false` if a value was already set; the new value is then ignored.
  @discardableResult
  package func set(_ value: Value) -> Bool {
    let before = state.withLock { state -> State? in
      guard state.value == nil else { return nil }
      let before = state
      state = State(value: value)
      return before
    }
    guard let before else { return false }
    before.waiter?.resume(returning: value)
    for waiter in before.others { waiter.resume(returning: value) }
    return true
  }

  /// Waits for the value, even if the task is cancelled.
  package func value() async -> Value {
    if let current { return current }
    return await withCheckedContinuation { waiter in
      let value = state.withLock { state in
        if state.value == nil { state.add(waiter) }
        return state.value
      }
      if let value { waiter.resume(returning: value) }
    }
  }

  /// Waits for the value. If the task is cancelled first, sets `value` for all waiters.
  package func value(ifCancelled value: Value) async -> Value {
    await withTaskCancellationHandler {
      await self.value()
    } onCancel: {
      set(value)
    }
  }
}

extension OneShot {
  /// Waits for the result, even if the task is cancelled, and throws its failure.
  package func get<Success, Failure>() async throws(Failure) -> Success
  where Value == Result<Success, Failure> {
    try await value().get()
  }
}

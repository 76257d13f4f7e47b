import Synchronization

/// A value that is set once and awaited by any number of tasks, before or after, from any thread or actor.
///
/// The look whether the value is there and the wait for it are one step: no value can come in between and be missed.
/// This is the one place where a task is suspended by hand; `Turns` and `Waiters` are built on it.
package final class OneShot<Value: Sendable>: Sendable {
  private struct State: Sendable {
    var value: Value?
    /// Most values are awaited by one task: that takes no array.
    var waiter: CheckedContinuation<Value, Never>?
    var others: [CheckedContinuation<Value, Never>] = []

    mutating func add(_ waiter: CheckedContinuation<Value, Never>) {
      if self.waiter == nil { self.waiter = waiter } else { others.append(waiter) }
    }
  }

  private let state = Mutex(State())

  package init() {}

  /// `nil` until it is set.
  package var current: Value? { state.withLock(\.value) }

  /// Tasks that wait now.
  package var waitingCount: Int { state.withLock { ($0.waiter == nil ? 0 : 1) + $0.others.count } }

  /// Sets the value and wakes all who wait for it.
  ///
  /// - Returns: whether this became the value; `false` where there was one already.
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

  /// Waits for the value, even where the task is cancelled.
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

  /// Waits for the value; a task that is cancelled before it is there sets it itself, for all who wait.
  package func value(ifCancelled value: Value) async -> Value {
    await withTaskCancellationHandler {
      await self.value()
    } onCancel: {
      set(value)
    }
  }
}

extension OneShot {
  /// Waits for the result, even where the task is cancelled, and throws its failure.
  package func get<Success, Failure>() async throws(Failure) -> Success
  where Value == Result<Success, Failure> {
    try await value().get()
  }
}

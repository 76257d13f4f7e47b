/// Keeps discovery running on an adapter that other programs use too. The kernel has one discovery per
/// adapter for all programs, ends it after about 10 s, and lets any program stop it.
///
/// This type only decides; `ManagementChannel` acts and reports the results. Our discovery runs until the
/// caller ends it, and another program's is never stopped. While another one runs, its results serve as well,
/// because the kernel sends them to all programs.
package struct DiscoveryKeeper {
  package enum State: Hashable {
    case off
    /// The kernel has not answered the start command.
    case starting
    case ours
    /// Another program's discovery is running, or the adapter cannot start one now; retry later.
    case waiting
  }

  package enum Step: Hashable { case nothing, start, stop }
  package enum Answer: Hashable { case started, refused }

  package private(set) var state = State.off
  private var isWanted = false

  package init() {}

  package mutating func begin() -> Step {
    isWanted = true
    return start()
  }

  /// Processes the kernel's answer to the start command.
  package mutating func answered(_ answer: Answer) -> Step {
    switch (answer, isWanted) {
    case (.started, true): state = .ours
    case (.refused, true): state = .waiting
    case (.started, false):
      state = .off
      return .stop
    case (.refused, false): state = .off
    }
    return .nothing
  }

  /// Processes the end of a discovery: ours, stopped by the kernel's timeout or another program, or the one
  /// that was in the way.
  package mutating func ended() -> Step {
    switch state {
    // The discovery that ended began before ours; the answer to the start command decides.
    case .off, .starting: .nothing
    case .ours, .waiting: start()
    }
  }

  /// Retries after some time in `waiting`.
  package mutating func retry() -> Step { state == .waiting ? start() : .nothing }

  /// Ends our discovery now if it runs, otherwise as soon as the start command is answered.
  package mutating func end() -> Step {
    isWanted = false
    switch state {
    case .off, .starting: return .nothing
    case .waiting:
      state = .off
      return .nothing
    case .ours:
      state = .off
      return .stop
    }
  }

  private mutating func start() -> Step {
    state = .starting
    return .start
  }
}

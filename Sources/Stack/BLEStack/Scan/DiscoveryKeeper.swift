/// Keeps discovery running on an adapter that is shared with other programs. The kernel has one discovery per
/// adapter for all programs, ends it after about 10 s, and lets any program stop it.
///
/// This type only decides what to do; `ManagementChannel` does it and reports the results. Our discovery runs
/// until the caller ends it. Another program's discovery is never stopped: the kernel sends its results to
/// all programs, so they are used instead.
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

  /// Processes the kernel's reply to the start command.
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

  /// Processes the end of a discovery. It is ours if the kernel's timeout or another program stopped it, or
  /// the one that blocked ours.
  package mutating func ended() -> Step {
    switch state {
    // The discovery that ended began before ours. The reply to the start command decides.
    case .off, .starting: .nothing
    case .ours, .waiting: start()
    }
  }

  /// Tries to start again, after some time in `waiting`.
  package mutating func retry() -> Step { state == .waiting ? start() : .nothing }

  /// Ends our discovery if it runs. Otherwise it ends as soon as the kernel replies to the start command.
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

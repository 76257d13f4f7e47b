/// Whose discovery is on at an adapter, and what to do about it. The kernel has one for everybody, ends it after about
/// 10 s, and lets anybody end it.
///
/// Decides only; `ManagementChannel` acts and tells what came of it. So ours goes on until it is unwanted, nobody
/// else's is ever ended, and while another is on, its findings do: the kernel sends them to everybody.
package struct DiscoveryKeeper {
  package enum State: Hashable {
    case off
    /// Our start has not been answered.
    case starting
    case ours
    /// Another is in the way, or the adapter cannot now: the next chance is ours.
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

  /// The kernel has answered our start.
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

  /// A discovery has ended: ours by the kernel's clock or by somebody's hand, or the one that was in the way.
  package mutating func ended() -> Step {
    switch state {
    // What ended was there before ours: the answer to our start tells.
    case .off, .starting: .nothing
    case .ours, .waiting: start()
    }
  }

  /// Some time has passed in `waiting`.
  package mutating func retry() -> Step { state == .waiting ? start() : .nothing }

  /// Ours ends now if it is on, else as soon as the start is answered.
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

package import BLEWire

/// Keeps discovery running on an adapter that is shared with other programs. The kernel has one discovery per
/// adapter for all programs, ends it after about 10 s, and lets any program stop it.
///
/// This type only decides on the next step. `ManagementChannel` performs the step and reports the result. Our
/// discovery runs until the caller ends it. Another program's discovery is never stopped: the kernel sends
/// its results to all programs, so our scan uses these results.
package struct DiscoveryKeeper {
  package enum State: Hashable {
    case off
    /// The kernel has not answered the start command.
    case starting
    case ours
    /// Another program's discovery is running, or the adapter cannot start a discovery now; retry later.
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

  /// Processes the end of a discovery. Either our discovery was ended by the kernel's timeout or another
  /// program, or another program's discovery, which blocked ours, has ended.
  package mutating func ended() -> Step {
    switch state {
    // The discovery that ended is not ours, which has not started yet. The reply to the start command
    // determines the next step.
    case .off, .starting: .nothing
    case .ours, .waiting: start()
    }
  }

  /// Tries to start a discovery again, after some time in `waiting`.
  package mutating func retry() -> Step { state == .waiting ? start() : .nothing }

  /// Ends our discovery if it is running. If the start command is outstanding, the discovery ends as
  /// soon as the kernel replies.
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

/// Detects that the kernel or another program interrupts a raw scan, by watching the commands sent to the
/// controller.
///
/// When a program connects, the kernel turns off any scan, scans for that device only, and leaves the scan
/// off (`hci_connect_le_scan`, `hci_update_passive_scan` in `net/bluetooth`). Our scan may resume once no
/// other program scans or connects. If it resumed during a connection attempt, the controller would refuse
/// the kernel's next command.
package struct ScanInterruption: Hashable {
  /// Pause after the last command before the scan resumes. The kernel sends the commands of a connection
  /// attempt within milliseconds of each other.
  package static let pause = Duration.seconds(1)

  private var othersScan = false
  private var othersConnect = false
  /// Time at which our scan was interrupted; `nil` if the scan is on.
  package private(set) var began: MonotonicTime?
  private var latest = MonotonicTime(nanoseconds: 0)

  package init() {}

  /// Whether other programs use the controller. If so, a scan that is on belongs to these programs.
  package var isOthersTurn: Bool { othersScan || othersConnect }

  /// Time at which to resume the scan; `nil` if the scan is on or other programs are still active.
  package var resumption: MonotonicTime? {
    began == nil || isOthersTurn ? nil : latest.advanced(by: Self.pause)
  }

  /// Processes a command of the kernel or another program.
  package mutating func take(_ command: borrowing HCICommandPacket, at time: MonotonicTime) {
    switch command.opcode {
    case .leSetScanEnable, .leSetExtendedScanEnable:
      othersScan = !command.parameters.isEmpty && command.parameters[0] != 0
      if began == nil { began = time }
    case .leSetScanParameters, .leSetExtendedScanParameters, .leCreateConnectionCancel: break
    case .leCreateConnection, .leExtendedCreateConnection: othersConnect = true
    default: return
    }
    latest = time
  }

  /// Processes the failure of another program's command.
  package mutating func takeFailure(of opcode: HCIOpcode) {
    switch opcode {
    case .leSetScanEnable, .leSetExtendedScanEnable: othersScan = false
    case .leCreateConnection, .leExtendedCreateConnection: othersConnect = false
    default: break
    }
  }

  /// Processes the end of a connection attempt, with or without a link.
  package mutating func takeConnectionComplete(at time: MonotonicTime) {
    othersConnect = false
    latest = time
  }

  /// Defers the next attempt to resume the scan. Called after an attempt has failed.
  package mutating func postpone(at time: MonotonicTime) { latest = time }
}

public import BLELinux
import BLEStack
import BLEWire

/// A step to recover an adapter whose controller does not respond. Each step disturbs more than the previous
/// one.
public enum RecoveryStep: Int, CaseIterable, Sendable {
  /// Sends a request on a new channel. In exclusive mode, this resets the controller.
  case reopen
  /// Switches the adapter off and on over the kernel's management interface. Requires CAP_NET_ADMIN.
  case powerCycle
  /// Blocks and unblocks the adapter's rfkill switch, and switches the adapter on. Requires write access to
  /// `/dev/rfkill`.
  case rfkill
  /// Withdraws and restores the authorisation of the adapter's USB device, which is like replugging it.
  /// Requires write access to the device's `authorized`.
  case reauthorise
}

extension RecoveryStep: CustomStringConvertible {
  public var description: String {
    switch self {
    case .reopen: "reopening it"
    case .powerCycle: "switching it off and on"
    case .rfkill: "blocking and unblocking it (rfkill)"
    case .reauthorise: "authorising its USB device again"
    }
  }
}

/// A step and its outcome.
public struct RecoveryAttempt: Hashable, Sendable {
  public enum Outcome: Hashable, Sendable {
    case answers, silent
    /// The step could not be performed, with the reason.
    case impossible(String)
  }

  public var step: RecoveryStep
  public var outcome: Outcome
  /// Time since the recovery began.
  public var elapsed: Duration

  public init(_ step: RecoveryStep, _ outcome: Outcome, after elapsed: Duration) {
    (self.step, self.outcome, self.elapsed) = (step, outcome, elapsed)
  }
}

extension RecoveryAttempt: CustomStringConvertible {
  /// The step, its outcome, and the time.
  public var description: String {
    let tenths = Int(elapsed / .milliseconds(100))
    let time = "after \(tenths / 10).\(tenths % 10) s"
    return switch outcome {
    case .answers: "\(step): it answers again, \(time)"
    case .silent: "\(step): still no answer, \(time)"
    case .impossible(let reason): "\(step): not possible: \(reason)"
    }
  }
}

/// System functions that a recovery uses. The functions block, and are called on a separate thread.
public protocol RecoveryTools: Sendable {
  /// The kernel's adapters.
  func adapters() -> [AdapterInfo]
  /// Switches an adapter on or off. Returns when the kernel has done so.
  ///
  /// - Throws: `notPermitted`; `managementRefused` with the kernel's reason; `managementTimedOut`.
  func setPowered(_ isOn: Bool, index: UInt16) throws(HostError)
  /// Blocks and unblocks the adapter's rfkill switch.
  ///
  /// - Throws: `unsuitable` if the adapter has no switch or is blocked by hardware; the system's error.
  func cycleSwitch(of adapter: AdapterInfo) throws(HostError)
  /// Withdraws and restores the authorisation of the adapter's USB device.
  ///
  /// - Throws: `unsuitable` if the adapter is not a USB device; the system's error.
  func reauthorise(_ adapter: AdapterInfo) throws(HostError)
}

/// The system's management interface, rfkill device and USB bus.
public struct SystemRecoveryTools: RecoveryTools {
  /// Time limit for switching an adapter on or off, in seconds. The kernel waits 2 s for each HCI command,
  /// and switching off takes several commands.
  private static let powerSeconds = 15
  private let root: String

  /// Creates the tools.
  ///
  /// - Parameter root: folder that contains `sys` and `dev`; empty for the system's own.
  public init(root: String = "") { self.root = root }

  public func adapters() -> [AdapterInfo] { (try? AdapterInfo.all()) ?? [] }

  public func setPowered(_ isOn: Bool, index: UInt16) throws(HostError) {
    let command = SetPowered(isOn)
    let parameters = [UInt8](encoding: 1) { command.encodeParameters(into: &$0) }
    let packet = [UInt8](encoding: ManagementPacket.headerByteCount + 1) {
      ManagementPacket(code: SetPowered.opcode.rawValue, index: index, parameters: parameters.span)
        .encode(into: &$0)
    }
    var status: ManagementStatus?
    do throws(SystemError) {
      try ManagementSocket.ask(packet.span, within: Self.powerSeconds) { octets in
        guard let packet = try? ManagementPacket(validating: octets), packet.index == index,
          [.commandComplete, .commandStatus].contains(ManagementEventCode(rawValue: packet.code)),
          let reply = try? ManagementReply(validating: packet.parameters), reply.opcode == SetPowered.opcode
        else { return false }
        status = reply.status
        return true
      }
    } catch {
      throw error.condition == .timedOut ? .managementTimedOut(SetPowered.opcode) : HostError(error)
    }
    switch status {
    case .success?: return
    case nil: throw .managementTimedOut(SetPowered.opcode)
    case .permissionDenied?:
      throw .notPermitted(action: "switching hci\(index) \(isOn ? "on" : "off")", capability: "CAP_NET_ADMIN")
    case let status?: throw .managementRefused(SetPowered.opcode, status)
    }
  }

  public func cycleSwitch(of adapter: AdapterInfo) throws(HostError) {
    let switches = AdapterSwitches(of: adapter.name, root: root)
    guard let number = switches.rfkillNumber else { throw .unsuitable("it has no rfkill switch") }
    guard !switches.isHardBlocked else { throw .unsuitable("a switch or key on the machine blocks it") }
    do throws(SystemError) { try switches.setBlocked(true, number: number) } catch { throw HostError(error) }
    do throws(SystemError) { try switches.setBlocked(false, number: number) } catch {
      throw .unsuitable(
        "it is blocked now, because unblocking failed: \(error); type `rfkill unblock \(number)`")
    }
  }

  public func reauthorise(_ adapter: AdapterInfo) throws(HostError) {
    guard let path = AdapterSwitches(of: adapter.name, root: root).authorisation else {
      throw .unsuitable("it is not on USB")
    }
    do throws(SystemError) { try AdapterSwitches.setAuthorised(false, at: path) } catch {
      throw HostError(error)
    }
    do throws(SystemError) { try AdapterSwitches.setAuthorised(true, at: path) } catch {
      throw .unsuitable(
        "its USB device is not authorised now, because restoring it failed: \(error); type "
          + "`echo 1 | sudo tee \(path)`")
    }
  }
}

/// Recovers an adapter whose controller does not respond to commands. Performs the steps in order until the
/// controller responds.
public struct AdapterRecovery: Sendable {
  /// Use of the adapter, and the state that the use requires.
  public enum Use: Hashable, Sendable {
    /// Up, shared with the kernel's host.
    case shared
    /// Down, because a program can open the user channel only of an adapter that is down.
    case exclusive
  }

  /// Time limit for a step.
  private static let stepLimit = Duration.seconds(40)
  /// Time limit for an adapter to come back after a step.
  private static let returnLimit = Duration.seconds(10)
  private static let returnPoll = Duration.milliseconds(100)

  /// The adapter's address; its index if it has no address. The index may change during the recovery.
  public let adapter: AdapterName
  public let use: Use
  private let tools: any RecoveryTools
  private let clock: LoopClock

  /// Creates a recovery.
  ///
  /// - Parameters:
  ///   - adapter: the adapter as last seen.
  ///   - use: use of the adapter.
  ///   - tools: perform the steps.
  ///   - clock: measures the duration of the recovery.
  public init(
    of adapter: AdapterInfo, for use: Use, with tools: any RecoveryTools = SystemRecoveryTools(),
    clock: LoopClock = .system
  ) {
    self.adapter = adapter.address == .any ? .index(adapter.index) : .address(adapter.address)
    (self.use, self.tools, self.clock) = (use, tools, clock)
  }

  /// Performs the steps in order until the controller responds or the task is cancelled.
  ///
  /// - Parameters:
  ///   - first: the step to begin with.
  ///   - told: called after each step.
  ///   - answers: returns whether the controller responds.
  /// - Returns: the attempted steps. If the adapter recovered, the last step has the outcome `answers`.
  public func climb(
    from first: RecoveryStep = .reopen, told: (RecoveryAttempt) -> Void = { _ in },
    _ answers: () async -> Bool
  ) async -> [RecoveryAttempt] {
    let begunAt = clock.monotonic()
    var attempts: [RecoveryAttempt] = []
    for step in RecoveryStep.allCases where step.rawValue >= first.rawValue && !Task.isCancelled {
      let outcome: RecoveryAttempt.Outcome
      do throws(HostError) {
        try await take(step)
        outcome = await answers() ? .answers : .silent
      } catch {
        if error.isOfSilence {
          // A step that failed halfway may have recovered the controller.
          outcome = await answers() ? .answers : .silent
        } else {
          outcome = .impossible("\(error)")
        }
      }
      attempts.append(
        RecoveryAttempt(step, outcome, after: begunAt.duration(to: clock.monotonic())))
      told(attempts[attempts.count - 1])
      if outcome == .answers { break }
    }
    return attempts
  }

  private func take(_ step: RecoveryStep) async throws(HostError) {
    guard step != .reopen else { return }
    let (tools, use) = (tools, use)
    let info = try adapter.find(among: tools.adapters())
    try await Self.apart { () throws(HostError) in
      switch step {
      case .reopen: break
      case .powerCycle:
        let states = use == .shared ? [false, true] : [true, false]
        // If the controller does not respond, the first switch may fail. Try the second in any case.
        var failure: HostError?
        for isOn in states {
          do throws(HostError) { try tools.setPowered(isOn, index: info.index) } catch {
            failure = failure ?? error
          }
        }
        if let failure { throw failure }
      case .rfkill: try tools.cycleSwitch(of: info)
      case .reauthorise: try tools.reauthorise(info)
      }
    }
    switch (use, step) {
    case (.shared, .rfkill): try await Self.switchOn(try adapter.find(among: tools.adapters()), with: tools)
    case (.shared, .reauthorise): try await comeBack(true)
    case (.exclusive, .reauthorise): try await comeBack(false)
    default: break
    }
  }

  /// Waits until the adapter is present again. If `isOn`, also switches it on, and retries because a
  /// controller may refuse while its firmware is being loaded.
  private func comeBack(_ isOn: Bool) async throws(HostError) {
    let end = clock.monotonic().advanced(by: Self.returnLimit)
    while true {
      do throws(HostError) {
        let found = try adapter.find(among: tools.adapters())
        return isOn ? try await Self.switchOn(found, with: tools) : ()
      } catch {
        switch error {
        case .noAdapter, .managementRefused: break
        default: throw error
        }
        guard clock.monotonic() < end, (try? await Task.sleep(for: Self.returnPoll)) != nil else {
          throw error
        }
      }
    }
  }

  /// Switches an adapter on, or keeps it on if the kernel has switched it on only temporarily.
  ///
  /// - Throws: `notPermitted` without CAP_NET_ADMIN; the kernel's refusal.
  public static func switchOn(
    _ adapter: AdapterInfo, with tools: any RecoveryTools = SystemRecoveryTools()
  ) async throws(HostError) {
    try await apart { () throws(HostError) in try tools.setPowered(true, index: adapter.index) }
  }

  /// Runs `body`, which blocks, on a separate thread, and waits at most for `stepLimit`.
  private static func apart(
    _ body: @escaping @Sendable () throws(HostError) -> Void
  ) async throws(HostError) {
    let result = OneShot<Result<Void, HostError>>()
    do throws(SystemError) {
      try SystemThread.start(named: "ringtap-recover", as: .patient) {
        do throws(HostError) {
          try body()
          result.set(.success(()))
        } catch { result.set(.failure(error)) }
      }
    } catch { throw HostError(error) }
    let limit = Task {
      guard (try? await Task.sleep(for: stepLimit)) != nil else { return }
      result.set(.failure(.unsuitable("the kernel has not done it within \(stepLimit.components.seconds) s")))
    }
    defer { limit.cancel() }
    try await result.get()
  }
}

extension HostError {
  /// Whether the error means that a controller in exclusive mode does not respond or keeps failing.
  package var isOfSilentController: Bool {
    guard case .controller(_, let failure) = self else { return false }
    return switch failure {
    case .commandTimedOut, .hardwareError, .restarted, .unaskedReset: true
    default: false
    }
  }

  /// Whether the error means that the kernel performed the step but the controller did not respond.
  var isOfSilence: Bool {
    switch self {
    case .managementRefused(_, let status): status != .blocked
    case .managementTimedOut: true
    default: false
    }
  }
}

extension ManagementStatus {
  /// `MGMT_STATUS_RFKILLED`: `mgmt-api.txt`, "Error Codes".
  fileprivate static let blocked = ManagementStatus(rawValue: 0x12)
}

public import BLELinux
import BLEStack
import BLEWire
import Synchronization

/// Watches an adapter that is shared with the kernel's host. The watch sends a command to the controller
/// every few seconds, recovers the controller if it does not respond, and switches the adapter on if it comes
/// back powered down.
///
/// Sending the command requires CAP_NET_RAW; `RecoveryStep` lists the rights that the steps require. Sessions
/// keep trying to connect during a recovery, and continue when the controller responds again.
public actor AdapterWatch {
  /// State of the watched adapter.
  public enum State: Hashable, Sendable {
    case answers
    /// The adapter was removed or unplugged.
    case absent
    /// The adapter is powered down.
    case off
    case recovering
    /// All steps have failed. The watch repeats them after a pause.
    case failed
  }

  /// Interval between two commands to the controller.
  private static let interval = Duration.seconds(5)
  /// Interval between two checks of an adapter that is absent or powered down.
  private static let intervalOfAbsence = Duration.seconds(1)
  /// Pause after a failed recovery, from the first to the longest. The pause doubles after each failure.
  private static let pauses = Duration.seconds(60)...Duration.seconds(600)

  /// State of the adapter, and its successful recoveries.
  public struct Facts: Hashable, Sendable {
    public var state = State.answers
    public var recoveries = 0
    /// Duration of the last successful recovery.
    public var lastRecovery: Duration?

    public init(state: State = .answers, recoveries: Int = 0, lastRecovery: Duration? = nil) {
      (self.state, self.recoveries, self.lastRecovery) = (state, recoveries, lastRecovery)
    }
  }

  private let adapter: any Adapter
  private let name: AdapterName
  private let tools: any RecoveryTools
  private let note: @Sendable (String) -> Void
  private let changed: @Sendable (State) -> Void
  public nonisolated var unownedExecutor: UnownedSerialExecutor { adapter.loop.executor }

  private nonisolated let shared = Mutex(Facts())
  private var last: AdapterInfo
  private var pause = pauses.lowerBound
  private var notBefore: MonotonicTime?
  /// Whether the adapter has just appeared and must be switched on. The kernel switches a new adapter on to
  /// read its properties, and off again after 2 s unless a program requests otherwise.
  private var isNew = true
  /// Number of checks since the adapter appeared that found it on.
  private var looksWhileOn = 0
  private var removals: AdapterRemovals?
  /// The last message about an absent adapter or one that is off.
  private var said = ""
  /// The outcomes of steps that were reported since the adapter last responded.
  private var saidBefore: Set<String> = []

  /// Creates a watch.
  ///
  /// - Parameters:
  ///   - adapter: the adapter to watch.
  ///   - tools: perform the steps.
  ///   - note: receives a line for each event, on the receive thread.
  ///   - changed: receives each new state.
  /// - Returns: `nil` if the adapter is not shared with the kernel's host.
  public init?(
    _ adapter: any Adapter, with tools: any RecoveryTools = SystemRecoveryTools(),
    note: @escaping @Sendable (String) -> Void, changed: @escaping @Sendable (State) -> Void = { _ in }
  ) {
    guard let info = adapter.kernelInfo else { return nil }
    (self.adapter, self.tools, self.note, self.changed) = (adapter, tools, note, changed)
    last = info
    name = info.address == .any ? .index(info.index) : .address(info.address)
  }

  public nonisolated var facts: Facts { shared.withLock { $0 } }

  /// Watches until the task is cancelled.
  public func run() async {
    guard ProcessFacts.has(.netRaw) else {
      return note(
        "\(last.name) is not watched for failures: that needs CAP_NET_RAW")
    }
    removals = try? AdapterRemovals()
    defer { removals = nil }
    while !Task.isCancelled {
      if removals?.take(of: last.index) == true { (isNew, looksWhileOn) = (true, 0) }
      await look()
      let pause = [.absent, .off].contains(facts.state) ? Self.intervalOfAbsence : Self.interval
      guard (try? await adapter.loop.wait(for: pause)) != nil else { return }
    }
  }

  private func look() async {
    guard let now = try? name.find(among: tools.adapters()) else {
      (isNew, looksWhileOn) = (true, 0)
      return tell(.absent, "\(last.name) was removed; continuing when \(name) comes back")
    }
    last = now
    if isNew {
      guard await switchOn(now) else { return }
    } else if !now.isUp, facts.state != .failed {
      // In the state `failed`, the recovery's last step may have left the adapter off.
      return tell(
        .off,
        "\(now.name) was switched off; continuing when it is on again: `sudo btmgmt --index \(now.index) "
          + "power on`")
    }
    if now.isUp || facts.state != .failed {
      if await answers() || Task.isCancelled { return answered() }
      // The first command may have waited behind a slow command of the kernel.
      if await answers() || Task.isCancelled { return answered() }
    }
    if let notBefore, adapter.loop.clock.monotonic() < notBefore, !isNew { return }
    isNew = false
    await recover(now)
  }

  private func answered() {
    looksWhileOn += 1
    if looksWhileOn > 1 { isNew = false }
    guard facts.state != .answers else { return }
    (pause, notBefore, said, saidBefore) = (Self.pauses.lowerBound, nil, "", [])
    set(.answers)
    note("\(last.name) answers")
  }

  /// Switches a new adapter on.
  ///
  /// - Returns: whether to go on and send a command to the controller.
  private func switchOn(_ info: AdapterInfo) async -> Bool {
    do throws(HostError) {
      try await AdapterRecovery.switchOn(info, with: tools)
      isNew = false
      if !info.isUp { note("\(info.name) came back switched off, and was switched on") }
      return true
    } catch {
      // A controller that does not respond is recovered by the caller.
      if info.isUp || error.isOfSilence { return true }
      tell(
        .off,
        "\(info.name) is switched off, and cannot be switched on: \(error); type `sudo btmgmt --index "
          + "\(info.index) power on`")
      return false
    }
  }

  /// Returns whether the controller responds to a request for its address. Opens a separate channel.
  private func answers() async -> Bool {
    guard let info = try? name.find(among: tools.adapters()), info.isUp else { return false }
    do throws(HostError) {
      let channel = try await RawChannel.open(info, on: adapter.loop) { _ in }
      let answer: HostError?
      do throws(HostError) {
        try await channel.command(ReadBDADDR())
        answer = nil
      } catch { answer = error }
      await channel.close()
      if let answer { throw answer }
      return true
    } catch {
      // An error status is a response, too.
      if case .commandRefused = error { return true }
      return false
    }
  }

  private func recover(_ info: AdapterInfo) async {
    let isRepeated = facts.state == .failed
    set(.recovering)
    if !isRepeated { note("\(info.name) (\(info.address)) does not answer commands; recovering it") }
    let recovery = AdapterRecovery(of: info, for: .shared, with: tools)
    let attempts = await recovery.climb { attempt in
      let text = "\(info.name): \(attempt)"
      // A repeated recovery reports only new outcomes.
      if attempt.outcome == .answers || saidBefore.insert("\(attempt.step) \(attempt.outcome)").inserted {
        note(text)
      }
    } _: {
      await answers()
    }
    guard let end = attempts.last, end.outcome == .answers else {
      if Task.isCancelled { return }
      notBefore = adapter.loop.clock.monotonic().advanced(by: pause)
      set(.failed)
      if !isRepeated {
        note(
          "\(info.name) could not be recovered: unplug it and plug it in again, or restart the machine; "
            + "trying again in \(pause.components.seconds) s, and less often later")
      }
      pause = min(pause * 2, Self.pauses.upperBound)
      return
    }
    (pause, notBefore, said, saidBefore) = (Self.pauses.lowerBound, nil, "", [])
    shared.withLock { facts in
      facts.recoveries += 1
      facts.lastRecovery = end.elapsed
    }
    set(.answers)
  }

  private func tell(_ state: State, _ text: String) {
    set(state)
    if text != said { note(text) }
    said = text
  }

  private func set(_ state: State) {
    let isNew = shared.withLock { facts in
      defer { facts.state = state }
      return facts.state != state
    }
    if isNew { changed(state) }
  }
}

extension Adapter {
  /// The kernel's description of an adapter that is shared with the kernel's host; `nil` for others.
  public nonisolated var kernelInfo: AdapterInfo? { (self as? KernelAdapter)?.info }
}

/// Detects whether an adapter was removed since the last check, even if it has come back under the same
/// index. Requires no capability.
private struct AdapterRemovals: ~Copyable {
  private static let packetByteCount = 1024
  private let descriptor: FileDescriptor

  init() throws(SystemError) { descriptor = try ManagementSocket.listen() }

  func take(of index: UInt16) -> Bool {
    var (packet, isRemoved) = ([UInt8](repeating: 0, count: Self.packetByteCount), false)
    while let count = try? descriptor.read(into: &packet), count > 0 {
      guard let event = try? ManagementPacket(validating: packet.span.extracting(..<count)) else { continue }
      if event.index == index, ManagementEventCode(rawValue: event.code) == .indexRemoved { isRemoved = true }
    }
    return isRemoved
  }
}

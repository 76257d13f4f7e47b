public import BLELinux
import BLEStack
import BLEWire
import Synchronization

/// Watches an adapter that is shared with the kernel's host: asks its controller for an answer every few
/// seconds, recovers it if there is none, and switches it on when it comes back powered down.
///
/// Needs CAP_NET_RAW to ask, and for the steps what `RecoveryStep` says. The watch works beside the adapter:
/// sessions keep trying to connect meanwhile, and continue once it answers.
public actor AdapterWatch {
  /// What the watch knows of its adapter.
  public enum State: Hashable, Sendable {
    case answers
    /// It was removed, or unplugged.
    case absent
    /// It is powered down.
    case off
    case recovering
    /// All steps have failed. They are taken again from time to time.
    case failed
  }

  /// Time between two questions.
  private static let interval = Duration.seconds(5)
  /// Time between two looks for an adapter that is absent or powered down.
  private static let intervalOfAbsence = Duration.seconds(1)
  /// Pause after a recovery that has failed. Doubles each time.
  private static let pauses = Duration.seconds(60)...Duration.seconds(600)

  /// State and number of recoveries that succeeded.
  public struct Facts: Hashable, Sendable {
    public var state = State.answers
    public var recoveries = 0
    /// Duration of the last recovery.
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
  /// Whether the adapter has just come, so that it is switched on. The kernel switches a new adapter on to
  /// read its properties, and off again after 2 s unless a program wants it on.
  private var isNew = true
  /// Number of looks since then that found it on.
  private var looksWhileOn = 0
  private var removals: AdapterRemovals?
  /// The last message about an adapter that is absent or off, and the failed steps that were reported.
  private var said = ""
  private var saidBefore: Set<String> = []

  /// - Parameters:
  ///   - adapter: the adapter, or a wrapper of it.
  ///   - tools: take the steps.
  ///   - note: receives a line for each event, on the receive thread.
  ///   - changed: receives each new state.
  /// - Returns: `nil` if the adapter is not one of the kernel's host.
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
      // The last step of a recovery that has failed may have left the adapter off.
      return tell(
        .off,
        "\(now.name) was switched off; continuing when it is on again: `sudo btmgmt --index \(now.index) "
          + "power on`")
    }
    if now.isUp || facts.state != .failed {
      if await answers() || Task.isCancelled { return answered() }
      // The first question may have waited for a slow command of the kernel's.
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
  /// - Returns: whether it is on.
  private func switchOn(_ info: AdapterInfo) async -> Bool {
    do throws(HostError) {
      try await AdapterRecovery.switchOn(info, with: tools)
      isNew = false
      if !info.isUp { note("\(info.name) came back switched off, and was switched on") }
      return true
    } catch {
      // A controller that does not answer is recovered.
      if info.isUp || error.isOfSilence { return true }
      tell(
        .off,
        "\(info.name) is switched off, and cannot be switched on: \(error); type `sudo btmgmt --index "
          + "\(info.index) power on`")
      return false
    }
  }

  /// Asks the controller for its address, on a channel of its own.
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
      // A refusal is an answer, too.
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

/// Tells whether an adapter was removed since the last look, even if it is back under the same index. Needs
/// no capability.
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

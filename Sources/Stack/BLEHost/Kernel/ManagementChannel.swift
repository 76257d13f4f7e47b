import BLELinux
import BLEStack
import BLEWire

/// The kernel's management interface to one adapter. Sends commands to the kernel's host, which `bluetoothd`
/// also uses, and receives its events.
///
/// Replies are matched by opcode and adapter. Other events are delivered while a command waits. Requires
/// CAP_NET_ADMIN.
actor ManagementChannel {
  /// Time limit for a reply. The kernel answers most commands at once. To start discovery, it first sends
  /// several commands to the controller.
  static let commandTimeout = Duration.seconds(5)
  /// Pause before a refused discovery is retried, unless an event shows that discovery can start earlier.
  static let retryPause = Duration.seconds(1)

  typealias Note = @Sendable (String) -> Void

  private struct PendingCommand {
    let opcode: ManagementOpcode
    let deadline: MonotonicTime
    /// Called when the reply arrives, before later packets are processed.
    let answer: (Result<[UInt8], HostError>) -> Void
  }

  nonisolated let name: String
  nonisolated let loop: EventLoop
  nonisolated var unownedExecutor: UnownedSerialExecutor { loop.executor }

  private let index: UInt16
  private let port: PacketPort
  private let note: Note
  private(set) var isOpen = false
  private var pending: [PendingCommand] = []
  private var keeper = DiscoveryKeeper()
  private var reportSink: Adapter.ReportSink?
  /// Result of starting a discovery, for the caller that started it.
  private var begun: OneShot<Result<Void, HostError>>?
  private let settling = Waiters()
  private var retryTime: MonotonicTime?
  private var hasTold = false
  private var lossHandler: (@Sendable () -> Void)?
  private var securityHandler: (@Sendable (ManagementSecurityEvent) -> Void)?
  /// Settings of the adapter when the channel was opened.
  private(set) var settings = ControllerSettings(bits: 0)
  /// Reason why the adapter can no longer be used.
  private var failure: HostError?
  /// Number of malformed events and reports.
  private(set) var malformed = 0

  /// Opens the management interface of an adapter and checks that it is powered.
  ///
  /// - Parameter note: receives messages for the user, one line each.
  /// - Throws: `notPermitted` without CAP_NET_ADMIN, `adapterDown`.
  static func open(
    _ info: AdapterInfo, on loop: EventLoop, _ note: @escaping Note
  ) async throws(HostError) -> ManagementChannel {
    guard ProcessFacts.has(.netAdmin) || InheritedSockets.has(.management) else {
      throw .notPermitted(action: "the kernel's management interface", capability: "CAP_NET_ADMIN")
    }
    let channel: ManagementChannel
    do throws(SystemError) {
      channel = try ManagementChannel(try ManagementSocket.open(), info.index, loop, note)
    } catch { throw HostError(error) }
    try await channel.start()
    return channel
  }

  /// Creates a channel from an open socket.
  static func adopt(
    _ descriptor: consuming FileDescriptor, index: UInt16, on loop: EventLoop, _ note: @escaping Note
  ) async throws(HostError) -> ManagementChannel {
    let channel: ManagementChannel
    do throws(SystemError) { channel = try ManagementChannel(descriptor, index, loop, note) } catch {
      throw HostError(error)
    }
    try await channel.start()
    return channel
  }

  private init(
    _ descriptor: consuming FileDescriptor, _ index: UInt16, _ loop: EventLoop, _ note: @escaping Note
  ) throws(SystemError) {
    name = "hci\(index)"
    self.index = index
    self.loop = loop
    self.note = note
    port = try PacketPort(descriptor, .datagrams, loop)
  }

  private func start() async throws(HostError) {
    let source = ActorSource {
      self.service($0)
    } deadline: {
      self.nextDeadline
    } expired: {
      self.expire($0)
    } stopped: {
      self.close()
    }
    do throws(SystemError) { try port.open(for: source) } catch { throw HostError(error) }
    isOpen = true
    let reply = try await command(ReadControllerInformation())
    do throws(WireError) { settings = try ControllerSettings(informationReply: reply.span) } catch {
      throw .malformedReply(error)
    }
    guard settings.isPowered else { throw .adapterDown(name) }
    guard settings.isLowEnergy else {
      throw .unsuitable("LE is switched off on \(name); switch it on with `btmgmt --index \(index) le on`")
    }
  }

  func onLost(_ body: @escaping @Sendable () -> Void) {
    if isOpen { lossHandler = body } else { body() }
  }

  /// Sets the handler of pairing events.
  ///
  /// - Parameter body: receives the kernel's events and questions about pairings with any device, on the
  ///   receive thread.
  func whenAsked(_ body: @escaping @Sendable (ManagementSecurityEvent) -> Void) { securityHandler = body }

  /// Closes the channel. The caller must stop a discovery first.
  func close() {
    lossHandler = nil
    securityHandler = nil
    release(.gatt(.closed(.closedLocally)))
  }

  // MARK: Commands

  /// Sends a command and waits for its Command Complete or Command Status.
  ///
  /// - Parameter limit: time limit for the kernel's reply.
  /// - Returns: Parameters of the reply.
  /// - Throws: `managementRefused`, `managementTimedOut`, `adapterDown`, `notPermitted`.
  @discardableResult
  func command(
    _ command: any ManagementCommand, within limit: Duration = ManagementChannel.commandTimeout
  ) async throws(HostError) -> [UInt8] {
    let answer = OneShot<Result<[UInt8], HostError>>()
    send(command, within: limit) { answer.set($0) }
    return try await answer.get()
  }

  private func send(
    _ command: any ManagementCommand, within limit: Duration = ManagementChannel.commandTimeout,
    _ answer: @escaping (Result<[UInt8], HostError>) -> Void
  ) {
    guard isOpen else { return answer(.failure(.adapterDown(name))) }
    let (opcode, byteCount) = (type(of: command).opcode, command.parameterByteCount)
    let parameters = [UInt8](encoding: byteCount) { command.encodeParameters(into: &$0) }
    let packet = [UInt8](encoding: ManagementPacket.headerByteCount + byteCount) {
      ManagementPacket(code: opcode.rawValue, index: index, parameters: parameters.span).encode(into: &$0)
    }
    do throws(SystemError) { try port.send(packet.span) } catch { return answer(.failure(HostError(error))) }
    let deadline = SystemClock.monotonic().advanced(by: limit)
    pending.append(PendingCommand(opcode: opcode, deadline: deadline, answer: answer))
  }

  private func complete(_ opcode: ManagementOpcode, _ result: Result<[UInt8], HostError>) {
    guard let index = pending.firstIndex(where: { $0.opcode == opcode }) else { return }
    pending.remove(at: index).answer(result)
  }

  // MARK: Discovery

  /// Starts discovery and passes each report to `sink` on the receive thread. While another program's
  /// discovery is active, delivers the results of that discovery. Our discovery starts when the other ends.
  func startDiscovery(_ sink: @escaping Adapter.ReportSink) async throws(HostError) {
    guard reportSink == nil, begun == nil else { throw .scanBusy(holder: "this program") }
    reportSink = sink
    hasTold = false
    let begun = OneShot<Result<Void, HostError>>()
    self.begun = begun
    take(keeper.begin())
    try await begun.get()
  }

  /// Stops our discovery and waits for the kernel's confirmation. Does not stop another program's discovery.
  func stopDiscovery() async throws(HostError) {
    // A queued event may report that our discovery has already ended.
    if isOpen { receive() }
    reportSink = nil
    let isOurs = keeper.end() == .stop
    retryTime = nil
    if let failure { throw failure }
    if keeper.state == .starting { await settling.wait { isSettled } }
    guard isOurs else { return }
    do throws(HostError) {
      try await command(StopDiscovery())
    } catch {
      // The discovery had already ended, for example because the adapter was removed.
      switch error {
      case .managementRefused(_, .rejected), .adapterDown: return
      default: throw error
      }
    }
  }

  private func take(_ step: DiscoveryKeeper.Step) {
    switch step {
    case .nothing: break
    case .start: send(StartDiscovery()) { self.answerStart($0) }
    case .stop: send(StopDiscovery()) { _ in self.settling.wakeAll() }
    }
  }

  private func answerStart(_ result: Result<[UInt8], HostError>) {
    retryTime = nil
    var outcome: Result<Void, HostError> = .success(())
    switch result {
    case .success: take(keeper.answered(.started))
    case .failure(let error):
      take(keeper.answered(.refused))
      if case .managementRefused(_, .busy) = error {
        let holder = HostError.daemon ?? "another program"
        tell(
          "\(holder) already runs discovery on \(name); using its results, each device about once in 10 s"
        )
      } else if begun == nil {
        tell("discovery on \(name) is interrupted: \(error)")
      } else {
        _ = keeper.end()
        reportSink = nil
        outcome = .failure(error)
      }
    }
    if keeper.state == .waiting { retryTime = SystemClock.monotonic().advanced(by: Self.retryPause) }
    begun.take()?.set(outcome)
    settling.wakeAll()
  }

  /// Whether the kernel has replied to the start command and to a stop command after it.
  private var isSettled: Bool {
    !isOpen || keeper.state != .starting && pending.allSatisfy { $0.opcode != .stopDiscovery }
  }

  /// Reports a message once per scan; otherwise each retry would repeat it.
  private func tell(_ text: String) {
    guard !hasTold, reportSink != nil else { return }
    hasTold = true
    note(text)
  }

  // MARK: The receive thread

  private var nextDeadline: MonotonicTime? {
    let commands = pending.lazy.map(\.deadline).min()
    guard let retryTime else { return commands }
    return commands.map { min($0, retryTime) } ?? retryTime
  }

  private func expire(_ now: MonotonicTime) {
    for command in pending where command.deadline <= now {
      complete(command.opcode, .failure(.managementTimedOut(command.opcode)))
    }
    if let retryTime, retryTime <= now {
      self.retryTime = nil
      take(keeper.retry())
    }
  }

  private func service(_ readiness: Readiness) {
    do throws(SystemError) {
      if !readiness.isDisjoint(with: .writable) { try port.flush() }
    } catch { return release(HostError(error)) }
    if !readiness.isDisjoint(with: .incoming) { receive() }
  }

  private func receive() {
    do throws(SystemError) {
      let isThere = try port.drain { packet, time, _ in
        do throws(WireError) { try take(packet, time) } catch { malformed += 1 }
      }
      if !isThere { release(.adapterDown(name)) }
    } catch { release(HostError(error)) }
  }

  private func take(_ octets: Span<UInt8>, _ time: ReceiveTime) throws(WireError) {
    let packet = try ManagementPacket(validating: octets)
    guard packet.index == index else { return }
    let code = ManagementEventCode(rawValue: packet.code)
    switch code {
    case .commandComplete, .commandStatus:
      let reply = try ManagementReply(validating: packet.parameters)
      complete(reply.opcode, result(of: reply))
    case .discovering:
      if try !Discovering(validating: packet.parameters).isOn { take(keeper.ended()) }
    case .indexRemoved: release(.adapterDown(name))
    case .deviceFound where reportSink != nil:
      let found = try DeviceFound(validating: packet.parameters)
      if found.isLowEnergy { reportSink?(found.report, time) }
    default:
      guard let securityHandler, let event = try ManagementSecurityEvent(code, packet.parameters) else {
        return
      }
      securityHandler(event)
    }
  }

  private func result(of reply: borrowing ManagementReply) -> Result<[UInt8], HostError> {
    switch reply.status {
    case .success: .success([UInt8](encoding: reply.parameters.count) { $0.append(reply.parameters) })
    case .notPowered, .invalidIndex: .failure(.adapterDown(name))
    case .permissionDenied:
      .failure(.notPermitted(action: "the kernel's management interface", capability: "CAP_NET_ADMIN"))
    default: .failure(.managementRefused(reply.opcode, reply.status))
    }
  }

  private func release(_ error: HostError) {
    guard isOpen else { return }
    isOpen = false
    failure = error
    port.close()
    let left = pending
    pending = []
    for command in left { command.answer(.failure(error)) }
    retryTime = nil
    settling.wakeAll()
    lossHandler.take()?()
  }
}

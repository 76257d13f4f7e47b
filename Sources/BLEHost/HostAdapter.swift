public import BLECore
public import BLEStack
public import BLESystem
public import BLEWire

/// A controller that is ours alone, with our own host above it: the `exclusive` mode.
///
/// The actor lives on an event loop; packets, commands, links and their connections share its thread.
public actor HostAdapter: Adapter {
  private typealias Answer = CheckedContinuation<Result<[UInt8], HostError>, Never>

  /// A connect that is under way. The controller makes one link at a time.
  private struct Attempt {
    let peer: DeviceAddress
    let tap: PacketTap?
    let seconds: Int
    var deadline: MonotonicTime?
    var isCancelling = false
    /// The link may be there before anybody waits for it.
    var outcome: Result<Connection, HostError>?
    var waiter: CheckedContinuation<Result<Connection, HostError>, Never>?
  }

  /// ATT PDUs that came with the event that announces their link.
  private struct EarlyPDU {
    let handle: ConnectionHandle
    let octets: [UInt8]
    let time: ReceiveTime
  }

  /// How long links may take to end before the controller is let go all the same.
  private static let closePatience = Duration.seconds(1)
  /// How long a controller may take to confirm that it gave a connect up.
  private static let cancelPatience = Duration.seconds(2)
  /// Fragments that may wait for the controller's buffers on one link.
  private static let fragmentLimit = 64

  public nonisolated let name: String
  public nonisolated let loop: EventLoop
  public nonisolated var unownedExecutor: UnownedSerialExecutor { loop.executor }

  private let port: PacketPort
  private var framer = H4Framer(from: .controllerToHost)
  private var host = HCIHost()
  private var starting: CheckedContinuation<Result<Void, HostError>, Never>?
  private var answers: [CommandID: Answer] = [:]
  private var attempt: Attempt?
  private var carriers: [ConnectionHandle: HostCarrier] = [:]
  private var early: [EarlyPDU] = []
  private var reportSink: ReportSink?
  private var isReceiving = false
  /// PDUs and ends of links that connections asked for while a packet was being received.
  private var deferred: [(handle: ConnectionHandle, pdu: [UInt8])] = []
  private var ending: [ConnectionHandle] = []
  private var ownAddress: DeviceAddress?
  private var failure: HostError?
  private var closing: CheckedContinuation<Void, Never>?
  private var closeDeadline: MonotonicTime?

  public nonisolated let mode = "exclusive"

  /// Takes a controller over: resets it and brings it up.
  ///
  /// - Throws: `adapterBusy`, `controller`, `notPermitted`, or what the system says of the port.
  public static func open(
    _ transport: TransportSpecification, on loop: EventLoop
  ) async throws(HostError) -> HostAdapter {
    let name = transport.description
    switch transport {
    case .hciSocket(let index):
      return try await open(.datagrams, name, loop) { () throws(SystemError) in
        try ControllerPort.userChannel(index: index)
      }
    case .serial(let path, let baud, let hardwareFlow):
      return try await open(.stream, name, loop) { () throws(SystemError) in
        try ControllerPort.serial(path: path, baud: baud, flow: hardwareFlow ? .hardware : .none)
      }
    case .tcpClient(let host, let port):
      return try await open(.stream, name, loop) { () throws(SystemError) in
        try ControllerPort.tcp(host: host, port: port)
      }
    case .unix(let path):
      return try await open(.stream, name, loop) { () throws(SystemError) in
        try ControllerPort.unix(path: path)
      }
    case .tcpServer, .pseudoTerminal:
      throw .unsuitable("\(name): wait for the peer first, then take the stream over")
    case .virtual: throw .unsuitable("\(name): virtual peripherals are attached by whoever emulates them")
    }
  }

  private static func open(
    _ framing: PacketPort.Framing, _ name: String, _ loop: EventLoop,
    _ port: () throws(SystemError) -> FileDescriptor
  ) async throws(HostError) -> HostAdapter {
    let adapter: HostAdapter
    do throws(SystemError) { adapter = try HostAdapter(try port(), framing, name, loop) } catch {
      throw HostError(opening: name, error)
    }
    try await adapter.start()
    return adapter
  }

  /// Takes over an open descriptor.
  package static func open(
    _ descriptor: consuming FileDescriptor, _ framing: PacketPort.Framing, name: String,
    on loop: EventLoop
  ) async throws(HostError) -> HostAdapter {
    let adapter: HostAdapter
    do throws(SystemError) { adapter = try HostAdapter(descriptor, framing, name, loop) } catch {
      throw HostError(error)
    }
    try await adapter.start()
    return adapter
  }

  private init(
    _ descriptor: consuming FileDescriptor, _ framing: PacketPort.Framing, _ name: String,
    _ loop: EventLoop
  ) throws(SystemError) {
    self.name = name
    self.loop = loop
    port = try PacketPort(descriptor, framing, loop)
  }

  private func start() async throws(HostError) {
    let source = ActorSource {
      self.service($0)
    } deadline: {
      self.nextDeadline
    } expired: {
      self.expire($0)
    } stopped: {
      self.host.lose()
      self.settle()
    }
    do throws(SystemError) { try port.open(for: source) } catch { throw HostError(error) }
    let result = await withCheckedContinuation { continuation in
      starting = continuation
      host.start()
      pump()
    }
    try result.get()
    if controller.address.bits == 0 { try await command(LESetRandomAddress(takeRandomAddress())) }
  }

  /// A static address of our own, for a controller that has no public one. Core 5.4, Vol 6, Part B, 1.3.2.1.
  private func takeRandomAddress() -> DeviceAddress {
    // Two bits are set by definition; of the other 46 neither all nor none may be.
    let address = DeviceAddress(bits: UInt64.random(in: 1..<1 << 46 - 1) | 3 << 46, type: .random)
    ownAddress = address
    return address
  }

  /// Under which this host scans and connects: the controller's public address, or a random static one.
  public var address: DeviceAddress { ownAddress ?? controller.address }

  /// What the controller is.
  public var controller: ControllerDescription { host.controller }

  /// Packets that broke the format.
  public var malformed: Int { host.malformed }

  /// Ends every link and lets the controller go.
  public func close() async {
    for carrier in carriers.values { carrier.client?.ended(.closedLocally) }
    await stopScanQuietly()
    if failure == nil, host.linkCount > 0 {
      closeDeadline = SystemClock.monotonic().advanced(by: Self.closePatience)
      await withCheckedContinuation { closing = $0 }
    }
    host.lose()
    settle()
    port.close()
  }

  // MARK: Commands

  /// Sends a command and waits for its Command Complete or Command Status.
  ///
  /// - Returns: the return parameters after the status octet.
  @discardableResult
  public func command(_ command: some HCICommand) async throws(HostError) -> [UInt8] {
    if let failure { throw failure }
    guard let id = host.submit(command) else {
      throw .commandRefused(type(of: command).opcode, .commandDisallowed)
    }
    let result = await withCheckedContinuation { answer in
      answers[id] = answer
      opcodes[id] = type(of: command).opcode
      pump()
    }
    return try result.get()
  }

  private var opcodes: [CommandID: HCIOpcode] = [:]

  // MARK: Scanning

  public func startScan(
    _ kind: ScanKind, timing: ScanTiming, duplicates: DuplicateFilter,
    _ sink: @escaping ReportSink
  ) async throws(HostError) {
    precondition(reportSink == nil, "one scan at a time")
    reportSink = sink
    do throws(HostError) {
      if controller.usesExtendedCommands {
        try await command(LESetExtendedScanParameters(kind: kind, timing: timing, ownType: address.type))
        try await command(LESetExtendedScanEnable(duplicates))
      } else {
        try await command(LESetScanParameters(kind: kind, timing: timing, ownType: address.type))
        try await command(LESetScanEnable(duplicates))
      }
    } catch {
      reportSink = nil
      throw error
    }
  }

  public func stopScan() async throws(HostError) {
    guard reportSink != nil else { return }
    reportSink = nil
    if controller.usesExtendedCommands {
      try await command(LESetExtendedScanEnable(nil))
    } else {
      try await command(LESetScanEnable(nil))
    }
  }

  private func stopScanQuietly() async {
    do throws(HostError) { try await stopScan() } catch {
      // The controller is let go of right after: it will be reset by whoever takes it next.
    }
  }

  // MARK: Links

  public func connect(
    to peer: DeviceAddress, timeout: Duration, tap: PacketTap?
  ) async throws(HostError) -> Connection {
    guard attempt == nil else { throw .scanBusy(holder: "this program") }
    attempt = Attempt(peer: peer, tap: tap, seconds: Int(timeout.components.seconds))
    do throws(HostError) { try await createConnection(peer) } catch {
      attempt = nil
      throw error
    }
    attempt?.deadline = SystemClock.monotonic().advanced(by: timeout)
    let result = await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        if let outcome = attempt?.outcome {
          attempt = nil
          continuation.resume(returning: outcome)
        } else {
          attempt?.waiter = continuation
          if Task.isCancelled { giveUp() }
        }
      }
    } onCancel: {
      Task { await self.giveUp() }
    }
    return try result.get()
  }

  private func createConnection(_ peer: DeviceAddress) async throws(HostError) {
    let parameters = LinkParameterRange.default
    if controller.usesExtendedCommands {
      try await command(LEExtendedCreateConnection(to: peer, ownType: address.type, parameters: parameters))
    } else {
      try await command(LECreateConnection(to: peer, ownType: address.type, parameters: parameters))
    }
  }

  private func giveUp() { attempt?.deadline = SystemClock.monotonic() }

  /// Sends an ATT PDU of a connection. Called on the loop's thread.
  ///
  /// While a packet is being received the host is at work: what a connection answers then waits for its end.
  func send(_ pdu: Span<UInt8>, on handle: ConnectionHandle) -> SendResult {
    guard carriers[handle] != nil else { return .gone }
    if isReceiving {
      guard deferred.count < Self.fragmentLimit else { return .full }
      deferred.append((handle, [UInt8](encoding: pdu.count) { $0.append(pdu) }))
      return .sent
    }
    guard host.waitingFragments(handle) < Self.fragmentLimit else { return .full }
    let isThere = host.send(pdu, on: handle)
    pump()
    return isThere ? .sent : .gone
  }

  enum SendResult: Sendable {
    case sent
    /// Too much waits for the controller; the connection is told when there is room.
    case full
    case gone
  }

  /// Packets that the transport's queue in the kernel dropped.
  var transportDrops: Int { port.kernelQueueDrops }

  /// Ends a link.
  func disconnect(_ handle: ConnectionHandle) {
    guard carriers.removeValue(forKey: handle) != nil else { return }
    ending.append(handle)
    if !isReceiving { settle() }
  }

  // MARK: The receive thread

  private var nextDeadline: MonotonicTime? {
    var earliest = host.deadline
    func consider(_ deadline: MonotonicTime?) {
      if let deadline, earliest.map({ deadline < $0 }) ?? true { earliest = deadline }
    }
    consider(attempt?.deadline)
    consider(closeDeadline)
    for carrier in carriers.values { consider(carrier.client?.deadline()) }
    return earliest
  }

  private func service(_ readiness: Readiness) {
    do throws(SystemError) {
      if !readiness.isDisjoint(with: .writable) { try port.flush() }
      let isOpen = try port.drain { octets, time, stamp in
        if port.framing == .datagrams {
          take(octets, time, stamp)
        } else {
          framer.receive(octets) { take($0, time, stamp) }
        }
      }
      if !isOpen { host.lose() }
    } catch { host.lose() }
    settle()
    for (handle, carrier) in carriers {
      carrier.client?.batchEnded()
      if host.waitingFragments(handle) == 0 { carrier.client?.writable() }
    }
  }

  private func take(_ packet: Span<UInt8>, _ time: ReceiveTime, _ stamp: PacketPort.Stamp) {
    isReceiving = true
    do throws(WireError) {
      try host.receive(packet, now: SystemClock.monotonic()) { report in
        reportSink?(report, time)
      } attribute: { handle, pdu in
        if let client = carriers[handle]?.client {
          client.received(pdu, time, stamp)
        } else {
          early.append(
            EarlyPDU(handle: handle, octets: [UInt8](encoding: pdu.count) { $0.append(pdu) }, time: time))
        }
      }
    } catch {
      // Counted by the host; the next packet is as good as any.
    }
    isReceiving = false
    settle()
  }

  private func expire(_ now: MonotonicTime) {
    host.expire(now: now)
    for carrier in carriers.values { carrier.client?.expired(now) }
    if let attempt, let deadline = attempt.deadline, deadline <= now {
      if attempt.isCancelling {
        finishAttempt(.failure(.commandTimedOut(.leCreateConnectionCancel)))
      } else {
        self.attempt?.isCancelling = true
        self.attempt?.deadline = now.advanced(by: Self.cancelPatience)
        _ = host.submit(LECreateConnectionCancel())
      }
    }
    settle()
  }

  /// Handles what has happened and writes what has come of it.
  private func settle() {
    for event in host.takeEvents() { handle(event) }
    // Whoever could have claimed them has: the rest belongs to links that nobody holds.
    early.removeAll(keepingCapacity: true)
    for (handle, pdu) in deferred { _ = host.send(pdu.span, on: handle) }
    deferred.removeAll(keepingCapacity: true)
    for handle in ending { _ = host.submit(Disconnect(handle)) }
    ending.removeAll(keepingCapacity: true)
    pump()
    if let waiter = closing,
      host.linkCount == 0 || closeDeadline.map({ $0 <= SystemClock.monotonic() }) ?? true
    {
      closing = nil
      closeDeadline = nil
      waiter.resume()
    }
  }

  private func pump() {
    let now = SystemClock.monotonic()
    do throws(SystemError) {
      while let packet = host.nextPacket(now: now) { try port.send(packet.span) }
    } catch { host.lose() }
  }

  private func handle(_ event: HCIHostEvent) {
    switch event {
    case .ready: finishStart(.success(()))
    case .answered(let id, let status, let returned):
      let opcode = opcodes.removeValue(forKey: id) ?? HCIOpcode(rawValue: 0)
      answers.removeValue(forKey: id)?.resume(
        returning: status == .success ? .success(returned) : .failure(.commandRefused(opcode, status)))
    case .connected(let description): connected(description)
    case .connectFailed(let status): connectFailed(status)
    case .parametersChanged(let handle, let parameters):
      carriers[handle]?.client?.timed(parameters, SystemClock.now())
    case .dataLengthChanged, .phyChanged, .parametersUnchanged, .phyUnchanged, .remoteFeatures,
      .remoteVersion, .channel:
      break
    case .disconnected(let handle, let reason):
      carriers.removeValue(forKey: handle)?.client?.ended(.linkLost(LinkLoss(reason)))
    case .failed(let cause): failed(HostError.controller(name, cause))
    }
  }

  private func connected(_ description: LinkDescription) {
    guard let attempt else {
      // A link that nobody waits for any more.
      _ = host.submit(Disconnect(description.handle))
      return
    }
    let carrier = HostCarrier(self, description.handle)
    let connection = Connection(
      carrier, peer: attempt.peer, handle: description.handle, on: loop, tap: attempt.tap)
    carriers[description.handle] = carrier
    // Attaching to a link of our own cannot fail.
    connection.assumeIsolated { try? $0.attach() }
    carrier.client?.timed(description.parameters, SystemClock.now())
    for pdu in early where pdu.handle == description.handle {
      carrier.client?.received(pdu.octets.span, pdu.time, .kernel)
    }
    finishAttempt(.success(connection))
  }

  private func connectFailed(_ status: HCIStatus) {
    guard let attempt else { return }
    // 0x02 is the controller's word for a connect that was cancelled. Core 5.4, Vol 4, Part E, 7.8.13.
    let isOurs = attempt.isCancelling && status == .unknownConnection
    finishAttempt(
      .failure(
        isOurs
          ? .noAnswer(attempt.peer, seconds: attempt.seconds)
          : .linkFailed(attempt.peer, status)))
  }

  private func finishAttempt(_ result: Result<Connection, HostError>) {
    guard let waiter = attempt?.waiter else {
      attempt?.outcome = result
      return
    }
    attempt = nil
    waiter.resume(returning: result)
  }

  private func finishStart(_ result: Result<Void, HostError>) {
    let waiting = starting
    starting = nil
    waiting?.resume(returning: result)
  }

  private func failed(_ error: HostError) {
    failure = error
    finishStart(.failure(error))
    finishAttempt(.failure(error))
    for answer in answers.values { answer.resume(returning: .failure(error)) }
    answers = [:]
    opcodes = [:]
    port.close()
  }
}

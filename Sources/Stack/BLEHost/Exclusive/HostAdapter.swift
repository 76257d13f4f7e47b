public import BLELinux
public import BLEStack
public import BLEWire

/// A controller that only this process uses, with our own host: the `exclusive` mode.
///
/// The actor runs on an event loop. Packets, commands, links and their connections share the loop's thread.
public actor HostAdapter: Adapter {
  /// How long `close` waits for links to end before it releases the controller.
  private static let closePatience = Duration.seconds(1)
  /// Maximum number of fragments per link that wait for the controller's buffers.
  private static let fragmentLimit = 64

  public nonisolated let name: String
  public nonisolated let loop: EventLoop
  public nonisolated var unownedExecutor: UnownedSerialExecutor { loop.executor }

  private let transport: any PacketTransport
  private var host = HCIHost()
  private let started = OneShot<Result<Void, HostError>>()
  private var commands = PendingCommands()
  var wishes = LinkWishes()
  /// Receives the links that centrals create to this device.
  var acceptor: LinkAcceptor?
  private(set) var carriers = CarrierTable()
  var security = SecurityTable()
  private var early: [EarlyPDU] = []
  var reportSink: ReportSink?
  /// The current scan, kept to restart it after a reset.
  var scan: HostScan?
  var isScanEnding = false
  private var isReceiving = false
  /// PDUs and disconnects that connections requested while a packet was being received. Processed afterwards.
  private var deferred: [(handle: ConnectionHandle, pdu: [UInt8])] = []
  private var ending: [ConnectionHandle] = []
  var ownAddress: DeviceAddress?
  var hidesInScans = false
  package private(set) var failure: HostError?
  /// Whether the controller has failed and is being reset. Commands wait until it is up again.
  private var isRestarting = false
  private let restarts = Waiters()
  /// Number of times the controller was reset after a failure.
  package private(set) var restartCount = 0
  /// Value of `restartCount` when advertising was set up.
  package var advertisingIsOf = 0
  private var lossHandler: (@Sendable () -> Void)?
  private var closing: OneShot<Void>?
  private var closeDeadline: MonotonicTime?

  public nonisolated let mode = "exclusive"

  /// Opens a controller: resets and initialises it.
  ///
  /// - Throws: `adapterBusy`, `controller`, `notPermitted`, or the system's error for the port.
  public static func open(
    _ transport: TransportSpecification, on loop: EventLoop
  ) async throws(HostError) -> HostAdapter {
    try await open(try transport.open(on: loop), name: transport.description, on: loop)
  }

  /// Opens a controller through an existing transport, which may be wrapped.
  public static func open(
    _ transport: any PacketTransport, name: String, on loop: EventLoop
  ) async throws(HostError) -> HostAdapter {
    let adapter = HostAdapter(transport, name, loop)
    do throws(HostError) { try await adapter.start() } catch {
      await adapter.abandon()
      throw error
    }
    return adapter
  }

  private init(_ transport: any PacketTransport, _ name: String, _ loop: EventLoop) {
    self.name = name
    self.loop = loop
    self.transport = transport
  }

  private func start() async throws(HostError) {
    let client = TransportClient {
      self.take($0, $1, hasKernelStamp: $2)
    } settled: {
      self.batchEnded()
    } lost: {
      self.host.lose()
      self.settle()
    } deadline: {
      self.nextDeadline
    } expired: {
      self.expire($0)
    }
    do throws(SystemError) { try transport.open(client) } catch { throw HostError(error) }
    host.start()
    pump()
    try await started.get()
    if controller.address.bits == 0 { try await command(LESetRandomAddress(takeRandomAddress())) }
  }

  /// Closes the transport. An actor method, because transports may only be used on the loop's thread.
  private func abandon() { transport.close() }

  /// Properties that the controller reported during initialisation.
  public var controller: ControllerDescription { host.controller }

  /// Number of pending commands, links and connection requests, for leak checks.
  package var load: Int { commands.count + carriers.count + wishes.waiting.count + host.linkCount }

  /// Counters of dropped and unexpected packets.
  package var hostStatistics: HCIHostStatistics { host.statistics }

  /// Number of links that are up.
  package var linkCount: Int { host.linkCount }

  public var faults: Int {
    let counts = host.statistics
    return counts.malformed + counts.strayData + counts.droppedFrames + transport.garbage
  }

  public var cutFrames: Int { transport.cutFrames }

  // Declared `async`; otherwise a caller in an asynchronous function would get the protocol's default method.
  public func onLost(_ body: @escaping @Sendable () -> Void) async {
    if failure == nil { lossHandler = body } else { body() }
  }

  public func hold(while body: @escaping @Sendable () -> Bool) async { transport.hold(while: body) }

  /// Ends every link and releases the controller.
  public func close() async {
    for carrier in carriers.all { carrier.client?.ended(.closedLocally) }
    await stopScanQuietly()
    // May fail if a central has just connected or the controller has failed. Advertising is then off anyway.
    try? await stopAdvertising()
    if failure == nil, host.linkCount > 0 {
      closeDeadline = loop.clock.monotonic().advanced(by: Self.closePatience)
      let closing = self.closing ?? OneShot()
      self.closing = closing
      await closing.value()
    }
    host.lose()
    settle()
    transport.close()
  }

  // MARK: Commands

  /// Sends a command and waits for its Command Complete or Command Status.
  ///
  /// - Returns: The return parameters after the status byte.
  @discardableResult
  public func command(_ command: any HCICommand) async throws(HostError) -> [UInt8] {
    try await restarted()
    return try await sendNow(command)
  }

  /// Like `command`, but sends even while the controller is being initialised again.
  @discardableResult
  func sendNow(_ command: any HCICommand) async throws(HostError) -> [UInt8] {
    let waiter = commands.wait(for: try submit(command), type(of: command).opcode)
    pump()
    return try await waiter.get()
  }

  /// Waits until a reset in progress has ended.
  func restarted() async throws(HostError) {
    guard isRestarting else { return }
    await restarts.wait { !isRestarting || failure != nil }
    if let failure { throw failure }
  }

  /// Sends a command whose result is a separate event, and waits for that event.
  ///
  /// - Throws: also `gatt(closed)` if the link ends first.
  func command(
    _ command: any HCICommand, endingWith procedure: LinkProcedure
  ) async throws(HostError) -> HCIHostEvent {
    try await restarted()
    let waiter = commands.wait(for: try submit(command), type(of: command).opcode, endingWith: procedure)
    pump()
    return try await waiter.get()
  }

  /// Stops waiting for a procedure that takes too long; its caller gets the error.
  func giveUp(_ procedure: LinkProcedure, _ error: HostError) {
    commands.end({ $0 == procedure }, .failure(error))
  }

  private func submit(_ command: any HCICommand) throws(HostError) -> CommandID {
    if let failure { throw failure }
    guard let id = host.submit(command) else {
      throw .commandRefused(type(of: command).opcode, .commandDisallowed)
    }
    return id
  }

  // MARK: Links

  /// Sends an ATT PDU of a connection.
  ///
  /// While a packet is being received the host cannot be used, so the PDU is queued and sent afterwards.
  private func send(_ pdu: Span<UInt8>, on handle: ConnectionHandle) -> HostLink.SendResult {
    loop.assertIsCurrent()
    guard let carrier = carriers[handle] else { return .gone }
    if isReceiving {
      guard deferred.count < Self.fragmentLimit, !carrier.isBehind else { return .full }
      deferred.append((handle, [UInt8](encoding: pdu.count) { $0.append(pdu) }))
      carrier.hasAnswered = true
      return .sent
    }
    guard host.waitingFragments(handle) < Self.fragmentLimit else { return .full }
    let isThere = host.send(pdu, on: handle)
    pump()
    return isThere ? .sent : .gone
  }

  /// Ends a link whose connection was closed.
  func disconnect(_ handle: ConnectionHandle) {
    loop.assertIsCurrent()
    guard carriers.remove(handle) != nil else { return }
    ending.append(handle)
    if !isReceiving { settle() }
  }

  /// Ends a link for a local cause and informs its connection.
  ///
  /// - Parameter reason: reason code to send to the device.
  func end(_ handle: ConnectionHandle, for cause: BearerEnd, reason: HCIStatus) {
    guard let carrier = carriers.remove(handle) else { return }
    _ = host.submit(Disconnect(handle, reason: reason))
    carrier.client?.ended(cause)
  }

  // MARK: The receive thread

  private var nextDeadline: MonotonicTime? {
    var earliest = MonotonicTime.earliest(host.deadline, wishes.deadline)
    earliest = .earliest(earliest, closeDeadline)
    for index in 0..<carriers.count {
      earliest = .earliest(earliest, carriers.carrier(index).client?.deadline())
    }
    return earliest
  }

  private func batchEnded() {
    settle()
    if security.isDraining { resumeDrained() }
    // By index, because a link may end during the loop.
    var index = 0
    while index < carriers.count {
      let carrier = carriers.carrier(index)
      if carrier.hasAnswered {
        carrier.isBehind = host.waitingFragments(carriers.handle(index)) >= Self.fragmentLimit
        carrier.hasAnswered = carrier.isBehind
      }
      if carrier.hasNews {
        carrier.hasNews = false
        carrier.client?.batchEnded()
      }
      if carrier.isFull, host.waitingFragments(carriers.handle(index)) == 0 {
        carrier.isFull = false
        carrier.client?.writable()
      }
      index += 1
    }
  }

  private func take(_ packet: Span<UInt8>, _ time: ReceiveTime, hasKernelStamp: Bool) {
    let stamp: PacketPort.Stamp = hasKernelStamp ? .kernel : .arrival
    isReceiving = true
    do throws(WireError) {
      try host.receive(packet, now: loop.clock.monotonic()) { report in
        reportSink?(report, time)
      } attribute: { handle, pdu in
        if let carrier = carriers[handle], let client = carrier.client {
          carrier.hasNews = true
          client.received(pdu, time, stamp)
        } else if early.count < Self.fragmentLimit {
          early.append(
            EarlyPDU(
              handle: handle, octets: [UInt8](encoding: pdu.count) { $0.append(pdu) }, time: time,
              stamp: stamp))
        }
      }
    } catch {
      // The host has counted the error. Later packets are not affected.
    }
    isReceiving = false
    settle()
  }

  private func expire(_ now: MonotonicTime) {
    host.expire(now: now)
    for carrier in carriers.all { carrier.client?.expired(now) }
    expireWishes(now)
    settle()
  }

  func isLinkEncrypted(_ handle: ConnectionHandle) -> Bool { host.isEncrypted(handle) }

  /// Runs `body` on the host for code in other files, then processes events and packets. The host is private
  /// so that it is used in place: an accessor that lends it out allocates on each use.
  func withHost<Result>(_ body: (inout HCIHost) -> Result) -> Result {
    defer { settle() }
    return body(&host)
  }

  /// Processes the host's events and sends the resulting packets.
  private func settle() {
    for event in host.takeEvents() { handle(event) }
    // New links have taken their early PDUs. The remaining PDUs belong to links without a connection.
    early.removeAll(keepingCapacity: true)
    for (handle, pdu) in deferred { _ = host.send(pdu.span, on: handle) }
    deferred.removeAll(keepingCapacity: true)
    for handle in ending { _ = host.submit(Disconnect(handle)) }
    ending.removeAll(keepingCapacity: true)
    pump()
    if let waiter = closing,
      host.linkCount == 0 || closeDeadline.map({ $0 <= loop.clock.monotonic() }) ?? true
    {
      closing = nil
      closeDeadline = nil
      waiter.set(())
    }
  }

  private func pump() {
    let now = loop.clock.monotonic()
    do throws(SystemError) {
      while let packet = host.nextPacket(now: now) { try transport.send(packet.span) }
    } catch { host.lose() }
  }

  private func handle(_ event: HCIHostEvent) {
    if let end = event.end { commands.end({ $0 == end.procedure }, .success(event)) }
    switch event {
    case .ready:
      if isRestarting { loop.task { await self.setUpAgain() } } else { started.set(.success(())) }
    case .restarting:
      // A reset during initialisation needs no action. After initialisation, pending connection requests
      // continue once the controller is up again.
      guard started.current != nil else { break }
      isRestarting = true
      restartCount += 1
      commands.fail(.controllerReset)
      endAttempt()
    case .answered(let id, let status, let returned):
      answered(id, status)
      commands.answered(id, status, returned)
    case .connected(let description): connected(description)
    case .connectFailed(let status): connectFailed(status)
    case .parametersChanged, .dataLengthChanged, .phyChanged, .parametersUnchanged, .phyUnchanged:
      if let (handle, value) = event.linkChange { note(handle, value) }
    case .remoteFeatures, .remoteVersion: break
    case .security(let handle, let what): take(what, of: handle)
    case .encryption(let handle, _):
      noteSecurity(of: handle, host.keySource(of: handle))
      requireEncryption(of: handle)
    case .disconnected(let handle, let reason):
      commands.end({ $0.handle == handle }, .failure(.gatt(.closed(.linkLost(LinkLoss(reason))))))
      security.lose(handle)
      guard let carrier = carriers.remove(handle) else { break }
      carrier.disconnectReason = reason
      carrier.client?.ended(.linkLost(LinkLoss(reason)))
    case .failed(let cause): failed(transport.failure ?? HostError.controller(name, cause))
    }
  }

  private func connected(_ description: LinkDescription) {
    let handle = description.handle
    let isWished = description.role == .central
    let wish = isWished ? wishes.take(description.peer) : nil
    let acceptor = isWished ? nil : acceptor
    guard wish != nil || acceptor != nil else {
      // There is no connection request for this link, or no acceptor.
      host.decline(handle)
      if isWished { endAttempt() }
      return
    }
    if let request = wish?.request, request.startsFast || request.keepsTiming { host.holdTiming(of: handle) }
    // Packets that were dropped before the link came up do not count as its loss.
    let dropsBefore = transport.kernelQueueDrops
    let carrier = HostCarrier(
      HostLink {
        self.send($0, on: handle)
      } disconnect: {
        self.disconnect(handle)
      } kernelQueueDrops: {
        self.transport.kernelQueueDrops - dropsBefore
      }, description, mayBeOlder: transport.hasOlderLinks)
    let connection = Connection(
      carrier, peer: description.peer, handle: handle, on: loop, tap: wish?.tap ?? acceptor?.tap)
    carriers.add(carrier, handle)
    connection.assumeIsolated {
      try? $0.attach()  // HostCarrier.attach does not throw
      $0.onRefusal { [weak self] connection, code in await self?.raise(connection, after: code) ?? false }
    }
    note(handle, .timing(description.parameters))
    acceptor?.arrived(connection)
    noteSecurity(of: handle, nil)
    for pdu in early where pdu.handle == handle {
      carrier.client?.received(pdu.octets.span, pdu.time, pdu.stamp)
    }
    if let wish { tell(wish, connection) }
  }

  /// Restores the address and the scan after a reset of the controller. The acceptor restores advertising.
  private func setUpAgain() async {
    do throws(HostError) {
      if let ownAddress { try await sendNow(LESetRandomAddress(ownAddress)) }
      if let scan, reportSink != nil, !isScanEnding { try await begin(scan) }
    } catch {
      // The controller was reset once more. This method runs again after that reset.
      if error == .controllerReset { return }
      return failed(error)
    }
    isRestarting = false
    restarts.wakeAll()
    acceptor?.restarted()
  }

  private func failed(_ error: HostError) {
    guard failure == nil else { return }
    failure = error
    restarts.wakeAll()
    started.set(.failure(error))
    failWishes(error)
    commands.fail(error)
    acceptor?.lost(error)
    security.loseAll()
    transport.close()
    lossHandler.take()?()
  }
}

public import BLELinux
public import BLEStack
public import BLEWire

/// A controller that only this process uses, with our own host: the `exclusive` mode.
///
/// The actor runs on an event loop. Packets, commands, links and their connections share the loop's thread.
public actor HostAdapter: Adapter {
  /// Maximum time for which `close` waits for links to end before it releases the controller.
  private static let closePatience = Duration.seconds(1)
  /// Maximum number of fragments per link that wait for the controller's buffers.
  private static let fragmentLimit = 64

  public nonisolated let name: String
  public nonisolated let loop: EventLoop
  public nonisolated var unownedExecutor: UnownedSerialExecutor { loop.executor }

  public var hooks: [any AdapterHook] = []
  private let transport: any PacketTransport
  private var host = HCIHost()
  private let started = OneShot<Result<Void, HostError>>()
  private var commands = PendingCommands()
  var wishes = LinkWishes()
  /// Receiver of the links that centrals create to this device.
  private var acceptor: LinkAcceptor?
  private(set) var carriers = CarrierTable()
  var security = SecurityTable()
  private var early: [EarlyPDU] = []
  var reportSink: ReportSink?
  /// The current scan, kept to restart it after a reset.
  var scan: HostScan?
  private var isScanEnding = false
  private var isReceiving = false
  /// PDUs and disconnects that connections requested while a packet was being received. Processed after the
  /// packet.
  private var deferred: [(handle: ConnectionHandle, pdu: [UInt8])] = []
  private var ending: [ConnectionHandle] = []
  private var ownAddress: DeviceAddress?
  private var hidesInScans = false
  package private(set) var failure: HostError?
  /// Whether the controller has failed and is being reset. Commands wait until the reset has ended.
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

  /// Closes the transport. An actor method, because transports may be used only on the loop's thread.
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
  public func release() async {
    for carrier in carriers.all { carrier.client?.ended(.closedLocally) }
    await stopScanQuietly()
    // May fail if a central has just connected or the controller has failed. Advertising is off in both
    // cases.
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

  /// Sends a command like `command`, even while the controller is being initialised again.
  @discardableResult
  private func sendNow(_ command: any HCICommand) async throws(HostError) -> [UInt8] {
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

  /// Sends a command whose result arrives in a separate event, and waits for that event.
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

  /// Stops waiting for a procedure that exceeds its time limit. The procedure's caller gets the error.
  private func giveUp(_ procedure: LinkProcedure, _ error: HostError) {
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
  /// The host cannot be used while a packet is being received. During this time the PDU is queued.
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

  private func isLinkEncrypted(_ handle: ConnectionHandle) -> Bool { host.isEncrypted(handle) }

  /// Runs `body` on the host for code in other files, then processes events and packets. The host is private
  /// so that it is used in place: an accessor that lends the host allocates on each use.
  private func withHost<Result>(_ body: (inout HCIHost) -> Result) -> Result {
    defer { settle() }
    return body(&host)
  }

  /// Processes the host's events and sends the resulting packets.
  private func settle() {
    for event in host.takeEvents() { handle(event) }
    // New links have received their early PDUs. The remaining PDUs belong to links without a connection.
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
      // The controller was reset once more. This method runs again after the new reset.
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

// MARK: - Scanning

/// Parameters of a scan.
struct HostScan {
  let kind: ScanKind
  let timing: ScanTiming
  let duplicates: DuplicateFilter
}

/// Scanning, and the addresses that our own host uses to scan and connect.
extension HostAdapter {
  /// Scans with a non-resolvable private address that changes with each scan, so that scan requests do not
  /// identify this host. Core 5.4, Vol 3, Part C, 10.7.
  public func hideInScans() { hidesInScans = true }

  public func beginScan(
    _ kind: ScanKind, timing: ScanTiming, duplicates: DuplicateFilter,
    _ sink: @escaping ReportSink
  ) async throws(HostError) {
    guard reportSink == nil else { throw .scanBusy(holder: "this program") }
    reportSink = sink
    let scan = HostScan(kind: kind, timing: timing, duplicates: duplicates)
    do throws(HostError) {
      try await beginOnceUp(scan)
      self.scan = scan
    } catch {
      reportSink = nil
      throw error
    }
  }

  /// Starts a scan as soon as no reset is in progress, and again if a reset interrupts it.
  private func beginOnceUp(_ scan: HostScan) async throws(HostError) {
    while true {
      try await restarted()
      do throws(HostError) { return try await begin(scan) } catch {
        guard error == .controllerReset else { throw error }
      }
    }
  }

  func begin(_ scan: HostScan) async throws(HostError) {
    var ownType = address.type
    if hidesInScans {
      let own = address
      try await sendNow(
        LESetRandomAddress(Self.random { .nonResolvablePrivate($0, differingFrom: own) }))
      ownType = .random
    }
    if controller.usesExtendedCommands {
      try await sendNow(LESetExtendedScanParameters(kind: scan.kind, timing: scan.timing, ownType: ownType))
      try await sendNow(LESetExtendedScanEnable(scan.duplicates))
    } else {
      try await sendNow(LESetScanParameters(kind: scan.kind, timing: scan.timing, ownType: ownType))
      try await sendNow(LESetScanEnable(scan.duplicates))
    }
  }

  public func endScan() async throws(HostError) {
    guard reportSink != nil, !isScanEnding else { return }
    // Until the controller confirms, the sink still receives reports.
    isScanEnding = true
    defer { (reportSink, scan, isScanEnding) = (nil, nil, false) }
    if controller.usesExtendedCommands {
      try await command(LESetExtendedScanEnable(nil))
    } else {
      try await command(LESetScanEnable(nil))
    }
    // Connection attempts need the previous address.
    if hidesInScans, let ownAddress { try await command(LESetRandomAddress(ownAddress)) }
  }

  public var unfinishedReports: Int { withHost { $0.unfinishedReports } }

  private func stopScanQuietly() async {
    do throws(HostError) { try await endScan() } catch {
      // Ignored: the controller is released right after this, and the next program that opens it resets it.
    }
  }

  // MARK: Addresses

  /// Address that this host uses to scan and connect: the controller's public address, or a random static
  /// address.
  public var address: DeviceAddress { ownAddress ?? controller.address }

  /// Generates a static address for a controller without a public address. Core 5.4, Vol 6, Part B, 1.3.2.1.
  private func takeRandomAddress() -> DeviceAddress {
    let address = Self.random { DeviceAddress.randomStatic($0) }
    ownAddress = address
    return address
  }

  private static func random(_ make: (UInt64) -> DeviceAddress?) -> DeviceAddress {
    while true {
      // One random value in 2⁴⁵ is invalid.
      if let address = make(UInt64.random(in: 0 ... .max)) { return address }
    }
  }

  /// Switches to this static address, unless the controller has a public address.
  func goOn(as known: DeviceAddress) async throws(HostError) {
    guard let own = ownAddress, known != own, known.type == .random else { return }
    try await command(LESetRandomAddress(known))
    ownAddress = known
  }
}

// MARK: - Links

/// Connecting, changing link parameters, and querying links. Core 5.4, Vol 4, Part E, 7.8.
extension HostAdapter {
  public func link(
    to peer: DeviceAddress, asking request: LinkRequest, timeout: Duration, tap: PacketTap?
  ) async throws(HostError) -> Connection {
    let begunAt = loop.clock.monotonic()
    func left() -> Duration { timeout.left(after: begunAt.duration(to: loop.clock.monotonic())) }
    let peer = try await currentAddress(of: peer, within: timeout)
    let wish = LinkWish(peer, request, tap, left(), from: loop.clock.monotonic())
    let connection = try await link(wish)
    if request.keepsTiming {
      // The link keeps the timing with which it was created.
    } else if request.startsFast {
      await connection.onSettled { [weak self] in await self?.endFastStart($0, request) }
    } else if let timing = wish.timing, timing != request.initialTiming {
      await ask(.timing, of: connection, LEConnectionUpdate(connection.handle, request.initialTiming))
    }
    do throws(HostError) { try await encryptIfBonded(connection, within: left()) } catch {
      await connection.close()
      throw error
    }
    await askBeyondTiming(request, of: connection)
    return connection
  }

  /// Sets the lasting timing of a link: the requested timing, otherwise the timing that the device has
  /// requested since the start.
  private func endFastStart(_ connection: Connection, _ request: LinkRequest) async {
    let wish = withHost { $0.releaseTiming(of: connection.handle) }
    let rest: LinkParameterRange? = await connection.isFast ? .default : nil
    guard let timing = request.timing ?? wish ?? rest else { return }
    await ask(.timing, of: connection, LEConnectionUpdate(connection.handle, timing))
  }

  public func change(_ connection: Connection, to request: LinkRequest) async {
    if let timing = request.timing {
      await ask(.timing, of: connection, LEConnectionUpdate(connection.handle, timing))
    }
    await askBeyondTiming(request, of: connection)
  }

  /// Requests the parameters that the command to create a link does not include.
  private func askBeyondTiming(_ request: LinkRequest, of connection: Connection) async {
    if let phy = request.phy { await ask(.phy, of: connection, LESetPHY(connection.handle, phy)) }
    if let octets = request.dataLength {
      await ask(.dataLength, of: connection, LESetDataLength(connection.handle, octets: octets))
    }
  }

  private func ask(
    _ part: LinkRequest.Part, of connection: Connection, _ command: any HCICommand
  ) async {
    do throws(HostError) {
      try requireUp(connection)
      await connection.noteAsking(for: part)
      try await self.command(command)
    } catch {
      await connection.note(LinkChange(time: loop.clock.now(), value: .refused(part, error)))
    }
  }

  public func facts(of connection: Connection) async throws(HostError) -> LinkFacts {
    let handle = connection.handle
    var facts = LinkFacts()
    try requireUp(connection)
    facts.rssi = try await query(ReadRSSI(handle)).rssi
    try requireUp(connection)
    let version = try await command(
      ReadRemoteVersionInformation(handle), endingWith: LinkProcedure(.remoteVersion, on: handle))
    if case .remoteVersion(_, .success, let version) = version { facts.version = version }
    try requireUp(connection)
    let features = try await command(
      LEReadRemoteFeatures(handle), endingWith: LinkProcedure(.remoteFeatures, on: handle))
    if case .remoteFeatures(_, .success, let features) = features { facts.features = features }
    return facts
  }

  /// Checks that a link is still up. Call this before each command, because another link may have the same
  /// handle by now.
  private func requireUp(_ connection: Connection) throws(HostError) {
    guard carriers[connection.handle] === connection.carrier else {
      throw .gatt(.closed(.linkLost(connection.carrier.disconnectReason.map { LinkLoss($0) } ?? .unknown)))
    }
  }

  private func query<Query: HCIQuery>(_ query: Query) async throws(HostError) -> Query.Reply {
    let returned = try await command(query)
    do throws(WireError) { return try Query.Reply(validating: returned.span) } catch {
      throw .malformedReply(error)
    }
  }
}

// MARK: - Creating links

/// Creation of links. A controller makes one attempt at a time. The attempt serves several pending requests
/// through the controller's accept list, so that an absent device does not delay other requests. Core 5.4,
/// Vol 4, Part E, 7.8.12 and 7.8.66.
extension HostAdapter {
  /// Waits until a link with the device is up.
  func link(_ wish: LinkWish) async throws(HostError) -> Connection {
    if let failure { throw failure }
    wishes.waiting.append(wish)
    makeRoom()
    if !wishes.isAtWork {
      wishes.isAtWork = true
      loop.task { await self.makeLinks() }
    }
    let outcome = wish.outcome
    return try await withTaskCancellationHandler {
      await outcome.value()
    } onCancel: {
      loop.later(self) { $0.abandon(outcome) }
    }.get()
  }

  private func makeLinks() async {
    while !wishes.waiting.isEmpty {
      let attempt = wishes.nextAttempt()
      wishes.attempt = attempt
      do throws(HostError) {
        try await create(attempt)
        attempt.createdAt = loop.clock.monotonic()
        if let (wish, link) = attempt.early.take() { tell(wish, link) }
        // A connection request for a device that is not on the list has arrived in the meantime.
        if !attempt.isPartial, !wishes.waiting.allSatisfy(attempt.isFor) { makeRoom() }
      } catch {
        // After a reset of the controller, the attempt is repeated.
        error == .controllerReset ? endAttempt() : endAttempt(.failure(error))
      }
      await attempt.ended.value()
    }
    wishes.isAtWork = false
  }

  private func create(_ attempt: LinkAttempt) async throws(HostError) {
    let (own, timing) = (address.type, attempt.timing)
    let named = attempt.isListed ? nil : attempt.wishes.first?.peer
    if named == nil { try await list(attempt) }
    if attempt.isPartial {
      let share = named == nil ? LinkAttempt.slice : LinkAttempt.grace
      attempt.deadline = loop.clock.monotonic().advanced(by: share)
    }
    switch (named, controller.usesExtendedCommands) {
    case (let peer?, true):
      try await command(LEExtendedCreateConnection(to: peer, ownType: own, parameters: timing))
    case (let peer?, false): try await command(LECreateConnection(to: peer, ownType: own, parameters: timing))
    case (nil, true): try await command(LEExtendedCreateConnection(toAcceptListFrom: own, parameters: timing))
    case (nil, false): try await command(LECreateConnection(toAcceptListFrom: own, parameters: timing))
    }
  }

  /// Puts the devices of an attempt on the controller's accept list. Devices that do not fit wait for a later
  /// attempt.
  private func list(_ attempt: LinkAttempt) async throws(HostError) {
    try await command(LEClearFilterAcceptList())
    for (count, wish) in attempt.wishes.enumerated() {
      do throws(HostError) { try await command(LEAddDeviceToFilterAcceptList(wish.peer)) } catch {
        guard count > 0, case .commandRefused(_, .memoryCapacityExceeded) = error else { throw error }
        attempt.wishes.removeSubrange(count...)
        attempt.isPartial = true
        return
      }
    }
  }

  /// Cancels the connection request of a caller that no longer waits.
  private func abandon(_ outcome: OneShot<Result<Connection, HostError>>) {
    wishes.waiting.first { $0.outcome === outcome }?.deadline = loop.clock.monotonic()
  }

  /// Limits the current attempt to `grace`, because another connection request is pending. The next attempt
  /// can serve both requests.
  private func makeRoom() {
    guard let attempt = wishes.attempt, let created = attempt.createdAt, !attempt.isCancelling,
      !wishes.isStubborn
    else { return }
    attempt.deadline = .earliest(attempt.deadline, created.advanced(by: LinkAttempt.grace))
  }

  /// Cancels the controller's attempt.
  private func giveUpAttempt() {
    guard let attempt = wishes.attempt, attempt.createdAt != nil, !attempt.isCancelling else { return }
    attempt.isCancelling = true
    attempt.deadline = loop.clock.monotonic().advanced(by: LinkAttempt.cancelPatience)
    attempt.cancel = withHost { $0.submit(LECreateConnectionCancel()) }
  }

  /// Ends attempts and connection requests whose deadlines have passed.
  private func expireWishes(_ now: MonotonicTime) {
    guard let attempt = wishes.attempt else { return }
    if attempt.isCancelling {
      guard let deadline = attempt.deadline, deadline <= now else { return }
      if let refusal = attempt.refusal { return endAttempt(.failure(refusal)) }
      (wishes.isStubborn, attempt.isCancelling, attempt.deadline) = (true, false, nil)
      failExpired(now)
      return attempt.wishes.isEmpty ? endAttempt() : ()
    }
    for wish in wishes.waiting where wish.deadline <= now && !attempt.isFor(wish) {
      wishes.fulfil(wish, .failure(wish.noAnswer))
    }
    guard let deadline = wishes.deadline, deadline <= now else { return }
    giveUpAttempt()
  }

  /// Records that the controller refused to cancel. A link may have come up at the last moment, and its event
  /// may still arrive.
  func answered(_ id: CommandID, _ status: HCIStatus) {
    guard let attempt = wishes.attempt, id == attempt.cancel, status != .success else { return }
    attempt.refusal = .commandRefused(.leCreateConnectionCancel, status)
  }

  /// Completes a connection request with its link. If the controller has not replied to the command yet,
  /// first waits for the reply: a controller that never replies may not work at all.
  func tell(_ wish: LinkWish, _ connection: Connection) {
    if let attempt = wishes.attempt, attempt.createdAt == nil {
      attempt.early = (wish, connection)
    } else {
      wish.outcome.set(.success(connection))
      endAttempt()
    }
  }

  /// Handles an attempt that failed.
  func connectFailed(_ status: HCIStatus) {
    guard let attempt = wishes.attempt else { return }
    // Status of an attempt that was cancelled. Core 5.4, Vol 4, Part E, 7.8.13.
    guard attempt.isCancelling, status == .unknownConnection else {
      for wish in attempt.wishes { wishes.fulfil(wish, .failure(.linkFailed(wish.peer, status))) }
      return endAttempt()
    }
    failExpired(loop.clock.monotonic())
    endAttempt()
  }

  /// Fails the attempt's connection requests whose deadline has passed.
  private func failExpired(_ now: MonotonicTime) {
    guard let attempt = wishes.attempt else { return }
    for wish in attempt.wishes where wish.deadline <= now { wishes.fulfil(wish, .failure(wish.noAnswer)) }
    attempt.wishes.removeAll { $0.deadline <= now }
  }

  /// Ends the current attempt.
  ///
  /// - Parameter result: for all requests of the attempt; `nil` leaves them pending.
  private func endAttempt(_ result: Result<Connection, HostError>? = nil) {
    guard let attempt = wishes.attempt.take() else { return }
    if let wish = attempt.early?.wish { wish.outcome.set(result ?? .failure(wish.noAnswer)) }
    if let result {
      for wish in attempt.wishes { wishes.fulfil(wish, result) }
    } else {
      wishes.rotate(attempt)
    }
    attempt.ended.set(())
  }

  /// Fails all connection requests after the adapter has failed.
  private func failWishes(_ error: HostError) {
    for wish in wishes.waiting { wish.outcome.set(.failure(error)) }
    wishes.waiting = []
    endAttempt(.failure(error))
  }
}

// MARK: - Security

/// Security state of an adapter's links, with the tasks that await changes. Used only on the loop's thread.
struct SecurityTable {
  var settings: SecuritySettings?
  /// Pairings that a task awaits.
  fileprivate var pairings: [ConnectionHandle: OneShot<Result<Bond, PairingError>>] = [:]
  /// Bonds of links that are up, including bonds that are not stored.
  fileprivate var bonds: [ConnectionHandle: Bond] = [:]
  /// Links whose peers have lost their keys.
  fileprivate var forgotten: Set<ConnectionHandle> = []
  /// Links with an LE Enable Encryption in progress.
  fileprivate var encrypting: Set<ConnectionHandle> = []
  /// Links that this side created and encrypted. Such links are closed when their encryption ends.
  fileprivate var encrypted: Set<ConnectionHandle> = []
  /// Tasks that wait until everything queued on a link is transmitted.
  fileprivate var drains: [ConnectionHandle: OneShot<Void>] = [:]
  var isDraining: Bool { !drains.isEmpty }

  fileprivate mutating func lose(_ handle: ConnectionHandle) {
    bonds[handle] = nil
    forgotten.remove(handle)
    encrypting.remove(handle)
    encrypted.remove(handle)
    finish(handle, .failure(.linkLost))
    drained(handle)
  }

  /// Wakes all waiting tasks after the controller has failed.
  fileprivate mutating func loseAll() {
    for handle in drains.keys { drained(handle) }
  }

  fileprivate mutating func drained(_ handle: ConnectionHandle) {
    drains.removeValue(forKey: handle)?.set(())
  }

  fileprivate mutating func finish(_ handle: ConnectionHandle, _ result: Result<Bond, PairingError>) {
    pairings.removeValue(forKey: handle)?.set(result)
  }
}

/// Pairing, encryption with stored keys, and private addresses. Core 5.4, Vol 3, Part H; Part C, 10.
extension HostAdapter {
  /// Returns the address of the peer, or `nil` if the link is down.
  func peer(of handle: ConnectionHandle) -> DeviceAddress? { carriers[handle]?.peer }

  /// Passes the security of a link to its server. If this side is the central, records the security instead.
  /// For a key from a pairing, the level does not depend on an older bond.
  func noteSecurity(of handle: ConnectionHandle, _ source: LinkKeySource?) {
    guard let carrier = carriers[handle] else { return }
    guard let acceptor, carrier.description.role == .peripheral else {
      guard source != nil || security.encrypted.contains(handle) else { return }
      let bond = security.bonds[handle] ?? storedBond(of: carrier.peer)?.bond
      return note(handle, .security(LinkSecurity(isEncrypted: isLinkEncrypted(handle), bond)))
    }
    let made = security.bonds[handle]
    let bond = source == .pairing ? made : made ?? storedBond(of: carrier.peer)?.bond
    var level = ATTSecurity(bond, isEncrypted: source != nil)
    if source != nil, bond == nil { level.keyByteCount = Int(security.settings?.minimumKeyByteCount ?? 7) }
    let identity = bond?.isBonded == true ? bond?.peerIdentity?.address ?? carrier.peer : nil
    acceptor.secured(LinkSecurityChange(handle: handle, security: level, source: source, identity: identity))
  }

  /// Enables encryption and pairing. If the controller has no public address, uses the address that bonded
  /// devices know this host by.
  public func secure(_ settings: SecuritySettings) async throws(HostError) {
    security.settings = settings
    withHost { $0.takeSecurityRequests() }
    let known = settings.store?.bonds().last { $0.local.type == .random }
    if let known { try await goOn(as: known.local) }
    let responder = settings.raising == .byPairing ? settings.responder(as: address) : nil
    withHost { $0.answerPairings(by: responder) }
  }

  /// Pairs with a device, or waits for a pairing that is in progress.
  ///
  /// - Returns: The bond, already stored if the settings have a store.
  /// - Throws: `pairing` with the reason.
  public func pair(_ connection: Connection) async throws(HostError) -> Bond {
    let handle = connection.handle
    let underWay = security.pairings[handle]
    let pairing = underWay ?? OneShot()
    if underWay == nil {
      security.pairings[handle] = pairing
      beginPairing(on: handle)
    }
    let result = await withTaskCancellationHandler {
      await pairing.value()
    } onCancel: {
      loop.later(self) { $0.cancelPairing(on: handle) }
    }
    do throws(PairingError) {
      let bond = try result.get()
      // Our keys are sent last. Wait until they are transmitted, because the caller may end the link
      // immediately.
      if isBusy(handle) {
        let drain = security.drains[handle] ?? OneShot()
        security.drains[handle] = drain
        await drain.value()
      }
      return bond
    } catch {
      throw .pairing(connection.peer, error)
    }
  }

  /// Returns whether packets queued on a link still wait for transmission. If several links are up, packets
  /// count as transmitted once the controller has received them.
  private func isBusy(_ handle: ConnectionHandle) -> Bool {
    guard peer(of: handle) != nil else { return false }
    return withHost {
      $0.waitingFragments(handle) > 0 || $0.linkCount == 1 && $0.fragmentsUnderWay > 0
    }
  }

  /// Resumes the tasks whose links have transmitted everything. Called after each batch while a task waits.
  private func resumeDrained() {
    for handle in security.drains.keys where !isBusy(handle) { security.drained(handle) }
  }

  /// Returns the bond with a connected device, stored or for this link only.
  public func bond(of connection: Connection) -> Bond? {
    security.bonds[connection.handle] ?? storedBond(of: connection.peer)?.bond
  }

  public func isEncrypted(_ connection: Connection) -> Bool {
    withHost { $0.isEncrypted(connection.handle) }
  }

  /// Writes a value in a way that the device can authenticate: signed if the link is not encrypted, otherwise
  /// with an ordinary Write Command.
  ///
  /// - Throws: `cannotSign` if the device is not bonded or no signing key was distributed to it.
  public func writeSigned(
    _ value: [UInt8], to handle: AttributeHandle, on connection: Connection
  ) async throws(GATTError) {
    if isEncrypted(connection) { return try await connection.writeWithoutResponse(value, to: handle) }
    guard let store = security.settings?.store, let stored = storedBond(of: connection.peer),
      let signer = BondSigner(stored, in: store)
    else { throw .cannotSign }
    try await connection.writeSigned(value, to: handle, by: signer)
  }

  /// Resolver that maps private addresses of bonded devices to identity addresses; `nil` if no bond has a
  /// resolving key.
  public var addressResolver: AddressResolver? {
    let known = (bondStore?.bonds() ?? []).compactMap(\.bond.peerIdentity).filter { $0.resolvingKey != 0 }
    guard !known.isEmpty else { return nil }
    return { address in known.last { $0.matches(address) }?.address }
  }

  // MARK: On the way up and down

  /// Encrypts a link if the device is bonded.
  ///
  /// - Throws: `notEncrypted` if the link is not encrypted within the timeout, unless the settings permit an
  ///   unencrypted link or pairing follows; `gatt(closed)` if the link ends first.
  private func encryptIfBonded(_ connection: Connection, within timeout: Duration) async throws(HostError) {
    guard let settings = security.settings, settings.encryption == .atOnce,
      let stored = storedBond(of: connection.peer), let key = stored.bond.peerKey
    else { return }
    let (handle, peer, own) = (connection.handle, connection.peer, address)
    func refused(_ status: HCIStatus) -> HostError {
      stored.local == own ? .notEncrypted(peer, status) : .bonded(peer, as: stored.local, not: own)
    }
    let limit = loop.after(timeout) {
      await self.giveUp(LinkProcedure(.encryption, on: handle), .notEncrypted(peer, nil))
    }
    let outcome = await encrypt(handle, key)
    limit.cancel()
    switch outcome {
    case .success(.success): security.encrypted.insert(handle)
    case .success(let status):
      guard settings.bondedLinks == .encrypted, settings.raising == .byStoredKey else {
        return note(handle, .security(LinkSecurity(isEncrypted: false, stored.bond)))
      }
      throw refused(status)
    case .failure(.commandRefused(_, let status)): throw refused(status)
    case .failure(let error):
      // If the keys of both sides differ, the link ends, because neither side can decrypt the other's
      // packets. Core 5.4, Vol 6, Part B, 5.1.3.1.
      guard connection.carrier.disconnectReason == .micFailure else { throw error }
      throw refused(.micFailure)
    }
  }

  /// Closes a link to a bonded device that is no longer encrypted.
  private func requireEncryption(of handle: ConnectionHandle) {
    guard security.encrypted.contains(handle), !isLinkEncrypted(handle) else { return }
    end(handle, for: .encryptionLost, reason: .authenticationFailure)
  }

  /// Raises the security of a link after the device refused a request for insufficient security.
  ///
  /// - Returns: Whether to repeat the request.
  func raise(_ connection: Connection, after code: ATTErrorCode) async -> Bool {
    guard let settings = security.settings, carriers[connection.handle]?.description.role == .central
    else { return false }
    let handle = connection.handle
    let isEncrypted = withHost { $0.isEncrypted(handle) }
    let bond = bond(of: connection)
    if !isEncrypted, !security.forgotten.contains(handle), let key = bond?.peerKey {
      if case .success(.success) = await encrypt(handle, key) { return true }
    }
    guard settings.raising == .byPairing else { return false }
    // On an encrypted link only an authenticated pairing can help. Such a pairing requires a user.
    if isEncrypted, settings.agent.capability == .noInputNoOutput || bond?.isAuthenticated == true {
      return false
    }
    return (try? await pair(connection)) != nil
  }

  /// Determines the current address of a bonded device by scanning, because it may use private addresses.
  ///
  /// - Returns: `peer` itself if its bond has no resolving key.
  private func currentAddress(of peer: DeviceAddress, within timeout: Duration) async throws(HostError)
    -> DeviceAddress
  {
    guard let stored = storedBond(of: peer), let identity = stored.bond.peerIdentity,
      identity.resolvingKey != 0
    else { return peer }
    let found = FoundAddress()
    let scanner = Scanner(kind: .passive, duplicates: .reportOnce, keeping: 1)
    _ = try await scanner.run(on: self, for: timeout) { advertiser in
      guard stored.isMeant(by: advertiser.address) else { return .goOn }
      found.address = advertiser.address
      return .stop
    }
    guard let address = found.address else {
      throw .noAnswer(peer, seconds: Int(timeout.components.seconds))
    }
    return address
  }

  func take(_ event: SecurityEvent, of handle: ConnectionHandle) {
    if case .keyWanted(let random, let diversifier) = event {
      return loop.later(self) { $0.answerKeyRequest(of: handle, random, diversifier) }
    }
    guard let settings = security.settings else { return }
    switch event {
    case .keyWanted: break
    case .requested(let requirements): requested(requirements, on: handle, settings)
    case .showPasskey(let passkey): settings.agent.showPasskey(passkey)
    case .askPasskey:
      loop.task {
        let passkey = await settings.agent.askPasskey()
        await self.enter(passkey, on: handle)
      }
    case .compare(let number):
      loop.task {
        let areEqual = await settings.agent.compare(number)
        await self.confirm(areEqual, on: handle)
      }
    case .paired(let result):
      let result = kept(result, of: handle, settings)
      if case .failure(let error) = result, carriers[handle]?.description.role == .peripheral {
        acceptor?.notPaired(error)
      }
      security.finish(handle, result)
    }
  }

  // MARK: Parts

  private func storedBond(of peer: DeviceAddress) -> StoredBond? {
    security.settings?.storedBond(of: peer)
  }

  /// Stores the bond of a successful pairing. A bond that must not be stored is used for encryption only.
  private func kept(
    _ result: Result<Bond, PairingError>, of handle: ConnectionHandle, _ settings: SecuritySettings
  ) -> Result<Bond, PairingError> {
    guard let link = carriers[handle]?.description, case .success(var bond) = result else { return result }
    var outcome = result
    do throws(PairingError) {
      bond = try settings.keeping(bond, of: link.peer, local: address)
      outcome = .success(bond)
    } catch {
      (bond.isBonded, bond.isAuthenticated, bond.peerIdentity) = (false, false, nil)
      outcome = .failure(error)
    }
    security.bonds[handle] = bond
    security.forgotten.remove(handle)
    if link.role == .central { security.encrypted.insert(handle) }
    noteSecurity(of: handle, .pairing)
    return outcome
  }

  /// Supplies the key for a central's encryption request.
  private func answerKeyRequest(of handle: ConnectionHandle, _ random: UInt64, _ diversifier: UInt16) {
    guard let peer = peer(of: handle) else { return }
    let bond = security.bonds[handle] ?? storedBond(of: peer)?.bond
    let key = bond?.localKey(random: random, diversifier: diversifier)
    withHost { $0.answerKeyRequest(of: handle, key) }
  }

  /// Encrypts a link.
  ///
  /// - Returns: The status with which the procedure ended, or the error if there is no status.
  private func encrypt(_ handle: ConnectionHandle, _ key: LongTermKey) async -> Result<HCIStatus, HostError> {
    security.encrypting.insert(handle)
    defer { security.encrypting.remove(handle) }
    let command = LEEnableEncryption(
      handle, random: key.random, diversifier: key.diversifier, key: key.key)
    do throws(HostError) {
      let end = try await self.command(command, endingWith: LinkProcedure(.encryption, on: handle))
      guard case .encryption(_, let status) = end else { return .success(.unspecifiedError) }
      if status == .pinOrKeyMissing { security.forgotten.insert(handle) }
      // The event can report success although encryption is off. Core 5.4, Vol 4, Part E, 7.7.8.
      return .success(
        status == .success && !isLinkEncrypted(handle) ? .pinOrKeyMissing : status)
    } catch { return .failure(error) }
  }

  private func beginPairing(on handle: ConnectionHandle) {
    guard let settings = security.settings else {
      return security.finish(handle, .failure(.failed(.pairingNotSupported)))
    }
    let supplies = PairingSupplies(keyPair: settings.makeKeyPair?())
    let (local, now) = (address, loop.clock.monotonic())
    let link = carriers[handle]?.description
    let configuration =
      link?.role == .central
      ? link.map { settings.configuration(for: $0.peer) } ?? settings.configuration : settings.configuration
    let hasBegun = withHost { $0.pair(on: handle, configuration, local: local, supplies, now: now) }
    if !hasBegun { security.finish(handle, .failure(.linkLost)) }
  }

  private func requested(
    _ requirements: AuthenticationRequirements, on handle: ConnectionHandle, _ settings: SecuritySettings
  ) {
    let key = peer(of: handle).flatMap { storedBond(of: $0)?.bond }
    let isEnough = key.map { $0.isAuthenticated || !requirements.contains(.authenticated) } ?? false
    if isEnough, let key = key?.peerKey, !security.forgotten.contains(handle) {
      // A device may repeat its request. Only one procedure runs at a time, and an encrypted link needs no
      // procedure.
      guard !isLinkEncrypted(handle), security.encrypting.insert(handle).inserted else { return }
      loop.later(self) { _ = await $0.encrypt(handle, key) }
    } else if settings.raising == .byPairing, security.pairings[handle] == nil {
      loop.later(self) { $0.beginPairing(on: handle) }
    }
  }

  private func enter(_ passkey: UInt32?, on handle: ConnectionHandle) {
    withHost { $0.enterPasskey(passkey, on: handle, now: loop.clock.monotonic()) }
  }

  private func confirm(_ areEqual: Bool, on handle: ConnectionHandle) {
    let now = loop.clock.monotonic()
    withHost { $0.confirmNumber(areEqual, on: handle, now: now) }
  }

  private func cancelPairing(on handle: ConnectionHandle) {
    withHost { $0.cancelPairing(on: handle, now: loop.clock.monotonic()) }
  }
}

/// Address that a scan found. Used only on the loop's thread until the scan has ended.
private final class FoundAddress: @unchecked Sendable {
  // No lock: written on the loop's thread, read after the scan.
  var address: DeviceAddress?
}

// MARK: - Advertising

/// New security state of a link with a central.
package struct LinkSecurityChange {
  package let handle: ConnectionHandle
  package let security: ATTSecurity
  /// Origin of the key that encrypts the link; `nil` if the link is not encrypted.
  package let source: LinkKeySource?
  /// Identity of a bonded central. On an unencrypted link the identity is not verified: only the address
  /// matches.
  package let identity: DeviceAddress?

  package init(
    handle: ConnectionHandle, security: ATTSecurity, source: LinkKeySource?, identity: DeviceAddress?
  ) {
    (self.handle, self.security, self.source, self.identity) = (handle, security, source, identity)
  }
}

/// Callbacks for the links that centrals create to this device.
package final class LinkAcceptor: @unchecked Sendable {
  // No lock: called on the event loop's thread only.

  /// Called when a link is up, before its first PDU.
  package let arrived: (Connection) -> Void
  package let secured: (LinkSecurityChange) -> Void
  package let notPaired: (PairingError) -> Void
  /// Called when the controller was reset and no longer advertises.
  package let restarted: () -> Void
  /// Called when the controller has failed. Its links have ended.
  package let lost: (HostError) -> Void
  package let tap: PacketTap?

  package init(
    tap: PacketTap? = nil, arrived: @escaping (Connection) -> Void,
    secured: @escaping (LinkSecurityChange) -> Void, notPaired: @escaping (PairingError) -> Void,
    restarted: @escaping () -> Void = {}, lost: @escaping (HostError) -> Void
  ) {
    self.tap = tap
    self.arrived = arrived
    self.secured = secured
    self.notPaired = notPaired
    self.restarted = restarted
    self.lost = lost
  }
}

/// Links on which this device is the peripheral. The acceptor sends the advertising commands to the
/// controller.
extension HostAdapter {
  /// Number of malformed packets.
  public var malformed: Int { withHost { $0.malformed } }

  /// Passes all further links from centrals to `acceptor`. If `nil`, such links are closed.
  ///
  /// - Returns: `false` if another acceptor is already set.
  package func accept(_ acceptor: LinkAcceptor?) -> Bool {
    guard acceptor == nil || self.acceptor == nil else { return false }
    self.acceptor = acceptor
    return true
  }

  /// Whether advertising was turned on and no central has connected since.
  package var isAdvertising: Bool { withHost { $0.isAdvertising } }

  /// Sets the resolvable private address for new links. If `nil`, new links use `address`.
  package func hide(_ privacy: HostPrivacy?) { withHost { $0.hide(privacy) } }
  package var bondStore: (any BondStore)? { security.settings?.store }
  package func makeIdentity() -> DeviceIdentity? { security.settings?.identity(as: address) }

  /// Turns advertising off.
  package func stopAdvertising() async throws(HostError) {
    guard isAdvertising else { return }
    if controller.hasAdvertisingSets {
      try await command(LESetExtendedAdvertisingEnable.allOff)
    } else {
      try await command(LESetAdvertisingEnable(.off))
    }
  }

  func note(_ handle: ConnectionHandle, _ value: LinkChange.Value) {
    carriers[handle]?.client?.changed(LinkChange(time: loop.clock.now(), value: value))
  }
}

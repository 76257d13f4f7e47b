import BLELinux
import BLEStack
import BLEWire

/// The HCI raw channel of a kernel adapter. Sends commands in addition to the kernel's commands, and receives
/// all events.
///
/// Replies are matched by opcode. Other events are delivered while a command waits. Requires CAP_NET_RAW.
actor RawChannel {
  /// Time limit for a reply. Controllers respond within milliseconds. The kernel also times out after two
  /// seconds.
  static let commandTimeout = Duration.seconds(2)
  private static let slabSlots = 32
  /// Maximum number of slabs per turn. Between turns the loop can run its jobs, such as stopping the scan,
  /// even if more packets arrive.
  private static let turnLimit = 8
  /// Maximum number of consecutive receive calls that fail for lack of memory. Each call is retried.
  private static let shortageLimit = 1000

  /// The scan commands in use. Legacy and extended commands must not be mixed on one controller.
  enum ScanCommands: Hashable, Sendable {
    case legacy, extended
  }

  private struct PendingCommand {
    let opcode: HCIOpcode
    let deadline: MonotonicTime
    let answer: OneShot<Result<[UInt8], HostError>>
  }

  private struct Scan {
    let commands: ScanCommands
    let kind: ScanKind
    let timing: ScanTiming
    let duplicates: DuplicateFilter
    let sink: Adapter.ReportSink
  }

  nonisolated let info: AdapterInfo
  nonisolated let loop: EventLoop
  nonisolated var unownedExecutor: UnownedSerialExecutor { loop.executor }

  private let descriptor: FileDescriptor
  private var token: UInt64?
  /// `false` once the adapter was removed or the channel was closed.
  var isOpen: Bool { token != nil }
  private var slab: ReceiveSlab
  private var pending: [PendingCommand] = []
  private var scan: Scan?
  /// Sink for the reports that arrive between the command to stop a scan and the controller's confirmation.
  private var endingSink: Adapter.ReportSink?
  private var interruption = ScanInterruption()
  private var resuming: Task<Void, Never>?
  private let note: @Sendable (String) -> Void
  private var links = LinkTable()
  private var lossHandler: (@Sendable () -> Void)?
  private var observer: ControllerObserver?
  private var assembler = AdvertisingReportAssembler()
  /// Number of malformed events and reports.
  private(set) var malformed = 0
  var unfinishedReports: Int { assembler.unfinished }
  private(set) var lastMalformed: WireError?
  private var shortagesInARow = 0

  /// Opens the raw channel of an adapter that is up.
  ///
  /// - Parameter note: receives messages for the user about a scan, one line each, on the receive thread.
  /// - Throws: `notPermitted` without CAP_NET_RAW, otherwise the kernel's error.
  static func open(
    _ info: AdapterInfo, on loop: EventLoop, note: @escaping @Sendable (String) -> Void
  ) async throws(HostError) -> RawChannel {
    guard ProcessFacts.has(.netRaw) else {
      throw .notPermitted(action: "the HCI raw channel", capability: "CAP_NET_RAW")
    }
    let descriptor: FileDescriptor
    do throws(SystemError) { descriptor = try HCISocket.openRaw(index: info.index) } catch {
      throw HostError(error)
    }
    return try await adopt(descriptor, of: info, on: loop, note: note)
  }

  /// Creates a channel from an open socket.
  static func adopt(
    _ descriptor: consuming FileDescriptor, of info: AdapterInfo, on loop: EventLoop,
    note: @escaping @Sendable (String) -> Void
  ) async throws(HostError) -> RawChannel {
    let channel: RawChannel
    do throws(SystemError) { channel = try RawChannel(descriptor, info, loop, note) } catch {
      throw HostError(error)
    }
    try await channel.start()
    return channel
  }

  private init(
    _ descriptor: consuming FileDescriptor, _ info: AdapterInfo, _ loop: EventLoop,
    _ note: @escaping @Sendable (String) -> Void
  ) throws(SystemError) {
    self.info = info
    self.loop = loop
    self.note = note
    slab = try ReceiveSlab(slots: Self.slabSlots, slotByteCount: 1 + HCICommandPacket.maximumByteCount)
    self.descriptor = descriptor
  }

  private func start() throws(HostError) {
    do throws(SystemError) {
      let source = ActorSource { _ in
        self.drain()
      } deadline: {
        self.nextDeadline
      } expired: {
        self.expire($0)
      } stopped: {
        self.close()
      }
      token = try loop.add(source, descriptor, for: .readable)
    } catch { throw HostError(error) }
  }

  func onLost(_ body: @escaping @Sendable () -> Void) {
    if token == nil { body() } else { lossHandler = body }
  }

  /// Sets the observer of all packets; `nil` removes it.
  func tell(_ observer: ControllerObserver?) { self.observer = observer }

  /// Releases the adapter. The caller must stop a scan first.
  func close() { release(.gatt(.closed(.closedLocally))) }

  // MARK: Commands

  /// Sends a command and waits for its Command Complete or Command Status.
  ///
  /// - Returns: The return parameters after the status byte.
  /// - Throws: `commandRefused` with the controller's status, `commandTimedOut` after 2 s, `adapterDown`.
  @discardableResult
  func command(_ command: any HCICommand) async throws(HostError) -> [UInt8] {
    try post(command)
    let answer = OneShot<Result<[UInt8], HostError>>()
    let deadline = SystemClock.monotonic().advanced(by: Self.commandTimeout)
    pending.append(PendingCommand(opcode: type(of: command).opcode, deadline: deadline, answer: answer))
    return try await answer.get()
  }

  /// Sends a command without waiting for its reply.
  func post(_ command: any HCICommand) throws(HostError) {
    let opcode = type(of: command).opcode
    guard token != nil else { throw .adapterDown(info.name) }
    let parameters = [UInt8](encoding: 255) { command.encodeParameters(into: &$0) }
    let packet = [UInt8](encoding: 1 + HCICommandPacket.maximumByteCount) {
      $0.append(HCIPacketType.command.rawValue)
      HCICommandPacket(opcode: opcode, parameters: parameters.span).encode(into: &$0)
    }
    do throws(SystemError) { try descriptor.sendCommand(packet.span) } catch {
      throw failure(error)
    }
  }

  private func failure(_ error: SystemError) -> HostError {
    switch error.condition {
    case .adapterGone: .adapterDown(info.name)
    case .notPermitted: .notPermitted(action: "an LE command on the raw channel", capability: "CAP_NET_RAW")
    default: HostError(error)
    }
  }

  private func complete(_ opcode: HCIOpcode, _ result: Result<[UInt8], HostError>) {
    guard let index = pending.firstIndex(where: { $0.opcode == opcode }) else {
      if case .failure = result { interruption.takeFailure(of: opcode) }
      return
    }
    pending.remove(at: index).answer.set(result)
  }

  // MARK: Scanning

  /// Starts a scan, which passes each report to `sink` on the receive thread.
  ///
  /// Uses the same commands as the kernel on this controller: extended commands if the controller supports
  /// both extended scan commands (as `use_ext_scan` in the kernel's `hci_core.h`), otherwise legacy commands.
  /// The kernel turns the scan off when a program connects; the channel turns the scan on again as soon as
  /// the attempt has ended.
  ///
  /// - Throws: `scanBusy` if another program scans or the kernel is connecting.
  func startScan(
    _ kind: ScanKind, timing: ScanTiming, duplicates: DuplicateFilter,
    _ sink: @escaping Adapter.ReportSink
  ) async throws(HostError) {
    guard scan == nil else { throw .scanBusy(holder: "this program") }
    let supported = try await command(ReadLocalSupportedCommands())
    let commands: ScanCommands =
      supported.count > 37 && supported[37] & 0x60 == 0x60 ? .extended : .legacy
    let scan = Scan(commands: commands, kind: kind, timing: timing, duplicates: duplicates, sink: sink)
    assembler.reset()
    interruption = ScanInterruption()
    self.scan = scan
    do throws(HostError) { try await switchOn(scan) } catch {
      self.scan = nil
      // Even if the reply timed out, the scan may be on.
      if case .commandTimedOut = error { try? await switchOff(commands) }
      if case .commandRefused(_, .commandDisallowed) = error { throw .scanBusy(holder: HostError.daemon) }
      throw error
    }
  }

  /// Turns scanning off and waits for the controller's confirmation. Does nothing if scanning is off.
  func stopScan() async throws(HostError) {
    // The kernel's commands that wait in the socket determine whether the current scan is this channel's
    // scan.
    drain()
    guard let commands = scan?.commands else { return }
    endingSink = scan?.sink
    defer { endingSink = nil }
    scan = nil
    await resuming?.value
    if let began = interruption.began { tellInterruption(since: began) }
    if interruption.isOthersTurn { return }
    do throws(HostError) {
      try await switchOff(commands)
    } catch {
      // Another program has already turned the scan off.
      if case .commandRefused(_, .commandDisallowed) = error { return }
      throw error
    }
  }

  private func switchOn(_ scan: Scan) async throws(HostError) {
    if scan.commands == .extended {
      try await command(LESetExtendedScanParameters(kind: scan.kind, timing: scan.timing))
      try await command(LESetExtendedScanEnable(scan.duplicates))
    } else {
      try await command(LESetScanParameters(kind: scan.kind, timing: scan.timing))
      try await command(LESetScanEnable(scan.duplicates))
    }
  }

  /// Turns an interrupted scan on again. If this fails or is interrupted, retries a little later. First turns
  /// the scan off, because the controller refuses parameters while a scan is on.
  private func resumeScan() async {
    guard let scan, let began = interruption.began else { return }
    let before = interruption
    try? await switchOff(scan.commands)
    guard self.scan != nil, interruption == before else { return }
    do throws(HostError) { try await switchOn(scan) } catch { return }
    guard self.scan != nil, interruption == before else { return }
    interruption = ScanInterruption()
    tellInterruption(since: began)
  }

  private func tellInterruption(since began: MonotonicTime) {
    let milliseconds = Int(began.duration(to: SystemClock.monotonic()) / .milliseconds(1))
    note(
      "the scan was off for \(milliseconds) ms: the adapter connected to a device, or another program "
        + "scanned")
  }

  private func switchOff(_ commands: ScanCommands) async throws(HostError) {
    if commands == .extended {
      try await command(LESetExtendedScanEnable(nil))
    } else {
      try await command(LESetScanEnable(nil))
    }
  }

  // MARK: Links

  /// Subscribes a bearer to the controller's events for its link.
  func watch(for carrier: SocketCarrier) {
    carrier.watch = LinkWatch {
      self.links.watch($0, $1)
    } reason: {
      self.drain()
      return self.links.reason($0)
    } end: {
      self.links.release($0)
    }
  }

  /// Returns the timing in force on a link, or `nil` if the link came up before this channel was opened.
  func timing(_ handle: ConnectionHandle) -> LinkParameters? { links.timing(handle) }

  func facts(_ handle: ConnectionHandle) async throws(HostError) -> LinkFacts {
    var facts = links.facts(handle)
    let returned = try await command(ReadRSSI(handle))
    do throws(WireError) { facts.rssi = try ReadRSSI.Reply(validating: returned.span).rssi } catch {
      throw .malformedReply(error)
    }
    return facts
  }

  // MARK: The receive thread

  private var nextDeadline: MonotonicTime? {
    .earliest(pending.lazy.map(\.deadline).min(), scan == nil ? nil : interruption.resumption)
  }

  private func expire(_ now: MonotonicTime) {
    for command in pending where command.deadline <= now {
      complete(command.opcode, .failure(.commandTimedOut(command.opcode)))
    }
    if scan != nil, let resumption = interruption.resumption, resumption <= now {
      interruption.postpone(at: now)
      resuming = Task { await resumeScan() }
    }
  }

  /// Processes queued packets, up to `turnLimit` slabs. The loop calls this method again if more are queued.
  func drain() {
    do throws(SystemError) {
      for _ in 0..<Self.turnLimit where token != nil {
        let count = try slab.receive(from: descriptor)
        shortagesInARow = 0
        for index in 0..<count {
          do throws(WireError) {
            try take(slab.datagram(index), slab.time(index) ?? SystemClock.now())
          } catch {
            malformed += 1
            lastMalformed = error
          }
        }
        if count < slab.slots { return }
      }
    } catch {
      // The loop calls this again while packets are queued.
      if error.condition == .noMemory, shortagesInARow < Self.shortageLimit {
        shortagesInARow += 1
        return
      }
      release(failure(error))
    }
  }

  private func take(_ packet: Span<UInt8>, _ time: ReceiveTime) throws(WireError) {
    try packet.require(1, .h4)
    observer?.heard(packet)
    if packet[0] == HCIPacketType.command.rawValue, scan != nil {
      interruption.take(
        try HCICommandPacket(validating: packet.extracting(1...)), at: SystemClock.monotonic())
    }
    guard packet[0] == HCIPacketType.event.rawValue else { return }
    let event = try HCIEventPacket(validating: packet.extracting(1...))
    try links.take(event, at: time)
    switch event.code {
    case .commandComplete:
      let reply = try CommandComplete(validating: event.parameters)
      if reply.opcode.rawValue != 0 { answer(reply.opcode, reply.returnParameters) }
    case .commandStatus:
      let reply = try CommandStatus(validating: event.parameters)
      complete(
        reply.opcode,
        reply.status == .success ? .success([]) : .failure(.commandRefused(reply.opcode, reply.status)))
    case .leMeta:
      guard let sink = scan?.sink ?? endingSink else { return }
      try event.parameters.require(1, .hciEvent)
      switch LESubevent(rawValue: event.parameters[0]) {
      case .connectionComplete, .enhancedConnectionComplete:
        interruption.takeConnectionComplete(at: SystemClock.monotonic())
      case .advertisingReport, .extendedAdvertisingReport:
        try AdvertisingReports(validating: event.parameters).forEach { report in
          assembler.take(report) { sink($0, time) }
        }
      default: break
      }
    default: break
    }
  }

  private func answer(_ opcode: HCIOpcode, _ parameters: Span<UInt8>) {
    guard !parameters.isEmpty else {
      complete(opcode, .success([]))
      return
    }
    let status = HCIStatus(rawValue: parameters[0])
    complete(
      opcode,
      status == .success
        ? .success([UInt8](encoding: parameters.count) { $0.append(parameters.extracting(1...)) })
        : .failure(.commandRefused(opcode, status)))
  }

  private func release(_ error: HostError) {
    guard let token else { return }
    self.token = nil
    loop.remove(token, descriptor)
    for command in pending { command.answer.set(.failure(error)) }
    pending = []
    lossHandler.take()?()
    observer.take()?.lost(error)
  }
}

/// Requests link parameters that the kernel does not request itself, by sending LE commands for the link's
/// handle on the raw channel.
///
/// The kernel adopts the new parameters: it processes the controller's events as if it had sent the commands
/// itself. See reference `linux-bluetooth-kernel.md`, 12.
struct LinkParameterControl {
  let channel: RawChannel?
  /// Reason why the raw channel is not available.
  private let refusal: HostError?

  init(_ channel: RawChannel?, _ refusal: HostError?) {
    self.channel = channel
    self.refusal = refusal
  }

  func ask(_ request: LinkRequest, of connection: Connection) async {
    let handle = connection.handle
    if let timing = request.timing { await changeTiming(to: timing, of: connection) }
    if let phy = request.phy { await ask(.phy, of: connection, LESetPHY(handle, phy)) }
    if let octets = request.dataLength {
      await ask(.dataLength, of: connection, LESetDataLength(handle, octets: octets))
    }
  }

  /// Changes the timing. When the connection closes, restores the earlier timing unless the peer has changed
  /// it since, because other programs may keep the link up.
  private func changeTiming(to range: LinkParameterRange, of connection: Connection) async {
    let handle = connection.handle
    let current = await channel?.timing(handle)
    let former = await connection.firstTiming(current)
    guard await ask(.timing, of: connection, LEConnectionUpdate(handle, range)),
      let channel, let former, !range.contains(former)
    else { return }
    await connection.onClose {
      guard let current = await channel.timing(handle), range.contains(current) else { return }
      // May fail if the adapter was removed. Nothing must then be restored.
      try? await channel.post(LEConnectionUpdate(handle, LinkParameterRange(former)))
    }
  }

  @discardableResult
  private func ask(
    _ part: LinkRequest.Part, of connection: Connection, _ command: any HCICommand
  ) async -> Bool {
    do throws(HostError) {
      guard let channel else { throw refusal ?? .adapterDown("the adapter") }
      // Another link may have the same handle by now.
      if let end = await connection.end { throw .gatt(.closed(end)) }
      await connection.noteAsking(for: part)
      try await channel.command(command)
      return true
    } catch {
      await connection.note(LinkChange(time: SystemClock.now(), value: .refused(part, error)))
      return false
    }
  }
}

extension LinkParameterRange {
  /// Returns whether a link with this timing meets the request.
  func contains(_ timing: LinkParameters) -> Bool {
    (minimumInterval...maximumInterval).contains(timing.interval) && timing.latency == latency
      && timing.supervisionTimeout == supervisionTimeout
  }

  /// Creates the range that contains exactly this timing.
  fileprivate init(_ timing: LinkParameters) {
    self.init(
      minimumInterval: timing.interval, maximumInterval: timing.interval, latency: timing.latency,
      supervisionTimeout: timing.supervisionTimeout)
  }
}

/// A raw channel's callbacks for the link of one bearer. The closures are isolated to the channel's actor.
/// The bearer calls them on the thread of the actor's event loop.
final class LinkWatch {
  /// Subscribes to a link: reports its current state, then each change.
  let begin: (ConnectionHandle, @escaping (LinkChange) -> Void) -> Void
  /// Returns the reason why the link ended, or `nil` if it is up. First processes the channel's queued
  /// packets, because the kernel queues an event on the channel before it acts on the event.
  let reason: (ConnectionHandle) -> HCIStatus?
  let end: (ConnectionHandle) -> Void

  init(
    begin: @escaping (ConnectionHandle, @escaping (LinkChange) -> Void) -> Void,
    reason: @escaping (ConnectionHandle) -> HCIStatus?, end: @escaping (ConnectionHandle) -> Void
  ) {
    self.begin = begin
    self.reason = reason
    self.end = end
  }
}

/// State of an adapter's links, collected from its events.
struct LinkTable {
  /// Maximum number of changes to keep per link: the first and the latest changes.
  private static let changeLimit = 64

  private struct Link {
    /// Changes since the link came up, for a caller that connects to an existing link.
    var changes: [LinkChange] = []
    var observer: ((LinkChange) -> Void)?
    var reason: HCIStatus?
    var facts = LinkFacts()
  }

  private var links: [ConnectionHandle: Link] = [:]

  /// Processes an event of a link; ignores other events.
  mutating func take(_ event: borrowing HCIEventPacket, at time: ReceiveTime) throws(WireError) {
    if event.code == .disconnectionComplete {
      let end = try DisconnectionComplete(validating: event.parameters)
      guard end.status == .success else { return }
      if links[end.handle]?.observer == nil {
        links[end.handle] = nil
      } else {
        links[end.handle]?.reason = end.reason
      }
      return
    }
    if event.code == .readRemoteVersionComplete {
      let answer = try ReadRemoteVersionComplete(validating: event.parameters)
      if answer.status == .success { links[answer.handle]?.facts.version = answer.version }
      return
    }
    guard event.code == .leMeta, !event.parameters.isEmpty else { return }
    switch LESubevent(rawValue: event.parameters[0]) {
    case .connectionComplete, .enhancedConnectionComplete:
      let complete = try LEConnectionComplete(validating: event.parameters)
      guard complete.status == .success else { return }
      links[complete.handle] = Link()
      note(complete.handle, .timing(complete.parameters), time)
    case .connectionUpdateComplete:
      let update = try LEConnectionUpdateComplete(validating: event.parameters)
      if update.status == .success { note(update.handle, .timing(update.parameters), time) }
    case .dataLengthChange:
      let change = try LEDataLengthChange(validating: event.parameters)
      note(
        change.handle, .dataLength(transmit: change.transmitOctets, receive: change.receiveOctets), time)
    case .phyUpdateComplete:
      let update = try LEPHYUpdateComplete(validating: event.parameters)
      if update.status == .success {
        note(update.handle, .phy(transmit: update.transmit, receive: update.receive), time)
      }
    case .readRemoteFeaturesComplete:
      let answer = try LEReadRemoteFeaturesComplete(validating: event.parameters)
      if answer.status == .success { links[answer.handle]?.facts.features = answer.features }
    default: break
    }
  }

  private mutating func note(
    _ handle: ConnectionHandle, _ value: LinkChange.Value, _ time: ReceiveTime
  ) {
    let change = LinkChange(time: time, value: value)
    if links[handle]?.changes.count == Self.changeLimit { links[handle]?.changes.remove(at: 1) }
    links[handle, default: Link()].changes.append(change)
    links[handle]?.observer?(change)
  }

  mutating func watch(_ handle: ConnectionHandle, _ observer: @escaping (LinkChange) -> Void) {
    for change in links[handle]?.changes ?? [] { observer(change) }
    links[handle, default: Link()].observer = observer
  }

  func facts(_ handle: ConnectionHandle) -> LinkFacts { links[handle]?.facts ?? LinkFacts() }

  func reason(_ handle: ConnectionHandle) -> HCIStatus? { links[handle]?.reason }

  /// Returns the timing in force, or `nil` if the link came up before the channel was opened.
  func timing(_ handle: ConnectionHandle) -> LinkParameters? {
    LinkState(after: links[handle]?.changes ?? []).timing
  }

  mutating func release(_ handle: ConnectionHandle) {
    links[handle]?.observer = nil
    if links[handle]?.reason != nil { links[handle] = nil }
  }
}

public import BLEWire

/// An LE host for an HCI transport, as central and peripheral. Its owner passes in packets and the time, and
/// takes out packets and events. The host does no I/O.
///
/// It initialises the controller, tracks command and data credits, keeps the table of links, reassembles
/// L2CAP frames, and responds on the signalling channel. To scan, connect or advertise, its owner submits
/// commands.
///
/// ```swift
/// host.start()
/// while let packet = host.nextPacket(now: now) { /* write it */ }
/// try host.receive(packet, now: now, report: { … }, attribute: { handle, pdu in … })
/// for event in host.takeEvents() { … }
/// ```
public struct HCIHost: ~Copyable {
  /// Number of ACL packets to buffer for unknown links while a connection attempt is in progress. With USB,
  /// the first data of a link may arrive before its connection event.
  public static let heldBackLimit = 16
  /// Number of resets of a failing controller that are tried within `resetPeriod`; the next failure ends the
  /// host.
  public static let resetLimit = 5
  public static let resetPeriod = Duration.seconds(60)

  enum State: Equatable {
    case idle, starting, ready
    case failed(HCIHostFailure)
  }

  var state = State.idle
  var commands = HCICommandQueue()
  var acl = ACLQueue()
  var startUp = ControllerStartUp()
  var startUpCommand: CommandID?
  /// The controller's description from before a reset, while it is initialised again.
  private var known: ControllerDescription?
  /// Times of the resets within the last `resetPeriod`.
  private var resets: [MonotonicTime] = []
  /// Links of the commands that the host submitted itself.
  var ownCommands: [CommandID: ConnectionHandle] = [:]
  var links: [ConnectionHandle: HCILink] = [:]
  /// Whether a Create Connection was sent whose Connection Complete has not arrived.
  var isConnecting = false
  /// Whether advertising was enabled and no central has connected since.
  public internal(set) var isAdvertising = false
  var heldBack: [(handle: ConnectionHandle, packet: [UInt8])] = []
  var assembler = AdvertisingReportAssembler()
  /// Whether a link is pairing or was recently. If not, pairing deadlines are not checked.
  var hasPairings = false
  var takesSecurityRequests = false
  var responder: PairingResponder?
  var privacy: HostPrivacy?
  var attempts = RepeatedAttempts()
  /// Links of the commands that detect a restarted controller. Such a controller has lost its links and
  /// responds with Unknown Connection Identifier.
  var probes: [CommandID: ConnectionHandle] = [:]
  /// Time of the last `probe`.
  var probedAt: MonotonicTime?
  /// Links of the LE Enable Encryption commands.
  var encryptions: [CommandID: ConnectionHandle] = [:]
  var events: [HCIHostEvent] = []
  var counts = HCIHostStatistics()
  public internal(set) var lastMalformed: WireError?

  public init() {}

  public var controller: ControllerDescription { known ?? startUp.description }

  /// Counts of dropped and unexpected packets since the start.
  public var statistics: HCIHostStatistics {
    var all = counts
    all.strayCompletions = acl.strayCompletions
    all.droppedReports = assembler.dropped
    return all
  }

  /// Number of malformed packets.
  public var malformed: Int { counts.malformed }
  /// Number of long advertisements that are incomplete.
  public var unfinishedReports: Int { assembler.unfinished }
  /// Number of data packets that belong to no link.
  public var strayData: Int { counts.strayData }

  // MARK: Down to the controller

  /// Resets and initialises the controller. The event `ready` or `failed` reports the result.
  public mutating func start() {
    precondition(state == .idle, "a host is started once")
    state = .starting
    submitStartUp()
  }

  /// Queues a command. The event `answered` reports the result.
  ///
  /// - Returns: `nil` if the host is not ready or the command queue is full.
  public mutating func submit<Command: HCICommand>(_ command: Command) -> CommandID? {
    guard state == .ready else { return nil }
    let opcode = Command.opcode
    switch opcode {
    case .leCreateConnection, .leExtendedCreateConnection: isConnecting = true
    // Fragments from an earlier scan are never continued.
    case .leSetExtendedScanEnable: assembler.reset()
    default: break
    }
    return submit(opcode) { command.encodeParameters(into: &$0) }
  }

  /// Number of links that are up.
  public var linkCount: Int { links.count }

  /// Queues an ATT PDU.
  ///
  /// - Returns: `false` if the link has ended or its queue is full.
  public mutating func send(_ pdu: Span<UInt8>, on handle: ConnectionHandle) -> Bool {
    acl.append(pdu, channelID: ATT.channelID, to: handle)
  }

  /// Number of fragments of a link that have not been sent to the controller yet.
  public func waitingFragments(_ handle: ConnectionHandle) -> Int { acl.waiting(handle) }

  /// Number of fragments of all links that were sent to the controller but not yet reported as transmitted.
  package var fragmentsUnderWay: Int { acl.underWay }

  /// The next packet for the transport, preceded by its H4 type byte. After any other call, call this until
  /// it returns `nil`.
  public mutating func nextPacket(now: MonotonicTime) -> [UInt8]? {
    if case .failed = state { return nil }
    if let command = commands.next(now: now) { return command }
    return acl.next()
  }

  mutating func submit(
    _ opcode: HCIOpcode, _ parameters: (inout OutputSpan<UInt8>) -> Void
  ) -> CommandID? {
    let octets = [UInt8](encoding: 255, parameters)
    if opcode == .leSetAdvertisingEnable || opcode == .leSetExtendedAdvertisingEnable {
      isAdvertising = octets.first == AdvertisingState.on.rawValue
    }
    let id = commands.submit(opcode, parameters: octets.span)
    if let id, opcode == .disconnect || opcode == .readRSSI {
      probes[id] = ConnectionHandle(octets.span.u16(at: 0))
    }
    return id
  }

  /// Closes a link that was not requested. A response that the link is unknown does not count as a restart of
  /// the controller.
  public mutating func decline(_ handle: ConnectionHandle) {
    if let id = submit(Disconnect(handle)) { probes[id] = nil }
  }

  /// Reads the RSSI of a link to check that the controller has not restarted and lost it. At most once per
  /// second.
  mutating func probe(now: MonotonicTime) {
    guard let handle = links.keys.first, probedAt.map({ $0.duration(to: now) >= .seconds(1) }) ?? true else {
      return
    }
    probedAt = now
    _ = submitOwn(ReadRSSI(handle), for: handle)
  }

  /// Submits a command whose response is not reported to the owner.
  ///
  /// - Returns: `false` if the command queue is full.
  mutating func submitOwn(_ command: some HCICommand, for handle: ConnectionHandle) -> Bool {
    guard let id = submit(command) else { return false }
    ownCommands[id] = handle
    return true
  }

  mutating func submitStartUp() {
    guard let step = startUp.next else {
      state = .ready
      known = nil
      acl.configure(
        byteCount: controller.aclByteCount, packetCount: controller.aclPacketCount)
      events.append(.ready(controller))
      return
    }
    startUpCommand = submit(step.opcode, step.encode)
  }

  // MARK: Up from the controller

  /// Returns the events since the last call, in order.
  public mutating func takeEvents() -> [HCIHostEvent] {
    defer { events = [] }
    return events
  }

  /// Processes one packet of the controller, preceded by its H4 type byte.
  ///
  /// - Parameters:
  ///   - packet: as the controller sent it.
  ///   - now: start of any time limits.
  ///   - report: called with each advertising report, reassembled if it arrived in fragments.
  ///   - attribute: called with each ATT PDU, in place if it arrived in one fragment.
  /// - Throws: If the packet is dropped. It is counted, and the host stays usable.
  public mutating func receive(
    _ packet: Span<UInt8>, now: MonotonicTime, report: (borrowing AdvertisingReport) -> Void,
    attribute: (ConnectionHandle, Span<UInt8>) -> Void
  ) throws(WireError) {
    do throws(WireError) {
      try packet.require(1, .h4)
      let body = packet.extracting(1...)
      switch HCIPacketType(rawValue: packet[0]) {
      case .event: try take(try HCIEventPacket(validating: body), now, report, attribute)
      case .acl: try take(try ACLPacket(validating: body), packet, now, attribute)
      // Synchronous data packets belong to link types that an LE host does not have.
      case .sco, .iso: counts.strayData += 1
      default: throw WireError(.h4, offset: 0, .invalidValue(UInt32(packet[0])))
      }
    } catch {
      counts.malformed += 1
      lastMalformed = error
      throw error
    }
  }

  // MARK: Time and ends

  /// When to call `expire`.
  public var deadline: MonotonicTime? {
    var earliest = commands.deadline
    if hasPairings {
      for link in links.values { earliest = .earliest(earliest, link.pairing?.deadline) }
    }
    return earliest
  }

  /// Handles timeouts. If a command has timed out, the host fails.
  public mutating func expire(now: MonotonicTime) {
    if let opcode = commands.expired(now: now) { fail(.commandTimedOut(opcode)) }
    for link in links.values { expirePairing(of: link, now) }
  }

  /// Ends the host. Call this when the transport has ended or must not be used any more.
  public mutating func lose() { fail(.transportLost) }

  mutating func fail(_ failure: HCIHostFailure) {
    if case .failed = state { return }
    state = .failed(failure)
    forget(reason: .unspecifiedError)
    events.append(.failed(failure))
  }

  /// Resets and initialises a failed controller, like the kernel's host (`hci_error_reset`). All links end.
  mutating func restart(_ cause: HCIHostFailure, now: MonotonicTime) {
    if case .failed = state { return }
    resets.removeAll { $0.duration(to: now) >= Self.resetPeriod }
    guard resets.count < Self.resetLimit else { return fail(cause) }
    resets.append(now)
    counts.resets += 1
    known = controller
    forget(reason: .hardwareFailure)
    state = .starting
    startUp = ControllerStartUp()
    events.append(.restarting(cause))
    submitStartUp()
  }

  /// Clears all state that depends on the controller.
  private mutating func forget(reason: HCIStatus) {
    for (handle, link) in links {
      losePairing(of: link, nil)
      events.append(.disconnected(handle, reason: reason))
    }
    links = [:]
    (isConnecting, isAdvertising) = (false, false)
    heldBack = []
    assembler.reset()
    commands.reset()
    ownCommands = [:]
    encryptions = [:]
    probes = [:]
    acl.reset()
  }
}

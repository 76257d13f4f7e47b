public import BLEWire

/// An LE host above an HCI transport, central and peripheral: packets and time in, packets and events out, no I/O.
///
/// It starts the controller up, keeps command and data credits, holds the table of links, puts L2CAP frames
/// together, and answers the signalling channel. Scanning, connecting and advertising are commands that its owner submits.
///
/// ```swift
/// host.start()
/// while let packet = host.nextPacket(now: now) { /* write it */ }
/// try host.receive(packet, now: now, report: { … }, attribute: { handle, pdu in … })
/// for event in host.takeEvents() { … }
/// ```
public struct HCIHost: ~Copyable {
  /// ACL packets for links that are not known yet, while one may come up: with USB the first data may overtake
  /// the event that announces its link.
  public static let heldBackLimit = 16
  /// Resets of a controller that failed, within `resetPeriod`. After them it is given up.
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
  /// What the controller is, while it starts up again.
  private var known: ControllerDescription?
  /// When the controller was reset because it failed; those of the last `resetPeriod`.
  private var resets: [MonotonicTime] = []
  /// Commands of the host's own, by the link that they are for.
  var ownCommands: [CommandID: ConnectionHandle] = [:]
  var links: [ConnectionHandle: HCILink] = [:]
  /// A Create Connection was sent, and no Connection Complete has come.
  var isConnecting = false
  /// Advertising was switched on, and no central has come since.
  public internal(set) var isAdvertising = false
  var heldBack: [(handle: ConnectionHandle, packet: [UInt8])] = []
  var assembler = AdvertisingReportAssembler()
  /// Some link pairs, or did a moment ago. Without, nothing is looked for.
  var hasPairings = false
  var takesSecurityRequests = false
  var responder: PairingResponder?
  var privacy: HostPrivacy?
  var attempts = RepeatedAttempts()
  /// Commands that a controller refuses with Unknown Connection Identifier if it has started again and does not know the link
  /// any more.
  var probes: [CommandID: ConnectionHandle] = [:]
  /// When a link was last asked about because the controller said something of its own.
  var probedAt: MonotonicTime?
  /// LE Enable Encryption, by the link that it is for.
  var encryptions: [CommandID: ConnectionHandle] = [:]
  var events: [HCIHostEvent] = []
  var counts = HCIHostStatistics()
  public internal(set) var lastMalformed: WireError?

  public init() {}

  public var controller: ControllerDescription { known ?? startUp.description }

  /// What was dropped or had no place, since the start.
  public var statistics: HCIHostStatistics {
    var all = counts
    all.strayCompletions = acl.strayCompletions
    all.droppedReports = assembler.dropped
    return all
  }

  /// Packets that broke the format.
  public var malformed: Int { counts.malformed }
  /// Long advertisements that have not come whole.
  public var unfinishedReports: Int { assembler.unfinished }
  /// Data that belong to no link.
  public var strayData: Int { counts.strayData }

  // MARK: Down to the controller

  /// Resets the controller and brings it up; ends with the event `ready` or `failed`.
  public mutating func start() {
    precondition(state == .idle, "a host is started once")
    state = .starting
    submitStartUp()
  }

  /// Queues a command; ends with the event `answered`.
  ///
  /// - Returns: `nil` where the host is not ready, or far too many commands wait.
  public mutating func submit<Command: HCICommand>(_ command: Command) -> CommandID? {
    guard state == .ready else { return nil }
    let opcode = Command.opcode
    switch opcode {
    case .leCreateConnection, .leExtendedCreateConnection: isConnecting = true
    // What is left of an earlier scan does not continue.
    case .leSetExtendedScanEnable: assembler.reset()
    default: break
    }
    return submit(opcode) { command.encodeParameters(into: &$0) }
  }

  /// Links that are up.
  public var linkCount: Int { links.count }

  /// Queues an ATT PDU.
  ///
  /// - Returns: `false` where the link is gone, or far too much waits for the controller.
  public mutating func send(_ pdu: Span<UInt8>, on handle: ConnectionHandle) -> Bool {
    acl.append(pdu, channelID: ATT.channelID, to: handle)
  }

  /// Fragments of a link that wait for the controller: how far its owner is ahead.
  public func waitingFragments(_ handle: ConnectionHandle) -> Int { acl.waiting(handle) }

  /// Fragments that the controller has and has not reported sent, of all links.
  package var fragmentsUnderWay: Int { acl.underWay }

  /// The next packet for the transport, H4 type octet first. Call it until it gives none, after everything else.
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

  /// Ends a link that nobody asked for: that the controller does not know it proves nothing.
  public mutating func decline(_ handle: ConnectionHandle) {
    if let id = submit(Disconnect(handle)) { probes[id] = nil }
  }

  /// Asks the controller about a link, as it may have started again and know it no more: once a second at most.
  mutating func probe(now: MonotonicTime) {
    guard let handle = links.keys.first, probedAt.map({ $0.duration(to: now) >= .seconds(1) }) ?? true else {
      return
    }
    probedAt = now
    _ = submitOwn(ReadRSSI(handle), for: handle)
  }

  /// A command whose answer is nobody's business but the host's.
  ///
  /// - Returns: `false` where far too many commands wait.
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

  /// Events since the last call, in order.
  public mutating func takeEvents() -> [HCIHostEvent] {
    defer { events = [] }
    return events
  }

  /// Takes one packet of the controller, H4 type octet first.
  ///
  /// - Parameters:
  ///   - packet: as the controller sent it.
  ///   - now: deadlines count from here.
  ///   - report: gets each advertising report, put together where it came in fragments.
  ///   - attribute: gets each ATT PDU, in place where it came in one fragment.
  /// - Throws: for a packet that is dropped; it is counted, and the host goes on.
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
      // Synchronous data belong to links that an LE host does not have.
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

  /// When `expire` is wanted.
  public var deadline: MonotonicTime? {
    var earliest = commands.deadline
    if hasPairings {
      for link in links.values { earliest = .earliest(earliest, link.pairing?.deadline) }
    }
    return earliest
  }

  /// Where a command's time is over, the controller is given up.
  public mutating func expire(now: MonotonicTime) {
    if let opcode = commands.expired(now: now) { fail(.commandTimedOut(opcode)) }
    for link in links.values { expirePairing(of: link, now) }
  }

  /// The transport ended, or must not be used any more.
  public mutating func lose() { fail(.transportLost) }

  mutating func fail(_ failure: HCIHostFailure) {
    if case .failed = state { return }
    state = .failed(failure)
    forget(reason: .unspecifiedError)
    events.append(.failed(failure))
  }

  /// Resets a controller that has failed and brings it up again, as the kernel's host does (`hci_error_reset`). All links
  /// are gone.
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

  /// Drops what belonged to the controller as it was.
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

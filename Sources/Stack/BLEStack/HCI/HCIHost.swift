public import BLEWire

/// An LE host for an HCI transport, as central and peripheral. Its owner passes in packets and the time, and
/// takes out packets and events. The host does no I/O.
///
/// The host initialises the controller, tracks command and data credits, keeps the table of links,
/// reassembles L2CAP frames, and responds on the signalling channel. To scan, connect or advertise, the owner
/// submits commands.
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
  /// Maximum number of resets of a failing controller within `resetPeriod`. If the controller fails again,
  /// the host ends.
  public static let resetLimit = 5
  public static let resetPeriod = Duration.seconds(60)

  enum State: Equatable {
    case idle, starting, ready
    case failed(HCIHostFailure)
  }

  var state = State.idle
  var commands = HCICommandQueue()
  var acl = ACLQueue()
  private var startUp = ControllerStartUp()
  private var startUpCommand: CommandID?
  /// The controller's description from before a reset, while the controller is initialised again.
  private var known: ControllerDescription?
  /// Times of the resets within the last `resetPeriod`.
  private var resets: [MonotonicTime] = []
  /// Links of the commands that the host itself submitted.
  private var ownCommands: [CommandID: ConnectionHandle] = [:]
  var links: [ConnectionHandle: HCILink] = [:]
  /// Whether a Create Connection was sent whose Connection Complete has not arrived.
  private var isConnecting = false
  /// Whether advertising was enabled and no central has connected since.
  public private(set) var isAdvertising = false
  private var heldBack: [(handle: ConnectionHandle, packet: [UInt8])] = []
  private var assembler = AdvertisingReportAssembler()
  /// Whether a link is pairing or was pairing recently. If not, pairing deadlines are not checked.
  private var hasPairings = false
  private var takesSecurityRequests = false
  var responder: PairingResponder?
  fileprivate var privacy: HostPrivacy?
  private var attempts = RepeatedAttempts()
  /// Links of the commands that detect a restarted controller. A restarted controller has lost its links and
  /// responds with Unknown Connection Identifier.
  private var probes: [CommandID: ConnectionHandle] = [:]
  /// Time of the last `probe`.
  private var probedAt: MonotonicTime?
  /// Links of the LE Enable Encryption commands.
  private var encryptions: [CommandID: ConnectionHandle] = [:]
  private var events: [HCIHostEvent] = []
  var counts = HCIHostStatistics()
  public private(set) var lastMalformed: WireError?

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

  /// Returns the number of fragments of a link that have not been sent to the controller yet.
  public func waitingFragments(_ handle: ConnectionHandle) -> Int { acl.waiting(handle) }

  /// Number of fragments of all links that were sent to the controller but not yet reported as transmitted.
  package var fragmentsUnderWay: Int { acl.underWay }

  /// Returns the next packet for the transport, preceded by its H4 type byte. After a call of any other
  /// method, call this method until it returns `nil`.
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

  /// Closes a link that was not requested. If the controller responds that the link is unknown, this does not
  /// count as a restart of the controller.
  public mutating func decline(_ handle: ConnectionHandle) {
    if let id = submit(Disconnect(handle)) { probes[id] = nil }
  }

  /// Reads the RSSI of a link to detect that the controller has restarted and lost the link. At most once per
  /// second.
  private mutating func probe(now: MonotonicTime) {
    guard let handle = links.keys.first, probedAt.map({ $0.duration(to: now) >= .seconds(1) }) ?? true else {
      return
    }
    probedAt = now
    _ = submitOwn(ReadRSSI(handle), for: handle)
  }

  /// Submits a command whose response is not reported to the owner.
  ///
  /// - Returns: `false` if the command queue is full.
  private mutating func submitOwn(_ command: some HCICommand, for handle: ConnectionHandle) -> Bool {
    guard let id = submit(command) else { return false }
    ownCommands[id] = handle
    return true
  }

  private mutating func submitStartUp() {
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
  /// - Throws: If the packet is dropped. The packet is counted, and the host stays usable.
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

  /// Next time to call `expire`.
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

// MARK: - Start-up

/// The commands that initialise a controller, in order, and the properties from their responses.
///
/// Follows Core 5.4, Vol 4, Part E, Appendix A. Skips commands that a response makes unnecessary.
struct ControllerStartUp {
  /// One command of the sequence.
  struct Step {
    let opcode: HCIOpcode
    let encode: (inout OutputSpan<UInt8>) -> Void
  }

  private(set) var description = ControllerDescription()
  private var hasBuffers = false
  private var remaining: [Step] = [
    Step(.reset), Step(.readLocalVersion), Step(.readLocalSupportedCommands),
    Step(.readLocalSupportedFeatures), Step(.readBDADDR),
    Step(.setEventMask) { SetEventMask.host.encodeParameters(into: &$0) },
    Step(.leSetEventMask) { LESetEventMask.host.encodeParameters(into: &$0) },
    Step(.leReadLocalSupportedFeatures), Step(.leReadBufferSize),
  ]

  var opcodes: [HCIOpcode] { remaining.map { $0.opcode } }

  /// The command to send now; `nil` when the sequence is complete.
  var next: Step? { remaining.first }

  /// Processes the response to `next`.
  mutating func take(
    _ opcode: HCIOpcode, _ status: HCIStatus, _ returned: [UInt8]
  ) throws(HCIHostFailure) {
    remaining.removeFirst()
    // Optional for an LE controller. If it is not supported, only mandatory commands are used.
    if opcode == .readLocalSupportedCommands, status == .unknownCommand { return }
    guard status == .success else { throw .startUpRefused(opcode, status) }
    let octets = returned.span
    switch opcode {
    case .readLocalVersion where octets.count >= 6:
      description.hciVersion = octets[0]
      description.manufacturer = octets.u16(at: 4)
    case .readLocalSupportedCommands: description.supportedCommands = returned
    // LMP features, byte 4 bit 6: LE supported by the controller.
    case .readLocalSupportedFeatures where octets.count >= 8:
      guard octets[4] & 0x40 != 0 else { throw .notLowEnergy }
    case .readBDADDR where octets.count >= 6: description.address = octets.address(at: 0, type: .public)
    case .leReadLocalSupportedFeatures where octets.count >= 8:
      description.features = LEFeatures(bits: octets.u64(at: 0))
    case .leReadBufferSize where octets.count >= 3:
      try takeBuffers(octets.u16(at: 0), UInt16(octets[2]))
      // LE shares buffers with BR/EDR: read their size and number with Read Buffer Size.
      if !hasBuffers { remaining.append(Step(.readBufferSize)) }
    case .readBufferSize where octets.count >= 7:
      try takeBuffers(octets.u16(at: 0), octets.u16(at: 3))
      guard hasBuffers else { throw .noDataBuffers }
    default: break
    }
  }

  /// Stores the size and number of the controller's buffers. If either is 0, the controller has no such
  /// buffers. Core 5.4, Vol 4, Part E, 7.8.2.
  ///
  /// - Throws: `dataBuffersTooSmall` if the size is below the specification's minimum.
  private mutating func takeBuffers(_ byteCount: UInt16, _ packetCount: UInt16) throws(HCIHostFailure) {
    guard byteCount > 0, packetCount > 0 else { return }
    guard byteCount >= 27 else { throw .dataBuffersTooSmall(byteCount: Int(byteCount)) }
    hasBuffers = true
    description.aclByteCount = Int(byteCount)
    description.aclPacketCount = Int(packetCount)
  }
}

extension HCIHost {
  /// The first commands of every initialisation. A log that contains them was recorded from this host.
  package static let startUpOpcodes = ControllerStartUp().opcodes
}

extension ControllerStartUp.Step {
  fileprivate init(_ opcode: HCIOpcode) { self.init(opcode: opcode) { _ in } }
  fileprivate init(_ opcode: HCIOpcode, _ encode: @escaping (inout OutputSpan<UInt8>) -> Void) {
    self.init(opcode: opcode, encode: encode)
  }
}

// MARK: - Events

extension HCIHost {
  mutating func take(
    _ event: borrowing HCIEventPacket, _ now: MonotonicTime, _ report: (borrowing AdvertisingReport) -> Void,
    _ attribute: (ConnectionHandle, Span<UInt8>) -> Void
  ) throws(WireError) {
    let parameters = event.parameters
    switch event.code {
    case .commandComplete:
      let reply = try CommandComplete(validating: parameters)
      let status = reply.returnParameters.isEmpty ? .success : HCIStatus(rawValue: reply.returnParameters[0])
      let rest = reply.returnParameters.extracting(min(1, reply.returnParameters.count)...)
      answered(reply.opcode, reply.credits, status, [UInt8](encoding: rest.count) { $0.append(rest) }, now)
    case .commandStatus:
      let reply = try CommandStatus(validating: parameters)
      answered(reply.opcode, reply.credits, reply.status, [], now)
    case .hardwareError:
      try parameters.require(1, .hciEvent)
      restart(.hardwareError(parameters[0]), now: now)
    // Until initialisation ends, other events refer to the state before the reset.
    case _ where state != .ready: counts.strayEvents += 1
    case .numberOfCompletedPackets:
      let completed = try NumberOfCompletedPackets(validating: parameters)
      for index in 0..<completed.count {
        acl.completed(completed[index].packets, of: completed[index].handle)
      }
    case .disconnectionComplete:
      let end = try DisconnectionComplete(validating: parameters)
      if end.status == .success { disconnected(end.handle, end.reason, now) }
    case .readRemoteVersionComplete:
      let read = try ReadRemoteVersionComplete(validating: parameters)
      tell(.remoteVersion(read.handle, read.status, read.version), of: read.handle)
    case .encryptionChange:
      let change = try EncryptionChange(validating: parameters)
      encryptionEnded(change.handle, change.status, isEncrypted: change.isEncrypted, now)
    case .encryptionChangeV2:
      let change = try EncryptionChange(validatingV2: parameters)
      encryptionEnded(change.handle, change.status, isEncrypted: change.isEncrypted, now)
    case .encryptionKeyRefreshComplete:
      let refresh = try EncryptionKeyRefreshComplete(validating: parameters)
      encryptionEnded(refresh.handle, refresh.status, isEncrypted: true, now)
    case .dataBufferOverflow: counts.bufferOverflows += 1
    case .vendor: takeVendorEvent(parameters, now)
    case .leMeta: try takeLE(parameters, now, report, attribute)
    default: break
    }
  }

  private mutating func answered(
    _ opcode: HCIOpcode, _ credits: UInt8, _ status: HCIStatus, _ returned: [UInt8],
    _ now: MonotonicTime
  ) {
    let wasIdle = commands.isIdle
    guard let id = commands.answered(opcode, credits: credits) else {
      // Opcode 0 answers no command: the event updates the credits, or reports that the controller has
      // started.
      if opcode.rawValue != 0 {
        counts.strayAnswers += 1
      } else if wasIdle, state == .ready {
        probe(now: now)
      }
      // The controller has reset itself and lost its links, masks and lists.
      if opcode == .reset, status == .success, state == .ready { restart(.unaskedReset, now: now) }
      return
    }
    if status != .success, opcode == .leCreateConnection || opcode == .leExtendedCreateConnection {
      isConnecting = false
      dropHeldBack()
    }
    if let handle = probes.removeValue(forKey: id), status == .unknownConnection, links[handle] != nil {
      events.append(.answered(id, status, returned))
      return restart(.restarted, now: now)
    }
    if let handle = ownCommands.removeValue(forKey: id) {
      if status != .success { links[handle]?.isUpdating = false }
      return
    }
    if let handle = encryptions.removeValue(forKey: id) {
      // Success only means that encryption has started; a separate event reports its end.
      if status != .success { encryptionEnded(handle, status, isEncrypted: false, now) }
      return
    }
    guard id == startUpCommand else {
      events.append(.answered(id, status, returned))
      return
    }
    startUpCommand = nil
    do throws(HCIHostFailure) {
      try startUp.take(opcode, status, returned)
      submitStartUp()
    } catch { fail(error) }
  }

  /// Checks whether a vendor event means that the controller has restarted. Two such events are known:
  /// Intel's boot-up (Linux, `btintel.c`) and Zephyr's fatal error (`hci_vs.h`). For any other event, probes
  /// a link.
  private mutating func takeVendorEvent(_ parameters: Span<UInt8>, _ now: MonotonicTime) {
    let code = parameters.count > 0 ? parameters[0] : 0
    switch (controller.manufacturer, code) {
    // Manufacturers: Intel, Nordic Semiconductor, the Linux Foundation.
    case (0x0002, 0x02), (0x0059, 0x02), (0x05F1, 0x02): restart(.restarted, now: now)
    default: probe(now: now)
    }
  }

  private mutating func takeLE(
    _ parameters: Span<UInt8>, _ now: MonotonicTime, _ report: (borrowing AdvertisingReport) -> Void,
    _ attribute: (ConnectionHandle, Span<UInt8>) -> Void
  ) throws(WireError) {
    try parameters.require(1, .hciEvent)
    switch LESubevent(rawValue: parameters[0]) {
    case .advertisingReport, .extendedAdvertisingReport:
      try AdvertisingReports(validating: parameters).forEach { assembler.take($0, report) }
    case .connectionComplete, .enhancedConnectionComplete:
      try connected(try LEConnectionComplete(validating: parameters), now, attribute)
    case .connectionUpdateComplete:
      let update = try LEConnectionUpdateComplete(validating: parameters)
      links[update.handle]?.isUpdating = false
      tell(
        update.status == .success
          ? .parametersChanged(update.handle, update.parameters)
          : .parametersUnchanged(update.handle, update.status), of: update.handle)
    case .longTermKeyRequest: keyWanted(try LELongTermKeyRequest(validating: parameters))
    case .remoteConnectionParameterRequest:
      answer(try LERemoteConnectionParameterRequest(validating: parameters))
    case .readRemoteFeaturesComplete:
      let read = try LEReadRemoteFeaturesComplete(validating: parameters)
      tell(.remoteFeatures(read.handle, read.status, read.features), of: read.handle)
    case .dataLengthChange:
      let change = try LEDataLengthChange(validating: parameters)
      tell(.dataLengthChanged(change.handle, change), of: change.handle)
    case .phyUpdateComplete:
      let update = try LEPHYUpdateComplete(validating: parameters)
      tell(
        update.status == .success
          ? .phyChanged(update.handle, update) : .phyUnchanged(update.handle, update.status),
        of: update.handle)
    default: break
    }
  }

  /// Reports an event of a link to the owner, if the link exists.
  private mutating func tell(_ event: HCIHostEvent, of handle: ConnectionHandle) {
    if links[handle] == nil { counts.strayEvents += 1 } else { events.append(event) }
  }

  /// Accepts or rejects the connection parameters that the peer requests. Without a response, the link layer
  /// would close the link. Core 5.4, Vol 4, Part E, 7.7.65.6.
  private mutating func answer(_ request: LERemoteConnectionParameterRequest) {
    let handle = request.handle
    guard links[handle] != nil else {
      counts.strayEvents += 1
      return
    }
    let isSubmitted =
      request.wanted.isValid
      ? submitOwn(LERemoteConnectionParameterRequestReply(handle, request.wanted), for: handle)
      : submitOwn(LERemoteConnectionParameterRequestNegativeReply(handle), for: handle)
    if !isSubmitted { counts.droppedAnswers += 1 }
  }

  // MARK: Links

  private mutating func connected(
    _ complete: LEConnectionComplete, _ now: MonotonicTime,
    _ attribute: (ConnectionHandle, Span<UInt8>) -> Void
  ) throws(WireError) {
    switch complete.role {
    case .central: isConnecting = false
    case .peripheral: isAdvertising = false
    }
    let handle = complete.handle
    guard complete.status == .success else {
      dropHeldBack()
      // As peripheral, an attempt fails only in directed advertising, which this host does not use.
      if complete.role == .central { events.append(.connectFailed(complete.status)) }
      return
    }
    // Larger handles are reserved. Core 5.4, Vol 4, Part E, 5.4.2.
    guard handle.rawValue <= 0x0EFF else {
      throw WireError(.hciEvent, offset: 2, .invalidValue(UInt32(handle.rawValue)))
    }
    // Ignores a second event for a link that is up, as the kernel's host does.
    guard links[handle] == nil else {
      counts.strayEvents += 1
      return
    }
    let description = LinkDescription(
      handle: handle, role: complete.role, peer: complete.peer, parameters: complete.parameters)
    let link = HCILink(description)
    if complete.role == .peripheral || privacy?.scope == .all { link.privacy = privacy }
    links[handle] = link
    acl.add(handle)
    events.append(.connected(description))
    let early = heldBack
    heldBack = []
    for (owner, packet) in early {
      guard owner == handle else {
        holdBack(owner, packet.span)
        continue
      }
      let span = packet.span
      try take(try ACLPacket(validating: span.extracting(1...)), span, now, attribute)
    }
  }

  private mutating func dropHeldBack() {
    counts.strayData += heldBack.count
    heldBack = []
  }

  private mutating func disconnected(
    _ handle: ConnectionHandle, _ reason: HCIStatus, _ now: MonotonicTime
  ) {
    guard let link = links.removeValue(forKey: handle) else {
      counts.strayEvents += 1
      return
    }
    acl.remove(handle)
    losePairing(of: link, now)
    events.append(.disconnected(handle, reason: reason))
  }
}

// MARK: - Data

/// State of one link.
final class HCILink {
  /// Maximum size of an L2CAP frame that the host accepts, in bytes. No peer needs longer frames; they are
  /// skipped, not buffered.
  private static let frameLimit = 2048
  /// Number of queued fragments above which responses to the peer are dropped, so that a peer that sends
  /// requests faster than it reads responses cannot exhaust memory.
  fileprivate static let answerLimit = 64

  let description: LinkDescription
  fileprivate var recombiner = L2CAPRecombiner(maximumPayloadByteCount: HCILink.frameLimit)
  /// Whether an LE Connection Update requested by the peer is in progress. Only one is allowed at a time, so
  /// that a peer that keeps sending requests cannot fill the command queue.
  var isUpdating = false
  /// Whether connection updates that the peer requests are accepted but deferred.
  fileprivate var isTimingHeld = false
  /// The latest deferred update.
  fileprivate var wantedTiming: LinkParameterRange?
  var isEncrypted = false
  /// Origin of the key that encrypts the link. `givenKeySource` is the origin of the key most recently
  /// supplied to the controller. As central, any key counts as `stored`.
  fileprivate var keySource: LinkKeySource?
  fileprivate var givenKeySource: LinkKeySource?
  var pairing: Pairing?
  /// Private address of this side at the time the link came up.
  fileprivate var privacy: HostPrivacy?
  /// Whether a pairing has timed out. No further Security Manager PDU may be sent then.
  fileprivate var hasPairingTimedOut = false

  init(_ description: LinkDescription) { self.description = description }
}

extension HCIHost {
  mutating func take(
    _ packet: borrowing ACLPacket, _ octets: Span<UInt8>, _ now: MonotonicTime,
    _ attribute: (ConnectionHandle, Span<UInt8>) -> Void
  ) throws(WireError) {
    let handle = packet.handle
    guard let link = links[handle] else {
      holdBack(handle, octets)
      return
    }
    // The recombiner is moved out of the link while it lends frames. Otherwise Swift would check each long
    // access to the class for exclusivity.
    var recombiner = L2CAPRecombiner()
    swap(&recombiner, &link.recombiner)
    let droppedBefore = recombiner.droppedFrames
    defer {
      counts.droppedFrames += recombiner.droppedFrames - droppedBefore
      swap(&recombiner, &link.recombiner)
    }
    var reaction = SignallingResponder.Reaction.none
    var answer: [UInt8] = []
    var channelID: UInt16 = 0
    var isStray = false
    try recombiner.receive(packet) { frame in
      channelID = frame.channelID
      switch channelID {
      case ATT.channelID:
        attribute(handle, frame.payload)
      case L2CAPFrame.FixedChannel.signalling:
        reaction = SignallingResponder.react(
          to: frame.payload, as: link.description.role, isUpdating: link.isUpdating)
      case L2CAPFrame.FixedChannel.securityManager: answer = takeSecurity(frame.payload, on: link, now: now)
      // Unknown channels get no response. Core 5.4, Vol 3, Part A, 2.1.
      default: isStray = true
      }
    }
    switch reaction {
    case .none: break
    case .answer(let octets): answer = octets
    case .update(let wanted, let octets):
      answer = octets
      if link.isTimingHeld {
        link.wantedTiming = wanted
      } else {
        link.isUpdating = submitOwn(LEConnectionUpdate(handle, wanted), for: handle)
      }
    case .stray: isStray = true
    }
    if isStray { counts.strayFrames += 1 }
    if !answer.isEmpty { reply(answer, channelID, handle) }
  }

  /// Defers connection updates that the peer requests until `releaseTiming`.
  package mutating func holdTiming(of handle: ConnectionHandle) { links[handle]?.isTimingHeld = true }

  /// Ends the deferral of connection updates.
  ///
  /// - Returns: The latest update that the peer requested during the deferral, if any.
  package mutating func releaseTiming(of handle: ConnectionHandle) -> LinkParameterRange? {
    links[handle]?.isTimingHeld = false
    return links[handle]?.wantedTiming.take()
  }

  private mutating func holdBack(_ handle: ConnectionHandle, _ octets: Span<UInt8>) {
    guard isConnecting || isAdvertising, heldBack.count < Self.heldBackLimit else {
      counts.strayData += 1
      return
    }
    heldBack.append((handle, [UInt8](encoding: octets.count) { $0.append(octets) }))
  }

  private mutating func reply(_ answer: [UInt8], _ channelID: UInt16, _ handle: ConnectionHandle) {
    guard acl.waiting(handle) < HCILink.answerLimit,
      acl.append(answer.span, channelID: channelID, to: handle)
    else {
      counts.droppedAnswers += 1
      return
    }
  }
}

// MARK: - Security

/// Events of a pairing, or a peer's request for security.
public enum SecurityEvent: Hashable, Sendable {
  /// The peripheral requests security. Encrypt with its key, or pair. Core 5.4, Vol 3, Part H, 2.4.6.
  case requested(AuthenticationRequirements)
  /// Show this passkey until the pairing ends.
  case showPasskey(UInt32)
  /// Ask the user for a passkey, then call `enterPasskey`.
  case askPasskey
  /// Ask the user to compare this number, then call `confirmNumber`.
  case compare(UInt32)
  case paired(Result<Bond, PairingError>)
  /// A central requests encryption with a stored key of this device. Call `answerKeyRequest`.
  case keyWanted(random: UInt64, diversifier: UInt16)
}

/// Inputs of a pairing besides its configuration.
public struct PairingSupplies: Sendable {
  /// A key pair for one pairing; `nil` to pair without Secure Connections.
  public var keyPair: (any P256KeyAgreement)?
  public var random: @Sendable () -> UInt128

  public init(
    keyPair: (any P256KeyAgreement)?,
    random: @escaping @Sendable () -> UInt128 = { UInt128.random(in: 0 ... .max) }
  ) {
    self.keyPair = keyPair
    self.random = random
  }
}

/// Origin of the key that encrypts a link.
public enum LinkKeySource: Hashable, Sendable {
  /// A key from an earlier pairing.
  case stored
  /// The key of the current pairing, or of an earlier pairing on this link.
  case pairing
}

/// A host's resolvable private address and its use. Core 5.4, Vol 3, Part C, 10.7.
public struct HostPrivacy: Sendable {
  /// Links that use the address.
  public enum Scope: Hashable, Sendable {
    case advertising
    /// All links, because the controller has no other random address.
    case all
  }

  /// The current private address.
  public var address: DeviceAddress
  /// Identity that is distributed to centrals that pair.
  public var identity: DeviceIdentity
  public var scope: Scope

  public init(_ address: DeviceAddress, of identity: DeviceIdentity, _ scope: Scope) {
    self.address = address
    self.identity = identity
    self.scope = scope
  }
}

/// Settings and keys with which a host responds to pairing requests of centrals.
public struct PairingResponder: Sendable {
  public var configuration: PairingConfiguration
  /// Address under which this device advertises.
  public var local: DeviceAddress
  /// Returns the stored bond of a central. A pairing may replace a bond only if it is authenticated and at
  /// least as strong, because any device can use the central's address.
  public var bond: @Sendable (DeviceAddress) -> Bond?
  /// Returns the supplies of a new pairing.
  public var supplies: @Sendable () -> PairingSupplies

  public init(
    _ configuration: PairingConfiguration, local: DeviceAddress,
    bond: @escaping @Sendable (DeviceAddress) -> Bond? = { _ in nil },
    supplies: @escaping @Sendable () -> PairingSupplies
  ) {
    self.configuration = configuration
    self.local = local
    self.bond = bond
    self.supplies = supplies
  }

  /// Creates a pairing in its initial state.
  ///
  /// - Parameters:
  ///   - peer: the central's address on the link.
  ///   - privacy: private address of this device on the link. The identity behind it is distributed with the
  ///     keys.
  public func pairing(with peer: DeviceAddress, as privacy: HostPrivacy? = nil) -> Pairing {
    let supplies = supplies()
    var configuration = configuration
    if let bond = bond(peer) {
      configuration.replacedBond = bond
      configuration.protection = .authenticated
    }
    if let privacy, !configuration.features.responderKeys.isEmpty {
      configuration.identity = privacy.identity
      configuration.features.responderKeys.insert(.identity)
    }
    return Pairing(
      .responder, configuration, local: privacy?.address ?? local, peer: peer, keyPair: supplies.keyPair,
      random: supplies.random)
  }
}

/// The Security Manager, in either role. Core 5.4, Vol 3, Part H.
extension HCIHost {
  /// Reports security requests of peers as events. Without this call, the host answers them with Pairing Not
  /// Supported.
  public mutating func takeSecurityRequests() { takesSecurityRequests = true }

  /// Sets the responder for pairing requests of centrals. If `nil`, the host answers such requests with
  /// Pairing Not Supported.
  public mutating func answerPairings(by responder: PairingResponder?) { self.responder = responder }

  /// Sets the private address for future links; existing links are not affected. If `nil`, the host's own
  /// address is used.
  public mutating func hide(_ privacy: HostPrivacy?) { self.privacy = privacy }

  /// Pairs with the peer of a link. As the peripheral, asks the central to pair. The event `paired` reports
  /// the result.
  ///
  /// - Parameters:
  ///   - handle: handle of the link.
  ///   - configuration: requirements and capabilities of this side.
  ///   - local: address of this side on the link.
  ///   - supplies: key pair and random numbers.
  ///   - now: start of the time limit.
  /// - Returns: `false` if the link has ended or is already pairing.
  public mutating func pair(
    on handle: ConnectionHandle, _ configuration: PairingConfiguration, local: DeviceAddress,
    _ supplies: PairingSupplies, now: MonotonicTime
  ) -> Bool {
    guard let link = links[handle], link.pairing == nil else { return false }
    let peer = link.description.peer
    // After a pairing timeout no further Security Manager PDU is allowed on this link. Core 5.4, Vol 3, Part
    // H, 3.4.
    if link.hasPairingTimedOut || attempts.mustWait(peer, now: now) {
      events.append(.security(handle, .paired(.failure(link.hasPairingTimedOut ? .timedOut : .tooSoon))))
      return true
    }
    var pairing = Pairing(
      link.description.role == .central ? .initiator : .responder, configuration,
      local: link.privacy?.address ?? local, peer: peer, keyPair: supplies.keyPair, random: supplies.random)
    pairing.start(now: now)
    link.pairing = pairing
    hasPairings = true
    perform(on: link, now)
    return true
  }

  /// Supplies the passkey that the user typed, or `nil` if the user entered none.
  public mutating func enterPasskey(_ passkey: UInt32?, on handle: ConnectionHandle, now: MonotonicTime) {
    guard let link = links[handle] else { return }
    link.pairing?.enter(passkey: passkey, now: now)
    perform(on: link, now)
  }

  /// Supplies the user's decision whether both numbers are equal.
  public mutating func confirmNumber(_ areEqual: Bool, on handle: ConnectionHandle, now: MonotonicTime) {
    guard let link = links[handle] else { return }
    link.pairing?.confirm(areEqual, now: now)
    perform(on: link, now)
  }

  /// Cancels a pairing.
  public mutating func cancelPairing(on handle: ConnectionHandle, now: MonotonicTime) {
    guard let link = links[handle] else { return }
    link.pairing?.cancel()
    perform(on: link, now)
  }

  /// Answers `keyWanted`. If the key is `nil`, the central gets a negative reply.
  public mutating func answerKeyRequest(of handle: ConnectionHandle, _ key: UInt128?) {
    if let key {
      _ = submit(LELongTermKeyRequestReply(handle, key: key))
    } else {
      links[handle].map { $0.givenKeySource = $0.keySource }
      _ = submit(LELongTermKeyRequestNegativeReply(handle))
    }
  }

  /// Returns whether a link is encrypted.
  public func isEncrypted(_ handle: ConnectionHandle) -> Bool { links[handle]?.isEncrypted ?? false }

  /// Returns the origin of the key of an encrypted link on which this side is the peripheral, or `nil` if the
  /// link is not encrypted.
  public func keySource(of handle: ConnectionHandle) -> LinkKeySource? {
    guard let link = links[handle], link.isEncrypted else { return nil }
    return link.keySource
  }

  // MARK: From the controller

  private mutating func takeSecurity(_ payload: Span<UInt8>, on link: HCILink, now: MonotonicTime) -> [UInt8]
  {
    if link.pairing != nil {
      link.pairing?.receive(payload, now: now)
      perform(on: link, now)
      return []
    }
    if link.description.role == .peripheral { return takePairingRequest(payload, on: link, now: now) }
    if takesSecurityRequests, let pdu = try? SecurityManagerPDU(validating: payload),
      case .securityRequest(let requirements) = pdu
    {
      events.append(.security(link.description.handle, .requested(requirements)))
      return []
    }
    return Self.refusePairing(payload)
  }

  /// Processes the first PDU of a central that starts to pair.
  private mutating func takePairingRequest(
    _ payload: Span<UInt8>, on link: HCILink, now: MonotonicTime
  ) -> [UInt8] {
    // After a pairing timeout no further Security Manager PDU is allowed on this link. Core 5.4, Vol 3, Part
    // H, 3.4.
    guard !link.hasPairingTimedOut else { return [] }
    guard let responder, payload.count > 0, payload[0] == SecurityManagerCode.pairingRequest.rawValue else {
      return Self.refusePairing(payload)
    }
    let peer = link.description.peer
    if attempts.mustWait(peer, now: now) {
      return [SecurityManagerCode.pairingFailed.rawValue, PairingFailure.repeatedAttempts.rawValue]
    }
    link.pairing = responder.pairing(with: peer, as: link.privacy)
    hasPairings = true
    link.pairing?.receive(payload, now: now)
    perform(on: link, now)
    return []
  }

  /// Answers the controller's request for a key. Supplies the key of the current pairing directly, and
  /// reports `keyWanted` to the owner for any other key.
  private mutating func keyWanted(_ request: LELongTermKeyRequest) {
    guard let link = links[request.handle] else {
      counts.strayEvents += 1
      return
    }
    if request.random == 0, request.diversifier == 0, let key = link.pairing?.agreedKey {
      link.givenKeySource = .pairing
      if !submitOwn(LELongTermKeyRequestReply(request.handle, key: key), for: request.handle) {
        counts.droppedAnswers += 1
      }
    } else {
      link.givenKeySource = .stored
      events.append(
        .security(
          request.handle, .keyWanted(random: request.random, diversifier: request.diversifier)))
    }
  }

  /// Answers a Pairing Request or Security Request with Pairing Failed, Pairing Not Supported. Ignores other
  /// PDUs.
  ///
  /// Core 5.4, Vol 3, Part H, 3.5.5.
  private static func refusePairing(_ payload: Span<UInt8>) -> [UInt8] {
    guard payload.count > 0, payload[0] == 0x01 || payload[0] == 0x0B else { return [] }
    return [0x05, 0x05]
  }

  /// Handles a change of encryption, a failure to encrypt, or a key refresh.
  mutating func encryptionEnded(
    _ handle: ConnectionHandle, _ status: HCIStatus, isEncrypted: Bool, _ now: MonotonicTime
  ) {
    guard let link = links[handle] else {
      counts.strayEvents += 1
      return
    }
    let isPeripheral = link.description.role == .peripheral
    // Ignore encryption with a key that this side did not supply (CVE-2019-19194: a zero key).
    guard !isPeripheral || status != .success || !isEncrypted || link.givenKeySource != nil else {
      counts.strayEvents += 1
      return
    }
    if status == .success {
      let source = isPeripheral ? link.givenKeySource : .stored
      (link.isEncrypted, link.keySource) = (isEncrypted, isEncrypted ? source : nil)
      if !isEncrypted { link.givenKeySource = nil }
    }
    events.append(.encryption(handle, status))
    // During a pairing a central may encrypt with an older key. Encryption with the older key does not
    // complete the pairing.
    if !isPeripheral || link.givenKeySource != .stored {
      link.pairing?.encryptionEnded(isEncrypted || status != .success ? status : .pinOrKeyMissing, now: now)
    }
    perform(on: link, now)
  }

  private mutating func expirePairing(of link: HCILink, _ now: MonotonicTime) {
    link.pairing?.expire(now: now)
    perform(on: link, now)
  }

  /// Ends the pairing of a link that has ended.
  private mutating func losePairing(of link: HCILink, _ now: MonotonicTime?) {
    link.pairing?.lose()
    perform(on: link, now)
  }

  /// Performs the actions that a pairing requests.
  private mutating func perform(on link: HCILink, _ now: MonotonicTime?) {
    guard link.pairing != nil else { return }
    let handle = link.description.handle
    for action in link.pairing?.takeActions() ?? [] {
      switch action {
      case .send(let pdu):
        let octets = [UInt8](encoding: SecurityManagerPDU.maximumByteCount) { pdu.encode(into: &$0) }
        if !acl.append(octets.span, channelID: L2CAPFrame.FixedChannel.securityManager, to: handle) {
          counts.droppedAnswers += 1
        }
      case .showPasskey(let passkey): events.append(.security(handle, .showPasskey(passkey)))
      case .askPasskey: events.append(.security(handle, .askPasskey))
      case .compare(let number): events.append(.security(handle, .compare(number)))
      case .encrypt(let key): _ = submitEncryption(LEEnableEncryption(handle, key: key))
      case .finished(let result): finishPairing(of: link, result, now)
      }
    }
  }

  private mutating func finishPairing(
    of link: HCILink, _ result: Result<Bond, PairingError>, _ now: MonotonicTime?
  ) {
    var isByPasskey = false
    if case .passkey? = link.pairing?.method { isByPasskey = link.description.role == .peripheral }
    link.pairing = nil
    let peer = link.description.peer
    switch result {
    case .success:
      attempts.succeeded(peer)
      if isByPasskey { attempts.passkeySucceeded() }
    // A disconnection counts as a failed attempt too.
    case .failure(.linkLost) where isByPasskey: if let now { attempts.passkeyFailed(now: now) }
    case .failure(.linkLost), .failure(.cancelled): break
    case .failure(let error):
      link.hasPairingTimedOut = error == .timedOut
      if let now {
        attempts.failed(peer, now: now)
        if isByPasskey { attempts.passkeyFailed(now: now) }
      }
    }
    events.append(.security(link.description.handle, .paired(result)))
  }

  /// Submits a command that starts encryption. If the controller refuses it, encryption has failed; otherwise
  /// an event reports the result.
  private mutating func submitEncryption(_ command: LEEnableEncryption) -> Bool {
    guard let id = submit(command) else { return false }
    encryptions[id] = command.handle
    return true
  }
}

// MARK: - Replay

/// Methods that replay the commands and frames of a recorded host.
extension HCIHost {
  /// Queues a recorded command.
  ///
  /// - Parameter packet: the packet without its H4 type byte.
  /// - Returns: `false` if the packet is not a command, the host is not ready, or the command queue is full.
  package mutating func submit(recorded packet: Span<UInt8>) -> Bool {
    guard state == .ready, let command = try? HCICommandPacket(validating: packet) else { return false }
    switch command.opcode {
    case .leCreateConnection, .leExtendedCreateConnection: isConnecting = true
    case .leSetExtendedScanEnable: assembler.reset()
    default: break
    }
    return submit(command.opcode) { $0.append(command.parameters) } != nil
  }

  /// Queues a recorded frame on any channel of a link.
  ///
  /// - Returns: `false` if the link has ended or its queue is full.
  package mutating func send(
    recorded payload: Span<UInt8>, on channelID: UInt16, of handle: ConnectionHandle
  ) -> Bool {
    acl.append(payload, channelID: channelID, to: handle)
  }

  package func isUp(_ handle: ConnectionHandle) -> Bool { links[handle] != nil }
  package var isReady: Bool { state == .ready }
}

// MARK: - Statistics

/// Counts of dropped and unexpected packets. Each is an error of the controller or of a peer.
public struct HCIHostStatistics: Hashable, Sendable {
  /// Malformed packets.
  public var malformed = 0
  /// Data packets of unknown links, or of types that an LE host does not have.
  public var strayData = 0
  /// Events for unknown links, or before the controller was initialised.
  public var strayEvents = 0
  /// Responses to commands that the host did not send.
  public var strayAnswers = 0
  /// Number of packets reported as transmitted for links that have ended, or beyond the number outstanding.
  public var strayCompletions = 0
  /// L2CAP frames that could not be reassembled: truncated, without a start, or too long.
  public var droppedFrames = 0
  /// L2CAP frames on unknown channels, and invalid signalling commands.
  public var strayFrames = 0
  /// Responses of this host that were dropped because a queue was full.
  public var droppedAnswers = 0
  /// Advertising reports that could not be reassembled.
  public var droppedReports = 0
  /// Data Buffer Overflow events: the host has sent more packets than the controller can buffer.
  public var bufferOverflows = 0
  /// Resets of a failed controller.
  public var resets = 0

  public init() {}
}

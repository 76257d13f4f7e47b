public import BLECore
public import BLEWire

/// An LE central's host above an HCI transport: packets and time in, packets and events out, no I/O.
///
/// It starts the controller up, keeps command and data credits, holds the table of links, puts L2CAP frames
/// together, and answers the signalling channel. Scanning and connecting are commands that its owner submits.
///
/// ```swift
/// host.start()
/// while let packet = host.nextPacket(now: now) { /* write it */ }
/// try host.receive(packet, now: now, report: { … }, attribute: { handle, pdu in … })
/// for event in host.takeEvents() { … }
/// ```
public struct HCIHost: ~Copyable {
  /// ACL packets for links that are not known yet: with USB the first data may overtake the event that announces
  /// its link.
  public static let heldBackLimit = 16

  private enum State: Equatable {
    case idle, starting, ready
    case failed(HCIHostFailure)
  }

  /// What belongs to one link.
  private final class Link {
    let description: LinkDescription
    var recombiner = L2CAPRecombiner()
    /// An LE Connection Update that the peer asked for is under way. One at a time: a peer that asks without end
    /// shall not fill the command queue.
    var isUpdating = false

    init(_ description: LinkDescription) { self.description = description }
  }

  private var state = State.idle
  private var commands = HCICommandQueue()
  private var acl = ACLQueue()
  private var startUp = ControllerStartUp()
  private var startUpCommand: CommandID?
  /// Commands of the host's own, by the link that they are for.
  private var ownCommands: [CommandID: ConnectionHandle] = [:]
  private var links: [ConnectionHandle: Link] = [:]
  private var heldBack: [(handle: ConnectionHandle, packet: [UInt8])] = []
  private var events: [HCIHostEvent] = []
  /// Packets that broke the format, or that belong to no link.
  public private(set) var malformed = 0
  public private(set) var lastMalformed: WireError?
  public private(set) var strayData = 0

  public init() {}

  public var controller: ControllerDescription { startUp.description }

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
  public mutating func submit(_ command: some HCICommand) -> CommandID? {
    guard state == .ready else { return nil }
    return submit(type(of: command).opcode) { command.encodeParameters(into: &$0) }
  }

  /// Links that are up.
  public var linkCount: Int { links.count }

  /// Queues an ATT PDU.
  ///
  /// - Returns: `false` where the link is gone.
  public mutating func send(_ pdu: Span<UInt8>, on handle: ConnectionHandle) -> Bool {
    acl.append(pdu, channelID: ATT.channelID, to: handle)
  }

  /// Fragments of a link that wait for the controller: how far its owner is ahead.
  public func waitingFragments(_ handle: ConnectionHandle) -> Int { acl.waiting(handle) }

  /// The next packet for the transport, H4 type octet first. Call it until it gives none, after everything else.
  public mutating func nextPacket(now: MonotonicTime) -> [UInt8]? {
    if case .failed = state { return nil }
    return commands.next(now: now) ?? acl.next()
  }

  private mutating func submit(
    _ opcode: HCIOpcode, _ parameters: (inout OutputSpan<UInt8>) -> Void
  ) -> CommandID? {
    let octets = [UInt8](encoding: 255, parameters)
    return commands.submit(opcode, parameters: octets.span)
  }

  private mutating func submitStartUp() {
    guard let step = startUp.next else {
      state = .ready
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
  ///   - report: gets each advertising report.
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
      case .event: try take(try HCIEventPacket(validating: body), report, attribute)
      case .acl: try take(try ACLPacket(validating: body), packet, attribute)
      // Synchronous data belong to links that an LE host does not have.
      case .sco, .iso: strayData += 1
      default: throw WireError(.h4, offset: 0, .invalidValue(UInt32(packet[0])))
      }
    } catch {
      malformed += 1
      lastMalformed = error
      throw error
    }
  }

  /// When `expire` is wanted.
  public var deadline: MonotonicTime? { commands.deadline }

  /// A command's time is over: the controller is given up.
  public mutating func expire(now: MonotonicTime) {
    if let opcode = commands.expired(now: now) { fail(.commandTimedOut(opcode)) }
  }

  /// The transport ended, or must not be used any more.
  public mutating func lose() { fail(.transportLost) }

  private mutating func fail(_ failure: HCIHostFailure) {
    if case .failed = state { return }
    state = .failed(failure)
    for handle in links.keys {
      events.append(.disconnected(handle, reason: HCIStatus(rawValue: 0x1F)))
    }
    links = [:]
    heldBack = []
    commands.reset()
    ownCommands = [:]
    acl.reset()
    events.append(.failed(failure))
  }

  // MARK: Events

  private mutating func take(
    _ event: borrowing HCIEventPacket, _ report: (borrowing AdvertisingReport) -> Void,
    _ attribute: (ConnectionHandle, Span<UInt8>) -> Void
  ) throws(WireError) {
    let parameters = event.parameters
    switch event.code {
    case .commandComplete:
      let reply = try CommandComplete(validating: parameters)
      let status = reply.returnParameters.isEmpty ? .success : HCIStatus(rawValue: reply.returnParameters[0])
      let rest = reply.returnParameters.extracting(min(1, reply.returnParameters.count)...)
      answered(reply.opcode, reply.credits, status, [UInt8](encoding: rest.count) { $0.append(rest) })
    case .commandStatus:
      let reply = try CommandStatus(validating: parameters)
      answered(reply.opcode, reply.credits, reply.status, [])
    case .numberOfCompletedPackets:
      let completed = try NumberOfCompletedPackets(validating: parameters)
      for index in 0..<completed.count {
        acl.completed(completed[index].packets, of: completed[index].handle)
      }
    case .disconnectionComplete:
      let end = try DisconnectionComplete(validating: parameters)
      if end.status == .success { disconnected(end.handle, end.reason) }
    case .readRemoteVersionComplete:
      let read = try ReadRemoteVersionComplete(validating: parameters)
      events.append(.remoteVersion(read.handle, read.status, read.version))
    case .hardwareError:
      try parameters.require(1, .hciEvent)
      fail(.hardwareError(parameters[0]))
    case .leMeta: try takeLE(parameters, report, attribute)
    default: break
    }
  }

  private mutating func answered(
    _ opcode: HCIOpcode, _ credits: UInt8, _ status: HCIStatus, _ returned: [UInt8]
  ) {
    guard let id = commands.answered(opcode, credits: credits) else { return }
    if let handle = ownCommands.removeValue(forKey: id) {
      if status != .success { links[handle]?.isUpdating = false }
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

  private mutating func takeLE(
    _ parameters: Span<UInt8>, _ report: (borrowing AdvertisingReport) -> Void,
    _ attribute: (ConnectionHandle, Span<UInt8>) -> Void
  ) throws(WireError) {
    try parameters.require(1, .hciEvent)
    switch LESubevent(rawValue: parameters[0]) {
    case .advertisingReport, .extendedAdvertisingReport:
      try AdvertisingReports(validating: parameters).forEach(report)
    case .connectionComplete, .enhancedConnectionComplete:
      try connected(try LEConnectionComplete(validating: parameters), attribute)
    case .connectionUpdateComplete:
      let update = try LEConnectionUpdateComplete(validating: parameters)
      links[update.handle]?.isUpdating = false
      events.append(
        update.status == .success
          ? .parametersChanged(update.handle, update.parameters)
          : .parametersUnchanged(update.handle, update.status))
    case .remoteConnectionParameterRequest:
      answer(try LERemoteConnectionParameterRequest(validating: parameters))
    case .readRemoteFeaturesComplete:
      let read = try LEReadRemoteFeaturesComplete(validating: parameters)
      events.append(.remoteFeatures(read.handle, read.status, read.features))
    case .dataLengthChange:
      let change = try LEDataLengthChange(validating: parameters)
      events.append(.dataLengthChanged(change.handle, change))
    case .phyUpdateComplete:
      let update = try LEPHYUpdateComplete(validating: parameters)
      events.append(
        update.status == .success
          ? .phyChanged(update.handle, update) : .phyUnchanged(update.handle, update.status))
    default: break
    }
  }

  /// The link layer waits for an answer, or gives the link up. Core 5.4, Vol 4, Part E, 7.7.65.6.
  private mutating func answer(_ request: LERemoteConnectionParameterRequest) {
    let handle = request.handle
    if request.wanted.isValid {
      _ = submitOwn(LERemoteConnectionParameterRequestReply(handle, request.wanted), for: handle)
    } else {
      _ = submitOwn(LERemoteConnectionParameterRequestNegativeReply(handle), for: handle)
    }
  }

  /// A command whose answer is nobody's business but the host's.
  ///
  /// - Returns: `false` where far too many commands wait.
  private mutating func submitOwn(_ command: some HCICommand, for handle: ConnectionHandle) -> Bool {
    guard let id = submit(command) else { return false }
    ownCommands[id] = handle
    return true
  }

  private mutating func connected(
    _ complete: LEConnectionComplete, _ attribute: (ConnectionHandle, Span<UInt8>) -> Void
  ) throws(WireError) {
    guard complete.status == .success else {
      events.append(.connectFailed(complete.status))
      return
    }
    let description = LinkDescription(
      handle: complete.handle, peer: complete.peer, parameters: complete.parameters)
    links[complete.handle] = Link(description)
    acl.add(complete.handle)
    events.append(.connected(description))
    let early = heldBack.filter { $0.handle == complete.handle }
    heldBack.removeAll { $0.handle == complete.handle }
    for (_, packet) in early {
      let span = packet.span
      try take(try ACLPacket(validating: span.extracting(1...)), span, attribute)
    }
  }

  private mutating func disconnected(_ handle: ConnectionHandle, _ reason: HCIStatus) {
    guard links.removeValue(forKey: handle) != nil else { return }
    acl.remove(handle)
    heldBack.removeAll { $0.handle == handle }
    events.append(.disconnected(handle, reason: reason))
  }

  // MARK: Data

  private mutating func take(
    _ packet: borrowing ACLPacket, _ octets: Span<UInt8>,
    _ attribute: (ConnectionHandle, Span<UInt8>) -> Void
  ) throws(WireError) {
    let handle = packet.handle
    guard let link = links[handle] else {
      if heldBack.count < Self.heldBackLimit {
        heldBack.append((handle, [UInt8](encoding: octets.count) { $0.append(octets) }))
      } else {
        strayData += 1
      }
      return
    }
    var request: LinkParameterRange?
    var answer: [UInt8] = []
    var channelID: UInt16 = 0
    try link.recombiner.receive(packet) { frame in
      channelID = frame.channelID
      switch channelID {
      case ATT.channelID: attribute(handle, frame.payload)
      case L2CAPFrame.FixedChannel.signalling: (answer, request) = SignallingResponder.answer(
          frame.payload, isUpdating: link.isUpdating)
      case L2CAPFrame.FixedChannel.securityManager: answer = Self.refusePairing(frame.payload)
      // Nothing is sent on a fixed channel that is not supported. Core 5.4, Vol 3, Part A, 2.1.
      default: break
      }
    }
    if !answer.isEmpty { _ = acl.append(answer.span, channelID: channelID, to: handle) }
    if let request {
      link.isUpdating = submitOwn(LEConnectionUpdate(handle, request), for: handle)
    }
  }

  /// Pairing is not for now: a request or a Security Request is told so, all else on that channel is ignored.
  ///
  /// Core 5.4, Vol 3, Part H, 3.5.5: Pairing Failed, Pairing Not Supported.
  private static func refusePairing(_ payload: Span<UInt8>) -> [UInt8] {
    guard payload.count > 0, payload[0] == 0x01 || payload[0] == 0x0B else { return [] }
    return [0x05, 0x05]
  }
}

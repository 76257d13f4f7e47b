import BLEWire

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

  /// Reports an event of a link, if the link exists.
  private mutating func tell(_ event: HCIHostEvent, of handle: ConnectionHandle) {
    if links[handle] == nil { counts.strayEvents += 1 } else { events.append(event) }
  }

  /// Responds to the peer's request. Without a response the link layer would close the link. Core 5.4, Vol 4,
  /// Part E, 7.7.65.6.
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

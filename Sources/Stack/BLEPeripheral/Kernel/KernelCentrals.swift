import BLEHost
import BLELinux
import BLEStack
import BLEWire

/// Links that centrals created to a kernel adapter. Used only on the loop's thread.
final class KernelCentrals: @unchecked Sendable {
  // No lock: used on the event loop's thread only.

  /// Pause before advertising is retried after another program has turned it off, for example to connect.
  private static let pause = Duration.seconds(1)
  /// Pause before accepting is retried after the process ran out of descriptors or memory.
  private static let shortagePause = Duration.milliseconds(100)
  /// Interval for polling a link's security level after an event has announced a change. Polling is needed
  /// because the kernel delivers the event before it acts on the event. `lookLimit` is the time limit.
  private static let lookInterval = Duration.milliseconds(5)
  private static let lookLimit = Duration.seconds(1)

  struct Link {
    let connection: Connection
    var level = LinkSecurityLevel.sdp
    /// Origin of the key that the link was last encrypted with.
    var source = LinkKeySource.pairing
    /// Times of the next and the last poll of the level, while polling.
    var looks: (next: MonotonicTime, last: MonotonicTime)?
  }

  let acceptor: LinkAcceptor
  let listener: FileDescriptor
  var token: UInt64?
  var links: [ConnectionHandle: Link] = [:]
  /// Links that the adapter created as the central for other programs.
  var others: Set<ConnectionHandle> = []
  var isAdvertising = false
  var hasAdvertised = false
  /// Time at which to turn advertising on again; `nil` if it is not paused.
  private(set) var resumption: MonotonicTime?
  /// Time at which to accept centrals again; `nil` if accepting is not paused.
  private(set) var relief: MonotonicTime?

  init(_ acceptor: LinkAcceptor, _ listener: consuming FileDescriptor) {
    self.acceptor = acceptor
    self.listener = listener
  }

  var deadline: MonotonicTime? {
    var earliest = MonotonicTime.earliest(resumption, relief)
    for link in links.values { earliest = .earliest(earliest, link.looks?.next) }
    return earliest
  }

  func resume(at now: MonotonicTime) { resumption = now.advanced(by: Self.pause) }
  func pause(at now: MonotonicTime) { relief = now.advanced(by: Self.shortagePause) }

  /// Returns the actions that are due.
  func expire(_ now: MonotonicTime) -> (resumes: Bool, listens: Bool, looks: [ConnectionHandle]) {
    func isDue(_ time: inout MonotonicTime?) -> Bool {
      guard let due = time, due <= now else { return false }
      time = nil
      return true
    }
    var due: [ConnectionHandle] = []
    for (handle, link) in links {
      guard let looks = link.looks, looks.next <= now else { continue }
      due.append(handle)
      let next = now.advanced(by: Self.lookInterval)
      links[handle]?.looks = looks.last <= now ? nil : (next, looks.last)
    }
    return (isDue(&resumption), isDue(&relief), due)
  }

  func beginLooking(_ handle: ConnectionHandle, at now: MonotonicTime) {
    links[handle]?.looks = (now, now.advanced(by: Self.lookLimit))
  }
}

/// Accepting centrals, and handling the raw channel's events for their links.
extension KernelAdapter {
  /// Starts to accept centrals for a server.
  func listen(
    for server: GATTServer, _ tap: PacketTap?, _ advertiser: some KernelAdvertiser
  ) async throws(HostError) -> KernelCentrals {
    let box = Box()
    let acceptor = await server.acceptor(tap: tap, bonds: bondStore) { connection in
      self.assumeIsolated { if let centrals = box.centrals { $0.look(connection.handle, centrals) } }
    }
    let centrals: KernelCentrals
    do throws(SystemError) {
      centrals = KernelCentrals(acceptor, try L2CAPSocket.listenATT(on: info.address))
    } catch { throw HostError(error) }
    box.centrals = centrals
    let observer = ControllerObserver { packet in
      self.hear(packet, centrals, advertiser, server)
    } lost: { error in
      centrals.acceptor.lost(error)
    }
    let isFirst = whenPairing {
      self.takeArrivals(centrals)
    } changed: {
      for handle in Array(centrals.links.keys) { self.look(handle, centrals, again: true) }
    }
    guard isFirst else { throw .unsuitable("this program is already advertising on \(name)") }
    do throws(HostError) { try await tell(observer) } catch {
      endCentrals()
      throw error
    }
    let source = ActorSource { _ in
      self.takeArrivals(centrals)
    } deadline: {
      centrals.deadline
    } expired: {
      self.expire($0, centrals, server)
    } stopped: {
      centrals.token = nil
    }
    do throws(SystemError) { centrals.token = try loop.add(source, centrals.listener, for: .readable) } catch
    {
      endCentrals()
      throw HostError(error)
    }
    return centrals
  }

  /// A reference that is set only after the closure that uses it was created.
  private final class Box: @unchecked Sendable {
    // No lock: used only on the event loop's thread. Weak, because `centrals` holds the acceptor, which holds
    // the server, which holds the closure with this box.
    weak var centrals: KernelCentrals?
  }

  /// Stops accepting centrals and ends the links of the connected centrals. Otherwise the kernel would keep
  /// the links for two more seconds.
  func end(_ centrals: KernelCentrals, _ server: GATTServer) async {
    takeArrivals(centrals)
    if let token = centrals.token.take() { loop.remove(token, centrals.listener) }
    centrals.listener.shutDown()
    await server.endLinks()
    for (handle, link) in centrals.links {
      guard case .closedLocally? = await link.connection.end else { continue }
      // The link may have ended in the meantime.
      _ = try? await command(Disconnect(handle))
    }
    endCentrals()
  }

  private func takeArrivals(_ centrals: KernelCentrals) {
    // The queued events show whether the adapter created a link as the central.
    catchUp()
    while let token = centrals.token {
      var peer = DeviceAddress.any
      do throws(SystemError) {
        let channel = try L2CAPSocket.accept(centrals.listener, peer: &peer)
        // A link that has already ended has no handle. Links that the adapter created as the central belong
        // to other programs.
        guard let handle = channel.connectionHandle, !centrals.others.contains(handle) else { continue }
        take(channel, of: handle, peer, centrals)
      } catch {
        guard error.isOfOpenFiles || error.condition == .noMemory else { return }
        try? loop.update(token, centrals.listener, for: [])
        return centrals.pause(at: loop.clock.monotonic())
      }
    }
  }

  private func take(
    _ channel: consuming FileDescriptor, of handle: ConnectionHandle, _ peer: DeviceAddress,
    _ centrals: KernelCentrals
  ) {
    do throws(HostError) {
      let connection = try adopt(channel, peer: peer, tap: centrals.acceptor.tap)
      centrals.links[handle] = KernelCentrals.Link(connection: connection)
      centrals.acceptor.arrived(connection)
      look(handle, centrals)
    } catch {
      // The link or the loop has already ended. The server does not have the link.
    }
  }

  private func expire(_ now: MonotonicTime, _ centrals: KernelCentrals, _ server: GATTServer) {
    let due = centrals.expire(now)
    for handle in due.looks { look(handle, centrals) }
    if due.listens, let token = centrals.token {
      try? loop.update(token, centrals.listener, for: .readable)
    }
    if due.resumes { loop.later(server) { $0.stir() } }
  }

  private func hear(
    _ packet: Span<UInt8>, _ centrals: KernelCentrals, _ advertiser: some KernelAdvertiser,
    _ server: GATTServer
  ) {
    do throws(WireError) {
      let octets = packet.extracting(1...)
      if packet[0] == HCIPacketType.command.rawValue {
        let command = try HCICommandPacket(validating: octets)
        if command.opcode == .leLongTermKeyRequestReply, command.parameters.count == 18 {
          noteKey(
            command.parameters.u128(at: 2), of: ConnectionHandle(command.parameters.u16(at: 0)), centrals)
        } else if centrals.isAdvertising, advertiser.isEnded(by: command) {
          centrals.isAdvertising = false
          centrals.resume(at: loop.clock.monotonic())
        }
      } else if packet[0] == HCIPacketType.event.rawValue {
        let event = try HCIEventPacket(validating: octets)
        if try advertiser.isEnded(by: event), centrals.isAdvertising {
          centrals.isAdvertising = false
          loop.later(server) { $0.stir() }
        }
        try hear(event, centrals)
      }
    } catch {
      // The channel counts the error.
    }
  }

  private func hear(_ event: borrowing HCIEventPacket, _ centrals: KernelCentrals) throws(WireError) {
    let now = loop.clock.monotonic()
    switch event.code {
    case .leMeta where !event.parameters.isEmpty:
      switch LESubevent(rawValue: event.parameters[0]) {
      case .connectionComplete, .enhancedConnectionComplete:
        let link = try LEConnectionComplete(validating: event.parameters)
        guard link.status == .success else { return }
        if link.role == .central {
          centrals.others.insert(link.handle)
        } else {
          centrals.others.remove(link.handle)
        }
      default: break
      }
    case .disconnectionComplete:
      let end = try DisconnectionComplete(validating: event.parameters)
      guard end.status == .success else { return }
      centrals.links[end.handle] = nil
      centrals.others.remove(end.handle)
    case .encryptionChange:
      centrals.beginLooking(try EncryptionChange(validating: event.parameters).handle, at: now)
    case .encryptionKeyRefreshComplete:
      centrals.beginLooking(try EncryptionKeyRefreshComplete(validating: event.parameters).handle, at: now)
    default: break
    }
  }

  // MARK: Security

  /// Records the origin of the key with which a central encrypts: a stored key, or the key of the current
  /// pairing.
  private func noteKey(_ key: UInt128, of handle: ConnectionHandle, _ centrals: KernelCentrals) {
    guard let link = centrals.links[handle] else { return }
    let bond = bond(of: link.connection)
    let isStored =
      bond?.localKey?.key == key || bond?.isSecureConnections == true && bond?.peerKey?.key == key
    centrals.links[handle]?.source = isStored ? .stored : .pairing
  }

  /// Reports the security of a link if its level has changed.
  ///
  /// - Parameter again: whether to report an unchanged level too, because the keys may have become known
  ///   after the last report.
  private func look(_ handle: ConnectionHandle, _ centrals: KernelCentrals, again: Bool = false) {
    guard let link = centrals.links[handle],
      let level = link.connection.assumeIsolated({ $0.securityLevel }), again || level != link.level
    else { return }
    centrals.links[handle]?.level = level
    if level != link.level { centrals.links[handle]?.looks = nil }
    let bond = bond(of: link.connection)
    let isEncrypted = level >= .medium
    var security = ATTSecurity(bond, isEncrypted: isEncrypted)
    // Use the kernel's level, because the stored bond may be outdated.
    if isEncrypted { security.level = level >= .high ? .authenticated : .encrypted }
    if bond == nil { security.keyByteCount = 7 }
    let identity = bond?.isBonded == true ? bond?.peerIdentity?.address ?? link.connection.peer : nil
    centrals.acceptor.secured(
      LinkSecurityChange(
        handle: handle, security: security, source: isEncrypted ? link.source : nil, identity: identity))
  }
}

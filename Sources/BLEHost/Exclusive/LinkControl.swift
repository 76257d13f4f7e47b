public import BLECore
import BLELinux
import BLEStack
import BLEWire

/// Links: made, changed, asked about. Core 5.4, Vol 4, Part E, 7.8.
extension HostAdapter {
  public func connect(
    to peer: DeviceAddress, asking request: LinkRequest, timeout: Duration, tap: PacketTap?
  ) async throws(HostError) -> Connection {
    let peer = try await currentAddress(of: peer, within: timeout)
    let connection = try await connect(
      [peer], startsFast: request.startsFast, timeout: timeout, tap: tap
    ) { () async throws(HostError) in
      let parameters = request.initialTiming
      if controller.usesExtendedCommands {
        try await command(LEExtendedCreateConnection(to: peer, ownType: address.type, parameters: parameters))
      } else {
        try await command(LECreateConnection(to: peer, ownType: address.type, parameters: parameters))
      }
    }
    if request.startsFast {
      await connection.onSettled { [weak self] in await self?.endFastStart($0, request) }
    }
    await encryptIfBonded(connection)
    await askBeyondTiming(request, of: connection)
    return connection
  }

  /// Gives a link the timing that it is to keep: what was asked for, else what the device has asked for meanwhile.
  private func endFastStart(_ connection: Connection, _ request: LinkRequest) async {
    let wish = withHost { $0.releaseTiming(of: connection.handle) }
    let rest: LinkParameterRange? = await isFast(connection) ? .default : nil
    guard let timing = request.timing ?? wish ?? rest else { return }
    await ask(.timing, of: connection, LEConnectionUpdate(connection.handle, timing))
  }

  /// Whether the link still has the timing of a fast start: a device's controller may have had it changed.
  private func isFast(_ connection: Connection) async -> Bool {
    guard let timing = await connection.link.timing else { return true }
    return timing.interval <= LinkRequest.fastIntervals.upperBound
  }

  /// Connects whichever of these devices advertises first: the controller looks for all of them by its accept list.
  ///
  /// - Throws: `commandRefused` with Memory Capacity Exceeded where the list is too short for them.
  public func connect(
    toFirstOf peers: [DeviceAddress], asking request: LinkRequest = LinkRequest(), timeout: Duration,
    tap: PacketTap? = nil
  ) async throws(HostError) -> Connection {
    let connection = try await connect(peers, timeout: timeout, tap: tap) { () async throws(HostError) in
      try await command(LEClearFilterAcceptList())
      for peer in peers { try await command(LEAddDeviceToFilterAcceptList(peer)) }
      let parameters = request.timing ?? .default
      if controller.usesExtendedCommands {
        try await command(
          LEExtendedCreateConnection(toAcceptListFrom: address.type, parameters: parameters))
      } else {
        try await command(LECreateConnection(toAcceptListFrom: address.type, parameters: parameters))
      }
    }
    await askBeyondTiming(request, of: connection)
    return connection
  }

  public func change(_ connection: Connection, to request: LinkRequest) async {
    if let timing = request.timing {
      await ask(.timing, of: connection, LEConnectionUpdate(connection.handle, timing))
    }
    await askBeyondTiming(request, of: connection)
  }

  /// Asks for what cannot be said when a link is made.
  private func askBeyondTiming(_ request: LinkRequest, of connection: Connection) async {
    if let phy = request.phy { await ask(.phy, of: connection, LESetPHY(connection.handle, phy)) }
    if let octets = request.dataLength {
      await ask(.dataLength, of: connection, LESetDataLength(connection.handle, octets: octets))
    }
  }

  private func ask(
    _ part: LinkRequest.Part, of connection: Connection, _ command: some HCICommand
  ) async {
    do throws(HostError) {
      try requireUp(connection)
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

  /// Before each command for a link that may have ended meanwhile: its handle may be another's by now.
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

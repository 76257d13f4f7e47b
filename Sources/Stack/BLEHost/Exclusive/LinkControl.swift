import BLELinux
public import BLEStack
public import BLEWire

/// Connecting, changing link parameters, and querying links. Core 5.4, Vol 4, Part E, 7.8.
extension HostAdapter {
  public func connect(
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

  /// Sets the lasting timing of a link: the requested one, otherwise the one that the device has requested
  /// meanwhile.
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

  /// Requests the parameters that cannot be set when a link is created.
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

  /// Checks that a link is still up. Call it before each command, because another link may have its handle by
  /// now.
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

public import BLEHost
import BLELinux
import BLEStack
public import BLEWire

/// `exclusive` mode: our own host advertises and serves.
extension HostAdapter: AdvertisingAdapter {
  public var advertisedAddress: DeviceAddress { address }

  public func advertise(
    _ advertisement: DeviceAdvertisement, serving server: GATTServer, upTo limit: Int, tap: PacketTap?
  ) async throws(HostError) {
    guard server.loop === loop else { throw .unsuitable("the server must use the event loop of its adapter") }
    guard accept(await server.acceptor(tap: tap, bonds: bondStore)) else {
      throw .adapterBusy(name, holder: "this program, which is already advertising")
    }
    let identity = advertisement.isPrivate ? makeIdentity() : nil
    let commands = AdvertisingCommands(
      set: controller.hasAdvertisingSets ? .first : nil, own: address, isPrivate: identity != nil)
    let privacy = identity.map { keepPrivate($0, commands) }
    var outcome: Result<Void, HostError> = .success(())
    do throws(HostError) {
      if advertisement.isPrivate, identity == nil {
        throw .unsuitable("private addresses need security: only bonded centrals can resolve them")
      }
      // Turn off advertising that is still on from an earlier call.
      try await stopAdvertising()
      try await configure(commands, advertisement, identity)
      try await server.keepAdvertising(upTo: limit) {
        await self.isAdvertising
      } start: { () async throws(HostError) in
        try await self.start(commands, advertisement, identity)
      }
    } catch { outcome = .failure(error) }
    privacy?.cancel()
    // Runs even if the task is cancelled.
    await loop.uninterrupted {
      await self.endAdvertising(server, commands)
      if let identity { await self.endPrivacy(identity) }
    }
    try outcome.get()
  }

  private func configure(
    _ commands: AdvertisingCommands, _ advertisement: DeviceAdvertisement, _ identity: DeviceIdentity?
  ) async throws(HostError) {
    advertisingIsOf = restartCount
    try await commands.configure(advertisement, by: self)
    if let identity { try await takePrivateAddress(identity) }
  }

  /// Turns advertising on. Configures it first if the controller was reset.
  private func start(
    _ commands: AdvertisingCommands, _ advertisement: DeviceAdvertisement, _ identity: DeviceIdentity?
  ) async throws(HostError) {
    do throws(HostError) {
      if restartCount != advertisingIsOf { try await configure(commands, advertisement, identity) }
      try await commands.start(by: self)
    } catch {
      // The controller is being reset. The acceptor's `restarted` is called when the reset has ended.
      guard error == .controllerReset else { throw error }
    }
  }

  private func endAdvertising(_ server: GATTServer, _ commands: AdvertisingCommands) async {
    _ = accept(nil)
    do throws(HostError) {
      try await stopAdvertising()
      try await commands.remove(by: self)
    } catch {
      // May fail if a central has just connected or the controller has failed. Advertising is off in both
      // cases.
    }
    await server.endLinks()
  }
}

// MARK: - Private addresses

/// Advertising with resolvable private addresses. Core 5.4, Vol 3, Part C, 10.7.
extension HostAdapter {
  /// Lifetime of a private address: T_GAP(private_addr_int). Core 5.4, Vol 3, Part C, Appendix A.
  private static let privateAddressLifetime = Duration.seconds(15 * 60)

  /// Sets a new private address for this identity. Advertising must be off.
  private func takePrivateAddress(_ identity: DeviceIdentity) async throws(HostError) {
    var address: DeviceAddress?
    // One random value in two million is invalid.
    while address == nil { address = identity.privateAddress(.random(in: 0 ... .max)) }
    guard let address else { return }
    if controller.hasAdvertisingSets { try await command(LESetAdvertisingSetRandomAddress(.first, address)) }
    // A host without a public address uses private addresses for all packets that it sends.
    let scope: HostPrivacy.Scope = identity.address.type == .random ? .all : .advertising
    if scope == .all || !controller.hasAdvertisingSets { try await command(LESetRandomAddress(address)) }
    hide(HostPrivacy(address, of: identity, scope))
  }

  /// Changes the private address each time its lifetime has passed. If the controller refuses, for example
  /// during a scan, the old address stays in use.
  private func keepPrivate(_ identity: DeviceIdentity, _ commands: AdvertisingCommands) -> Task<Void, Never> {
    loop.task {
      while (try? await self.loop.wait(for: Self.privateAddressLifetime)) != nil {
        let wasOn = await self.isAdvertising
        try? await self.stopAdvertising()
        try? await self.takePrivateAddress(identity)
        if wasOn { try? await commands.start(by: self) }
      }
    }
  }

  /// Switches back to the host's own address.
  private func endPrivacy(_ identity: DeviceIdentity) async {
    hide(nil)
    if identity.address.type == .random { _ = try? await command(LESetRandomAddress(identity.address)) }
  }
}

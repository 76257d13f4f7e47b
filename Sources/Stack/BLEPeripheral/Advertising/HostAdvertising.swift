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

  /// Turns advertising on. If the controller was reset meanwhile, configures it first.
  private func start(
    _ commands: AdvertisingCommands, _ advertisement: DeviceAdvertisement, _ identity: DeviceIdentity?
  ) async throws(HostError) {
    do throws(HostError) {
      if restartCount != advertisingIsOf { try await configure(commands, advertisement, identity) }
      try await commands.start(by: self)
    } catch {
      // The controller is being reset. The acceptor's `restarted` is called when it is up again.
      guard error == .controllerReset else { throw error }
    }
  }

  private func endAdvertising(_ server: GATTServer, _ commands: AdvertisingCommands) async {
    _ = accept(nil)
    do throws(HostError) {
      try await stopAdvertising()
      try await commands.remove(by: self)
    } catch {
      // May fail if a central has just connected or the controller has failed. Advertising is then off
      // anyway.
    }
    await server.endLinks()
  }
}

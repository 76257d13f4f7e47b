import BLEHost
import BLELinux
import BLEStack
import BLEWire

/// Advertising with resolvable private addresses. Core 5.4, Vol 3, Part C, 10.7.
extension HostAdapter {
  /// Lifetime of a private address: T_GAP(private_addr_int). Core 5.4, Vol 3, Part C, Appendix A.
  static let privateAddressLifetime = Duration.seconds(15 * 60)

  /// Sets a new private address for this identity. Advertising must be off.
  func takePrivateAddress(_ identity: DeviceIdentity) async throws(HostError) {
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

  /// Changes the address each time its lifetime has passed. If the controller refuses, for example during a
  /// scan, the old address stays in use.
  func keepPrivate(_ identity: DeviceIdentity, _ commands: AdvertisingCommands) -> Task<Void, Never> {
    loop.task {
      while (try? await self.loop.wait(for: Self.privateAddressLifetime)) != nil {
        let wasOn = await self.isAdvertising
        try? await self.stopAdvertising()
        try? await self.takePrivateAddress(identity)
        if wasOn { try? await commands.start(by: self) }
      }
    }
  }

  /// Returns to the host's own address.
  func endPrivacy(_ identity: DeviceIdentity) async {
    hide(nil)
    if identity.address.type == .random { _ = try? await command(LESetRandomAddress(identity.address)) }
  }
}

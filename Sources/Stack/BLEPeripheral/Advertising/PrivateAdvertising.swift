import BLEHost
import BLELinux
import BLEStack
import BLEWire

/// Advertising under resolvable private addresses. Core 5.4, Vol 3, Part C, 10.7.
extension HostAdapter {
  /// T_GAP(private_addr_int). Core 5.4, Vol 3, Part C, Appendix A.
  static let privateAddressLifetime = Duration.seconds(15 * 60)

  /// A new address for this identity, while advertising is off.
  func takePrivateAddress(_ identity: DeviceIdentity) async throws(HostError) {
    var address: DeviceAddress?
    // One draw in two million is not allowed.
    while address == nil { address = identity.privateAddress(.random(in: 0 ... .max)) }
    guard let address else { return }
    if controller.hasAdvertisingSets { try await command(LESetAdvertisingSetRandomAddress(.first, address)) }
    // A host without a public address hides in all that it sends.
    let scope: HostPrivacy.Scope = identity.address.type == .random ? .all : .advertising
    if scope == .all || !controller.hasAdvertisingSets { try await command(LESetRandomAddress(address)) }
    hide(HostPrivacy(address, of: identity, scope))
  }

  /// Takes a new address whenever the last is old. Where the controller cannot now, as amid a scan, the old one goes on.
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

  /// Goes on under the host's own address.
  func endPrivacy(_ identity: DeviceIdentity) async {
    hide(nil)
    if identity.address.type == .random { _ = try? await command(LESetRandomAddress(identity.address)) }
  }
}

import BLEEmulation
import BLEHost
import BLELinux
import BLEPeripheral
import BLEStack
import BLEWire
import PeripheralKit
import TestKit
import TestPeer
import Testing

/// A device with private addresses, and our own central, which is bonded to it. With google/bumble as the
/// central: `PeripheralPairingTests`.
@Suite(.timeLimit(.minutes(1))) struct PrivateAdvertisingTests {
  @Test(arguments: [VirtualController.Configuration.CommandSet.legacy, .extended])
  func changesItsAddress(_ commandSet: VirtualController.Configuration.CommandSet) async throws {
    let device = try await VirtualDevice.open(
      centrals: 1, commandSet: commandSet, pace: .air,
      clock: .virtual(from: ReceiveTime(nanoseconds: 1_700_000_000_000_000_000)))
    let (bonds, kept) = (KeptBonds(), KeptBonds())
    let own = DeviceAddress(bits: 0x00AA_0100_0000, type: .public)
    try await withTaskExecutorPreference(device.loop.preference) {
      try await device.host.secure(SecuritySettings(raising: .byPairing, store: bonds))
      try await device.centrals[0].secure(SecuritySettings(store: kept))
      var advertisement = DeviceAdvertisement(name: "Hidden")
      advertisement.isPrivate = true
      try await device.host.advertise(advertisement, services: VirtualDevice.services) { server in
        let first = try await device.centrals[0].find(named: "Hidden").address
        #expect(RandomAddressKind(first) == .resolvablePrivate)
        let connection = try await device.centrals[0].connect(
          to: first, asking: LinkRequest(), timeout: .seconds(10), tap: nil)
        _ = try await device.centrals[0].pair(connection)
        await connection.close()
        let identity = try #require(kept.bonds().first?.bond.peerIdentity)
        #expect(identity.address == own)
        #expect(identity.matches(first))
        #expect(kept.bonds().first?.device == own)
        let given = try #require(bonds.bonds().first)
        #expect(given.local == own)
        #expect(given.bond.localResolvingKey == identity.resolvingKey)

        // Core 5.4, Vol 3, Part C, Appendix A: 15 minutes.
        try await device.loop.wait(for: .seconds(14 * 60))
        #expect(try await device.centrals[0].find(named: "Hidden").address == first)
        try await device.loop.wait(for: .seconds(2 * 60))
        let second = try await device.centrals[0].find(named: "Hidden").address
        #expect(second != first)
        #expect(identity.matches(second))

        let again = try await device.centrals[0].connect(
          to: own, asking: LinkRequest(), timeout: .seconds(10), tap: nil)
        #expect(again.peer == second)
        #expect(await device.centrals[0].isEncrypted(again))
        #expect(await server.centrals.count == 1)
        await again.close()
      }
      // No longer private, and known by the same key next time.
      try await device.serve { _ in
        let found = try await device.centrals[0].find(named: "Device")
        #expect(found.address == own)
      }
      #expect(await device.host.makeIdentity() == kept.bonds().first?.bond.peerIdentity)
    }
    await device.close()
  }

  /// Without bonds no central could ever resolve the addresses.
  @Test func wantsSecurity() async throws {
    let device = try await VirtualDevice.open(centrals: 1)
    var advertisement = DeviceAdvertisement(name: "Hidden")
    advertisement.isPrivate = true
    await #expect(throws: HostError.self) {
      try await device.host.advertise(advertisement, services: VirtualDevice.services) { _ in }
    }
    await device.close()
  }
}

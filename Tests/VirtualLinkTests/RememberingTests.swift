import BLEEmulation
import BLEHost
import BLELinux
import BLEStack
import BLEWire
import ColmiRing
import Recording
import SensorSessions
import TestKit
import Testing

/// Stored information about devices that our host connects to.
@Suite(.timeLimit(.minutes(1))) struct RememberingTests {
  private func remembering(
    _ link: VirtualLink, in folder: String
  ) async -> (adapter: HostAdapter, devices: KnownDevices) {
    let devices = KnownDevices(in: folder + "/devices") { Issue.record("\($0)") }
    await link.adapter.add(DeviceJournal(devices) { Issue.record("\($0)") })
    return (link.adapter, devices)
  }

  /// A ring found by a scan: first the two services that are requested, then all of them.
  @Test func remembersARing() async throws {
    try await withFolder { folder in
      let link = try await VirtualLink.open([quietRing(number: 7)])
      let (adapter, devices) = await remembering(link, in: folder)
      let ring = try await SensorFinder.find(SensorKind.ring.search, on: adapter, within: .seconds(20))
      let connection = try await adapter.connect(
        to: ring.address, asking: LinkRequest(), timeout: .seconds(20), tap: nil)
      _ = try await RingConversation.begin(on: connection)
      let whole = try await connection.discover()
      await connection.close()
      await adapter.close()
      let known = try #require(devices.device(at: ring.address))
      #expect(devices.all().count == 1)
      #expect(known.name == "R02_0007")
      #expect(known.kind == .ring)
      #expect(known.discovery == GATTDiscoveryResult(whole, .whole))
      await link.close()
    }
  }

  /// The first discovery covers only a part.
  @Test func remembersAPart() async throws {
    try await withFolder { folder in
      let link = try await VirtualLink.open([quietRing()])
      let (adapter, devices) = await remembering(link, in: folder)
      let address = DeviceAddress(bits: 0x70CB_0D00_0001, type: .public)
      let connection = try await adapter.connect(
        to: address, asking: LinkRequest(), timeout: .seconds(20), tap: nil)
      _ = try await RingConversation.begin(on: connection)
      await connection.close()
      await adapter.close()
      let known = try #require(devices.device(at: address))
      #expect(known.name == nil)
      #expect(known.discovery.extent == .part)
      #expect(
        Set(known.discovery.database.services.map(\.uuid))
          == [.genericAttribute, RingUUID.commandService, RingUUID.bigDataService])
      await link.close()
    }
  }

  /// A link without discovery changes nothing.
  @Test func forgetsWhatItDidNotLearn() async throws {
    try await withFolder { folder in
      let link = try await VirtualLink.open([quietRing()])
      let (adapter, devices) = await remembering(link, in: folder)
      let connection = try await adapter.connect(
        to: DeviceAddress(bits: 0x70CB_0D00_0001, type: .public), asking: LinkRequest(),
        timeout: .seconds(20),
        tap: nil)
      await connection.close()
      await adapter.close()
      #expect(devices.all().isEmpty)
      await link.close()
    }
  }
}

import BLECore
import BLEEmulation
import BLEHost
import BLELinux
import BLEStack
import BLEWire
import Foundation
import Synchronization
import TestKit
import Testing

@testable import SensorSessions

/// A bonded device over links of our own host: found behind its private addresses, written to with signatures.
///
/// Both Security Managers are ours, and agree with other stacks elsewhere (`PairingVectorTests`, `PairingPeerTests`).
@Suite(.timeLimit(.minutes(1))) struct BondedDeviceTests {
  /// Has one value that takes signed writes, and remembers them.
  private final class Signed: VirtualPeripheral, Sendable {
    static let address = DeviceAddress(bits: 0x70CB_0D00_A1B4, type: .public)
    static let valueHandle = AttributeHandle(3)
    private let taken = Mutex<[[UInt8]]>([])
    var written: [[UInt8]] { taken.withLock { $0 } }
    var advertisement: Advertisement? { Advertisement(address: Self.address, data: [2, 1, 6]) }
    var services: [GATTServiceDescription] {
      [
        GATTServiceDescription(
          .heartRate,
          characteristics: [
            GATTCharacteristicDescription(
              BluetoothUUID(0x2A39), [.read, .write, .writeWithoutResponse, .authenticatedSignedWrites],
              value: [0])
          ])
      ]
    }

    func check(write value: Span<UInt8>, to handle: AttributeHandle) -> ATTErrorCode? {
      let octets = [UInt8](encoding: value.count) { $0.append(value) }
      taken.withLock { $0.append(octets) }
      return nil
    }
  }

  /// A host and a device that stay, with the keys of both.
  private struct Bench {
    let loop: EventLoop
    let adapter: HostAdapter
    let emulation: ControllerAttachment
    let device: Signed
    let security: PeripheralSecurity

    static func open(_ address: SecuredPeripheral.Address) async throws -> Bench {
      let device = Signed()
      let protection = PeripheralProtection(.encrypted)
      let security = PeripheralSecurity(protection, of: Signed.address, makeKeyPair: nil)
      let loop = try EventLoop.start()
      let controller = VirtualController(
        .init(), peripherals: [SecuredPeripheral(device, .encrypted, security, address: address)],
        air: VirtualAir.Configuration(pace: .immediate))
      var pair = try ControllerPort.pair()
      let emulation = try await ControllerAttachment.attach(controller, to: pair.takeController(), .datagrams)
      let adapter = try await HostAdapter.open(
        try loop.transport(over: pair.takeHost(), .datagrams), name: "virtual", on: loop)
      return Bench(loop: loop, adapter: adapter, emulation: emulation, device: device, security: security)
    }

    /// Who is heard, by address.
    func scan() async throws -> Advertiser? {
      let heard = Mutex<Advertiser?>(nil)
      _ = try await Scanner(kind: .passive).run(on: adapter, for: .seconds(10)) { advertiser in
        heard.withLock { $0 = advertiser }
        return .stop
      }
      return heard.withLock { $0 }
    }

    func connect(to address: DeviceAddress) async throws -> Connection {
      try await adapter.connect(to: address, asking: LinkRequest(), timeout: .seconds(10), tap: nil)
    }

    func close(_ connection: Connection) async {
      await connection.close()
      _ = await connection.ended()
    }

    func close() async {
      await adapter.close()
      await emulation.detach()
      loop.stop()
    }
  }

  private func withBonds(_ body: (BondFiles, String) async throws -> Void) async throws {
    try await withFolder { folder in
      try await body(BondFiles(in: folder) { Issue.record("\($0)") }, folder)
    }
  }

  /// Before the bond a private address is all there is; with it scan and connect know who it is, after each change.
  @Test func isKnownBehindPrivateAddresses() async throws {
    try await withBonds { bonds, _ in
      let bench = try await Bench.open(.private)
      try await bench.adapter.secure(SecuritySettings(raising: .byPairing, store: bonds))
      let stranger = try #require(try await bench.scan())
      #expect(RandomAddressKind(stranger.address) == .resolvablePrivate)
      #expect(stranger.identity == nil)
      let first = try await bench.connect(to: stranger.address)
      _ = try await bench.adapter.pair(first)
      await bench.close(first)
      #expect(bonds.bonds().map(\.device) == [Signed.address])

      let known = try #require(try await bench.scan())
      #expect(known.address != stranger.address)
      #expect(known.identity == Signed.address)
      let second = try await bench.connect(to: Signed.address)
      #expect(second.peer == known.address)
      #expect(await bench.adapter.isEncrypted(second))
      #expect(try await second.read(Signed.valueHandle) == [0])
      await bench.close(second)
      await bench.close()
    }
  }

  /// The key that was given away signs on a link without encryption; each counter goes once, also over a new start.
  @Test func takesWhatWeSign() async throws {
    try await withBonds { bonds, folder in
      let bench = try await Bench.open(.identity)
      try await bench.adapter.secure(SecuritySettings(raising: .byPairing, store: bonds))
      let first = try await bench.connect(to: Signed.address)
      await #expect(throws: GATTError.cannotSign) {
        try await bench.adapter.writeSigned([9], to: Signed.valueHandle, on: first)
      }
      _ = try await bench.adapter.pair(first)
      await bench.close(first)

      for number in 1...3 as ClosedRange<UInt8> {
        // As a program that was killed and starts again.
        let again = BondFiles(in: folder) { Issue.record("\($0)") }
        var settings = SecuritySettings(store: again)
        settings.encryption = .whenWanted
        try await bench.adapter.secure(settings)
        let link = try await bench.connect(to: Signed.address)
        #expect(await bench.adapter.isEncrypted(link) == false)
        try await bench.adapter.writeSigned([number], to: Signed.valueHandle, on: link)
        // A request behind the command, which has no answer; it is refused, and the link encrypted for it.
        #expect(try await link.read(Signed.valueHandle) == [number])
        #expect(await bench.adapter.isEncrypted(link))
        // On an encrypted link the same goes without a signature.
        try await bench.adapter.writeSigned([number + 0x10], to: Signed.valueHandle, on: link)
        #expect(try await link.read(Signed.valueHandle) == [number + 0x10])
        await bench.close(link)
      }
      #expect(bench.device.written.count == 6)
      let kept = try #require(bench.security.bonds.values.first)
      #expect(kept.peerSignCounter == 3)
      #expect(BondFiles(in: folder) { _ in }.bonds().first?.bond.localSignCounter == 3)
      await bench.close()
    }
  }

  /// The device has forgotten our key: what is signed is dropped without a word, and nothing else happens.
  @Test func isNotHeardByADeviceThatForgot() async throws {
    try await withBonds { bonds, _ in
      let bench = try await Bench.open(.identity)
      try await bench.adapter.secure(SecuritySettings(raising: .byPairing, store: bonds))
      let first = try await bench.connect(to: Signed.address)
      _ = try await bench.adapter.pair(first)
      await bench.close(first)
      bench.security.forgetAll()
      var settings = SecuritySettings(store: bonds)
      settings.encryption = .whenWanted
      try await bench.adapter.secure(settings)
      let link = try await bench.connect(to: Signed.address)
      try await bench.adapter.writeSigned([1], to: Signed.valueHandle, on: link)
      await #expect(throws: GATTError.self) { _ = try await link.read(Signed.valueHandle) }
      #expect(bench.device.written.isEmpty)
      await bench.close(link)
      await bench.close()
    }
  }
}

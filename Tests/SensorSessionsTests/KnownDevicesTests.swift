import BLEHost
import BLELinux
import BLEStack
import BLEWire
import ColmiRing
import Foundation
import SensorSessions
import Synchronization
import TestKit
import Testing

/// The files in which known devices are stored.
@Suite struct KnownDevicesTests {
  private let address = DeviceAddress(bits: 0x70CB_0D00_A1B2, type: .public)
  private let time = ReceiveTime(nanoseconds: 1_795_000_000_123_456_789)

  /// UUIDs from the reference `colmi-ring-protocol.md`, 2.
  private static let ringService: GATTDatabase.Service = {
    var service = GATTDatabase.Service(
      kind: .primary, range: HandleRange(start: AttributeHandle(16), end: AttributeHandle(21)),
      uuid: uuid("6e40fff0-b5a3-f393-e0a9-e50e24dcca9e"))
    service.includes = [
      GATTDatabase.Include(
        handle: AttributeHandle(17), range: HandleRange(start: AttributeHandle(1), end: AttributeHandle(3)),
        uuid: BluetoothUUID(0x180F))
    ]
    service.characteristics = [
      GATTDatabase.Characteristic(
        handle: AttributeHandle(18), properties: [.write, .writeWithoutResponse],
        valueHandle: AttributeHandle(19), endHandle: AttributeHandle(21),
        uuid: uuid("6e400002-b5a3-f393-e0a9-e50e24dcca9e"),
        descriptors: [GATTDatabase.Descriptor(handle: AttributeHandle(20), uuid: BluetoothUUID(0x2902))])
    ]
    return service
  }()

  private static func service(_ uuid: UInt16, _ start: UInt16, _ end: UInt16) -> GATTDatabase.Service {
    GATTDatabase.Service(
      kind: .primary, range: HandleRange(start: AttributeHandle(start), end: AttributeHandle(end)),
      uuid: BluetoothUUID(uuid))
  }

  private static func uuid(_ text: String) -> BluetoothUUID {
    guard let uuid = BluetoothUUID(text) else { preconditionFailure(text) }
    return uuid
  }

  private static func whole(_ services: GATTDatabase.Service...) -> GATTDiscoveryResult {
    GATTDiscoveryResult(GATTDatabase(services: services), .whole)
  }

  private static func part(_ services: GATTDatabase.Service...) -> GATTDiscoveryResult {
    GATTDiscoveryResult(GATTDatabase(services: services), .part)
  }

  /// Runs `body` with a store of devices in its own folder, and a closure that returns its warnings.
  private func withDevices(
    _ body: (KnownDevices, _ warnings: () -> [String]) async throws -> Void
  ) async throws {
    let warnings = Warnings()
    try await withFolder { folder in
      try await body(KnownDevices(in: folder + "/devices") { warnings.add($0) }) { warnings.all }
    }
  }

  private final class Warnings: Sendable {
    private let texts = Mutex<[String]>([])
    var all: [String] { texts.withLock { $0 } }
    func add(_ text: String) { texts.withLock { $0.append(text) } }
  }

  private func file(_ devices: KnownDevices) -> String {
    devices.folder + "/70-CB-0D-00-A1-B2-public.json"
  }

  @Test func remembersWhatItWasTold() async throws {
    try await withDevices { devices, warnings in
      var found = Self.whole(Self.service(0x1801, 1, 3), Self.ringService)
      found.databaseHash = Array(0..<16)
      try devices.remember(address, name: "R02_\u{1B}é", at: time, found)
      let known = try #require(devices.all().first)
      #expect(known.address == address)
      #expect(known.name == "R02_\u{1B}é")
      #expect(known.kind == .ring)
      #expect(known.lastSeen == time)
      #expect(known.discovery == found)
      #expect(warnings() == [])
      // The file as another program's JSON parser reads it.
      let object = try json(file(devices))
      #expect(object["version"] as? Int == 1)
      #expect(object["databaseHash"] as? String == "000102030405060708090a0b0c0d0e0f")
      let services = try #require(object["services"] as? [[String: Any]])
      let characteristics = try #require(services[1]["characteristics"] as? [[String: Any]])
      #expect(characteristics[0]["properties"] as? [String] == ["writeWithoutResponse", "write"])
      #expect(characteristics[0]["valueHandle"] as? Int == 19)
      let modes = try [file(devices), devices.folder].map {
        try FileManager.default.attributesOfItem(atPath: $0)[.posixPermissions] as? Int
      }
      #expect(modes == [0o600, 0o700])
      #expect(Files.names(in: devices.folder).count { !$0.hasPrefix(".") } == 1)
    }
  }

  /// Causes for which a device ended its links are kept for 30 days, in a file of a version that earlier
  /// programs do not change.
  @Test func remembersWhatNotToAsk() async throws {
    try await withDevices { devices, warnings in
      try devices.remember(address, name: "Strap", at: time, Self.whole(Self.ringService))
      #expect(try json(file(devices))["version"] as? Int == 1)
      let read = LinkSuspect.request([0x0A, 0x0C, 0x00])
      try devices.remember(address, at: time, endedAt: read)
      let day = Int64(86_400_000_000_000)
      let later = ReceiveTime(nanoseconds: time.nanoseconds + day)
      try devices.remember(address, at: later, endedAt: .parameters(.phy))
      try devices.remember(address, firmwareRevision: "1.0")
      let known = try #require(devices.device(at: address))
      #expect(known.discovery == Self.whole(Self.ringService) && known.firmwareRevision == "1.0")
      func asked(_ days: Int64) -> [LinkSuspect] {
        known.avoided(at: ReceiveTime(nanoseconds: time.nanoseconds + days * day))
      }
      // By a clock that is a month behind, and by one that is a day behind.
      #expect(asked(-30) == [])
      #expect(asked(-1) == [read, .parameters(.phy)])
      #expect(asked(29) == [read, .parameters(.phy)])
      #expect(asked(30) == [.parameters(.phy)])
      #expect(asked(31) == [])
      let object = try json(file(devices))
      #expect(object["version"] as? Int == 2)
      let items = try #require(object["notAsked"] as? [[String: Any]])
      #expect(items.compactMap { $0["request"] as? String } == ["0a0c00"])
      #expect(items.compactMap { $0["parameters"] as? String } == ["phy"])
      // A repeated cause counts from the later time; only the latest causes are kept.
      try devices.remember(address, at: later, endedAt: read)
      #expect(devices.device(at: address)?.avoided.map(\.suspect) == [.parameters(.phy), read])
      for handle in 1...9 as ClosedRange<UInt8> {
        try devices.remember(address, at: later, endedAt: .request([0x0A, handle, 0x00]))
      }
      #expect(devices.device(at: address)?.avoided.count == 8)
      #expect(warnings() == [])
    }
  }

  /// A device that was never discovered, and one whose attributes have changed.
  @Test func asksAChangedDeviceAgain() async throws {
    try await withDevices { devices, _ in
      let suspect = LinkSuspect.request([0x02, 0x05, 0x02])
      try devices.remember(address, at: time, endedAt: suspect)
      #expect(devices.device(at: address)?.discovery.extent == GATTDiscoveryResult.Extent.none)
      try devices.remember(address, name: nil, at: time, Self.part(Self.ringService))
      try devices.remember(address, name: nil, at: time, Self.whole(Self.ringService))
      try devices.remember(address, name: nil, at: time, Self.whole(Self.ringService))
      #expect(devices.device(at: address)?.avoided.map(\.suspect) == [suspect])
      try devices.remember(
        address, name: nil, at: time, Self.whole(Self.service(0x1801, 1, 3), Self.ringService))
      #expect(devices.device(at: address)?.avoided == [])
      try devices.remember(address, at: time, endedAt: suspect)
      try devices.remember(address, name: nil, at: time, GATTDiscoveryResult(GATTDatabase(), .none))
      #expect(devices.device(at: address)?.avoided == [])
    }
  }

  @Test func isFoundByAddressAndName() async throws {
    try await withDevices { devices, _ in
      let other = DeviceAddress(bits: 0xC412_3456_789A, type: .random)
      try devices.remember(address, name: "R02_A1B2", at: time, Self.whole(Self.ringService))
      try devices.remember(other, name: "Strap", at: ReceiveTime(nanoseconds: 5), Self.whole())
      #expect(devices.all().map(\.address) == [address, other])
      #expect(devices.named("C4:12:34:56:78:9a").map(\.address) == [other])
      #expect(devices.named("R02_A1B2").map(\.address) == [address])
      #expect(devices.named("R02").isEmpty)
      try devices.remember(other, name: "R02_A1B2", at: time, Self.whole())
      #expect(Set(devices.named("R02_A1B2").map(\.address)) == [address, other])
      #expect(try devices.forget(address))
      #expect(try !devices.forget(address))
      #expect(devices.all().map(\.address) == [other])
      #expect(try devices.forgetAll() == 1)
      #expect(devices.all().isEmpty)
    }
  }

  /// Core 5.4, Vol 6, Part B, 1.3.2: the two most significant bits of a static address are 11; addresses with
  /// other values change.
  @Test(arguments: [(0xC0, true), (0xFF, true), (0x40, false), (0x7F, false), (0x00, false), (0x80, false)])
  func leavesOutAddressesThatChange(_ first: UInt64, _ isKept: Bool) async throws {
    try await withDevices { devices, _ in
      try devices.remember(
        DeviceAddress(bits: first << 40 | 1, type: .random), name: nil, at: time, Self.whole())
      #expect(devices.all().count == (isKept ? 1 : 0))
    }
  }

  @Test func aPartDoesNotDisplaceTheWhole() async throws {
    try await withDevices { devices, _ in
      let later = ReceiveTime(nanoseconds: time.nanoseconds + 1)
      let whole = Self.whole(Self.service(0x1801, 1, 3), Self.ringService)
      try devices.remember(address, name: "R02_A1B2", at: time, whole)
      // The result of a search for one service, which does not discover includes.
      var found = Self.ringService
      found.includes = []
      try devices.remember(address, name: nil, at: later, Self.part(found))
      let known = try #require(devices.device(at: address))
      #expect(known.discovery == whole)
      #expect(known.name == "R02_A1B2")
      #expect(known.lastSeen == later)
      // The service has moved, so everything else may have moved too.
      let moved = Self.service(0x1801, 4, 6)
      try devices.remember(address, name: nil, at: later, Self.part(moved))
      #expect(devices.device(at: address)?.discovery == Self.part(moved))
    }
  }

  @Test func partsComeTogether() async throws {
    try await withDevices { devices, _ in
      try devices.remember(address, name: nil, at: time, Self.part(Self.ringService))
      let information = Self.service(0x180A, 4, 9)
      try devices.remember(address, name: nil, at: time, Self.part(information))
      try devices.remember(address, name: nil, at: time, Self.part(information))
      let known = try #require(devices.device(at: address))
      #expect(known.discovery == Self.part(information, Self.ringService))
      #expect(known.kind == .ring)
    }
  }

  /// Every truncation of a file, as a full disk could leave it, and every byte changed.
  @Test func damagedFilesAreSetAside() async throws {
    try await withDevices { devices, warnings in
      try devices.remember(address, name: "R02_A1B2", at: time, Self.whole(Self.ringService))
      let octets = contents(file(devices))
      var damaged = (0..<octets.count - 1).map { Array(octets[..<$0]) }
      damaged.append(Array("{}".utf8))
      damaged.append(Array(#"{"version":1,"address":"70:CB:0D:00:A1:B2","addressType":"public"}"#.utf8))
      damaged.append([0xFF, 0x00])
      for (index, content) in damaged.enumerated() {
        try Data(content).write(to: URL(filePath: file(devices)))
        #expect(devices.all().isEmpty)
        #expect(warnings().count == index + 1)
        #expect(!Files.exists(file(devices)))
        #expect(contents(file(devices) + ".damaged") == content)
      }
      // The device can be stored again.
      try devices.remember(address, name: nil, at: time, Self.whole())
      #expect(devices.all().count == 1)
    }
  }

  /// One bit is changed anywhere in the file. The result is either the stored device, or no device and a
  /// warning; never other handles.
  @Test func isNotDeceivedByChangedOctets() async throws {
    try await withDevices { devices, warnings in
      var found = Self.whole(Self.service(0x1801, 1, 3), Self.ringService)
      found.databaseHash = Array(0..<16)
      try devices.remember(address, name: "R02_A1B2", at: time, found)
      let device = try #require(devices.all().first)
      let octets = contents(file(devices))
      for index in octets.indices {
        var changed = octets
        changed[index] ^= 1 << UInt8(index % 8)
        try Data(changed).write(to: URL(filePath: file(devices)))
        let count = warnings().count
        let all = devices.all()
        // If the checksum's key is damaged, the file looks like one from an older program, which proves
        // nothing.
        let isHarmless = all == [device] || all.first?.discovery.proof == GATTDiscoveryResult.Proof.none
        #expect(all.isEmpty ? warnings().count == count + 1 : isHarmless)
      }
    }
  }

  /// The file of another device under this device's name.
  @Test func aForeignFileIsSetAside() async throws {
    try await withDevices { devices, warnings in
      try devices.remember(address, name: nil, at: time, Self.whole(Self.ringService))
      let foreign = devices.folder + "/70-CB-0D-00-A1-B3-public.json"
      try Data(contents(file(devices))).write(to: URL(filePath: foreign))
      #expect(devices.device(at: DeviceAddress(bits: 0x70CB_0D00_A1B3, type: .public)) == nil)
      #expect(warnings().count == 1)
      #expect(devices.all().map(\.address) == [address])
    }
  }

  /// A file of an older program has no checksum: it can be shown but is not used.
  @Test func aFileWithoutChecksumProvesNothing() async throws {
    try await withDevices { devices, warnings in
      try devices.remember(address, name: "R02_A1B2", at: time, Self.whole(Self.ringService))
      #expect(devices.device(at: address)?.discovery.proof == .lasting)
      let text = String(decoding: contents(file(devices)), as: UTF8.self)
      let former = text.replacing(#/,"checksum":"[0-9a-f]+"/#, with: "")
      #expect(former.count < text.count)
      try Data(former.utf8).write(to: URL(filePath: file(devices)))
      let known = try #require(devices.device(at: address))
      #expect(known.discovery.database == GATTDatabase(services: [Self.ringService]))
      #expect(known.discovery.proof == GATTDiscoveryResult.Proof.none)
      #expect(warnings() == [])
    }
  }

  @Test func whatHasChangedIsNotUsed() async throws {
    try await withDevices { devices, _ in
      var found = Self.whole(Self.service(0x1801, 1, 3), Self.ringService)
      found.databaseHash = Array(0..<16)
      try devices.remember(address, name: "R02_A1B2", at: time, found)
      try devices.remember(address, name: nil, at: time, GATTDiscoveryResult(GATTDatabase(), .none))
      let known = try #require(devices.device(at: address))
      #expect(known.kind == .ring && known.name == "R02_A1B2")
      #expect(known.discovery.proof == GATTDiscoveryResult.Proof.none)
      #expect(known.discovery.database(of: [RingUUID.commandService]) == nil)
      // A partial result with another hash replaces the complete one, whatever it contains.
      try devices.remember(address, name: nil, at: time, found)
      var part = Self.part(Self.service(0x1801, 1, 3))
      part.databaseHash = Array(1..<17)
      part.absent = [.battery]
      try devices.remember(address, name: nil, at: time, part)
      #expect(devices.device(at: address)?.discovery == part)
    }
  }

  @Test func filesOfALaterVersionAreLeftAlone() async throws {
    try await withDevices { devices, warnings in
      try Files.createDirectory(devices.folder)
      let text = #"{"version":3,"what":"nobody knows"}"#
      try Data(text.utf8).write(to: URL(filePath: file(devices)))
      #expect(devices.all().isEmpty)
      try devices.remember(address, name: nil, at: time, Self.whole())
      #expect(contents(file(devices)) == Array(text.utf8))
      #expect(warnings().allSatisfy { $0.contains("later") })
      #expect(try devices.forget(address))
    }
  }

  @Test func aFolderThatCannotBeWrittenIsAnError() async throws {
    try withFolder { folder in
      try Data().write(to: URL(filePath: folder + "/file"))
      let devices = KnownDevices(in: folder + "/file/devices") { _ in }
      #expect(throws: SystemError.self) {
        try devices.remember(address, name: nil, at: time, Self.whole())
      }
      #expect(devices.all().isEmpty)
    }
  }

  /// Kinds are recognised by services; the UUIDs are in the reference `sensor-services.md`.
  @Test(arguments: [
    (["180d", "180f"], KnownDevice.Kind.heartRate), (["1809"], .thermometer), (["180f"], .other),
    ([], .other),
    (["180d", "fb005c80-02e7-f387-1cad-8acd2d8df0c8"], .polar),
    (["1809", "00002100-5b1e-4347-b07c-97b514dae121"], .core),
  ])
  func tellsKindsApart(_ uuids: [String], _ kind: KnownDevice.Kind) {
    let services = uuids.map {
      GATTDatabase.Service(
        kind: .primary, range: HandleRange(start: .first, end: .first), uuid: Self.uuid($0))
    }
    #expect(KnownDevice.Kind(services) == kind)
  }
}

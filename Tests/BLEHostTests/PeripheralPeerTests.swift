import BLEHost
import BLELinux
import BLEPeripheral
import BLESecurity
import BLEStack
import BLEWire
import Foundation
import Synchronization
import TestKit
import Testing

/// Our device, used by google/bumble's host on bumble's controllers.
@Suite(.timeLimit(.minutes(1))) struct PeripheralPeerTests {
  static let services = [
    GATTServiceDescription(
      .heartRate,
      characteristics: [
        GATTCharacteristicDescription(.heartRateMeasurement, .notify),
        GATTCharacteristicDescription(.bodySensorLocation, .read, value: [0x02]),
      ]),
    GATTServiceDescription(
      BluetoothUUID(0xAA00),
      characteristics: [
        GATTCharacteristicDescription(
          BluetoothUUID(0xAA01), [.read, .write, .writeWithoutResponse], value: [1, 2, 3]),
        GATTCharacteristicDescription(BluetoothUUID(0xAA02), .indicate),
        GATTCharacteristicDescription(
          BluetoothUUID(0xAA03), .read, value: (0..<300).map { UInt8(truncatingIfNeeded: $0) }),
      ]),
  ]
  static let advertisement = DeviceAdvertisement(name: "Strap", services: [.heartRate])

  /// Handles follow the order of the services: 0x000A is the heart rate's first.
  @Test func isFoundReadAndWritten() async throws {
    try await withDevice { device in
      let peer = device.peer
      try await peer.expect("found \(device.address) Strap 180D", for: "find Strap")
      try await peer.expect("connected \(device.address)", for: "connect Strap")
      let central = try await device.connected()
      #expect(central.address.description == peer.addresses[0])
      try await peer.expect("mtu 185", for: "mtu 185")
      _ = try await peer.ask("attributes", "attributes")
      let listed = peer.lines().filter { $0.hasPrefix("attribute 0x") }.map { $0.split(separator: " ")[2] }
      // Five of Generic Access, eight of Generic Attribute, six and eight of the others.
      #expect(listed.count == 27)
      #expect(listed.filter { $0 == "2902" }.count == 3)

      let read = try await device.server.require(BluetoothUUID(0xAA03)).text
      let expected = hexOf((0..<300).map { UInt8(truncatingIfNeeded: $0) })
      try await peer.expect("read \(expected)", for: "read \(read)")
      let value = try await device.server.require(BluetoothUUID(0xAA01))
      try await peer.expect("read 010203", for: "read \(value.text)")
      try await peer.expect("written", for: "write \(value.text) 0a0b")
      #expect(try await device.next() == .written(central, value, [0x0A, 0x0B]))
      try peer.tell("1 command \(value.text) 0c")
      #expect(try await device.next() == .written(central, value, [0x0C]))
      // Longer than the MTU: prepared in parts, stored at once.
      let long = (0..<400).map { UInt8(truncatingIfNeeded: $0 &* 7) }
      try await peer.expect("written", for: "write \(value.text) \(hexOf(long))")
      #expect(try await device.next() == .written(central, value, long))
      try await peer.expect("read \(hexOf(long))", for: "read \(value.text)")
      // Core 5.4, Vol 3, Part F, 3.4.1.1: Write Not Permitted, Read Not Permitted, Invalid Attribute Value Length.
      try await peer.expect("refused 3", for: "write \(read) 00")
      let measurement = try await device.server.require(.heartRateMeasurement)
      try await peer.expect("refused 2", for: "read \(measurement.text)")
      try await peer.expect("disconnected 19", for: "disconnect")
      #expect(try await device.next() == .disconnected(central, .linkLost(.closedByPeer)))
      // It advertises again.
      #expect(try await peer.ask("find Strap", "found").hasPrefix("found"))
    }
  }

  @Test func asksItsHandlers() async throws {
    try await withDevice { device in
      let value = try await device.server.require(BluetoothUUID(0xAA01))
      let reads = Mutex<UInt8>(0)
      await device.server.onRead(of: value) {
        reads.withLock { count in
          count += 1
          return [count]
        }
      }
      await device.server.checkWrites(to: value) { _, octets in octets.first == 0xFF ? .valueNotAllowed : nil
      }
      try await device.peer.ask("connect Strap", "connected")
      let central = try await device.connected()
      try await device.peer.expect("read 01", for: "read \(value.text)")
      try await device.peer.expect("read 02", for: "read \(value.text)")
      try await device.peer.expect("refused 19", for: "write \(value.text) ff")
      try await device.peer.expect("written", for: "write \(value.text) fe")
      #expect(try await device.next() == .written(central, value, [0xFE]))
    }
  }

  @Test func notifiesAndIndicates() async throws {
    try await withDevice { device in
      let (peer, server) = (device.peer, device.server)
      try await peer.ask("connect Strap", "connected")
      let central = try await device.connected()
      let rate = try await server.require(.heartRateMeasurement)
      await #expect(throws: GATTServerError.notSubscribed) {
        try await server.notify([0], of: rate, to: central)
      }
      try await peer.ask("subscribe \(rate.text) notify", "subscribed")
      #expect(try await device.next() == .subscribed(central, rate, [.notification]))
      for number in 0..<500 {
        try await server.notify([0, UInt8(truncatingIfNeeded: number)], of: rate, to: central)
      }
      try await eventually("500 values") { peer.values().count == 500 }
      #expect(
        peer.values()
          == (0..<500).map { "\(rate.text) \(hexOf([0, UInt8(truncatingIfNeeded: $0)])) notification" })
      try await peer.ask("unsubscribe \(rate.text)", "unsubscribed")
      #expect(try await device.next() == .subscribed(central, rate, []))

      let alarm = try await server.require(BluetoothUUID(0xAA02))
      try await peer.ask("subscribe \(alarm.text) indicate", "subscribed")
      #expect(try await device.next() == .subscribed(central, alarm, [.indication]))
      // Sent in parallel, but still one after the other on the air.
      try await withThrowingTaskGroup(of: Void.self) { group in
        for number in 0..<20 {
          group.addTask { try await server.indicate([UInt8(number)], of: alarm, to: central) }
        }
        try await group.waitForAll()
      }
      let indicated = peer.values().filter { $0.hasSuffix("indication") }
      #expect(Set(indicated) == Set((0..<20).map { "\(alarm.text) \(hexOf([UInt8($0)])) indication" }))
      #expect(indicated.count == 20)
      let counts = await server.statistics
      #expect(counts.notifications == 500)
      #expect(counts.indications == 20)
      #expect(counts.faults == 0)
    }
  }

  @Test func servesSeveralAtOnce() async throws {
    try await withDevice("--centrals", "3") { device in
      let (peer, server) = (device.peer, device.server)
      let rate = try await server.require(.heartRateMeasurement)
      var centrals: [Central] = []
      for number in 1...3 {
        try await peer.ask("connect Strap", "connected", central: number)
        centrals.append(try await device.connected())
        try await peer.ask("subscribe \(rate.text) notify", "subscribed", central: number)
        _ = try await device.next()
      }
      #expect(await server.centrals == centrals)
      let all = centrals
      try await withThrowingTaskGroup(of: Void.self) { group in
        for central in all {
          group.addTask {
            for number in 0..<200 {
              try await server.notify([UInt8(central.number), UInt8(number)], of: rate, to: central)
            }
          }
        }
        try await group.waitForAll()
      }
      for number in 1...3 {
        try await eventually("200 values of \(number)") { peer.values(central: number).count == 200 }
        #expect(
          peer.values(central: number)
            == (0..<200).map { "\(rate.text) \(hexOf([UInt8(number), UInt8($0)])) notification" })
      }
      // A value written by one is read by the others.
      let value = try await server.require(BluetoothUUID(0xAA01))
      try await peer.ask("write \(value.text) 77", "written", central: 2)
      try await peer.expect("read 77", for: "read \(value.text)", central: 3)
    }
  }

  /// Cancelling ends advertising and links.
  @Test func leavesNothingOn() async throws {
    let peer = try await BumbleCentrals.start()
    let loop = try EventLoop.start()
    defer { loop.stop() }
    let adapter = try await HostAdapter.open(.tcpClient(host: "127.0.0.1", port: peer.port), on: loop)
    let server = GATTServer(Self.services, on: loop)
    let work = Task { try await adapter.advertise(Self.advertisement, serving: server) }
    try await peer.ask("connect Strap", "connected")
    work.cancel()
    try await work.value
    #expect(try await peer.next(["disconnected"]) == "disconnected 19")
    #expect(await server.centrals.isEmpty)
    #expect(await adapter.isAdvertising == false)
    // Again, on the same adapter.
    let again = Task { try await adapter.advertise(Self.advertisement, serving: server) }
    try await peer.ask("connect Strap", "connected")
    again.cancel()
    try await again.value
    await adapter.close()
  }

  // MARK: Faults

  /// Prepared writes are discarded with the link: the next one writes the whole value.
  @Test func forgetsALongWriteThatWasBroken() async throws {
    try await withDevice { device in
      let (peer, server) = (device.peer, device.server)
      let value = try await server.require(BluetoothUUID(0xAA01))
      try await peer.ask("connect Strap", "connected")
      try await peer.expect("prepared", for: "prepare \(value.text) 0 aabb")
      try await peer.ask("disconnect", "disconnected")
      try await peer.ask("connect Strap", "connected")
      try await peer.expect("read 010203", for: "read \(value.text)")
      let long = (0..<100).map { UInt8(truncatingIfNeeded: $0) }
      try await peer.expect("written", for: "write \(value.text) \(hexOf(long))")
      try await peer.expect("read \(hexOf(long))", for: "read \(value.text)")
      #expect(await server.statistics.writes == 1)
    }
  }

  /// A central that sends requests without end is served or disconnected; another central is not affected.
  @Test func survivesAFlood() async throws {
    try await withDevice("--centrals", "2") { device in
      let (peer, server) = (device.peer, device.server)
      let value = try await server.require(BluetoothUUID(0xAA03))
      for number in 1...2 { try await peer.ask("connect Strap", "connected", central: number) }
      try await peer.expect("flooded", for: "flood \(value.text) 3000")
      #expect(try await peer.ask("read \(value.text)", "read", central: 2).hasPrefix("read 000102"))
      #expect(await server.centrals.contains { $0.number == 2 })
    }
  }

  // MARK: Parts

  private func withDevice(
    _ options: String..., body: (TestDevice) async throws -> Void
  ) async throws {
    let peer = try await BumbleCentrals.start(options)
    try await TestDevice.run(Self.services, Self.advertisement, with: peer, body)
  }
}

/// Our device on one of bumble's controllers.
struct TestDevice {
  let peer: BumbleCentrals
  let adapter: HostAdapter
  let server: GATTServer
  let address: DeviceAddress
  private let events: EventReader

  static func run(
    _ services: [GATTServiceDescription], _ advertisement: DeviceAdvertisement, with peer: BumbleCentrals,
    security: SecuritySettings? = nil, _ body: (TestDevice) async throws -> Void
  ) async throws {
    let loop = try EventLoop.start()
    defer { loop.stop() }
    let adapter = try await HostAdapter.open(.tcpClient(host: "127.0.0.1", port: peer.port), on: loop)
    if let security { try await adapter.secure(security) }
    try await adapter.advertise(advertisement, services: services) { server in
      let device = TestDevice(
        peer: peer, adapter: adapter, server: server, address: await adapter.address,
        events: EventReader(server.events))
      try await body(device)
    }
    await adapter.close()
  }

  /// The next event.
  func next() async throws -> GATTServerEvent { try #require(try await events.next()) }

  /// Expects the next event to be a connection.
  func connected() async throws -> Central {
    let event = try await next()
    guard case .connected(let central) = event else {
      Issue.record("\(event)")
      throw CancellationError()
    }
    return central
  }
}

/// Returns events one after the other.
private final class EventReader: Sendable {
  private let waiting = Mutex<[GATTServerEvent]>([])

  init(_ events: AsyncStream<GATTServerEvent>) {
    Task { for await event in events { waiting.withLock { $0.append(event) } } }
  }

  func next() async throws -> GATTServerEvent? {
    try await eventually("an event") { waiting.withLock { !$0.isEmpty } }
    return waiting.withLock { $0.removeFirst() }
  }
}

extension GATTServer {
  func require(_ uuid: BluetoothUUID) throws -> AttributeHandle { try #require(handle(of: uuid)) }
}

extension AttributeHandle {
  /// In bumble's format: `0x000c`.
  var text: String { "0x" + hexOf([UInt8(rawValue >> 8), UInt8(rawValue & 0xFF)]) }
}

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

/// Our device and our own stack as the central, on our own controllers.
@Suite(.timeLimit(.minutes(2))) struct PeripheralTests {
  @Test(arguments: [VirtualController.Configuration.CommandSet.legacy, .extended])
  func isFoundAndUsed(_ commandSet: VirtualController.Configuration.CommandSet) async throws {
    let device = try await VirtualDevice.open(centrals: 1, commandSet: commandSet)
    try await device.serve { server in
      let found = try await device.centrals[0].find(named: "Device")
      #expect(found.services.contains(.heartRate))
      let connection = try await device.connect()
      try await connection.exchangeMTU()
      #expect(await connection.mtu == 517)
      let database = try await connection.discover()
      #expect(database.services.map(\.uuid) == [.genericAccess, .genericAttribute, .heartRate])
      let handle = try await server.require(BluetoothUUID(0xAA01))
      #expect(try await connection.read(handle) == [1, 2, 3])
      let long = (0..<512).map { UInt8(truncatingIfNeeded: $0) }
      try await connection.write(long, to: handle)
      #expect(try await connection.read(handle) == long)
      let characteristic = try #require(
        database.services[2].characteristics.first { $0.uuid == .heartRateMeasurement })
      let received = Received()
      _ = try await connection.subscribe(characteristic) { value, _ in received.take(value) }
      for number in 0..<1000 {
        try await server.notify([UInt8(number & 0xFF), UInt8(number >> 8)], of: characteristic.valueHandle)
      }
      try await eventually("1,000 values") { received.count == 1000 }
      #expect(received.all == (0..<1000).map { [UInt8($0 & 0xFF), UInt8($0 >> 8)] })
      await connection.close()
    }
    await device.close()
  }

  /// A client that caches attributes is told that they have changed, and finds the new ones.
  @Test func tellsThatItHasChanged() async throws {
    let device = try await VirtualDevice.open(centrals: 1)
    try await device.serve { server in
      let connection = try await device.connect()
      let before = try await connection.discover()
      let changed = try #require(
        before.services[1].characteristics.first { $0.uuid == .serviceChanged })
      let hash = try await connection.read(try await server.require(.databaseHash))
      let received = Received()
      _ = try await connection.subscribe(changed, by: .indication) { value, _ in received.take(value) }
      await server.change(to: VirtualDevice.services + [GATTServiceDescription(.battery)])
      try await eventually("Service Changed") { received.count == 1 }
      #expect(received.all == [[1, 0, 0xFF, 0xFF]])
      #expect(try await connection.discover().services.count == 4)
      #expect(try await connection.read(try await server.require(.databaseHash)) != hash)
      await connection.close()
    }
    await device.close()
  }

  /// Objects of an ended link are released, and so are those of an ended server.
  @Test func holdsNothingThatIsOver() async throws {
    weak var held: GATTServer?
    let device = try await VirtualDevice.open(centrals: 1)
    try await device.serve { server in
      held = server
      for _ in 0..<3 {
        let connection = try await device.connect()
        _ = try await connection.discover()
        await connection.close()
        try await eventually("an end") { await server.centrals.isEmpty }
      }
    }
    try await eventually("nothing held") { held == nil }
    await device.close()
  }

  /// Pairing exchanges signing keys. Afterwards a signature is accepted instead of encryption, once.
  @Test func takesWhatBondedCentralsSign() async throws {
    let device = try await VirtualDevice.open(centrals: 1)
    let (kept, own) = (KeptBonds(), KeptBonds())
    let taken = GATTCharacteristicDescription(
      BluetoothUUID(0xAA02), [.read, .authenticatedSignedWrites], value: [0])
    try await device.host.secure(SecuritySettings(raising: .byPairing, store: kept))
    try await device.serve([GATTServiceDescription(.heartRate, characteristics: [taken])]) { server in
      let handle = try await server.require(BluetoothUUID(0xAA02))
      let central = device.centrals[0]
      var settings = SecuritySettings(store: own)
      settings.encryption = .whenWanted
      try await central.secure(settings)
      let first = try await device.connect()
      _ = try await central.pair(first)
      await first.close()
      for number in 1...3 as ClosedRange<UInt8> {
        let link = try await device.connect()
        #expect(await central.isEncrypted(link) == false)
        // The PDU as the central's host signs it. It is sent twice: the second time is a replay attack.
        let signer = try #require(own.bonds().last.flatMap { BondSigner($0, in: own) })
        let message = [0xD2, UInt8(handle.rawValue), 0, number]
        let signed = message + (try await signer.signature(of: message))
        try await link.send(signed)
        #expect(try await link.read(handle) == [number])
        await server.setValue([0], of: handle)
        try await link.send(signed)
        #expect(try await link.read(handle) == [0])
        await link.close()
      }
      #expect(kept.bonds().map(\.bond.peerSignCounter) == [3])
    }
    await device.close()
  }

  /// In emulated air time: three centrals get 100 values a second each for a minute. One of them listens
  /// twice a second, and the controller has eight buffers.
  @Test func aSlowCentralHoldsNobodyUp() async throws {
    // 30 ms, 30 ms and 500 ms.
    try await withThreeSubscribed(intervals: [24, 24, 400]) { device, server, all in
      let times = try await device.push(6000, of: .heartRateMeasurement, by: server)
      for time in times.prefix(2) { #expect(time < .milliseconds(60_100)) }
      for received in all { try await device.expect(6000, in: received) }
    }
  }

  /// One central is out of range for twenty seconds and occupies as many of the controller's buffers as it
  /// can. The others get their values in time, and it gets the queued ones when it is back.
  @Test func aStuckCentralHoldsNobodyUp() async throws {
    try await withThreeSubscribed(intervals: [24, 24, 24]) { device, server, all in
      let stuck = DeviceAddress(bits: 0x00AA_0100_0003, type: .public)
      let watch = Task(executorPreference: device.loop.preference) {
        try await device.loop.wait(for: .seconds(10))
        await device.emulation.inject(AirFault.outOfRange(stuck))
        try await device.loop.wait(for: .seconds(2))
        let before = all.map(\.count)
        try await device.loop.wait(for: .seconds(16))
        let after = all.map(\.count)
        try await device.loop.wait(for: .seconds(2))
        await device.emulation.inject(AirFault.inRange(stuck))
        return zip(before, after).map { $1 - $0 }
      }
      let times = try await device.push(4000, of: .heartRateMeasurement, by: server)
      // One connection event more or less at each end.
      let counts = try await watch.value
      for count in counts.prefix(2) { #expect((1596...1604).contains(count)) }
      #expect(counts[2] == 0)
      for time in times.prefix(2) { #expect(time < .milliseconds(40_100)) }
      for received in all { try await device.expect(4000, in: received) }
    }
  }

  private func withThreeSubscribed(
    intervals: [UInt16], _ body: (VirtualDevice, GATTServer, [Received]) async throws -> Void
  ) async throws {
    let device = try await VirtualDevice.open(
      centrals: 3, buffers: 8, pace: .air,
      clock: .virtual(from: ReceiveTime(nanoseconds: 1_700_000_000_000_000_000)))
    try await withTaskExecutorPreference(device.loop.preference) {
      try await device.serve { server in
        let all = intervals.map { _ in Received() }
        for (index, interval) in intervals.enumerated() {
          let connection = try await device.connect(index, interval: interval, supervisionTimeout: 3200)
          try await connection.exchangeMTU()
          let characteristic = try #require(
            try await connection.discover().services[2].characteristics.first {
              $0.uuid == .heartRateMeasurement
            }
          )
          let received = all[index]
          _ = try await connection.subscribe(characteristic) { value, _ in received.take(value) }
        }
        try await body(device, server, all)
      }
    }
    await device.close()
  }

  // MARK: Faults

  /// When the controller is lost, events end, values are refused, and the reason is thrown.
  @Test func endsWithItsController() async throws {
    let device = try await VirtualDevice.open(centrals: 1)
    await #expect {
      try await device.serve { server in
        let handle = try await server.require(.heartRateMeasurement)
        _ = try await device.connect()
        await device.emulation.detach()
        for await _ in server.events {}
        await #expect(throws: GATTServerError.closed) { try await server.notify([0], of: handle) }
        #expect(await server.centrals.isEmpty)
      }
    } throws: { error in
      guard case HostError.controller("device", .transportLost) = error else { return false }
      return true
    }
    await device.close()
  }

  /// 30 s without a confirmation: the link is disconnected, and the others continue. Core 5.4, Vol 3, Part F,
  /// 3.3.3.
  @Test func endsALinkThatNeverConfirms() async throws {
    let device = try await VirtualDevice.open(
      centrals: 2, pace: .air, clock: .virtual(from: ReceiveTime(nanoseconds: 1_700_000_000_000_000_000)),
      wrap: {
        HostileTransport($0, sending: { channel, payload in payload == [0x1E] ? [] : [payload] })
      })
    try await withTaskExecutorPreference(device.loop.preference) {
      try await device.serve { server in
        let handle = try await server.require(BluetoothUUID(0xAA01))
        let silent = try await device.connect(0)
        let characteristic = try #require(
          try await silent.discover().services[2].characteristics.first { $0.valueHandle == handle })
        _ = try await silent.subscribe(characteristic) { _, _ in }
        let other = try await device.connect(1)
        let centrals = await server.centrals
        let start = device.loop.clock.monotonic()
        await #expect(throws: GATTServerError.notConfirmed) {
          try await server.indicate([7], of: handle, to: centrals[0])
        }
        let time = device.loop.clock.monotonic() - start
        #expect((30.0...30.1).contains(Double(time.nanoseconds) / 1e9))
        #expect(await server.statistics.unconfirmed == 1)
        #expect(try await other.read(handle) == [1, 2, 3])
        #expect(await server.centrals == [centrals[1]])
        await other.close()
      }
    }
    await device.close()
  }
}

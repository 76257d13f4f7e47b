package import BLEEmulation
package import BLEHost
package import BLELinux
package import BLEPeripheral
package import BLEStack
import BLEWire

/// Our hosts with controllers in one virtual air. The first host is a device, the others are centrals.
package struct VirtualDevice {
  package let loop: EventLoop
  package let emulation: ControllerAttachment
  package let host: HostAdapter
  package let centrals: [HostAdapter]

  package static let services = [
    GATTServiceDescription(
      .heartRate,
      characteristics: [
        GATTCharacteristicDescription(.heartRateMeasurement, .notify),
        GATTCharacteristicDescription(BluetoothUUID(0xAA01), [.read, .write, .indicate], value: [1, 2, 3]),
      ])
  ]

  /// - Parameters:
  ///   - buffers: number of buffers that each controller has for all of its links.
  ///   - clock: a virtual clock is used by all hosts.
  ///   - wrap: wraps the transports of the centrals.
  ///   - peripherals: emulated devices in the same air.
  package static func open(
    centrals count: Int, commandSet: VirtualController.Configuration.CommandSet = .legacy,
    buffers: UInt8 = 12, pace: VirtualAir.Pace = .immediate, clock: LoopClock = .system,
    wrap: @Sendable (any PacketTransport) -> any PacketTransport = { $0 },
    peripherals: @Sendable () -> [any VirtualPeripheral] = { [] }
  ) async throws -> VirtualDevice {
    let loop = try EventLoop.start(clock: clock)
    func configuration(_ number: UInt64) -> VirtualController.Configuration {
      VirtualController.Configuration(
        address: DeviceAddress(bits: 0x00AA_0100_0000 + number, type: .public), commandSet: commandSet,
        aclPacketCount: buffers)
    }
    let controller = VirtualController(
      configuration(0), peripherals: peripherals(), air: VirtualAir.Configuration(pace: pace))
    var pair = try ControllerPort.pair()
    let emulation = try await ControllerAttachment.attach(
      controller, to: pair.takeController(), .datagrams, on: clock.isVirtual ? loop : nil)
    let host = try await HostAdapter.open(
      try loop.transport(over: pair.takeHost(), .datagrams), name: "device", on: loop)
    var centrals: [HostAdapter] = []
    for number in 1...UInt64(count) {
      var pair = try ControllerPort.pair()
      try await emulation.add(configuration(number), to: pair.takeController(), .datagrams)
      centrals.append(
        try await HostAdapter.open(
          wrap(try loop.transport(over: pair.takeHost(), .datagrams)), name: "central", on: loop))
    }
    return VirtualDevice(loop: loop, emulation: emulation, host: host, centrals: centrals)
  }

  package func close() async {
    for central in centrals { await central.close() }
    await host.close()
    await emulation.detach()
    loop.stop()
  }

  /// Serves the device while `body` runs.
  package func serve(
    _ services: [GATTServiceDescription] = services, _ body: (GATTServer) async throws -> Void
  ) async throws {
    try await host.advertise(
      DeviceAdvertisement(name: "Device", services: [.heartRate]), services: services, body)
  }

  /// Connects one of the centrals. The interval is in units of 1.25 ms, the timeout in units of 10 ms.
  package func connect(
    _ index: Int = 0, interval: UInt16? = nil, supervisionTimeout: UInt16? = nil
  ) async throws -> Connection {
    var request = LinkRequest()
    request.interval = interval.map { $0...$0 }
    request.supervisionTimeout = supervisionTimeout
    return try await centrals[index].connect(
      to: DeviceAddress(bits: 0x00AA_0100_0000, type: .public), asking: request, timeout: .seconds(10),
      tap: nil)
  }
}

import BLEHost
public import BLEPeripheral
public import BLEStack

extension Radio {
  /// Is a device of ours while `body` runs: other hosts find it, connect, read, write and subscribe.
  ///
  /// ```swift
  /// let rate = GATTCharacteristicDescription(.heartRateMeasurement, .notify)
  /// let strap = GATTServiceDescription(.heartRate, characteristics: [rate])
  /// try await radio.advertise(DeviceAdvertisement(name: "Strap", services: [.heartRate]), services: [strap]) { server in
  ///   let handle = await server.handle(of: .heartRateMeasurement)!
  ///   for try await sample in values { try await server.notify([0x00, sample.beatsPerMinute], of: handle) }
  /// }
  /// ```
  ///
  /// When `body` returns or throws, or the task is cancelled, advertising is off and the links are ended before this
  /// returns. Beside the kernel's host it needs CAP_NET_RAW, and beside `bluetoothd` CAP_NET_ADMIN, too: the guide "Being
  /// the sensor" says what the daemon answers itself.
  ///
  /// - Parameters:
  ///   - advertisement: what scanners see; the name is that of the Device Name characteristic, too.
  ///   - services: in the order of their handles; Generic Access and Generic Attribute are put in front.
  ///   - limit: centrals at once.
  ///   - body: gets the server, whose `events` tell what centrals do.
  /// - Throws: `unsuitable` over a log, and where somebody advertises already; `notPermitted`; `commandRefused` where the
  ///   controller cannot advertise; what `body` throws.
  public func advertise<Value>(
    _ advertisement: DeviceAdvertisement, services: [GATTServiceDescription], upTo limit: Int = 8,
    _ body: (GATTServer) async throws -> Value
  ) async throws -> Value {
    guard let advertising = adapter.advertising else {
      throw HostError.unsuitable(
        "\(adapter.name) cannot advertise: it is a log"
      )
    }
    return try await advertising.advertise(advertisement, services: services, upTo: limit, body)
  }
}

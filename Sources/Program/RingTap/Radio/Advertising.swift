import BLEHost
public import BLEPeripheral
public import BLEStack

extension Radio {
  /// Advertises as a device while `body` runs: other hosts can find it, connect, read, write and subscribe.
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
  /// When `body` returns or throws, or the task is cancelled, advertising is stopped and the links are closed
  /// before this returns. On a kernel adapter it needs CAP_NET_RAW, and beside `bluetoothd` also
  /// CAP_NET_ADMIN: the guide "Being the sensor" explains which requests the daemon answers itself.
  ///
  /// - Parameters:
  ///   - advertisement: the data for scanners; its name is also that of the Device Name characteristic.
  ///   - services: the services in the order of their handles; Generic Access and Generic Attribute are
  ///     prepended.
  ///   - limit: maximum number of connected centrals.
  ///   - body: receives the server, whose `events` report the centrals' actions.
  /// - Throws: `unsuitable` on a replayed log, and if another program is advertising; `notPermitted`;
  ///   `commandRefused` if the controller cannot advertise; errors of `body`.
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

import BLEHost
public import BLEPeripheral
public import BLEStack

extension Radio {
  /// Advertises as a device while `body` runs. Other hosts can discover it, connect, read, write and
  /// subscribe.
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
  /// When `body` returns or throws, or the task is cancelled, `advertise` stops advertising and closes the
  /// links before it returns. A kernel adapter needs CAP_NET_RAW, and also CAP_NET_ADMIN if `bluetoothd`
  /// runs. The guide "Being the sensor" explains which requests `bluetoothd` answers itself.
  ///
  /// - Parameters:
  ///   - advertisement: the data for scanners. Its name is also the value of the Device Name characteristic.
  ///   - services: the services in the order of their handles. Generic Access and Generic Attribute are added
  ///     in front.
  ///   - limit: maximum number of connected centrals.
  ///   - body: receives the server. The server's `events` report the centrals' actions.
  /// - Throws: `unsuitable` on a replayed log, or if another program is advertising; `notPermitted`;
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

public import BLEHost
import BLELinux
public import BLEStack
public import BLEWire

/// An adapter that advertises and accepts connections from centrals.
public protocol AdvertisingAdapter: Adapter {
  /// Address that centrals see.
  var advertisedAddress: DeviceAddress { get async }

  /// Advertises a server until the task is cancelled.
  ///
  /// Advertising ends when a central connects. Advertising is turned on again at once if the controller
  /// supports more links, otherwise when a link has ended. When this method returns or throws, advertising is
  /// off and all links have ended.
  ///
  /// - Parameters:
  ///   - advertisement: the advertised data.
  ///   - server: must run on the event loop of this adapter.
  ///   - limit: maximum number of connected centrals.
  ///   - tap: receives the ATT PDUs of all links.
  /// - Throws: `commandRefused` if the controller refuses, `unsuitable`, `adapterBusy` if the adapter is
  ///   already advertising, `controller` if the controller has failed.
  func advertise(
    _ advertisement: DeviceAdvertisement, serving server: GATTServer, upTo limit: Int, tap: PacketTap?
  ) async throws(HostError)
}

extension Adapter {
  /// The adapter, if it can advertise; otherwise `nil`.
  public nonisolated var advertising: (any AdvertisingAdapter)? { self as? any AdvertisingAdapter }
}

extension AdvertisingAdapter {
  /// Advertises for up to `limit` connected centrals, until the task is cancelled.
  public func advertise(
    _ advertisement: DeviceAdvertisement, serving server: GATTServer, upTo limit: Int = 8
  ) async throws(HostError) {
    try await advertise(advertisement, serving: server, upTo: limit, tap: nil)
  }
}

extension AdvertisingAdapter {
  /// Advertises a GATT server while `body` runs.
  ///
  /// When `body` returns or throws, or its task is cancelled, advertising is turned off and the links are
  /// ended before this method returns. If the controller fails, the server's event stream ends; after `body`
  /// has returned, the controller's error is thrown.
  ///
  /// - Parameters:
  ///   - advertisement: the advertised data; its name is also the value of the Device Name characteristic.
  ///   - services: in the order of their handles; Generic Access and Generic Attribute are prepended.
  ///   - limit: maximum number of connected centrals.
  ///   - tap: receives the ATT PDUs of all links.
  ///   - body: receives the server once advertising has started.
  /// - Throws: the errors of `advertise`, or the error that `body` throws.
  public nonisolated func advertise<Value>(
    _ advertisement: DeviceAdvertisement, services: [GATTServiceDescription], upTo limit: Int = 8,
    tap: PacketTap? = nil, _ body: (GATTServer) async throws -> Value
  ) async throws -> Value {
    let server = GATTServer(
      services, name: advertisement.name, appearance: advertisement.appearance ?? 0, on: loop)
    return try await advertise(advertisement, server, upTo: limit, tap: tap, body)
  }

  /// Advertises an existing server while `body` runs.
  package nonisolated func advertise<Value>(
    _ advertisement: DeviceAdvertisement, _ server: GATTServer, upTo limit: Int, tap: PacketTap?,
    _ body: (GATTServer) async throws -> Value
  ) async throws -> Value {
    let keeper = loop.task { () -> HostError? in
      var failure: HostError?
      do throws(HostError) {
        try await self.advertise(advertisement, serving: server, upTo: limit, tap: tap)
      } catch { failure = error }
      await server.close()
      return failure
    }
    var outcome: Result<Value, any Error>
    guard await server.isAdvertised() else { throw await keeper.value ?? .adapterDown(name) }
    do { outcome = .success(try await body(server)) } catch { outcome = .failure(error) }
    keeper.cancel()
    if let failure = await keeper.value { outcome = .failure(failure) }
    return try outcome.get()
  }
}

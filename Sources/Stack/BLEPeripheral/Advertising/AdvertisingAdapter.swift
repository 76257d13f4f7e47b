public import BLEHost
import BLELinux
import BLEStack
public import BLEWire

/// An adapter that advertises and accepts connections from centrals.
public protocol AdvertisingAdapter: Adapter {
  /// Address that centrals see.
  var advertisedAddress: DeviceAddress { get async }

  /// Advertises a server until the task is cancelled.
  ///
  /// Advertising ends when a central connects. It is turned on again at once if the controller supports more
  /// links, otherwise when a link has ended. When this method returns or throws, advertising is off and the
  /// links are ended.
  ///
  /// - Parameters:
  ///   - advertisement: the advertised data.
  ///   - server: must run on the event loop of this adapter.
  ///   - limit: maximum number of connected centrals.
  ///   - tap: receives the ATT PDUs of all links.
  /// - Throws: `commandRefused` if the controller refuses, `unsuitable`, `adapterBusy` if the adapter is
  ///   already advertising, `controller` if it has failed.
  func advertise(
    _ advertisement: DeviceAdvertisement, serving server: GATTServer, upTo limit: Int, tap: PacketTap?
  ) async throws(HostError)
}

extension Adapter {
  /// The innermost adapter if it can advertise, otherwise `nil`.
  public nonisolated var advertising: (any AdvertisingAdapter)? { innermost as? any AdvertisingAdapter }
}

extension AdvertisingAdapter {
  /// Advertises for up to `limit` centrals at once, until the task is cancelled.
  public func advertise(
    _ advertisement: DeviceAdvertisement, serving server: GATTServer, upTo limit: Int = 8
  ) async throws(HostError) {
    try await advertise(advertisement, serving: server, upTo: limit, tap: nil)
  }
}

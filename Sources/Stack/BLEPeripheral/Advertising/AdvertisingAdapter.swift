public import BLEHost
import BLELinux
import BLEStack
public import BLEWire

/// An adapter that advertises and accepts connections from centrals.
public protocol AdvertisingAdapter: Adapter {
  /// The address that centrals see.
  var advertisedAddress: DeviceAddress { get async }

  /// Advertises a server until the task is cancelled.
  ///
  /// A connecting central ends advertising. It is turned on again as long as the controller supports more
  /// links, or when a link has ended. When this returns or throws, advertising is off and the links are
  /// ended.
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
  /// The adapter that can advertise; `nil` if none can.
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

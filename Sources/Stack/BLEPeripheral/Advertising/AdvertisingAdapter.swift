public import BLEHost
import BLELinux
import BLEStack
public import BLEWire

/// An adapter by which centrals find a device of ours and connect.
public protocol AdvertisingAdapter: Adapter {
  /// Under which centrals see it.
  var advertisedAddress: DeviceAddress { get async }

  /// Advertises, and lets centrals use a server, until the task is cancelled.
  ///
  /// A connect ends advertising; it goes on as long as the controller takes more links, and again when one has ended. At the
  /// end advertising is off and the links are ended, whatever the reason.
  ///
  /// - Parameters:
  ///   - advertisement: what scanners see.
  ///   - server: with its loop that of this adapter.
  ///   - limit: centrals at once.
  ///   - tap: gets the ATT PDUs of all links.
  /// - Throws: `commandRefused` where the controller cannot, `unsuitable`, `adapterBusy` where somebody advertises already,
  ///   `controller` when it is gone.
  func advertise(
    _ advertisement: DeviceAdvertisement, serving server: GATTServer, upTo limit: Int, tap: PacketTap?
  ) async throws(HostError)
}

extension Adapter {
  /// What advertises over this adapter; `nil` where nothing can.
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

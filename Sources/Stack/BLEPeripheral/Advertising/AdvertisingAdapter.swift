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

/// An adapter that can send HCI commands: our own host, or the raw channel of the kernel's host.
protocol CommandedAdapter: Adapter {
  @discardableResult func command(_ command: any HCICommand) async throws(HostError) -> [UInt8]
}

extension HostAdapter: CommandedAdapter {}
extension KernelAdapter: CommandedAdapter {}

/// Advertising by HCI commands to a controller. Core 5.4, Vol 4, Part E, 7.8.5 to 7.8.9, and 7.8.52 to
/// 7.8.59.
struct AdvertisingCommands: Sendable {
  /// The advertising set; `nil` if the controller has only the legacy commands. A controller refuses a mix of
  /// legacy and extended commands.
  let set: AdvertisingSetHandle?
  /// The adapter's own address.
  let own: DeviceAddress
  /// Whether to advertise with a random private address instead of `own`. The private address is set
  /// separately.
  var isPrivate = false

  private var ownType: AddressType { isPrivate ? .random : own.type }

  func configure(
    _ advertisement: DeviceAdvertisement, by adapter: some CommandedAdapter
  ) async throws(HostError) {
    let interval = advertisement.interval
    if let set {
      try await adapter.command(
        LESetExtendedAdvertisingParameters(
          set, form: advertisement.form, kind: .connectable, interval: interval, ownType: ownType))
      if own.type == .random { try await adapter.command(LESetAdvertisingSetRandomAddress(set, own)) }
      try await adapter.command(LESetExtendedAdvertisingData(set, advertisement.data))
      guard advertisement.form == .legacy else { return }
      try await adapter.command(LESetExtendedScanResponseData(set, advertisement.scanResponse))
    } else {
      guard advertisement.form == .legacy else {
        throw .unsuitable("\(adapter.name) does not support extended advertising; use legacy advertising")
      }
      try await adapter.command(
        LESetAdvertisingParameters(kind: .connectable, interval: interval, ownType: ownType))
      try await adapter.command(LESetAdvertisingData(advertisement.data))
      try await adapter.command(LESetScanResponseData(advertisement.scanResponse))
    }
  }

  func start(by adapter: some CommandedAdapter) async throws(HostError) {
    if let set {
      try await adapter.command(LESetExtendedAdvertisingEnable(.on, set))
    } else {
      try await adapter.command(LESetAdvertisingEnable(.on))
    }
  }

  func stop(by adapter: some CommandedAdapter) async throws(HostError) {
    if let set {
      try await adapter.command(LESetExtendedAdvertisingEnable(.off, set))
    } else {
      try await adapter.command(LESetAdvertisingEnable(.off))
    }
  }

  /// Removes the advertising set, which must be off.
  func remove(by adapter: some CommandedAdapter) async throws(HostError) {
    if let set { try await adapter.command(LERemoveAdvertisingSet(set)) }
  }
}

extension GATTServer {
  /// Turns advertising on whenever it is off and another central may connect. Returns when the task is
  /// cancelled.
  func keepAdvertising(
    upTo limit: Int, _ isOn: @Sendable () async -> Bool,
    start: @Sendable () async throws(HostError) -> Void
  ) async throws(HostError) {
    while !Task.isCancelled {
      let turnover = turnover
      if let failure { throw failure }
      if centrals.count < limit, await !isOn() {
        do throws(HostError) {
          try await start()
          begin()
        } catch {
          // The controller supports no more links. Advertising resumes when a link has ended.
          guard !centrals.isEmpty, case .commandRefused = error else { throw error }
        }
      }
      do { try await turns(from: turnover) } catch { return }
    }
  }
}

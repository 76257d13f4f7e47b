import BLEHost
import BLEWire

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

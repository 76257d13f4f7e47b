public import BLECore
public import BLEHost
import BLELinux
import BLEWire

/// `coexist` mode: the kernel advertises, beside what `bluetoothd` has it advertise; centrals come as in `raw` mode.
///
/// The kernel gives the ATT channel of each new link to the youngest socket that listens (`L2CAPSocket.listenATT`): as long as
/// ours does, centrals find our attributes and not the daemon's, by whose advertisement ever they came. The daemon sees the
/// link, and its agent answers in pairings. A link that is up when we begin stays with who has its channel.
extension CoexistAdapter: AdvertisingAdapter {
  public var advertisedAddress: DeviceAddress { info.address }

  public func advertise(
    _ advertisement: DeviceAdvertisement, serving server: GATTServer, upTo limit: Int, tap: PacketTap?
  ) async throws(HostError) {
    try advertisement.checkThatItIsPublic(name)
    let reply = try await kernel.manage(ReadAdvertisingFeatures())
    let free: UInt8?
    do throws(WireError) { free = try AdvertisingFeatures(validating: reply.span).free } catch {
      throw .malformedReply(error)
    }
    guard let free else {
      throw .unsuitable(
        "the kernel advertises as many as \(name) can already; `btmgmt --index \(info.index) advinfo` tells them, and "
          + "`rm-adv NUMBER` there takes one away")
    }
    try await kernel.advertise(
      by: ManagedAdvertiser(kernel, free, advertisement), serving: server, limit, tap)
  }
}

/// By the management interface: the kernel goes on with it by itself after scans and connects of others.
struct ManagedAdvertiser: KernelAdvertiser {
  private let adapter: KernelAdapter
  private let instance: UInt8
  private let advertisement: DeviceAdvertisement

  init(_ adapter: KernelAdapter, _ instance: UInt8, _ advertisement: DeviceAdvertisement) {
    (self.adapter, self.instance, self.advertisement) = (adapter, instance, advertisement)
  }

  func configure() async throws(HostError) {
    try await adapter.manage(
      AddExtendedAdvertisingParameters(
        instance, form: advertisement.form, interval: advertisement.interval))
  }

  /// New data switch it on, also where it is there.
  func start() async throws(HostError) {
    try await adapter.manage(
      AddExtendedAdvertisingData(
        instance, advertisement.data, scanResponse: advertisement.scanResponse))
  }

  /// The kernel keeps what it was told.
  func renew() async throws(HostError) {}

  func end() async {
    // With the adapter gone it is, too.
    _ = try? await adapter.manage(RemoveAdvertising(instance))
  }

  func isEnded(by command: borrowing HCICommandPacket) -> Bool { false }

  func isEnded(by event: borrowing HCIEventPacket) throws(WireError) -> Bool { try event.announcesCentral() }
}

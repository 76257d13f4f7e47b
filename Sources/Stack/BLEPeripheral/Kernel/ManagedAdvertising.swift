public import BLEHost
import BLELinux
public import BLEWire

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
    try await kernel.advertise(
      by: kernel.managedAdvertiser(for: advertisement), serving: server, limit, tap)
  }
}

extension KernelAdapter {
  /// - Throws: `unsuitable` where the kernel advertises as much as it can, or does not hide what wants to be hidden.
  func managedAdvertiser(for advertisement: DeviceAdvertisement) async throws(HostError) -> ManagedAdvertiser
  {
    let reply = try await manage(ReadAdvertisingFeatures())
    let information = try await manage(ReadControllerInformation())
    let (free, isPrivate): (UInt8?, Bool)
    do throws(WireError) {
      free = try AdvertisingFeatures(validating: reply.span).free
      isPrivate = try ControllerSettings(informationReply: information.span).isPrivate
    } catch { throw .malformedReply(error) }
    guard let free else {
      throw .unsuitable(
        "the kernel advertises as many as \(name) can already; `btmgmt --index \(info.index) advinfo` tells them, and "
          + "`rm-adv NUMBER` there takes one away")
    }
    guard isPrivate || !advertisement.isPrivate else {
      throw .unsuitable(
        "the kernel does not hide \(name): `btmgmt --index \(info.index)` with `power off`, `privacy on KEY` and `power on` "
          + "has it do so, or Privacy = device in bluetoothd's main.conf; or bring \(name) down and use --mode exclusive"
      )
    }
    return ManagedAdvertiser(self, free, advertisement)
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

public import BLEHost
import BLELinux
public import BLEWire

/// `coexist` mode: the kernel advertises, in addition to what `bluetoothd` advertises. Centrals are accepted
/// as in `raw` mode.
///
/// The kernel gives the ATT channel of each new link to the socket that began to listen last
/// (`L2CAPSocket.listenATT`). While that is ours, all centrals find our attributes instead of the daemon's,
/// whichever advertisement they responded to. The daemon sees the link, and its agent answers in pairings. A
/// link that is already up keeps its channel.
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
  /// - Throws: `unsuitable` if the kernel has no free advertising instance, or if the advertisement is
  ///   private and the kernel does not use private addresses.
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
        "all advertising instances of \(name) are in use; `btmgmt --index \(info.index) advinfo` lists them, "
          + "and `rm-adv NUMBER` there removes one")
    }
    guard isPrivate || !advertisement.isPrivate else {
      throw .unsuitable(
        "the kernel does not hide the address of \(name): use `btmgmt --index \(info.index)` (`power off`, "
          + "`privacy on KEY`, `power on`), set Privacy = device in bluetoothd's main.conf, or bring \(name) "
          + "down and use --mode exclusive"
      )
    }
    return ManagedAdvertiser(self, free, advertisement)
  }
}

/// Advertises through the management interface. The kernel resumes advertising by itself after other programs
/// scan or connect.
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

  /// Setting the data turns advertising on, even if the instance exists.
  func start() async throws(HostError) {
    try await adapter.manage(
      AddExtendedAdvertisingData(
        instance, advertisement.data, scanResponse: advertisement.scanResponse))
  }

  /// Nothing to do: the kernel keeps the instance.
  func renew() async throws(HostError) {}

  func end() async {
    // Fails if the adapter was removed; so was the instance.
    _ = try? await adapter.manage(RemoveAdvertising(instance))
  }

  func isEnded(by command: borrowing HCICommandPacket) -> Bool { false }

  func isEnded(by event: borrowing HCIEventPacket) throws(WireError) -> Bool { try event.announcesCentral() }
}

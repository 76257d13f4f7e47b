public import BLEHost
import BLELinux
public import BLEWire

/// `coexist` mode: the kernel advertises, in addition to the advertisements of `bluetoothd`. Centrals are
/// accepted as in `raw` mode.
///
/// The kernel gives the ATT channel of each new link to the socket that was last to listen
/// (`L2CAPSocket.listenATT`). As long as that is our socket, all centrals discover our attributes instead of
/// the daemon's, whichever advertisement they responded to. The daemon sees the link, and its agent answers
/// in pairings. A link that is already up keeps its channel.
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
  /// Returns the advertiser for an advertisement.
  ///
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

/// Advertises through the management interface. After other programs scan or connect, the kernel resumes
/// advertising by itself.
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

  /// Sets the data, which turns advertising on, even if the instance already exists.
  func start() async throws(HostError) {
    try await adapter.manage(
      AddExtendedAdvertisingData(
        instance, advertisement.data, scanResponse: advertisement.scanResponse))
  }

  /// Does nothing, because the kernel keeps the instance.
  func renew() async throws(HostError) {}

  func end() async {
    // May fail if the adapter was removed; the instance is then gone too.
    _ = try? await adapter.manage(RemoveAdvertising(instance))
  }

  func isEnded(by command: borrowing HCICommandPacket) -> Bool { false }

  func isEnded(by event: borrowing HCIEventPacket) throws(WireError) -> Bool { try event.announcesCentral() }
}

public import BLEHost
import BLELinux
public import BLEWire

/// How an adapter of the kernel is made to advertise. Another program, the kernel itself or a central may end it.
protocol KernelAdvertiser: Sendable {
  func configure() async throws(HostError)
  func start() async throws(HostError)
  /// Sets again, before another start, what others may have changed while it was off: `ringtap doctor` does, to look.
  func renew() async throws(HostError)
  /// Switches it off, as far as it is on, and gives back what it took.
  func end() async

  /// Whether a command of somebody else's has switched it off.
  func isEnded(by command: borrowing HCICommandPacket) -> Bool
  /// Whether a central has done it.
  func isEnded(by event: borrowing HCIEventPacket) throws(WireError) -> Bool
}

/// `raw` mode: advertising by commands on the raw channel, centrals by a listening socket of the kernel's.
///
/// The kernel's own Security Manager pairs, where `secure` has told it to. Where `bluetoothd` runs, its agent answers.
extension KernelAdapter: AdvertisingAdapter {
  public var advertisedAddress: DeviceAddress { info.address }

  public func advertise(
    _ advertisement: DeviceAdvertisement, serving server: GATTServer, upTo limit: Int, tap: PacketTap?
  ) async throws(HostError) {
    guard info.address.bits != 0 else {
      throw .unsuitable("\(name) has no address of its own; use --mode exclusive, which makes one up")
    }
    // The key is the kernel's, and so are the addresses.
    if advertisement.isPrivate {
      let advertiser = try await managedAdvertiser(for: advertisement)
      return try await advertise(by: advertiser, serving: server, limit, tap)
    }
    let returned = try await command(LEReadLocalSupportedFeatures())
    let hasSets: Bool
    do throws(WireError) {
      hasSets = try LEReadLocalSupportedFeatures.Reply(validating: returned.span).features
        .hasExtendedAdvertising
    } catch { throw .malformedReply(error) }
    let commands = AdvertisingCommands(set: hasSets ? .besideKernel : nil, own: info.address)
    try await advertise(by: CommandedAdvertiser(self, commands, advertisement), serving: server, limit, tap)
  }

  /// The same whatever advertises.
  func advertise(
    by advertiser: some KernelAdvertiser, serving server: GATTServer, _ limit: Int, _ tap: PacketTap?
  ) async throws(HostError) {
    guard server.loop === loop else { throw .unsuitable("a server lives on the event loop of its adapter") }
    let centrals = try await listen(for: server, tap, advertiser)
    var outcome: Result<Void, HostError> = .success(())
    do throws(HostError) {
      try await advertiser.configure()
      try await server.keepAdvertising(upTo: limit) {
        await self.isAdvertising(centrals)
      } start: { () async throws(HostError) in
        try await self.start(advertiser, centrals)
      }
    } catch { outcome = .failure(error) }
    // A cancelled task must not skip it.
    await loop.uninterrupted {
      await advertiser.end()
      await self.end(centrals, server)
    }
    try outcome.get()
  }

  private func isAdvertising(_ centrals: KernelCentrals) -> Bool {
    centrals.isAdvertising || centrals.resumption != nil
  }

  private func start(
    _ advertiser: some KernelAdvertiser, _ centrals: KernelCentrals
  ) async throws(HostError) {
    // A central may come before this is answered.
    centrals.isAdvertising = true
    do throws(HostError) {
      if centrals.hasAdvertised { try await advertiser.renew() }
      try await advertiser.start()
      centrals.hasAdvertised = true
    } catch {
      centrals.isAdvertising = false
      // It has worked before: somebody else is at the controller now.
      guard centrals.hasAdvertised, case .commandRefused = error else { throw error }
      centrals.resume(at: loop.clock.monotonic())
    }
  }
}

/// By commands of HCI beside the kernel's.
struct CommandedAdvertiser: KernelAdvertiser {
  private let adapter: KernelAdapter
  private let commands: AdvertisingCommands
  private let advertisement: DeviceAdvertisement

  init(_ adapter: KernelAdapter, _ commands: AdvertisingCommands, _ advertisement: DeviceAdvertisement) {
    (self.adapter, self.commands, self.advertisement) = (adapter, commands, advertisement)
  }

  func configure() async throws(HostError) {
    do throws(HostError) { try await commands.configure(advertisement, by: adapter) } catch {
      guard case .commandRefused(_, .commandDisallowed) = error else { throw error }
      throw .unsuitable(
        "\(adapter.name) advertises already: by another program, by the kernel (switch that off with `btmgmt --index "
          + "\(adapter.info.index) advertising off`), or left on by one that was killed (`ringtap doctor` tells)"
      )
    }
  }

  func start() async throws(HostError) { try await commands.start(by: adapter) }

  func renew() async throws(HostError) { try await commands.configure(advertisement, by: adapter) }

  func end() async {
    do throws(HostError) {
      try await commands.stop(by: adapter)
      try await commands.remove(by: adapter)
    } catch {
      // A central has come at this moment, or the adapter is gone: either way it is off.
    }
  }

  func isEnded(by command: borrowing HCICommandPacket) -> Bool {
    let parameters = command.parameters
    switch command.opcode {
    case .reset: return true
    case .leClearAdvertisingSets: return commands.set != nil
    case .leRemoveAdvertisingSet: return parameters.count > 0 && parameters[0] == commands.set?.rawValue
    case .leSetAdvertisingEnable:
      return commands.set == nil && parameters.count > 0 && parameters[0] == AdvertisingState.off.rawValue
    case .leSetExtendedAdvertisingEnable:
      guard let set = commands.set, parameters.count > 1, parameters[0] == AdvertisingState.off.rawValue
      else { return false }
      // Each with how long it is to be on, and how often.
      return parameters[1] == 0
        || stride(from: 2, to: parameters.count, by: 4).contains { parameters[$0] == set.rawValue }
    default: return false
    }
  }

  func isEnded(by event: borrowing HCIEventPacket) throws(WireError) -> Bool {
    guard let set = commands.set else { return try event.announcesCentral() }
    guard event.code == .leMeta, !event.parameters.isEmpty,
      event.parameters[0] == LESubevent.advertisingSetTerminated.rawValue
    else {
      return false
    }
    return try LEAdvertisingSetTerminated(validating: event.parameters).set == set
  }
}

extension HCIEventPacket {
  /// Whether a central has made a link with us.
  func announcesCentral() throws(WireError) -> Bool {
    guard code == .leMeta, !parameters.isEmpty else { return false }
    switch LESubevent(rawValue: parameters[0]) {
    case .connectionComplete, .enhancedConnectionComplete:
      let link = try LEConnectionComplete(validating: parameters)
      return link.status == .success && link.role == .peripheral
    default: return false
    }
  }
}

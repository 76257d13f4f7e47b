public import BLEHost
import BLELinux
public import BLEWire

/// A way to advertise with a kernel adapter. Another program, the kernel or a central may turn advertising
/// off.
protocol KernelAdvertiser: Sendable {
  func configure() async throws(HostError)
  func start() async throws(HostError)
  /// Called before advertising is started again. Restores the state that other programs may have changed
  /// meanwhile, as `ringtap doctor` does when it checks the adapter.
  func renew() async throws(HostError)
  /// Turns advertising off if it is on, and releases its resources.
  func end() async

  /// Whether a command of another program has turned advertising off.
  func isEnded(by command: borrowing HCICommandPacket) -> Bool
  /// Whether a connecting central has turned advertising off.
  func isEnded(by event: borrowing HCIEventPacket) throws(WireError) -> Bool
}

/// `raw` mode: advertises with commands on the raw channel and accepts centrals on a listening socket of the
/// kernel.
///
/// The kernel's own Security Manager pairs if `secure` has enabled it. If `bluetoothd` runs, its agent
/// answers.
extension KernelAdapter: AdvertisingAdapter {
  public var advertisedAddress: DeviceAddress { info.address }

  public func advertise(
    _ advertisement: DeviceAdvertisement, serving server: GATTServer, upTo limit: Int, tap: PacketTap?
  ) async throws(HostError) {
    guard info.address.bits != 0 else {
      throw .unsuitable("\(name) has no address of its own; use --mode exclusive, which generates one")
    }
    // Only the kernel has the identity key and the private addresses.
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

  /// Advertises and accepts centrals until the task is cancelled. All ways of advertising share this part.
  func advertise(
    by advertiser: some KernelAdvertiser, serving server: GATTServer, _ limit: Int, _ tap: PacketTap?
  ) async throws(HostError) {
    guard server.loop === loop else { throw .unsuitable("the server must use the event loop of its adapter") }
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
    // Runs even if the task is cancelled.
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
    // Set before the command, because a central may connect before the reply.
    centrals.isAdvertising = true
    do throws(HostError) {
      if centrals.hasAdvertised { try await advertiser.renew() }
      try await advertiser.start()
      centrals.hasAdvertised = true
    } catch {
      centrals.isAdvertising = false
      // Advertising has worked before, so another program must be using the controller now.
      guard centrals.hasAdvertised, case .commandRefused = error else { throw error }
      centrals.resume(at: loop.clock.monotonic())
    }
  }
}

/// Advertises with HCI commands in addition to the kernel's.
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
        "\(adapter.name) is already advertising: by another program, by the kernel (switch that off with "
          + "`btmgmt --index \(adapter.info.index) advertising off`), or left on by a killed program (see "
          + "`ringtap doctor`)"
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
      // May fail if a central has just connected or the adapter was removed. Advertising is then off anyway.
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
      // Four bytes per set: handle, duration (2 bytes) and event limit.
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
  /// Whether the event reports a new link that a central created.
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

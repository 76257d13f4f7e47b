public import BLEHost
import BLELinux
public import BLEWire

/// A method to advertise with a kernel adapter. Another program, the kernel or a central may turn advertising
/// off.
protocol KernelAdvertiser: Sendable {
  func configure() async throws(HostError)
  func start() async throws(HostError)
  /// Restores the state that other programs may have changed, as `ringtap doctor` does when it checks the
  /// adapter. Called before advertising is started again.
  func renew() async throws(HostError)
  /// Turns advertising off if it is on, and releases the resources of advertising.
  func end() async

  /// Returns whether a command of another program has turned advertising off.
  func isEnded(by command: borrowing HCICommandPacket) -> Bool
  /// Returns whether a connecting central has turned advertising off.
  func isEnded(by event: borrowing HCIEventPacket) throws(WireError) -> Bool
}

/// Advertises in the `raw` mode with commands on the raw channel; in the `coexist` mode the kernel advertises,
/// in addition to the advertisements of `bluetoothd`. Centrals are accepted on a listening socket of the
/// kernel.
///
/// The kernel gives the ATT channel of each new link to the newest listening socket
/// (`L2CAPSocket.listenATT`). While our socket is the newest, all centrals discover our attributes instead of
/// the daemon's, whichever advertisement they responded to. The daemon sees the link. A link that is already
/// up keeps its channel.
///
/// The kernel's own Security Manager pairs if `secure` has enabled it. If `bluetoothd` runs, its agent
/// answers.
extension KernelAdapter: AdvertisingAdapter {
  public var advertisedAddress: DeviceAddress { info.address }

  public func advertise(
    _ advertisement: DeviceAdvertisement, serving server: GATTServer, upTo limit: Int, tap: PacketTap?
  ) async throws(HostError) {
    guard discovery == .management || info.address.bits != 0 else {
      throw .unsuitable("\(name) has no address of its own; use --mode exclusive, which generates one")
    }
    // Only the kernel has the identity key and the private addresses.
    if discovery == .management || advertisement.isPrivate {
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

  /// Advertises and accepts centrals until the task is cancelled. All advertising methods share this code.
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
      // May fail if a central has just connected or the adapter was removed. Advertising is off in both
      // cases.
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
  /// Returns whether the event reports a new link that a central created.
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

// MARK: - The management interface

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

  /// Sets the data, which turns advertising on, even if the instance already exists.
  func start() async throws(HostError) {
    try await adapter.manage(
      AddExtendedAdvertisingData(
        instance, advertisement.data, scanResponse: advertisement.scanResponse))
  }

  /// Does nothing, because the kernel keeps the instance.
  func renew() async throws(HostError) {}

  func end() async {
    // May fail if the adapter was removed. The kernel has then also removed the instance.
    _ = try? await adapter.manage(RemoveAdvertising(instance))
  }

  func isEnded(by command: borrowing HCICommandPacket) -> Bool { false }

  func isEnded(by event: borrowing HCIEventPacket) throws(WireError) -> Bool { try event.announcesCentral() }
}

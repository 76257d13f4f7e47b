import BLELinux
public import BLEStack
import BLEWire

/// Security state of a kernel adapter's links. Used only on the loop's thread.
struct KernelSecurity {
  /// A link of this process. Questions about pairings on other links are not answered.
  struct Link {
    /// The address that the kernel uses for the device in pairing events.
    let peer: DeviceAddress
    weak var connection: Connection?
  }

  var settings: SecuritySettings?
  /// Channel for pairing events. Set if this process is the pairing agent and keeps the keys; `nil` if
  /// `bluetoothd` or no program is the agent.
  var channel: ManagementChannel?
  /// Whether the kernel has the stored keys and requests identity keys from devices.
  var hasLoadedKeys = false
  var links: [Link] = []
  /// Keys that the kernel reported since the adapter was opened, by identity address.
  var gathered: [DeviceAddress: Bond] = [:]
  /// Devices with which the user is pairing now. Questions about these devices are answered even if the
  /// settings do not allow pairing on request.
  var wanted: Set<DeviceAddress> = []
  /// Callbacks around a pairing event. `arrive` accepts centrals that have connected. `changed` reports keys
  /// that may raise a link's security.
  var centrals: (arrive: () -> Void, changed: () -> Void)?
  /// Devices that have lost their keys.
  var forgotten: Set<DeviceAddress> = []
  /// Reasons why the keys of a pairing are not kept, by the device's identity.
  var refused: [DeviceAddress: PairingError] = [:]
  /// Permanent addresses of devices that paired with an address other than their identity address, by
  /// identity.
  var pairedAddresses: [DeviceAddress: DeviceAddress] = [:]

  mutating func add(_ connection: Connection) {
    links.removeAll { $0.connection == nil }
    links.append(Link(peer: connection.peer, connection: connection))
  }

  /// Returns the address of the link on which a device distributed its identity.
  ///
  /// The kernel reports the address, `told`, only if it is private; otherwise, `told` is zero. The result is
  /// then the identity address if a link or key has that address, otherwise the address of a device with
  /// which the user is pairing.
  func address(_ told: DeviceAddress, of identity: DeviceAddress) -> DeviceAddress {
    if told.bits != 0 { return told }
    return isOurs(identity) ? identity : wanted.first ?? identity
  }

  func isOurs(_ peer: DeviceAddress) -> Bool {
    links.contains { $0.peer == peer && $0.connection != nil } || gathered[peer] != nil
  }
}

/// The kernel's own Security Manager, which encrypts and pairs. Unless `bluetoothd` runs, this process stores
/// the kernel's keys and answers its questions. BlueZ, `doc/mgmt-api.txt`; Linux, `net/bluetooth/smp.c`.
extension KernelAdapter {
  /// Enables encryption and pairing. If `bluetoothd` runs, `bluetoothd` keeps the keys and its agent answers;
  /// the kernel's key lists are not changed.
  ///
  /// - Throws: `notPermitted` without CAP_NET_ADMIN, unless `bluetoothd` runs.
  public func secure(_ settings: SecuritySettings) async throws(HostError) {
    security.settings = settings
    guard HostError.daemon == nil else { return }
    let channel = try await openManagement()
    // This command is the first that requires a privilege.
    try await channel.command(SetIOCapability(settings.agent.capability))
    if security.channel !== channel {
      await channel.whenAsked { event in self.assumeIsolated { $0.take(event) } }
      security.channel = channel
    }
    if settings.store != nil { try await channel.command(SetBondable(.on)) }
    if settings.makeKeyPair != nil { try await channel.command(SetSecureConnections(.on)) }
    try await loadKeys(settings, channel)
  }

  /// Pairs with a connected device. The kernel drops any earlier key of the device.
  ///
  /// - Returns: The bond, or `nil` if `bluetoothd` keeps it. The link uses the bond in either case.
  public func makeBond(with connection: Connection) async throws(HostError) -> Bond? {
    guard let channel = security.channel, let settings = security.settings else {
      if HostError.daemon != nil, await raise(connection, to: .medium) { return nil }
      throw .pairing(connection.peer, .failed(.unspecifiedReason))
    }
    let made: Bond?
    do throws(HostError) { made = try await pair(connection, settings, channel) } catch {
      await restoreKeys(of: connection.peer, channel)
      throw error
    }
    // No other program has the keys of this bond.
    guard let bond = made else {
      await restoreKeys(of: connection.peer, channel)
      throw .unsuitable(
        "the kernel paired with \(connection.peer) but reported no key to store; switch \(name) off and on "
          + "(`btmgmt --index \(name.dropFirst(3)) power off`, `power on`) and pair again")
    }
    let identity = bond.peerIdentity?.address ?? connection.peer
    let refusal = security.refused[identity] ?? settings.refusal(of: bond)
    guard let refusal else { return bond }
    // The kernel does not enforce this side's requirements and has completed the pairing. Undo the pairing.
    _ = try? await channel.command(UnpairDevice(identity))
    // The device may have distributed the identity of another bonded device, whose key the kernel has then
    // replaced.
    await restoreKeys(of: identity, channel)
    throw .pairing(connection.peer, refusal)
  }

  /// Reloads the stored key of a device. The kernel dropped the key for a pairing that failed.
  private func restoreKeys(of peer: DeviceAddress, _ channel: ManagementChannel) async {
    guard let settings = security.settings, storedBond(of: peer) != nil else { return }
    do throws(HostError) { try await loadKeys(settings, channel) } catch {
      note("cannot reload the key of \(peer) into the kernel (\(error)); the next command retries")
    }
  }

  // MARK: On the way up and down

  /// Returns the address under which the kernel knows a device. The kernel resolves private addresses itself.
  func identity(of peer: DeviceAddress) -> DeviceAddress {
    guard security.channel != nil, let stored = storedBond(of: peer) else { return peer }
    return stored.pairedAddress ?? stored.device
  }

  /// Encrypts a link if the device is bonded.
  ///
  /// - Returns: `false` if the device refused its key; the kernel then ends the link.
  /// - Throws: `unsuitable` if the device is bonded and the kernel does not have its key, or has the key for
  ///   another adapter; `notEncrypted` if the device does not respond before `deadline` (the kernel itself
  ///   would wait as long as the link is up).
  func protect(_ connection: Connection, until deadline: MonotonicTime) async throws(HostError) -> Bool {
    security.add(connection)
    await connection.onRefusal { [weak self] in await self?.raise($0, after: $1) ?? false }
    guard let settings = security.settings, let bond = settings.storedBond(of: connection.peer),
      bond.bond.peerKey != nil, !security.forgotten.contains(connection.peer)
    else { return true }
    let isOurs = bond.local == info.address
    guard isOurs, security.hasLoadedKeys else {
      // `bluetoothd` has its own keys and does not disclose them.
      guard settings.bondedLinks == .encrypted, settings.raising == .byStoredKey, HostError.daemon == nil
      else { return true }
      guard isOurs else { throw .bonded(connection.peer, as: bond.local, not: info.address) }
      throw .unsuitable(
        "\(connection.peer) is bonded, but the kernel does not have its key; run as root to load it, or "
          + "continue unencrypted with --accept-unencrypted")
    }
    let rest = loop.clock.monotonic().duration(to: deadline)
    let limit = loop.after(rest) { await connection.abandonRaising() }
    defer { limit.cancel() }
    guard await connection.raiseSecurity(to: .medium) == .held else {
      let isLate = deadline <= loop.clock.monotonic()
      guard isLate, settings.bondedLinks == .encrypted, settings.raising == .byStoredKey else { return false }
      throw .notEncrypted(connection.peer, nil)
    }
    await noteSecurity(of: connection, isEncrypted: true)
    return true
  }

  /// Records the security of a link with a bonded device.
  func noteSecurity(of connection: Connection, isEncrypted: Bool) async {
    let security = LinkSecurity(isEncrypted: isEncrypted, storedBond(of: connection.peer)?.bond)
    await connection.note(LinkChange(time: loop.clock.now(), value: .security(security)))
  }

  /// Removes the kernel's key of a device that refused encryption with it, if the settings allow a new
  /// pairing or an unencrypted link.
  ///
  /// - Returns: Whether to connect again.
  func forget(_ peer: DeviceAddress) async -> Bool {
    guard let channel = security.channel, let settings = security.settings,
      settings.raising == .byPairing || settings.bondedLinks == .any
    else { return false }
    security.forgotten.insert(peer)
    _ = try? await channel.command(UnpairDevice(peer))
    return true
  }

  /// Restores the settings that `secure` changed. The kernel keeps the keys.
  func endSecurity() async {
    guard let channel = security.channel.take() else { return }
    let former = await channel.settings
    _ = try? await channel.command(SetIOCapability(.noInputNoOutput))
    if !former.isBondable { _ = try? await channel.command(SetBondable(.off)) }
    if !former.hasSecureConnections { _ = try? await channel.command(SetSecureConnections(.off)) }
  }

  // MARK: Raising

  /// Raises the security of a link after the device refused a request for insufficient security.
  ///
  /// - Returns: Whether to repeat the request.
  private func raise(_ connection: Connection, after code: ATTErrorCode) async -> Bool {
    guard let level = await connection.securityLevel else { return false }
    guard let channel = security.channel, let settings = security.settings else {
      // `bluetoothd` supplies the key, or its agent answers. If `bluetoothd` does not run, the kernel would
      // wait 30 s for an answer.
      guard HostError.daemon != nil else { return false }
      switch (level, code) {
      case (..<(.medium), _): return await raise(connection, to: .medium)
      case (.medium, .insufficientAuthentication): return await raise(connection, to: .high)
      default: return false
      }
    }
    let bond = storedBond(of: connection.peer)?.bond
    if level < .medium, security.hasLoadedKeys, bond?.peerKey != nil,
      !security.forgotten.contains(connection.peer)
    {
      return await raise(connection, to: .medium)
    }
    guard settings.raising == .byPairing else { return false }
    // On an encrypted link only an authenticated pairing can help. Such a pairing requires a user.
    if level >= .medium, settings.agent.capability == .noInputNoOutput || bond?.isAuthenticated == true {
      return false
    }
    do throws(HostError) {
      _ = try await pair(connection, settings, channel)
      return true
    } catch {
      note("\(error)")
      return false
    }
  }

  /// Raises the security level of a link.
  ///
  /// - Returns: Whether the link has the level.
  private func raise(_ connection: Connection, to level: LinkSecurityLevel) async -> Bool {
    let outcome = await connection.raiseSecurity(to: level)
    if outcome == .failed {
      note(
        "pairing with \(connection.peer) failed and the kernel blocks its channel; the channel was closed"
      )
    }
    return outcome == .held
  }

  private func pair(
    _ connection: Connection, _ settings: SecuritySettings, _ channel: ManagementChannel
  ) async throws(HostError) -> Bond? {
    let peer = connection.peer
    security.wanted.insert(peer)
    defer { security.wanted.remove(peer) }
    // For an encrypted link the kernel pairs only if a higher level is requested on the socket.
    if let level = await connection.securityLevel, level >= .medium {
      guard level < .high, settings.agent.capability != .noInputNoOutput else { return bond(of: connection) }
      _ = try? await channel.command(UnpairDevice(peer))
      guard await raise(connection, to: .high) else {
        throw .pairing(peer, .failed(.unspecifiedReason))
      }
      return bond(of: connection)
    }
    // With Pair Device the kernel would accept Just Works.
    if storedBond(of: peer)?.bond.isAuthenticated == true {
      guard settings.agent.capability != .noInputNoOutput else { throw .pairing(peer, .weakerThanBond) }
      guard await raise(connection, to: .high) else {
        throw .pairing(peer, .failed(.authenticationRequirements))
      }
      return bond(of: connection)
    }
    let command = PairDevice(peer, settings.agent.capability)
    do throws(HostError) { try await pair(command, channel) } catch {
      guard case .managementRefused(_, .alreadyPaired) = error else { throw HostError(pairing: peer, error) }
      _ = try? await channel.command(UnpairDevice(peer))
      do throws(HostError) { try await pair(command, channel) } catch {
        throw HostError(pairing: peer, error)
      }
    }
    security.forgotten.remove(peer)
    return bond(of: connection)
  }

  /// Time limit of a pairing. Each question times out after 30 s, and a pairing asks at most three questions.
  private static let pairingLimit = Duration.seconds(120)

  private func pair(_ command: PairDevice, _ channel: ManagementChannel) async throws(HostError) {
    let result = await withTaskCancellationHandler {
      do throws(HostError) {
        try await channel.command(command, within: Self.pairingLimit)
        return Result<Void, HostError>.success(())
      } catch { return .failure(error) }
    } onCancel: {
      loop.task { _ = try? await channel.command(CancelPairDevice(command.peer)) }
    }
    try result.get()
  }

  /// Returns the bond with a connected device, stored or for this link only.
  public func bond(of connection: Connection) -> Bond? {
    security.gathered.first {
      $0.key == connection.peer || $0.value.peerIdentity?.matches(connection.peer) == true
    }?
    .value ?? storedBond(of: connection.peer)?.bond
  }

  private func storedBond(of peer: DeviceAddress) -> StoredBond? {
    security.settings?.store?.bonds().last { $0.local == info.address && $0.isMeant(by: peer) }
  }

  // MARK: Keys

  /// Loads the keys of all stored bonds into the kernel, in addition to the keys that it has.
  ///
  /// The kernel's lists can only be replaced, so this method reads them first. If a list cannot be read, it
  /// is not changed.
  private func loadKeys(_ settings: SecuritySettings, _ channel: ManagementChannel) async throws(HostError) {
    security.hasLoadedKeys = false
    guard let store = settings.store else { return }
    guard let present = KernelKeys(of: name) else {
      note(
        "cannot read the kernel's keys (/sys/kernel/debug/bluetooth, root only); stored keys are not loaded, "
          + "because this would delete those of other devices. Pair again, or use --mode exclusive")
      return
    }
    var keys = present
    for bond in store.bonds() where bond.local == info.address { keys.add(bond) }
    if keys.longTerm != present.longTerm { try await channel.command(LoadLongTermKeys(keys.longTerm)) }
    // Load the list even if it is unchanged: after this command the kernel requests identity keys from
    // devices.
    try await channel.command(LoadIdentityResolvingKeys(keys.identity))
    security.hasLoadedKeys = true
  }

  private func keep(_ peer: DeviceAddress, _ bond: Bond) {
    var bond = bond
    if security.refused[peer] == nil, bond.isBonded, let stored = storedBond(of: peer),
      !bond.isAtLeastAsStrong(as: stored.bond)
    {
      security.refused[peer] = .weakerThanBond
    }
    if security.refused[peer] != nil { bond.isBonded = false }
    security.gathered[peer] = bond
    security.hasLoadedKeys = true
    guard bond.isBonded else { return }
    security.settings?.store?.keep(
      StoredBond(
        device: peer, local: info.address, pairedAddress: security.pairedAddresses[peer], bond: bond))
  }

  /// Checks the identity that a device with the address `met` distributed. The identity must be valid and
  /// must not belong to another bonded device.
  private func take(_ identity: DeviceAddress, met: DeviceAddress) {
    let bonds = security.settings?.store?.bonds() ?? []
    let known = bonds.last { $0.isMeant(by: met) }
    let isAnothers = bonds.contains { $0.isMeant(by: identity) && $0.device != known?.device }
    security.refused[identity] = identity.isValidIdentity && !isAnothers ? nil : .identityRefused(identity)
    let isPermanent = met.type == .public || RandomAddressKind(met) == .static
    security.pairedAddresses[identity] = isPermanent && met != identity ? met : nil
  }

  // MARK: Events and requests of the kernel

  private func take(_ event: ManagementSecurityEvent) {
    guard let settings = security.settings else { return }
    let agent = settings.agent
    security.centrals?.arrive()
    defer { security.centrals?.changed() }
    switch event {
    case .longTermKey(let key, let keeping):
      guard security.isOurs(key.peer) else { return }
      var bond = security.gathered[key.peer] ?? .none
      bond.take(key)
      bond.isBonded = keeping == .forGood && settings.store != nil && settings.isContent(with: bond)
      keep(key.peer, bond)
    case .identityKey(let key, let met, _):
      let met = security.address(met, of: key.peer)
      guard security.isOurs(met) || security.isOurs(key.peer) else { return }
      take(key.peer, met: met)
      security.gathered[key.peer, default: .none].peerIdentity = DeviceIdentity(
        resolvingKey: key.key, address: key.peer)
    case .signingKey(let key, let signer, _):
      guard security.isOurs(key.peer) else { return }
      switch signer {
      case .local: security.gathered[key.peer, default: .none].localSigningKey = key.key
      case .peer: security.gathered[key.peer, default: .none].peerSigningKey = key.key
      }
    case .showPasskey(let peer, let passkey, let typed):
      if typed == 0, security.isOurs(peer) { agent.showPasskey(passkey) }
    case .permit(let peer): answer(peer) { true }
    case .compare(let peer, let number): answer(peer) { await agent.compare(number) }
    case .askPasskey(let peer): askPasskey(of: peer, agent)
    case .failed(let peer, _):
      for link in security.links where link.peer == peer {
        link.connection?.assumeIsolated { $0.abandonRaising() }
      }
    }
  }

  private func mayPair(with peer: DeviceAddress) -> Bool {
    security.settings?.raising == .byPairing || security.wanted.contains(peer)
  }

  private func answer(_ peer: DeviceAddress, _ question: @escaping @Sendable () async -> Bool) {
    guard security.isOurs(peer), let channel = security.channel else { return }
    let mayPair = mayPair(with: peer)
    loop.task {
      // The kernel may have stopped waiting in the meantime. If so, the kernel refuses the reply.
      if mayPair, await question() {
        _ = try? await channel.command(UserConfirmationReply(peer))
      } else {
        _ = try? await channel.command(UserConfirmationNegativeReply(peer))
      }
    }
  }

  private func askPasskey(of peer: DeviceAddress, _ agent: PairingAgent) {
    guard security.isOurs(peer), let channel = security.channel else { return }
    let mayPair = mayPair(with: peer)
    loop.task {
      if mayPair, let passkey = await agent.askPasskey() {
        _ = try? await channel.command(UserPasskeyReply(peer, passkey))
      } else {
        _ = try? await channel.command(UserPasskeyNegativeReply(peer))
      }
    }
  }
}

extension SecuritySettings {
  fileprivate func isContent(with bond: Bond) -> Bool { refusal(of: bond) == nil }

  /// Returns the reason why a bond does not meet the settings, or `nil` if it meets them.
  fileprivate func refusal(of bond: Bond) -> PairingError? {
    if bond.keyByteCount < minimumKeyByteCount { return .failed(.encryptionKeySize) }
    if kind == .secureConnections, !bond.isSecureConnections { return .notSecureConnections }
    return protection == .authenticated && !bond.isAuthenticated ? .failed(.authenticationRequirements) : nil
  }
}

extension HostError {
  /// Creates the error for a failed pairing. The kernel does not report why a pairing failed.
  fileprivate init(pairing peer: DeviceAddress, _ error: HostError) {
    guard case .managementRefused(_, let status) = error else {
      self = error
      return
    }
    switch status {
    case .authenticationFailed: self = .pairing(peer, .failed(.unspecifiedReason))
    case .timeout: self = .pairing(peer, .timedOut)
    case .disconnected, .notConnected: self = .pairing(peer, .linkLost)
    case .cancelled: self = .pairing(peer, .cancelled)
    default: self = error
    }
  }
}

extension KernelKeys {
  /// Reads the keys of an adapter.
  ///
  /// - Returns: `nil` if the lists cannot be read.
  init?(of adapter: String) {
    let folder = "/sys/kernel/debug/bluetooth/\(adapter)"
    func text(_ name: String) -> String? {
      (try? Files.octets(of: folder + name, limit: 1 << 20)).map { String(decoding: $0, as: UTF8.self) }
    }
    guard let keys = text("/long_term_keys"), let own = text("/identity_resolving_keys") else { return nil }
    self.init(longTerm: keys, identity: own)
  }
}

import BLELinux
public import BLEStack
public import BLEWire

/// Security state of an adapter's links, with the tasks that await changes. On the loop's thread only.
struct SecurityTable {
  var settings: SecuritySettings?
  /// Pairings that a task awaits.
  fileprivate var pairings: [ConnectionHandle: OneShot<Result<Bond, PairingError>>] = [:]
  /// Bonds of links that are up, including bonds that are not stored.
  fileprivate var bonds: [ConnectionHandle: Bond] = [:]
  /// Links whose peer has lost its key.
  fileprivate var forgotten: Set<ConnectionHandle> = []
  /// Links with an LE Enable Encryption in progress.
  fileprivate var encrypting: Set<ConnectionHandle> = []
  /// Links that this side created and encrypted. They are closed when their encryption ends.
  fileprivate var encrypted: Set<ConnectionHandle> = []
  /// Tasks that wait until everything queued on a link is transmitted.
  fileprivate var drains: [ConnectionHandle: OneShot<Void>] = [:]
  var isDraining: Bool { !drains.isEmpty }

  mutating func lose(_ handle: ConnectionHandle) {
    bonds[handle] = nil
    forgotten.remove(handle)
    encrypting.remove(handle)
    encrypted.remove(handle)
    finish(handle, .failure(.linkLost))
    drained(handle)
  }

  /// Wakes all waiting tasks after the controller has failed.
  mutating func loseAll() {
    for handle in drains.keys { drained(handle) }
  }

  fileprivate mutating func drained(_ handle: ConnectionHandle) {
    drains.removeValue(forKey: handle)?.set(())
  }

  fileprivate mutating func finish(_ handle: ConnectionHandle, _ result: Result<Bond, PairingError>) {
    pairings.removeValue(forKey: handle)?.set(result)
  }
}

/// Pairing, encryption with stored keys, and private addresses. Core 5.4, Vol 3, Part H; Part C, 10.
extension HostAdapter {
  /// Address of the peer; `nil` if the link is down.
  func peer(of handle: ConnectionHandle) -> DeviceAddress? { carriers[handle]?.peer }

  /// Passes the security of a link to its server, or records it if this side is the central. For a key from a
  /// pairing, the level does not depend on an older bond.
  func noteSecurity(of handle: ConnectionHandle, _ source: LinkKeySource?) {
    guard let carrier = carriers[handle] else { return }
    guard let acceptor, carrier.description.role == .peripheral else {
      guard source != nil || security.encrypted.contains(handle) else { return }
      let bond = security.bonds[handle] ?? storedBond(of: carrier.peer)?.bond
      return note(handle, .security(LinkSecurity(isEncrypted: isLinkEncrypted(handle), bond)))
    }
    let made = security.bonds[handle]
    let bond = source == .pairing ? made : made ?? storedBond(of: carrier.peer)?.bond
    var level = ATTSecurity(bond, isEncrypted: source != nil)
    if source != nil, bond == nil { level.keyByteCount = Int(security.settings?.minimumKeyByteCount ?? 7) }
    let identity = bond?.isBonded == true ? bond?.peerIdentity?.address ?? carrier.peer : nil
    acceptor.secured(LinkSecurityChange(handle: handle, security: level, source: source, identity: identity))
  }

  /// Enables encryption and pairing. If the controller has no public address, uses the address under which
  /// bonded devices know this host.
  public func secure(_ settings: SecuritySettings) async throws(HostError) {
    security.settings = settings
    withHost { $0.takeSecurityRequests() }
    let known = settings.store?.bonds().last { $0.local.type == .random }
    if let known { try await goOn(as: known.local) }
    let responder = settings.raising == .byPairing ? settings.responder(as: address) : nil
    withHost { $0.answerPairings(by: responder) }
  }

  /// Pairs with a device, or waits for a pairing that is in progress.
  ///
  /// - Returns: The bond, already stored if the settings have a store.
  /// - Throws: `pairing` with the reason.
  public func pair(_ connection: Connection) async throws(HostError) -> Bond {
    let handle = connection.handle
    let underWay = security.pairings[handle]
    let pairing = underWay ?? OneShot()
    if underWay == nil {
      security.pairings[handle] = pairing
      beginPairing(on: handle)
    }
    let result = await withTaskCancellationHandler {
      await pairing.value()
    } onCancel: {
      loop.later(self) { $0.cancelPairing(on: handle) }
    }
    do throws(PairingError) {
      let bond = try result.get()
      // Our keys are sent last. Wait until they are transmitted, because the caller may end the link at once.
      if isBusy(handle) {
        let drain = security.drains[handle] ?? OneShot()
        security.drains[handle] = drain
        await drain.value()
      }
      return bond
    } catch {
      throw .pairing(connection.peer, error)
    }
  }

  /// Whether packets queued on a link are not transmitted yet. If several links are up, packets count as
  /// transmitted once the controller has received them.
  private func isBusy(_ handle: ConnectionHandle) -> Bool {
    guard peer(of: handle) != nil else { return false }
    return withHost {
      $0.waitingFragments(handle) > 0 || $0.linkCount == 1 && $0.fragmentsUnderWay > 0
    }
  }

  /// Resumes the tasks whose links have transmitted everything. Called after each batch while a task waits.
  func resumeDrained() {
    for handle in security.drains.keys where !isBusy(handle) { security.drained(handle) }
  }

  /// Bond with a connected device, stored or for this link only.
  public func bond(of connection: Connection) -> Bond? {
    security.bonds[connection.handle] ?? storedBond(of: connection.peer)?.bond
  }

  public func isEncrypted(_ connection: Connection) -> Bool {
    withHost { $0.isEncrypted(connection.handle) }
  }

  /// Writes a value so that the device can authenticate it: signed if the link is not encrypted, otherwise
  /// with an ordinary Write Command.
  ///
  /// - Throws: `cannotSign` if the device is not bonded or no signing key was distributed to it.
  public func writeSigned(
    _ value: [UInt8], to handle: AttributeHandle, on connection: Connection
  ) async throws(GATTError) {
    if isEncrypted(connection) { return try await connection.writeWithoutResponse(value, to: handle) }
    guard let store = security.settings?.store, let stored = storedBond(of: connection.peer),
      let signer = BondSigner(stored, in: store)
    else { throw .cannotSign }
    try await connection.writeSigned(value, to: handle, by: signer)
  }

  /// Resolves private addresses of bonded devices to their identity; `nil` if no bond has a resolving key.
  public var addressResolver: AddressResolver? {
    let known = (bondStore?.bonds() ?? []).compactMap(\.bond.peerIdentity).filter { $0.resolvingKey != 0 }
    guard !known.isEmpty else { return nil }
    return { address in known.last { $0.matches(address) }?.address }
  }

  // MARK: On the way up and down

  /// Encrypts a link if the device is bonded.
  ///
  /// - Throws: `notEncrypted` if the link is not encrypted within the timeout, unless the settings permit
  ///   that or pairing follows; `gatt(closed)` if the link ends first.
  func encryptIfBonded(_ connection: Connection, within timeout: Duration) async throws(HostError) {
    guard let settings = security.settings, settings.encryption == .atOnce,
      let stored = storedBond(of: connection.peer), let key = stored.bond.peerKey
    else { return }
    let (handle, peer, own) = (connection.handle, connection.peer, address)
    func refused(_ status: HCIStatus) -> HostError {
      stored.local == own ? .notEncrypted(peer, status) : .bonded(peer, as: stored.local, not: own)
    }
    let limit = loop.after(timeout) {
      await self.giveUp(LinkProcedure(.encryption, on: handle), .notEncrypted(peer, nil))
    }
    let outcome = await encrypt(handle, key)
    limit.cancel()
    switch outcome {
    case .success(.success): security.encrypted.insert(handle)
    case .success(let status):
      guard settings.bondedLinks == .encrypted, settings.raising == .byStoredKey else {
        return note(handle, .security(LinkSecurity(isEncrypted: false, stored.bond)))
      }
      throw refused(status)
    case .failure(.commandRefused(_, let status)): throw refused(status)
    case .failure(let error):
      // If the two keys differ, the link ends, because neither side can decrypt the other's packets. Core
      // 5.4, Vol 6, Part B, 5.1.3.1.
      guard connection.carrier.disconnectReason == .micFailure else { throw error }
      throw refused(.micFailure)
    }
  }

  /// Closes a link to a bonded device that is no longer encrypted.
  func requireEncryption(of handle: ConnectionHandle) {
    guard security.encrypted.contains(handle), !isLinkEncrypted(handle) else { return }
    end(handle, for: .encryptionLost, reason: .authenticationFailure)
  }

  /// Raises the security of a link after the device refused a request for insufficient security.
  ///
  /// - Returns: Whether to repeat the request.
  func raise(_ connection: Connection, after code: ATTErrorCode) async -> Bool {
    guard let settings = security.settings, carriers[connection.handle]?.description.role == .central
    else { return false }
    let handle = connection.handle
    let isEncrypted = withHost { $0.isEncrypted(handle) }
    let bond = bond(of: connection)
    if !isEncrypted, !security.forgotten.contains(handle), let key = bond?.peerKey {
      if case .success(.success) = await encrypt(handle, key) { return true }
    }
    guard settings.raising == .byPairing else { return false }
    // On an encrypted link only an authenticated pairing can help, and that needs a user.
    if isEncrypted, settings.agent.capability == .noInputNoOutput || bond?.isAuthenticated == true {
      return false
    }
    return (try? await pair(connection)) != nil
  }

  /// Determines the current address of a bonded device by scanning, because it may use private addresses.
  ///
  /// - Returns: `peer` itself if its bond has no resolving key.
  func currentAddress(of peer: DeviceAddress, within timeout: Duration) async throws(HostError)
    -> DeviceAddress
  {
    guard let stored = storedBond(of: peer), let identity = stored.bond.peerIdentity,
      identity.resolvingKey != 0
    else { return peer }
    let found = FoundAddress()
    let scanner = Scanner(kind: .passive, duplicates: .reportOnce, keeping: 1)
    _ = try await scanner.run(on: self, for: timeout) { advertiser in
      guard stored.isMeant(by: advertiser.address) else { return .goOn }
      found.address = advertiser.address
      return .stop
    }
    guard let address = found.address else {
      throw .noAnswer(peer, seconds: Int(timeout.components.seconds))
    }
    return address
  }

  func take(_ event: SecurityEvent, of handle: ConnectionHandle) {
    if case .keyWanted(let random, let diversifier) = event {
      return loop.later(self) { $0.answerKeyRequest(of: handle, random, diversifier) }
    }
    guard let settings = security.settings else { return }
    switch event {
    case .keyWanted: break
    case .requested(let requirements): requested(requirements, on: handle, settings)
    case .showPasskey(let passkey): settings.agent.showPasskey(passkey)
    case .askPasskey:
      loop.task {
        let passkey = await settings.agent.askPasskey()
        await self.enter(passkey, on: handle)
      }
    case .compare(let number):
      loop.task {
        let areEqual = await settings.agent.compare(number)
        await self.confirm(areEqual, on: handle)
      }
    case .paired(let result):
      let result = kept(result, of: handle, settings)
      if case .failure(let error) = result, carriers[handle]?.description.role == .peripheral {
        acceptor?.notPaired(error)
      }
      security.finish(handle, result)
    }
  }

  // MARK: Parts

  private func storedBond(of peer: DeviceAddress) -> StoredBond? {
    security.settings?.storedBond(of: peer)
  }

  /// Stores the bond of a successful pairing. A bond that must not be stored is used for encryption only.
  private func kept(
    _ result: Result<Bond, PairingError>, of handle: ConnectionHandle, _ settings: SecuritySettings
  ) -> Result<Bond, PairingError> {
    guard let link = carriers[handle]?.description, case .success(var bond) = result else { return result }
    var outcome = result
    do throws(PairingError) {
      bond = try settings.keeping(bond, of: link.peer, local: address)
      outcome = .success(bond)
    } catch {
      (bond.isBonded, bond.isAuthenticated, bond.peerIdentity) = (false, false, nil)
      outcome = .failure(error)
    }
    security.bonds[handle] = bond
    security.forgotten.remove(handle)
    if link.role == .central { security.encrypted.insert(handle) }
    noteSecurity(of: handle, .pairing)
    return outcome
  }

  /// Supplies the key that a bonded central encrypts with.
  private func answerKeyRequest(of handle: ConnectionHandle, _ random: UInt64, _ diversifier: UInt16) {
    guard let peer = peer(of: handle) else { return }
    let bond = security.bonds[handle] ?? storedBond(of: peer)?.bond
    let key = bond?.localKey(random: random, diversifier: diversifier)
    withHost { $0.answerKeyRequest(of: handle, key) }
  }

  /// Encrypts a link.
  ///
  /// - Returns: The status with which the procedure ended, or the error if there is no status.
  private func encrypt(_ handle: ConnectionHandle, _ key: LongTermKey) async -> Result<HCIStatus, HostError> {
    security.encrypting.insert(handle)
    defer { security.encrypting.remove(handle) }
    let command = LEEnableEncryption(
      handle, random: key.random, diversifier: key.diversifier, key: key.key)
    do throws(HostError) {
      let end = try await self.command(command, endingWith: LinkProcedure(.encryption, on: handle))
      guard case .encryption(_, let status) = end else { return .success(.unspecifiedError) }
      if status == .pinOrKeyMissing { security.forgotten.insert(handle) }
      // The event can report success although encryption is off. Core 5.4, Vol 4, Part E, 7.7.8.
      return .success(
        status == .success && !isLinkEncrypted(handle) ? .pinOrKeyMissing : status)
    } catch { return .failure(error) }
  }

  private func beginPairing(on handle: ConnectionHandle) {
    guard let settings = security.settings else {
      return security.finish(handle, .failure(.failed(.pairingNotSupported)))
    }
    let supplies = PairingSupplies(keyPair: settings.makeKeyPair?())
    let (local, now) = (address, loop.clock.monotonic())
    let link = carriers[handle]?.description
    let configuration =
      link?.role == .central
      ? link.map { settings.configuration(for: $0.peer) } ?? settings.configuration : settings.configuration
    let hasBegun = withHost { $0.pair(on: handle, configuration, local: local, supplies, now: now) }
    if !hasBegun { security.finish(handle, .failure(.linkLost)) }
  }

  private func requested(
    _ requirements: AuthenticationRequirements, on handle: ConnectionHandle, _ settings: SecuritySettings
  ) {
    let key = peer(of: handle).flatMap { storedBond(of: $0)?.bond }
    let isEnough = key.map { $0.isAuthenticated || !requirements.contains(.authenticated) } ?? false
    if isEnough, let key = key?.peerKey, !security.forgotten.contains(handle) {
      // A device may repeat its request. Only one procedure runs at a time, and an encrypted link needs none.
      guard !isLinkEncrypted(handle), security.encrypting.insert(handle).inserted else { return }
      loop.later(self) { _ = await $0.encrypt(handle, key) }
    } else if settings.raising == .byPairing, security.pairings[handle] == nil {
      loop.later(self) { $0.beginPairing(on: handle) }
    }
  }

  private func enter(_ passkey: UInt32?, on handle: ConnectionHandle) {
    withHost { $0.enterPasskey(passkey, on: handle, now: loop.clock.monotonic()) }
  }

  private func confirm(_ areEqual: Bool, on handle: ConnectionHandle) {
    let now = loop.clock.monotonic()
    withHost { $0.confirmNumber(areEqual, on: handle, now: now) }
  }

  private func cancelPairing(on handle: ConnectionHandle) {
    withHost { $0.cancelPairing(on: handle, now: loop.clock.monotonic()) }
  }
}

/// Address that a scan found. On the loop's thread until the scan has ended.
private final class FoundAddress: @unchecked Sendable {
  // No lock: written on the loop's thread, read after the scan.
  var address: DeviceAddress?
}

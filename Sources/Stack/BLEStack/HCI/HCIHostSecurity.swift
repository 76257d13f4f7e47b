public import BLEWire

/// What a pairing, or a peer that wants one, has a host tell its owner.
public enum SecurityEvent: Hashable, Sendable {
  /// The peripheral asks for security: encrypt with its key, or pair. Core 5.4, Vol 3, Part H, 2.4.6.
  case requested(AuthenticationRequirements)
  /// Show this passkey until the pairing has ended.
  case showPasskey(UInt32)
  /// Answer with `enterPasskey`.
  case askPasskey
  /// Answer with `confirmNumber`.
  case compare(UInt32)
  case paired(Result<Bond, PairingError>)
  /// A central encrypts by a key that we gave it: submit `LELongTermKeyRequestReply`, or the negative one.
  case keyWanted(random: UInt64, diversifier: UInt16)
}

/// What a link's Security Manager needs besides its configuration.
public struct PairingSupplies: Sendable {
  /// A key pair for one pairing; `nil` for one without Secure Connections.
  public var keyPair: (any P256KeyAgreement)?
  public var random: @Sendable () -> UInt128

  public init(
    keyPair: (any P256KeyAgreement)?,
    random: @escaping @Sendable () -> UInt128 = { UInt128.random(in: 0 ... .max) }
  ) {
    self.keyPair = keyPair
    self.random = random
  }
}

/// With which key a link is encrypted.
public enum LinkKeySource: Hashable, Sendable {
  /// One that was given away in an earlier pairing.
  case stored
  /// That of the pairing that is under way, or was on this link.
  case pairing
}

/// How a host hides behind a resolvable private address. Core 5.4, Vol 3, Part C, 10.7.
public struct HostPrivacy: Sendable {
  /// Whose links are made under the address.
  public enum Scope: Hashable, Sendable {
    case advertising
    /// The controller has no other random address.
    case all
  }

  /// Of the moment.
  public var address: DeviceAddress
  /// Told to centrals that pair.
  public var identity: DeviceIdentity
  public var scope: Scope

  public init(_ address: DeviceAddress, of identity: DeviceIdentity, _ scope: Scope) {
    self.address = address
    self.identity = identity
    self.scope = scope
  }
}

/// How a host pairs with centrals that ask for it.
public struct PairingResponder: Sendable {
  public var configuration: PairingConfiguration
  /// Under which this side advertises.
  public var local: DeviceAddress
  /// The stored bond of a central, which is replaced by one that is authenticated and at least as strong only: anybody may
  /// come under its address.
  public var bond: @Sendable (DeviceAddress) -> Bond?
  /// Called for each pairing.
  public var supplies: @Sendable () -> PairingSupplies

  public init(
    _ configuration: PairingConfiguration, local: DeviceAddress,
    bond: @escaping @Sendable (DeviceAddress) -> Bond? = { _ in nil },
    supplies: @escaping @Sendable () -> PairingSupplies
  ) {
    self.configuration = configuration
    self.local = local
    self.bond = bond
    self.supplies = supplies
  }

  /// One pairing, before its first PDU.
  ///
  /// - Parameters:
  ///   - peer: the central's address on the link.
  ///   - privacy: how this side hides on it; its identity is given away with the keys.
  public func pairing(with peer: DeviceAddress, as privacy: HostPrivacy? = nil) -> Pairing {
    let supplies = supplies()
    var configuration = configuration
    if let bond = bond(peer) {
      configuration.replacedBond = bond
      configuration.protection = .authenticated
    }
    if let privacy, !configuration.features.responderKeys.isEmpty {
      configuration.identity = privacy.identity
      configuration.features.responderKeys.insert(.identity)
    }
    return Pairing(
      .responder, configuration, local: privacy?.address ?? local, peer: peer, keyPair: supplies.keyPair,
      random: supplies.random)
  }
}

/// The Security Manager, in either role. Core 5.4, Vol 3, Part H.
extension HCIHost {
  /// Whether peers may ask for security. Otherwise they are told that pairing is not supported.
  public mutating func takeSecurityRequests() { takesSecurityRequests = true }

  /// Centrals that ask for a pairing get one from now on; with `nil` they are told that it is not supported.
  public mutating func answerPairings(by responder: PairingResponder?) { self.responder = responder }

  /// Links that come up from now on are made under this address; those that are up keep theirs. `nil`: under the host's own.
  public mutating func hide(_ privacy: HostPrivacy?) { self.privacy = privacy }

  /// Pairs with the peer of a link, or asks it to pair where it is the central; ends with the event `paired`.
  ///
  /// - Parameters:
  ///   - handle: of the link.
  ///   - configuration: what this side wants and can.
  ///   - local: the address under which this side is on the link.
  ///   - supplies: key pair and random numbers.
  ///   - now: the deadline counts from here.
  /// - Returns: `false` where the link is gone or pairs already.
  public mutating func pair(
    on handle: ConnectionHandle, _ configuration: PairingConfiguration, local: DeviceAddress,
    _ supplies: PairingSupplies, now: MonotonicTime
  ) -> Bool {
    guard let link = links[handle], link.pairing == nil else { return false }
    let peer = link.description.peer
    // After a time-out nothing more may be said on this link. Core 5.4, Vol 3, Part H, 3.4.
    if link.hasPairingTimedOut || attempts.mustWait(peer, now: now) {
      events.append(.security(handle, .paired(.failure(link.hasPairingTimedOut ? .timedOut : .tooSoon))))
      return true
    }
    var pairing = Pairing(
      link.description.role == .central ? .initiator : .responder, configuration,
      local: link.privacy?.address ?? local, peer: peer, keyPair: supplies.keyPair, random: supplies.random)
    pairing.start(now: now)
    link.pairing = pairing
    hasPairings = true
    perform(on: link, now)
    return true
  }

  /// Six digits that a person typed; `nil` where there are none.
  public mutating func enterPasskey(_ passkey: UInt32?, on handle: ConnectionHandle, now: MonotonicTime) {
    guard let link = links[handle] else { return }
    link.pairing?.enter(passkey: passkey, now: now)
    perform(on: link, now)
  }

  /// A person says whether both numbers are the same.
  public mutating func confirmNumber(_ areEqual: Bool, on handle: ConnectionHandle, now: MonotonicTime) {
    guard let link = links[handle] else { return }
    link.pairing?.confirm(areEqual, now: now)
    perform(on: link, now)
  }

  /// Gives a pairing up.
  public mutating func cancelPairing(on handle: ConnectionHandle, now: MonotonicTime) {
    guard let link = links[handle] else { return }
    link.pairing?.cancel()
    perform(on: link, now)
  }

  /// Answers `keyWanted`; without a key it is told that there is none.
  public mutating func answerKeyRequest(of handle: ConnectionHandle, _ key: UInt128?) {
    if let key {
      _ = submit(LELongTermKeyRequestReply(handle, key: key))
    } else {
      links[handle].map { $0.givenKeySource = $0.keySource }
      _ = submit(LELongTermKeyRequestNegativeReply(handle))
    }
  }

  /// Whether a link is encrypted.
  public func isEncrypted(_ handle: ConnectionHandle) -> Bool { links[handle]?.isEncrypted ?? false }

  /// With which key a link is encrypted of which we are the peripheral; `nil` where it is not.
  public func keySource(of handle: ConnectionHandle) -> LinkKeySource? {
    guard let link = links[handle], link.isEncrypted else { return nil }
    return link.keySource
  }

  // MARK: From below

  mutating func takeSecurity(_ payload: Span<UInt8>, on link: HCILink, now: MonotonicTime) -> [UInt8] {
    if link.pairing != nil {
      link.pairing?.receive(payload, now: now)
      perform(on: link, now)
      return []
    }
    if link.description.role == .peripheral { return takePairingRequest(payload, on: link, now: now) }
    if takesSecurityRequests, let pdu = try? SecurityManagerPDU(validating: payload),
      case .securityRequest(let requirements) = pdu
    {
      events.append(.security(link.description.handle, .requested(requirements)))
      return []
    }
    return Self.refusePairing(payload)
  }

  /// A central begins to pair.
  private mutating func takePairingRequest(
    _ payload: Span<UInt8>, on link: HCILink, now: MonotonicTime
  ) -> [UInt8] {
    // After a time-out nothing more may be said on this link. Core 5.4, Vol 3, Part H, 3.4.
    guard !link.hasPairingTimedOut else { return [] }
    guard let responder, payload.count > 0, payload[0] == SecurityManagerCode.pairingRequest.rawValue else {
      return Self.refusePairing(payload)
    }
    let peer = link.description.peer
    if attempts.mustWait(peer, now: now) {
      return [SecurityManagerCode.pairingFailed.rawValue, PairingFailure.repeatedAttempts.rawValue]
    }
    link.pairing = responder.pairing(with: peer, as: link.privacy)
    hasPairings = true
    link.pairing?.receive(payload, now: now)
    perform(on: link, now)
    return []
  }

  /// The key of a pairing that is under way is known here, all others to the owner.
  mutating func keyWanted(_ request: LELongTermKeyRequest) {
    guard let link = links[request.handle] else {
      counts.strayEvents += 1
      return
    }
    if request.random == 0, request.diversifier == 0, let key = link.pairing?.agreedKey {
      link.givenKeySource = .pairing
      if !submitOwn(LELongTermKeyRequestReply(request.handle, key: key), for: request.handle) {
        counts.droppedAnswers += 1
      }
    } else {
      link.givenKeySource = .stored
      events.append(
        .security(
          request.handle, .keyWanted(random: request.random, diversifier: request.diversifier)))
    }
  }

  /// Pairing is not for now: a request or a Security Request is told so, all else on that channel is ignored.
  ///
  /// Core 5.4, Vol 3, Part H, 3.5.5: Pairing Failed, Pairing Not Supported.
  private static func refusePairing(_ payload: Span<UInt8>) -> [UInt8] {
    guard payload.count > 0, payload[0] == 0x01 || payload[0] == 0x0B else { return [] }
    return [0x05, 0x05]
  }

  /// Encryption has changed, could not be begun, or has another key.
  mutating func encryptionEnded(
    _ handle: ConnectionHandle, _ status: HCIStatus, isEncrypted: Bool, _ now: MonotonicTime
  ) {
    guard let link = links[handle] else {
      counts.strayEvents += 1
      return
    }
    let isPeripheral = link.description.role == .peripheral
    // Encryption by a key that this side did not give proves nothing (CVE-2019-19194: a key of zeros).
    guard !isPeripheral || status != .success || !isEncrypted || link.givenKeySource != nil else {
      counts.strayEvents += 1
      return
    }
    if status == .success {
      let source = isPeripheral ? link.givenKeySource : .stored
      (link.isEncrypted, link.keySource) = (isEncrypted, isEncrypted ? source : nil)
      if !isEncrypted { link.givenKeySource = nil }
    }
    events.append(.encryption(handle, status))
    // A central may encrypt by an older key amid a pairing: its new key is not in force by that.
    if !isPeripheral || link.givenKeySource != .stored {
      link.pairing?.encryptionEnded(isEncrypted || status != .success ? status : .pinOrKeyMissing, now: now)
    }
    perform(on: link, now)
  }

  mutating func expirePairing(of link: HCILink, _ now: MonotonicTime) {
    link.pairing?.expire(now: now)
    perform(on: link, now)
  }

  /// The link is gone.
  mutating func losePairing(of link: HCILink, _ now: MonotonicTime?) {
    link.pairing?.lose()
    perform(on: link, now)
  }

  /// Does what a pairing wants.
  private mutating func perform(on link: HCILink, _ now: MonotonicTime?) {
    guard link.pairing != nil else { return }
    let handle = link.description.handle
    for action in link.pairing?.takeActions() ?? [] {
      switch action {
      case .send(let pdu):
        let octets = [UInt8](encoding: SecurityManagerPDU.maximumByteCount) { pdu.encode(into: &$0) }
        if !acl.append(octets.span, channelID: L2CAPFrame.FixedChannel.securityManager, to: handle) {
          counts.droppedAnswers += 1
        }
      case .showPasskey(let passkey): events.append(.security(handle, .showPasskey(passkey)))
      case .askPasskey: events.append(.security(handle, .askPasskey))
      case .compare(let number): events.append(.security(handle, .compare(number)))
      case .encrypt(let key): _ = submitEncryption(LEEnableEncryption(handle, key: key))
      case .finished(let result): finishPairing(of: link, result, now)
      }
    }
  }

  private mutating func finishPairing(
    of link: HCILink, _ result: Result<Bond, PairingError>, _ now: MonotonicTime?
  ) {
    var isByPasskey = false
    if case .passkey? = link.pairing?.method { isByPasskey = link.description.role == .peripheral }
    link.pairing = nil
    let peer = link.description.peer
    switch result {
    case .success:
      attempts.succeeded(peer)
      if isByPasskey { attempts.passkeySucceeded() }
    // A peer that leaves has tried, too.
    case .failure(.linkLost) where isByPasskey: if let now { attempts.passkeyFailed(now: now) }
    case .failure(.linkLost), .failure(.cancelled): break
    case .failure(let error):
      link.hasPairingTimedOut = error == .timedOut
      if let now {
        attempts.failed(peer, now: now)
        if isByPasskey { attempts.passkeyFailed(now: now) }
      }
    }
    events.append(.security(link.description.handle, .paired(result)))
  }

  /// The answer says only that it has begun; a refusal ends what was to be encrypted.
  private mutating func submitEncryption(_ command: LEEnableEncryption) -> Bool {
    guard let id = submit(command) else { return false }
    encryptions[id] = command.handle
    return true
  }
}

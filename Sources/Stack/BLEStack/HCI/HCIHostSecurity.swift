public import BLEWire

/// Events of a pairing, or a peer's request for security.
public enum SecurityEvent: Hashable, Sendable {
  /// The peripheral requests security. Encrypt with its key, or pair. Core 5.4, Vol 3, Part H, 2.4.6.
  case requested(AuthenticationRequirements)
  /// Show this passkey until the pairing ends.
  case showPasskey(UInt32)
  /// Ask the user for a passkey, then call `enterPasskey`.
  case askPasskey
  /// Ask the user to compare this number, then call `confirmNumber`.
  case compare(UInt32)
  case paired(Result<Bond, PairingError>)
  /// A central requests encryption with a stored key of this device. Call `answerKeyRequest`.
  case keyWanted(random: UInt64, diversifier: UInt16)
}

/// Inputs of a pairing besides its configuration.
public struct PairingSupplies: Sendable {
  /// A key pair for one pairing; `nil` to pair without Secure Connections.
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

/// Origin of the key that encrypts a link.
public enum LinkKeySource: Hashable, Sendable {
  /// A key from an earlier pairing.
  case stored
  /// The key of the current pairing, or of an earlier pairing on this link.
  case pairing
}

/// A host's resolvable private address and its use. Core 5.4, Vol 3, Part C, 10.7.
public struct HostPrivacy: Sendable {
  /// Links that use the address.
  public enum Scope: Hashable, Sendable {
    case advertising
    /// All links, because the controller has no other random address.
    case all
  }

  /// The current private address.
  public var address: DeviceAddress
  /// Identity that is distributed to centrals that pair.
  public var identity: DeviceIdentity
  public var scope: Scope

  public init(_ address: DeviceAddress, of identity: DeviceIdentity, _ scope: Scope) {
    self.address = address
    self.identity = identity
    self.scope = scope
  }
}

/// How a host responds to pairing requests of centrals.
public struct PairingResponder: Sendable {
  public var configuration: PairingConfiguration
  /// Address under which this device advertises.
  public var local: DeviceAddress
  /// Returns the stored bond of a central. A pairing may replace a bond only if it is authenticated and at
  /// least as strong, because any device can use the central's address.
  public var bond: @Sendable (DeviceAddress) -> Bond?
  /// Returns the supplies of a new pairing.
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

  /// Creates a pairing in its initial state.
  ///
  /// - Parameters:
  ///   - peer: the central's address on the link.
  ///   - privacy: private address of this device on the link. The identity behind it is distributed with the
  ///     keys.
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
  /// Reports security requests of peers as events. Otherwise they are answered with Pairing Not Supported.
  public mutating func takeSecurityRequests() { takesSecurityRequests = true }

  /// Sets the responder for pairing requests of centrals. If `nil`, they are answered with Pairing Not
  /// Supported.
  public mutating func answerPairings(by responder: PairingResponder?) { self.responder = responder }

  /// Sets the private address for future links; existing links are not affected. If `nil`, the host's own
  /// address is used.
  public mutating func hide(_ privacy: HostPrivacy?) { self.privacy = privacy }

  /// Pairs with the peer of a link. As the peripheral, asks the central to pair. The event `paired` reports
  /// the result.
  ///
  /// - Parameters:
  ///   - handle: handle of the link.
  ///   - configuration: requirements and capabilities of this side.
  ///   - local: address of this side on the link.
  ///   - supplies: key pair and random numbers.
  ///   - now: start of the time limit.
  /// - Returns: `false` if the link has ended or is already pairing.
  public mutating func pair(
    on handle: ConnectionHandle, _ configuration: PairingConfiguration, local: DeviceAddress,
    _ supplies: PairingSupplies, now: MonotonicTime
  ) -> Bool {
    guard let link = links[handle], link.pairing == nil else { return false }
    let peer = link.description.peer
    // After a pairing timeout no further Security Manager PDU is allowed on this link. Core 5.4, Vol 3, Part
    // H, 3.4.
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

  /// Supplies the passkey that the user typed; `nil` if the user entered none.
  public mutating func enterPasskey(_ passkey: UInt32?, on handle: ConnectionHandle, now: MonotonicTime) {
    guard let link = links[handle] else { return }
    link.pairing?.enter(passkey: passkey, now: now)
    perform(on: link, now)
  }

  /// Supplies the user's decision whether both numbers are equal.
  public mutating func confirmNumber(_ areEqual: Bool, on handle: ConnectionHandle, now: MonotonicTime) {
    guard let link = links[handle] else { return }
    link.pairing?.confirm(areEqual, now: now)
    perform(on: link, now)
  }

  /// Cancels a pairing.
  public mutating func cancelPairing(on handle: ConnectionHandle, now: MonotonicTime) {
    guard let link = links[handle] else { return }
    link.pairing?.cancel()
    perform(on: link, now)
  }

  /// Answers `keyWanted`. If the key is `nil`, the central gets a negative reply.
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

  /// Origin of the key of an encrypted link on which this side is the peripheral; `nil` if the link is not
  /// encrypted.
  public func keySource(of handle: ConnectionHandle) -> LinkKeySource? {
    guard let link = links[handle], link.isEncrypted else { return nil }
    return link.keySource
  }

  // MARK: From the controller

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

  /// Processes the first PDU of a central that starts to pair.
  private mutating func takePairingRequest(
    _ payload: Span<UInt8>, on link: HCILink, now: MonotonicTime
  ) -> [UInt8] {
    // After a pairing timeout no further Security Manager PDU is allowed on this link. Core 5.4, Vol 3, Part
    // H, 3.4.
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

  /// Answers the controller's request for a key. Supplies the key of the current pairing itself; for any
  /// other key it sends the event `keyWanted` to the owner.
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

  /// Answers a Pairing Request or Security Request with Pairing Failed, Pairing Not Supported. Ignores other
  /// PDUs.
  ///
  /// Core 5.4, Vol 3, Part H, 3.5.5.
  private static func refusePairing(_ payload: Span<UInt8>) -> [UInt8] {
    guard payload.count > 0, payload[0] == 0x01 || payload[0] == 0x0B else { return [] }
    return [0x05, 0x05]
  }

  /// Handles a change of encryption, a failure to encrypt, or a key refresh.
  mutating func encryptionEnded(
    _ handle: ConnectionHandle, _ status: HCIStatus, isEncrypted: Bool, _ now: MonotonicTime
  ) {
    guard let link = links[handle] else {
      counts.strayEvents += 1
      return
    }
    let isPeripheral = link.description.role == .peripheral
    // Ignore encryption with a key that this side did not supply (CVE-2019-19194: a zero key).
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
    // During a pairing a central may encrypt with an older key. That does not complete the pairing's own
    // encryption.
    if !isPeripheral || link.givenKeySource != .stored {
      link.pairing?.encryptionEnded(isEncrypted || status != .success ? status : .pinOrKeyMissing, now: now)
    }
    perform(on: link, now)
  }

  mutating func expirePairing(of link: HCILink, _ now: MonotonicTime) {
    link.pairing?.expire(now: now)
    perform(on: link, now)
  }

  /// Ends the pairing of a link that has ended.
  mutating func losePairing(of link: HCILink, _ now: MonotonicTime?) {
    link.pairing?.lose()
    perform(on: link, now)
  }

  /// Performs the actions that a pairing requests.
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
    // A disconnection counts as a failed attempt too.
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

  /// Submits a command that starts encryption. If the controller refuses it, encryption has failed; otherwise
  /// an event reports the result.
  private mutating func submitEncryption(_ command: LEEnableEncryption) -> Bool {
    guard let id = submit(command) else { return false }
    encryptions[id] = command.handle
    return true
  }
}

public import BLEWire

/// Requirements and capabilities of one side of a pairing.
public struct PairingConfiguration: Sendable {
  /// Minimum protection of the keys. A pairing without it fails.
  public enum Protection: Hashable, Sendable {
    /// Encryption without MITM protection.
    case encrypted
    case authenticated
  }

  public enum Kind: Hashable, Sendable {
    /// Secure Connections if the peer supports it, otherwise legacy pairing.
    case any
    /// Secure Connections only: legacy pairing is refused. Core 5.4, Vol 3, Part C, 10.2.4.
    case secureConnections
  }

  /// Features to request and offer. The Secure Connections flag is cleared if there is no key pair.
  public var features: PairingFeatures
  public var protection: Protection
  /// Minimum encryption key size, 7 … 16 bytes.
  public var minimumKeyByteCount: UInt8
  /// Identity to distribute if the peer accepts it.
  public var identity: DeviceIdentity?
  /// Whether legacy pairing is allowed.
  public var kind = Kind.any
  /// The stored bond of the peer. The pairing fails if it would be weaker.
  public var replacedBond: Bond?
  /// Out-of-band data of a legacy pairing.
  public var temporaryKey: UInt128?
  /// A fixed passkey instead of a random one, for a device without a display that has the passkey printed on
  /// its case.
  public var passkey: UInt32?

  public init(
    features: PairingFeatures, protection: Protection = .encrypted, minimumKeyByteCount: UInt8 = 16,
    identity: DeviceIdentity? = nil, temporaryKey: UInt128? = nil
  ) {
    self.features = features
    self.protection = protection
    self.minimumKeyByteCount = minimumKeyByteCount
    self.identity = identity
    self.temporaryKey = temporaryKey
  }
}

/// Reason why a pairing failed.
public enum PairingError: Error, Hashable, Sendable {
  /// The peer sent Pairing Failed with this reason.
  case refused(PairingFailure)
  /// This side sent Pairing Failed with this reason.
  case failed(PairingFailure)
  /// No PDU arrived for 30 s. No more may be sent on this link. Core 5.4, Vol 3, Part H, 3.4.
  case timedOut
  /// The link could not be encrypted with the new key.
  case notEncrypted(HCIStatus)
  /// The device sent this identity address, which is invalid or belongs to another bond.
  case identityRefused(DeviceAddress)
  /// The device has a bond that is stronger than the new one would be. The old bond is kept.
  case weakerThanBond
  /// The device supports only legacy pairing, but Secure Connections is required.
  case notSecureConnections
  /// The previous attempt failed only a short time ago.
  case tooSoon
  /// The link ended.
  case linkLost
  case cancelled
}

extension PairingError: CustomStringConvertible {
  public var description: String {
    switch self {
    case .refused(.pairingNotSupported): "the device does not support pairing"
    case .refused(.repeatedAttempts), .tooSoon: "the last attempt failed too recently"
    case .refused(let reason): "the device refused: \(reason.name)"
    case .failed(.confirmValueFailed), .failed(.dhKeyCheckFailed):
      "the confirm values differ: wrong passkey, or an attacker in the middle"
    case .failed(.authenticationRequirements):
      "the device can neither show nor enter a passkey, so an attacker could be in the middle"
    case .failed(.numericComparisonFailed): "the numbers were not confirmed as equal"
    case .failed(.passkeyEntryFailed): "no passkey was given"
    case .failed(let reason): "invalid pairing data: \(reason.name)"
    case .timedOut: "the device did not respond for 30 s"
    case .notEncrypted(let status): "the link could not be encrypted: \(status.name)"
    case .identityRefused(let address):
      address.isValidIdentity
        ? "the device claims to be \(address), which is another bonded device"
        : "the device claims to be \(address), which is not a public or static address"
    case .weakerThanBond: "the device has a stronger bond, which is kept"
    case .notSecureConnections: "the device offers legacy pairing only"
    case .linkLost: "the link ended"
    case .cancelled: "it was cancelled"
    }
  }
}

/// Action that a pairing's owner must perform, in order.
public enum PairingAction: Hashable, Sendable {
  case send(SecurityManagerPDU)
  /// Show this number, 0 … 999,999, until the pairing ends.
  case showPasskey(UInt32)
  /// Ask the user for a passkey, then call `enter`.
  case askPasskey
  /// Ask the user to compare this number with the peer's, then call `confirm`.
  case compare(UInt32)
  /// Encrypt the link with this key, then call `encryptionEnded`. Initiator only.
  case encrypt(UInt128)
  case finished(Result<Bond, PairingError>)
}

/// One pairing in either role, from its first PDU to its last key, without I/O.
///
/// The owner passes in PDUs, the time, the user's answers and the result of encryption, and performs the
/// actions that `takeActions` returns. Core 5.4, Vol 3, Part H, 2.3 and 2.4.
public struct Pairing {
  public enum Role: Hashable, Sendable {
    /// The central.
    case initiator
    /// The peripheral.
    case responder
  }

  /// Maximum time between PDUs. Core 5.4, Vol 3, Part H, 3.4.
  public static let timeout = Duration.seconds(30)

  enum Step {
    /// The initiator awaits the Pairing Response, the responder the Pairing Request.
    case features
    case legacyConfirm, legacyRandom
    case publicKey
    case confirm, random
    case check
    case encryption
    case keys
    case over
  }

  public let role: Role
  let configuration: PairingConfiguration
  let initiator: DeviceAddress
  let responder: DeviceAddress
  let keyPair: (any P256KeyAgreement)?
  let makeRandom: @Sendable () -> UInt128

  var step = Step.features
  var actions: [PairingAction] = []
  public private(set) var deadline: MonotonicTime?
  /// Whether the user's answer is pending.
  var isAsking = false
  /// PDUs that arrived before the user's answer or before the result of encryption.
  private var held: [SecurityManagerPDU] = []
  /// Maximum number of held PDUs; enough for all keys of one side.
  private static let heldLimit = 5

  // Agreed parameters.
  var request: PairingFeatures?
  var response: PairingFeatures?
  var isSecure = false
  var method = PairingMethod.justWorks
  var keyByteCount: UInt8 = 16

  // State of authentication stage 1.
  var passkey: UInt32 = 0
  var temporaryKey: UInt128 = 0
  /// Number of passkey bits that are confirmed.
  var round: UInt32 = 0
  var localRandom: UInt128 = 0
  var peerRandom: UInt128 = 0
  var peerConfirm: UInt128 = 0
  var localConfirm: UInt128 = 0
  var peerPublicKey: P256PublicKey?
  var dhKey: P256Coordinate?
  var macKey: UInt128 = 0
  /// STK or LTK that encrypts the link.
  public internal(set) var key: UInt128?

  // State of key distribution.
  var bond: Bond?
  var awaited: Set<SecurityManagerCode> = []
  var receivedKey: UInt128 = 0
  var receivedResolvingKey: UInt128 = 0

  /// Creates one side of a pairing.
  ///
  /// - Parameters:
  ///   - role: initiator or responder.
  ///   - configuration: requirements and capabilities of this side.
  ///   - local: address of this side on the link.
  ///   - peer: address of the other side on the link.
  ///   - keyPair: made for this pairing; `nil` disables Secure Connections.
  ///   - random: returns a new random number at each call.
  public init(
    _ role: Role, _ configuration: PairingConfiguration, local: DeviceAddress, peer: DeviceAddress,
    keyPair: (any P256KeyAgreement)?, random: @escaping @Sendable () -> UInt128
  ) {
    self.role = role
    var configuration = configuration
    if keyPair == nil {
      configuration.features.requirements = configuration.features.requirements.subtracting(
        .secureConnections)
    }
    configuration.features.hasOutOfBandData = configuration.temporaryKey != nil
    self.configuration = configuration
    (initiator, responder) = role == .initiator ? (local, peer) : (peer, local)
    self.keyPair = keyPair
    makeRandom = random
  }

  public var isOver: Bool {
    if case .over = step { true } else { false }
  }

  /// Returns the actions queued since the last call.
  public mutating func takeActions() -> [PairingAction] {
    defer { actions = [] }
    return actions
  }

  // MARK: In

  /// Starts the pairing: as initiator with a Pairing Request, as responder with a Security Request.
  public mutating func start(now: MonotonicTime) {
    touch(now)
    switch role {
    case .initiator:
      request = configuration.features
      send(.pairingRequest(configuration.features))
    case .responder: send(.securityRequest(configuration.features.requirements))
    }
  }

  public mutating func receive(_ octets: Span<UInt8>, now: MonotonicTime) {
    guard !isOver else { return }
    let pdu: SecurityManagerPDU
    do throws(WireError) { pdu = try SecurityManagerPDU(validating: octets) } catch {
      // Unknown PDUs are ignored. Core 5.4, Vol 3, Part H, 3.3.
      if case .unexpectedOpcode = error.reason { return }
      return fail(.invalidParameters)
    }
    switch pdu {
    case .pairingFailed(let reason): end(.failure(.refused(reason)))
    // These do not postpone the deadline; otherwise a peer could keep a pairing open indefinitely.
    case .keypress, .securityRequest: break
    case _ where isUseless(pdu): break
    default:
      touch(now)
      guard isAsking else { return take(pdu) }
      hold(pdu)
    }
  }

  /// Supplies the passkey that the user typed; `nil` if the user entered none.
  public mutating func enter(passkey: UInt32?, now: MonotonicTime) {
    guard isAsking, case .passkey = method else { return }
    isAsking = false
    guard let passkey, passkey <= 999_999 else { return fail(.passkeyEntryFailed) }
    touch(now)
    self.passkey = passkey
    passkeyKnown()
    resume()
  }

  /// Supplies the user's decision whether both numbers are equal.
  public mutating func confirm(_ areEqual: Bool, now: MonotonicTime) {
    guard isAsking, method == .numericComparison else { return }
    isAsking = false
    guard areEqual else { return fail(.numericComparisonFailed) }
    touch(now)
    compared()
    resume()
  }

  /// Supplies the result of encrypting the link with `key`.
  public mutating func encryptionEnded(_ status: HCIStatus, now: MonotonicTime) {
    guard case .encryption = step else { return }
    guard status == .success else { return end(.failure(.notEncrypted(status))) }
    touch(now)
    beginKeys()
  }

  public mutating func expire(now: MonotonicTime) {
    guard let deadline, deadline <= now else { return }
    end(.failure(.timedOut))
  }

  /// Cancels the pairing and notifies the peer.
  public mutating func cancel() {
    guard !isOver else { return }
    send(.pairingFailed(.unspecifiedReason))
    end(.failure(.cancelled))
  }

  public mutating func lose() { end(.failure(.linkLost)) }

  // MARK: Internals

  private mutating func touch(_ now: MonotonicTime) { deadline = now.advanced(by: Self.timeout) }

  private mutating func hold(_ pdu: SecurityManagerPDU) {
    if held.count < Self.heldLimit { held.append(pdu) } else { fail(.unspecifiedReason) }
  }

  /// Processes the held PDUs.
  mutating func resume() {
    while !isAsking, !isOver, !held.isEmpty { take(held.removeFirst()) }
  }

  /// Whether a PDU has no effect: one before the Pairing Request, or a key that is not expected.
  private func isUseless(_ pdu: SecurityManagerPDU) -> Bool {
    switch step {
    case .features: role == .responder && pdu.code != .pairingRequest
    case .keys: !awaited.contains(pdu.code)
    default: false
    }
  }

  private mutating func take(_ pdu: SecurityManagerPDU) {
    switch (step, pdu) {
    case (.features, .pairingRequest(let features)) where role == .responder: requested(features)
    case (.features, .pairingResponse(let features)) where role == .initiator: responded(features)
    case (.legacyConfirm, .pairingConfirm(let value)): legacyConfirmed(value)
    case (.legacyRandom, .pairingRandom(let value)): legacyRevealed(value)
    case (.publicKey, .publicKey(let key)): exchanged(key)
    case (.confirm, .pairingConfirm(let value)): confirmed(value)
    case (.random, .pairingRandom(let value)): revealed(value)
    case (.check, .dhKeyCheck(let value)): checked(value)
    case (.keys, _): takeKey(pdu)
    // The link layer may report encryption after the first key has arrived.
    case (.encryption, _): hold(pdu)
    default: fail(.unspecifiedReason)
    }
  }

  mutating func send(_ pdu: SecurityManagerPDU) { actions.append(.send(pdu)) }

  /// Sends Pairing Failed and ends the pairing.
  mutating func fail(_ reason: PairingFailure) {
    guard !isOver else { return }
    send(.pairingFailed(reason))
    end(.failure(.failed(reason)))
  }

  mutating func end(_ result: Result<Bond, PairingError>) {
    guard !isOver else { return }
    step = .over
    deadline = nil
    isAsking = false
    held = []
    actions.append(.finished(result))
  }

  // MARK: Features

  private mutating func requested(_ features: PairingFeatures) {
    request = features
    var answer = configuration.features
    answer.initiatorKeys = answer.initiatorKeys.intersection(features.initiatorKeys)
    answer.responderKeys = answer.responderKeys.intersection(features.responderKeys)
    response = answer
    guard agree(features, answer) else { return }
    send(.pairingResponse(answer))
    begin()
  }

  private mutating func responded(_ features: PairingFeatures) {
    guard let request else { return }
    // The response contains keys that were not requested.
    guard request.initiatorKeys.isSuperset(of: features.initiatorKeys),
      request.responderKeys.isSuperset(of: features.responderKeys)
    else { return fail(.invalidParameters) }
    response = features
    if agree(request, features) { begin() }
  }

  /// Chooses the method and key size, and fails if they are too weak. Core 5.4, Vol 3, Part H, 2.3.4 and
  /// 2.3.5.1.
  private mutating func agree(_ request: PairingFeatures, _ response: PairingFeatures) -> Bool {
    isSecure =
      request.requirements.contains(.secureConnections)
      && response.requirements.contains(.secureConnections)
    method = PairingMethod(request, response, isSecure: isSecure)
    keyByteCount = min(request.maximumKeyByteCount, response.maximumKeyByteCount)
    var refusal: PairingFailure?
    if keyByteCount < configuration.minimumKeyByteCount { refusal = .encryptionKeySize }
    if configuration.protection == .authenticated, !method.isAuthenticated {
      refusal = .authenticationRequirements
    }
    // This side never provides out-of-band data for Secure Connections.
    if method == .outOfBand, isSecure || configuration.temporaryKey == nil {
      refusal = .outOfBandNotAvailable
    }
    if let refusal {
      fail(refusal)
      return false
    }
    guard let error = weakness else { return true }
    send(.pairingFailed(.authenticationRequirements))
    end(.failure(error))
    return false
  }

  /// Reason why the agreed features are too weak, if the specification has no error code for it.
  private var weakness: PairingError? {
    if configuration.kind == .secureConnections, !isSecure { return .notSecureConnections }
    guard let bond = configuration.replacedBond else { return nil }
    let made = Bond(
      isAuthenticated: method.isAuthenticated, isSecureConnections: isSecure, keyByteCount: keyByteCount,
      isBonded: true)
    return made.isAtLeastAsStrong(as: bond) ? nil : .weakerThanBond
  }

  private mutating func begin() {
    if isSecure {
      step = .publicKey
      if role == .initiator, let keyPair { send(.publicKey(keyPair.publicKey)) }
    } else {
      step = .legacyConfirm
      findPasskey()
    }
  }

  /// Generates the passkey or asks the user for it, if the method needs one. `passkeyKnown` is called
  /// afterwards.
  mutating func findPasskey() {
    guard case .passkey(let entry) = method else { return passkeyKnown() }
    let shows: PairingMethod.PasskeyEntry = role == .initiator ? .initiatorShows : .responderShows
    if entry == shows {
      passkey = configuration.passkey ?? UInt32(makeRandom() % 1_000_000)
      actions.append(.showPasskey(passkey))
      passkeyKnown()
    } else {
      isAsking = true
      actions.append(.askPasskey)
    }
  }

  private mutating func passkeyKnown() {
    if isSecure { beginRound() } else { beginLegacy() }
  }

  /// Shortens a key to the agreed size. Core 5.4, Vol 3, Part H, 2.3.4.
  func shortened(_ key: UInt128) -> UInt128 {
    keyByteCount == 16 ? key : key & ((1 as UInt128) << UInt128(8 * keyByteCount) - 1)
  }
}

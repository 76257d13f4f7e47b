public import BLEWire

/// Requirements and capabilities of one side of a pairing.
public struct PairingConfiguration: Sendable {
  /// Minimum protection of the keys. A pairing with less protection fails.
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
  /// The stored bond of the peer. The pairing fails if its result would be weaker.
  public var replacedBond: Bond?
  /// Out-of-band data of a legacy pairing.
  public var temporaryKey: UInt128?
  /// A fixed passkey instead of a random passkey, for a device without a display that has the passkey printed
  /// on its case.
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
  /// No PDU arrived for 30 s. No further PDU may be sent on this link. Core 5.4, Vol 3, Part H, 3.4.
  case timedOut
  /// The link could not be encrypted with the new key.
  case notEncrypted(HCIStatus)
  /// The device sent this identity address, which is invalid or belongs to another bond.
  case identityRefused(DeviceAddress)
  /// The device has a bond that is stronger than the new bond would be. The old bond is kept.
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

/// An action that the owner of a pairing must perform. Actions must be performed in the order returned.
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
  private let makeRandom: @Sendable () -> UInt128

  var step = Step.features
  var actions: [PairingAction] = []
  public private(set) var deadline: MonotonicTime?
  /// Whether the user's answer is pending.
  private var isAsking = false
  /// PDUs that arrived before the user's answer or before the result of encryption.
  private var held: [SecurityManagerPDU] = []
  /// Maximum number of held PDUs; enough for all keys of one side.
  private static let heldLimit = 5

  // Agreed parameters.
  var request: PairingFeatures?
  var response: PairingFeatures?
  private var isSecure = false
  var method = PairingMethod.justWorks
  var keyByteCount: UInt8 = 16

  // State of authentication stage 1.
  var passkey: UInt32 = 0
  private var temporaryKey: UInt128 = 0
  /// Number of passkey bits that are confirmed.
  var round: UInt32 = 0
  private var localRandom: UInt128 = 0
  private var peerRandom: UInt128 = 0
  private var peerConfirm: UInt128 = 0
  private var localConfirm: UInt128 = 0
  private var peerPublicKey: P256PublicKey?
  private var dhKey: P256Coordinate?
  var macKey: UInt128 = 0
  /// STK or LTK that encrypts the link.
  public private(set) var key: UInt128?

  // State of key distribution.
  var bond: Bond?
  private var awaited: Set<SecurityManagerCode> = []
  private var receivedKey: UInt128 = 0
  private var receivedResolvingKey: UInt128 = 0

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
    // These PDUs do not postpone the deadline; otherwise a peer could keep a pairing open indefinitely.
    case .keypress, .securityRequest: break
    case _ where isUseless(pdu): break
    default:
      touch(now)
      guard isAsking else { return take(pdu) }
      hold(pdu)
    }
  }

  /// Supplies the passkey that the user typed, or `nil` if the user entered none.
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

  /// Returns whether a PDU has no effect: it precedes the Pairing Request, or contains an unexpected key.
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

  /// Chooses the method and key size. Fails if either is too weak. Core 5.4, Vol 3, Part H, 2.3.4 and
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

  /// Reason why the agreed features are too weak for this side: no Secure Connections, or a weaker bond than
  /// the stored bond. `nil` if the features are strong enough.
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

  /// Generates the passkey or asks the user for it, if the method needs a passkey. `passkeyKnown` is called
  /// afterwards.
  private mutating func findPasskey() {
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
  private func shortened(_ key: UInt128) -> UInt128 {
    keyByteCount == 16 ? key : key & ((1 as UInt128) << UInt128(8 * keyByteCount) - 1)
  }
}

// MARK: - Association model

/// Method by which two devices authenticate each other. Core 5.4, Vol 3, Part H, 2.3.5.1.
public enum PairingMethod: Hashable, Sendable {
  case justWorks
  case passkey(PasskeyEntry)
  case numericComparison
  case outOfBand

  /// The sides that show and type the passkey.
  public enum PasskeyEntry: Hashable, Sendable {
    case initiatorShows, responderShows, bothType
  }

  public var isAuthenticated: Bool { self != .justWorks }

  /// Chooses the method for two sides.
  ///
  /// - Parameter isSecure: whether both sides set the Secure Connections flag.
  init(_ initiator: PairingFeatures, _ responder: PairingFeatures, isSecure: Bool) {
    let (i, r) = (initiator.hasOutOfBandData, responder.hasOutOfBandData)
    if isSecure ? i || r : i && r {
      self = .outOfBand
    } else if !initiator.requirements.contains(.authenticated),
      !responder.requirements.contains(.authenticated)
    {
      self = .justWorks
    } else {
      self.init(initiator.capability, responder.capability, isSecure: isSecure)
    }
  }

  /// Chooses the method by the IO capabilities, as in table 2.8 of Core 5.4, Vol 3, Part H, 2.3.5.1.
  private init(_ initiator: IOCapability, _ responder: IOCapability, isSecure: Bool) {
    switch (initiator, responder) {
    case (.noInputNoOutput, _), (_, .noInputNoOutput): self = .justWorks
    case (.keyboardOnly, .keyboardOnly): self = .passkey(.bothType)
    case (.displayYesNo, .displayYesNo): self = isSecure ? .numericComparison : .justWorks
    case (.displayYesNo, .keyboardDisplay), (.keyboardDisplay, .keyboardDisplay):
      self = isSecure ? .numericComparison : .passkey(.initiatorShows)
    case (.keyboardDisplay, .displayYesNo):
      self = isSecure ? .numericComparison : .passkey(.responderShows)
    case (_, .keyboardOnly), (.displayOnly, .keyboardDisplay): self = .passkey(.initiatorShows)
    case (.keyboardOnly, _), (.keyboardDisplay, .displayOnly): self = .passkey(.responderShows)
    default: self = .justWorks
    }
  }
}

// MARK: - Legacy pairing

/// LE legacy pairing: confirms a temporary key and derives a short-term key from it. Core 5.4, Vol 3, Part H,
/// 2.3.5.5.
extension Pairing {
  private mutating func beginLegacy() {
    temporaryKey = method == .outOfBand ? configuration.temporaryKey ?? 0 : UInt128(passkey)
    localRandom = makeRandom()
    localConfirm = legacyConfirm(localRandom)
    if role == .initiator { send(.pairingConfirm(localConfirm)) }
  }

  private mutating func legacyConfirmed(_ value: UInt128) {
    // A peer that reflects this side's confirm value proves nothing.
    guard role == .responder || value != localConfirm else { return fail(.confirmValueFailed) }
    peerConfirm = value
    step = .legacyRandom
    switch role {
    case .initiator: send(.pairingRandom(localRandom))
    case .responder: send(.pairingConfirm(localConfirm))
    }
  }

  private mutating func legacyRevealed(_ value: UInt128) {
    guard legacyConfirm(value) == peerConfirm else { return fail(.confirmValueFailed) }
    step = .encryption
    switch role {
    case .initiator:
      let short = shortened(SecurityToolbox.s1(temporaryKey, value, localRandom))
      key = short
      actions.append(.encrypt(short))
    case .responder:
      key = shortened(SecurityToolbox.s1(temporaryKey, localRandom, value))
      send(.pairingRandom(localRandom))
    }
  }

  private func legacyConfirm(_ random: UInt128) -> UInt128 {
    guard let request, let response else { return 0 }
    return SecurityToolbox.c1(
      temporaryKey, random,
      SecurityToolbox.LegacyContext(
        request: Self.number(.pairingRequest(request)), response: Self.number(.pairingResponse(response)),
        initiator: initiator, responder: responder))
  }

  /// Converts the seven bytes of a PDU to a number, with the code as the least significant byte.
  private static func number(_ pdu: SecurityManagerPDU) -> UInt64 {
    let octets = [UInt8](encoding: 7) { pdu.encode(into: &$0) }
    return octets.reversed().reduce(0) { $0 << 8 | UInt64($1) }
  }
}

// MARK: - Secure Connections

/// LE Secure Connections. Core 5.4, Vol 3, Part H, 2.3.5.6.
extension Pairing {
  /// Number of passkey bits. Each is confirmed in a separate round. Core 5.4, Vol 3, Part H, 2.3.5.6.3.
  private static let passkeyBits: UInt32 = 20

  // MARK: Phase 1

  mutating func exchanged(_ peer: P256PublicKey) {
    guard let keyPair else { return }
    // Refuse a peer that reflects this side's key, or uses the debug key, whose private key is published.
    guard peer.x != keyPair.publicKey.x, peer.x != P256PublicKey.debug.x,
      let secret = keyPair.sharedSecret(with: peer)
    else { return fail(.invalidParameters) }
    peerPublicKey = peer
    dhKey = secret
    if role == .responder { send(.publicKey(keyPair.publicKey)) }
    step = .confirm
    findPasskey()
  }

  // MARK: Authentication stage 1

  /// Starts an authentication round: one round for each passkey bit, or only one round for other methods.
  private mutating func beginRound() {
    localRandom = makeRandom()
    if case .passkey = method {
      step = .confirm
      if role == .initiator { send(.pairingConfirm(localCommitment)) }
    } else if role == .responder {
      send(.pairingConfirm(localCommitment))
      step = .random
    }
  }

  mutating func confirmed(_ value: UInt128) {
    peerConfirm = value
    step = .random
    switch role {
    case .initiator: send(.pairingRandom(localRandom))
    case .responder: send(.pairingConfirm(localCommitment))
    }
  }

  private mutating func revealed(_ value: UInt128) {
    peerRandom = value
    // In Just Works and numeric comparison the initiator sends no commitment.
    let isCommitted =
      if case .passkey = method { true } else { role == .initiator }
    guard !isCommitted || commitment(of: value) == peerConfirm else { return fail(.confirmValueFailed) }
    if role == .responder { send(.pairingRandom(localRandom)) }
    if case .passkey = method {
      round += 1
      if round < Self.passkeyBits { return beginRound() }
    }
    makeKeys()
    step = .check
    if method == .numericComparison {
      isAsking = true
      actions.append(.compare(number))
    } else {
      compared()
    }
  }

  private var localX: P256Coordinate { keyPair?.publicKey.x ?? P256Coordinate(high: 0, low: 0) }
  private var peerX: P256Coordinate { peerPublicKey?.x ?? P256Coordinate(high: 0, low: 0) }

  /// Input z of the function f4: the passkey bit of this round, or 0.
  private var roundBit: UInt8 {
    if case .passkey = method { 0x80 | UInt8(passkey >> round & 1) } else { 0 }
  }

  private var localCommitment: UInt128 { SecurityToolbox.f4(localX, peerX, localRandom, roundBit) }

  private func commitment(of random: UInt128) -> UInt128 {
    SecurityToolbox.f4(peerX, localX, random, roundBit)
  }

  /// Number that both sides show. Core 5.4, Vol 3, Part H, 2.3.5.6.2.
  private var number: UInt32 {
    let value =
      role == .initiator
      ? SecurityToolbox.g2(localX, peerX, localRandom, peerRandom)
      : SecurityToolbox.g2(peerX, localX, peerRandom, localRandom)
    return value % 1_000_000
  }

  // MARK: Authentication stage 2

  private mutating func makeKeys() {
    guard let dhKey else { return }
    let keys =
      role == .initiator
      ? SecurityToolbox.f5(dhKey, localRandom, peerRandom, initiator, responder)
      : SecurityToolbox.f5(dhKey, peerRandom, localRandom, initiator, responder)
    macKey = keys.macKey
    key = shortened(keys.longTermKey)
  }

  /// Continues after the user has confirmed the number, or at once if the method needs no confirmation.
  private mutating func compared() {
    if role == .initiator { send(.dhKeyCheck(localCheck)) }
  }

  mutating func checked(_ value: UInt128) {
    guard value == peerCheck, let key else { return fail(.dhKeyCheckFailed) }
    step = .encryption
    switch role {
    case .initiator: actions.append(.encrypt(key))
    case .responder: send(.dhKeyCheck(localCheck))
    }
  }

  private var localCheck: UInt128 {
    let (features, own, other) =
      role == .initiator ? (request, initiator, responder) : (response, responder, initiator)
    return SecurityToolbox.f6(
      macKey, localRandom, peerRandom, checkRandom, capability: Self.number(features), own, other)
  }

  private var peerCheck: UInt128 {
    let (features, own, other) =
      role == .initiator ? (response, responder, initiator) : (request, initiator, responder)
    return SecurityToolbox.f6(
      macKey, peerRandom, localRandom, checkRandom, capability: Self.number(features), own, other)
  }

  /// Input r of the function f6: the passkey, or 0.
  private var checkRandom: UInt128 {
    if case .passkey = method { UInt128(passkey) } else { 0 }
  }

  /// Returns AuthReq, OOB flag and IO capability as a 24-bit number.
  private static func number(_ features: PairingFeatures?) -> UInt32 {
    guard let features else { return 0 }
    return UInt32(features.requirements.rawValue) << 16 | (features.hasOutOfBandData ? 0x100 : 0)
      | UInt32(features.capability.rawValue)
  }
}

// MARK: - Keys

/// Key distribution over the encrypted link; the responder's keys come first. Core 5.4, Vol 3, Part H, 3.6.
extension Pairing {
  /// The key for the controller; `nil` until all checks have succeeded and the user has answered. A central
  /// that could encrypt earlier would skip the numeric comparison.
  var agreedKey: UInt128? {
    switch step {
    case .encryption, .keys: key
    default: nil
    }
  }

  private mutating func beginKeys() {
    guard let request, let response, let key else { return }
    step = .keys
    var bond = Bond(
      isAuthenticated: method.isAuthenticated, isSecureConnections: isSecure, keyByteCount: keyByteCount,
      isBonded: request.requirements.contains(.bonding) && response.requirements.contains(.bonding))
    if isSecure {
      bond.peerKey = LongTermKey(key: key)
      bond.localKey = LongTermKey(key: key)
    }
    self.bond = bond
    awaited = codes(of: role == .initiator ? response.responderKeys : response.initiatorKeys)
    if role == .responder { giveKeys() }
    if awaited.isEmpty { finishKeys() } else { resume() }
  }

  private mutating func takeKey(_ pdu: SecurityManagerPDU) {
    // Ignore keys that were not agreed on.
    guard awaited.remove(pdu.code) != nil else { return }
    switch pdu {
    case .encryptionInformation(let key): receivedKey = key
    case .centralIdentification(let diversifier, let random):
      // Reject if no key arrived before, or if it was zero, which is publicly known.
      guard receivedKey != 0 else { return fail(.keyRejected) }
      bond?.peerKey = LongTermKey(key: receivedKey, diversifier: diversifier, random: random)
    case .identityInformation(let key): receivedResolvingKey = key
    case .identityAddress(let address):
      bond?.peerIdentity = DeviceIdentity(resolvingKey: receivedResolvingKey, address: address)
    case .signingInformation(let key): bond?.peerSigningKey = key
    default: break
    }
    if awaited.isEmpty { finishKeys() }
  }

  private mutating func finishKeys() {
    if role == .initiator { giveKeys() }
    if let bond { end(.success(bond)) }
  }

  private mutating func giveKeys() {
    guard let response else { return }
    let given = role == .initiator ? response.initiatorKeys : response.responderKeys
    if given.contains(.encryption), !isSecure {
      let key = shortened(makeRandom())
      let numbers = makeRandom()
      let (random, diversifier) = (
        UInt64(truncatingIfNeeded: numbers), UInt16(truncatingIfNeeded: numbers >> 64)
      )
      bond?.localKey = LongTermKey(key: key, diversifier: diversifier, random: random)
      send(.encryptionInformation(key))
      send(.centralIdentification(diversifier, random))
    }
    if given.contains(.identity) {
      let own = role == .initiator ? initiator : responder
      bond?.localResolvingKey = configuration.identity?.resolvingKey
      send(.identityInformation(configuration.identity?.resolvingKey ?? 0))
      send(.identityAddress(configuration.identity?.address ?? own))
    }
    if given.contains(.signing) {
      let key = makeRandom()
      bond?.localSigningKey = key
      send(.signingInformation(key))
    }
  }

  private func codes(of keys: KeyDistribution) -> Set<SecurityManagerCode> {
    var codes: Set<SecurityManagerCode> = []
    if keys.contains(.encryption), !isSecure {
      codes.formUnion([.encryptionInformation, .centralIdentification])
    }
    if keys.contains(.identity) { codes.formUnion([.identityInformation, .identityAddress]) }
    if keys.contains(.signing) { codes.insert(.signingInformation) }
    return codes
  }
}

/// A P-256 key pair for one pairing. Callers that pair with Secure Connections supply it; `BLESecurity` has
/// an implementation.
///
/// A class protocol, because the private key must not be copied and Embedded Swift supports existential types
/// of classes only. Core 5.4, Vol 3, Part H, 2.3.5.6.1.
public protocol P256KeyAgreement: AnyObject, Sendable {
  var publicKey: P256PublicKey { get }

  /// Returns the x coordinate of the shared point: DHKey.
  ///
  /// - Returns: `nil` if the key is not a point on the curve.
  func sharedSecret(with peer: P256PublicKey) -> P256Coordinate?
}

/// Time that a peer must wait after a failed pairing. The time doubles after each failure. Core 5.4, Vol 3,
/// Part H, 2.3.6.
///
/// A peer that guesses a passkey learns one bit per attempt, and can change its address each time. Therefore
/// all peers must wait after a failed passkey pairing.
struct RepeatedAttempts {
  private static let firstWait = Duration.seconds(1)
  /// Maximum number of doublings, for a wait of 64 s.
  private static let doublings = 6
  /// Maximum number of peers to remember. A new peer then replaces the oldest.
  static let limit = 32

  private struct Attempts {
    let peer: DeviceAddress
    var failures = 0
    var end: MonotonicTime
  }

  private var peers: [Attempts] = []
  /// Number of failed passkey pairings since the last successful passkey pairing.
  private var passkeyFailures = 0
  private var passkeyEnd: MonotonicTime?

  func mustWait(_ peer: DeviceAddress, now: MonotonicTime) -> Bool {
    if let passkeyEnd, now < passkeyEnd { return true }
    return peers.contains { $0.peer == peer && now < $0.end }
  }

  /// Records a failed passkey pairing of a central.
  mutating func passkeyFailed(now: MonotonicTime) {
    passkeyEnd = now.advanced(by: Self.firstWait * (1 << min(passkeyFailures, Self.doublings)))
    passkeyFailures += 1
  }

  mutating func passkeySucceeded() { (passkeyFailures, passkeyEnd) = (0, nil) }

  mutating func failed(_ peer: DeviceAddress, now: MonotonicTime) {
    let failures = peers.first { $0.peer == peer }?.failures ?? 0
    succeeded(peer)
    if peers.count == Self.limit { peers.removeFirst() }
    let wait = Self.firstWait * (1 << min(failures, Self.doublings))
    peers.append(Attempts(peer: peer, failures: failures + 1, end: now.advanced(by: wait)))
  }

  mutating func succeeded(_ peer: DeviceAddress) { peers.removeAll { $0.peer == peer } }
}

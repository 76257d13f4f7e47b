public import BLEWire

/// What one side wants of a pairing.
public struct PairingConfiguration: Sendable {
  /// The least that the keys must be worth; a pairing that cannot give it fails.
  public enum Protection: Hashable, Sendable {
    /// No protection against a man in the middle.
    case encrypted
    case authenticated
  }

  public enum Kind: Hashable, Sendable {
    /// Secure Connections if the peer has them, else legacy pairing.
    case any
    /// Secure Connections only: a peer that offers legacy pairing is refused. Core 5.4, Vol 3, Part C, 10.2.4.
    case secureConnections
  }

  /// What is asked for and offered; Secure Connections goes without a key pair.
  public var features: PairingFeatures
  public var protection: Protection
  /// 7 … 16 octets.
  public var minimumKeyByteCount: UInt8
  /// Given to the peer where it takes it.
  public var identity: DeviceIdentity?
  /// Whether legacy pairing is accepted.
  public var kind = Kind.any
  /// The stored bond of the peer: a pairing that would be weaker fails.
  public var replacedBond: Bond?
  /// Out-of-band data of a legacy pairing.
  public var temporaryKey: UInt128?
  /// Shown in place of a random one: that of a device without a display, which has it printed on.
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

/// How a pairing ended without keys.
public enum PairingError: Error, Hashable, Sendable {
  /// The peer said so.
  case refused(PairingFailure)
  /// We did.
  case failed(PairingFailure)
  /// No PDU for 30 s: no more may be sent on this link. Core 5.4, Vol 3, Part H, 3.4.
  case timedOut
  /// The link could not be encrypted with the new key.
  case notEncrypted(HCIStatus)
  /// The device named this identity address, which is invalid or belongs to another bond.
  case identityRefused(DeviceAddress)
  /// The device has a bond that is stronger than this pairing would be. The bond is kept.
  case weakerThanBond
  /// The device offers legacy pairing only, and Secure Connections were required.
  case notSecureConnections
  /// The last one failed a moment ago.
  case tooSoon
  /// The link ended.
  case linkLost
  case cancelled
}

extension PairingError: CustomStringConvertible {
  public var description: String {
    switch self {
    case .refused(.pairingNotSupported): "the device does not pair"
    case .refused(.repeatedAttempts), .tooSoon: "the last attempt failed a moment ago"
    case .refused(let reason): "the device refused: \(reason.name)"
    case .failed(.confirmValueFailed), .failed(.dhKeyCheckFailed):
      "the values do not agree: a wrong passkey, or somebody in the middle"
    case .failed(.authenticationRequirements):
      "the device cannot show or be told a passkey, so that somebody could be in the middle"
    case .failed(.numericComparisonFailed): "the numbers were not confirmed to be the same"
    case .failed(.passkeyEntryFailed): "no passkey was given"
    case .failed(let reason): "invalid pairing data: \(reason.name)"
    case .timedOut: "the device said nothing for 30 s"
    case .notEncrypted(let status): "the link could not be encrypted: \(status.name)"
    case .identityRefused(let address):
      address.isValidIdentity
        ? "the device says that it is \(address), which is another bonded device"
        : "the device says that it is \(address), which is no public or static address"
    case .weakerThanBond: "the device has a stronger bond, which is kept"
    case .notSecureConnections: "the device offers legacy pairing only"
    case .linkLost: "the link ended"
    case .cancelled: "it was cancelled"
    }
  }
}

/// What a pairing wants done, in order.
public enum PairingAction: Hashable, Sendable {
  case send(SecurityManagerPDU)
  /// Show this number, 0 … 999,999, until the pairing ends.
  case showPasskey(UInt32)
  /// Have a passkey typed; answer with `enter`.
  case askPasskey
  /// Have this number compared with the peer's; answer with `confirm`.
  case compare(UInt32)
  /// Encrypt the link with this key; answer with `encryptionEnded`. The initiator only.
  case encrypt(UInt128)
  case finished(Result<Bond, PairingError>)
}

/// One pairing from its first PDU to its last key, in either role, I/O-free.
///
/// PDUs, time, answers of a person and the outcome of encryption go in; `takeActions` tells what is to be done.
/// Core 5.4, Vol 3, Part H, 2.3 and 2.4.
public struct Pairing {
  public enum Role: Hashable, Sendable {
    /// The central.
    case initiator
    /// The peripheral.
    case responder
  }

  /// Core 5.4, Vol 3, Part H, 3.4.
  public static let timeout = Duration.seconds(30)

  enum Step {
    /// The initiator waits for the Response, the responder for the Request.
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
  /// A person is asked.
  var isAsking = false
  /// PDUs that came while a person was asked, or before the word of encryption.
  private var held: [SecurityManagerPDU] = []
  /// All keys of one side.
  private static let heldLimit = 5

  // What was agreed on.
  var request: PairingFeatures?
  var response: PairingFeatures?
  var isSecure = false
  var method = PairingMethod.justWorks
  var keyByteCount: UInt8 = 16

  // Stage 1.
  var passkey: UInt32 = 0
  var temporaryKey: UInt128 = 0
  /// Bits of the passkey that are done with.
  var round: UInt32 = 0
  var localRandom: UInt128 = 0
  var peerRandom: UInt128 = 0
  var peerConfirm: UInt128 = 0
  var localConfirm: UInt128 = 0
  var peerPublicKey: P256PublicKey?
  var dhKey: P256Coordinate?
  var macKey: UInt128 = 0
  /// STK or LTK: with what the link is to be encrypted.
  public internal(set) var key: UInt128?

  // Keys.
  var bond: Bond?
  var awaited: Set<SecurityManagerCode> = []
  var receivedKey: UInt128 = 0
  var receivedResolvingKey: UInt128 = 0

  /// - Parameters:
  ///   - role: whether this side asks or answers.
  ///   - configuration: what this side wants and can.
  ///   - local: the address under which this side is on the link.
  ///   - peer: the address under which the other side is on the link.
  ///   - keyPair: made for this pairing; without one there are no Secure Connections.
  ///   - random: a new random number at each call.
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

  /// What is to be done since the last call.
  public mutating func takeActions() -> [PairingAction] {
    defer { actions = [] }
    return actions
  }

  // MARK: In

  /// The initiator sends its Request; the responder asks for one.
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
      // What is not known may be left unanswered. Core 5.4, Vol 3, Part H, 3.3.
      if case .unexpectedOpcode = error.reason { return }
      return fail(.invalidParameters)
    }
    switch pdu {
    case .pairingFailed(let reason): end(.failure(.refused(reason)))
    // None of these puts the deadline off, or a peer could keep a pairing open for ever.
    case .keypress, .securityRequest: break
    case _ where isUseless(pdu): break
    default:
      touch(now)
      guard isAsking else { return take(pdu) }
      hold(pdu)
    }
  }

  /// Six digits that a person typed; `nil` where there are none.
  public mutating func enter(passkey: UInt32?, now: MonotonicTime) {
    guard isAsking, case .passkey = method else { return }
    isAsking = false
    guard let passkey, passkey <= 999_999 else { return fail(.passkeyEntryFailed) }
    touch(now)
    self.passkey = passkey
    passkeyKnown()
    resume()
  }

  /// A person says whether both numbers are the same.
  public mutating func confirm(_ areEqual: Bool, now: MonotonicTime) {
    guard isAsking, method == .numericComparison else { return }
    isAsking = false
    guard areEqual else { return fail(.numericComparisonFailed) }
    touch(now)
    compared()
    resume()
  }

  /// The link is encrypted with `key`, or could not be.
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

  /// Gives it up, and tells the peer.
  public mutating func cancel() {
    guard !isOver else { return }
    send(.pairingFailed(.unspecifiedReason))
    end(.failure(.cancelled))
  }

  public mutating func lose() { end(.failure(.linkLost)) }

  // MARK: Parts

  private mutating func touch(_ now: MonotonicTime) { deadline = now.advanced(by: Self.timeout) }

  private mutating func hold(_ pdu: SecurityManagerPDU) {
    if held.count < Self.heldLimit { held.append(pdu) } else { fail(.unspecifiedReason) }
  }

  /// Takes what was held.
  mutating func resume() {
    while !isAsking, !isOver, !held.isEmpty { take(held.removeFirst()) }
  }

  /// Whether a PDU changes nothing: a stray one before the features are agreed on, and a key that is not awaited.
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
    // The link layer may tell of encryption after the first key has come.
    case (.encryption, _): hold(pdu)
    default: fail(.unspecifiedReason)
    }
  }

  mutating func send(_ pdu: SecurityManagerPDU) { actions.append(.send(pdu)) }

  /// Tells the peer and ends.
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
    // Keys that were not asked for.
    guard request.initiatorKeys.isSuperset(of: features.initiatorKeys),
      request.responderKeys.isSuperset(of: features.responderKeys)
    else { return fail(.invalidParameters) }
    response = features
    if agree(request, features) { begin() }
  }

  /// Core 5.4, Vol 3, Part H, 2.3.4 and 2.3.5.1.
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
    // Out-of-band data of Secure Connections were never given away here.
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

  /// What is missing of what was agreed on, beside what the specification has a code for.
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

  /// Shows, asks for, or does without a passkey; `passkeyKnown` follows.
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

  /// A key of the agreed size. Core 5.4, Vol 3, Part H, 2.3.4.
  func shortened(_ key: UInt128) -> UInt128 {
    keyByteCount == 16 ? key : key & ((1 as UInt128) << UInt128(8 * keyByteCount) - 1)
  }
}

public import BLEStack
public import BLEWire
import Synchronization

/// Pairing configuration and bonds of an emulated peripheral. The bonds are kept when a link ends.
///
/// No user is involved: the peripheral shows and types the passkey of its configuration, and confirms every
/// numeric comparison.
public final class PeripheralSecurity: Sendable {
  public let configuration: PairingConfiguration
  private let makeKeyPair: (@Sendable () -> any P256KeyAgreement)?
  private let kept = Mutex<[DeviceAddress: Bond]>([:])

  private let hidden = Mutex<DeviceAddress?>(nil)

  /// The resolvable private address of the device; `nil` if it has no resolving key.
  fileprivate var privateAddress: DeviceAddress? {
    hidden.withLock { hidden in
      if hidden == nil { hidden = makePrivateAddress() }
      return hidden
    }
  }

  /// Generates a new private address.
  fileprivate func changePrivateAddress() { hidden.withLock { $0 = makePrivateAddress() } }

  private func makePrivateAddress() -> DeviceAddress? {
    configuration.identity?.privateAddress(.random(in: 1..<0x3F_FFFF))
  }

  /// Bonds by the central's address or identity.
  public var bonds: [DeviceAddress: Bond] { kept.withLock { $0 } }

  /// Creates the security of a peripheral.
  ///
  /// - Parameters:
  ///   - configuration: pairing configuration. Its passkey is both shown and typed.
  ///   - makeKeyPair: required for Secure Connections; `nil` for legacy pairing.
  public init(
    _ configuration: PairingConfiguration, makeKeyPair: (@Sendable () -> any P256KeyAgreement)? = nil
  ) {
    self.configuration = configuration
    self.makeKeyPair = makeKeyPair
  }

  /// Removes all bonds, like a device that loses them when its battery is changed.
  public func forgetAll() { kept.withLock { $0 = [:] } }

  func pairing(as own: DeviceAddress, with peer: DeviceAddress) -> Pairing {
    PairingResponder(configuration, local: own) { [makeKeyPair] in
      PairingSupplies(keyPair: makeKeyPair?())
    }.pairing(with: peer)
  }

  func keep(_ bond: Bond, of peer: DeviceAddress) {
    guard bond.isBonded else { return }
    kept.withLock { $0[bond.peerIdentity?.address ?? peer] = bond }
  }

  func bond(with peer: DeviceAddress) -> Bond? {
    kept.withLock { kept in Self.key(of: peer, in: kept).flatMap { kept[$0] } }
  }

  /// Returns whether a bonded central signed this command and its counter is new.
  func accepts(_ command: borrowing SignedWriteCommand, from peer: DeviceAddress) -> Bool {
    kept.withLock { kept in
      guard let key = Self.key(of: peer, in: kept), var bond = kept[key], bond.accepts(command) else {
        return false
      }
      kept[key] = bond
      return true
    }
  }

  private static func key(of peer: DeviceAddress, in bonds: [DeviceAddress: Bond]) -> DeviceAddress? {
    if bonds[peer] != nil { return peer }
    return bonds.first { $0.value.peerIdentity?.matches(peer) ?? false }?.key
  }
}

/// Security of a link from the peripheral's point of view.
struct LinkSecurity {
  let security: PeripheralSecurity
  private let own: DeviceAddress
  private let peer: DeviceAddress
  private var pairing: Pairing?
  /// Whether a pairing timed out because the central did not respond for 30 s. No further pairing is then
  /// allowed on this link. Core 5.4, Vol 3, Part H, 3.4.
  private(set) var hasTimedOut = false
  private var bond: Bond?
  private(set) var isEncrypted = false

  init(_ security: PeripheralSecurity, own: DeviceAddress, peer: DeviceAddress) {
    self.security = security
    self.own = own
    self.peer = peer
    bond = security.bond(with: peer)
  }

  var isAuthenticated: Bool { isEncrypted && bond?.isAuthenticated ?? false }

  /// Security that determines the central's permissions.
  var level: ATTSecurity {
    ATTSecurity(bond, isEncrypted: isEncrypted)
  }

  /// Next time to call `expire`.
  var deadline: MonotonicTime? { pairing?.deadline }

  mutating func expire(now: MonotonicTime) -> [SecurityManagerPDU] {
    pairing?.expire(now: now)
    return perform(now)
  }

  /// Processes a PDU on the Security Manager's channel.
  ///
  /// - Returns: The responses.
  mutating func receive(_ pdu: Span<UInt8>, now: MonotonicTime) -> [SecurityManagerPDU] {
    guard !hasTimedOut else { return [] }
    if pairing == nil, pdu.count > 0, pdu[0] == SecurityManagerCode.pairingRequest.rawValue {
      pairing = security.pairing(as: own, with: peer)
    }
    pairing?.receive(pdu, now: now)
    return perform(now)
  }

  /// Returns the key that a central encrypts with, or `nil` if no key has this Rand and EDIV.
  func key(_ random: UInt64, _ diversifier: UInt16) -> UInt128? {
    if let key = pairing?.key { return key }
    return bond?.localKey(random: random, diversifier: diversifier)
  }

  mutating func encryptionEnded(_ status: HCIStatus, now: MonotonicTime) -> [SecurityManagerPDU] {
    isEncrypted = status == .success
    pairing?.encryptionEnded(status, now: now)
    return perform(now)
  }

  private mutating func perform(_ now: MonotonicTime) -> [SecurityManagerPDU] {
    var answers: [SecurityManagerPDU] = []
    let passkey = security.configuration.passkey
    var actions = pairing?.takeActions() ?? []
    while !actions.isEmpty {
      for action in actions {
        switch action {
        case .send(let pdu): answers.append(pdu)
        case .askPasskey: pairing?.enter(passkey: passkey, now: now)
        case .compare: pairing?.confirm(true, now: now)
        case .showPasskey, .encrypt: break
        case .finished(let result):
          switch result {
          case .success(let bond):
            self.bond = bond
            security.keep(bond, of: peer)
          case .failure(let error): hasTimedOut = error == .timedOut
          }
        }
      }
      actions = pairing?.takeActions() ?? []
    }
    if pairing?.isOver == true { pairing = nil }
    return answers
  }
}

/// The security that an emulated device requires for its attributes, and its pairing capabilities.
public struct PeripheralProtection: Hashable, Sendable {
  public enum Level: String, CaseIterable, Hashable, Sendable {
    /// An encrypted link; the key may be unauthenticated.
    case encrypted
    /// A link encrypted with a key from a pairing by passkey or numeric comparison.
    case authenticated

    var access: ATTAccess { .needs(self == .encrypted ? .encrypted : .authenticated) }
  }

  /// Input and output capabilities. The raw values are the names in options.
  public enum Capability: String, CaseIterable, Hashable, Sendable {
    case none, display, keyboard
    case yesNo = "yes-no"
    case keyboardDisplay = "keyboard-display"

    package var value: IOCapability {
      switch self {
      case .none: .noInputNoOutput
      case .display: .displayOnly
      case .keyboard: .keyboardOnly
      case .yesNo: .displayYesNo
      case .keyboardDisplay: .keyboardDisplay
      }
    }
  }

  public enum Kind: Hashable, Sendable {
    case secureConnections, legacy
  }

  public var level: Level
  /// Fixed passkey that the device shows and types, 0 … 999,999.
  public var passkey: UInt32
  /// Input and output of the device. By default, a display if the device requires authentication, otherwise
  /// none.
  public var capability: Capability
  public var kind = Kind.secureConnections

  public init(_ level: Level, passkey: UInt32? = nil, capability: Capability? = nil) {
    self.level = level
    self.passkey = passkey ?? 123_456
    self.capability = capability ?? (level == .encrypted ? .none : .display)
  }

  /// Whether a pairing can reach the level: a device without input and output cannot be authenticated.
  public var isPossible: Bool { level == .encrypted || capability != .none }

  /// Returns the pairing configuration of a device with this identity. The device distributes all of its
  /// keys, and accepts the central's signing key.
  func configuration(_ identity: DeviceIdentity) -> PairingConfiguration {
    var requirements: AuthenticationRequirements = [.bonding]
    if level == .authenticated { requirements.insert(.authenticated) }
    if kind == .secureConnections { requirements.insert(.secureConnections) }
    var configuration = PairingConfiguration(
      features: PairingFeatures(
        capability: capability.value, requirements: requirements, initiatorKeys: [.identity, .signing],
        responderKeys: [.encryption, .identity, .signing]),
      protection: level == .authenticated ? .authenticated : .encrypted, identity: identity)
    configuration.passkey = passkey
    return configuration
  }
}

extension PeripheralSecurity {
  /// Creates the security of one device, to be shared by all `SecuredPeripheral`s that represent it.
  ///
  /// - Parameters:
  ///   - protection: the device's requirements and capabilities.
  ///   - address: the device's identity address.
  ///   - makeKeyPair: required for Secure Connections; `nil` for legacy pairing.
  public convenience init(
    _ protection: PeripheralProtection, of address: DeviceAddress,
    makeKeyPair: (@Sendable () -> any P256KeyAgreement)?
  ) {
    // Never 0, because a zero key resolves no address.
    let identity = DeviceIdentity(resolvingKey: .random(in: 1 ... .max), address: address)
    self.init(protection.configuration(identity), makeKeyPair: makeKeyPair)
  }
}

/// Wraps an emulated device and protects its attributes, except those of the generic services.
public final class SecuredPeripheral: VirtualPeripheral {
  /// The address that a device advertises.
  public enum Address: Hashable, Sendable {
    /// The device's identity address.
    case identity
    /// A resolvable private address that changes after each link. Core 5.4, Vol 6, Part B, 1.3.2.2.
    case `private`
  }

  public let base: any VirtualPeripheral
  public let security: PeripheralSecurity?
  private let level: PeripheralProtection.Level
  private let address: Address

  public init(
    _ base: any VirtualPeripheral, _ level: PeripheralProtection.Level, _ security: PeripheralSecurity,
    address: Address = .identity
  ) {
    self.base = base
    self.level = level
    self.security = security
    self.address = address
  }

  public var advertisement: Advertisement? {
    guard var advertisement = base.advertisement else { return nil }
    if address == .private, let hidden = security?.privateAddress { advertisement.address = hidden }
    return advertisement
  }

  public var services: [GATTServiceDescription] {
    base.services.map { service in
      guard service.uuid != .genericAccess, service.uuid != .genericAttribute else { return service }
      var service = service
      for index in service.characteristics.indices {
        service.characteristics[index].demand(level.access)
      }
      return service
    }
  }

  public var advertisingEnd: MonotonicTime? { base.advertisingEnd }
  public var attributesVersion: Int { base.attributesVersion }
  public var receiveMTU: Int { base.receiveMTU }
  public func connected(_ link: PeripheralLink, now: MonotonicTime) { base.connected(link, now: now) }

  public func disconnected(now: MonotonicTime) {
    if address == .private { security?.changePrivateAddress() }
    base.disconnected(now: now)
  }

  public func check(write value: Span<UInt8>, to handle: AttributeHandle) -> ATTErrorCode? {
    base.check(write: value, to: handle)
  }

  public func written(_ handle: AttributeHandle, link: PeripheralLink, now: MonotonicTime) {
    base.written(handle, link: link, now: now)
  }

  public func roomAvailable(_ link: PeripheralLink, now: MonotonicTime) {
    base.roomAvailable(link, now: now)
  }

  public var deadline: MonotonicTime? { base.deadline }
  public func expired(_ link: PeripheralLink, now: MonotonicTime) { base.expired(link, now: now) }
}

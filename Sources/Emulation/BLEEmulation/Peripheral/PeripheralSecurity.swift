public import BLEStack
public import BLEWire
import Synchronization

/// Pairing configuration and bonds of an emulated peripheral. The bonds are kept when a link ends.
///
/// No user is involved: the peripheral types and shows the passkey of its configuration, and confirms every
/// numeric comparison.
public final class PeripheralSecurity: Sendable {
  public let configuration: PairingConfiguration
  private let makeKeyPair: (@Sendable () -> any P256KeyAgreement)?
  private let kept = Mutex<[DeviceAddress: Bond]>([:])

  private let hidden = Mutex<DeviceAddress?>(nil)

  /// The resolvable private address of the device; `nil` if it has no resolving key.
  var privateAddress: DeviceAddress? {
    hidden.withLock { hidden in
      if hidden == nil { hidden = makePrivateAddress() }
      return hidden
    }
  }

  /// Generates a new private address.
  func changePrivateAddress() { hidden.withLock { $0 = makePrivateAddress() } }

  private func makePrivateAddress() -> DeviceAddress? {
    configuration.identity?.privateAddress(.random(in: 1..<0x3F_FFFF))
  }

  /// Bonds by the central's address or identity.
  public var bonds: [DeviceAddress: Bond] { kept.withLock { $0 } }

  /// Creates the security of a peripheral.
  ///
  /// - Parameters:
  ///   - configuration: its passkey is both shown and typed.
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

  /// Whether a bonded central signed this command and its counter is new.
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
  /// Whether the central has not responded for 30 s. Pairing then stays disabled on this link. Core 5.4, Vol
  /// 3, Part H, 3.4.
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

  /// When to call `expire`.
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

  /// The key that a central encrypts with; `nil` if no key has these numbers.
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

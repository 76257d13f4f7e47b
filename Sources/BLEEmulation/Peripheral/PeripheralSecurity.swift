public import BLECore
public import BLEStack
import BLEWire

/// How an emulated peripheral pairs, and the bonds that it has: kept from link to link.
///
/// There is no person at it: it types the passkey that it was made with, shows none but that, and finds all numbers equal.
public final class PeripheralSecurity {
  public let configuration: PairingConfiguration
  private let makeKeyPair: (@Sendable () -> any P256KeyAgreement)?
  /// By the central's address, or its identity.
  public private(set) var bonds: [DeviceAddress: Bond] = [:]

  /// - Parameters:
  ///   - configuration: its passkey is the one that is shown and typed.
  ///   - makeKeyPair: for Secure Connections; `nil` leaves legacy pairing.
  public init(
    _ configuration: PairingConfiguration, makeKeyPair: (@Sendable () -> any P256KeyAgreement)? = nil
  ) {
    self.configuration = configuration
    self.makeKeyPair = makeKeyPair
  }

  /// As after a change of its battery, when it has forgotten all that it did not write down.
  public func forgetAll() { bonds = [:] }

  func pairing(as own: DeviceAddress, with peer: DeviceAddress) -> Pairing {
    Pairing(
      .responder, configuration, local: own, peer: peer, keyPair: makeKeyPair?(),
      random: { UInt128.random(in: 0 ... .max) })
  }

  func keep(_ bond: Bond, of peer: DeviceAddress) {
    guard bond.isBonded else { return }
    bonds[bond.peerIdentity?.address ?? peer] = bond
  }

  func bond(with peer: DeviceAddress) -> Bond? {
    bonds[peer] ?? bonds.values.first { $0.peerIdentity?.matches(peer) ?? false }
  }
}

/// Security of a link at the peripheral's end.
struct LinkSecurity {
  let security: PeripheralSecurity
  private let own: DeviceAddress
  private let peer: DeviceAddress
  private var pairing: Pairing?
  private var bond: Bond?
  private(set) var isEncrypted = false

  init(_ security: PeripheralSecurity, own: DeviceAddress, peer: DeviceAddress) {
    self.security = security
    self.own = own
    self.peer = peer
    bond = security.bond(with: peer)
  }

  var isAuthenticated: Bool { isEncrypted && bond?.isAuthenticated ?? false }

  /// What the central may do with attributes.
  var level: ATTSecurity {
    ATTSecurity(
      isAuthenticated ? .authenticated : isEncrypted ? .encrypted : .none,
      storedKey: bond == nil ? .none : .present)
  }

  /// Takes what came on the channel of the Security Manager.
  ///
  /// - Returns: the answers.
  mutating func receive(_ pdu: Span<UInt8>, now: MonotonicTime) -> [SecurityManagerPDU] {
    if pairing == nil, pdu.count > 0, pdu[0] == SecurityManagerCode.pairingRequest.rawValue {
      pairing = security.pairing(as: own, with: peer)
    }
    pairing?.receive(pdu, now: now)
    return perform(now)
  }

  /// The key that a central encrypts with; `nil` where there is none.
  func key(_ random: UInt64, _ diversifier: UInt16) -> UInt128? {
    if let key = pairing?.key { return key }
    guard let known = bond?.localKey, known.random == random, known.diversifier == diversifier else {
      return nil
    }
    return known.key
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
          if case .success(let bond) = result {
            self.bond = bond
            security.keep(bond, of: peer)
          }
        }
      }
      actions = pairing?.takeActions() ?? []
    }
    if pairing?.isOver == true { pairing = nil }
    return answers
  }
}

public import BLEStack
public import BLEWire
import Synchronization

/// How an emulated peripheral pairs, and the bonds that it has: kept from link to link.
///
/// There is no person at it: it types the passkey that it was made with, shows none but that, and finds all numbers equal.
public final class PeripheralSecurity: Sendable {
  public let configuration: PairingConfiguration
  private let makeKeyPair: (@Sendable () -> any P256KeyAgreement)?
  private let kept = Mutex<[DeviceAddress: Bond]>([:])

  private let hidden = Mutex<DeviceAddress?>(nil)

  /// Under which the device hides; `nil` where it has no resolving key.
  var privateAddress: DeviceAddress? {
    hidden.withLock { hidden in
      if hidden == nil { hidden = makePrivateAddress() }
      return hidden
    }
  }

  /// Another one from now on.
  func changePrivateAddress() { hidden.withLock { $0 = makePrivateAddress() } }

  private func makePrivateAddress() -> DeviceAddress? {
    configuration.identity?.privateAddress(.random(in: 1..<0x3F_FFFF))
  }

  /// By the central's address, or its identity.
  public var bonds: [DeviceAddress: Bond] { kept.withLock { $0 } }

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

  /// Whether a central that is bonded signed this, and never before.
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

/// Security of a link at the peripheral's end.
struct LinkSecurity {
  let security: PeripheralSecurity
  private let own: DeviceAddress
  private let peer: DeviceAddress
  private var pairing: Pairing?
  /// The central said nothing for 30 s: no more is said on this link. Core 5.4, Vol 3, Part H, 3.4.
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

  /// What the central may do with attributes.
  var level: ATTSecurity {
    ATTSecurity(bond, isEncrypted: isEncrypted)
  }

  /// When `expire` is wanted.
  var deadline: MonotonicTime? { pairing?.deadline }

  mutating func expire(now: MonotonicTime) -> [SecurityManagerPDU] {
    pairing?.expire(now: now)
    return perform(now)
  }

  /// Takes what came on the channel of the Security Manager.
  ///
  /// - Returns: the answers.
  mutating func receive(_ pdu: Span<UInt8>, now: MonotonicTime) -> [SecurityManagerPDU] {
    guard !hasTimedOut else { return [] }
    if pairing == nil, pdu.count > 0, pdu[0] == SecurityManagerCode.pairingRequest.rawValue {
      pairing = security.pairing(as: own, with: peer)
    }
    pairing?.receive(pdu, now: now)
    return perform(now)
  }

  /// The key that a central encrypts with; `nil` where there is none.
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

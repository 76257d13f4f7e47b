import BLEStack
import BLEWire
import Testing

/// Two pairings that receive each other's PDUs immediately.
struct Meeting {
  struct Case: CustomTestStringConvertible, Sendable {
    var initiator = IOCapability.noInputNoOutput
    var responder = IOCapability.noInputNoOutput
    var isSecure: Bool
    var method = "J"

    var testDescription: String { "\(initiator), \(responder), \(isSecure ? "secure" : "legacy"): \(method)" }
  }

  static let now = MonotonicTime(nanoseconds: 0)
  static let identity = DeviceIdentity(
    resolvingKey: 0x1234, address: DeviceAddress(bits: 0xC0FF_EE00_0001, type: .random))

  var initiator: Pairing
  var responder: Pairing
  var typed: (UInt32) -> UInt32? = { $0 }
  var agrees: (Pairing.Role) -> Bool = { _ in true }
  /// Returns the PDU to deliver; `nil` drops it.
  var tamper: (Pairing.Role, SecurityManagerPDU) -> SecurityManagerPDU? = { $1 }
  var encryption = HCIStatus.success

  var initiatorEnd: Result<Bond, PairingError>?
  var responderEnd: Result<Bond, PairingError>?
  var encryptedWith: UInt128?
  private var shown: UInt32?
  private var shower: Pairing.Role?
  private var typers = 0
  private var compared: [UInt32] = []
  private var askers: [Pairing.Role] = []

  init(
    _ meeting: Case, responder change: (inout PairingConfiguration) -> Void = { _ in },
    both: (inout PairingConfiguration) -> Void = { _ in }
  ) {
    let central = DeviceAddress(bits: 0xC000_0000_0001, type: .random)
    let peripheral = DeviceAddress(bits: 0x0000_5E00_5301, type: .public)
    var requirements: AuthenticationRequirements = [.bonding, .authenticated]
    if meeting.isSecure { requirements.insert(.secureConnections) }
    func configuration(_ capability: IOCapability) -> PairingConfiguration {
      var configuration = PairingConfiguration(
        features: PairingFeatures(
          capability: capability, requirements: requirements,
          initiatorKeys: [.encryption, .identity, .signing],
          responderKeys: [.encryption, .identity, .signing]),
        identity: Self.identity)
      both(&configuration)
      return configuration
    }
    var second = configuration(meeting.responder)
    change(&second)
    let draws = Counter()
    initiator = Pairing(
      .initiator, configuration(meeting.initiator), local: central, peer: peripheral,
      keyPair: ToyAgreement(1), random: { draws.next() })
    responder = Pairing(
      .responder, second, local: peripheral, peer: central, keyPair: ToyAgreement(2),
      random: { draws.next() })
  }

  /// Method in the words of the table: which side displayed or typed the passkey.
  var method: String {
    if !compared.isEmpty { return compared.count == 2 && compared[0] == compared[1] ? "N" : "?" }
    guard typers > 0 else { return "J" }
    if typers == 2 { return "b" }
    return shower == .initiator ? "i" : "r"
  }

  mutating func run() {
    initiator.start(now: Self.now)
    var isBusy = true
    while isBusy {
      isBusy = false
      for role in [Pairing.Role.initiator, .responder] {
        let actions = role == .initiator ? initiator.takeActions() : responder.takeActions()
        for action in actions { perform(action, of: role) }
        isBusy = isBusy || !actions.isEmpty
      }
      // A user is slower than both machines.
      if !isBusy, !askers.isEmpty {
        let code = shown ?? 246_810
        let role = askers.removeFirst()
        let number = typed(code)
        change(role) { $0.enter(passkey: number, now: Self.now) }
        isBusy = true
      }
    }
  }

  private mutating func perform(_ action: PairingAction, of role: Pairing.Role) {
    switch action {
    case .send(let pdu):
      guard let heard = tamper(role, pdu) else { return }
      let octets = [UInt8](encoding: SecurityManagerPDU.maximumByteCount) { heard.encode(into: &$0) }
      change(role == .initiator ? .responder : .initiator) { $0.receive(octets.span, now: Self.now) }
    case .showPasskey(let passkey): (shown, shower) = (passkey, role)
    case .askPasskey:
      typers += 1
      askers.append(role)
    case .compare(let number):
      compared.append(number)
      let answer = agrees(role)
      change(role) { $0.confirm(answer, now: Self.now) }
    case .encrypt(let key):
      encryptedWith = key
      #expect(responder.key == key)
      let status = encryption
      for role in [Pairing.Role.responder, .initiator] {
        change(role) { $0.encryptionEnded(status, now: Self.now) }
      }
    case .finished(let result):
      if role == .initiator { initiatorEnd = result } else { responderEnd = result }
    }
  }

  private mutating func change(_ role: Pairing.Role, _ body: (inout Pairing) -> Void) {
    if role == .initiator { body(&initiator) } else { body(&responder) }
  }

  func expectEnd(_ reason: PairingFailure, by role: Pairing.Role) {
    let (own, other) = role == .initiator ? (initiatorEnd, responderEnd) : (responderEnd, initiatorEnd)
    #expect(own == .failure(.failed(reason)))
    #expect(other == .failure(.refused(reason)))
  }
}

/// A key agreement that is not P-256, but gives both sides the same secret: for tests that do not depend on
/// the curve.
final class ToyAgreement: P256KeyAgreement {
  let number: UInt128
  init(_ number: UInt128) { self.number = number }

  var publicKey: P256PublicKey {
    P256PublicKey(
      x: P256Coordinate(high: number << 64, low: number), y: P256Coordinate(high: 7, low: number))
  }

  func sharedSecret(with peer: P256PublicKey) -> P256Coordinate? {
    peer.x.low == 0 ? nil : P256Coordinate(high: 99, low: peer.x.low &* number)
  }
}

private final class Counter: @unchecked Sendable {
  // Needs no lock: used by one test on one thread.
  private var count: UInt128 = 0
  func next() -> UInt128 {
    count += 1
    return AES128(key: 42).encrypt(count)
  }
}

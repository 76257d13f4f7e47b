import BLEStack
import BLEWire
import Foundation
import TestKit
import Testing

/// A pairing from another stack's tests, PDU by PDU. The file names its source.
struct PairingVector: Decodable, CustomTestStringConvertible, Sendable {
  struct File: Decodable { var pairings: [PairingVector] }

  enum Step: Equatable {
    case central([UInt8])
    case peripheral([UInt8])
    case encrypt
  }

  var name: String
  var method: String
  var authenticated: Bool
  var centralAddress: String
  var centralAddressType: UInt8
  var peripheralAddress: String
  var peripheralAddressType: UInt8
  var passkey: String?
  var keys: [String: String]
  var steps: [String]

  var testDescription: String { name }

  static let all: [PairingVector] = {
    let file = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "Fixtures/pairings.json")
    do {
      return try JSONDecoder().decode(File.self, from: Data(contentsOf: file)).pairings
    } catch {
      fatalError("\(file.path): \(error)")
    }
  }()

  var dialogue: [Step] {
    steps.map { step in
      switch step.prefix(2) {
      case "> ": .central(octetsOf(String(step.dropFirst(2))))
      case "< ": .peripheral(octetsOf(String(step.dropFirst(2))))
      default: .encrypt
      }
    }
  }

  /// The PDUs of one side, in order.
  func pdus(of role: Pairing.Role) throws -> [SecurityManagerPDU] {
    try dialogue.compactMap { step in
      switch (step, role) {
      case (.central(let octets), .initiator), (.peripheral(let octets), .responder):
        try SecurityManagerPDU(validating: octets.span)
      default: nil
      }
    }
  }

  func address(of role: Pairing.Role) -> DeviceAddress {
    let (text, type) =
      role == .initiator ? (centralAddress, centralAddressType) : (peripheralAddress, peripheralAddressType)
    return DeviceAddress(bits: UInt64(number(text)), type: type == 0 ? .public : .random)
  }

  func key(_ name: String) -> UInt128? { keys[name].map(number) }

  var dhKey: P256Coordinate? {
    keys["dhKey"].map {
      P256Coordinate(high: number(String($0.prefix(32))), low: number(String($0.suffix(32))))
    }
  }

  private func number(_ text: String) -> UInt128 { octetsOf(text).reduce(0) { $0 << 8 | UInt128($1) } }

  // MARK: One side of the pairing

  /// A pairing configured like the recorded side.
  func pairing(_ role: Pairing.Role) throws -> Pairing {
    let own = try pdus(of: role)
    var features: PairingFeatures?
    var randoms: [UInt128] = []
    var publicKey: P256PublicKey?
    var resolvingKey: UInt128 = 0
    var identity: DeviceIdentity?
    for pdu in own {
      switch pdu {
      case .pairingRequest(let sent), .pairingResponse(let sent): features = sent
      case .pairingRandom(let value), .encryptionInformation(let value), .signingInformation(let value):
        randoms.append(value)
      case .centralIdentification(let diversifier, let random):
        randoms.append(UInt128(diversifier) << 64 | UInt128(random))
      case .publicKey(let key): publicKey = key
      case .identityInformation(let key): resolvingKey = key
      case .identityAddress(let address):
        identity = DeviceIdentity(resolvingKey: resolvingKey, address: address)
      default: break
      }
    }
    let sent = try #require(features)
    if let passkey, shows(role) { randoms.insert(UInt128(passkey) ?? 0, at: 0) }
    let draws = Draws(randoms)
    // A side that sets the Secure Connections flag has a key pair, even if the other side turns out not to.
    let none = P256Coordinate(high: 0, low: 1)
    let agreement = KnownAgreement(
      publicKey: publicKey ?? P256PublicKey(x: none, y: none), secret: dhKey ?? none)
    return Pairing(
      role,
      PairingConfiguration(
        features: sent, identity: identity, temporaryKey: method == "outOfBand" ? key("tk") : nil),
      local: address(of: role), peer: address(of: role == .initiator ? .responder : .initiator),
      keyPair: agreement, random: { draws.next() })
  }

  /// Table 2.8 of Core 5.4, Vol 3, Part H, 2.3.5.1, for the cases in the file.
  private func shows(_ role: Pairing.Role) -> Bool {
    let capabilities = steps.prefix(2).map { $0.dropFirst(4).prefix(2) }
    let initiatorShows = capabilities[0] == "00" || (capabilities[0] == "04" && capabilities[1] != "00")
    return initiatorShows == (role == .initiator)
  }
}

/// Numbers in the order in which the pairing draws them.
final class Draws: @unchecked Sendable {
  // Needs no lock: used by one test on one thread.
  private var values: [UInt128]
  init(_ values: [UInt128]) { self.values = values }
  func next() -> UInt128 { values.isEmpty ? 0 : values.removeFirst() }
  var isEmpty: Bool { values.isEmpty }
}

/// A key agreement with a known secret.
final class KnownAgreement: P256KeyAgreement {
  let publicKey: P256PublicKey
  let secret: P256Coordinate

  init(publicKey: P256PublicKey, secret: P256Coordinate) {
    self.publicKey = publicKey
    self.secret = secret
  }

  func sharedSecret(with peer: P256PublicKey) -> P256Coordinate? { secret }
}

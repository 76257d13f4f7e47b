public import BLEStack
public import BLEWire
import Crypto

/// A key pair of P-256 by swift-crypto: what LE Secure Connections need. Core 5.4, Vol 3, Part H, 2.3.5.6.1.
///
/// In a library of its own, so that who does not pair links neither BoringSSL nor Foundation.
public struct P256KeyPair: P256KeyAgreement {
  private let key: P256.KeyAgreement.PrivateKey
  public let publicKey: P256PublicKey

  /// A new one.
  public init() {
    self.init(P256.KeyAgreement.PrivateKey(compactRepresentable: false))
  }

  /// One that is known from elsewhere, most significant octet first: for tests.
  ///
  /// - Returns: `nil` unless the number is one that the curve allows.
  package init?(privateKey: [UInt8]) {
    guard let key = try? P256.KeyAgreement.PrivateKey(rawRepresentation: privateKey) else { return nil }
    self.init(key)
  }

  private init(_ key: P256.KeyAgreement.PrivateKey) {
    self.key = key
    let octets = [UInt8](key.publicKey.rawRepresentation)
    publicKey = P256PublicKey(
      x: P256Coordinate(bigEndian: octets[..<32]), y: P256Coordinate(bigEndian: octets[32...]))
  }

  public func sharedSecret(with peer: P256PublicKey) -> P256Coordinate? {
    let octets = peer.x.bigEndian + peer.y.bigEndian
    guard let peer = try? P256.KeyAgreement.PublicKey(rawRepresentation: octets),
      let secret = try? key.sharedSecretFromKeyAgreement(with: peer)
    else { return nil }
    // SAFETY: the octets are copied before the closure ends.
    return unsafe secret.withUnsafeBytes { unsafe P256Coordinate(bigEndian: [UInt8]($0)[...]) }
  }
}

extension P256Coordinate {
  fileprivate init(bigEndian octets: ArraySlice<UInt8>) {
    func number(_ part: ArraySlice<UInt8>) -> UInt128 { part.reduce(0) { $0 << 8 | UInt128($1) } }
    self.init(high: number(octets.prefix(16)), low: number(octets.dropFirst(16)))
  }

  fileprivate var bigEndian: [UInt8] {
    (0..<16).reversed().map { UInt8(truncatingIfNeeded: high >> UInt128(8 * $0)) }
      + (0..<16).reversed().map { UInt8(truncatingIfNeeded: low >> UInt128(8 * $0)) }
  }
}

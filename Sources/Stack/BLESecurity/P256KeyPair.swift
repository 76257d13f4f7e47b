public import BLEStack
public import BLEWire
import CLibcrypto

/// A key pair of P-256 by OpenSSL's libcrypto: what LE Secure Connections need. Core 5.4, Vol 3, Part H, 2.3.5.6.1.
///
/// The library is opened at run time, so that who does not pair needs none.
public final class P256KeyPair: P256KeyAgreement {
  /// 32 octets, most significant first.
  private let privateKey: [UInt8]
  public let publicKey: P256PublicKey

  /// What makes a new key pair for each pairing.
  ///
  /// - Throws: where libcrypto is not there, with the words of the dynamic linker.
  public static func maker() throws(MissingLibcrypto) -> @Sendable () -> any P256KeyAgreement {
    // SAFETY: the text stays.
    if let problem = unsafe ringtap_p256_load() {
      throw MissingLibcrypto(problem: unsafe String(cString: problem))
    }
    return {
      var system = SystemRandomNumberGenerator()
      while true {
        let key = (0..<32).map { _ in UInt8.random(in: .min ... .max, using: &system) }
        // One number in 2^32 is not below the curve's order.
        if let pair = P256KeyPair(checking: key) { return pair }
      }
    }
  }

  /// One that is known from elsewhere, most significant octet first: for tests.
  ///
  /// - Returns: `nil` unless the number is one that the curve allows.
  package convenience init?(privateKey: [UInt8]) throws(MissingLibcrypto) {
    _ = try Self.maker()
    self.init(checking: privateKey)
  }

  /// Only once the library is open.
  private init?(checking privateKey: [UInt8]) {
    guard let octets = Self.product(of: privateKey, by: nil) else { return nil }
    self.privateKey = privateKey
    publicKey = P256PublicKey(
      x: P256Coordinate(bigEndian: octets[..<32]), y: P256Coordinate(bigEndian: octets[32...]))
  }

  public func sharedSecret(with peer: P256PublicKey) -> P256Coordinate? {
    Self.product(of: privateKey, by: peer.x.bigEndian + peer.y.bigEndian)
      .map { P256Coordinate(bigEndian: $0[..<32]) }
  }

  /// - Parameter point: x and y, 64 octets; `nil` for the base point.
  private static func product(of number: [UInt8], by point: [UInt8]?) -> [UInt8]? {
    guard number.count == 32, point == nil || point?.count == 64 else { return nil }
    var product = [UInt8](repeating: 0, count: 64)
    // SAFETY: the counts are those that the function reads and writes, and it keeps none of the pointers.
    let isDone =
      unsafe point.map { unsafe ringtap_p256_multiply(number, $0, &product) }
      ?? ringtap_p256_multiply(number, nil, &product)
    return isDone ? product : nil
  }
}

/// libcrypto cannot be used.
public struct MissingLibcrypto: Error, Equatable, CustomStringConvertible {
  /// In the words of the dynamic linker.
  public let problem: String

  public var description: String {
    "no Secure Connections without OpenSSL's library: \(problem) (Debian: libssl3)"
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

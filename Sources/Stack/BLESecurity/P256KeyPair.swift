public import BLEStack
public import BLEWire
import CLibcrypto

/// A P-256 key pair for LE Secure Connections, using OpenSSL's libcrypto. Core 5.4, Vol 3, Part H, 2.3.5.6.1.
///
/// libcrypto is loaded at run time: a program that never pairs runs without it.
public final class P256KeyPair: P256KeyAgreement {
  /// The private key: 32 bytes, most significant byte first.
  private let privateKey: [UInt8]
  public let publicKey: P256PublicKey

  /// Returns a closure that makes a new key pair for each pairing.
  ///
  /// - Throws: if libcrypto cannot be loaded, with the dynamic linker's message.
  public static func maker() throws(MissingLibcrypto) -> @Sendable () -> any P256KeyAgreement {
    // SAFETY: the text is never freed.
    if let problem = unsafe ringtap_p256_load() {
      throw MissingLibcrypto(problem: unsafe String(cString: problem))
    }
    return {
      var system = SystemRandomNumberGenerator()
      while true {
        let key = (0..<32).map { _ in UInt8.random(in: .min ... .max, using: &system) }
        // On average one number in 2^32 is rejected because it is not below the curve's order.
        if let pair = P256KeyPair(checking: key) { return pair }
      }
    }
  }

  /// Creates a key pair with a given private key, most significant byte first, for tests.
  ///
  /// - Returns: `nil` unless the number is valid for the curve.
  package convenience init?(privateKey: [UInt8]) throws(MissingLibcrypto) {
    _ = try Self.maker()
    self.init(checking: privateKey)
  }

  /// Creates a key pair with a given private key. libcrypto must be loaded.
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

  /// Multiplies a point on the curve by a number.
  ///
  /// - Parameter point: x and y, 64 bytes; `nil` for the base point.
  private static func product(of number: [UInt8], by point: [UInt8]?) -> [UInt8]? {
    guard number.count == 32, point == nil || point?.count == 64 else { return nil }
    var product = [UInt8](repeating: 0, count: 64)
    // SAFETY: the counts match what the function reads and writes, and it keeps none of the pointers.
    let isDone =
      unsafe point.map { unsafe ringtap_p256_multiply(number, $0, &product) }
      ?? ringtap_p256_multiply(number, nil, &product)
    return isDone ? product : nil
  }
}

/// Reports that libcrypto cannot be used.
public struct MissingLibcrypto: Error, Equatable, CustomStringConvertible {
  /// The dynamic linker's message.
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

public import BLEWire

/// A P-256 key pair for one pairing. Callers that pair with Secure Connections supply it; `BLESecurity` has
/// an implementation.
///
/// A class protocol, because the private key must not be copied and Embedded Swift supports existential types
/// of classes only. Core 5.4, Vol 3, Part H, 2.3.5.6.1.
public protocol P256KeyAgreement: AnyObject, Sendable {
  var publicKey: P256PublicKey { get }

  /// Returns the x coordinate of the shared point: DHKey.
  ///
  /// - Returns: `nil` if the key is not a point on the curve.
  func sharedSecret(with peer: P256PublicKey) -> P256Coordinate?
}

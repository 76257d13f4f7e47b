public import BLEWire

/// A key pair of the curve P-256, made for one pairing. Who pairs with Secure Connections brings it along: `BLESecurity` has one.
///
/// An object: a private key is not copied, and Embedded Swift has existential types of nothing else.
/// Core 5.4, Vol 3, Part H, 2.3.5.6.1.
public protocol P256KeyAgreement: AnyObject, Sendable {
  var publicKey: P256PublicKey { get }

  /// The x coordinate of the shared point: DHKey.
  ///
  /// - Returns: `nil` for a key that is no point of the curve.
  func sharedSecret(with peer: P256PublicKey) -> P256Coordinate?
}

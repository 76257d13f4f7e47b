public import BLEWire

/// A UUID literal: `"180d"`, `"6e400003-b5a3-f393-e0a9-e50e24dcca9e"`.
///
/// An invalid literal traps. For text that is only known at run time, use `BluetoothUUID(text)`, which
/// returns `nil` if the text is not a UUID.
extension BluetoothUUID: ExpressibleByStringLiteral {
  /// Creates a UUID from a literal.
  ///
  /// - Precondition: the text is a UUID of 4, 8 or 36 characters.
  public init(stringLiteral text: String) {
    let uuid: BluetoothUUID? = .init(text)
    guard let uuid else { preconditionFailure("'\(text)' is no UUID") }
    self = uuid
  }
}

/// A public device address as a literal: `"70:CB:0D:00:A1:B2"`.
///
/// An invalid literal traps. For a random address, or text that is only known at run time, use
/// `DeviceAddress(text, type:)`, which returns `nil` if the text is not an address.
extension DeviceAddress: ExpressibleByStringLiteral {
  /// Creates a public address from a literal.
  ///
  /// - Precondition: the text is six bytes of two hexadecimal digits each, separated by colons.
  public init(stringLiteral text: String) {
    let address: DeviceAddress? = .init(text, type: .public)
    guard let address else { preconditionFailure("'\(text)' is no device address") }
    self = address
  }
}

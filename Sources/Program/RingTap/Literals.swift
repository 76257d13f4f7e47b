public import BLEWire

/// A UUID literal: `"180d"`, `"6e400003-b5a3-f393-e0a9-e50e24dcca9e"`.
///
/// For text that is only known at run time use `BluetoothUUID(text)`, which returns `nil` for an invalid
/// UUID; an invalid literal traps.
extension BluetoothUUID: ExpressibleByStringLiteral {
  /// - Precondition: the text is a UUID of 4, 8 or 36 characters.
  public init(stringLiteral text: String) {
    let uuid: BluetoothUUID? = .init(text)
    guard let uuid else { preconditionFailure("'\(text)' is no UUID") }
    self = uuid
  }
}

/// A literal of a public device address: `"70:CB:0D:00:A1:B2"`.
///
/// For a random address, and for text that is only known at run time, use `DeviceAddress(text, type:)`, which
/// returns `nil` for an invalid address; an invalid literal traps.
extension DeviceAddress: ExpressibleByStringLiteral {
  /// - Precondition: the text is six bytes of two hexadecimal digits each, separated by colons.
  public init(stringLiteral text: String) {
    let address: DeviceAddress? = .init(text, type: .public)
    guard let address else { preconditionFailure("'\(text)' is no device address") }
    self = address
  }
}

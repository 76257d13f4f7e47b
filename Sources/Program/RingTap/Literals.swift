public import BLEWire

/// A UUID as it is written: `"180d"`, `"6e400003-b5a3-f393-e0a9-e50e24dcca9e"`.
///
/// For text that is only known when the program runs use `BluetoothUUID(text)`, which gives `nil` for what is no UUID; a
/// literal that is none ends the program.
extension BluetoothUUID: ExpressibleByStringLiteral {
  /// - Precondition: the text is a UUID of 4, 8 or 36 characters.
  public init(stringLiteral text: String) {
    let uuid: BluetoothUUID? = .init(text)
    guard let uuid else { preconditionFailure("'\(text)' is no UUID") }
    self = uuid
  }
}

/// A public device address as it is written: `"70:CB:0D:00:A1:B2"`.
///
/// For a random one, and for text that is only known when the program runs, use `DeviceAddress(text, type:)`, which gives
/// `nil` for what is no address; a literal that is none ends the program.
extension DeviceAddress: ExpressibleByStringLiteral {
  /// - Precondition: the text is six octets of two hexadecimal digits, separated by colons.
  public init(stringLiteral text: String) {
    let address: DeviceAddress? = .init(text, type: .public)
    guard let address else { preconditionFailure("'\(text)' is no device address") }
    self = address
  }
}

internal import CNumberNames

/// Names of the SIG's company identifiers and appearances. Bluetooth Assigned Numbers, 7.1 and 2.6.
package enum NumberNames {
  static let companies: [UInt16: String] = {
    var count = 0
    return unsafe names(ringtap_company_names(&count), count)
  }()

  static let appearances: [UInt16: String] = {
    var count = 0
    return unsafe names(ringtap_appearance_names(&count), count)
  }()

  /// Returns the name of a company.
  ///
  /// - Returns: `nil` for an identifier without a name.
  package static func company(_ number: UInt16) -> String? { companies[number] }

  /// Returns the name of an appearance, or of its category if only that has one.
  ///
  /// - Returns: `nil` for an unknown category, and for 0, which is "Unknown".
  package static func appearance(_ number: UInt16) -> String? {
    appearances[number] ?? appearances[number & ~0x3F]
  }

  /// Reads lines of four hexadecimal digits, a space and a name.
  private static func names(_ text: UnsafePointer<UInt8>?, _ count: Int) -> [UInt16: String] {
    // SAFETY: the text is constant, has `count` bytes and lives as long as the program.
    let bytes = unsafe Array(UnsafeBufferPointer(start: text, count: count))
    var names: [UInt16: String] = [:]
    names.reserveCapacity(count / 24)
    for line in bytes.split(separator: UInt8(ascii: "\n")) {
      guard let number = UInt16(String(decoding: line.prefix(4), as: UTF8.self), radix: 16) else { continue }
      names[number] = String(decoding: line.dropFirst(5), as: UTF8.self)
    }
    return names
  }
}

import BLEWire
import JSONText

/// Lines of text in the style of `btmon`.
struct PacketText {
  private(set) var octets: [UInt8] = []
  /// Whether the text has terminal escape sequences for colours.
  let isColored: Bool

  init(isColored: Bool) { self.isColored = isColored }

  mutating func removeAll() { octets.removeAll(keepingCapacity: true) }

  static func string(_ octets: Span<UInt8>) -> String {
    var copy = [UInt8](encoding: octets.count) { $0.append(octets) }
    while copy.last == 0 { copy.removeLast() }
    return String(decoding: copy, as: UTF8.self).printable
  }

  // MARK: Lines

  mutating func line(_ indent: Int, _ text: String) {
    space(indent)
    octets.append(contentsOf: text.utf8)
    octets.append(UInt8(ascii: "\n"))
  }

  mutating func line(_ indent: Int, _ text: String, color: Color) {
    line(indent, isColored ? color.rawValue + text + Color.reset : text)
  }

  enum Color: String {
    case command = "\u{1B}[34m"
    case event = "\u{1B}[35m"
    case data = "\u{1B}[36m"
    case note = "\u{1B}[33m"
    case problem = "\u{1B}[31m"
    static let reset = "\u{1B}[0m"
  }

  /// Prints a hex dump: sixteen bytes per line, with their ASCII characters.
  mutating func dump(_ indent: Int, _ bytes: Span<UInt8>) {
    var start = 0
    while start < bytes.count {
      let end = min(start + 16, bytes.count)
      space(indent)
      for index in start..<end {
        octets.append(hexadecimalDigit(bytes[index] >> 4))
        octets.append(hexadecimalDigit(bytes[index] & 0x0F))
        octets.append(UInt8(ascii: " "))
      }
      space(49 - 3 * (end - start))
      for index in start..<end {
        octets.append((0x20..<0x7F).contains(bytes[index]) ? bytes[index] : UInt8(ascii: "."))
      }
      octets.append(UInt8(ascii: "\n"))
      start = end
    }
  }

  private mutating func space(_ count: Int) {
    octets.append(contentsOf: repeatElement(UInt8(ascii: " "), count: count))
  }

  mutating func malformed(_ indent: Int, _ reason: String, _ bytes: Span<UInt8>) {
    malformed(indent, reason)
    dump(indent, bytes)
  }

  mutating func malformed(_ indent: Int, _ reason: String) {
    line(indent, "! malformed: \(reason)", color: .problem)
  }

  static func hex(_ bytes: Span<UInt8>) -> String {
    var digits: [UInt8] = []
    digits.reserveCapacity(2 * bytes.count)
    for index in bytes.indices {
      digits.append(hexadecimalDigit(bytes[index] >> 4))
      digits.append(hexadecimalDigit(bytes[index] & 0x0F))
    }
    return String(decoding: digits, as: UTF8.self)
  }

  static func hex(_ number: UInt64, digits: Int) -> String {
    let text = String(number, radix: 16)
    return "0x" + String(repeating: "0", count: max(0, digits - text.utf8.count)) + text
  }

  static func hex(_ handle: AttributeHandle) -> String { hex(UInt64(handle.rawValue), digits: 4) }

  /// Formats a number in units of 10 to the power of −`places` as a decimal number.
  static func decimal(_ number: Int64, places: Int) -> String {
    let digits = String(number.magnitude)
    let padded = String(repeating: "0", count: max(0, places + 1 - digits.utf8.count)) + digits
    let point = padded.index(padded.endIndex, offsetBy: -places)
    return (number < 0 ? "-" : "") + padded[..<point] + (places == 0 ? "" : "." + padded[point...])
  }

  static func uuid(_ uuid: BluetoothUUID) -> String {
    let name = UUIDNames.name(of: uuid)
    guard let short = uuid.short else { return "\(name ?? "Vendor specific") (\(uuid))" }
    return "\(name ?? "Unknown") (\(hex(UInt64(short), digits: 4)))"
  }
}

package import BLEWire

/// Builds JSON text as octets: one object to a line, no Foundation, no temporary strings.
///
/// ```swift
/// line.object {
///   $0.member("timeNs", time)
///   $0.key("att")
///   $0.object { $0.member("handle", 3) }
/// }
/// line.endLine()
/// ```
/// Inserts commas; callers balance keys and values, which the closures do.
package struct JSONLine {
  /// The text so far.
  package private(set) var octets: [UInt8] = []
  /// Whether the next value or key follows another one.
  private var needsComma = false
  private let unseen: Unseen

  /// What becomes of characters in strings that are not seen, or steer whoever shows them (`Unicode.Scalar.isUnseen`).
  package enum Unseen {
    /// Escaped: whoever parses the text has them.
    case escaped
    /// U+FFFD in their place, for a page that shows the strings as they are.
    case replaced
  }

  package init(_ unseen: Unseen = .escaped) { self.unseen = unseen }

  /// Forgets the text but keeps its memory.
  package mutating func removeAll() {
    octets.removeAll(keepingCapacity: true)
    needsComma = false
  }

  /// Ends the line; what follows starts a new one.
  package mutating func endLine() {
    octets.append(UInt8(ascii: "\n"))
    needsComma = false
  }

  // MARK: Structure

  package mutating func object<E: Error>(_ members: (inout JSONLine) throws(E) -> Void) throws(E) {
    open(UInt8(ascii: "{"))
    try members(&self)
    close(UInt8(ascii: "}"))
  }

  package mutating func array<E: Error>(_ elements: (inout JSONLine) throws(E) -> Void) throws(E) {
    open(UInt8(ascii: "["))
    try elements(&self)
    close(UInt8(ascii: "]"))
  }

  /// The key of the next value.
  package mutating func key(_ name: String) {
    value(name)
    octets.append(UInt8(ascii: ":"))
    needsComma = false
  }

  // MARK: Values

  package mutating func value(_ text: String) {
    quoted { line in
      if text.utf8.allSatisfy({ $0 < 0x80 }) {
        for octet in text.utf8 { line.appendEscaped(octet) }
      } else {
        for scalar in text.unicodeScalars { line.appendEscaped(scalar) }
      }
    }
  }

  package mutating func value(_ text: StaticString) { value(text.description) }

  package mutating func value(_ number: some BinaryInteger) {
    guard let magnitude = UInt64(exactly: number.magnitude) else { return literal(String(number)) }
    separate()
    if number < 0 { octets.append(UInt8(ascii: "-")) }
    append(decimal: magnitude)
  }

  /// The shortest text that reads back as the same number. JSON has no infinity and no NaN: `null`.
  package mutating func value(_ number: Double) {
    literal(number.isFinite ? number.description : "null")
  }

  package mutating func value(_ flag: Bool) { literal(flag ? "true" : "false") }

  package mutating func null() { literal("null") }

  /// Octets as a string of hexadecimal digits, two lower-case digits each.
  package mutating func hex(_ bytes: Span<UInt8>) {
    quoted { line in
      for index in bytes.indices { line.appendHexadecimal(bytes[index]) }
    }
  }

  /// Octets that should be UTF-8 and need not be, such as a name from the air. What is not becomes U+FFFD.
  package mutating func text(_ bytes: Span<UInt8>) {
    value(String(decoding: bytes.indices.map { bytes[$0] }, as: UTF8.self))
  }

  /// A UUID in its full form, lower case.
  package mutating func value(_ uuid: BluetoothUUID) {
    quoted { line in
      for index in (0..<16).reversed() {
        line.appendHexadecimal(uuid.octet(index))
        if index == 12 || index == 10 || index == 8 || index == 6 { line.octets.append(UInt8(ascii: "-")) }
      }
    }
  }

  // MARK: Members

  /// A device address of six octets as they come, the least significant first: `70:CB:0D:00:A1:B2`.
  package mutating func member(_ name: String, address octets: Span<UInt8>) {
    key(name)
    quoted { line in
      for index in (0..<6).reversed() {
        line.octets.append(upperCaseDigit(octets[index] >> 4))
        line.octets.append(upperCaseDigit(octets[index] & 0x0F))
        if index > 0 { line.octets.append(UInt8(ascii: ":")) }
      }
    }
  }

  /// A little-endian number as hexadecimal digits, the most significant first.
  package mutating func member(_ name: String, littleEndian number: Span<UInt8>) {
    key(name)
    quoted { line in
      for index in number.indices.reversed() { line.appendHexadecimal(number[index]) }
    }
  }

  package mutating func member(_ name: String, _ text: String) {
    key(name)
    value(text)
  }

  package mutating func member(_ name: String, _ text: StaticString) {
    key(name)
    value(text)
  }

  package mutating func member(_ name: String, _ number: some BinaryInteger) {
    key(name)
    value(number)
  }

  /// A time as a string of nanoseconds since the Unix epoch: as a number, JavaScript and jq would round it.
  package mutating func member(_ name: String, _ time: ReceiveTime) {
    member(name, nanoseconds: time.nanoseconds)
  }

  /// Likewise.
  package mutating func member(_ name: String, nanoseconds: Int64) {
    key(name)
    value(nanoseconds: nanoseconds)
  }

  package mutating func value(nanoseconds: Int64) {
    quoted { line in
      if nanoseconds < 0 { line.octets.append(UInt8(ascii: "-")) }
      line.append(decimal: nanoseconds.magnitude)
    }
  }

  package mutating func member(_ name: String, _ number: Double) {
    key(name)
    value(number)
  }

  /// `null` where there is none.
  package mutating func member(_ name: String, optional number: Double?) {
    key(name)
    if let number { value(number) } else { null() }
  }

  package mutating func member(_ name: String, _ flag: Bool) {
    key(name)
    value(flag)
  }

  package mutating func member(_ name: String, hex bytes: Span<UInt8>) {
    key(name)
    hex(bytes)
  }

  package mutating func member<E: Error>(
    _ name: String, object members: (inout JSONLine) throws(E) -> Void
  ) throws(E) {
    key(name)
    try object(members)
  }

  package mutating func member<E: Error>(
    _ name: String, array elements: (inout JSONLine) throws(E) -> Void
  ) throws(E) {
    key(name)
    try array(elements)
  }

  // MARK: Octets

  private mutating func separate() {
    if needsComma { octets.append(UInt8(ascii: ",")) }
    needsComma = true
  }

  private mutating func open(_ bracket: UInt8) {
    separate()
    octets.append(bracket)
    needsComma = false
  }

  private mutating func close(_ bracket: UInt8) {
    octets.append(bracket)
    needsComma = true
  }

  /// Digit by digit: a string of that many digits would be allocated.
  private mutating func append(decimal number: UInt64) {
    var divisor: UInt64 = 1
    while number / divisor >= 10 { divisor *= 10 }
    while divisor > 0 {
      octets.append(UInt8(ascii: "0") + UInt8(number / divisor % 10))
      divisor /= 10
    }
  }

  private mutating func literal(_ text: String) {
    separate()
    octets.append(contentsOf: text.utf8)
  }

  private mutating func quoted(_ content: (inout JSONLine) -> Void) {
    separate()
    octets.append(UInt8(ascii: "\""))
    content(&self)
    octets.append(UInt8(ascii: "\""))
  }

  /// What a terminal would obey and what nobody sees is escaped too, beyond the first plane by two surrogates.
  private mutating func appendEscaped(_ scalar: Unicode.Scalar) {
    if scalar.isASCII { return appendEscaped(UInt8(scalar.value)) }
    guard scalar.isUnseen, unseen == .escaped else {
      let shown = scalar.isUnseen ? Unicode.UTF8.encodedReplacementCharacter : UTF8.encode(scalar)!
      return octets.append(contentsOf: shown)
    }
    for unit in UTF16.encode(scalar)! {
      octets.append(contentsOf: "\\u".utf8)
      appendHexadecimal(UInt8(unit >> 8))
      appendHexadecimal(UInt8(unit & 0xFF))
    }
  }

  /// RFC 8259, 7: quotation mark, reverse solidus and the control characters. All else stands as UTF-8.
  private mutating func appendEscaped(_ octet: UInt8) {
    switch octet {
    case UInt8(ascii: "\""), UInt8(ascii: "\\"):
      octets.append(UInt8(ascii: "\\"))
      octets.append(octet)
    case 0x0A: octets.append(contentsOf: "\\n".utf8)
    case 0x0D: octets.append(contentsOf: "\\r".utf8)
    case 0x09: octets.append(contentsOf: "\\t".utf8)
    // A terminal takes 0x7F for a control character too.
    case 0x00..<0x20, 0x7F:
      octets.append(contentsOf: "\\u00".utf8)
      appendHexadecimal(octet)
    default: octets.append(octet)
    }
  }

  private mutating func appendHexadecimal(_ octet: UInt8) {
    octets.append(hexadecimalDigit(octet >> 4))
    octets.append(hexadecimalDigit(octet & 0x0F))
  }
}

private func upperCaseDigit(_ nibble: UInt8) -> UInt8 {
  nibble < 10 ? UInt8(ascii: "0") + nibble : UInt8(ascii: "A") + nibble - 10
}

/// The lower-case digit of a number below 16.
package func hexadecimalDigit(_ nibble: UInt8) -> UInt8 {
  nibble < 10 ? UInt8(ascii: "0") + nibble : UInt8(ascii: "a") + nibble - 10
}

package import BLEWire

/// Builds JSON text as bytes, one object per line, without Foundation or temporary strings.
///
/// ```swift
/// line.object {
///   $0.member("timeNs", time)
///   $0.key("att")
///   $0.object { $0.member("handle", 3) }
/// }
/// line.endLine()
/// ```
/// Commas are inserted automatically. The caller must balance keys and values, which the closures ensure.
package struct JSONLine {
  /// Text written so far.
  package private(set) var octets: [UInt8] = []
  /// Whether the next value or key follows another value in the same array or object.
  private var needsComma = false
  private let unseen: Unseen

  /// Treatment of invisible and control characters in strings (`Unicode.Scalar.isUnseen`).
  package enum Unseen {
    /// Escape them. A parser gets the original text.
    case escaped
    /// Replace them with U+FFFD, for a page that shows the strings unprocessed.
    case replaced
  }

  package init(_ unseen: Unseen = .escaped) { self.unseen = unseen }

  /// Removes the text but keeps the memory.
  package mutating func removeAll() {
    octets.removeAll(keepingCapacity: true)
    needsComma = false
  }

  /// Ends the line.
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

  /// Writes the key of the next value.
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

  /// Writes the shortest text that parses to the same number. Infinity and NaN, which JSON cannot represent,
  /// become `null`.
  package mutating func value(_ number: Double) {
    literal(number.isFinite ? number.description : "null")
  }

  package mutating func value(_ flag: Bool) { literal(flag ? "true" : "false") }

  package mutating func null() { literal("null") }

  /// Writes bytes as a string with two lower-case hexadecimal digits for each.
  package mutating func hex(_ bytes: Span<UInt8>) {
    quoted { line in
      for index in bytes.indices { line.appendHexadecimal(bytes[index]) }
    }
  }

  /// Writes bytes that should be UTF-8, such as an advertised name. Invalid sequences become U+FFFD.
  package mutating func text(_ bytes: Span<UInt8>) {
    value(String(decoding: bytes.indices.map { bytes[$0] }, as: UTF8.self))
  }

  /// Writes a UUID in its full form, in lower case.
  package mutating func value(_ uuid: BluetoothUUID) {
    quoted { line in
      for index in (0..<16).reversed() {
        line.appendHexadecimal(uuid.octet(index))
        if index == 12 || index == 10 || index == 8 || index == 6 { line.octets.append(UInt8(ascii: "-")) }
      }
    }
  }

  // MARK: Members

  /// Writes a device address from six bytes, least significant first: `70:CB:0D:00:A1:B2`.
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

  /// Writes a little-endian number as hexadecimal digits, most significant first.
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

  /// Writes a time as a string of nanoseconds since the Unix epoch. JavaScript and jq would round a number.
  package mutating func member(_ name: String, _ time: ReceiveTime) {
    member(name, nanoseconds: time.nanoseconds)
  }

  /// Writes a time as a string of nanoseconds since the Unix epoch.
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

  /// Writes a number; `nil` becomes `null`.
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

  /// Appends the digits one by one, because creating a string would allocate memory.
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

  /// Appends a scalar, escaped if it is special, invisible or a control character. A scalar outside the Basic
  /// Multilingual Plane is escaped as a surrogate pair.
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

  /// Escapes quotation mark, reverse solidus and control characters. RFC 8259, 7. Other bytes are written
  /// unchanged.
  private mutating func appendEscaped(_ octet: UInt8) {
    switch octet {
    case UInt8(ascii: "\""), UInt8(ascii: "\\"):
      octets.append(UInt8(ascii: "\\"))
      octets.append(octet)
    case 0x0A: octets.append(contentsOf: "\\n".utf8)
    case 0x0D: octets.append(contentsOf: "\\r".utf8)
    case 0x09: octets.append(contentsOf: "\\t".utf8)
    // Terminals also treat 0x7F as a control character.
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

/// Returns the lower-case hexadecimal digit of a number below 16.
package func hexadecimalDigit(_ nibble: UInt8) -> UInt8 {
  nibble < 10 ? UInt8(ascii: "0") + nibble : UInt8(ascii: "a") + nibble - 10
}

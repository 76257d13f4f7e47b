/// Parsed JSON text, for example of a file written with `JSONLine`. RFC 8259.
package indirect enum JSONDocument: Hashable, Sendable {
  case null
  case flag(Bool)
  /// Number, as text. An `Int64` may have more digits than a `Double` can represent.
  case number(String)
  case text(String)
  case array([JSONDocument])
  case object([String: JSONDocument])

  /// Maximum nesting of arrays and objects. No file of this program exceeds it.
  package static let depthLimit = 64

  /// Position of the first error in a text.
  package struct Failure: Error, Hashable, CustomStringConvertible {
    package let offset: Int

    package var description: String { "invalid JSON from byte \(offset) on" }
  }

  package init(_ octets: [UInt8]) throws(Failure) {
    var reader = JSONReader(octets)
    self = try reader.document()
  }

  /// Positions of the values in a text, for error messages.
  package struct Places: Sendable {
    /// Line of each value, from 1, by its JSON Pointer (RFC 6901), such as `/devices/0/address`.
    package fileprivate(set) var lines: [String: Int] = [:]
    /// Members whose name occurred earlier in the same object, with their lines.
    package fileprivate(set) var repeated: [(pointer: String, line: Int)] = []
  }

  /// Parses a text and records the line of each value.
  package static func read(_ octets: [UInt8]) throws(Failure) -> (document: JSONDocument, places: Places) {
    var reader = JSONReader(octets)
    reader.places = Places()
    let document = try reader.document()
    return (document, reader.places ?? Places())
  }

  /// Returns the line number of a byte, from 1.
  package static func line(of offset: Int, in octets: [UInt8]) -> Int {
    octets.prefix(offset).count { $0 == 0x0A } + 1
  }

  /// Returns a member of an object; `nil` if the member is missing or `null`, or if the value is not an
  /// object.
  package subscript(_ key: String) -> JSONDocument? {
    guard case .object(let members) = self, let member = members[key], member != .null else { return nil }
    return member
  }

  package var text: String? { if case .text(let text) = self { text } else { nil } }
  package var real: Double? { if case .number(let text) = self { Double(text) } else { nil } }
  package var flag: Bool? { if case .flag(let flag) = self { flag } else { nil } }
  package var array: [JSONDocument]? { if case .array(let array) = self { array } else { nil } }

  /// Value in nanoseconds since the Unix epoch. It is a string of digits, or a number in files of older
  /// versions.
  package var nanoseconds: Int64? { text.flatMap { Int64($0) } ?? integer() }

  /// Returns the number as an integer of this type; `nil` if it is not one.
  package func integer<Integer: FixedWidthInteger>(_ type: Integer.Type = Integer.self) -> Integer? {
    if case .number(let text) = self { Integer(text) } else { nil }
  }
}

/// Parses one JSON text.
private struct JSONReader {
  private let octets: [UInt8]
  private var offset = 0
  /// Positions of the values; `nil` if they are not recorded.
  fileprivate var places: JSONDocument.Places?
  private var pointer = ""
  /// Offset up to which lines have been counted.
  private var counted = 0
  /// Line number at that offset.
  private var line = 1

  init(_ octets: [UInt8]) {
    self.octets = octets
    // Skip the byte order mark that Windows editors write before UTF-8.
    if octets.starts(with: [0xEF, 0xBB, 0xBF]) { offset = 3 }
  }

  mutating func document() throws(JSONDocument.Failure) -> JSONDocument {
    let document = try value(depth: 0)
    skipSpace()
    guard isAtEnd else { throw failure }
    return document
  }

  var isAtEnd: Bool { offset == octets.count }
  var failure: JSONDocument.Failure { JSONDocument.Failure(offset: offset) }

  private var next: UInt8? { offset < octets.count ? octets[offset] : nil }

  mutating func skipSpace() {
    while let octet = next, octet == 0x20 || octet == 0x0A || octet == 0x0D || octet == 0x09 { offset += 1 }
  }

  mutating func value(depth: Int) throws(JSONDocument.Failure) -> JSONDocument {
    guard depth < JSONDocument.depthLimit else { throw failure }
    skipSpace()
    switch next {
    case UInt8(ascii: "{"): return try object(depth)
    case UInt8(ascii: "["): return try array(depth)
    case UInt8(ascii: "\""): return .text(try string())
    case UInt8(ascii: "t"): return try word("true", .flag(true))
    case UInt8(ascii: "f"): return try word("false", .flag(false))
    case UInt8(ascii: "n"): return try word("null", .null)
    default: return .number(try number())
    }
  }

  private mutating func object(_ depth: Int) throws(JSONDocument.Failure) -> JSONDocument {
    var members: [String: JSONDocument] = [:]
    offset += 1
    skipSpace()
    if take("}") { return .object(members) }
    repeat {
      skipSpace()
      let start = offset
      let key = try string()
      skipSpace()
      guard take(":") else { throw failure }
      members[key] = try part(key, at: start, isRepeated: members[key] != nil, depth)
      skipSpace()
    } while take(",")
    guard take("}") else { throw failure }
    return .object(members)
  }

  private mutating func array(_ depth: Int) throws(JSONDocument.Failure) -> JSONDocument {
    var elements: [JSONDocument] = []
    offset += 1
    skipSpace()
    if take("]") { return .array(elements) }
    repeat {
      skipSpace()
      elements.append(try part("\(elements.count)", at: offset, depth))
      skipSpace()
    } while take(",")
    guard take("]") else { throw failure }
    return .array(elements)
  }

  /// Parses a value inside an array or object.
  private mutating func part(
    _ name: String, at start: Int, isRepeated: Bool = false, _ depth: Int
  ) throws(JSONDocument.Failure) -> JSONDocument {
    guard places != nil else { return try value(depth: depth + 1) }
    let outer = pointer
    pointer += "/" + name
    // Continue counting lines. Values are parsed in order of their offsets.
    line += octets[counted..<start].count { $0 == 0x0A }
    counted = start
    let line = line
    places?.lines[pointer] = line
    if isRepeated { places?.repeated.append((pointer, line)) }
    let value = try value(depth: depth + 1)
    pointer = outer
    return value
  }

  private mutating func word(
    _ word: StaticString, _ value: JSONDocument
  ) throws(JSONDocument.Failure) -> JSONDocument {
    let start = offset
    for octet in word.description.utf8 {
      guard next == octet else {
        offset = start
        throw failure
      }
      offset += 1
    }
    return value
  }

  /// Parses a number: a minus sign, digits without a leading zero, a fraction, an exponent.
  private mutating func number() throws(JSONDocument.Failure) -> String {
    let start = offset
    _ = take("-")
    if !take("0") { try digits() }
    if take(".") { try digits() }
    if take("e") || take("E") {
      if !take("+") { _ = take("-") }
      try digits()
    }
    return String(decoding: octets[start..<offset], as: UTF8.self)
  }

  private mutating func digits() throws(JSONDocument.Failure) {
    let start = offset
    while let octet = next, (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(octet) { offset += 1 }
    guard offset > start else { throw failure }
  }

  private mutating func take(_ mark: Unicode.Scalar) -> Bool {
    guard next == UInt8(ascii: mark) else { return false }
    offset += 1
    return true
  }

  // MARK: Strings

  private mutating func string() throws(JSONDocument.Failure) -> String {
    guard take("\"") else { throw failure }
    var text: [UInt8] = []
    while let octet = next, octet != UInt8(ascii: "\"") {
      guard octet >= 0x20 else { throw failure }
      if octet == UInt8(ascii: "\\") {
        text += String(try escaped()).utf8
      } else {
        text.append(octet)
        offset += 1
      }
    }
    guard take("\"") else { throw failure }
    return String(decoding: text, as: UTF8.self)
  }

  private mutating func escaped() throws(JSONDocument.Failure) -> Character {
    offset += 1
    guard let letter = next else { throw failure }
    offset += 1
    switch letter {
    case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): return Character(Unicode.Scalar(letter))
    case UInt8(ascii: "b"): return "\u{08}"
    case UInt8(ascii: "f"): return "\u{0C}"
    case UInt8(ascii: "n"): return "\n"
    case UInt8(ascii: "r"): return "\r"
    case UInt8(ascii: "t"): return "\t"
    case UInt8(ascii: "u"): return Character(try escapedScalar())
    default:
      offset -= 1
      throw failure
    }
  }

  /// Parses the four hexadecimal digits of an escape, or two such escapes of a UTF-16 surrogate pair. RFC
  /// 8259, 7.
  private mutating func escapedScalar() throws(JSONDocument.Failure) -> Unicode.Scalar {
    let first = UInt32(try codeUnit())
    if let scalar = Unicode.Scalar(first) { return scalar }
    guard first < 0xDC00, take("\\"), take("u") else { throw failure }
    let second = UInt32(try codeUnit())
    guard (0xDC00...0xDFFF).contains(second),
      let scalar = Unicode.Scalar(0x10000 + (first - 0xD800) << 10 + (second - 0xDC00))
    else { throw failure }
    return scalar
  }

  private mutating func codeUnit() throws(JSONDocument.Failure) -> UInt16 {
    var unit: UInt16 = 0
    for _ in 0..<4 {
      guard let octet = next, let digit = Character(Unicode.Scalar(octet)).hexDigitValue else {
        throw failure
      }
      unit = unit << 4 | UInt16(digit)
      offset += 1
    }
    return unit
  }
}

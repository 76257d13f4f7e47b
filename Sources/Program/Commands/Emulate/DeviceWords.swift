import BLEEmulation
import BLEStack
import BLEWire
import CommandKit
import JSONText

/// Security that a value needs, as written in the file of `serve`.
enum DeviceLevel: String { case encrypted, authenticated }

/// An attribute to which a line refers.
struct DeviceReference {
  /// The word as written, for messages.
  var text: String
  /// The handle, if the word may be a handle, such as `0x0012`.
  var handle: AttributeHandle?
  /// The type, if the word may be a name or a UUID. `0x180d` may be a handle or a UUID.
  var uuid: BluetoothUUID?
}

/// The words of a line that follow its keyword. Text in quotation marks is one word; a number sign begins a
/// comment; commas and brackets separate words.
struct DeviceWords {
  typealias Fault = AttributeText.Fault

  fileprivate struct Word {
    var text: String
    var isQuoted = false
  }

  private static let separator = ","
  private var words: [Word] = []

  init(_ line: Substring) throws(Fault) {
    var rest = line
    while let first = rest.first {
      if first == "#" { break }
      rest.removeFirst()
      switch first {
      case _ where first.isWhitespace: continue
      case "[", "]": continue
      case ",", "=": words.append(Word(text: String(first)))
      case "\"": words.append(Word(text: try Self.quoted(&rest), isQuoted: true))
      default:
        let end = rest.firstIndex { $0.isWhitespace || "[],=\"".contains($0) } ?? rest.endIndex
        words.append(Word(text: String(first) + rest[..<end]))
        rest = rest[end...]
      }
    }
  }

  private init(_ words: some Sequence<Word>) { self.words = Array(words) }

  /// Removes quoted text up to its closing quotation mark, and returns the text.
  private static func quoted(_ rest: inout Substring) throws(Fault) -> String {
    var text = ""
    while let next = rest.popFirst() {
      switch next {
      case "\"": return text
      case "\\":
        guard let escaped = rest.popFirst(), "\"\\".contains(escaped) else {
          throw Fault("write \\\" for a quotation mark and \\\\ for a backslash; other bytes in hexadecimal")
        }
        text.append(escaped)
      default: text.append(next)
      }
    }
    throw Fault("the text has no closing quotation mark; write it as in \"Heart Rate\"")
  }

  var first: String? { words.first?.text }

  func dropFirst() -> DeviceWords { DeviceWords(words.dropFirst()) }

  /// Splits a list into its items at commas, quoted names, UUIDs and handles.
  func groups() -> [DeviceWords] {
    var groups: [[Word]] = []
    var name: [Word] = []
    for word in words {
      let isWhole = word.isQuoted || word.text.hasPrefix("0x") || BluetoothUUID(word.text) != nil
      if isWhole || word.isSeparator {
        if !name.isEmpty { groups.append(name) }
        name = []
      }
      if isWhole { groups.append([word]) } else if !word.isSeparator { name.append(word) }
    }
    if !name.isEmpty { groups.append(name) }
    return groups.map { DeviceWords($0) }
  }

  // MARK: Types and handles

  /// Removes the handle before a type and returns it.
  mutating func takeHandle() throws(Fault) -> AttributeHandle? {
    guard let range = try takeRange() else { return nil }
    guard range.start == range.end else {
      throw Fault("only a service has a range of handles; write \(range.start.rawValue.handleText)")
    }
    return range.start
  }

  /// Removes a handle or a range such as `0x0010-0x0017` before a type, and returns it.
  mutating func takeRange() throws(Fault) -> HandleRange? {
    guard words.count > 1, let word = words.first, !word.isQuoted, word.text.lowercased().hasPrefix("0x")
    else { return nil }
    let ends = word.text.split(separator: "-", omittingEmptySubsequences: false).map {
      AttributeText.handle($0)
    }
    guard (1...2).contains(ends.count), let start = ends[0], let end = ends[ends.count - 1], start <= end
    else {
      throw Fault(
        "'\(word.text)' is neither a handle such as 0x0003 nor a range such as 0x0001-0x0004")
    }
    words.removeFirst()
    return HandleRange(start: start, end: end)
  }

  /// Returns the type, which is a UUID or a name.
  func uuid(_ kind: AttributeNames.Kind) throws(Fault) -> BluetoothUUID {
    guard let first = words.first else {
      throw Fault("the \(kind) has no type; write its name or UUID, such as \(kind.example)")
    }
    if !first.isQuoted, let uuid = BluetoothUUID(first.text) {
      if words.count > 1 { throw surplus(1, kind) }
      return uuid
    }
    if first.isQuoted, words.count > 1 { throw surplus(1, kind) }
    let name = words.map(\.text).joined(separator: " ")
    let uuids = AttributeNames.uuids(named: name, kind)
    guard let uuid = uuids.first else { throw unknown(name, kind) }
    guard uuids.count == 1 else {
      let list = uuids.map(\.shortText).joined(separator: ", ")
      throw Fault("several UUIDs have the name '\(name)'; write one of them: \(list)")
    }
    return uuid
  }

  func reference(_ kind: AttributeNames.Kind) throws(Fault) -> DeviceReference {
    let text = words.map(\.text).joined(separator: " ")
    guard words.count == 1, !words[0].isQuoted, text.lowercased().hasPrefix("0x") else {
      return DeviceReference(text: "'\(text)'", uuid: try uuid(kind))
    }
    let (handle, uuid) = (AttributeText.handle(text), BluetoothUUID(text))
    guard handle != nil || uuid != nil else {
      throw Fault("'\(text)' is neither a handle such as 0x0003 nor a UUID")
    }
    return DeviceReference(text: text, handle: handle, uuid: uuid)
  }

  private func unknown(_ name: String, _ kind: AttributeNames.Kind) -> Fault {
    // If a line begins with a known name, the words after the name are wrong.
    for count in stride(from: words.count - 1, to: 0, by: -1) {
      let start = words.prefix(count).map(\.text).joined(separator: " ")
      if !AttributeNames.uuids(named: start, kind).isEmpty { return surplus(count, kind) }
    }
    if let near = AttributeNames.nearest(to: name, kind) {
      return Fault(
        "there is no \(kind) '\(name)'; did you mean \"\(near.name)\" (\(near.uuid.shortText))?")
    }
    return Fault(
      "there is no \(kind) '\(name)'; write a name that the Bluetooth SIG assigned, or a UUID, such as \(kind.example)"
    )
  }

  /// Returns the error for words after the type.
  private func surplus(_ start: Int, _ kind: AttributeNames.Kind) -> Fault {
    let word = words[start...].first { !$0.isSeparator && Self.meaning(of: $0) == nil } ?? words[start]
    if word.isQuoted { return Fault("a value begins with an equals sign; write = before \"\(word.text)\"") }
    if Self.isFormat(word.text) {
      return Fault("a value begins with an equals sign; write = before \(word.text)")
    }
    guard kind == .characteristic else {
      return Fault("'\(word.text)' does not belong after the \(kind)'s type; put a name in quotation marks")
    }
    let list = Self.properties.map(\.name)
    if let near = CommandGuess.nearest(to: word.text.lowercased(), among: list) {
      return Fault("'\(word.text)' is not a property; did you mean '\(near)'?")
    }
    return Fault("'\(word.text)' is not a property; write \(Self.propertyNames)")
  }

  // MARK: Properties

  private static let properties: [(name: String, property: CharacteristicProperties)] =
    (0..<8).map { bit in
      let property = CharacteristicProperties(rawValue: 1 << bit)
      return (property.names[0], property)
    }

  /// The names of properties and security levels, for messages.
  static let propertyNames = properties.map(\.name).joined(separator: ", ") + ", encrypted, authenticated"

  /// Returns the properties or the security level that a word means; `nil` for other words.
  private static func meaning(of word: Word) -> (properties: CharacteristicProperties?, level: DeviceLevel?)?
  {
    guard !word.isQuoted else { return nil }
    // `write-without-response` is BlueZ's spelling.
    let key = word.text.lowercased().filter { $0 != "-" && $0 != "_" }
    if key == "none" { return ([], nil) }
    if let level = DeviceLevel(rawValue: key) { return (nil, level) }
    return properties.first { $0.name.lowercased() == key }.map { ($0.property, nil) }
  }

  /// Removes properties and security from the end of the line.
  ///
  /// - Returns: the properties and the security. The properties are `nil` if the line has neither a property
  ///   nor `none`.
  mutating func takeProperties() -> (CharacteristicProperties?, DeviceLevel?) {
    var properties: CharacteristicProperties?
    var level: DeviceLevel?
    while words.count > 1, let word = words.last {
      if let meaning = Self.meaning(of: word) {
        if let found = meaning.properties { properties = (properties ?? []).union(found) }
        if level != .authenticated { level = meaning.level ?? level }
      } else if !word.isSeparator {
        break
      }
      words.removeLast()
    }
    return (properties, level)
  }

  // MARK: Values

  /// Widths of numbers in bytes, least significant byte first; `u` means unsigned. The names in C, such as
  /// `uint16` and `int16`, are accepted too.
  private static let widths = ["8": 1, "16": 2, "24": 3, "32": 4, "40": 5, "48": 6, "56": 7, "64": 8]

  private static func isFormat(_ word: String) -> Bool { word == "hex" || format(word) != nil }

  private static func format(_ word: String) -> (isSigned: Bool, byteCount: Int)? {
    let isSigned = word.first != "u"
    let names = isSigned ? ["int", "i"] : ["uint", "u"]
    guard let name = names.first(where: { word.hasPrefix($0) }),
      let count = widths[String(word.dropFirst(name.count))]
    else { return nil }
    return (isSigned, count)
  }

  func refuseValue(of what: String) throws(Fault) {
    guard !words.contains(where: \.isEquals) else {
      throw Fault("\(what) has no value; remove the equals sign and what follows it")
    }
  }

  /// Removes the value (the words after the equals sign) and returns it; `nil` without an equals sign.
  mutating func takeValue() throws(Fault) -> [UInt8]? {
    guard let equals = words.firstIndex(where: \.isEquals) else { return nil }
    var value: [UInt8] = []
    var number: (name: String, isSigned: Bool, byteCount: Int)?
    for word in words[(equals + 1)...] where !word.isSeparator {
      if word.isQuoted {
        value += Array(word.text.utf8)
      } else if word.text == "hex" {
        number = nil
      } else if let format = Self.format(word.text) {
        number = (word.text, format.isSigned, format.byteCount)
      } else if let number {
        value += try Self.octets(of: word.text, number.name, number.isSigned, number.byteCount)
      } else {
        value += try Self.octets(of: word.text)
      }
    }
    guard value.count <= ATT.maximumValueByteCount else {
      throw Fault(
        "the value has \(counted(value.count, "byte")); a value has at most \(ATT.maximumValueByteCount)")
    }
    if let number, words.last?.text == number.name, words.last?.isQuoted == false {
      throw Fault("a number follows \(number.name), as in: \(number.name) 57")
    }
    words.removeSubrange(equals...)
    return value
  }

  private static func octets(
    of text: String, _ name: String, _ isSigned: Bool, _ byteCount: Int
  ) throws(Fault) -> [UInt8] {
    let bits = byteCount * 8
    let least = isSigned ? -(Int128(1) << (bits - 1)) : 0
    let most = (Int128(1) << (isSigned ? bits - 1 : bits)) - 1
    let isHexadecimal = text.lowercased().hasPrefix("0x")
    let digits = isHexadecimal ? text.dropFirst(2) : text[...]
    guard let number = Int128(digits, radix: isHexadecimal ? 16 : 10) else {
      throw Fault(
        "'\(text)' is not a number for \(name), such as 57 or 0x39; write hex before bytes, as in: hex 0048")
    }
    guard (least...most).contains(number) else {
      throw Fault("\(text) does not fit into \(name), which takes \(least) to \(most)")
    }
    return (0..<byteCount).map { UInt8(truncatingIfNeeded: number >> Int128(8 * $0)) }
  }

  private static func octets(of text: String) throws(Fault) -> [UInt8] {
    if text.lowercased().hasPrefix("0x") {
      throw Fault(
        "'\(text)' may be bytes or a number; write \(text.dropFirst(2)) for bytes, or u8, u16, u32 before it")
    }
    let isDecimal = text.allSatisfy { $0.isASCII && $0.isNumber }
    if isDecimal, !text.utf8.count.isMultiple(of: 2) {
      throw Fault(
        "'\(text)' is not pairs of hexadecimal digits; write u8 \(text) or u16 \(text) for a number")
    }
    let octets: [UInt8?]
    do throws(Fault) { octets = try AttributeText.octets([text]) } catch {
      throw Fault(
        "'\(text)' is not a value; write hexadecimal such as 0048, a number such as u8 57, or text in "
          + "quotation marks")
    }
    guard !octets.contains(where: { $0 == nil }) else {
      throw Fault("'\(text)' leaves bytes open; write them")
    }
    return octets.compactMap(\.self)
  }
}

extension DeviceWords.Word {
  fileprivate var isSeparator: Bool { !isQuoted && text == "," }
  fileprivate var isEquals: Bool { !isQuoted && text == "=" }
}

/// One field of a packet: its encoding and its label.
struct PacketField: Sendable {
  enum Kind: Sendable {
    /// A little-endian number of this many bytes, shown in decimal or in hexadecimal.
    case number(Int), hexadecimal(Int)
    /// A number of two bytes, shown in decimal and in hexadecimal.
    case both
    /// This many bytes, shown in transmission order.
    case octets(Int)
    case status, reason, connectionHandle
    /// A signed byte; 127 means "not available".
    case dBm, rssi
    /// A number of this many bytes, in microseconds.
    case microseconds(Int)
    /// Numbers in units of 625 µs (this many bytes), 1.25 ms (two bytes), and 10 ms (two bytes).
    case slots(Int), connectionIntervals, centiseconds
    case addressType, address, randomAddress, publicAddress
    /// A number of this many bytes, with names for its values.
    case enumeration([UInt16: String], Int)
    /// Eight bytes of LE features. Core 5.4, Vol 6, Part B, 4.6.
    case features
    /// Eight bytes. Bit n represents the event, or the LE subevent, with number n + 1. Core 5.4, Vol 4, Part
    /// E, 7.3.1 and 7.8.1.
    case eventMask, subeventMask
    /// A bit mask of this many bytes. Only the number of set bits is shown.
    case bitCount(Int)
    /// A bit mask of the advertising channels 37 to 39.
    case channels
    /// Bits of the event type of an extended advertising report.
    case extendedEventType
    /// Bits of the Security Manager. Core 5.4, Vol 3, Part H, 3.5.1 and 3.6.1.
    case authentication, keyDistribution
    /// UTF-8 text up to the end or the first zero byte.
    case name
    /// A length byte, followed by advertising data of that length.
    case advertisingData
    /// Advertising data up to the end of the packet.
    case structures
    /// A number of seconds in two bytes.
    case seconds
    /// The remaining bytes, which have no meaning.
    case padding
    /// A byte with the number of repetitions of the following fields, or a bit mask with one repetition for
    /// each set bit.
    case times, timesByBits
    /// The following fields repeat until the end of the packet.
    case untilEnd
  }

  let kind: Kind
  let label: String
  /// The field's key in JSON, and the key of the value's name.
  let key: String
  let nameKey: String

  init(kind: Kind, label: String) {
    self.kind = kind
    self.label = label
    var words = label[...]
    if case .times = kind { words = JSONKey.counted(words) }
    let stem = JSONKey.lowerCamelCase(words)
    key = stem + kind.unit
    nameKey = stem + "Name"
  }

  /// Minimum size of the field, in bytes.
  var byteCount: Int {
    switch kind {
    case .number(let count), .hexadecimal(let count), .octets(let count), .slots(let count),
      .microseconds(let count), .enumeration(_, let count), .bitCount(let count):
      count
    case .both, .seconds, .connectionHandle, .connectionIntervals, .centiseconds, .extendedEventType: 2
    case .status, .reason, .dBm, .rssi, .addressType, .channels, .authentication, .keyDistribution,
      .advertisingData,
      .times, .timesByBits:
      1
    case .address, .randomAddress, .publicAddress: 6
    case .features, .eventMask, .subeventMask: 8
    case .name, .structures, .padding, .untilEnd: 0
    }
  }
}

extension PacketField.Kind {
  /// Suffix of the field's key: the unit.
  fileprivate var unit: String {
    switch self {
    case .slots, .connectionIntervals, .centiseconds: "Ms"
    case .microseconds: "Us"
    case .seconds: "Seconds"
    case .dBm: "Dbm"
    default: ""
    }
  }
}

/// Keys of JSON objects, derived from labels.
enum JSONKey {
  /// Converts `Max TX time` to `maxTxTime`.
  static func lowerCamelCase(_ label: Substring) -> String {
    var key: [UInt8] = []
    var isStart = true
    for octet in label.utf8 {
      guard isWord(octet) else {
        isStart = true
        continue
      }
      let isCapital = isStart && !key.isEmpty
      key.append(isCapital ? octet & ~lowerCaseBit(octet) : octet | lowerCaseBit(octet))
      isStart = false
    }
    return String(decoding: key, as: UTF8.self)
  }

  /// Converts `Num reports` to `reports`: an array has no separate count.
  static func counted(_ label: Substring) -> Substring {
    for words in ["Num ", "Number of "] where label.hasPrefix(words) { return label.dropFirst(words.count) }
    return label
  }

  private static func isWord(_ octet: UInt8) -> Bool {
    lowerCaseBit(octet) != 0 || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(octet)
  }

  /// Returns the bit that distinguishes lower case from upper case; 0 if the byte is not a letter.
  private static func lowerCaseBit(_ octet: UInt8) -> UInt8 {
    (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(octet | 0x20) ? 0x20 : 0
  }
}

/// The fields of one packet type, parsed from a line of a table.
///
/// A line is `NUMBER NAME | FIELDS | RETURNED FIELDS`. The number is in hexadecimal, and the fields are
/// separated by commas. A field is a word of `kind(_:)`, followed by its label. In a line without a bar, the
/// fields are unknown. In a line without a second bar, the command returns only a status.
struct PacketLayout: Sendable {
  let name: String
  /// The fields; `nil` if they are unknown. The bytes are then shown in hexadecimal.
  let fields: [PacketField]?
  /// For a command: the return parameters of its Command Complete.
  let returned: [PacketField]

  /// Number of bytes of the fixed fields before the first repeated field.
  let minimumByteCount: Int
  let minimumReturnedByteCount: Int

  /// Return parameters of commands that return only a status, or whose return parameters are unknown.
  static let status = fields("status")

  private init(_ columns: [Substring], name: Substring) {
    self.name = String(name)
    fields = columns.count > 1 ? Self.fields(columns[1]) : nil
    returned = Self.fields(columns.count > 2 ? columns[2] : "status")
    minimumByteCount = Self.minimum(fields ?? [])
    minimumReturnedByteCount = Self.minimum(returned)
  }

  /// Returns the offset of the first connection handle; `nil` without a handle.
  static func handleOffset(_ fields: [PacketField]) -> Int? {
    var offset = 0
    for field in fields {
      if case .connectionHandle = field.kind { return offset }
      offset += field.byteCount
    }
    return nil
  }

  private static func minimum(_ fields: [PacketField]) -> Int {
    var count = 0
    for field in fields {
      count += field.byteCount
      switch field.kind {
      case .times, .timesByBits, .untilEnd: return count
      default: break
      }
    }
    return count
  }

  // MARK: Tables

  static func table(_ text: String) -> [UInt16: PacketLayout] {
    var table: [UInt16: PacketLayout] = [:]
    for line in text.split(separator: "\n") {
      let columns = line.split(separator: "|", omittingEmptySubsequences: false).map(trimmed)
      let (number, name) = entry(columns[0])
      table[number] = PacketLayout(columns, name: name)
    }
    return table
  }

  /// Parses lines that consist of a number and a name.
  static func names(_ text: String) -> [UInt16: String] {
    var names: [UInt16: String] = [:]
    for line in text.split(separator: "\n") {
      let (number, name) = entry(line)
      names[number] = String(name)
    }
    return names
  }

  private static func entry(_ line: Substring) -> (UInt16, Substring) {
    let space = line.firstIndex(of: " ") ?? line.endIndex
    guard let number = UInt16(line[..<space], radix: 16) else { preconditionFailure("not a number: \(line)") }
    return (number, trimmed(line[space...]))
  }

  private static func trimmed(_ text: Substring) -> Substring {
    var rest = text.drop { $0 == " " }
    while rest.last == " " { rest.removeLast() }
    return rest
  }

  static func fields(_ text: Substring) -> [PacketField] {
    text.split(separator: ",").map { field in
      let field = trimmed(field)
      let space = field.firstIndex(of: " ") ?? field.endIndex
      let (kind, label) = kind(field[..<space])
      let given = trimmed(field[space...])
      return PacketField(kind: kind, label: given.isEmpty ? label : String(given))
    }
  }

  /// Returns the kind for a word of a table, and its default label.
  private static func kind(_ word: Substring) -> (PacketField.Kind, String) {
    switch word {
    case "status": (.status, "Status")
    case "reason": (.reason, "Reason")
    case "handle": (.connectionHandle, "Handle")
    case "u8": (.number(1), "Number")
    case "u16": (.number(2), "Number")
    case "u24": (.number(3), "Number")
    case "x8": (.hexadecimal(1), "Value")
    case "x16": (.hexadecimal(2), "Value")
    case "x24": (.hexadecimal(3), "Value")
    case "x64": (.hexadecimal(8), "Value")
    case "n16": (.both, "Number")
    case "dbm": (.dBm, "Power")
    case "rssi": (.rssi, "RSSI")
    case "us16": (.microseconds(2), "Time")
    case "us24": (.microseconds(3), "Delay")
    case "slot": (.slots(2), "Interval")
    case "slot24": (.slots(3), "Interval")
    case "conn": (.connectionIntervals, "Connection interval")
    case "tmo": (.centiseconds, "Timeout")
    case "addr": (.address, "Address")
    case "random": (.randomAddress, "Address")
    case "public": (.publicAddress, "Address")
    case "=address": (.addressType, "Address type")
    case "features": (.features, "Features")
    case "events": (.eventMask, "Mask")
    case "subevents": (.subeventMask, "Mask")
    case "channels": (.channels, "Channel map")
    case "extended": (.extendedEventType, "Event type")
    case "auth": (.authentication, "Authentication requirement")
    case "keys": (.keyDistribution, "Key distribution")
    case "name": (.name, "Name")
    case "data": (.advertisingData, "Data length")
    case "structures": (.structures, "Data")
    case "sec": (.seconds, "Timeout")
    case "pad": (.padding, "Padding")
    case "times": (.times, "Number")
    case "phys": (.timesByBits, "PHYs")
    case "all": (.untilEnd, "Entries")
    default: sizedKind(word)
    }
  }

  /// Parses words with a parameter: `=NAME` and `==NAME`, which are numbers of one and two bytes with names
  /// from `FieldWords`, and `hexN` and `onesN`.
  private static func sizedKind(_ word: Substring) -> (PacketField.Kind, String) {
    if word.hasPrefix("=") {
      let name = word.drop { $0 == "=" }
      guard let words = FieldWords.byName[String(name)] else { preconditionFailure("no words: \(word)") }
      return (.enumeration(words, word.count - name.count == 2 || name == "company" ? 2 : 1), "Value")
    }
    let letters = word.prefix { !$0.isNumber }
    guard let count = Int(word[letters.endIndex...]), letters == "hex" || letters == "ones" else {
      preconditionFailure("not a field: \(word)")
    }
    return (letters == "hex" ? .octets(count) : .bitCount(count), "Value")
  }
}

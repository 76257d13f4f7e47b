/// One field of a packet: its encoding and its label.
struct PacketField: Sendable {
  enum Kind: Sendable {
    /// A little-endian number of this many bytes, in decimal or in hexadecimal.
    case number(Int), hexadecimal(Int)
    /// Two bytes, in decimal and hexadecimal.
    case both
    /// This many bytes in transmission order.
    case octets(Int)
    case status, reason, connectionHandle
    /// A signed byte; 127 means "not available".
    case dBm, rssi
    /// A number of this many bytes, in microseconds.
    case microseconds(Int)
    /// A number of this many bytes in units of 625 µs; two bytes in units of 1.25 ms; two bytes in units of
    /// 10 ms.
    case slots(Int), connectionIntervals, centiseconds
    case addressType, address, randomAddress, publicAddress
    /// A number of this many bytes, with names for its values.
    case enumeration([UInt16: String], Int)
    /// Eight bytes of LE features. Core 5.4, Vol 6, Part B, 4.6.
    case features
    /// Eight bytes: bit n stands for the event, or the LE subevent, with the number n + 1. Core 5.4, Vol 4,
    /// Part E, 7.3.1 and 7.8.1.
    case eventMask, subeventMask
    /// This many bytes, of which only the number of set bits is shown.
    case bitCount(Int)
    /// Bits for the advertising channels 37 to 39.
    case channels
    /// Event type bits of an extended advertising report.
    case extendedEventType
    /// Bits of the Security Manager. Core 5.4, Vol 3, Part H, 3.5.1 and 3.6.1.
    case authentication, keyDistribution
    /// UTF-8 up to the end or the first zero.
    case name
    /// A length byte, and this many bytes of advertising data.
    case advertisingData
    /// Advertising data up to the end.
    case structures
    /// Seconds in two bytes.
    case seconds
    /// Remaining bytes, which have no meaning.
    case padding
    /// A byte with the number of occurrences of the following fields; or a bit mask in which each set bit is
    /// one occurrence.
    case times, timesByBits
    /// The following fields repeat until the end.
    case untilEnd
  }

  let kind: Kind
  let label: String
  /// Its key in JSON, and the key for the name of its value.
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
  /// Suffix of the field's key.
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

  /// Converts `Num reports` to `reports`, because an array needs no count.
  static func counted(_ label: Substring) -> Substring {
    for words in ["Num ", "Number of "] where label.hasPrefix(words) { return label.dropFirst(words.count) }
    return label
  }

  private static func isWord(_ octet: UInt8) -> Bool {
    lowerCaseBit(octet) != 0 || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(octet)
  }

  /// Returns the bit that distinguishes lower case from upper case; 0 for non-letters.
  private static func lowerCaseBit(_ octet: UInt8) -> UInt8 {
    (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(octet | 0x20) ? 0x20 : 0
  }
}

/// Fields of one packet type, from a line of a table.
///
/// A line is `NUMBER NAME | FIELDS | RETURNED FIELDS`, with the number in hexadecimal and the fields
/// separated by commas. Without a bar the fields are unknown. A field is a word of `kind(_:)` and its label.
/// A line without a second bar returns only a status.
struct PacketLayout: Sendable {
  let name: String
  /// `nil` if unknown; the bytes are then shown in hexadecimal.
  let fields: [PacketField]?
  /// For a command: the return parameters of its Command Complete.
  let returned: [PacketField]

  /// Number of bytes of the fixed fields, up to the first repeated one.
  let minimumByteCount: Int
  let minimumReturnedByteCount: Int

  /// Return parameters if there is only a status, or if nothing else is known.
  static let status = fields("status")

  private init(_ columns: [Substring], name: Substring) {
    self.name = String(name)
    fields = columns.count > 1 ? Self.fields(columns[1]) : nil
    returned = Self.fields(columns.count > 2 ? columns[2] : "status")
    minimumByteCount = Self.minimum(fields ?? [])
    minimumReturnedByteCount = Self.minimum(returned)
  }

  /// Returns the offset of the first connection handle.
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

  /// Parses lines of a number and a name.
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

  /// Returns the kind for a word of a table, and the default label.
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

  /// Parses `=NAME` and `==NAME`, a number of one or two bytes with names from `FieldWords`; and `hexN` and
  /// `onesN`.
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

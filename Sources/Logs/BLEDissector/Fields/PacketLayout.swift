/// One field of a packet: how its octets are read, and the word before them.
struct PacketField: Sendable {
  enum Kind: Sendable {
    /// A little-endian number of so many octets, in decimal or in hexadecimal.
    case number(Int), hexadecimal(Int)
    /// Two octets, in both.
    case both
    /// So many octets as they come.
    case octets(Int)
    case status, reason, connectionHandle
    /// A signed octet; 127 is "not available".
    case dBm, rssi
    /// A number of so many octets in microseconds.
    case microseconds(Int)
    /// A number of so many octets in units of 625 µs; two octets in units of 1.25 ms, and of 10 ms.
    case slots(Int), connectionIntervals, centiseconds
    case addressType, address, randomAddress, publicAddress
    /// A number of so many octets with words for its values.
    case enumeration([UInt16: String], Int)
    /// Eight octets of LE features. Core 5.4, Vol 6, Part B, 4.6.
    case features
    /// Eight octets: bit n is for the event, or the LE subevent, of the number n + 1. Core 5.4, Vol 4, Part E, 7.3.1 and
    /// 7.8.1.
    case eventMask, subeventMask
    /// So many octets of which only the number of set bits is shown.
    case bitCount(Int)
    /// Bits for the advertising channels 37 to 39.
    case channels
    /// The bits of an extended advertising report's event type.
    case extendedEventType
    /// The security manager's bits. Core 5.4, Vol 3, Part H, 3.5.1 and 3.6.1.
    case authentication, keyDistribution
    /// UTF-8 up to the end or the first zero.
    case name
    /// An octet of length and so many octets of advertising data.
    case advertisingData
    /// Advertising data up to the end.
    case structures
    /// Seconds in two octets.
    case seconds
    /// Whatever is left, which means nothing.
    case padding
    /// An octet that says how often the fields after it come; bits, each of which stands for one time.
    case times, timesByBits
    /// The fields after it come until the end.
    case untilEnd
  }

  let kind: Kind
  let label: String
  /// Its key in JSON, and the key of what it means.
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

  /// Octets that the field takes at least.
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
  /// What a key of that kind ends in.
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

/// Keys of JSON objects, made of labels for people.
enum JSONKey {
  /// `Max TX time` becomes `maxTxTime`.
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

  /// `Num reports` becomes `reports`: an array needs no count.
  static func counted(_ label: Substring) -> Substring {
    for words in ["Num ", "Number of "] where label.hasPrefix(words) { return label.dropFirst(words.count) }
    return label
  }

  private static func isWord(_ octet: UInt8) -> Bool {
    lowerCaseBit(octet) != 0 || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(octet)
  }

  /// The bit that tells the small letter from the capital; 0 for all but letters.
  private static func lowerCaseBit(_ octet: UInt8) -> UInt8 {
    (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(octet | 0x20) ? 0x20 : 0
  }
}

/// The fields of one kind of packet, from a line of a table.
///
/// A line is `NUMBER NAME | FIELDS | RETURNED FIELDS`, the number in hexadecimal, the fields separated by commas;
/// without a bar the fields are not known. A field is a word of `kind(_:)` and its label. A line that has no fields
/// behind the second bar returns a status.
struct PacketLayout: Sendable {
  let name: String
  /// `nil`: not known, and shown in hexadecimal.
  let fields: [PacketField]?
  /// Of a command: what its Command Complete returns.
  let returned: [PacketField]

  /// Octets that the fixed fields take, up to the first that is repeated.
  let minimumByteCount: Int
  let minimumReturnedByteCount: Int

  /// Of an answer that has nothing else, or of which nothing else is known.
  static let status = fields("status")

  private init(_ columns: [Substring], name: Substring) {
    self.name = String(name)
    fields = columns.count > 1 ? Self.fields(columns[1]) : nil
    returned = Self.fields(columns.count > 2 ? columns[2] : "status")
    minimumByteCount = Self.minimum(fields ?? [])
    minimumReturnedByteCount = Self.minimum(returned)
  }

  /// The fields of the packet or of what it returns that say of which link it is: offset of the first handle.
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

  /// Lines of a number and a name.
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

  /// What a word of a table stands for, and the label where none follows.
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

  /// `=WORDS` and `==WORDS`, a number of one or two octets that `FieldWords` knows; `hexN` and `onesN`.
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

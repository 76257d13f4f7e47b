/// The fields of one packet type, parsed from a line of a table.
///
/// A line is `NUMBER NAME | FIELDS | RETURNED FIELDS`. The number is in hexadecimal, and the fields are
/// separated by commas. In a line without a bar, the fields are unknown. In a line without a second bar, the
/// command returns only a status.
///
/// A field is a word of `kind(_:)`, followed by its label. Repeated and conditional fields are in brackets
/// after the word and label of their count or condition; without brackets, all following fields are repeated.
/// An exclamation mark before the word marks a field that may identify a person or device.
package struct PacketLayout: Sendable {
  package let name: String
  /// The fields; `nil` if they are unknown. The bytes are then shown in hexadecimal.
  package let fields: [PacketField]?
  /// For a command: the return parameters of its Command Complete.
  package let returned: [PacketField]

  /// Number of bytes of the fields before the first field whose presence or size depends on a value.
  package let minimumByteCount: Int
  package let minimumReturnedByteCount: Int
  /// Whether the packet may contain a name, a key or arbitrary data.
  let isSecret: Bool

  /// Return parameters of commands that return only a status, or whose return parameters are unknown.
  package static let status = fields("status")

  private init(_ columns: [Substring], name: Substring) {
    self.name = String(name)
    fields = columns.count > 1 ? Self.fields(columns[1]) : nil
    returned = Self.fields(columns.count > 2 ? columns[2] : "status")
    minimumByteCount = Self.minimum(fields ?? [])
    isSecret = Self.isSecret(fields ?? [])
    minimumReturnedByteCount = Self.minimum(returned)
  }

  /// Returns the offset of the first connection handle; `nil` without a handle at a fixed place.
  package static func handleOffset(_ fields: [PacketField]) -> Int? {
    var offset = 0
    for field in fields {
      if case .connectionHandle = field.kind { return offset }
      offset += field.byteCount
      switch field.kind {
      case .times: return handleOffset(field.inner).map { offset + $0 }
      case .name, .advertisingData, .structures, .sizedData, .sizedOctets, .rest, .padding, .timesByBits,
        .timesOfLength, .untilEnd, .when:
        return nil
      default: break
      }
    }
    return nil
  }

  package static func minimum(_ fields: [PacketField]) -> Int {
    var count = 0
    for field in fields {
      count += field.byteCount
      if !field.inner.isEmpty { return count }
    }
    return count
  }

  private static func isSecret(_ fields: [PacketField]) -> Bool {
    fields.contains { field in
      switch field.content {
      case .name, .key, .opaque: true
      case .number, .address, .advertising, .padding: isSecret(field.inner)
      }
    }
  }

  // MARK: Tables

  package static func table(_ text: String) -> [UInt16: PacketLayout] {
    var table: [UInt16: PacketLayout] = [:]
    for line in text.split(separator: "\n") {
      let columns = line.split(separator: "|", omittingEmptySubsequences: false).map(trimmed)
      let (number, name) = entry(columns[0])
      let last = table.updateValue(PacketLayout(columns, name: name), forKey: number)
      precondition(last == nil, "twice: \(line)")
    }
    return table
  }

  /// Parses lines that consist of a number and a name.
  package static func names(_ text: String) -> [UInt16: String] {
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

  // MARK: Fields

  package static func fields(_ text: Substring) -> [PacketField] {
    var rest = text
    return fields(&rest)
  }

  /// Parses fields up to the end of the text or of the brackets.
  private static func fields(_ rest: inout Substring) -> [PacketField] {
    var fields: [PacketField] = []
    while let first = rest.first, first != "]" {
      let end = rest.firstIndex { ",[]".contains($0) } ?? rest.endIndex
      let words = trimmed(rest[..<end])
      rest = rest[end...]
      var inner: [PacketField]?
      if rest.first == "[" {
        rest.removeFirst()
        inner = Self.fields(&rest)
        precondition(rest.popFirst() == "]", "no end of brackets: \(words)")
        rest = trimmed(rest)
      }
      if rest.first == "," { rest.removeFirst() }
      precondition(!words.contains("  "), "a line ends inside of a field: \(words)")
      if !words.isEmpty { fields.append(field(words, inner, &rest)) }
    }
    return fields
  }

  private static func field(
    _ words: Substring, _ brackets: [PacketField]?, _ rest: inout Substring
  ) -> PacketField {
    let space = words.firstIndex(of: " ") ?? words.endIndex
    var (word, label) = (words[..<space], String(trimmed(words[space...])))
    let isOpaque = word.first == "!"
    if isOpaque { word.removeFirst() }
    if word == "when" {
      guard let value = UInt8(label, radix: 16), let brackets else {
        preconditionFailure("not a condition: \(words)")
      }
      return PacketField(kind: .when(value), content: .number, label: "", inner: brackets)
    }
    let (kind, content, usual) = kind(word)
    if label.isEmpty { label = usual }
    var inner = brackets ?? []
    switch kind {
    case .times, .timesByBits, .timesOfLength, .untilEnd:
      if brackets == nil { inner = fields(&rest) }
      // Each repetition must have bytes, so that the number of bytes limits the number of repetitions.
      precondition(minimum(inner) > 0, "nothing repeats: \(words)")
    default: precondition(brackets == nil, "not repeated: \(words)")
    }
    return PacketField(kind: kind, content: isOpaque ? .opaque : content, label: label, inner: inner)
  }

  /// Returns kind and content for a word of a table, and the default label.
  private static func kind(_ word: Substring) -> (PacketField.Kind, PacketField.Content, String) {
    switch word {
    case "status": (.status, .number, "Status")
    case "reason": (.reason, .number, "Reason")
    case "handle": (.connectionHandle, .number, "Handle")
    case "n16": (.both, .number, "Number")
    case "dbm": (.dBm, .number, "Power")
    case "rssi": (.rssi, .number, "RSSI")
    case "slot": (.slots(2), .number, "Interval")
    case "slot24": (.slots(3), .number, "Interval")
    case "slot32": (.slots(4), .number, "Interval")
    case "conn": (.connectionIntervals(2), .number, "Connection interval")
    case "conn8": (.connectionIntervals(1), .number, "Interval")
    case "tmo": (.centiseconds, .number, "Timeout")
    case "clock": (.halfSlots, .number, "Accuracy")
    case "inquiry": (.inquiryIntervals(1), .number, "Length")
    case "period": (.inquiryIntervals(2), .number, "Period")
    case "sec": (.seconds, .number, "Timeout")
    case "addr": (.address, .address, "Address")
    case "random": (.randomAddress, .address, "Address")
    case "public": (.publicAddress, .address, "Address")
    case "device": (.device, .address, "Address")
    case "=address": (.addressType, .number, "Address type")
    case "company": (.company, .number, "Company")
    case "appearance": (.appearance, .number, "Appearance")
    case "uuid": (.uuid, .number, "UUID")
    case "lap": (.hexadecimal(3), .number, "Access code")
    case "features": (.features, .number, "Features")
    case "bit": (.featureBit, .number, "Bit Number")
    case "page": (.page, .number, "Page")
    case "lmp": (.lmpFeatures(page: nil), .number, "Features")
    case "lmp0": (.lmpFeatures(page: 0), .number, "Features")
    case "lmp1": (.lmpFeatures(page: 1), .number, "Features")
    case "commands": (.supportedCommands, .number, "Commands")
    case "events": (.eventMask, .number, "Mask")
    case "events2": (.secondEventMask, .number, "Mask")
    case "subevents": (.subeventMask, .number, "Mask")
    case "channels": (.channels, .number, "Channel map")
    case "class": (.deviceClass, .number, "Class")
    case "voice": (.voiceSetting, .number, "Setting")
    case "extended": (.extendedEventType, .number, "Event type")
    case "properties": (.advertisingProperties, .number, "Properties")
    case "auth": (.authentication, .number, "Authentication requirement")
    case "keys": (.keyDistribution, .number, "Key distribution")
    case "command": (.managementCommand, .number, "Command")
    case "event": (.managementEvent, .number, "Event")
    case "controller": (.controller, .number, "Controller")
    case "name": (.name, .name, "Name")
    case "data": (.advertisingData(1), .advertising, "Data length")
    case "data16": (.advertisingData(2), .advertising, "Data length")
    case "structures": (.structures, .advertising, "Data")
    case "sized": (.sizedOctets, .opaque, "Data")
    case "sizeddata": (.sizedData, .advertising, "Data")
    case "sizedkey": (.sizedOctets, .key, "Key")
    case "passkey": (.number(4), .key, "Passkey")
    case "rest": (.rest, .opaque, "Data")
    case "text": (.rest, .number, "Text")
    case "pad": (.padding, .padding, "Padding")
    case "phys": (.timesByBits, .number, "PHYs")
    case "each": (.timesOfLength, .number, "Entries")
    case "all": (.untilEnd, .number, "Entries")
    default: sizedKind(word)
    }
  }

  /// Parses words with a parameter. The parameter is a number of bits (`u8`) or bytes (`key16`), or a name of
  /// `FieldWords`: after an equals sign for names of values, after an ampersand for names of bits.
  private static func sizedKind(_ word: Substring) -> (PacketField.Kind, PacketField.Content, String) {
    if word.first == "=" || word.first == "&" {
      guard let names = FieldWords.byName[String(word.drop { $0 == "=" || $0 == "&" })] else {
        preconditionFailure("no words: \(word)")
      }
      if word.first == "&" { return (.bits(names.words, names.byteCount), .number, "Value") }
      return (.enumeration(names.words, word.hasPrefix("==") ? 2 : names.byteCount), .number, "Value")
    }
    let letters = word.prefix { !$0.isNumber }
    let count = Int(word[letters.endIndex...]) ?? 0
    precondition(count > 0 || word == "times", "not a field: \(word)")
    return switch letters {
    case "u": (.number(count / 8), .number, "Number")
    case "i": (.signed(count / 8), .number, "Number")
    case "x": (.hexadecimal(count / 8), .number, "Value")
    case "us": (.microseconds(count / 8), .number, "Time")
    case "ms": (.milliseconds(count / 8), .number, "Time")
    case "size": (.length(count / 8), .number, "Length")
    case "times": (.times(max(1, count / 8)), .number, "Number")
    case "map": (.channelMap(count), .number, "Channel map")
    case "name": (.paddedName(count), .name, "Name")
    case "key": (.octets(count), .key, "Key")
    case "random": (.hexadecimal(count), .key, "Random number")
    case "bytes": (.octets(count), .number, "Value")
    case "hex": (.octets(count), .opaque, "Value")
    default: preconditionFailure("not a field: \(word)")
    }
  }
}

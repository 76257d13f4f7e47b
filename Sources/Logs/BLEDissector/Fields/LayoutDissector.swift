import BLEWire
import JSONText

/// Dissects the bytes of a packet according to the fields of its layout.
///
/// A field's key is its label in lower camel case, with its unit at the end:
///
/// | field | members in JSON |
/// |---|---|
/// | number | `key`: the number; eight bytes are too large for many JSON parsers, so in hexadecimal |
/// | interval, timeout | `keyMs`: milliseconds |
/// | time on air, delay | `keyUs`: microseconds |
/// | power | `keyDbm`; `null` if the controller does not know it |
/// | RSSI | `rssi`, in dBm, as in `scan --json`; `null` if unknown |
/// | number with names | `key` and `keyName` |
/// | features, masks | `key` in hexadecimal and `keyNames`, an array |
/// | address, name | `key`: text |
/// | bytes | `key`: in hexadecimal, in transmission order |
/// | repeated fields | `key`: an array of objects |
/// | advertising data | `data`: an array with an object for each AD structure |
///
/// The status is not one of the parameters: it is a separate member beside them. Bytes without a field are in
/// `octets`. If a field does not fit, `problem` has the reason. In text, each field is a line in the style of
/// `btmon`.
struct LayoutDissector {
  private var cursor = 0
  /// Value of the last address type field.
  private var addressType: AddressType = .public

  private init() {}

  /// Appends the fields to `list`.
  ///
  /// - Parameter fields: the layout's fields; `nil` if the layout is unknown.
  static func dissect(_ fields: [PacketField]?, _ bytes: Span<UInt8>, into list: inout FieldList) {
    var dissector = LayoutDissector()
    guard dissector.dissect(fields ?? [], from: 0, bytes, into: &list) else { return }
    dissector.appendRest(of: bytes, to: &list)
  }

  private func appendRest(of bytes: Span<UInt8>, to list: inout FieldList) {
    if cursor < bytes.count { list.octets(bytes, cursor..<bytes.count) }
  }

  /// Dissects the fields from index `first` on.
  ///
  /// - Returns: whether all fields fit into the bytes.
  private mutating func dissect(
    _ fields: [PacketField], from first: Int, _ bytes: Span<UInt8>, into list: inout FieldList
  ) -> Bool {
    for index in first..<fields.count {
      let field = fields[index]
      guard bytes.count - cursor >= field.byteCount else {
        return fail("\(field.label) needs \(field.byteCount) octets", bytes, into: &list)
      }
      switch field.kind {
      case .times, .timesByBits, .untilEnd: return dissectEach(fields, index, bytes, into: &list)
      case .advertisingData: guard dissectData(field, bytes, into: &list) else { return false }
      case .name:
        let name = PacketText.string(FieldText.untilZero(bytes.extracting(cursor...)))
        list.append(Field(field.key, .text(name), .words(field.label), octets: cursor..<bytes.count))
        cursor = bytes.count
      case .structures:
        AdvertisingDissector.dissect(bytes.extracting(cursor...), at: cursor, into: &list)
        cursor = bytes.count
      case .padding: cursor = bytes.count
      default: dissectValue(field, bytes, into: &list)
      }
    }
    return true
  }

  private func fail(_ reason: String, _ bytes: Span<UInt8>, into list: inout FieldList) -> Bool {
    list.append(Field("problem", .problem("\(reason), \(bytes.count - cursor) are left"), .none))
    appendRest(of: bytes, to: &list)
    return false
  }

  /// Dissects the fields after the one at `index` repeatedly. The field at `index` has the number of
  /// repetitions.
  private mutating func dissectEach(
    _ fields: [PacketField], _ index: Int, _ bytes: Span<UInt8>, into list: inout FieldList
  ) -> Bool {
    let field = fields[index]
    var name = field.key
    var left: Int?
    switch field.kind {
    case .untilEnd: break
    case .timesByBits:
      let bits = bytes[cursor]
      left = bits.nonzeroBitCount
      list.member(field.key, bits, .words(field.label), words: "0x\(hexadecimal(bits))")
      name = "perPhy"
      cursor += 1
    default:
      left = Int(bytes[cursor])
      list.append(Field(nil, .integer(Int64(bytes[cursor])), .words(field.label)))
      cursor += 1
    }
    var isWhole = true
    var entries = FieldList(for: list.reader)
    while isWhole, left.map({ $0 > 0 }) ?? (cursor < bytes.count) {
      var entry = FieldList(for: list.reader)
      isWhole = dissect(fields, from: index + 1, bytes, into: &entry)
      entries.append(Field(nil, .object, .none, children: entry.fields))
      left? -= 1
    }
    list.append(Field(name, .list, .none, children: entries.fields))
    return isWhole
  }

  private mutating func dissectData(
    _ field: PacketField, _ bytes: Span<UInt8>, into list: inout FieldList
  ) -> Bool {
    let count = Int(bytes[cursor])
    cursor += 1
    list.append(Field(nil, .integer(Int64(count)), .words(field.label)))
    guard bytes.count - cursor >= count else {
      return fail("\(field.label) \(count)", bytes, into: &list)
    }
    AdvertisingDissector.dissect(bytes.extracting(cursor..<cursor + count), at: cursor, into: &list)
    cursor += count
    return true
  }

  private mutating func dissectValue(
    _ field: PacketField, _ bytes: Span<UInt8>, into list: inout FieldList
  ) {
    let range = cursor..<cursor + field.byteCount
    let value = bytes.extracting(range)
    cursor = range.upperBound
    if case .addressType = field.kind { addressType = value[0] & 1 == 0 ? .public : .random }
    var name: String? = field.key
    if case .status = field.kind { name = nil }
    let names = FieldText.names(field.kind, value)?.map { Field(nil, .text($0), .none) }
    list.append(
      Field(
        name, Self.value(field.kind, value, addressType), .words(field.label),
        words: list.words(FieldText.text(field.kind, value, addressType)), octets: range,
        children: names ?? []))
    if let names {
      list.append(Field(field.nameKey + "s", .list, .hidden, children: names))
    } else if name != nil, let word = FieldText.word(field.kind, value) {
      list.append(Field(field.nameKey, .text(word), .hidden))
    }
  }

  /// Returns the value of a field.
  ///
  /// - Parameter value: exactly the bytes of the field.
  private static func value(
    _ kind: PacketField.Kind, _ value: Span<UInt8>, _ type: AddressType
  ) -> Field.Value {
    let number = FieldText.number(value)
    switch kind {
    case .slots: return .number(Double(number) * 0.625)
    case .connectionIntervals: return .number(Double(number) * 1.25)
    case .centiseconds: return .integer(Int64(number) * 10)
    case .connectionHandle: return .integer(Int64(number & 0x0FFF))
    case .dBm, .rssi:
      return FieldText.isKnownPower(value[0]) ? .integer(Int64(Int8(bitPattern: value[0]))) : .null
    case .address, .randomAddress, .publicAddress: return .text("\(value.address(at: 0, type: type))")
    case .octets: return .octets(value.indices.map { value[$0] })
    case .hexadecimal(8), .bitCount, .features, .eventMask, .subeventMask:
      return .text(value.indices.reversed().map { hexadecimal(value[$0]) }.joined())
    default: return .integer(Int64(number))
    }
  }
}

extension FieldList {
  /// Appends bytes that no field describes.
  mutating func octets(_ bytes: Span<UInt8>, _ range: Range<Int>) {
    append(Field("octets", .octets(range.map { bytes[$0] }), .none, octets: range))
  }
}

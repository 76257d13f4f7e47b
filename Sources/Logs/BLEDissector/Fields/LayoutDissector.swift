import BLEPacketLog
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
/// | power | `keyDbm`; `null` if unknown to the controller |
/// | RSSI | `rssi`, in dBm, as in `scan --json`; `null` if unknown |
/// | number with names | `key` and `keyName` |
/// | features, masks, channels, class of device | `key` in hexadecimal and `keyNames`, an array |
/// | address, name | `key`: text |
/// | address of the management interface | `key`, `keyType` and `keyTypeName` |
/// | bytes | `key`: in hexadecimal, in transmission order |
/// | repeated fields | `key`: an array of objects |
/// | advertising data | `data`: an array with an object for each AD structure |
///
/// The status is not one of the parameters: it is a separate member beside them. Bytes that no field
/// describes are in `octets`. If a field does not fit, `problem` has the reason. In text, each field is a
/// line in the style of `btmon`.
struct LayoutDissector: FieldVisitor {
  /// The members so far, and the members of incomplete lists and entries.
  private var lists: [FieldList]
  /// Value of the last page field.
  private var page: UInt8 = 0

  private init(_ list: FieldList) { lists = [list] }

  /// Appends the fields to `list`.
  ///
  /// - Parameter fields: the layout's fields; `nil` if the layout is unknown.
  static func dissect(_ fields: [PacketField]?, _ bytes: Span<UInt8>, into list: inout FieldList) {
    var dissector = LayoutDissector(list)
    FieldWalk.walk(fields, bytes, &dissector)
    list = dissector.lists[0]
  }

  private mutating func append(_ field: Field) { lists[lists.count - 1].append(field) }

  // MARK: Visiting

  mutating func visit(_ field: PacketField, _ range: Range<Int>, in bytes: Span<UInt8>, type: AddressType) {
    let value = bytes.extracting(range)
    switch field.kind {
    case .times, .length: append(Field(nil, .integer(Int64(FieldText.number(value))), .words(field.label)))
    case .timesByBits:
      lists[lists.count - 1].member(
        field.key, value[0], .words(field.label), words: "0x\(hexadecimal(value[0]))")
    case .advertisingData:
      append(Field(nil, .integer(Int64(range.count)), .words(field.label)))
      AdvertisingDissector.dissect(value, at: range.lowerBound, into: &lists[lists.count - 1])
    case .structures: AdvertisingDissector.dissect(value, at: range.lowerBound, into: &lists[lists.count - 1])
    case .sizedData:
      AdvertisingDissector.dissect(
        value, as: field.key, at: range.lowerBound, into: &lists[lists.count - 1])
    case .name, .paddedName:
      let name = PacketText.string(FieldText.untilZero(value))
      append(Field(field.key, .text(name), .words(field.label), octets: range))
    case .padding: break
    case .appearance: lists[lists.count - 1].appearance(value.u16(at: 0))
    case .device: visitDevice(field, range, value)
    default: visitValue(field, range, value, type)
    }
  }

  mutating func beginList(of field: PacketField) { lists.append(FieldList(for: lists[0].reader)) }
  mutating func beginEntry() { lists.append(FieldList(for: lists[0].reader)) }

  mutating func endEntry() {
    let entry = lists.removeLast()
    append(Field(nil, .object, .none, children: entry.fields))
  }

  mutating func endList(of field: PacketField) {
    let entries = lists.removeLast()
    var name = field.key
    if case .timesByBits = field.kind { name = "perPhy" }
    append(Field(name, .list, .none, children: entries.fields))
  }

  mutating func fail(_ field: PacketField, needed: Int, _ rest: Range<Int>, in bytes: Span<UInt8>) {
    var reason = "\(field.label) needs \(counted(needed, "byte"))"
    if case .advertisingData(let byteCount) = field.kind, rest.lowerBound >= byteCount, needed > byteCount {
      append(Field(nil, .integer(Int64(needed)), .words(field.label)))
      reason = "\(field.label) \(needed)"
    }
    append(Field("problem", .problem("\(reason), \(counted(rest.count, "is", "are")) left"), .none))
    leave(rest, in: bytes)
  }

  mutating func leave(_ rest: Range<Int>, in bytes: Span<UInt8>) {
    if !rest.isEmpty { lists[lists.count - 1].octets(bytes, rest) }
  }

  // MARK: Values

  /// Appends an address with its type. Core 5.4 has the type before the address, the management interface
  /// after it.
  private mutating func visitDevice(_ field: PacketField, _ range: Range<Int>, _ value: Span<UInt8>) {
    let address = value.address(at: 0, type: value[6] == 2 ? .random : .public)
    let label =
      switch value[6] {
      case 0: "BR/EDR \(field.label)"
      case 1, 2: "LE \(field.label)"
      default: field.label
      }
    append(
      Field(
        field.key, .text("\(address)"), .words(label), words: lists[0].words(FieldText.address(address)),
        octets: range))
    append(Field(field.key + "Type", .integer(Int64(value[6])), .hidden))
    let name = FieldWords.deviceTypes[UInt16(value[6])] ?? "Reserved"
    append(Field(field.key + "TypeName", .text(name), .hidden))
  }

  private mutating func visitValue(
    _ field: PacketField, _ range: Range<Int>, _ value: Span<UInt8>, _ type: AddressType
  ) {
    if case .page = field.kind { page = value[0] }
    var name: String? = field.key
    if case .status = field.kind { name = nil }
    let names = FieldText.names(field.kind, value, page: page)?.map { Field(nil, .text($0), .none) }
    append(
      Field(
        name, Self.value(field.kind, value, type), .words(field.label),
        words: lists[0].words(FieldText.text(field.kind, value, type)), octets: range,
        children: names ?? []))
    if let names {
      append(Field(field.nameKey + "s", .list, .hidden, children: names))
    } else if name != nil, let word = FieldText.word(field.kind, value) {
      append(Field(field.nameKey, .text(word), .hidden))
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
    case .halfSlots: return .number(Double(number) * 0.3125)
    case .centiseconds: return .integer(Int64(number) * 10)
    case .inquiryIntervals: return .integer(Int64(number) * 1_280)
    case .connectionHandle: return .integer(Int64(number & 0x0FFF))
    case .signed: return .integer(FieldText.signed(value))
    case .dBm, .rssi:
      return FieldText.isKnownPower(value[0]) ? .integer(Int64(Int8(bitPattern: value[0]))) : .null
    case .address, .randomAddress, .publicAddress: return .text("\(value.address(at: 0, type: type))")
    case .uuid: return value.uuid(at: 0, byteCount: 16).map { .uuid($0) } ?? .null
    case .octets, .channelMap, .lmpFeatures, .sizedOctets, .rest:
      return .octets(value.indices.map { value[$0] })
    case .hexadecimal(8), .bits(_, 8), .supportedCommands, .features, .eventMask, .secondEventMask,
      .subeventMask:
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

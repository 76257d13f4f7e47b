import BLEWire
import JSONText

/// Dissects the AD structures of an advertisement. Core 5.4, Vol 3, Part C, 11, and its supplement, Part A.
enum AdvertisingDissector {
  /// Appends the fields of advertising data.
  ///
  /// - Parameters:
  ///   - name: key of the data in JSON.
  ///   - offset: offset of the data in the dissected bytes.
  static func dissect(
    _ data: Span<UInt8>, as name: String = "data", at offset: Int, into list: inout FieldList
  ) {
    var structures = FieldList(for: list.reader)
    do throws(WireError) {
      try AdvertisingData(data).forEach { type, value in
        structures.structure { fields in
          fields.member("type", type.rawValue, .hidden)
          dissect(type, value, into: &fields)
        }
      }
    } catch {
      let rest = min(error.offset, data.count)..<data.count
      structures.structure { fields in
        fields.append(Field("problem", .problem("\(error)"), .none))
        fields.octets(data, rest)
      }
    }
    list.append(
      Field(name, .list, .none, octets: offset..<offset + data.count, children: structures.fields))
  }

  /// Dissects the joined data of several reports.
  static func joined(_ data: Span<UInt8>, for reader: FieldList.Reader) -> [Field] {
    var list = FieldList(for: reader)
    list.member("byteCount", data.count, .hidden)
    dissect(data, at: 0, into: &list)
    return list.fields
  }

  private static func dissect(
    _ type: AdvertisingDataType, _ value: Span<UInt8>, into fields: inout FieldList
  ) {
    switch type {
    case .flags where value.count == 1: dissectFlags(value[0], into: &fields)
    case .completeLocalName:
      fields.member("name", PacketText.string(value), .words("Name (complete)"))
    case .shortenedLocalName: fields.member("name", PacketText.string(value), .words("Name (short)"))
    case .txPowerLevel where value.count == 1:
      fields.member("txPowerDbm", Int8(bitPattern: value[0]), .words("TX power"), unit: "dBm")
    case .peripheralConnectionIntervalRange where value.count == 4:
      let (least, most) = (Int64(value.u16(at: 0)) * 125, Int64(value.u16(at: 2)) * 125)
      fields.member(
        "minIntervalMs", Double(least) / 100, .words("Peripheral Conn. Interval"),
        words: "\(PacketText.decimal(least, places: 2)) to \(PacketText.decimal(most, places: 2)) msec")
      fields.member("maxIntervalMs", Double(most) / 100, .hidden)
    case .appearance where value.count == 2:
      fields.appearance(value.u16(at: 0))
    case .manufacturerSpecificData where value.count >= 2: dissectCompany(value, into: &fields)
    default: dissectUUIDs(type, value, into: &fields)
    }
  }

  private static func dissectFlags(_ flags: UInt8, into fields: inout FieldList) {
    let names = [
      "LE Limited Discoverable Mode", "LE General Discoverable Mode", "BR/EDR Not Supported",
      "Simultaneous LE and BR/EDR (Controller)", "Simultaneous LE and BR/EDR (Host)",
    ]
    let set = names.indices.filter { flags & 1 << UInt8($0) != 0 }
    fields.append(
      Field(
        "flags", .integer(Int64(flags)), words: "0x\(hexadecimal(flags))",
        children: set.map { Field(nil, .text(names[$0]), .none) }))
  }

  private static func dissectCompany(_ value: Span<UInt8>, into fields: inout FieldList) {
    let company = value.u16(at: 0)
    let name = NumberNames.company(company)
    fields.append(
      Field(
        "company", .integer(Int64(company)),
        words: "\(name ?? "Unknown") (\(PacketText.hex(UInt64(company), digits: 4)))",
        children: [data(value.extracting(2...), nil)]))
    if let name { fields.member("companyName", name, .hidden) }
    fields.append(data(value.extracting(2...), "octets"))
  }

  /// Returns the field for manufacturer or service data: a separate line in text, a separate member in JSON.
  private static func data(_ octets: Span<UInt8>, _ name: String?) -> Field {
    Field(name, .octets(octets.indices.map { octets[$0] }), name == nil ? .words("Data") : .hidden)
  }

  private static func dissectUUIDs(
    _ type: AdvertisingDataType, _ value: Span<UInt8>, into fields: inout FieldList
  ) {
    if let byteCount = type.serviceUUIDByteCount, value.count.isMultiple(of: byteCount) {
      var uuids: [Field] = []
      for index in 0..<value.count / byteCount {
        guard let uuid = value.uuid(at: index * byteCount, byteCount: byteCount) else { continue }
        uuids.append(Field(nil, .uuid(uuid), .none))
      }
      let words = type.rawValue % 2 == 1 ? "complete" : "partial"
      let count = value.count / byteCount
      fields.append(
        Field(
          nil, .integer(Int64(count)), .words("\(8 * byteCount)-bit Service UUIDs (\(words))"),
          words: "\(count) \(count == 1 ? "entry" : "entries")", children: uuids))
      fields.append(Field("services", .list, .hidden, children: uuids))
    } else if let byteCount = type.serviceDataUUIDByteCount, value.count >= byteCount,
      let uuid = value.uuid(at: 0, byteCount: byteCount)
    {
      let rest = value.extracting(byteCount...)
      fields.append(Field("service", .uuid(uuid), .words("Service Data"), children: [data(rest, nil)]))
      fields.append(data(rest, "octets"))
    } else {
      fields.member("octets", hex: value, .words("AD type 0x\(hexadecimal(type.rawValue))"))
    }
  }
}

extension FieldList {
  /// Appends an appearance, with the name of the appearance if the name is known.
  mutating func appearance(_ number: UInt16) {
    let (name, digits) = (NumberNames.appearance(number), PacketText.hex(UInt64(number), digits: 4))
    member("appearance", number, words: name.map { "\($0) (\(digits))" } ?? digits)
    if let name { member("appearanceName", name, .hidden) }
  }

  /// Appends an object. In text, each member of the object has its own line.
  fileprivate mutating func structure(_ members: (inout FieldList) -> Void) {
    var list = FieldList(for: reader)
    members(&list)
    append(Field(nil, .object, .none, children: list.fields))
  }
}

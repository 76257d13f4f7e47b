import BLECore
import BLEWire
import JSONText

/// The fields of one packet as members of a JSON object.
///
/// A key is the field's label in lower camel case with its unit at the end:
///
/// | field | members |
/// |---|---|
/// | number | `key`: the number; eight octets are too long for many readers and are written in hexadecimal |
/// | interval, timeout | `keyMs`: milliseconds |
/// | time on air, delay | `keyUs`: microseconds |
/// | power | `keyDbm`; `null` where the controller does not know it |
/// | RSSI | `rssi`, in dBm, as `scan --json` has it; likewise |
/// | number with words | `key` and `keyName` |
/// | features, masks | `key` in hexadecimal and `keyNames`, an array |
/// | address, name | `key`: text |
/// | octets | `key`: in hexadecimal, as they come |
/// | fields that come several times | `key`: an array of objects |
/// | advertising data | `data`: an array, an object for each AD structure |
///
/// What no field says stands in `octets`; `problem` says why, where a field does not fit.
struct FieldJSON {
  private var cursor: Int

  private init(cursor: Int) { self.cursor = cursor }

  /// - Parameters:
  ///   - fields: `nil` where nobody knows them.
  ///   - start: octets of `bytes`, and of `fields` in front, that were said before.
  static func print(
    _ fields: [PacketField]?, _ bytes: Span<UInt8>, after start: Int = 0, into line: inout JSONLine
  ) {
    var printer = FieldJSON(cursor: start)
    if let fields, start <= bytes.count {
      guard printer.print(fields, from: skipped(fields, start), bytes, into: &line) else { return }
    }
    if printer.cursor < bytes.count { line.member("octets", hex: bytes.extracting(printer.cursor...)) }
  }

  private static func skipped(_ fields: [PacketField], _ byteCount: Int) -> Int {
    var (index, count) = (0, 0)
    while index < fields.count, count < byteCount {
      count += fields[index].byteCount
      index += 1
    }
    return index
  }

  /// - Returns: whether all fit.
  private mutating func print(
    _ fields: [PacketField], from first: Int, _ bytes: Span<UInt8>, into line: inout JSONLine
  ) -> Bool {
    for index in first..<fields.count {
      let field = fields[index]
      guard bytes.count - cursor >= field.byteCount else {
        return fail("\(field.label) needs \(field.byteCount) octets", bytes, into: &line)
      }
      switch field.kind {
      case .times, .timesByBits, .untilEnd: return printEach(fields, index, bytes, into: &line)
      case .advertisingData: guard printData(field, bytes, into: &line) else { return false }
      case .name:
        line.member(field.key, PacketText.string(FieldText.untilZero(bytes.extracting(cursor...))))
        cursor = bytes.count
      case .structures:
        AdvertisingDataJSON.print(bytes.extracting(cursor...), into: &line)
        cursor = bytes.count
      case .padding: cursor = bytes.count
      default:
        Self.print(field, bytes.extracting(cursor..<cursor + field.byteCount), into: &line)
        cursor += field.byteCount
      }
    }
    return true
  }

  private func fail(_ reason: String, _ bytes: Span<UInt8>, into line: inout JSONLine) -> Bool {
    line.member("problem", "\(reason), \(bytes.count - cursor) are left")
    if cursor < bytes.count { line.member("octets", hex: bytes.extracting(cursor...)) }
    return false
  }

  /// The fields after the one at `index`, as often as it says.
  private mutating func printEach(
    _ fields: [PacketField], _ index: Int, _ bytes: Span<UInt8>, into line: inout JSONLine
  ) -> Bool {
    let field = fields[index]
    var left = Int.max
    switch field.kind {
    case .untilEnd: line.key(field.key)
    case .timesByBits:
      left = bytes[cursor].nonzeroBitCount
      line.member(field.key, bytes[cursor])
      line.key("perPhy")
      cursor += 1
    default:
      left = Int(bytes[cursor])
      line.key(field.key)
      cursor += 1
    }
    var isWhole = true
    line.array { line in
      while left > 0, isWhole, cursor < bytes.count {
        line.object { line in isWhole = print(fields, from: index + 1, bytes, into: &line) }
        left -= 1
      }
    }
    return isWhole
  }

  private mutating func printData(
    _ field: PacketField, _ bytes: Span<UInt8>, into line: inout JSONLine
  ) -> Bool {
    let count = Int(bytes[cursor])
    cursor += 1
    guard bytes.count - cursor >= count else {
      return fail("\(field.label) \(count)", bytes, into: &line)
    }
    AdvertisingDataJSON.print(bytes.extracting(cursor..<cursor + count), into: &line)
    cursor += count
    return true
  }

  /// - Parameter value: exactly the octets that the field takes.
  private static func print(_ field: PacketField, _ value: Span<UInt8>, into line: inout JSONLine) {
    let number = FieldText.number(value)
    switch field.kind {
    case .slots: line.member(field.key, Double(number) * 0.625)
    case .connectionIntervals: line.member(field.key, Double(number) * 1.25)
    case .centiseconds: line.member(field.key, number * 10)
    case .connectionHandle: line.member(field.key, number & 0x0FFF)
    case .dBm, .rssi: printPower(field, value[0], into: &line)
    case .address, .randomAddress, .publicAddress: line.member(field.key, address: value)
    case .octets: line.member(field.key, hex: value)
    case .hexadecimal(8), .bitCount, .features, .eventMask, .subeventMask:
      line.member(field.key, littleEndian: value)
    default: line.member(field.key, number)
    }
    if let names = FieldText.names(field.kind, value) {
      line.key(field.nameKey + "s")
      line.array { line in for name in names { line.value(name) } }
    } else if let word = FieldText.word(field.kind, value) {
      line.member(field.nameKey, word)
    }
  }

  private static func printPower(_ field: PacketField, _ octet: UInt8, into line: inout JSONLine) {
    line.key(field.key)
    if FieldText.isKnownPower(octet) { line.value(Int8(bitPattern: octet)) } else { line.null() }
  }
}

/// The AD structures of an advertisement as a JSON array. Core 5.4, Vol 3, Part C, 11, and its supplement, Part A.
enum AdvertisingDataJSON {
  static func print(_ data: Span<UInt8>, into line: inout JSONLine) {
    line.key("data")
    line.array { line in
      do throws(WireError) {
        try AdvertisingData(data).forEach { type, value in
          line.object { line in
            line.member("type", type.rawValue)
            print(type, value, into: &line)
          }
        }
      } catch {
        line.object { line in
          line.member("problem", "\(error)")
          line.member("octets", hex: data.extracting(min(error.offset, data.count)...))
        }
      }
    }
  }

  private static func print(
    _ type: AdvertisingDataType, _ value: Span<UInt8>, into line: inout JSONLine
  ) {
    switch type {
    case .flags where value.count == 1: line.member("flags", value[0])
    case .completeLocalName, .shortenedLocalName: line.member("name", PacketText.string(value))
    case .txPowerLevel where value.count == 1: line.member("txPowerDbm", Int8(bitPattern: value[0]))
    case .peripheralConnectionIntervalRange where value.count == 4:
      line.member("minIntervalMs", Double(value.u16(at: 0)) * 1.25)
      line.member("maxIntervalMs", Double(value.u16(at: 2)) * 1.25)
    case .appearance where value.count == 2: line.member("appearance", value.u16(at: 0))
    case .manufacturerSpecificData where value.count >= 2:
      line.member("company", value.u16(at: 0))
      if let name = FieldWords.byName["company"]?[value.u16(at: 0)] { line.member("companyName", name) }
      line.member("octets", hex: value.extracting(2...))
    default: printUUIDs(type, value, into: &line)
    }
  }

  private static func printUUIDs(
    _ type: AdvertisingDataType, _ value: Span<UInt8>, into line: inout JSONLine
  ) {
    if let byteCount = type.serviceUUIDByteCount, value.count.isMultiple(of: byteCount) {
      line.key("services")
      line.array { line in
        for index in 0..<value.count / byteCount {
          if let uuid = value.uuid(at: index * byteCount, byteCount: byteCount) { line.value(uuid) }
        }
      }
    } else if let byteCount = type.serviceDataUUIDByteCount, value.count >= byteCount,
      let uuid = value.uuid(at: 0, byteCount: byteCount)
    {
      line.key("service")
      line.value(uuid)
      line.member("octets", hex: value.extracting(byteCount...))
    } else {
      line.member("octets", hex: value)
    }
  }
}

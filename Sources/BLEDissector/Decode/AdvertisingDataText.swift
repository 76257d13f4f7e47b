import BLECore
import BLEWire

/// The AD structures of an advertisement, in words. Core 5.4, Vol 3, Part C, 11, and its supplement, Part A.
enum AdvertisingDataText {
  static func print(_ data: Span<UInt8>, _ indent: Int, into text: inout PacketText) {
    do throws(WireError) {
      try AdvertisingData(data).forEach { type, value in print(type, value, indent, into: &text) }
    } catch {
      text.malformed(indent, "\(error)", data)
    }
  }

  private static func print(
    _ type: AdvertisingDataType, _ value: Span<UInt8>, _ indent: Int, into text: inout PacketText
  ) {
    switch type {
    case .flags where value.count == 1: printFlags(value[0], indent, into: &text)
    case .completeLocalName: text.line(indent, "Name (complete): \(PacketText.string(value))")
    case .shortenedLocalName: text.line(indent, "Name (short): \(PacketText.string(value))")
    case .txPowerLevel where value.count == 1:
      text.line(indent, "TX power: \(Int8(bitPattern: value[0])) dBm")
    case .peripheralConnectionIntervalRange where value.count == 4:
      let (least, most) = (Int64(value.u16(at: 0)) * 125, Int64(value.u16(at: 2)) * 125)
      text.line(
        indent,
        "Peripheral Conn. Interval: \(PacketText.decimal(least, places: 2)) to "
          + "\(PacketText.decimal(most, places: 2)) msec")
    case .appearance where value.count == 2:
      text.line(indent, "Appearance: \(PacketText.hex(UInt64(value.u16(at: 0)), digits: 4))")
    case .manufacturerSpecificData where value.count >= 2:
      let company = value.u16(at: 0)
      let name = FieldWords.byName["company"]?[company] ?? "Unknown"
      text.line(indent, "Company: \(name) (\(PacketText.hex(UInt64(company), digits: 4)))")
      text.line(indent + 2, "Data: \(PacketText.hex(value.extracting(2...)))")
    default: printUUIDs(type, value, indent, into: &text)
    }
  }

  private static func printFlags(_ flags: UInt8, _ indent: Int, into text: inout PacketText) {
    text.line(indent, "Flags: 0x\(hexadecimal(flags))")
    let names = [
      "LE Limited Discoverable Mode", "LE General Discoverable Mode", "BR/EDR Not Supported",
      "Simultaneous LE and BR/EDR (Controller)", "Simultaneous LE and BR/EDR (Host)",
    ]
    for bit in names.indices where flags & 1 << UInt8(bit) != 0 { text.line(indent + 2, names[bit]) }
  }

  private static func printUUIDs(
    _ type: AdvertisingDataType, _ value: Span<UInt8>, _ indent: Int, into text: inout PacketText
  ) {
    if let byteCount = type.serviceUUIDByteCount, value.count.isMultiple(of: byteCount) {
      let isComplete = type.rawValue % 2 == 1
      let count = value.count / byteCount
      text.line(
        indent,
        "\(8 * byteCount)-bit Service UUIDs (\(isComplete ? "complete" : "partial")): \(count) "
          + (count == 1 ? "entry" : "entries"))
      for index in 0..<count {
        guard let uuid = value.uuid(at: index * byteCount, byteCount: byteCount) else { continue }
        text.line(indent + 2, PacketText.uuid(uuid))
      }
    } else if let byteCount = type.serviceDataUUIDByteCount, value.count >= byteCount,
      let uuid = value.uuid(at: 0, byteCount: byteCount)
    {
      text.line(indent, "Service Data: \(PacketText.uuid(uuid))")
      text.line(indent + 2, "Data: \(PacketText.hex(value.extracting(byteCount...)))")
    } else {
      text.line(indent, "AD type 0x\(hexadecimal(type.rawValue)): \(PacketText.hex(value))")
    }
  }
}

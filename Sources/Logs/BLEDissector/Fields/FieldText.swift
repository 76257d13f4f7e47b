import BLEPacketLog
import BLEWire

/// Text for the values of fields, printed after the label.
enum FieldText {
  /// Returns the value as text.
  ///
  /// - Parameters:
  ///   - value: exactly the bytes of the field.
  ///   - type: address type from the last address type field before this field.
  static func text(_ kind: PacketField.Kind, _ value: Span<UInt8>, _ type: AddressType) -> String {
    let number = number(value)
    let digits = PacketText.hex(number, digits: 2 * value.count)
    if let word = word(kind, value) { return "\(word) (\(digits))" }
    switch kind {
    case .hexadecimal, .extendedEventType, .eventMask, .secondEventMask, .subeventMask, .bits, .deviceClass,
      .advertisingProperties,
      .voiceSetting:
      return digits
    case .controller: return "hci\(number)"
    case .both: return "\(number) (\(digits))"
    case .signed: return "\(signed(value))"
    case .octets, .channelMap, .lmpFeatures, .sizedOctets, .rest: return PacketText.hex(value)
    case .connectionHandle: return "\(value.u16(at: 0) & 0x0FFF)"
    case .dBm, .rssi:
      return isKnownPower(value[0])
        ? "\(Int8(bitPattern: value[0])) dBm (\(digits))" : "not available (\(digits))"
    case .slots: return "\(PacketText.decimal(Int64(number) * 625, places: 3)) msec (\(digits))"
    case .connectionIntervals: return "\(PacketText.decimal(Int64(number) * 125, places: 2)) msec (\(digits))"
    case .halfSlots: return "\(PacketText.decimal(Int64(number) * 3_125, places: 4)) msec (\(digits))"
    case .centiseconds: return "\(number * 10) msec (\(digits))"
    case .inquiryIntervals: return "\(number * 1_280) msec (\(digits))"
    case .milliseconds: return "\(number) msec (\(digits))"
    case .seconds: return counted(number, "second")
    case .address: return address(value.address(at: 0, type: type))
    case .randomAddress: return address(value.address(at: 0, type: .random))
    case .publicAddress: return address(value.address(at: 0, type: .public))
    case .uuid: return value.uuid(at: 0, byteCount: 16).map { PacketText.uuid($0) } ?? ""
    case .features: return octets(value)
    case .supportedCommands: return counted(bitCount(value), "entry", "entries")
    default: return "\(number)"
    }
  }

  /// Returns the name of a value; `nil` if the field's values have no names.
  static func word(_ kind: PacketField.Kind, _ value: Span<UInt8>) -> String? {
    switch kind {
    case .status, .reason: HCIStatusNames.name(of: HCIStatus(rawValue: value[0]))
    case .addressType: FieldWords.addressTypes[UInt16(value[0])] ?? "Reserved"
    case .enumeration(let words, _): words[UInt16(truncatingIfNeeded: number(value))] ?? "Reserved"
    case .company: NumberNames.companies[value.u16(at: 0)] ?? "Reserved"
    case .managementCommand: ManagementTable.commands[value.u16(at: 0)]?.name ?? "Unknown"
    case .managementEvent: ManagementTable.events[value.u16(at: 0)]?.name ?? "Unknown"
    case .channels: channels(value[0])
    case .authentication: authentication(value[0])
    case .keyDistribution: keys(value[0])
    default: nil
    }
  }

  /// Returns the names of the set bits, or of the parts of a field; `nil` if the field has no parts.
  ///
  /// - Parameter page: value of the last page field.
  static func names(_ kind: PacketField.Kind, _ value: Span<UInt8>, page: UInt8) -> [String]? {
    switch kind {
    case .features: BitNames.words(of: value.u64(at: 0), BitNames.features)
    case .bits(let names, _): BitNames.words(of: number(value), names)
    case .lmpFeatures(let fixed):
      BitNames.words(of: value.u64(at: 0), BitNames.lmpFeatures[fixed ?? page] ?? [:])
    case .supportedCommands: BitNames.commands(value)
    case .eventMask: masked(value.u64(at: 0), HCIEventTable.layouts, from: 1)
    case .secondEventMask: masked(value.u64(at: 0), HCIEventTable.layouts, from: 0x40)
    case .subeventMask: masked(value.u64(at: 0), HCIEventTable.subevents, from: 1)
    case .extendedEventType: BitNames.advertising(value.u16(at: 0), isReport: true)
    case .advertisingProperties: BitNames.advertising(value.u16(at: 0), isReport: false)
    case .featureBit:
      Int(value[0]) < BitNames.features.count ? [BitNames.features[Int(value[0])]] : []
    case .channelMap: BitNames.channels(value)
    case .deviceClass: DeviceClassNames.names(of: value.u24(at: 0))
    case .voiceSetting: BitNames.voice(value.u16(at: 0))
    default: nil
    }
  }

  /// Returns whether a power in dBm is known. 127 means "not available". Core 5.4, Vol 4, Part E, 7.7.65.2.
  static func isKnownPower(_ octet: UInt8) -> Bool { octet != 0x7F }

  static func address(_ address: DeviceAddress) -> String {
    "\(address) (\(address.kindName))"
  }

  @_lifetime(copy octets)
  static func untilZero(_ octets: Span<UInt8>) -> Span<UInt8> {
    for index in octets.indices where octets[index] == 0 { return octets.extracting(first: index) }
    return octets
  }

  /// Returns the first eight bytes as a little-endian number.
  static func number(_ value: Span<UInt8>) -> UInt64 {
    var number: UInt64 = 0
    for index in 0..<min(8, value.count) { number |= UInt64(value[index]) << (8 * UInt64(index)) }
    return number
  }

  /// Returns the bytes as a little-endian number in two's complement.
  static func signed(_ value: Span<UInt8>) -> Int64 {
    let unused = 64 - 8 * Int64(min(8, max(1, value.count)))
    return Int64(bitPattern: number(value) << UInt64(unused)) >> unused
  }

  private static func octets(_ value: Span<UInt8>) -> String {
    var text = ""
    for index in value.indices { text += (index == 0 ? "0x" : " 0x") + hexadecimal(value[index]) }
    return text
  }

  private static func bitCount(_ value: Span<UInt8>) -> Int {
    var count = 0
    for index in value.indices { count += value[index].nonzeroBitCount }
    return count
  }

  private static func channels(_ bits: UInt8) -> String {
    [(1, "37"), (2, "38"), (4, "39")].filter { bits & $0.0 != 0 }.map(\.1).joined(separator: ", ")
  }

  private static func authentication(_ bits: UInt8) -> String {
    [
      bits & 3 == 0 ? "No bonding" : bits & 3 == 1 ? "Bonding" : "Reserved",
      bits & 4 == 0 ? "No MITM" : "MITM",
      bits & 8 == 0 ? "Legacy" : "SC",
      bits & 16 == 0 ? "No Keypresses" : "Keypresses",
    ].joined(separator: ", ") + (bits & 32 == 0 ? "" : ", CT2")
  }

  private static func keys(_ bits: UInt8) -> String {
    let names = BitNames.words(of: UInt64(bits), ["EncKey", "IdKey", "Sign", "LinkKey"])
    return names.isEmpty ? "<none>" : names.joined(separator: " ")
  }

  /// Returns the names of the events in a mask.
  ///
  /// - Parameter first: number of the event of bit 0.
  private static func masked(_ bits: UInt64, _ events: [UInt16: PacketLayout], from first: UInt16) -> [String]
  {
    (0..<64 as Range<UInt16>).filter { bits & 1 << UInt64($0) != 0 }.map {
      events[$0 + first]?.name ?? "event 0x\(hexadecimal(UInt8($0 + first)))"
    }
  }
}

extension DeviceAddress {
  /// Name of the type of a random address, determined by its two most significant bits. Core 5.4, Vol 6, Part
  /// B, 1.3.2.
  var kindName: String {
    guard type == .random else { return "Public" }
    return switch bits >> 46 {
    case 0: "Non-Resolvable"
    case 1: "Resolvable"
    case 3: "Static"
    default: "Reserved"
    }
  }
}

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
    case .hexadecimal, .extendedEventType, .eventMask, .subeventMask: return digits
    case .both: return "\(number) (\(digits))"
    case .octets: return PacketText.hex(value)
    case .connectionHandle: return "\(value.u16(at: 0) & 0x0FFF)"
    case .dBm, .rssi:
      return isKnownPower(value[0])
        ? "\(Int8(bitPattern: value[0])) dBm (\(digits))" : "not available (\(digits))"
    case .slots: return "\(PacketText.decimal(Int64(number) * 625, places: 3)) msec (\(digits))"
    case .connectionIntervals: return "\(PacketText.decimal(Int64(number) * 125, places: 2)) msec (\(digits))"
    case .centiseconds: return "\(number * 10) msec (\(digits))"
    case .seconds: return "\(number) seconds"
    case .address: return address(value.address(at: 0, type: type))
    case .randomAddress: return address(value.address(at: 0, type: .random))
    case .publicAddress: return address(value.address(at: 0, type: .public))
    case .features: return octets(value)
    case .bitCount: return "\(bitCount(value)) entries"
    default: return "\(number)"
    }
  }

  /// Returns the name of a value; `nil` if the field's values have no names.
  static func word(_ kind: PacketField.Kind, _ value: Span<UInt8>) -> String? {
    switch kind {
    case .status, .reason: HCIStatusNames.name(of: HCIStatus(rawValue: value[0]))
    case .addressType: FieldWords.addressTypes[UInt16(value[0])] ?? "Reserved"
    case .enumeration(let words, _): words[UInt16(truncatingIfNeeded: number(value))] ?? "Reserved"
    case .channels: channels(value[0])
    case .authentication: authentication(value[0])
    case .keyDistribution: keys(value[0])
    default: nil
    }
  }

  /// Returns the names of the set bits; `nil` if the field is not a bit mask.
  static func names(_ kind: PacketField.Kind, _ value: Span<UInt8>) -> [String]? {
    switch kind {
    case .features: words(of: value.u64(at: 0), features)
    case .eventMask: masked(value.u64(at: 0), HCIEventTable.layouts)
    case .subeventMask: masked(value.u64(at: 0), HCIEventTable.subevents)
    case .extendedEventType: words(of: UInt64(value.u16(at: 0)), eventTypes)
    default: nil
    }
  }

  /// Whether a power in dBm is known. 127 means "not available". Core 5.4, Vol 4, Part E, 7.7.65.2.
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
    let names = words(of: UInt64(bits), ["EncKey", "IdKey", "Sign", "LinkKey"])
    return names.isEmpty ? "<none>" : names.joined(separator: " ")
  }

  private static func masked(_ bits: UInt64, _ events: [UInt16: PacketLayout]) -> [String] {
    (0..<64 as Range<UInt16>).filter { bits & 1 << UInt64($0) != 0 }.map {
      events[$0 + 1]?.name ?? "event 0x\(hexadecimal(UInt8($0 + 1)))"
    }
  }

  private static func words(of bits: UInt64, _ names: [String]) -> [String] {
    (0..<64).filter { bits & 1 << UInt64($0) != 0 }.map { $0 < names.count ? names[$0] : "bit \($0)" }
  }

  /// Core 5.4, Vol 6, Part B, 4.6.
  private static let features = [
    "LE Encryption", "Connection Parameter Request Procedure", "Extended Reject Indication",
    "Peripheral-initiated Features Exchange", "LE Ping", "LE Data Packet Length Extension", "LL Privacy",
    "Extended Scanner Filter Policies", "LE 2M PHY", "Stable Modulation Index - Transmitter",
    "Stable Modulation Index - Receiver", "LE Coded PHY", "LE Extended Advertising",
    "LE Periodic Advertising",
    "Channel Selection Algorithm #2", "LE Power Class 1", "Minimum Number of Used Channels Procedure",
    "Connection CTE Request", "Connection CTE Response", "Connectionless CTE Transmitter",
    "Connectionless CTE Receiver", "Antenna Switching During CTE Transmission (AoD)",
    "Antenna Switching During CTE Reception (AoA)", "Receiving Constant Tone Extensions",
    "Periodic Advertising Sync Transfer - Sender", "Periodic Advertising Sync Transfer - Recipient",
    "Sleep Clock Accuracy Updates", "Remote Public Key Validation", "Connected Isochronous Stream - Central",
    "Connected Isochronous Stream - Peripheral", "Isochronous Broadcaster", "Synchronized Receiver",
    "Connected Isochronous Stream (Host Support)", "LE Power Control Request", "LE Power Control Request",
    "LE Path Loss Monitoring", "Periodic Advertising ADI support", "Connection Subrating",
    "Connection Subrating (Host Support)", "Channel Classification",
  ]

  /// Core 5.4, Vol 4, Part E, 7.7.65.13.
  private static let eventTypes = [
    "Connectable", "Scannable", "Directed", "Scan response", "Use legacy advertising PDUs",
    "Data incomplete, more to come", "Data truncated",
  ]
}

extension DeviceAddress {
  /// Name of the type of a random address, from its two most significant bits. Core 5.4, Vol 6, Part B,
  /// 1.3.2.
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

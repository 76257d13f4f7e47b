import BLECore
import BLEWire

/// The records of format 2001 that are no HCI packets, in the words of `btmon`.
///
/// `doc/btsnoop-protocol.rst` and `src/shared/btsnoop.h` of BlueZ. Remembers which adapter has which address and which
/// program holds which channel: later records only have the numbers.
struct MonitorNotes {
  /// Channels that are remembered.
  static let maximumChannels = 256

  var addresses: [UInt16: DeviceAddress] = [:]
  /// Kind and program of an open channel, by its cookie.
  private(set) var channels: [UInt32: (kind: String, program: String)] = [:]

  /// - Parameter opcode: the lower half of the record's flags.
  /// - Returns: the title of the record, and how many of its first octets that says.
  mutating func title(
    _ opcode: UInt16, _ octets: Span<UInt8>, adapter: UInt16
  ) -> (title: String, said: Int) {
    let all = octets.count
    switch opcode {
    case 0: return ("= New Index" + address(octets, at: 2, adapter) + Self.kind(octets), all)
    case 1: return ("= Delete Index" + address(octets, at: 0, adapter), all)
    case 8: return ("= Open Index" + address(octets, at: 0, adapter), all)
    case 9: return ("= Close Index" + address(octets, at: 0, adapter), all)
    case 10: return ("= Index Info" + address(octets, at: 0, adapter) + Self.manufacturer(octets), all)
    case 11: return ("= Vendor Diagnostic (len \(all))", 0)
    case 12: return ("= Note: \(PacketText.string(octets))", all)
    case 13: return ("= " + Self.logging(octets), all)
    case 14: return open(octets)
    case 15: return close(octets)
    case 16: return control("Command", octets)
    case 17: return control("Event", octets)
    default: return ("= Record \(opcode) (len \(all))", 0)
    }
  }

  private mutating func address(_ octets: Span<UInt8>, at offset: Int, _ adapter: UInt16) -> String {
    knownAddress(octets, at: offset, adapter).map { ": \($0)" } ?? ""
  }

  /// The adapter's address, which the record has at `offset` or an earlier one had.
  mutating func knownAddress(_ octets: Span<UInt8>, at offset: Int, _ adapter: UInt16) -> DeviceAddress? {
    if octets.count >= offset + 6 { addresses[adapter] = octets.address(at: offset, type: .public) }
    return addresses[adapter]
  }

  /// Type, bus and name: `(Primary,Virtual,hci0)`.
  private static func kind(_ octets: Span<UInt8>) -> String {
    guard octets.count >= 8 else { return "" }
    return
      " (\(word(types, octets[0])),\(word(buses, octets[1])),\(PacketText.string(FieldText.untilZero(octets.extracting(8...)))))"
  }

  static let types = ["Primary", "AMP"]
  static let buses = [
    "Virtual", "USB", "PCCARD", "UART", "RS232", "PCI", "SDIO", "SPI", "I2C", "SMD", "VIRTIO",
  ]
  static let channelKinds = ["RAW", "USER", "MGMT"]

  static func word(_ words: [String], _ number: UInt8) -> String {
    Int(number) < words.count ? words[Int(number)] : "Unknown"
  }

  private static func manufacturer(_ octets: Span<UInt8>) -> String {
    guard octets.count >= 8 else { return "" }
    let number = octets.u16(at: 6)
    return " (\(FieldWords.byName["company"]?[number] ?? "manufacturer \(number)"))"
  }

  /// Priority, length of the identifier, identifier, text.
  private static func logging(_ octets: Span<UInt8>) -> String {
    guard octets.count >= 2, octets.count >= 2 + Int(octets[1]) else {
      return "User Logging (len \(octets.count))"
    }
    let end = 2 + Int(octets[1])
    let name = PacketText.string(octets.extracting(2..<end))
    return "\(name): \(PacketText.string(octets.extracting(end...)))"
  }

  /// Cookie, kind of channel, version, revision, flags, length of the program's name, name.
  private mutating func open(_ octets: Span<UInt8>) -> (title: String, said: Int) {
    guard octets.count >= 14 else { return ("@ Open (len \(octets.count))", 0) }
    let cookie = octets.u32(at: 0)
    let (kind, program) = noteOpen(octets)
    let privilege = octets.u32(at: 9) & 1 == 0 ? "" : " (privileged)"
    let version = "\(octets[6]).\(octets.u16(at: 7))"
    return ("@ \(kind) Open: \(program)\(privilege) version \(version) \(Self.mark(cookie))", octets.count)
  }

  private mutating func close(_ octets: Span<UInt8>) -> (title: String, said: Int) {
    guard octets.count >= 4 else { return ("@ Close (len \(octets.count))", 0) }
    let cookie = octets.u32(at: 0)
    let channel = noteClose(cookie)
    return ("@ \(channel?.kind ?? "Channel") Close: \(channel?.program ?? "unknown") \(Self.mark(cookie))", 4)
  }

  /// - Parameter octets: at least 14.
  mutating func noteOpen(_ octets: Span<UInt8>) -> (kind: String, program: String) {
    let number = Int(octets.u16(at: 4))
    let kind = number < Self.channelKinds.count ? Self.channelKinds[number] : "Channel \(number)"
    let program = PacketText.string(octets.extracting(14..<min(octets.count, 14 + Int(octets[13]))))
    if channels.count < Self.maximumChannels { channels[octets.u32(at: 0)] = (kind, program) }
    return (kind, program)
  }

  mutating func noteClose(_ cookie: UInt32) -> (kind: String, program: String)? {
    channels.removeValue(forKey: cookie)
  }

  /// Cookie, number, parameters of the management interface.
  private func control(_ word: String, _ octets: Span<UInt8>) -> (title: String, said: Int) {
    guard octets.count >= 6 else { return ("@ \(word) (len \(octets.count))", 0) }
    let cookie = octets.u32(at: 0)
    let number = octets.u16(at: 4)
    let names = word == "Command" ? ManagementNames.commands : ManagementNames.events
    let kind = channels[cookie]?.kind ?? "MGMT"
    let digits = PacketText.hex(UInt64(number), digits: 4)
    let title = "@ \(kind) \(word): \(names[number] ?? "Unknown") (\(digits))"
    return ("\(title) plen \(octets.count - 6) \(Self.mark(cookie))", 6)
  }

  /// `{0x0002}`: the number of a channel.
  private static func mark(_ cookie: UInt32) -> String { "{\(PacketText.hex(UInt64(cookie), digits: 4))}" }
}

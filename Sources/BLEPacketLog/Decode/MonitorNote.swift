import BLECore
import BLEWire

/// The records of format 2001 that are no HCI packets. `doc/btsnoop-protocol.rst` of BlueZ.
enum MonitorNote {
  /// The title of a record, and the octets that it leaves unsaid.
  ///
  /// - Parameter opcode: the lower half of the record's flags.
  @_lifetime(copy octets)
  static func rest(_ opcode: UInt16, _ octets: Span<UInt8>) -> Span<UInt8> {
    switch opcode {
    case 0...1, 8...10, 12...13: octets.extracting(last: 0)
    default: octets
    }
  }

  static func title(_ opcode: UInt16, _ octets: Span<UInt8>) -> String {
    switch opcode {
    case 0: "New Index" + address(octets, at: 2) + kind(octets)
    case 1: "Delete Index" + address(octets, at: 0)
    case 8: "Open Index" + address(octets, at: 0)
    case 9: "Close Index" + address(octets, at: 0)
    case 10: "Index Info" + address(octets, at: 0) + manufacturer(octets)
    case 11: "Vendor Diagnostic (len \(octets.count))"
    case 12: "Note: \(PacketText.string(octets))"
    case 13: logging(octets)
    case 14: "Control Open (len \(octets.count))"
    case 15: "Control Close (len \(octets.count))"
    case 16: "Control Command (len \(octets.count))"
    case 17: "Control Event (len \(octets.count))"
    default: "Record \(opcode) (len \(octets.count))"
    }
  }

  private static func address(_ octets: Span<UInt8>, at offset: Int) -> String {
    octets.count < offset + 6 ? "" : ": \(octets.address(at: offset, type: .public))"
  }

  /// Type, bus and name: `(Primary,Virtual,hci0)`.
  private static func kind(_ octets: Span<UInt8>) -> String {
    guard octets.count >= 8 else { return "" }
    let types = ["Primary", "AMP"]
    let buses = ["Virtual", "USB", "PCCARD", "UART", "RS232", "PCI", "SDIO", "SPI", "I2C", "SMD", "VIRTIO"]
    let type = Int(octets[0]) < types.count ? types[Int(octets[0])] : "Unknown"
    let bus = Int(octets[1]) < buses.count ? buses[Int(octets[1])] : "Unknown"
    return " (\(type),\(bus),\(PacketText.string(FieldText.untilZero(octets.extracting(8...)))))"
  }

  private static func manufacturer(_ octets: Span<UInt8>) -> String {
    guard octets.count >= 8 else { return "" }
    let number = octets.u16(at: 6)
    return " (\(FieldWords.byName["company"]?[number] ?? "manufacturer \(number)"))"
  }

  /// Priority, length of the identifier, identifier, text.
  private static func logging(_ octets: Span<UInt8>) -> String {
    guard octets.count >= 2, octets.count >= 2 + Int(octets[1]) else { return "User Logging (len \(octets.count))" }
    let end = 2 + Int(octets[1])
    let name = PacketText.string(octets.extracting(2..<end))
    return "\(name): \(PacketText.string(octets.extracting(end...)))"
  }
}

import BLELinux
import BLEWire

extension BluetoothUUID {
  /// Four digits for a UUID assigned by the SIG, else the full form.
  package var shortText: String {
    guard let short else { return description }
    let digits = String(short, radix: 16)
    return String(repeating: "0", count: 4 - digits.count) + digits
  }
}

extension [UInt8] {
  /// Two lower-case digits per byte.
  package var hexText: String { map { hexadecimal($0) }.joined() }

  /// Parses digits with or without spaces, colons or a leading 0x.
  package init?(hex text: String) {
    var digits = text.filter { !" :".contains($0) }
    if digits.hasPrefix("0x") { digits.removeFirst(2) }
    guard digits.utf8.count.isMultiple(of: 2) else { return nil }
    var octets: [UInt8] = []
    var rest = digits[...]
    while !rest.isEmpty {
      let pair = rest.prefix(2)
      guard pair.allSatisfy(\.isHexDigit), let octet = UInt8(pair, radix: 16) else { return nil }
      octets.append(octet)
      rest = rest.dropFirst(2)
    }
    self = octets
  }
}

extension AdapterInfo {
  /// Name of the bus for the kernel's number (`HCI_VIRTUAL` …).
  package var busName: String {
    switch bus {
    case 0: "virtual"
    case 1: "usb"
    case 2: "pccard"
    case 3: "uart"
    case 4: "rs232"
    case 5: "pci"
    case 6: "sdio"
    case 7: "spi"
    case 8: "i2c"
    default: "bus \(bus)"
    }
  }
}

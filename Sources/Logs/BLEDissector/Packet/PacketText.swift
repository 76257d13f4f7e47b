package import BLEWire
import JSONText

/// Text of packets: lines in the style of `btmon`, or one line for each packet.
struct PacketText {
  private(set) var octets: [UInt8] = []
  /// Whether the text has terminal escape sequences for colours.
  let isColored: Bool
  let isBrief: Bool
  private let columns: Int?
  /// In brief text, the parts and the colour of the packet that is being printed; `nil` between packets.
  private var brief: (parts: [String], color: Color)?

  /// Creates an empty text.
  ///
  /// - Parameter columns: width of the terminal, to which lines of brief text are cut; `nil` for no limit.
  init(isColored: Bool, isBrief: Bool = false, columns: Int? = nil) {
    self.isColored = isColored
    self.isBrief = isBrief
    self.columns = columns
  }

  mutating func removeAll() { octets.removeAll(keepingCapacity: true) }

  static func string(_ octets: Span<UInt8>) -> String {
    var copy = [UInt8](encoding: octets.count) { $0.append(octets) }
    while copy.last == 0 { copy.removeLast() }
    return String(decoding: copy, as: UTF8.self).printable
  }

  // MARK: Lines

  mutating func line(_ indent: Int, _ text: String) {
    guard brief == nil else { return note(text) }
    space(indent)
    octets.append(contentsOf: text.utf8)
    octets.append(UInt8(ascii: "\n"))
  }

  mutating func line(_ indent: Int, _ text: String, color: Color) {
    line(indent, isColored && brief == nil ? color.rawValue + text + Color.reset : text)
  }

  // MARK: Brief text

  /// Starts the line of a packet. Until `endPacket`, further lines become parts of this line.
  ///
  /// - Parameter title: the title; `nil` if the next line is the title.
  mutating func begin(_ prefix: String, _ title: String?, color: Color) {
    brief = ([prefix], color)
    if let title { note(title) }
  }

  /// Ends the line of a packet. Does nothing in full text.
  mutating func endPacket() {
    guard let (parts, color) = brief else { return }
    brief = nil
    let text = parts[0] + parts.dropFirst().joined(separator: ", ")
    let isCut = columns.map { text.count > $0 } ?? false
    line(0, isCut ? text.prefix(max(1, (columns ?? 0) - 1)) + "…" : text, color: color)
  }

  private mutating func note(_ text: String) {
    let text = Self.abridged(text)
    if !text.isEmpty { brief?.parts.append(text) }
  }

  /// Returns a shorter form of a title: without the numbers and lengths at its end, the labels of an
  /// attribute's handle and value, and the UUID of an attribute that has a name. The number after a general
  /// name such as "Unknown" stays.
  private static func abridged(_ text: String) -> String {
    let text = String(text.trimmingPrefix(text.hasPrefix("Handle: 0x") ? "Handle: " : "Data: "))
    let octets = Array(text.utf8)
    guard let open = octets.indices.first(where: { octets[$0...].starts(with: " (".utf8) }) else {
      return text.hasSuffix(":") ? "" : text
    }
    let start = text[..<text.utf8.index(text.startIndex, offsetBy: open)]
    guard let close = octets[open...].firstIndex(of: UInt8(ascii: ")")) else { return text }
    let inner = octets[(open + 2)..<close]
    let rest = text[text.utf8.index(text.startIndex, offsetBy: close + 1)...]
    let isUUID = inner.count == 36 && inner.filter { $0 == UInt8(ascii: "-") }.count == 4
    if isUUID { return start.hasSuffix("Vendor specific") ? text : String(start + rest) }
    let isNumber = inner.starts(with: "0x".utf8)
    let isCount = [" len ", " plen ", " dlen ", " ncmd ", " ident "].contains { rest.hasPrefix($0) }
    guard isNumber, rest.isEmpty || isCount else { return text }
    let isNamed = !unnamed.contains { start.hasSuffix($0) }
    return isNamed ? String(start) : String(text[..<rest.startIndex])
  }

  private static let unnamed = ["Unknown", "Reserved", "Vendor", "Vendor specific", "Application Error"]

  enum Color: String {
    case command = "\u{1B}[34m"
    case event = "\u{1B}[35m"
    case data = "\u{1B}[36m"
    case note = "\u{1B}[33m"
    case problem = "\u{1B}[31m"
    static let reset = "\u{1B}[0m"
  }

  /// Number of bytes of a hex dump that brief text shows.
  private static let briefByteCount = 16

  /// Prints a hex dump: sixteen bytes per line, with their ASCII characters.
  mutating func dump(_ indent: Int, _ bytes: Span<UInt8>) {
    guard brief == nil else {
      let shown = min(bytes.count, Self.briefByteCount)
      return note(Self.hex(bytes.extracting(first: shown)) + (shown < bytes.count ? "…" : ""))
    }
    var start = 0
    while start < bytes.count {
      let end = min(start + 16, bytes.count)
      space(indent)
      for index in start..<end {
        octets.append(hexadecimalDigit(bytes[index] >> 4))
        octets.append(hexadecimalDigit(bytes[index] & 0x0F))
        octets.append(UInt8(ascii: " "))
      }
      space(49 - 3 * (end - start))
      for index in start..<end {
        octets.append((0x20..<0x7F).contains(bytes[index]) ? bytes[index] : UInt8(ascii: "."))
      }
      octets.append(UInt8(ascii: "\n"))
      start = end
    }
  }

  private mutating func space(_ count: Int) {
    octets.append(contentsOf: repeatElement(UInt8(ascii: " "), count: count))
  }

  mutating func malformed(_ indent: Int, _ reason: String, _ bytes: Span<UInt8>) {
    malformed(indent, reason)
    dump(indent, bytes)
  }

  mutating func malformed(_ indent: Int, _ reason: String) {
    line(indent, "! malformed: \(reason)", color: .problem)
  }

  static func hex(_ bytes: Span<UInt8>) -> String {
    var digits: [UInt8] = []
    digits.reserveCapacity(2 * bytes.count)
    for index in bytes.indices {
      digits.append(hexadecimalDigit(bytes[index] >> 4))
      digits.append(hexadecimalDigit(bytes[index] & 0x0F))
    }
    return String(decoding: digits, as: UTF8.self)
  }

  static func hex(_ number: UInt64, digits: Int) -> String {
    let text = String(number, radix: 16)
    return "0x" + String(repeating: "0", count: max(0, digits - text.utf8.count)) + text
  }

  static func hex(_ handle: AttributeHandle) -> String { hex(UInt64(handle.rawValue), digits: 4) }

  /// Formats a number in units of 10 to the power of −`places` as a decimal number.
  static func decimal(_ number: Int64, places: Int) -> String {
    let digits = String(number.magnitude)
    let padded = String(repeating: "0", count: max(0, places + 1 - digits.utf8.count)) + digits
    let point = padded.index(padded.endIndex, offsetBy: -places)
    return (number < 0 ? "-" : "") + padded[..<point] + (places == 0 ? "" : "." + padded[point...])
  }

  static func uuid(_ uuid: BluetoothUUID) -> String {
    let name = UUIDNames.name(of: uuid)
    guard let short = uuid.short else { return "\(name ?? "Vendor specific") (\(uuid))" }
    return "\(name ?? "Unknown") (\(hex(UInt64(short), digits: 4)))"
  }
}

// Names for text and JSON. The names are in this module because the wire layer does not need them. Their type
// is `String`, not `StaticString`, because printing a `String` literal needs no allocation.

extension HCIDirection {
  /// Value of `direction` in JSON.
  package var name: String {
    switch self {
    case .hostToController: "hostToController"
    case .controllerToHost: "controllerToHost"
    }
  }
}

extension HCIPacketType {
  /// Value of `packetType` in JSON.
  package var name: String {
    switch self {
    case .command: "command"
    case .event: "event"
    case .acl: "acl"
    case .sco: "sco"
    case .iso: "iso"
    case .vendor: "vendor"
    default: "unknown"
    }
  }

  package var title: String {
    switch self {
    case .command: "HCI Command"
    case .event: "HCI Event"
    case .acl: "ACL Data"
    case .sco: "SCO Data"
    case .iso: "ISO Data"
    case .vendor: "Vendor"
    default: "Unknown packet"
    }
  }
}

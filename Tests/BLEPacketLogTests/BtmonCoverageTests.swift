import BLEDissector
import BLEPacketLog
import BLEWire
import Foundation
import LogKit
import TestKit
import Testing

/// One packet of each command and event, printed by us and by BlueZ's monitor. Nothing that `btmon` prints may
/// be missing.
///
/// A line of `btmon` has a counterpart if one of our lines has the same label and value, or, under another
/// label, the same number, address or bytes. Each line of ours is the counterpart of one line. Units and the
/// words of a value may differ, the number in the packet may not. Lines without a label, such as the names of
/// bits, must be the same.
@Suite @MainActor struct BtmonCoverageTests {
  /// Variants of each packet, so that nearly every named value occurs.
  private static let variants = 12

  @Test func missesNothing() throws {
    let packets = DescribedPacket.layouts.flatMap { shape, fields in
      (0..<Self.variants).map { DescribedPacket(shape, fields, variant: $0) }
    }.filter { BtmonFlaws.crashes[$0.shape] == nil && ($0.octets.count < 258 || $0.logged == nil) }
    // A channel of the management interface: cookie, format, version, revision, flags, name.
    let open = octetsOf("01000000 0200 01 1600 01000000 00")
    let file = monitorFile([(14, open)] + packets.map { ($0.monitorOpcode, $0.octets) })
    let output = try ExternalTool("btmon").output(["-C", "400", "-r"], of: file)
    let theirs = PrintedPacket.all(in: output.withoutColors).filter { !$0.title.contains("MGMT Open") }
    let ours = PrintedPacket.all(in: try shown(file)).filter { !$0.title.contains("MGMT Open") }
    try #require(theirs.count == packets.count && ours.count == packets.count)
    var (known, lines) = (0, 0)
    var missing: [DescribedPacket.Shape: Set<String>] = [:]
    for (packet, (their, our)) in zip(packets, zip(theirs, ours))
    where !their.isUnknown && !their.lines.isEmpty {
      known += 1
      lines += their.lines.count
      missing[packet.shape, default: []].formUnion(our.missing(from: their))
    }
    for (shape, texts) in missing {
      let left = texts.filter { !BtmonFlaws.explains($0, of: shape) }
      #expect(left.isEmpty, "\(shape): \(left.sorted().prefix(8))")
      let isNeeded = texts.contains { !BtmonFlaws.explains($0, of: nil) }
      #expect(isNeeded || BtmonFlaws.byShape[shape] == nil, "\(shape) has no such flaw")
    }
    // Commands, replies and events that btmon knows.
    #expect(missing.count == 852 && known > 10_000 && lines > 40_000, "\(missing.count), \(known), \(lines)")
  }

  private func shown(_ log: [UInt8]) throws -> String {
    var view = PacketView(PacketFilter(), PacketPrinter(style: .text), context: 0)
    var reader = PacketLogReader()
    var decoder = PacketDecoder()
    try reader.read(log.span) { record in
      if record.type == nil { view.take(note: record) } else { decoder.decode(record) { view.take($0) } }
    }
    return String(decoding: view.octets, as: UTF8.self)
  }
}

/// Lines of `btmon` 5.66 without a counterpart, with the reason.
private enum BtmonFlaws {
  typealias Flaw = (reason: String, lines: [String])

  /// Packets on which `btmon` crashes, because it reads beyond their end.
  static let crashes: [DescribedPacket.Shape: String] = [
    .returned(0x140C): "takes the sum of other bytes for the number of baud rates"
  ]

  static let everywhere: [Flaw] = [
    ("bits without a name, in one number; we name each by its number", ["Unknown "]),
    (
      "a heading of the lines below it",
      ["Entry ", "Pattern ", "Capabilities #", "public key:", "RSSI data:"]
    ),
  ]

  /// Lines that contain these words; all lines without a label, if empty.
  static let byShape: [DescribedPacket.Shape: Flaw] = [
    .command(0x040D): ("the PIN as text, which may be binary; we print bytes", ["PIN code"]),
    .command(0x0C01): ("names some events otherwise than in the titles of events", []),
    .command(0x0C63): ("names some events otherwise than in the titles of events", []),
    .command(0x2001): ("names some subevents otherwise than in the titles of subevents", []),
    .command(0x0C65): ("the code of the letters, too", ["Domain"]),
    .returned(0x0C64): ("the code of the letters, too", ["Domain"]),
    .returned(0x1001): ("Broadcom's firmware, computed from revision and subversion", ["Firmware", "Build"]),
    .event(0x0C): ("Broadcom's firmware, computed from revision and subversion", ["Firmware", "Build"]),
    .returned(0x1002): ("no names of newer commands", ["Octet "]),
    .returned(0x1004): ("two values on one line", ["Page: "]),
    .event(0x23): ("two values on one line", ["Page: "]),
    .managementReturned(0x01): ("two values on one line", ["Version: "]),
    .command(0x205B): ("reads a byte beyond the end", ["Advertising handle"]),
    .returned(0x2003): ("the name that Core 5.2 had for bit 32", ["Isochronous Channels (Host Support)"]),
    .subevent(0x04): ("the name that Core 5.2 had for bit 32", ["Isochronous Channels (Host Support)"]),
    .command(0x2044): (
      "words for bits that are not set", ["Reporting initially enabled", "Use advertising SID"]
    ),
    .command(0x2059): (
      "reads the fields at other places than 7.8.88 has them", ["Reporting", "Sync handle"]
    ),
    .returned(0x2067): ("lacks the handle of 7.8.102", ["invalid packet size"]),
    .returned(0x206F): ("lacks the handle of 7.8.110", ["invalid packet size"]),
    .command(0x206E): ("refuses a codec configuration, which 7.8.109 has", ["invalid packet size"]),
    .command(0x2069): ("takes one byte for the Max_PDU of 7.8.104, which has two", [""]),
    .subevent(0x0D): (
      "the event type once more, in parts",
      ["Props", "Data status", "Legacy PDU Type", "Primary PHY: Reserved"]
    ),
    .subevent(0x0F): ("does not know that data were lost", ["Data status: Reserved"]),
    .subevent(0x18): (
      "the handle twice, an interval without its number",
      ["Connection handle", "Periodic advertising Interval"]
    ),
    .subevent(0x1B): ("BN in place of PTO", ["PTO"]),
    .subevent(0x1D): ("BN in place of PTO", ["PTO"]),
    .subevent(0x22): ("BN in place of PTO", ["PTO"]),
    .managementReturned(0x3C): ("three values on one line", ["hci"]),
    .managementEvent(0x20): ("two values on one line", ["type 0x"]),
    .managementEvent(0x21): ("two values on one line", ["type 0x"]),
    .managementCommand(0x52): ("only the used bytes of a pattern; we print all 31", ["Value"]),
    .managementCommand(0x56): (
      "only the used bytes of a pattern, and 100 ms as the unit", ["Value", "sampling"]
    ),
    .managementCommand(0x54): ("24 of 32 bits of an interval", ["advertising interval"]),
    .managementEvent(0x2E): (
      "address and reason in the other order than the kernel's", ["Address", "Wake reason"]
    ),
    .managementCommand(0x59): (
      "number of the type that our label says, and undecoded data", ["Addr Type", "Data: "]
    ),
    .managementEvent(0x2F): (
      "number of the type that our label says, and undecoded data", ["Addr Type", "Data: "]
    ),
    .managementEvent(0x30): ("number of the type that our label says", ["Addr Type"]),
    .managementEvent(0x31): (
      "number of the type that our label says, and undecoded data", ["Addr Type", "Data: "]
    ),
  ]

  static func explains(_ line: String, of shape: DescribedPacket.Shape?) -> Bool {
    let flaws = everywhere + (shape.flatMap { byShape[$0] }.map { [$0] } ?? [])
    return flaws.contains { flaw in
      flaw.lines.isEmpty ? !line.contains(":") : flaw.lines.contains { line.contains($0) || $0.isEmpty }
    }
  }
}

/// The lines of a packet below its title.
private struct PrintedPacket {
  /// A line and its parts, taken apart once.
  struct Line {
    let text: String
    let label: Substring?
    let value: Substring
    /// The value in the packet: an address, the number in parentheses, bytes, or a number.
    let raw: String
    /// Label and value without the number in parentheses.
    let name: String

    init(_ text: String) {
      self.text = text
      let colon = text.firstIndex(of: ":")
      let value = colon.map { text[$0...].drop { ": ".contains($0) } } ?? text[...]
      let open = value.hasSuffix(")") ? value.lastIndex(of: "(") : nil
      let number = open.flatMap { Self.number(value[$0...].dropFirst().dropLast()) }
      label = colon.map { text[..<$0] }
      self.value = value
      raw =
        Self.address(value) ?? number ?? Self.bytes(value) ?? Self.number(value.prefix { $0 != " " })
        ?? String(value)
      name = number == nil ? text : String(text.dropLast(open.map { value[$0...].count } ?? 0).trimmed)
    }

    private static func address(_ value: Substring) -> String? {
      let octets = value.prefix(17).split(whereSeparator: { ":-".contains($0) })
      guard octets.count == 6, octets.allSatisfy({ $0.count == 2 && $0.allSatisfy(\.isHexDigit) }) else {
        return nil
      }
      return octets.joined(separator: ":")
    }

    /// At least five bytes.
    private static func bytes(_ value: Substring) -> String? {
      let digits = value.split(separator: " ").map { $0.hasPrefix("0x") ? $0.dropFirst(2) : $0 }.joined()
      return digits.count >= 10 && digits.allSatisfy(\.isHexDigit) ? digits : nil
    }

    private static func number(_ text: Substring) -> String? {
      let digits = text.filter { $0 != " " }
      if digits.hasPrefix("0x") { return UInt64(digits.dropFirst(2), radix: 16).map { "\($0)" } }
      return Int64(digits).map { "\($0)" }
    }
  }

  let title: String
  var lines: [Line] = []

  static func all(in text: String) -> [PrintedPacket] {
    var packets: [PrintedPacket] = []
    var texts: [String] = []
    func end() {
      if !packets.isEmpty { packets[packets.count - 1].lines = texts.map(Line.init) }
      texts = []
    }
    for line in text.split(whereSeparator: \.isNewline) {
      if ["< ", "> ", "@ ", "= "].contains(where: line.hasPrefix) {
        end()
        packets.append(PrintedPacket(title: String(line)))
        continue
      }
      let words = line.drop { $0 == " " }.trimmed
      // Bytes in hexadecimal and as text are no names.
      let isDump =
        words.utf8.dropFirst(2).first == UInt8(ascii: " ") && words.prefix(2).allSatisfy(\.isHexDigit)
      guard !isDump, line.hasPrefix("        "), !words.isEmpty else { continue }
      if words.hasPrefix("and "), let last = texts.popLast() {
        // A state of two roles.
        texts.append("\(last) \(words)")
      } else if words.hasSuffix(")"), let place = words.range(of: " (Octet ") {
        // The place of a command's bit.
        texts.append(String(words[..<place.lowerBound]))
      } else {
        texts.append(String(words))
      }
    }
    end()
    return packets
  }

  /// Whether `btmon` does not know the packet.
  var isUnknown: Bool { title.contains("Unknown (") || lines.contains { $0.text.hasPrefix("Unknown (0x") } }

  /// Lines of the other program without a counterpart here.
  func missing(from other: PrintedPacket) -> [String] {
    var left = lines
    func take(_ line: Line, _ agrees: (Line, Line) -> Bool) -> Bool {
      guard let index = left.firstIndex(where: { agrees($0, line) }) else { return false }
      left.remove(at: index)
      return true
    }
    // Equal labels first, so that they are not taken as counterparts of others.
    let rest = other.lines.filter { line in
      !take(line) { our, their in
        our.text == their.text || our.name == their.text
          || our.label != nil && our.label == their.label && our.raw == their.raw
      }
    }
    return rest.filter { line in
      !take(line) { our, their in
        our.label != nil && (their.label == nil ? our.value == their.value : our.raw == their.raw)
      }
    }.map(\.text)
  }
}

extension String {
  fileprivate var withoutColors: String {
    split(separator: "\u{1B}[", omittingEmptySubsequences: false).enumerated().map { index, part in
      index == 0 ? part : part.drop { $0 != "m" }.dropFirst()
    }.joined()
  }
}

extension Substring {
  fileprivate var trimmed: Substring {
    var rest = self
    while let last = rest.last, last.isWhitespace { rest.removeLast() }
    return rest
  }
}

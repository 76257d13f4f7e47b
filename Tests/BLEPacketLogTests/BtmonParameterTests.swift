import BLEDissector
import BLEPacketLog
import BLEWire
import Foundation
import LogKit
import Testing

/// A packet in words: its title, and the parameters in the lines below, by their labels.
private struct WordedPacket {
  struct Parameter: Hashable {
    var label: String
    var value: String
  }

  var title: String
  var parameters: [Parameter] = []

  /// Packets in our text output or in `btmon`'s.
  static func all(in text: String) -> [WordedPacket] {
    var packets: [WordedPacket] = []
    // Deeper lines are vendor data, of which btmon decodes Apple's.
    var passed = Int.max
    for line in text.split(whereSeparator: \.isNewline) {
      if line.hasPrefix("< ") || line.hasPrefix("> ") {
        packets.append(WordedPacket(title: String(line.prefix { $0 != "#" })))
        passed = .max
      }
      let indentation = line.prefix { $0 == " " }.count
      // The command that a Command Complete belongs to.
      if indentation == 6, !packets.isEmpty { packets[packets.count - 1].title += String(line) }
      guard indentation >= 8, !packets.isEmpty, indentation <= passed else { continue }
      passed = .max
      for part in Self.parts(of: line) {
        guard let parameter = Parameter(part), !parameter.isTitle else { continue }
        if parameter.label == "Company" { passed = indentation }
        packets[packets.count - 1].parameters.append(parameter)
      }
    }
    return packets
  }

  /// Splits lines in which `btmon` has two parameters, or a unit that we have in the label.
  private static func parts(of line: Substring) -> [Substring] {
    // Only a few lines are affected, and the regular expressions are slow.
    guard ["vision ", "version ", "max packet:", "Page: ", "Timeout: "].contains(where: line.contains) else {
      return [line]
    }
    return line.replacing(/\s-\s(Revision|Subversion)\s/, with: { "\n\($0.output.1): " })
      .replacing(/\s+((ACL|SCO) max packet:)/, with: { "\n\($0.output.1)" })
      .replacing(/Page: ([0-9]+)\/([0-9]+)/, with: { "Page: \($0.output.1)\nMax page: \($0.output.2)" })
      .replacing(/Timeout: ([0-9]+) seconds/, with: { "Timeout in seconds: \($0.output.1)" })
      .split(separator: "\n")
  }
}

extension WordedPacket.Parameter {
  /// `nil` for a line without a label: bytes, and names of bits whose number is in the line above.
  init?(_ line: some StringProtocol) {
    guard let match = String(line).wholeMatch(of: /\s*([A-Z][A-Za-z0-9 .\/()-]*): ?(.*?)\s*/) else {
      return nil
    }
    label = String(match.output.1)
    value = String(match.output.2)
  }

  /// `btmon` numbers repeated entries.
  fileprivate var isTitle: Bool { label.hasPrefix("Entry ") }

  /// The address without the words after it.
  private var address: Substring? { value.prefixMatch(of: /[0-9A-F]{2}(:[0-9A-F]{2}){5}/)?.output.0 }

  /// The number in parentheses at the end, which is the parameter's value in the packet.
  private var raw: Int? {
    value.firstMatch(of: /\((0x[0-9a-f]+|[0-9]+)\)$/).flatMap { Self.number($0.output.1) }
  }

  /// Bytes in hexadecimal, with or without `0x` before each.
  private var octets: String? {
    let digits = value.replacing("0x", with: "").replacing(" ", with: "")
    return digits.count >= 10 && digits.allSatisfy(\.isHexDigit) ? digits : nil
  }

  /// The value without that number.
  private var text: Substring { value.prefix { $0 != "(" }.trimmingSuffix(while: \.isWhitespace) }

  /// Also parses a power: 127 dBm means not available, as in our output.
  private static func number(_ text: Substring) -> Int? {
    text.hasPrefix("0x") ? Int(text.dropFirst(2), radix: 16) : Int(text.trimmingSuffix(" dBm"))
  }

  /// Two intervals of 1.25 ms units in hexadecimal, in our format.
  private var interval: String? {
    let units = value.matches(of: /0x[0-9a-f]{4}/).compactMap { Self.number($0.output) }
    guard units.count == 2 else { return nil }
    return String(format: "%.2f to %.2f msec", 1.25 * Double(units[0]), 1.25 * Double(units[1]))
  }

  /// Whether both mean the same; if `differentWords` has the label, the words may differ.
  fileprivate func agrees(with other: Self) -> Bool {
    guard label == other.label else { return false }
    if value == other.value { return true }
    if label == "Peripheral Conn. Interval" { return other.interval == value }
    if let address { return address == other.address }
    if let raw, let otherRaw = other.raw {
      return raw == otherRaw && (text == other.text || Differences.words[label] != nil)
    }
    if text == other.text || octets != nil && octets == other.octets { return true }
    let numbers = (raw ?? Self.number(text), other.raw ?? Self.number(other.text))
    return numbers.0 != nil && numbers.0 == numbers.1
  }
}

extension Substring {
  fileprivate func trimmingSuffix(_ suffix: String) -> Substring {
    hasSuffix(suffix) ? dropLast(suffix.count) : self
  }

  fileprivate func trimmingSuffix(while predicate: (Character) -> Bool) -> Substring {
    var rest = self
    while let last = rest.last, predicate(last) { rest.removeLast() }
    return rest
  }
}

/// Known differences between the two programs, with the reason and which one is right.
private enum Differences {
  /// The number is the same, but the word is not.
  static let words: [String: String] = [
    "Service Data": "btmon has more names", "Company": "btmon has more names, and the number in decimal",
    "Operation": "btmon's word also says of what",
    "RSSI": "btmon knows that 127 dBm are no measurement (Core 5.4, Vol 4, Part E, 7.7.65.13)",
    "Period": "btmon knows the unit, 1.28 s; we print the number",
  ]

  /// Parameters that only `btmon` prints.
  static let onlyTheirs: [String: String] = [
    "Props": "the event type once more", "Legacy PDU Type": "the event type once more, in words",
    "Data status": "bits of the event type, which we name where they are set",
  ]
}

/// Parameters of HCI commands and events compared with BlueZ's monitor, label by label.
@Suite @MainActor struct BtmonParameterTests {
  /// Only commands and events, because btmon 5.66 crashes on some ATT requests.
  private func hciLog(of file: URL) throws -> [UInt8] {
    var writer = PacketLogWriter(.btsnoop(.monitor))
    var octets: [UInt8] = []
    writer.start(into: &octets)
    for record in LogReading([UInt8](try Data(contentsOf: file))).records {
      guard record.header.type == .command || record.header.type == .event else { continue }
      record.withRecord { writer.append($0, to: &octets) }
    }
    return octets
  }

  private func shown(_ log: [UInt8]) throws -> String {
    var reader = PacketLogReader()
    var decoder = PacketDecoder()
    var printer = PacketPrinter(style: .text)
    try reader.read(log.span) { record in decoder.decode(record) { printer.print($0) } }
    return String(decoding: printer.octets, as: UTF8.self)
  }

  @Test(arguments: Logs.all)
  func saysTheSame(_ file: URL) throws {
    let log = try hciLog(of: file)
    let tool = ExternalTool("btmon")
    let output = try tool.output(["-C", "250", "-r"], of: log)
    let theirs = WordedPacket.all(in: output.replacing(/\u{1B}\[[0-9;]*m/, with: ""))
    let ours = WordedPacket.all(in: try shown(log))
    #expect(ours.count == theirs.count)
    #expect(ours.count == LogReading(log).records.count)
    var compared = 0
    for (index, (our, their)) in zip(ours, theirs).enumerated() {
      compared += compare(our, their, "\(index + 1)")
    }
    #expect(compared >= 2 * ours.count)
  }

  /// - Returns: number of parameters that both print.
  private func compare(_ our: WordedPacket, _ their: WordedPacket, _ place: String) -> Int {
    var left = their.parameters.filter { Differences.onlyTheirs[$0.label] == nil }
    for parameter in our.parameters {
      // In order for each label, because some of btmon's lines have two parameters.
      guard let index = left.firstIndex(where: { $0.label == parameter.label }) else {
        Issue.record("\(place) \(our.title): theirs lacks \(parameter)")
        continue
      }
      let other = left.remove(at: index)
      #expect(parameter.agrees(with: other), "\(place) \(our.title): \(parameter), \(other)")
    }
    #expect(left.isEmpty, "\(place) \(our.title): ours lacks them")
    return our.parameters.count
  }
}

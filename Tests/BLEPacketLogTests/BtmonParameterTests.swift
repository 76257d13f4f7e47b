import BLEDissector
import BLEPacketLog
import BLEWire
import Foundation
import LogKit
import Testing

/// A packet as words: its title, and what the lines below say of its parameters, by their labels.
private struct WordedPacket {
  struct Parameter: Hashable {
    var label: String
    var value: String
  }

  var title: String
  var parameters: [Parameter] = []

  /// Packets of a text of ours or of `btmon`'s.
  static func all(in text: String) -> [WordedPacket] {
    var packets: [WordedPacket] = []
    // Lines deeper than that are the makers' own data, of which btmon takes Apple's apart.
    var passed = Int.max
    for line in text.split(whereSeparator: \.isNewline) {
      if line.hasPrefix("< ") || line.hasPrefix("> ") {
        packets.append(WordedPacket(title: String(line.prefix { $0 != "#" })))
        passed = .max
      }
      let indentation = line.prefix { $0 == " " }.count
      // What a Command Complete answers.
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

  /// `btmon` has two parameters in some lines, and a unit where we have it in the label.
  private static func parts(of line: Substring) -> [Substring] {
    // Few lines are such, and the expressions take long.
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
  /// `nil` for a line that has no label: octets, and the names of bits whose number stands above them.
  init?(_ line: some StringProtocol) {
    guard let match = String(line).wholeMatch(of: /\s*([A-Z][A-Za-z0-9 .\/()-]*): ?(.*?)\s*/) else {
      return nil
    }
    label = String(match.output.1)
    value = String(match.output.2)
  }

  /// `btmon` numbers what repeats.
  fileprivate var isTitle: Bool { label.hasPrefix("Entry ") }

  /// An address without the words behind it.
  private var address: Substring? { value.prefixMatch(of: /[0-9A-F]{2}(:[0-9A-F]{2}){5}/)?.output.0 }

  /// The number in parentheses at the end, which is the parameter as it is in the packet.
  private var raw: Int? {
    value.firstMatch(of: /\((0x[0-9a-f]+|[0-9]+)\)$/).flatMap { Self.number($0.output.1) }
  }

  /// Octets in hexadecimal, with `0x` before each or without.
  private var octets: String? {
    let digits = value.replacing("0x", with: "").replacing(" ", with: "")
    return digits.count >= 10 && digits.allSatisfy(\.isHexDigit) ? digits : nil
  }

  /// The value without that number.
  private var text: Substring { value.prefix { $0 != "(" }.trimmingSuffix(while: \.isWhitespace) }

  /// Also of a power: 127 dBm stands for one that is not available, as we say.
  private static func number(_ text: Substring) -> Int? {
    text.hasPrefix("0x") ? Int(text.dropFirst(2), radix: 16) : Int(text.trimmingSuffix(" dBm"))
  }

  /// Two of 1.25 ms in hexadecimal, as we print them.
  private var interval: String? {
    let units = value.matches(of: /0x[0-9a-f]{4}/).compactMap { Self.number($0.output) }
    guard units.count == 2 else { return nil }
    return String(format: "%.2f to %.2f msec", 1.25 * Double(units[0]), 1.25 * Double(units[1]))
  }

  /// Whether both say the same, in words that need not be the same where `differentWords` has the label.
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

/// Where the two programs differ, with who is right and why.
private enum Differences {
  /// The number is the same, the word is not.
  static let words: [String: String] = [
    "Service Data": "btmon has more names", "Company": "btmon has more names, and the number in decimal",
    "Operation": "btmon's word also says of what",
    "RSSI": "btmon knows that 127 dBm are no measurement (Core 5.4, Vol 4, Part E, 7.7.65.13)",
    "Period": "btmon knows the unit, 1.28 s; we print the number",
  ]

  /// Parameters that `btmon` alone prints.
  static let onlyTheirs: [String: String] = [
    "Props": "the event type once more", "Legacy PDU Type": "the event type once more, in words",
    "Data status": "bits of the event type, which we name where they are set",
  ]

  /// Of BR/EDR, whose parts we leave in one number or in octets: this is a tool for LE.
  static let lessTakenApart = ["Write Voice Setting", "Write Class of Device", "Read Local Supported Codecs"]
}

/// Parameters of HCI commands and events against BlueZ's monitor, label by label.
@Suite @MainActor struct BtmonParameterTests {
  /// Commands and events alone: btmon 5.66 crashes on some ATT requests.
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

  /// - Returns: parameters that both print.
  private func compare(_ our: WordedPacket, _ their: WordedPacket, _ place: String) -> Int {
    var left = their.parameters.filter { Differences.onlyTheirs[$0.label] == nil }
    for parameter in our.parameters {
      // In the order of each label: btmon has some lines of two parameters.
      guard let index = left.firstIndex(where: { $0.label == parameter.label }) else {
        Issue.record("\(place) \(our.title): theirs lacks \(parameter)")
        continue
      }
      let other = left.remove(at: index)
      #expect(parameter.agrees(with: other), "\(place) \(our.title): \(parameter), \(other)")
    }
    let isLessTakenApart = Differences.lessTakenApart.contains { our.title.contains(" \($0) (0x") }
    #expect(left.isEmpty || isLessTakenApart, "\(place) \(our.title): ours lacks them")
    return our.parameters.count
  }
}

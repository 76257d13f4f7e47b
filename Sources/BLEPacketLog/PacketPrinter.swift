import BLECore
import BLESensors
import BLEWire

/// Prints decoded packets, for programs or for people, into a buffer that its owner writes out and empties.
package struct PacketPrinter {
  package enum Style: Hashable, Sendable {
    /// One JSON object a line: the keys of `log show --json`.
    case json
    /// A header line for each packet and an indented ATT PDU, in the manner of `btmon`.
    case text
  }

  private let style: Style
  private var line = JSONLine()
  private var text: [UInt8] = []
  /// Times of the text form count from here.
  private var firstTime: Int64?

  package init(style: Style) { self.style = style }

  /// What was printed since the last `removeAll`.
  package var octets: [UInt8] { style == .json ? line.octets : text }

  package mutating func removeAll() {
    line.removeAll()
    text.removeAll(keepingCapacity: true)
  }

  package mutating func print(_ packet: borrowing DecodedPacket) {
    switch style {
    case .json: printJSON(packet)
    case .text: printText(packet)
    }
  }

  // MARK: JSON

  private mutating func printJSON(_ packet: borrowing DecodedPacket) {
    line.object { line in
      line.member("index", packet.index)
      line.member("timeNs", packet.time.nanoseconds)
      line.member("direction", packet.direction.name)
      line.member("packetType", packet.type.name)
      if let handle = packet.connectionHandle {
        line.member("connectionHandle", handle.rawValue)
      }
      if let att = packet.att {
        line.key("att")
        line.object { line in
          line.member("opcode", att.opcode.rawValue)
          if let handle = att.handle { line.member("handle", handle.rawValue) }
          if let offset = att.offset { line.member("offset", offset) }
          if let value = att.value { line.member("value", hex: value) }
          if att.hasOtherParameters { line.member("parameters", hex: att.parameters) }
        }
      }
      if let problem = packet.problem { line.member("problem", problem.description) }
    }
    line.endLine()
  }

  // MARK: Text

  private mutating func printText(_ packet: borrowing DecodedPacket) {
    let start = firstTime ?? packet.time.nanoseconds
    firstTime = start
    var header = packet.direction == .hostToController ? "< " : "> "
    header += Self.title(packet)
    let (elapsed, overflow) = packet.time.nanoseconds.subtractingReportingOverflow(start)
    let clock = "#\(packet.index) \(overflow ? "?" : Self.seconds(elapsed))"
    header.append(String(repeating: " ", count: max(1, Self.columns - header.utf8.count - clock.utf8.count)))
    append(line: header + clock)
    if let problem = packet.problem { append(line: "      ! \(problem)") }
    guard let att = packet.att else { return }
    var title = "      ATT: \(att.opcode.name) (0x\(Self.hexadecimal(att.opcode.rawValue)))"
    if let handle = att.handle { title += " handle 0x\(Self.hexadecimal(handle.rawValue))" }
    if let offset = att.offset { title += " offset \(offset)" }
    append(line: title)
    if let value = att.value { append(value: value) } else { append(value: att.parameters) }
  }

  /// Width of the header line, as `btmon` has it.
  private static let columns = 80

  private mutating func append(line: String) {
    text.append(contentsOf: line.utf8)
    text.append(UInt8(ascii: "\n"))
  }

  private mutating func append(value octets: Span<UInt8>) {
    if octets.isEmpty { return }
    text.append(contentsOf: "        ".utf8)
    for index in octets.indices {
      text.append(hexadecimalDigit(octets[index] >> 4))
      text.append(hexadecimalDigit(octets[index] & 0x0F))
    }
    text.append(UInt8(ascii: "\n"))
    if let note = Self.ringSample(octets) { append(line: "        \(note)") }
  }

  private static func title(_ packet: borrowing DecodedPacket) -> String {
    let octets = packet.packet
    switch packet.type {
    case .command where octets.count >= 3:
      let opcode = octets.u16(at: 0)
      return "Command: \(HCIOpcode(rawValue: opcode).name) (0x\(hexadecimal(opcode))) plen \(octets[2])"
    case .event where octets.count >= 2:
      let code = HCIEventCode(rawValue: octets[0])
      if code == .leMeta, octets.count >= 3 {
        let subevent = LESubevent(rawValue: octets[2])
        return "Event: LE \(subevent.name) (0x\(hexadecimal(octets[2]))) plen \(octets[1])"
      }
      return "Event: \(code.name) (0x\(hexadecimal(octets[0]))) plen \(octets[1])"
    default:
      var title = "\(packet.type.title):"
      if let handle = packet.connectionHandle { title += " Handle \(handle.rawValue)" }
      return title + " dlen \(max(0, octets.count - (packet.connectionHandle == nil ? 0 : 4)))"
    }
  }

  /// What the octets mean where they are a frame of a ring's raw stream; its checksum leaves little doubt.
  private static func ringSample(_ octets: Span<UInt8>) -> String? {
    guard let sample = try? RingRawSample(decoding: octets) else { return nil }
    switch sample {
    case .spO2(let sample):
      return "Ring SpO2: \(sample.value), max \(sample.max), min \(sample.min), diff \(sample.diff)"
    case .ppg(let sample):
      return "Ring PPG: \(sample.value), max \(sample.max), min \(sample.min), diff \(sample.diff)"
    case .accelerometer(let sample):
      return "Ring accelerometer: x \(sample.x), y \(sample.y), z \(sample.z)"
    case .unknown: return nil
    }
  }

  private static func hexadecimal(_ number: UInt16) -> String {
    BLECore.hexadecimal(UInt8(number >> 8)) + BLECore.hexadecimal(UInt8(number & 0xFF))
  }

  private static func hexadecimal(_ octet: UInt8) -> String { BLECore.hexadecimal(octet) }

  /// Seconds with six decimals, which is what the file has.
  private static func seconds(_ nanoseconds: Int64) -> String {
    let microseconds = nanoseconds.magnitude / 1_000
    let fraction = String(microseconds % 1_000_000)
    return (nanoseconds < 0 ? "-" : "") + "\(microseconds / 1_000_000)."
      + String(repeating: "0", count: 6 - fraction.utf8.count) + fraction
  }
}

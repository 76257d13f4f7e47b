import BLEDissector
import BLEPacketLog
import BLEWire
import Foundation
import LogKit
import TestKit
import Testing

/// Garbage inside valid records is shown and never traps.
@Suite struct DecoderBadInputTests {
  private func text(_ packets: [LoggedPacket], format: BTSnoopFormat = .h4) throws -> String {
    try printed(log(packets, format: format), .text)
  }

  private func printed(_ octets: [UInt8], _ style: PacketPrinter.Style) throws -> String {
    var reader = PacketLogReader()
    var decoder = PacketDecoder()
    var printer = PacketPrinter(style: style)
    try reader.read(octets.span) { record in decoder.decode(record) { printer.print($0) } }
    return String(decoding: printer.octets, as: UTF8.self)
  }

  private func command(_ octets: [UInt8]) -> LoggedPacket {
    LoggedPacket(type: .command, direction: .hostToController, octets: octets)
  }

  private func event(_ octets: [UInt8]) -> LoggedPacket {
    LoggedPacket(type: .event, direction: .controllerToHost, octets: octets)
  }

  private func data(_ payload: [UInt8], channelID: UInt8) -> LoggedPacket {
    LoggedPacket(
      type: .acl, direction: .controllerToHost,
      octets: [0x40, 0x20, UInt8(payload.count + 4), 0, UInt8(payload.count), 0, channelID, 0] + payload)
  }

  /// Bytes that are valid in any field: small numbers, so that repetitions end at any length.
  private static let filling = (0..<80).map { UInt8($0 % 5) }

  /// Each LE command, event and subevent, and each LE command's return parameters, with 0 to 80 bytes of
  /// parameters.
  @Test func takesParametersOfEachLength() throws {
    var packets: [LoggedPacket] = []
    let lengths = Array(0...34) + [63, 64, 65, 66, 80]
    for count in lengths {
      let filling = Self.filling.prefix(count)
      for code in 0...0x60 as ClosedRange<UInt8> { packets.append(event([code, UInt8(count)] + filling)) }
      for code in 0...0x30 as ClosedRange<UInt8> {
        packets.append(event([0x3E, UInt8(count + 1), code] + filling))
      }
      for code in 0...0x90 as ClosedRange<UInt8> {
        packets.append(event([0x0E, UInt8(count + 4), 1, code, 0x20, 0] + filling))
        packets.append(command([code, 0x20, UInt8(count)] + filling))
      }
    }
    let shown = try text(packets)
    let titles = shown.split(separator: "\n").count { $0.hasPrefix("<") || $0.hasPrefix(">") }
    #expect(titles == packets.count)
    #expect(try printed(log(packets), .json).utf8.count { $0 == UInt8(ascii: "\n") } == packets.count)
    // LE Connection Complete has 18 bytes after its subevent. Core 5.4, Vol 4, Part E, 7.7.65.1.
    for (count, isOdd) in [(17, true), (18, false)] {
      let line = try decodedLines(log([event([0x3E, UInt8(count + 1), 1] + Self.filling.prefix(count))]))
      #expect((line[0].problem != nil) == isOdd)
    }
  }

  /// A packet that is malformed in the text output has a problem in JSON, and vice versa.
  @Test func saysTheSameProblemsInBothForms() throws {
    var problems = 0
    for count in 0...40 {
      let filling = Self.filling.prefix(count)
      var packets: [LoggedPacket] = []
      for code in 0...0x60 as ClosedRange<UInt8> {
        packets.append(event([code, UInt8(count)] + filling))
        packets.append(event([0x3E, UInt8(count + 1), code] + filling))
        packets.append(event([0x0E, UInt8(count + 4), 1, code, 0x20, 0] + filling))
        packets.append(command([code, 0x20, UInt8(count)] + filling))
        packets.append(data([code] + filling, channelID: 6))
        packets.append(data([code, 1, UInt8(count), 0] + filling, channelID: 5))
      }
      for packet in packets {
        let words = try text([packet]).contains("! malformed: ")
        let members = try printed(log([packet]), .json).contains(#""problem":"#)
        #expect(words == members, "\(packet.octets)")
        problems += words ? 1 : 0
      }
    }
    #expect(problems > 1_000, "most are too short for their fields")
  }

  @Test func takesChannelsOfEachLength() throws {
    var packets: [LoggedPacket] = []
    for count in 0...40 {
      for code in [0x52, 0xD2, 0xFF] + Array(0...0x30 as ClosedRange<UInt8>) {
        packets.append(data([code] + Self.filling.prefix(count), channelID: 4))
        packets.append(data([code] + Self.filling.prefix(count), channelID: 6))
        packets.append(data([code, 1, UInt8(count), 0] + Self.filling.prefix(count), channelID: 5))
      }
      packets.append(data(Array(Self.filling.prefix(count)), channelID: 5))
      packets.append(data(Array(Self.filling.prefix(count)), channelID: 0x40))
    }
    let shown = try text(packets)
    #expect(shown.split(separator: "\n").count { $0.hasPrefix(">") } == packets.count)
    #expect(try printed(log(packets), .json).utf8.count { $0 == UInt8(ascii: "\n") } == packets.count)
  }

  /// The packet's own length field claims more or less than there is.
  @Test func showsACutPacketInHexadecimal() throws {
    let whole = octetsOf("3e13 01 00 4000 00 01b2a1000dcb70 180000 00f401 00")
    for count in 1..<whole.count {
      let shown = try text([event(Array(whole.prefix(count)))])
      #expect(shown.contains("! malformed: "), "\(count) octets")
      let digits = whole.prefix(min(count, 16)).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }
      #expect(shown.contains(digits.joined(separator: " ")))
    }
    let good = try text([event(whole)])
    #expect(!good.contains("malformed"))
  }

  @Test func showsUnknownThingsInHexadecimal() throws {
    let shown = try text([
      command(octetsOf("99fc 03 010203")), command(octetsOf("f023 02 0405")), event(octetsOf("e102 0607")),
      event(octetsOf("3e03 fe 0809")), data(octetsOf("0a0b"), channelID: 0x3A),
      LoggedPacket(type: HCIPacketType(rawValue: 0x33), direction: .controllerToHost, octets: [0x0C, 0x0D]),
    ])
    for digits in ["01 02 03", "04 05", "06 07", "08 09", "0a 0b", "0c 0d"] {
      #expect(shown.contains("\n        \(digits) "))
    }
    #expect(!shown.contains("malformed"))
  }

  @Test func takesTimesThatGoBackwards() throws {
    var packets = [command(octetsOf("030c00")), command(octetsOf("030c00")), command(octetsOf("030c00"))]
    packets[0].timeNanoseconds = 5_000_000_000
    packets[1].timeNanoseconds = 4_999_999_000
    packets[2].timeNanoseconds = -9_000_000_000_000_000
    let shown = try text(packets).split(separator: "\n")
    #expect(shown[1].hasSuffix("#2 -0.000001"))
    #expect(shown[2].hasSuffix("#3 -9000005.000000"))
  }

  @Test func namesFragmentsWithoutAStart() throws {
    let shown = try text([
      .acl(.controllerToHost, "4010 0300 120001"), .acl(.controllerToHost, "4020 0500 0800 0400 1b"),
    ])
    #expect(shown.contains("! malformed: ACL data at byte 0"))
    #expect(shown.split(separator: "\n").count { $0.hasPrefix(">") } == 2)
  }

  /// Data from the air must not control the terminal.
  @Test func keepsControlCharactersFromTheTerminal() throws {
    let shown = try text([
      event([0x3E, 0x11, 2, 1, 0, 1, 1, 2, 3, 4, 5, 6, 5, 4, 9, 0x1B, 0x5B, 0x6D, 0xC4]),
      data([0x1B, 3, 0, 0x1B, 0x5B, 0x33, 0x31, 0x6D], channelID: 4),
    ])
    #expect(shown.contains("Name (complete): \u{FFFD}[m"))
    #expect(shown.unicodeScalars.allSatisfy { $0 == "\n" || $0.properties.generalCategory != .control })
  }

  /// 100,000 packets of the captures, each with a few bytes changed, removed or added.
  @Test func survivesMutations() throws {
    var generator = SeededGenerator(state: 7)
    var sources: [LoggedPacket] = [
      event(octetsOf("3e13 01 00 4000 00 01b2a1000dcb70 180000 00f401 00")),
      event(octetsOf("3e15 02 01 00 01 b2a1000dcb70 09 020106 05 09 52303200 c4")),
      event(octetsOf("3e1d 0d 01 1300 01 b2a1000dcb70 01 00 ff 7f c4 0000 00 000000000000 03 020106")),
      command(octetsOf("4320 1a 00 01 01 b2a1000dcb70 01 6000 3000 1800 2800 0000 2a00 0000 0000")),
      data(octetsOf("01 04 00 2d 10 0f 0f"), channelID: 6),
      data(octetsOf("14080a00 8000 4000 0001 4000 0a00"), channelID: 5),
    ]
    for file in Logs.own { sources += LogReading([UInt8](try Data(contentsOf: file))).packets }
    var packets: [LoggedPacket] = []
    for index in 0..<100_000 {
      var packet = sources[index % sources.count]
      for _ in 0..<Int.random(in: 1...3, using: &generator) where !packet.octets.isEmpty {
        let place = Int.random(in: packet.octets.indices, using: &generator)
        switch Int.random(in: 0..<8, using: &generator) {
        case 0: packet.octets.removeSubrange(place...)
        case 1: packet.octets.append(UInt8.random(in: 0...255, using: &generator))
        default: packet.octets[place] = UInt8.random(in: 0...255, using: &generator)
        }
      }
      packets.append(packet)
    }
    let octets = log(packets)
    var reader = PacketLogReader()
    var decoder = PacketDecoder()
    var (shown, lines, malformed) = (0, 0, 0)
    var people = PacketPrinter(style: .text)
    var programs = PacketPrinter(style: .json)
    try reader.read(octets.span) { record in
      decoder.decode(record) { packet in
        shown += 1
        if packet.problem != nil { malformed += 1 }
        // A mutation is equally likely to be even or odd.
        if shown.isMultiple(of: 2) { people.print(packet) } else { programs.print(packet) }
      }
      lines += programs.octets.last == UInt8(ascii: "\n") ? 1 : 0
      people.removeAll()
      programs.removeAll()
    }
    #expect(shown == packets.count)
    #expect(lines == packets.count / 2)
    #expect(decoder.malformedPackets == malformed)
    #expect(malformed > 10_000, "most mutations break a length")
  }
}

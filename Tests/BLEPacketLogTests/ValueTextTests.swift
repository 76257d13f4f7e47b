import BLEDissector
import BLEPacketLog
import BLEWire
import LogKit
import TestKit
import Testing

/// Values of characteristics in words.
@Suite struct ValueTextTests {
  private func acl(_ pdu: [UInt8]) -> LoggedPacket {
    LoggedPacket(
      type: .acl, direction: .controllerToHost,
      octets: [0x40, 0x20, UInt8(pdu.count + 4), 0, UInt8(pdu.count), 0, 4, 0] + pdu)
  }

  /// Heart Rate Service 1.0, 3.1.1; Health Thermometer Service 1.0, 3.1; Battery Service 1.1, 3.1; Core 5.4,
  /// Vol 3, Part G, 3.3.3.3, and Part C, 12.3. `A0 0A 00 FE` is 27.20 by IEEE 11073-20601; an RR interval is
  /// in 1/1024 s.
  @Test(
    arguments: [
      (0x2A37, "01 4800", ["Heart rate: 72 beats/min"]),
      (0x2A37, "16 48 0004 0002", ["Heart rate: 72 beats/min, contact", "RR intervals: 1000, 500 ms"]),
      (0x2A37, "0c ff 0a00", ["Heart rate: 255 beats/min, no contact", "Energy expended: 10 kJ"]),
      (0x2A37, "10 3c", ["Heart rate: 60 beats/min"]),
      (0x2A19, "64", ["Battery: 100 %"]),
      (0x2A1C, "00 a00a00fe", ["Temperature: 27.20 °C"]), (0x2A1C, "01 d60300ff", ["Temperature: 98.2 °F"]),
      (0x2A1C, "00 ffffffff", ["Temperature: -0.1 °C"]), (0x2A1C, "00 ffff7f00", ["Temperature: none"]),
      (0x2A29, "436f6c6d6900", ["Text: Colmi"]), (0x2A29, "1b5b33316d", ["Text: \u{FFFD}[31m"]),
      (0x2902, "0100", ["Configuration: notification"]),
      (0x2A04, "0600 1800 0400 f401", ["Interval: 7.50 ms to 30.00 ms", "Latency: 4, timeout: 5000 ms"]),
      (0x2A38, "03", ["Location: finger"]), (0x2A19, "", ["Error: truncated"]),
      (0x2A37, "01 48", ["Error: truncated"]), (0x2A1C, "00 a00a", ["Error: truncated"]),
    ] as [(UInt16, String, [String])])
  func saysTheValue(_ uuid: UInt16, _ value: String, _ expected: [String]) throws {
    let found = acl([0x05, 0x01, 0x12, 0x00, UInt8(uuid & 0xFF), UInt8(uuid >> 8)])
    let octets = log([found, acl([0x1B, 0x12, 0x00] + octetsOf(value))])
    var reader = PacketLogReader()
    var decoder = PacketDecoder()
    var printer = PacketPrinter(style: .text)
    try reader.read(octets.span) { record in decoder.decode(record) { printer.print($0) } }
    let lines = String(decoding: printer.octets, as: UTF8.self).split(separator: "\n")
    let data = try #require(lines.firstIndex { $0.contains("Data:") })
    let said = lines[(data + 1)...].map { $0.drop { $0 == " " } }
    #expect(said.map(String.init) == expected)
  }

  /// The raw stream's start and stop, and a PPG frame, which begins with the same bytes as the stop. COLMI
  /// protocol reference; checksums are sums.
  @Test(
    arguments: [
      (0x12, "a10400000000000000000000000000a5", "Ring command: start the raw stream"),
      (0x52, "a10200000000000000000000000000a3", "Ring command: stop the raw stream"),
      (0x1B, "a10229812acd29c1010c01000000003c", "Ring PPG: 10625, max 10957, min 10689, diff 268"),
      (0x12, "03000000000000000000000000000003", "Ring command: battery"),
    ] as [(UInt8, String, String)])
  func tellsCommandsFromSamples(_ opcode: UInt8, _ value: String, _ expected: String) throws {
    let octets = log([acl([opcode, 0x10, 0x00] + octetsOf(value))])
    var reader = PacketLogReader()
    var decoder = PacketDecoder()
    var printer = PacketPrinter(style: .text)
    try reader.read(octets.span) { record in decoder.decode(record) { printer.print($0) } }
    #expect(String(decoding: printer.octets, as: UTF8.self).hasSuffix("          \(expected)\n"))
  }
}

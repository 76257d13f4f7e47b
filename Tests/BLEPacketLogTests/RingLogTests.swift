import BLEDissector
import BLEPacketLog
import BLEWire
import Foundation
import JSONText
import LogKit
import TestKit
import Testing

/// Packets of rings and hosts with their meanings; each names its published source.
private struct RingVector: Sendable, CustomTestStringConvertible {
  var name: String
  var isBigData: Bool
  var isSent: Bool
  var packet: [UInt8]
  /// In JSON.
  var expected: Data

  var testDescription: String { name }

  /// Characteristics from the protocol reference, section 1.
  var uuid: BluetoothUUID {
    let text =
      switch (isBigData, isSent) {
      case (false, true): "6e400002-b5a3-f393-e0a9-e50e24dcca9e"
      case (false, false): "6e400003-b5a3-f393-e0a9-e50e24dcca9e"
      case (true, true): "de5bf72a-d711-4e47-af26-65e3012a5dc7"
      case (true, false): "de5bf729-d711-4e47-af26-65e3012a5dc7"
      }
    return BluetoothUUID(text)!
  }

  /// All vectors that consist of one packet.
  static let all: [RingVector] = {
    let file = Place.fixture("ColmiRingTests/Fixtures/ring-vectors.json")
    guard let data = try? Data(contentsOf: URL(filePath: file)),
      let objects = try? JSONSerialization.jsonObject(with: data) as? [[String: Any]]
    else { fatalError(file) }
    return objects.compactMap { object in
      guard let packets = object["packets"] as? [String], packets.count == 1,
        var expected = object["expect"] as? [String: Any]
      else { return nil }
      // Keys that are not in the packets: a remark, and the file that a checksum belongs to.
      (expected["note"], expected["image"]) = (nil, nil)
      return RingVector(
        name: object["name"] as? String ?? "", isBigData: object["channel"] as? String == "bigdata",
        isSent: object["direction"] as? String == "host->ring", packet: octetsOf(packets[0]),
        expected: (try? JSONSerialization.data(withJSONObject: expected)) ?? Data())
    }
  }()

  static func named(_ name: String) -> RingVector { all.first { $0.name == name }! }
}

/// `log show` and `decode` print the same for a ring's packets as `ring decode`.
@Suite struct RingLogTests {
  private func acl(_ direction: HCIDirection, _ pdu: [UInt8]) -> LoggedPacket {
    func u16(_ number: Int) -> [UInt8] { [UInt8(number & 0xFF), UInt8(number >> 8)] }
    return LoggedPacket(
      type: .acl, direction: direction,
      octets: [0x40, direction == .hostToController ? 0x00 : 0x20] + u16(pdu.count + 4) + u16(pdu.count)
        + [4, 0] + pdu)
  }

  /// A log in which the packet is a write or a notification. If its characteristic is discovered, the
  /// response that identifies it comes first.
  private func ringLog(_ vector: RingVector, isDiscovered: Bool = true) -> [UInt8] {
    let found: [UInt8] = [0x05, 0x02, 0x10, 0x00] + (0..<16).map { vector.uuid.octet($0) }
    let packet =
      vector.isSent
      ? acl(.hostToController, [0x52, 0x10, 0x00] + vector.packet)
      : acl(.controllerToHost, [0x1B, 0x10, 0x00] + vector.packet)
    return log((isDiscovered ? [acl(.controllerToHost, found)] : []) + [packet])
  }

  private func printed(_ log: [UInt8], _ style: PacketPrinter.Style) throws -> [Substring] {
    var reader = PacketLogReader()
    var decoder = PacketDecoder()
    var printer = PacketPrinter(style: style)
    try reader.read(log.span) { record in decoder.decode(record) { printer.print($0) } }
    return String(decoding: printer.octets, as: UTF8.self).split(separator: "\n")
  }

  private func decoded(_ log: [UInt8]) throws -> NSDictionary? {
    let line = try #require(try printed(log, .json).last)
    let object = try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any]
    return try #require(object?["att"] as? [String: Any])["decoded"] as? NSDictionary
  }

  private func object(_ data: Data) throws -> NSDictionary? {
    try JSONSerialization.jsonObject(with: data) as? NSDictionary
  }

  @Test(arguments: RingVector.all)
  fileprivate func saysInALogWhatRingDecodeSays(_ vector: RingVector) throws {
    #expect(try decoded(ringLog(vector)) == object(vector.expected))
  }

  @Test func hasMostVectors() { #expect(RingVector.all.count > 80) }

  @Test(arguments: RingVector.all)
  fileprivate func saysOfAValueWhatRingDecodeSays(_ vector: RingVector) throws {
    var line = JSONLine()
    #expect(SensorDecoder().decode([vector.packet], of: .characteristic(vector.uuid), into: &line))
    #expect(try object(Data(line.octets)) == object(vector.expected))
  }

  /// The numbers are those of the vectors' own expectations.
  @Test(
    arguments: [
      ("rsp-battery-78", ["Ring battery: level 78 %, not charging"]),
      ("evt-battery-100-charging", ["Ring battery notification: level 100 %, charging"]),
      ("rt-spo2-98", ["Ring realtime: type 3, error 0, value 98"]),
      ("raw-ppg-ei-1", ["Ring PPG: 10625, max 10957, min 10689, diff 268"]),
      ("raw-acc-ei-1", ["Ring accelerometer: x 372, y 291, z 189, magnitude 0.994 g"]),
      ("bad-checksum", ["Ring invalid: checksum"]),
      (
        "sleep-empty",
        [
          "Ring sleep: data identifier 39, payload length 1, CRC-16 0x40BF, CRC valid, record count 0",
          "  Records: none",
        ]
      ),
      ("req-battery", ["Ring command: battery"]),
      ("req-spo2-settings-on", ["Ring command: SpO2 settings write, enabled"]),
      ("req-big-spo2", ["Ring command: big data request, data identifier 42, payload ff, CRC-16 0x00FF"]),
    ])
  func saysItInWords(_ name: String, _ expected: [String]) throws {
    let lines = try printed(ringLog(.named(name)), .text)
    let data = try #require(lines.lastIndex { $0.contains("Data: ") })
    #expect(lines[(data + 1)...].map { String($0.dropFirst(10)) } == expected)
  }

  /// A refusal of command 0x17 and a heart rate measurement, by sections 2 and 3 of the protocol.
  @Test(
    arguments: [
      ("97ee0000000000000000000000000085", "Ring refusal: command 0x17, code 0xee"),
      (
        "690100480000b603000000000000006b",
        "Ring realtime: type 1, error 0, value 72, pulse interval 950 ms"
      ),
    ])
  func saysRepliesInWords(_ octets: String, _ expected: String) throws {
    var vector = RingVector.named("rsp-battery-78")
    vector.packet = octetsOf(octets)
    #expect(try printed(ringLog(vector), .text).last?.dropFirst(10) == expected[...])
  }

  /// In a log that begins after the discovery, a ring's frame is recognised by its checksum.
  @Test func knowsFramesOfALinkThatWasNotDiscovered() throws {
    let battery = RingVector.named("rsp-battery-78")
    #expect(try decoded(ringLog(battery, isDiscovered: false)) == object(battery.expected))
    let lines = try printed(ringLog(battery, isDiscovered: false), .text)
    #expect(lines.last?.dropFirst(10) == "Ring battery: level 78 %, not charging")
    let message = RingVector.named("sleep-empty")
    #expect(try decoded(ringLog(message, isDiscovered: false)) == object(message.expected))
    #expect(try decoded(ringLog(.named("bad-checksum"), isDiscovered: false)) == nil)
  }

  /// A phone's name received over the air must not control the terminal.
  @Test func keepsControlCharactersFromTheTerminal() throws {
    var vector = RingVector.named("req-battery")
    vector.packet = octetsOf("04020a1b5b33316d0000000000000057")
    let line = try #require(try printed(ringLog(vector), .text).last)
    #expect(line.hasPrefix("          Ring command: "))
    #expect(line.unicodeScalars.allSatisfy { $0.properties.generalCategory != .control })
  }

  /// A piece of a message has no meaning by itself and may contain any bytes.
  @Test func takesAnyOctets() throws {
    var vector = RingVector.named("sleep-rt11cr-2-records")
    let whole = vector.packet
    for count in 0..<whole.count {
      vector.packet = Array(whole.prefix(count))
      #expect(try decoded(ringLog(vector)) == nil)
    }
    vector.packet = octetsOf("a103000c1f06fb03")
    #expect(try decoded(ringLog(vector)) == ["kind": "invalid", "reason": "length"])
  }
}

import BLEDissector
import BLEPacketLog
import BLEWire
import Foundation
import LogKit
import TestKit
import Testing

/// A packet in `log show --json`, layer by layer.
private struct LayerLine: Decodable {
  struct L2CAP: Decodable { var cid: Int; var code: Int? }
  struct SMP: Decodable { var code: Int }
  struct Attribute: Decodable {
    var opcode: Int
    var handle: Int?
    var uuid: String?
    var offset: Int?
    var value: String?
    var parameters: String?
  }

  var index: Int
  var timeNs: UnixNanoseconds
  var direction: String
  var packetType: String
  var connectionHandle: Int?
  var opcode: Int?
  var event: Int?
  var subevent: Int?
  var status: Int?
  var l2cap: L2CAP?
  var smp: SMP?
  var att: Attribute?

  /// tshark's name of the innermost layer.
  var layer: String {
    switch (packetType, l2cap?.cid) {
    case ("command", _): "bthci_cmd"
    case ("event", _): "bthci_evt"
    case (_, 4): "btatt"
    case (_, 6): "btsmp"
    case (_, .some): "btl2cap"
    default: "bthci_acl"
    }
  }

  /// Digits of the attribute's UUID, in the short form if there is one.
  var uuidDigits: String? {
    guard let text = att?.uuid, let uuid = BluetoothUUID(text) else { return nil }
    let digits = text.replacing("-", with: "")
    return uuid.short == nil ? digits : String(digits.dropFirst(4).prefix(4))
  }
}

private func layerLines(_ log: [UInt8]) throws -> [LayerLine] {
  var reader = PacketLogReader()
  var decoder = PacketDecoder()
  var printer = PacketPrinter(style: .json)
  try reader.read(log.span) { record in decoder.decode(record) { printer.print($0) } }
  return try printer.octets.split(separator: UInt8(ascii: "\n")).map {
    try JSONDecoder().decode(LayerLine.self, from: Data($0))
  }
}

/// A packet from `tshark -T json`: the values of each of its fields.
private struct TsharkPacket: Decodable {
  struct Source: Decodable { var layers: [String: [String]] }

  var source: Source

  enum CodingKeys: String, CodingKey { case source = "_source" }

  /// The first value of a field.
  subscript(_ field: String) -> String? { source.layers[field]?.first }

  func number(_ field: String) -> Int? {
    guard let text = self[field] else { return nil }
    return text.hasPrefix("0x") ? Int(text.dropFirst(2), radix: 16) : Int(text)
  }

  var timeNs: Int64? {
    let parts = self["frame.time_epoch"]?.split(separator: ".").compactMap { Int64($0) } ?? []
    return parts.count == 2 ? parts[0] * 1_000_000_000 + parts[1] : nil
  }

  /// For a record of the monitor, its opcode determines it. BlueZ's `doc/btsnoop-protocol.rst`.
  var direction: String? {
    switch (number("frame.p2p_dir"), number("hci_mon.opcode")) {
    case (0, _), (_, 2), (_, 4): "hostToController"
    case (1, _), (_, 3), (_, 5): "controllerToHost"
    default: nil
    }
  }

  /// The innermost layer. `btcommon` is the advertising data inside a command or event, `btgatt` the value
  /// inside an ATT PDU; we print both but do not count them as layers.
  var layer: String? {
    var layers = self["frame.protocols"]?.split(separator: ":") ?? []
    while let last = layers.last, last == "btcommon" || last.hasPrefix("btgatt") || last == "data" {
      layers.removeLast()
    }
    return layers.last.map(String.init)
  }

  private static let fields = [
    "frame.number", "frame.time_epoch", "frame.protocols", "frame.p2p_dir", "hci_mon.opcode",
    "bthci_acl.chandle", "bthci_cmd.opcode", "bthci_cmd.connection_handle", "bthci_evt.code",
    "bthci_evt.opcode",
    "bthci_evt.le_meta_subevent", "bthci_evt.status", "bthci_evt.connection_handle", "btl2cap.cid",
    "btl2cap.cmd_code", "btsmp.opcode", "btatt.opcode", "btatt.handle", "btatt.offset", "btatt.value",
    "btatt.uuid16", "btatt.uuid128",
  ]

  /// Without `btgatt`, which dissects values whose UUIDs it knows.
  static func all(_ run: (ExternalTool, [String]) throws -> String) throws -> [TsharkPacket] {
    let tool = ExternalTool("tshark")
    let output = try run(
      tool, ["--disable-protocol", "btgatt", "-T", "json"] + fields.flatMap { ["-e", $0] } + ["-r"])
    return try JSONDecoder().decode([TsharkPacket].self, from: Data(output.utf8))
  }
}

/// PDUs whose handle identifies one attribute: for others tshark's UUID belongs to something else.
private let singleAttribute: Set<Int> = [
  0x0A, 0x0B, 0x0C, 0x0D, 0x12, 0x13, 0x16, 0x17, 0x1B, 0x1D, 0x1E, 0x52, 0xD2,
]

/// Differences between tshark 4.0.17 and us. In each case the packet itself shows which one is right.
private enum KnownDifference {
  /// We are right: tshark dissects the value of a Client Characteristic Configuration or of a declaration and
  /// omits the bytes from `btatt.value`. They are the last ones of the PDU.
  case valueTakenApart
  /// We are right: an attribute that declares a service has the type Primary Service. tshark prints the UUID
  /// in its value.
  case uuidOfDeclaration
  /// We are right, and btmon agrees: the first byte that a vendor command returns is its status. tshark does
  /// not decode it.
  case statusOfVendorCommand
}

@Suite @MainActor struct TsharkLayerTests {
  /// Differences and how often they occurred.
  private final class Tally {
    var differences: [KnownDifference: Int] = [:]
    /// Numbers of UUIDs, handles and values that were compared.
    var (uuids, handles, values) = (0, 0, 0)
  }

  /// Records without a packet are frames in tshark, and we do not print them.
  private func compare(_ log: [UInt8], _ frames: [TsharkPacket], _ tally: Tally, _ name: String) throws {
    let theirs = frames.filter { $0["frame.protocols"]?.contains("bthci") ?? false }
    let ours = try layerLines(log)
    let records = LogReading(log).records
    try #require(ours.count == theirs.count)
    for (our, their) in zip(ours, theirs) {
      let place = "\(name) \(our.index)"
      comparePacket(our, their, tally, place)
      guard let att = our.att else { continue }
      #expect(att.offset == their.number("btatt.offset"), "\(place)")
      compareHandle(our, their, tally, place)
      let octets = records[our.index - 1].packet.map { String(format: "%02x", $0) }.joined()
      compareValue(our, their, octets, tally, place)
    }
  }

  private func comparePacket(
    _ our: LayerLine, _ their: TsharkPacket, _ tally: Tally, _ place: String
  ) {
    #expect(our.index == their.number("frame.number"), "\(place)")
    #expect(our.timeNs.value == their.timeNs, "\(place)")
    #expect(our.layer == their.layer, "\(place)")
    #expect(our.direction == their.direction, "\(place)")
    let isCommand = our.packetType == "command"
    #expect(our.opcode == their.number(isCommand ? "bthci_cmd.opcode" : "bthci_evt.opcode"), "\(place)")
    #expect(our.event == their.number("bthci_evt.code"), "\(place)")
    #expect(our.subevent == their.number("bthci_evt.le_meta_subevent"), "\(place)")
    if our.status != their.number("bthci_evt.status") {
      #expect(our.opcode.map { $0 >> 10 } == 0x3F && their["bthci_evt.status"] == nil, "\(place)")
      tally.differences[.statusOfVendorCommand, default: 0] += 1
    }
    let handle =
      isCommand
      ? "bthci_cmd.connection_handle"
      : our.event != nil ? "bthci_evt.connection_handle" : "bthci_acl.chandle"
    #expect(our.connectionHandle == their.number(handle), "\(place)")
    #expect(our.l2cap?.cid == their.number("btl2cap.cid"), "\(place)")
    #expect(our.l2cap?.code == their.number("btl2cap.cmd_code"), "\(place)")
    #expect(our.smp?.code == their.number("btsmp.opcode"), "\(place)")
    #expect(our.att?.opcode == their.number("btatt.opcode"), "\(place)")
  }

  private func compareHandle(
    _ our: LayerLine, _ their: TsharkPacket, _ tally: Tally, _ place: String
  ) {
    guard let att = our.att else { return }
    #expect(att.handle == their.number("btatt.handle"), "\(place)")
    tally.handles += att.handle == nil ? 0 : 1
    guard att.handle != nil, singleAttribute.contains(att.opcode),
      let uuid = their["btatt.uuid16"].map({ String($0.dropFirst(2)) }) ?? their["btatt.uuid128"]
    else { return }
    if our.uuidDigits != uuid {
      #expect(our.uuidDigits == "2800" && uuid.count == 32, "\(place)")
      tally.differences[.uuidOfDeclaration, default: 0] += 1
    }
    tally.uuids += 1
  }

  /// For a list tshark has the value of each entry, and we have the list as it is.
  ///
  /// - Parameter octets: the packet, in hexadecimal.
  private func compareValue(
    _ our: LayerLine, _ their: TsharkPacket, _ octets: String, _ tally: Tally, _ place: String
  ) {
    guard let att = our.att else { return }
    let values = their.source.layers["btatt.value"] ?? []
    guard let value = att.value, !value.isEmpty else {
      for value in values { #expect(att.parameters?.contains(value) ?? false, "\(place)") }
      return
    }
    if values.isEmpty {
      #expect(octets.hasSuffix(value), "\(place)")
      tally.differences[.valueTakenApart, default: 0] += 1
    } else {
      #expect(values == [value], "\(place)")
      tally.values += 1
    }
  }

  @Test(
    .enabled(if: Place.treadmill != nil, Place.noShared))
  func agreesOnAPhonesLog() throws {
    let file = URL(filePath: try #require(Place.treadmill))
    let tally = Tally()
    let frames = try TsharkPacket.all { try $0.output($1 + [file.path]) }
    #expect(frames.count == 2_572)
    try compare(try Logs.octets(of: file), frames, tally, "phone")
    #expect(tally.uuids == 1_569)
    // A write to a Client Characteristic Configuration: 12 15 00 01 00.
    #expect(tally.differences[.valueTakenApart] == 1)
  }

  /// Each log of the folder, in any format.
  @Test func agreesOnOurCaptures() throws {
    let tally = Tally()
    for file in Logs.everyFormat {
      let before = (tally.handles, tally.values)
      let frames = try TsharkPacket.all { try $0.output($1 + [file.path]) }
      try compare(try Logs.octets(of: file), frames, tally, file.lastPathComponent)
      #expect(tally.handles > before.0 && tally.values > before.1, "\(file.lastPathComponent)")
    }
    #expect(tally.differences[.valueTakenApart] ?? 0 > 0)
    #expect(tally.differences[.uuidOfDeclaration] ?? 0 > 0)
  }

  /// Packets that no capture here contains; bytes from Core 5.4, Vol 4, Part E, 7, and Vol 3, Parts A and H.
  @Test func agreesOnSignalsKeysAndEvents() throws {
    let commands = [
      "0604 03 400013", "0d20 19 6000300000 01b2a1000dcb70 00 180028000000 2a00 00000000",
      "1320 0e 4000 180028000000 2a0000000000",
      "1920 1c 4000 0102030405060708 0102 33333333333333333333333333333333", "2220 06 4000 fb004808",
      "3220 07 4000 0002020000",
    ]
    let events = [
      "3e13 01 00 4000 00 01b2a1000dcb70 180000 00f401 00", "3e0a 03 00 4000 18000000f401",
      "3e0c 04 00 4000 ff01000000000000",
      "3e0d 05 4000 0102030405060708 0102", "3e0b 06 4000 180028000000f401", "3e0b 07 4000 fb004808fb004808",
      "3e1f 0a 00 4000 00 01b2a1000dcb70 010203040506 111213141516 18000000f401 00", "3e06 0c 00 4000 0202",
      "3e06 12 00 01 4000 03", "3e04 14 4000 01", "0804 00 4000 01", "3003 00 4000", "0f04 0c 01 0d20",
      "0c08 00 4000 09 0f00 1234", "0504 00 4000 13",
    ]
    let signals = [
      "12070800 180028000000f401", "13070200 0000", "14080a00 8000 4000 0001 4000 0a00",
      "15080a00 4000 0001 4000 0a00 0000",
      "16090400 4000 0500", "060a0400 4000 4100", "070a0400 4000 4100", "010b0200 0000",
    ]
    let keys = [
      "01 04 00 2d 10 0f 0f", "02 03 00 01 10 03 03", "03 00112233445566778899aabbccddeeff",
      "04 00112233445566778899aabbccddeeff", "05 04", "06 00112233445566778899aabbccddeeff",
      "07 3412 0102030405060708",
      "08 00112233445566778899aabbccddeeff", "09 01 b2a1000dcb70", "0b 01",
      "0d 00112233445566778899aabbccddeeff",
    ]
    var packets = commands.map {
      LoggedPacket(type: .command, direction: .hostToController, octets: octetsOf($0))
    }
    packets += events.dropLast().map {
      LoggedPacket(type: .event, direction: .controllerToHost, octets: octetsOf($0))
    }
    packets += signals.map { data($0, channelID: 5) } + keys.map { data($0, channelID: 6) }
    packets += events.suffix(1).map {
      LoggedPacket(type: .event, direction: .controllerToHost, octets: octetsOf($0))
    }
    let octets = log(packets)
    let frames = try TsharkPacket.all { try $0.output($1, of: octets) }
    try compare(octets, frames, Tally(), "signals")
    #expect(try layerLines(log(packets)).compactMap(\.smp).count == keys.count)
    #expect(try layerLines(log(packets)).compactMap(\.l2cap?.code).count == signals.count)
  }

  private func data(_ payload: String, channelID: UInt8) -> LoggedPacket {
    let payload = octetsOf(payload)
    return LoggedPacket(
      type: .acl, direction: .controllerToHost,
      octets: [0x40, 0x20, UInt8(payload.count + 4), 0, UInt8(payload.count), 0, channelID, 0] + payload)
  }
}

import BLECore
import BLEPacketLog
import BLEWire
import Foundation
import Testing

/// What `log show --json` says of the layers under and beside ATT; ATT itself is in `TsharkTests`.
private struct LayerLine: Decodable {
  struct L2CAP: Decodable { var cid: Int; var code: Int? }
  struct SMP: Decodable { var code: Int }
  struct Attribute: Decodable { var opcode: Int; var handle: Int?; var uuid: String? }

  var index: Int
  var packetType: String
  var connectionHandle: Int?
  var opcode: Int?
  var event: Int?
  var subevent: Int?
  var status: Int?
  var l2cap: L2CAP?
  var smp: SMP?
  var att: Attribute?

  /// The name that tshark has for the innermost layer.
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

  /// The attribute's UUID in digits alone, short where it is.
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

/// A packet as tshark sees it, by the names of its fields; of several values the first.
private func tsharkLines(_ log: [UInt8]) throws -> [[String: String]] {
  let fields = [
    "frame.number", "frame.protocols", "bthci_acl.chandle", "bthci_cmd.opcode", "bthci_cmd.connection_handle",
    "bthci_evt.code", "bthci_evt.opcode", "bthci_evt.le_meta_subevent", "bthci_evt.status",
    "bthci_evt.connection_handle", "btl2cap.cid", "btl2cap.cmd_code", "btsmp.opcode", "btatt.opcode",
    "btatt.handle", "btatt.uuid16", "btatt.uuid128",
  ]
  let tool = try #require(ExternalTool("tshark"))
  let arguments =
    ["-T", "fields", "-E", "separator=|", "-E", "occurrence=f"] + fields.flatMap { ["-e", $0] }
  return try tool.output(arguments + ["-r"], of: log).split(separator: "\n").map { line in
    let values = line.split(separator: "|", omittingEmptySubsequences: false).map(String.init)
    try #require(values.count == fields.count)
    return Dictionary(uniqueKeysWithValues: zip(fields, values).filter { !$0.1.isEmpty })
  }
}

/// PDUs whose handle names one attribute: for the others tshark's UUID is that of something else.
private let singleAttribute: Set<Int> = [
  0x0A, 0x0B, 0x0C, 0x0D, 0x12, 0x13, 0x16, 0x17, 0x1B, 0x1D, 0x1E, 0x52, 0xD2,
]

@Suite(.enabled(if: ExternalTool("tshark") != nil, "tshark is not installed"))
struct TsharkLayerTests {
  private func number(_ text: String?) -> Int? {
    guard let text else { return nil }
    return text.hasPrefix("0x") ? Int(text.dropFirst(2), radix: 16) : Int(text)
  }

  /// Compares all layers. Records that are no packet are frames for tshark, and not printed by us.
  ///
  /// - Returns: UUIDs that were compared.
  private func compare(_ log: [UInt8]) throws -> Int {
    let theirs = try tsharkLines(log).filter { $0["frame.protocols", default: ""].contains("bthci") }
    let ours = try layerLines(log)
    try #require(ours.count == theirs.count)
    var uuids = 0
    for (our, their) in zip(ours, theirs) {
      #expect(our.index == number(their["frame.number"]))
      compareLayer(our, their)
      let isCommand = our.packetType == "command"
      #expect(
        our.opcode == number(their[isCommand ? "bthci_cmd.opcode" : "bthci_evt.opcode"]), "\(our.index)")
      #expect(our.event == number(their["bthci_evt.code"]), "\(our.index)")
      #expect(our.subevent == number(their["bthci_evt.le_meta_subevent"]), "\(our.index)")
      // Tshark reads nothing of what vendor commands return. btmon takes the first octet for a status, as we do.
      if our.opcode.map({ $0 >> 10 != 0x3F }) ?? true {
        #expect(our.status == number(their["bthci_evt.status"]), "\(our.index)")
      }
      let handle =
        isCommand
        ? "bthci_cmd.connection_handle"
        : our.event != nil ? "bthci_evt.connection_handle" : "bthci_acl.chandle"
      #expect(our.connectionHandle == number(their[handle]), "\(our.index)")
      #expect(our.l2cap?.cid == number(their["btl2cap.cid"]), "\(our.index)")
      #expect(our.l2cap?.code == number(their["btl2cap.cmd_code"]), "\(our.index)")
      #expect(our.smp?.code == number(their["btsmp.opcode"]), "\(our.index)")
      #expect(our.att?.opcode == number(their["btatt.opcode"]), "\(our.index)")
      guard let att = our.att, att.handle != nil, singleAttribute.contains(att.opcode),
        let uuid = their["btatt.uuid16"].map({ String($0.dropFirst(2)) }) ?? their["btatt.uuid128"]
      else { continue }
      guard att.handle == number(their["btatt.handle"]) else {
        // A Write Response carries no handle. Tshark 4.0.17 gives some that of the request before the last.
        #expect(att.opcode == 0x13, "\(our.index)")
        continue
      }
      #expect(our.uuidDigits == uuid, "\(our.index)")
      uuids += 1
    }
    return uuids
  }

  /// Tshark's `btcommon` is the advertising data inside a command or event, `btgatt` the value inside an ATT PDU; we
  /// print both but do not count them as layers.
  private func compareLayer(_ our: LayerLine, _ their: [String: String]) {
    var layers = their["frame.protocols", default: ""].split(separator: ":")
    while let last = layers.last, last == "btcommon" || last.hasPrefix("btgatt") || last == "data" {
      layers.removeLast()
    }
    #expect(our.layer == layers.last.map(String.init), "\(our.index)")
  }

  @Test(
    .enabled(if: SharedCaptures.treadmill != nil, "no shared captures: set RINGTAP_SHARED to their folder"))
  func agreesOnAPhonesLog() throws {
    let file = try #require(SharedCaptures.treadmill)
    let uuids = try compare([UInt8](Data(contentsOf: file)))
    #expect(uuids == 1_569)
  }

  @Test(arguments: OwnCaptures.all)
  func agreesOnOurCaptures(_ file: URL) throws {
    let uuids = try compare([UInt8](Data(contentsOf: file)))
    #expect(uuids > 0)
  }

  /// Packets that no capture here has; octets after Core 5.4, Vol 4, Part E, 7, and Vol 3, Parts A and H.
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
    #expect(try compare(log(packets)) == 0)
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

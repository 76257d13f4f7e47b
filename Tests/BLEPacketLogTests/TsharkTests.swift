import BLEPacketLog
import BLEWire
import Foundation
import LogKit
import TestKit
import Testing

/// Wireshark's independent decoder.
enum Tshark {
  /// A packet as tshark decodes it. If a PDU has several handles, the first one.
  struct Packet: Hashable {
    var index: Int
    var timeNs: Int64
    var direction: String?
    var packetType: String?
    var connectionHandle: Int?
    var opcode: Int?
    var handle: Int?
    var value: String?
  }

  static func packets(of log: URL) throws -> [Packet] {
    let fields = [
      "frame.number", "frame.time_epoch", "hci_h4.direction", "hci_h4.type", "bthci_acl.chandle",
      "btatt.opcode", "btatt.handle", "btatt.value",
    ]
    let text = try Program.output(
      of: "tshark",
      ["-r", log.path, "-T", "fields", "-E", "separator=|", "-E", "occurrence=f"]
        + fields.flatMap { ["-e", $0] })
    return try packets(in: text)
  }

  /// Parses tshark's output of the fields above, one packet per line.
  static func packets(in text: String) throws -> [Packet] {
    try text.split(separator: "\n").map { try packet($0) }
  }

  private static func packet(_ line: Substring) throws -> Packet {
    let fields = line.split(separator: "|", omittingEmptySubsequences: false)
    try #require(fields.count == 8)
    let time = fields[1].split(separator: ".")
    func number(_ text: Substring) -> Int? { text.isEmpty ? nil : Int(text.dropFirst(2), radix: 16) }
    return Packet(
      index: try #require(Int(fields[0])),
      timeNs: try #require(Int64(time[0])) * 1_000_000_000 + (try #require(Int64(time[1]))),
      direction: [0: "hostToController", 1: "controllerToHost"][number(fields[2]) ?? -1],
      packetType: [1: "command", 2: "acl", 3: "sco", 4: "event", 5: "iso"][number(fields[3]) ?? -1],
      connectionHandle: number(fields[4]), opcode: number(fields[5]), handle: number(fields[6]),
      value: fields[7].isEmpty ? nil : String(fields[7]))
  }
}

extension PacketLine {
  /// tshark has no field for an empty value, and `bthci_acl.chandle` exists only for data.
  var asTshark: Tshark.Packet {
    Tshark.Packet(
      index: index, timeNs: timeNs.value, direction: direction, packetType: packetType,
      connectionHandle: packetType == "acl" ? connectionHandle : nil, opcode: att?.opcode,
      handle: att?.handle,
      value: att?.value.flatMap { $0.isEmpty ? nil : $0 })
  }
}

@Suite @MainActor struct TsharkTests {
  /// A dialogue with each kind of PDU, including fragments; written by us, read by both.
  @Test func agreesOnALogThatWeWrote() throws {
    var packets: [LoggedPacket] = [
      LoggedPacket(type: .command, direction: .hostToController, octets: octetsOf("030c00")),
      LoggedPacket(type: .event, direction: .controllerToHost, octets: octetsOf("0e0401030c00")),
    ]
    let dialogue: [(HCIDirection, String)] = [
      (.hostToController, "02 f700"), (.controllerToHost, "03 0502"),
      (.hostToController, "10 0100 ffff 0028"), (.controllerToHost, "11 06 0100 0500 0018 0600 2000 f0ff"),
      (.hostToController, "08 0600 2000 0328"), (.controllerToHost, "09 07 0700 0a 0800 f1ff"),
      (.hostToController, "04 0900 2000"), (.controllerToHost, "05 01 0900 f2ff"),
      (.hostToController, "06 0100 ffff 0028 0018"), (.controllerToHost, "07 0100 0500"),
      (.hostToController, "0a 0800"), (.controllerToHost, "0b 41424344"),
      (.hostToController, "0a 9900"), (.controllerToHost, "01 0a 9900 01"),
      (.hostToController, "0c 0800 1600"), (.controllerToHost, "0d 4546"),
      (.hostToController, "12 0800 0102"), (.controllerToHost, "13"),
      (.hostToController, "52 0800 a104"), (.controllerToHost, "1b 0800 a101"),
      (.controllerToHost, "1d 0800 77"), (.hostToController, "1e"),
      (.hostToController, "16 0800 0000 0102"), (.controllerToHost, "17 0800 0000 0102"),
      (.hostToController, "18 01"), (.controllerToHost, "19"),
    ]
    let writer = BTSnoopWriter()
    var octets = log(packets)
    for (direction, pdu) in dialogue {
      let pdu = octetsOf(pdu)
      octets += [UInt8](encoding: writer.recordByteCount(l2capPayload: pdu.count)) {
        writer.encode(
          l2capPayload: pdu.span, handle: ConnectionHandle(0x0E40), direction: direction,
          at: ReceiveTime(nanoseconds: 1_700_000_000_999_999_000), into: &$0)
      }
    }
    // The last one in two fragments, then one byte at a time.
    packets = [
      .acl(.controllerToHost, "402e 0600 0700 0400 1b08"), .acl(.controllerToHost, "401e 0500 0051525354"),
    ]
    packets.append(.acl(.controllerToHost, "402e 0400 0400 0400"))
    packets += ["1b", "08", "00", "55"].map { .acl(.controllerToHost, "401e 0100" + $0) }
    octets += log(packets)[16...]

    let file = FileManager.default.temporaryDirectory.appending(path: "\(UUID().uuidString).btsnoop")
    try Data(octets).write(to: file)
    defer { try? FileManager.default.removeItem(at: file) }
    let theirs = try Tshark.packets(of: file)
    let ours = try decodedLines(octets).map(\.asTshark)
    #expect(theirs.count == 2 + dialogue.count + 7)
    #expect(ours.count == theirs.count)
    for (our, their) in zip(ours, theirs) { #expect(our == their) }
  }

  @Test(
    .enabled(if: Place.treadmill != nil, Place.noShared))
  func agreesOnAPhonesLog() throws {
    let file = URL(filePath: try #require(Place.treadmill))
    let theirs = try Tshark.packets(of: file)
    let ours = try decodedLines([UInt8](Data(contentsOf: file))).map(\.asTshark)
    #expect(theirs.count == 2_572)
    #expect(ours.count == theirs.count)
    #expect(ours.count { $0.opcode != nil } == 1_659)
    for (our, var their) in zip(ours, theirs) {
      // tshark dissects the only write to a Client Characteristic Configuration into bits and omits its bytes
      // from btatt.value; the PDU, 12 15 00 01 00, contains them.
      if our.index == 734, their.value == nil { their.value = "0100" }
      #expect(our == their)
    }
  }
}

/// The logs in `Captures`, compared with tshark's decode from when they were recorded. Runs without tshark.
@Test(arguments: Logs.own)
func decodesCapture(_ file: URL) throws {
  let expected = file.deletingPathExtension().appendingPathExtension("tshark.txt")
  let theirs = try Tshark.packets(in: String(contentsOf: expected, encoding: .utf8))
  let ours = try decodedLines([UInt8](Data(contentsOf: file))).map(\.asTshark)
  var values = 0
  for our in ours {
    // Records without a packet are frames in tshark.
    var their = try #require(theirs.first { $0.index == our.index })
    values += their.value == nil ? 0 : 1
    // In format 2001 tshark has no direction and no type in these fields, in 1001 no type.
    their.direction = their.direction ?? our.direction
    their.packetType = their.packetType ?? our.packetType
    // tshark shows the value of a Client Characteristic Configuration in separate fields instead of
    // btatt.value.
    their.value = their.value ?? our.value
    // For a list we print the list and no value.
    if our.value == nil, [0x07, 0x09, 0x11].contains(our.opcode) { their.value = nil }
    #expect(our == their)
  }
  #expect(values >= 30)
}

/// Every Wireshark name of an opcode ends with its kind.
@Test @MainActor func takesOpcodesForWhatWiresharkDoes() throws {
  let kinds: [Substring: ATTOpcode.Kind] = [
    "Request": .request, "Response": .response, "Command": .command, "Notification": .notification,
    "Indication": .indication, "Confirmation": .confirmation,
  ]
  let text: String = try Program.output(of: "tshark", ["-G", "values"])
  let rows: [[Substring]] = text.split(separator: "\n").map { $0.split(separator: "\t") }
    .filter { $0.count == 4 && $0[0] == "V" && $0[1] == "btatt.opcode" }
  #expect(rows.count >= 28)
  for row in rows {
    let opcode = ATTOpcode(rawValue: try #require(UInt8(row[2].dropFirst(2), radix: 16)))
    let word = try #require(row[3].split(separator: " ").last)
    #expect(opcode.kind == kinds[word], "\(row[3])")
  }
  // Opcodes that Wireshark 4.0 does not know: Core 5.4, Vol 3, Part F, 3.4.4.11, 3.4.4.12 and 3.4.7.4; and
  // the Command Flag of future opcodes, 3.3.1.
  let later: [(UInt8, ATTOpcode.Kind)] = [
    (0x20, .request), (0x21, .response), (0x23, .notification), (0x7F, .command), (0xFF, .command),
  ]
  for (opcode, kind) in later { #expect(ATTOpcode(rawValue: opcode).kind == kind) }
}

import BLEPacketLog
import BLEWire
import Foundation
import LogKit
import TestKit
import Testing

@Suite struct LogAnonymiserTests {
  @Test(arguments: [PacketLogWriter.Format.btsnoop(.h4), .btsnoop(.monitor), .pcapng(.h4WithDirection)])
  func leavesNothing(_ format: PacketLogWriter.Format) {
    let original = log(SecretLog.packets)
    let other = anonymised(original, to: format)
    let packets = LogReading(other).packets
    #expect(packets.map(\.octets.count) == SecretLog.packets.map(\.octets.count))
    #expect(packets.map(\.timeNanoseconds) == SecretLog.packets.map(\.timeNanoseconds))
    for secret in SecretLog.secrets {
      #expect(contains(SecretLog.payload(of: SecretLog.packets), secret))
      #expect(!contains(SecretLog.payload(of: packets), secret))
      #expect(!contains(SecretLog.payload(of: packets), secret.reversed()))
      #expect(!contains(other, secret))
    }
  }

  /// Equal values get equal replacements, different values different ones. Address types and everything else
  /// stay.
  @Test func staysConsistent() {
    let packets = LogReading(anonymised(log(SecretLog.packets), to: .btsnoop(.h4))).packets
    let advertised = Array(packets[3].octets[6..<12])
    #expect(Array(packets[5].octets[4..<10]) == advertised)
    #expect(Array(packets[8].octets[8..<14]) == advertised)
    #expect(Array(packets[8].octets[14..<20]) == Array(packets[0].octets[3..<9]))
    #expect(Array(packets[4].octets[17..<23]) == advertised.reversed())
    // Top two bits: 01 of 70:…, 11 of C1:…, 01 of 51:….
    #expect(
      [advertised[5], packets[0].octets[8], packets[8].octets[25]].map { $0 >> 6 } == [0b01, 0b11, 0b01])
    let name = Array(packets[3].octets[18..<18 + SecretLog.name.count])
    #expect(Array(packets[1].octets[3..<3 + SecretLog.name.count]) == name)
    for (packet, original) in zip(packets, SecretLog.packets) where packet.type == .command {
      #expect(packet.octets[..<3] == original.octets[..<3])
    }
    // A value that reveals nothing, and the end of the link.
    #expect(packets.contains { $0.octets == octetsOf("4020 0900 0500 0400 1b12002142") })
    #expect(packets.last?.octets == SecretLog.packets.last?.octets)
  }

  /// Unknown contents are blanked; length, opcode and status stay. Core 5.4, Vol 4, Part E, 5.4 and 7; Vol 3,
  /// Part A, 2.1, Part F, 3.4; names are in the Supplement, Part A.
  @Test func blanksWhatIsNotKnown() {
    let secret = Array("Karl-Heinz".utf8)
    func hidden(_ type: HCIPacketType, _ direction: HCIDirection, _ kept: String) -> (LoggedPacket, Int) {
      let octets = octetsOf(kept)
      return (LoggedPacket(type: type, direction: direction, octets: octets + secret), octets.count)
    }
    let packets = [
      // Vendor commands (Broadcom uses one to write the controller's address), commands of no group, LE BIG
      // Create Sync with its code, a location.
      hidden(.command, .hostToController, "01fc 0a"), hidden(.command, .hostToController, "017c 0a"),
      hidden(.command, .hostToController, "6b20 0a"), hidden(.command, .hostToController, "650c 0a"),
      // Vendor events and unassigned ones, a subevent, and a vendor command's return parameters after the
      // status.
      hidden(.event, .controllerToHost, "ff 0a"), hidden(.event, .controllerToHost, "3a 0a"),
      hidden(.event, .controllerToHost, "3e 0b fe"), hidden(.event, .controllerToHost, "0e 0e 01 01fc 00"),
      // Voice; a channel opened by a profile, and its second fragment.
      hidden(.sco, .controllerToHost, "0600 0a"), hidden(.iso, .controllerToHost, "0620 0e00 0100 0a00"),
      hidden(.acl, .controllerToHost, "4020 0e00 1400 4000"), hidden(.acl, .controllerToHost, "4010 0a00"),
      // ATT: an unassigned opcode, Read Multiple Response. SMP: likewise.
      hidden(.acl, .controllerToHost, "4020 0f00 0b00 0400 3f"),
      hidden(.acl, .controllerToHost, "4020 0f00 0b00 0400 0f"),
      hidden(.acl, .controllerToHost, "4020 0f00 0b00 0600 3f"),
    ]
    let other = LogReading(anonymised(log(packets.map(\.0)), to: .btsnoop(.h4))).packets
    #expect(other.count == packets.count)
    for (found, (packet, kept)) in zip(other, packets) {
      #expect(
        found.octets == packet.octets[..<kept] + [UInt8](repeating: 0, count: secret.count), "\(packet)")
    }
  }

  /// Unassigned types of advertising data, types that contain a location, and bytes after the data are
  /// blanked. Others stay.
  @Test func blanksUnknownAdvertisingData() {
    let report = { (data: String) -> LoggedPacket in
      let data = octetsOf(data)
      let octets = octetsOf("02 01 00 00 b2a1000dcb70") + [UInt8(data.count)] + data + [0xC5]
      return LoggedPacket(
        type: .event, direction: .controllerToHost, octets: [0x3E, UInt8(octets.count)] + octets)
    }
    let packets = [
      report("020106 0377aabb 0425ccddee 03ff5701"), report("03030d18 00 aabbcc"),
      LoggedPacket(
        type: .command, direction: .hostToController,
        octets: octetsOf("0820 20 03 020106") + [UInt8](repeating: 0xAA, count: 28)),
    ]
    let other = LogReading(anonymised(log(packets), to: .btsnoop(.h4))).packets
    #expect(Array(other[0].octets[13...]) == octetsOf("020106 03770000 0425000000 03ff5701 c5"))
    #expect(Array(other[1].octets[13...]) == octetsOf("03030d18 00 000000 c5"))
    #expect(other[2].octets == octetsOf("0820 20 03 020106") + [UInt8](repeating: 0, count: 28))
  }

  /// Identity Address Information without its last byte. Core 5.4, Vol 3, Part H, 3.6.5.
  @Test func blanksACutIdentityAddress() {
    let packet = LoggedPacket(
      type: .acl, direction: .controllerToHost, octets: octetsOf("4020 0b00 0700 0600 09 01 a1b2c3d4e5"))
    let other = LogReading(anonymised(log([packet]), to: .btsnoop(.h4))).packets
    #expect(other.first?.octets == octetsOf("4020 0b00 0700 0600 09 00 0000000000"))
  }

  /// Addresses in rare commands and events are replaced, and appear nowhere else in the packet.
  @Test(
    arguments: [
      ("4e20 08 00", 4, "01"), ("2904 0a", 3, "00000000"), ("0b08 07", 3, "00"), ("600c 07", 3, "00"),
      ("050c 08 0202", 5, ""), ("4204 0b 01", 4, "00000000"),
    ])
  func replacesRareAddresses(_ before: String, _ place: Int, _ after: String) {
    let octets = octetsOf(before) + SecretLog.peer + octetsOf(after)
    let packet = LoggedPacket(type: .command, direction: .hostToController, octets: octets)
    let other = LogReading(anonymised(log([packet]), to: .btsnoop(.h4))).packets
    #expect(other[0].octets.count == octets.count && !contains(other[0].octets, SecretLog.peer))
    #expect(other[0].octets[..<place] == octets[..<place])
  }

  /// A text in an attribute of unknown type is treated as a name, as when a phone has cached the discovery.
  /// Numbers stay, and so does the model name that discovery identifies.
  @Test func hidesTextsOfUnknownAttributes() {
    func att(_ direction: HCIDirection, _ pdu: [UInt8]) -> LoggedPacket {
      LoggedPacket(
        type: .acl, direction: direction,
        octets: [
          0x40, direction == .hostToController ? 0 : 0x20, UInt8(pdu.count + 4), 0, UInt8(pdu.count), 0, 4, 0,
        ]
          + pdu)
    }
    let (name, model) = (Array("Annas Telefon".utf8), Array("R02_3.0".utf8))
    let packets = [
      att(.hostToController, [0x0A, 3, 0]), att(.controllerToHost, [0x0B] + name),
      att(.controllerToHost, [0x1B, 9, 0] + Array("Herr Maier\r\n".utf8)),
      att(.controllerToHost, [0x1B, 9, 0] + Array("72,98\r\n".utf8)),
      att(.hostToController, [0x16, 3, 0, 0, 0] + name),
      att(.hostToController, octetsOf("08 0100 ffff 0328")),
      att(.controllerToHost, octetsOf("09 07 1100 02 1200 242a")),
      att(.hostToController, [0x0A, 0x12, 0]), att(.controllerToHost, [0x0B] + model),
    ]
    let other = LogReading(anonymised(log(packets), to: .btsnoop(.h4))).packets
    #expect(other.map(\.octets.count) == packets.map(\.octets.count))
    for secret in [name, Array("Maier".utf8)] { #expect(other.allSatisfy { !contains($0.octets, secret) }) }
    #expect(other[3] == packets[3] && other[8] == packets[8])
  }

  @Test func hidesNotes() {
    let address = octetsOf("a6a5a4a3a2a1")
    let file = pcapFile(
      .little, linkType: 254,
      [
        (1, 0, octetsOf("0000 0000 00 01") + address + Array("hci0\0\0\0\0".utf8)),
        (2, 0, octetsOf("0000 000d 00") + Array("A1:A2:A3:A4:A5:A6".utf8)),
        (3, 0, octetsOf("ffff 0011 00000000 0a00") + SecretLog.ltk),
        (4, 0, octetsOf("0000 000a") + address + [15, 0]),
      ])
    let other = anonymised(file, to: .btsnoop(.monitor))
    #expect(LogReading(other).records.map(\.header.note) == [.newIndex, .indexInformation])
    #expect(!contains(other, address))
    #expect(!contains(other, SecretLog.ltk))
  }

  /// No length or content may trap.
  /// Found by fuzzing: a Remote Name Request Complete that ends before the name ended the program.
  @Test(arguments: ["07 00 0a", "07 07 00 a6a5a4a3a2a1"])
  func survivesAMissingName(_ event: String) {
    let octets = octetsOf(event)
    let packet = LoggedPacket(type: .event, direction: .controllerToHost, octets: octets)
    let packets = LogReading(anonymised(log([packet]), to: .btsnoop(.h4))).packets
    #expect(packets.map(\.octets.count) == [octets.count])
  }

  /// A day in a city: many addresses of one manufacturer with the same first three bytes. A scan of all
  /// addresses with the same prefix took a hundred seconds for this number.
  @Test func replacesManyAddresses() throws {
    let count = 50_000
    let reports = (0..<count).map { number in
      let serial = (0..<3).map { UInt8(truncatingIfNeeded: number >> (8 * $0)) }
      let address = serial + [0x33, 0x22, 0x11]
      // One report, whose vendor data repeat the address in the opposite byte order.
      let octets =
        octetsOf("3e 17 02 01 00 00") + address + octetsOf("0b 0a ff ffff") + address.reversed() + [0, 0xC0]
      return LoggedPacket(type: .event, direction: .controllerToHost, octets: octets)
    }
    let packets = LogReading(anonymised(log(reports), to: .btsnoop(.h4))).packets
    #expect(packets.count == count)
    var seen: Set<[UInt8]> = []
    for packet in packets {
      let address = Array(packet.octets[6..<12])
      #expect(address.suffix(3) != [0x33, 0x22, 0x11] && Array(packet.octets[17..<23]) == address.reversed())
      seen.insert(address)
    }
    #expect(seen.count == count)
  }

  @Test func tellsThatItIsFull() {
    var anonymiser = LogAnonymiser()
    for number in 0...65_536 {
      let name = Array("N\(number)".utf8)
      let octets = octetsOf("07 ff 00 a6a5a4a3a2a1") + name + [UInt8](repeating: 0, count: 248 - name.count)
      let packet = LoggedPacket(type: .event, direction: .controllerToHost, octets: octets)
      #expect(!anonymiser.isFull)
      LogReading(log([packet])).records.forEach { anonymiser.learn($0) }
    }
    #expect(anonymiser.isFull)
  }

  @Test func survivesRandomOctets() {
    var generator = SeededGenerator(state: 9)
    for _ in 0..<500 {
      var packets = SecretLog.packets
      for _ in 0..<20 {
        let index = Int.random(in: packets.indices, using: &generator)
        guard !packets[index].octets.isEmpty else { continue }
        if Bool.random(using: &generator) {
          packets[index].octets.removeLast(Int.random(in: 0..<packets[index].octets.count, using: &generator))
        } else {
          let octet = Int.random(in: packets[index].octets.indices, using: &generator)
          packets[index].octets[octet] = UInt8.random(in: 0...255, using: &generator)
        }
      }
      let other = LogReading(anonymised(log(packets), to: .btsnoop(.h4)))
      #expect(other.packets.map(\.octets.count) == packets.map(\.octets.count))
    }
  }

  /// tshark dissects the same layers and opcodes as before, and finds none of the addresses and names.
  @MainActor @Test(arguments: Logs.all)
  func isDissectedAsBefore(_ file: URL) throws {
    let octets = [UInt8](try Data(contentsOf: file))
    let reading = LogReading(octets)
    let other = anonymised(octets, to: .btsnoop(reading.kind))
    try withFolder { folder in
      let copy = URL(filePath: folder + "/log.btsnoop")
      try Data(other).write(to: copy)
      let kept = [
        "frame.time_epoch", "frame.len", "bthci_cmd.opcode", "bthci_evt.code", "bthci_evt.le_meta_subevent",
        "bthci_acl.chandle", "btl2cap.cid", "btatt.opcode", "btatt.handle", "btsmp.opcode",
        "btcommon.eir_ad.entry.type",
      ]
      // Except for notes that may contain anything.
      let hidden: [MonitorOpcode] = [
        .vendorDiagnostics, .systemNote, .userLogging, .controlCommand, .controlEvent,
      ]
      let original = try Self.fields(file, kept)
      try #require(original.count == reading.records.count)
      let expected = zip(original, reading.records).compactMap { line, record in
        record.header.note.map { hidden.contains($0) } ?? false ? nil : line
      }
      #expect(try Self.fields(copy, kept) == expected)
      let secret = [
        "bthci_evt.bd_addr", "bthci_cmd.bd_addr", "btcommon.eir_ad.entry.device_name",
      ]
      let values = Set(
        try Self.fields(file, secret).flatMap { $0.split(whereSeparator: { "\t,".contains($0) }) })
      #expect(file.lastPathComponent != "android-treadmill.btsnoop" || values.count > 10)
      for value in values where value != "00:00:00:00:00:00" && value.utf8.count >= 4 {
        if let address = DeviceAddress(value) {
          let sequence = (0..<6).map { address.octet($0) }
          #expect(!contains(other, sequence) && !contains(other, sequence.reversed()), "\(value)")
        } else {
          #expect(!contains(other, Array(value.utf8)), "\(value)")
        }
      }
    }
  }

  static func fields(_ file: URL, _ names: [String]) throws -> [Substring] {
    let run = try Program.run(
      "tshark", ["-r", file.path, "-T", "fields"] + names.flatMap { ["-e", $0] })
    try #require(run.status == 0, "\(run.errors)")
    return run.output.split(separator: "\n")
  }
}

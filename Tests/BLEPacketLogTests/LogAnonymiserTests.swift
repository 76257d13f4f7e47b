import BLECore
import BLEPacketLog
import BLEWire
import Foundation
import LogKit
import TestKit
import Testing

private func contains(_ octets: [UInt8], _ sequence: [UInt8]) -> Bool {
  octets.indices.contains { octets[$0] == sequence[0] && octets[$0...].starts(with: sequence) }
}

@Suite struct LogAnonymiserTests {
  /// Transmission order.
  static let peer = octetsOf("b2a1000dcb70")
  static let own = octetsOf("0605040302c1")
  static let resolvable = octetsOf("665544332251")
  static let name = Array("Anna's ring".utf8)
  static let ltk = octetsOf("00112233445566778899aabbccddeeff")
  static let irk = octetsOf("f0e1d2c3b4a5968778695a4b3c2d1e0f")
  static let confirm = octetsOf("a0a1a2a3a4a5a6a7a8a9aaabacadaeaf")
  static let publicKey = (0..<64).map { UInt8($0 * 3 + 1) }

  static func command(_ opcode: UInt16, _ parameters: [UInt8]) -> LoggedPacket {
    LoggedPacket(
      type: .command, direction: .hostToController,
      octets: octets(opcode, .little) + [UInt8(parameters.count)] + parameters)
  }

  static func event(_ code: UInt8, _ parameters: [UInt8]) -> LoggedPacket {
    LoggedPacket(
      type: .event, direction: .controllerToHost, octets: [code, UInt8(parameters.count)] + parameters)
  }

  /// An L2CAP frame on handle 0x0040, in packets of at most 27 octets of data.
  static func frame(_ channel: UInt16, _ payload: [UInt8], _ direction: HCIDirection) -> [LoggedPacket] {
    var rest = octets(UInt16(payload.count), .little) + octets(channel, .little) + payload
    var packets: [LoggedPacket] = []
    while !rest.isEmpty {
      let part = Array(rest.prefix(27))
      rest.removeFirst(part.count)
      let boundary: UInt16 = packets.isEmpty ? (direction == .hostToController ? 0 : 0x2000) : 0x1000
      packets.append(
        LoggedPacket(
          type: .acl, direction: direction,
          octets: octets(0x0040 | boundary, .little) + octets(UInt16(part.count), .little) + part))
    }
    return packets
  }

  static let packets: [LoggedPacket] = {
    let advertising = octetsOf("020106") + [UInt8(name.count + 1), 0x09] + name
    var packets = [
      command(0x2005, own), command(0x0C13, name + [UInt8](repeating: 0, count: 248 - name.count)),
      event(0x0E, octetsOf("01 0910 00") + own),
      event(
        0x3E, octetsOf("02 01 00 00") + peer + [UInt8(advertising.count)] + advertising + octetsOf("c5")),
      // Vendor data with the address the other way round, before and after it is known.
      event(
        0x3E,
        octetsOf("02 01 04 00") + octetsOf("111111111141") + octetsOf("0a 09ff3412") + peer.reversed()
          + octetsOf("c5")),
      command(0x2011, [0] + peer), command(0x2027, [0] + peer + irk + confirm),
      command(0x200D, octetsOf("6000 3000 00 00") + peer + octetsOf("00 1800 2800 0000 2a00 0000 0000")),
      event(0x3E, octetsOf("0a 00 4000 00 00") + peer + own + resolvable + octetsOf("1800 0000 2a00 00")),
    ]
    packets += frame(6, [0x0C] + publicKey, .hostToController)
    packets += frame(6, [0x03] + confirm, .controllerToHost)
    packets += frame(6, [0x06] + ltk, .controllerToHost)
    packets += frame(6, [0x08] + irk, .controllerToHost)
    packets += frame(6, [0x09, 0x00] + peer, .controllerToHost)
    packets.append(command(0x2019, octetsOf("4000 0102030405060708 3412") + ltk))
    packets += frame(4, octetsOf("08 0100 ffff 002a"), .hostToController)
    packets += frame(4, [0x09, UInt8(name.count + 2), 0x03, 0x00] + name, .controllerToHost)
    packets += frame(4, octetsOf("0a 0300"), .hostToController)
    packets += frame(4, [0x0B] + name, .controllerToHost)
    packets += frame(4, octetsOf("1b 1200 2142 "), .controllerToHost)
    // The ring's answer with its name and its address in it, in two packets.
    packets += frame(
      4, octetsOf("1b 1200") + [UInt8](repeating: 0x20, count: 12) + name + peer, .controllerToHost)
    packets.append(event(0x18, peer + ltk + [4]))
    packets.append(event(0x05, octetsOf("00 4000 13")))
    return packets
  }()

  @Test(arguments: [PacketLogWriter.Format.btsnoop(.h4), .btsnoop(.monitor), .pcapng(.h4WithDirection)])
  func leavesNothing(_ format: PacketLogWriter.Format) {
    let original = log(Self.packets)
    let other = anonymised(original, to: format)
    let packets = LogReading(other).packets
    #expect(packets.map(\.octets.count) == Self.packets.map(\.octets.count))
    #expect(packets.map(\.timeNanoseconds) == Self.packets.map(\.timeNanoseconds))
    // Fragments are looked at one after the other, as their frames were.
    let stream = packets.flatMap { $0.type == .acl ? Array($0.octets[4...]) : $0.octets }
    for secret in [
      Self.peer, Self.own, Self.resolvable, Self.name, Self.ltk, Self.irk, Self.confirm, Self.publicKey,
    ] {
      #expect(contains(Self.packets.flatMap { $0.type == .acl ? Array($0.octets[4...]) : $0.octets }, secret))
      #expect(!contains(stream, secret))
      #expect(!contains(stream, secret.reversed()))
      #expect(!contains(other, secret))
    }
  }

  /// The same for the same, another for another; kinds of address and everything else as before.
  @Test func staysConsistent() {
    let packets = LogReading(anonymised(log(Self.packets), to: .btsnoop(.h4))).packets
    let advertised = Array(packets[3].octets[6..<12])
    #expect(Array(packets[5].octets[4..<10]) == advertised)
    #expect(Array(packets[8].octets[8..<14]) == advertised)
    #expect(Array(packets[8].octets[14..<20]) == Array(packets[0].octets[3..<9]))
    #expect(Array(packets[4].octets[17..<23]) == advertised.reversed())
    // Top two bits: 01 of 70:…, 11 of C1:…, 01 of 51:….
    #expect(
      [advertised[5], packets[0].octets[8], packets[8].octets[25]].map { $0 >> 6 } == [0b01, 0b11, 0b01])
    let name = Array(packets[3].octets[18..<18 + Self.name.count])
    #expect(Array(packets[1].octets[3..<3 + Self.name.count]) == name)
    for (packet, original) in zip(packets, Self.packets) where packet.type == .command {
      #expect(packet.octets[..<3] == original.octets[..<3])
    }
    // A value that tells nothing, and the end of the link.
    #expect(packets.contains { $0.octets == octetsOf("4020 0900 0500 0400 1b12002142") })
    #expect(packets.last?.octets == Self.packets.last?.octets)
  }

  @Test func hidesNotes() {
    let address = octetsOf("a6a5a4a3a2a1")
    let file = pcapFile(
      .little, linkType: 254,
      [
        (1, 0, octetsOf("0000 0000 00 01") + address + Array("hci0\0\0\0\0".utf8)),
        (2, 0, octetsOf("0000 000d 00") + Array("A1:A2:A3:A4:A5:A6".utf8)),
        (3, 0, octetsOf("ffff 0011 00000000 0a00") + Self.ltk),
        (4, 0, octetsOf("0000 000a") + address + [15, 0]),
      ])
    let other = anonymised(file, to: .btsnoop(.monitor))
    #expect(LogReading(other).records.map(\.header.note) == [.newIndex, .indexInformation])
    #expect(!contains(other, address))
    #expect(!contains(other, Self.ltk))
  }

  /// Nothing of any length or content may trap.
  /// A Remote Name Request Complete that ends before the name: found by a fuzzer, which ended the program by it.
  @Test(arguments: ["07 00 0a", "07 07 00 a6a5a4a3a2a1"])
  func survivesAMissingName(_ event: String) {
    let octets = octetsOf(event)
    let packet = LoggedPacket(type: .event, direction: .controllerToHost, octets: octets)
    let packets = LogReading(anonymised(log([packet]), to: .btsnoop(.h4))).packets
    #expect(packets.map(\.octets.count) == [octets.count])
  }

  @Test func survivesRandomOctets() {
    var generator = SeededGenerator(state: 9)
    for _ in 0..<500 {
      var packets = Self.packets
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

  /// Tshark dissects the same layers and opcodes as before, and finds none of the addresses and names.
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
      // But for notes that may say anything.
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

import BLEDissector
import BLEPacketLog
import BLEWire
import Foundation
import LogKit
import TestKit
import Testing

/// The descriptions of packets, and what the anonymiser makes of each.
@Suite struct DescribedPacketTests {
  private func anonymous(_ packet: DescribedPacket) throws -> [UInt8] {
    let logged = try #require(packet.logged)
    let other = LogReading(anonymised(log([logged]), to: .btsnoop(.h4))).packets
    return try #require(other.first).octets
  }

  /// Marked addresses, names, keys and unknown data of every described packet are gone, each packet in a log
  /// of its own. Numbers stay.
  @Test(arguments: [0, 1, 2])
  func hidesEachMarkedField(_ variant: Int) throws {
    var marked = 0
    for (shape, fields) in DescribedPacket.layouts {
      let packet = DescribedPacket(shape, fields, variant: variant, usesSecrets: true)
      guard packet.logged != nil, packet.octets.count < 257 else { continue }
      let other = try anonymous(packet)
      #expect(other.count == packet.octets.count)
      for secret in packet.filler.secrets {
        #expect(contains(packet.octets, secret), "\(shape)")
        #expect(!contains(other, secret) && !contains(other, secret.reversed()), "\(shape): \(secret)")
        marked += 1
      }
      for range in packet.filler.kept { #expect(other[range] == packet.octets[range], "\(shape) \(range)") }
    }
    #expect(marked > 150)
  }

  /// Cut anywhere, no packet keeps a marked field, and none traps.
  @Test func hidesMarkedFieldsOfCutPackets() throws {
    for (shape, fields) in DescribedPacket.layouts {
      let packet = DescribedPacket(shape, fields, usesSecrets: true)
      guard let logged = packet.logged, !packet.filler.secrets.isEmpty else { continue }
      for count in stride(from: 3, to: packet.octets.count, by: 7) {
        var cut = logged
        cut.octets.removeLast(packet.octets.count - count)
        let other = try #require(LogReading(anonymised(log([cut]), to: .btsnoop(.h4))).packets.first)
        #expect(other.octets.count == count)
        for secret in packet.filler.secrets {
          #expect(!contains(other.octets, secret), "\(shape) after \(count)")
          // The first bytes of a secret are no number either.
          #expect(!contains(other.octets, Array(secret.prefix(4))), "\(shape) after \(count)")
        }
      }
    }
  }

  /// Any bytes in place of a packet's parameters neither trap nor change its length.
  @Test func survivesRandomParameters() throws {
    var generator = SeededGenerator(state: 7)
    let packets = DescribedPacket.layouts.compactMap { shape, fields -> LoggedPacket? in
      var packet = DescribedPacket(shape, fields).logged
      for index in (packet?.octets.indices ?? 0..<0).dropFirst(6) where Bool.random(using: &generator) {
        packet?.octets[index] = UInt8.random(in: 0...255, using: &generator)
      }
      return packet
    }
    let other = LogReading(anonymised(log(packets), to: .btsnoop(.h4))).packets
    #expect(other.map(\.octets.count) == packets.map(\.octets.count))
  }

  /// A failed command may return its parameters, only the status, or anything after the status.
  @Test func hidesMarkedFieldsOfFailedCommands() throws {
    var marked = 0
    for (shape, fields) in DescribedPacket.layouts {
      guard case .returned = shape, let first = fields.first, case .status = first.kind else { continue }
      let packet = DescribedPacket(shape, fields, usesSecrets: true)
      guard var failed = packet.logged, packet.octets.count < 257 else { continue }
      failed.octets[5] = 0x0C
      for count in [6, 8, 10, failed.octets.count] where count <= failed.octets.count {
        var cut = failed
        cut.octets = Array(failed.octets.prefix(count))
        let other = try #require(LogReading(anonymised(log([cut]), to: .btsnoop(.h4))).packets.first)
        #expect(other.octets.count == count && other.octets[..<6] == failed.octets[..<6])
        for secret in packet.filler.secrets {
          #expect(!contains(other.octets, Array(secret.prefix(4))), "\(shape) of \(count)")
          marked += 1
        }
      }
    }
    #expect(marked > 50)
  }

  /// Whatever the bytes after the header, and wherever they end, each packet is printed as text and as JSON,
  /// and anonymised.
  @Test func printsAnyParameters() throws {
    var generator = SeededGenerator(state: 11)
    var records: [(opcode: UInt16, octets: [UInt8])] = []
    for (shape, fields) in DescribedPacket.layouts {
      let packet = DescribedPacket(shape, fields)
      let header = packet.octets.count - packet.filler.octets.count
      func add(_ parameters: [UInt8]) {
        var octets = packet.octets[..<header] + parameters
        // The length in the header of a packet.
        let place = packet.monitorOpcode == 2 ? 2 : 1
        if packet.logged != nil { octets[place] = UInt8(truncatingIfNeeded: octets.count - place - 1) }
        records.append((packet.monitorOpcode, Array(octets)))
      }
      let count = packet.filler.octets.count
      for octet in [0x00, 0xFF] as [UInt8] { add([UInt8](repeating: octet, count: count)) }
      for _ in 0..<4 {
        add(
          (0..<Int.random(in: 0...count, using: &generator)).map { _ in
            .random(in: 0...255, using: &generator)
          })
        add(Array(packet.filler.octets.prefix(Int.random(in: 0...count, using: &generator))))
      }
    }
    let file = monitorFile(records)
    for style in [PacketPrinter.Style.text, .json] {
      var view = PacketView(PacketFilter(), PacketPrinter(style: style), context: 0)
      var reader = PacketLogReader()
      var decoder = PacketDecoder()
      var count = 0
      try reader.read(file.span) { record in
        count += 1
        if record.type == nil { view.take(note: record) } else { decoder.decode(record) { view.take($0) } }
      }
      let lines = view.octets.split(separator: UInt8(ascii: "\n"))
      #expect(count == records.count)
      if style == .json {
        #expect(lines.count == count)
        for line in lines { _ = try JSONSerialization.jsonObject(with: Data(line)) }
      }
    }
    let packets = LogReading(file).records.filter { $0.header.type != nil }
    let other = LogReading(anonymised(file, to: .btsnoop(.monitor))).records
    #expect(other.map(\.packet.count) == packets.map(\.packet.count))
  }

  /// Messages of the management interface are left out of an anonymised log, because `bluetoothd` may send
  /// anything.
  @Test func omitsManagement() {
    for (shape, fields) in DescribedPacket.layouts {
      let packet = DescribedPacket(shape, fields, usesSecrets: true)
      guard packet.logged == nil else { continue }
      let file = monitorFile([(packet.monitorOpcode, packet.octets)])
      #expect(LogReading(anonymised(file, to: .btsnoop(.monitor))).records.isEmpty)
    }
  }

  /// Commands, events and subevents without a description come out blank, except for the status after a
  /// command.
  @Test func blanksWhatHasNoDescription() {
    let secret = Array("Karl-Heinz".utf8)
    func hidden(_ type: HCIPacketType, _ kept: [UInt8]) -> (LoggedPacket, Int) {
      let direction: HCIDirection = type == .command ? .hostToController : .controllerToHost
      return (LoggedPacket(type: type, direction: direction, octets: kept + secret), kept.count)
    }
    var packets: [(LoggedPacket, Int)] = []
    for opcode in stride(from: 0, through: 0xFFFF, by: 1) as StrideThrough<UInt32> {
      let opcode = UInt16(opcode)
      // All of the groups with commands, and some of the others.
      guard HCICommandTable.layouts[opcode]?.fields == nil, opcode < 0x2400 || opcode % 97 == 0 else {
        continue
      }
      let (low, high) = (UInt8(opcode & 0xFF), UInt8(opcode >> 8))
      packets.append(hidden(.command, [low, high, 10]))
      packets.append(hidden(.event, [0x0E, 14, 1, low, high, 0]))
    }
    for code in 0...255 as ClosedRange<UInt8> where HCIEventTable.layouts[UInt16(code)]?.fields == nil {
      if code != 0x0E, code != 0x3E { packets.append(hidden(.event, [code, 10])) }
    }
    for code in 0...255 as ClosedRange<UInt8> where HCIEventTable.subevents[UInt16(code)]?.fields == nil {
      packets.append(hidden(.event, [0x3E, 11, code]))
    }
    let other = LogReading(anonymised(log(packets.map(\.0)), to: .btsnoop(.h4))).packets
    #expect(other.count == packets.count && packets.count > 10_000)
    for (found, (packet, kept)) in zip(other, packets) {
      #expect(found.octets == packet.octets[..<kept] + [UInt8](repeating: 0, count: secret.count))
    }
  }

  /// Bytes after the fields of a described packet are blanked, too.
  @Test func blanksWhatFollowsTheFields() throws {
    let secret = Array("Karl-Heinz".utf8)
    let packet = LoggedPacket(
      type: .command, direction: .hostToController, octets: octetsOf("0604 0d 4000 13") + secret)
    let other = LogReading(anonymised(log([packet]), to: .btsnoop(.h4))).packets
    #expect(other.first?.octets == octetsOf("0604 0d 4000 13") + [UInt8](repeating: 0, count: secret.count))
  }

  /// An address in advertising data of which the last byte is missing, at the end of the packet and of its
  /// structure. Core Specification Supplement, Part A, 1.13 and 1.16.
  @Test(arguments: ["07 1b", "07 17", "0d 17 060504030201"]) func blanksCutAddresses(_ structure: String)
    throws
  {
    let secret: [UInt8] = [0xA1, 0xB2, 0xC3, 0xD4, 0xE5]
    for isShort in [false, true] {
      var data = octetsOf(structure) + secret
      if isShort { data[0] -= 1 }
      let count = UInt8(isShort ? data.count : data.count + 1)
      let parameters = octetsOf("02 01 00 00 060504030201") + [count] + data + (isShort ? [0xC4] : [])
      let packet = LoggedPacket(
        type: .event, direction: .controllerToHost, octets: [0x3E, UInt8(parameters.count)] + parameters)
      let other = LogReading(anonymised(log([packet]), to: .btsnoop(.h4))).packets
      let found = try #require(other.first).octets
      #expect(found.count == packet.octets.count && !contains(found, Array(secret.prefix(3))))
      if isShort { #expect(found.last == 0xC4) }
    }
  }

  // MARK: Descriptions

  /// A field whose label says that it identifies somebody is not described as a number.
  @Test func labelsAgreeWithContents() {
    func check(_ fields: [PacketField], _ place: String) {
      for field in fields {
        let words = Set(
          field.label.lowercased().split(whereSeparator: { " -()".contains($0) }).map(String.init))
        switch field.content {
        case .number:
          let suspicious = [
            "address", "name", "key", "keys", "hash", "randomizer", "random", "passkey", "code",
          ]
          let isCounted =
            !words.isDisjoint(with: [
              "type", "size", "length", "num", "known", "debug", "flag", "lt", "access",
            ])
            || ["Keys", "Country code", "Code", "Debug Keys", "Address resolution"].contains(field.label)
          #expect(words.isDisjoint(with: suspicious) || isCounted, "\(place): \(field.label)")
        default: break
        }
        check(field.inner, place)
      }
    }
    for (shape, fields) in DescribedPacket.layouts { check(fields, "\(shape)") }
  }

  /// Members of a JSON object have different keys.
  @Test func keysDiffer() {
    func keys(_ fields: [PacketField]) -> [String] {
      fields.flatMap { field -> [String] in
        switch field.kind {
        case .when: keys(field.inner)
        case .padding, .length, .status: []
        case .advertisingData, .structures: ["data"]
        case .timesByBits: [field.key, "perPhy"]
        default: [field.key]
        }
      }
    }
    func check(_ fields: [PacketField], _ place: String) {
      let all = keys(fields)
      // The alternatives of an event filter never come together.
      if place != "command(3077)" { #expect(Set(all).count == all.count, "\(place): \(all)") }
      for field in fields { check(field.inner, place) }
    }
    for (shape, fields) in DescribedPacket.layouts { check(fields, "\(shape)") }
  }

  /// Places of addresses, names and keys among the parameters, read from Core 5.4, Vol 4, Part E, 7, without
  /// the tables.
  @Test func describesIdentifiersOfTheSpecification() {
    let commands: [(UInt16, [(Int, Int)])] = [
      (0x0405, [(0, 6)]), (0x0408, [(0, 6)]), (0x0409, [(0, 6)]), (0x040A, [(0, 6)]),
      (0x040B, [(0, 6), (6, 16)]),
      (0x040C, [(0, 6)]), (0x040D, [(0, 6), (7, 16)]), (0x040E, [(0, 6)]), (0x0419, [(0, 6)]),
      (0x041A, [(0, 6)]),
      (0x0429, [(0, 6)]), (0x042A, [(0, 6)]), (0x042B, [(0, 6)]), (0x042C, [(0, 6)]), (0x042D, [(0, 6)]),
      (0x042E, [(0, 6), (6, 4)]), (0x042F, [(0, 6)]), (0x0430, [(0, 6), (6, 16), (22, 16)]),
      (0x0433, [(0, 6)]),
      (0x0434, [(0, 6)]), (0x043E, [(0, 6)]), (0x043F, [(0, 6)]), (0x0440, [(0, 6)]), (0x0442, [(1, 6)]),
      (0x0444, [(0, 6)]), (0x0445, [(0, 6), (6, 16), (22, 16), (38, 16), (54, 16)]), (0x080B, [(0, 6)]),
      (0x0C0D, [(0, 6)]), (0x0C11, [(1, 6), (7, 16), (23, 6), (29, 16)]), (0x0C12, [(0, 6)]),
      (0x0C60, [(0, 6)]),
      (0x2005, [(0, 6)]), (0x2006, [(7, 6)]), (0x200D, [(6, 6)]), (0x2011, [(1, 6)]), (0x2012, [(1, 6)]),
      (0x2017, [(0, 16), (16, 16)]), (0x2019, [(2, 8), (12, 16)]), (0x201A, [(2, 16)]),
      (0x2026, [(0, 32), (32, 32)]),
      (0x2027, [(1, 6), (7, 16), (23, 16)]), (0x2028, [(1, 6)]), (0x202B, [(1, 6)]), (0x202C, [(1, 6)]),
      (0x2035, [(1, 6)]), (0x2036, [(12, 6)]), (0x2043, [(3, 6)]), (0x2044, [(3, 6)]), (0x2047, [(1, 6)]),
      (0x2048, [(1, 6)]), (0x204E, [(1, 6)]), (0x205E, [(0, 32), (32, 32)]), (0x2068, [(15, 16)]),
      (0x2069, [(20, 16)]), (0x206B, [(4, 16)]), (0x2085, [(5, 6)]),
    ]
    for (opcode, expected) in commands {
      expectSecrets(HCICommandTable.layouts[opcode]?.fields, expected, "command \(String(opcode, radix: 16))")
    }
    let events: [(UInt16, [(Int, Int)])] = [
      (0x02, [(1, 6), (15, 6)]), (0x03, [(3, 6)]), (0x04, [(0, 6)]), (0x12, [(1, 6)]), (0x16, [(0, 6)]),
      (0x17, [(0, 6)]), (0x18, [(0, 6), (6, 16)]), (0x15, [(1, 6), (7, 16), (23, 6), (29, 16)]),
      (0x20, [(0, 6)]),
      (0x22, [(1, 6), (15, 6)]), (0x2C, [(3, 6)]), (0x31, [(0, 6)]), (0x32, [(0, 6)]),
      (0x33, [(0, 6), (6, 4)]),
      (0x34, [(0, 6)]), (0x35, [(0, 6)]), (0x36, [(1, 6)]), (0x3B, [(0, 6), (6, 4)]), (0x3C, [(0, 6)]),
      (0x3D, [(0, 6)]), (0x50, [(1, 6)]), (0x52, [(0, 6)]), (0x53, [(1, 6)]),
    ]
    for (code, expected) in events {
      expectSecrets(HCIEventTable.layouts[code]?.fields, expected, "event \(String(code, radix: 16))")
    }
    let subevents: [(UInt16, [(Int, Int)])] = [
      (0x01, [(5, 6)]), (0x05, [(2, 8)]), (0x08, [(1, 32), (33, 32)]), (0x09, [(1, 32)]),
      (0x0A, [(5, 6), (11, 6), (17, 6)]), (0x0B, [(3, 6), (10, 6), (19, 6), (26, 6)]), (0x0E, [(5, 6)]),
      (0x13, [(2, 6)]), (0x18, [(9, 6)]), (0x24, [(5, 6)]), (0x26, [(9, 6)]),
      (0x29, [(5, 6), (11, 6), (17, 6)]),
    ]
    for (code, expected) in subevents {
      expectSecrets(HCIEventTable.subevents[code]?.fields, expected, "subevent \(String(code, radix: 16))")
    }
  }

  private func expectSecrets(_ fields: [PacketField]?, _ expected: [(Int, Int)], _ place: String) {
    guard let fields else {
      Issue.record("\(place) has no fields")
      return
    }
    // With all repetitions twice, any bytes do.
    var octets = [UInt8](repeating: 0, count: 128)
    octets[0] = 2
    var places = SecretPlaces()
    FieldWalk.walk(fields, octets.span, &places)
    let found = places.ranges.filter { $0.upperBound <= 128 }
    #expect(found == expected.map { $0.0..<$0.0 + $0.1 }, "\(place)")
  }
}

/// The places of addresses and keys.
private struct SecretPlaces: FieldVisitor {
  var ranges: [Range<Int>] = []

  mutating func visit(_ field: PacketField, _ range: Range<Int>, in bytes: Span<UInt8>, type: AddressType) {
    switch field.content {
    case .address: ranges.append(range.lowerBound..<range.lowerBound + 6)
    case .key: ranges.append(range)
    default: break
    }
  }

  mutating func beginList(of field: PacketField) {}
  mutating func beginEntry() {}
  mutating func endEntry() {}
  mutating func endList(of field: PacketField) {}
  mutating func fail(_ field: PacketField, needed: Int, _ rest: Range<Int>, in bytes: Span<UInt8>) {}
  mutating func leave(_ rest: Range<Int>, in bytes: Span<UInt8>) {}
}

/// Makes a log of BlueZ's monitor from its records, by `doc/btsnoop-protocol.rst`.
func monitorFile(_ records: [(opcode: UInt16, octets: [UInt8])]) -> [UInt8] {
  var file = Array("btsnoop\0".utf8) + octets(UInt32(1), .big) + octets(UInt32(2001), .big)
  for (index, record) in records.enumerated() {
    let count = octets(UInt32(record.octets.count), .big)
    file += count + count + octets(UInt32(record.opcode), .big) + octets(UInt32(0), .big)
    file += octets(UInt64(0x00E0_3AB4_4A67_6000) + UInt64(index), .big) + record.octets
  }
  return file
}

import BLEDissector
import BLEPacketLog
import BLEWire
import Foundation
import LogKit
import TestKit
import Testing

/// Lines that both programs must print: titles of commands and events, the command that an event belongs to,
/// subevents, statuses.
private func comparedLines(_ text: String) -> [String] {
  text.utf8.split(separator: UInt8(ascii: "\n")).map { String(decoding: $0, as: UTF8.self) }.compactMap {
    line in
    if line.hasPrefix("< HCI") || line.hasPrefix("> HCI") {
      // Number, adapter and time are at the end of a title.
      guard let clock = line.lastIndex(of: "#") else { return line }
      var title = line[..<clock]
      while title.last == " " { title.removeLast() }
      return String(title)
    }
    if line.hasPrefix("        Status: ") { return line }
    let isSubevent = line.hasPrefix("      LE ") || line.hasPrefix("      Unknown (")
    let isAnswer = line.hasPrefix("      ") && !line.hasPrefix("       ") && line.contains(" ncmd ")
    return isAnswer || (isSubevent && line.dropLast(3).hasSuffix(" (0x")) ? line : nil
  }
}

private func shown(_ log: [UInt8]) throws -> String {
  var reader = PacketLogReader()
  var decoder = PacketDecoder()
  var printer = PacketPrinter(style: .text)
  try reader.read(log.span) { record in decoder.decode(record) { printer.print($0) } }
  return String(decoding: printer.octets, as: UTF8.self)
}

/// Names and statuses compared with BlueZ's monitor, line by line.
@Suite @MainActor struct BtmonTests {
  private func compare(_ log: [UInt8]) throws -> Int {
    let tool = ExternalTool("btmon")
    let theirs = comparedLines(try tool.output(["-C", "250", "-r"], of: log))
    let ours = comparedLines(try shown(log))
    #expect(ours.count == theirs.count)
    for (our, their) in zip(ours, theirs) { #expect(our == their) }
    return ours.count
  }

  private func event(_ octets: [UInt8]) -> LoggedPacket {
    LoggedPacket(type: .event, direction: .controllerToHost, octets: octets)
  }

  /// Every number of groups 1 to 8 in a Command Complete, where btmon does not shorten names.
  @Test func namesEachCommand() throws {
    // btmon 5.66 does not know the newest commands of Core 5.4.
    let newer: Set<UInt16> = [
      0x0C82, 0x0C84, 0x2051, 0x2052, 0x2053, 0x2054, 0x2055, 0x2056, 0x2057, 0x2058, 0x205E, 0x205F, 0x2075,
      0x2076, 0x2077, 0x2078, 0x2079, 0x207A, 0x207B, 0x207C, 0x207D, 0x207E, 0x207F, 0x2082, 0x2083, 0x2084,
      0x2085, 0x2086,
    ]
    var packets: [LoggedPacket] = []
    for group in 1...8 as ClosedRange<UInt16> {
      for command in 0...0x90 as ClosedRange<UInt16> where !newer.contains(group << 10 | command) {
        let opcode = group << 10 | command
        packets.append(event([0x0F, 4, 0, 1, UInt8(opcode & 0xFF), UInt8(opcode >> 8)]))
      }
    }
    #expect(try compare(log(packets, format: .monitor)) == 3 * packets.count)
  }

  @Test func namesEachStatus() throws {
    let packets = (0...255 as ClosedRange<UInt8>).map { event([0x0F, 4, $0, 1, 0x0D, 0x20]) }
    #expect(try compare(log(packets, format: .monitor)) == 3 * packets.count)
  }

  @Test func namesEachEvent() throws {
    // 0x59 is from Core 5.4; 0xFE is btmon's own; an LE Meta event is meaningless without its subevent.
    let packets = (0...255 as ClosedRange<UInt8>).filter { ![0x3E, 0x59, 0xFE].contains($0) }.map {
      event([$0, 0])
    }
    #expect(try compare(log(packets, format: .monitor)) == packets.count)
  }

  @Test func namesEachSubevent() throws {
    // From Core 5.1 to 5.4; btmon 5.66 does not name them.
    let newer: Set<UInt8> = [0x15, 0x16, 0x20, 0x21, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, 0x29]
    let packets = (0...255 as ClosedRange<UInt8>).filter { !newer.contains($0) }.map { event([0x3E, 1, $0]) }
    #expect(try compare(log(packets, format: .monitor)) == 2 * packets.count)
  }

  /// Packets whose parameters both print identically. In others the words differ: we show intervals of L2CAP
  /// signals in milliseconds, do not know vendors by address, print the type of an identity address, and
  /// spell SMP's Confirm value with an r.
  @Test func saysEachParameter() throws {
    let commands = [
      "0604 03 400013", "0520 06 010203040546", "0b20 07 01 6000 3000 01 00", "0c20 02 01 00",
      "0d20 19 6000 3000 00 01 b2a1000dcb70 00 1800 2800 0000 2a00 0000 0000",
      "1320 0e 4000 1800 2800 0000 2a00 0000 0000",
      "1920 1c 4000 0102030405060708 0102 33333333333333333333333333333333", "2220 06 4000 fb00 4808",
      "2d20 01 01", "4e20 08 01 b2a1000dcb70 01",
    ]
    let events = [
      "3e13 01 00 4000 00 01 b2a1000dcb70 1800 0000 f401 00", "3e0a 03 00 4000 1800 0000 f401",
      "3e1f 0a 00 4000 00 01 b2a1000dcb70 010203040546 111213141556 1800 0000 f401 00",
      "3e15 02 01 00 01 b2a1000dcb70 09 020106 05 09 52303200 c4", "3e0c 02 01 00 01 b2a1000dcb70 00 c4",
      "3e0c 04 00 4000 ff01000000000000",
      "3e0d 05 4000 0102030405060708 0102", "3e0b 06 4000 1800 2800 0000 f401",
      "3e0b 07 4000 fb00 4808 fb00 4808",
      "3e06 0c 00 4000 02 02", "3e06 12 00 01 4000 03", "3e09 13 01 01 b2a1000dcb70", "3e04 14 4000 01",
      "3e22 09 00 2222222222222222222222222222222222222222222222222222222222222222", "0504 00 4000 13",
      "0804 00 4000 01",
      "3003 00 4000", "1305 01 4000 0100", "1a01 01", "1001 42", "0e07 01 0220 00 fb00 08",
      "0e0c 01 0320 00 ff01000000000000",
      "0e0c 01 2f20 00 fb00 4808 fb00 4808", "0e08 01 3020 00 4000 01 02", "0e07 01 0514 00 4000 c4",
      "0f04 0c 01 0d20",
    ]
    let keys = [
      "01 04 00 2d 10 0f 0f", "02 03 01 01 10 03 03", "05 04",
      "06 00112233445566778899aabbccddeeff", "07 3412 0102030405060708",
      "08 00112233445566778899aabbccddeeff",
      "0b 05", "0d 00112233445566778899aabbccddeeff",
    ]
    let signals = [
      "13070200 0000", "14080a00 8000 4000 0001 4000 0a00", "15080a00 4000 0001 4000 0a00 0000",
      "16090400 4000 0500",
      "060a0400 4000 4100", "070a0400 4000 4100", "010b0200 0000", "170c0c00 8000 0001 4000 0a00 4000 4100",
    ]
    var packets = commands.map {
      LoggedPacket(type: .command, direction: .hostToController, octets: octetsOf($0))
    }
    packets += events.map { event(octetsOf($0)) }
    for (channelID, payloads) in [(6, keys), (5, signals)] as [(UInt8, [String])] {
      for payload in payloads.map(octetsOf) {
        packets.append(
          LoggedPacket(
            type: .acl, direction: .controllerToHost,
            octets: [0x40, 0x20, UInt8(payload.count + 4), 0, UInt8(payload.count), 0, channelID, 0] + payload
          ))
      }
    }
    let tool = ExternalTool("btmon")
    let octets = log(packets, format: .monitor)
    let theirs = lines(try tool.output(["-C", "250", "-r"], of: octets)).dropFirst()
    let ours = lines(try shown(octets))
    #expect(ours.count == theirs.count)
    #expect(ours.count > 4 * packets.count)
    for (our, their) in zip(ours, theirs) { #expect(our == their) }
  }

  private func lines(_ text: String) -> [String] {
    text.split(separator: "\n").map { line in
      String(line.replacing(/\u{1B}\[[0-9;]*m/, with: "").replacing(/[ ]+#[0-9]+ .*$/, with: ""))
    }
  }

  @Test(
    .enabled(if: Place.treadmill != nil, Place.noShared))
  func agreesOnAPhonesLog() throws {
    let file = URL(filePath: try #require(Place.treadmill))
    let (log, leftOut) = monitorLog(of: [UInt8](try Data(contentsOf: file)))
    // btmon 5.66 may crash on these Read By Type requests, most of them for declarations (0x2803).
    #expect(leftOut == 19)
    #expect(try compare(log) == 1_524)
  }

  @Test(arguments: Logs.own)
  func agreesOnOurCaptures(_ file: URL) throws {
    let (log, _) = monitorLog(of: [UInt8](try Data(contentsOf: file)))
    _ = try compare(log)
  }

  /// The log in BlueZ's own format without Read By Type requests, and the number of those.
  private func monitorLog(of octets: [UInt8]) -> ([UInt8], leftOut: Int) {
    let packets = LogReading(octets).packets
    let kept = packets.filter { packet in
      !(packet.type == .acl && packet.octets.count > 8 && packet.octets[6] == 4 && packet.octets[8] == 0x08)
    }
    return (log(kept, format: .monitor), packets.count - kept.count)
  }
}

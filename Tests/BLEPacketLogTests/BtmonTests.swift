import BLECore
import BLEPacketLog
import BLEWire
import Foundation
import Testing

/// The lines that both programs must have: titles of commands and events, what an event answers, subevents, statuses.
private func comparedLines(_ text: String) -> [String] {
  text.split(separator: "\n").compactMap { line in
    // Number, adapter and time end a title; colours are in some of btmon's lines even where there is no terminal.
    let title = line.replacing(/\u{1B}\[[0-9;]*m/, with: "").replacing(/[ ]+#[0-9]+ .*$/, with: "")
    let isCompared =
      title.hasPrefix("< HCI") || title.hasPrefix("> HCI") || title.contains(/^ {6}\S.* ncmd [0-9]+$/)
      || title.contains(/^ {8}Status: .*\(0x..\)$/) || title.contains(/^ {6}(LE .*|Unknown) \(0x..\)$/)
    return isCompared ? String(title) : nil
  }
}

private func shown(_ log: [UInt8]) throws -> String {
  var reader = PacketLogReader()
  var decoder = PacketDecoder()
  var printer = PacketPrinter(style: .text)
  try reader.read(log.span) { record in decoder.decode(record) { printer.print($0) } }
  return String(decoding: printer.octets, as: UTF8.self)
}

/// Names and statuses against BlueZ's monitor, line by line.
@Suite(.enabled(if: ExternalTool("btmon") != nil, "btmon is not installed"))
struct BtmonTests {
  private func compare(_ log: [UInt8]) throws -> Int {
    let tool = try #require(ExternalTool("btmon"))
    let theirs = comparedLines(try tool.output(["-C", "250", "-r"], of: log))
    let ours = comparedLines(try shown(log))
    #expect(ours.count == theirs.count)
    for (our, their) in zip(ours, theirs) { #expect(our == their) }
    return ours.count
  }

  private func event(_ octets: [UInt8]) -> LoggedPacket {
    LoggedPacket(type: .event, direction: .controllerToHost, octets: octets)
  }

  /// Every number of the groups 1 to 8, as a Command Complete has it: there btmon does not shorten names.
  @Test func namesEachCommand() throws {
    // btmon 5.66 does not know the last commands of Core 5.4.
    let newer: Set<UInt16> = [0x2076, 0x2077, 0x2078, 0x2079, 0x207A, 0x207D, 0x207E, 0x207F]
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
    // 0x59 is of Core 5.4; 0xFE is btmon's own; an LE Meta event is nothing without its subevent.
    let packets = (0...255 as ClosedRange<UInt8>).filter { ![0x3E, 0x59, 0xFE].contains($0) }.map { event([$0, 0]) }
    #expect(try compare(log(packets, format: .monitor)) == packets.count)
  }

  @Test func namesEachSubevent() throws {
    // Of Core 5.1 to 5.3; btmon 5.66 does not name them.
    let newer: Set<UInt8> = [0x15, 0x16, 0x20, 0x21, 0x23]
    let packets = (0...255 as ClosedRange<UInt8>).filter { !newer.contains($0) }.map { event([0x3E, 1, $0]) }
    #expect(try compare(log(packets, format: .monitor)) == 2 * packets.count)
  }

  @Test(
    .enabled(if: SharedCaptures.treadmill != nil, "no shared captures: set RINGTAP_SHARED to their folder"))
  func agreesOnAPhonesLog() throws {
    let file = try #require(SharedCaptures.treadmill)
    let (log, leftOut) = monitorLog(of: [UInt8](try Data(contentsOf: file)))
    // btmon 5.66 may crash on these: Read By Type requests, most of them of declarations (0x2803).
    #expect(leftOut == 19)
    #expect(try compare(log) == 1_524)
  }

  @Test(arguments: OwnCaptures.all)
  func agreesOnOurCaptures(_ file: URL) throws {
    let (log, _) = monitorLog(of: [UInt8](try Data(contentsOf: file)))
    _ = try compare(log)
  }

  /// The log in BlueZ's own format, without Read By Type requests, and how many those are.
  private func monitorLog(of octets: [UInt8]) -> ([UInt8], leftOut: Int) {
    let packets = Reading(octets).packets
    let kept = packets.filter { packet in
      !(packet.type == .acl && packet.octets.count > 8 && packet.octets[6] == 4 && packet.octets[8] == 0x08)
    }
    return (log(kept, format: .monitor), packets.count - kept.count)
  }
}

import BLEDissector
import BLEPacketLog
import BLEWire
import Foundation
import LogKit
import TestKit
import Testing

/// The forms of `log show`: one line per packet, its times, the bytes of each packet.
@Suite @MainActor struct BriefPacketTests {
  private func shown(_ octets: [UInt8], _ printer: PacketPrinter) throws -> [String] {
    var reader = PacketLogReader()
    var decoder = PacketDecoder()
    var view = PacketView(PacketFilter(), printer, context: 0)
    try reader.read(octets.span) { record in
      view.note(record.time)
      if record.type == nil { view.take(note: record) } else { decoder.decode(record) { view.take($0) } }
    }
    return String(decoding: view.octets, as: UTF8.self).split(separator: "\n").map(String.init)
  }

  /// The same numbers, times and directions as tshark, in each log of the folder and each form of time.
  @Test(
    arguments: [
      (PacketPrinter.Times.relative, "frame.time_relative"), (.delta, "frame.time_delta"),
      (.absolute, "frame.time_epoch"),
    ])
  func agreesWithTshark(_ times: PacketPrinter.Times, _ field: String) throws {
    var count = 0
    for file in Logs.everyFormat {
      let octets = try Logs.octets(of: file)
      let lines = try shown(octets, PacketPrinter(style: .text, isBrief: true, times: times))
      let fields = ["frame.number", field, "frame.p2p_dir", "hci_mon.opcode"]
      let theirs = try ExternalTool("tshark").output(
        ["-T", "fields"] + fields.flatMap { ["-e", $0] } + ["-r", file.path])
      let frames = theirs.split(separator: "\n").map {
        $0.split(separator: "\t", omittingEmptySubsequences: false)
      }
      try #require(lines.count == frames.count, "\(file.lastPathComponent)")
      for (line, frame) in zip(lines, frames) {
        let words = line.split(separator: " ")
        #expect(words[0] == frame[0], "\(line)")
        let time = try #require(Self.microseconds(words[1]), "\(line)")
        #expect(time == Self.microseconds(frame[1]), "\(file.lastPathComponent): \(line)")
        let mark: Substring? =
          switch (frame[2], frame[3]) {
          case ("0", ""), (_, "2"), (_, "4"): "<"
          case ("1", ""), (_, "3"), (_, "5"): ">"
          default: nil
          }
        #expect(mark == nil ? ["=", "@"].contains(words[2]) : words[2] == mark, "\(line)")
        count += 1
      }
    }
    #expect(count > 1_000)
  }

  /// Microseconds of decimal seconds, or of a date in UTC.
  private static func microseconds(_ text: Substring) -> Int64? {
    if text.hasSuffix("Z") {
      let parts = text.dropLast().split(separator: ".")
      guard parts.count == 2, let date = try? Date("\(parts[0])Z", strategy: .iso8601) else { return nil }
      return Int64(date.timeIntervalSince1970) * 1_000_000 + (Int64(parts[1]) ?? 0)
    }
    let parts = text.split(separator: ".")
    guard parts.count == 2, let seconds = Int64(parts[0]), let fraction = Int64(parts[1].prefix(6)) else {
      return nil
    }
    return seconds * 1_000_000 + fraction
  }

  private static let notification = LoggedPacket(
    type: .acl, direction: .controllerToHost, octets: octetsOf("4020 0900 0500 0400 1b 1200 0048"))
  private static let fragment = LoggedPacket(
    type: .acl, direction: .controllerToHost, octets: octetsOf("4020 0500 1000 0400 1b"))
  private static let report = LoggedPacket(
    type: .event, direction: .controllerToHost, octets: octetsOf("3e0c 02 01 00 01 b2a1000dcb70 00 c4"))

  @Test func joinsWhatDescribesAPacket() throws {
    let octets = log([Self.notification, Self.fragment, Self.report])
    let lines = try shown(octets, PacketPrinter(style: .text, isBrief: true))
    #expect(
      lines == [
        "     1    0.000000 >   64  ATT: Handle Value Notification, 0x0012, 0048",
        "     2    0.000000 >   64  ACL fragment of 5 bytes",
        "     3    0.000000 >       LE Advertising Report, Num reports: 1, "
          + "Event type: Connectable undirected - ADV_IND, Address type: Random, "
          + "Address: 70:CB:0D:00:A1:B2 (Resolvable), Data length: 0, RSSI: -60 dBm",
      ])
  }

  /// A number is dropped only after the name that it has.
  @Test func keepsNumbersWithoutNames() throws {
    let packets = [
      LoggedPacket(type: .command, direction: .hostToController, octets: octetsOf("0afc 02 0102")),
      LoggedPacket(
        type: .acl, direction: .controllerToHost, octets: octetsOf("4020 0900 0500 0400 01 0a 1200 81")),
    ]
    let lines = try shown(log(packets), PacketPrinter(style: .text, isBrief: true))
    #expect(lines[0].hasSuffix("  Command: Vendor (0x3f|0x000a), 0102"), "\(lines[0])")
    #expect(
      lines[1].hasSuffix("  ATT: Error Response, Read Request, 0x0012, Error: Application Error (0x81)"),
      "\(lines[1])")
  }

  /// A terminal of 40 columns.
  @Test func fitsTheTerminal() throws {
    let octets = log([Self.notification, Self.report])
    let lines = try shown(octets, PacketPrinter(style: .text, isBrief: true, columns: 40))
    #expect(lines.map(\.count) == [40, 40])
    #expect(lines[0] == "     1    0.000000 >   64  ATT: Handle …")
  }

  /// Colours surround the line and are not counted.
  @Test func coloursTheLine() throws {
    let plain = try shown(log([Self.notification]), PacketPrinter(style: .text, isBrief: true))
    let coloured = try shown(log([Self.notification]), PacketPrinter(style: .coloredText, isBrief: true))
    #expect(coloured == plain.map { "\u{1B}[36m\($0)\u{1B}[0m" })
  }

  @Test func printsBytes() throws {
    let octets = log([Self.notification])
    let brief = try shown(octets, PacketPrinter(style: .text, isBrief: true, showsBytes: true))
    #expect(brief.dropFirst() == ["        40 20 09 00 05 00 04 00 1b 12 00 00 48           @ ..........H"])
    let json = try shown(octets, PacketPrinter(style: .json, showsBytes: true))
    #expect(json.first?.hasSuffix(#""bytes":"40200900050004001b12000048"}"#) == true)
  }

  /// Times of a hostile log: before 1970, and so far apart that their difference overflows.
  @Test func survivesImpossibleTimes() throws {
    var packets = [Self.notification, Self.notification]
    packets[0].timeNanoseconds = -1
    packets[1].timeNanoseconds = 4_000_000_000_000_000_000
    for times in PacketPrinter.Times.allCases {
      let lines = try shown(log(packets), PacketPrinter(style: .text, isBrief: true, times: times))
      #expect(lines.count == 2)
    }
  }
}

import BLEWire
import Foundation
import LogKit
import TestKit
import Testing

/// Air logs on the command line. The packets are those of Core 5.4, Vol 6, Part C, 1, and similar ones.
@Suite @MainActor struct AirLogCommandTests {
  private static let sample = Place.fixture("BLEPacketLogTests/Air/Fixtures/sample.pcap")
  private static let key = "4C68384139F574D836BCF34E9DFB01BF"

  private func log(_ arguments: [String]) throws -> Program.Result {
    try Program.run(Place.ringtap, ["log"] + arguments)
  }

  @Test func showsWhatWasOnTheAir() throws {
    let run = try log(["show", "--no-pager", "--ltk", Self.key, Self.sample])
    #expect(run.status == 0, "\(run.errors)")
    for line in [
      "~ Air: CONNECT_IND len 34", "Initiator: A1:A2:A3:A4:A5:A6 (random)", "< Air: LL_ENC_REQ len 23",
      "> Air: LL_START_ENC_RSP len 1", "ATT: Handle Value Notification (0x1b) len 7",
      "Reason: Remote User Terminated Connection (0x13)",
      "0x50655dab, channel 21, -53 dBm, event 2",
    ] {
      #expect(run.output.contains(line), "\(line)")
    }
    #expect(run.output.contains("decrypted, sent again") || run.output.contains("encrypted, sent again"))
    #expect(run.output.contains("bad CRC"))
  }

  @Test func showsJSON() throws {
    let run = try log(["show", "--json", "--key", Self.key, Self.sample])
    let lines = run.output.split(separator: "\n")
    #expect(lines.count { $0.contains(#""packetType":"air""#) } > 10)
    let notification = try #require(lines.first { $0.contains(#""opcode":27"#) })
    #expect(
      notification.contains(
        #""air":{"pdu":"L2CAP start","accessAddress":"0x50655dab","channel":5,"rssi":-53,"#))
    #expect(notification.contains(#""isDecrypted":true"#) && notification.contains(#""value":"0101010101""#))
  }

  /// Three notifications are encrypted: with the key they reach a host to which the log is replayed, and a
  /// report.
  @Test func playsAndReportsWithTheKey() throws {
    let plain = try Program.run(Place.harness, ["replay", Self.sample])
    #expect(plain.status == 0 && plain.output.contains("1 advertising event, 0 notifications"))
    let decrypted = try Program.run(Place.harness, ["replay", "--ltk", Self.key, Self.sample])
    #expect(decrypted.status == 0 && decrypted.output.contains("1 advertising event, 3 notifications"))
    try withFolder { folder in
      for (keys, updates) in [([], false), (["--ltk", Self.key], true)] {
        let page = folder + "/\(keys.count).html"
        let run = try Program.run(Place.ringtap, ["report", Self.sample, "--output", page] + keys)
        #expect(run.status == 0, "\(run.errors)")
        #expect(try String(contentsOfFile: page, encoding: .utf8).contains("0x0012") == updates)
      }
    }
  }

  @Test func saysWhatItCannotShow() throws {
    let encrypted = try log(["show", "--no-pager", Self.sample])
    #expect(encrypted.status == 0)
    #expect(
      encrypted.errors.contains("9 of 24 packets could not be decrypted: give the link's key with --ltk"))
    let none = try log([
      "show", "--no-pager", "--layer", "att", "--ltk", Self.key, "--attribute", "0x4242", Self.sample,
    ])
    #expect(
      none.status == 0 && none.output.isEmpty && none.errors.contains(" packets match")
        || none.errors.contains("encrypted"))
    #expect(try log(["show", "--ltk", "4C68", Self.sample]).status == 2)
    try withFolder { folder in
      func file(_ octets: [UInt8]) throws -> String {
        let path = folder + "/log.pcap"
        try Data(octets).write(to: URL(filePath: path))
        return path
      }
      let header = [UInt8](try Data(contentsOf: URL(filePath: Self.sample)).prefix(24))
      var foreign = header
      foreign[20] = 105
      foreign[21] = 0
      for command in ["show", "stats"] {
        let run = try log([command, try file(foreign)])
        #expect(run.status == 1 && run.errors.contains("link type 105 (Wi-Fi), which is not supported"))
        let empty = try log([command, try file(header)])
        #expect(empty.status == 0 && empty.errors.contains("it contains no packets"))
      }
    }
  }

  @Test func measuresLinks() throws {
    let text = try log(["stats", "--ltk", Self.key, Self.sample]).output
    #expect(text.contains("On the air: 24 packets"))
    #expect(text.contains("Link 1 on the air: 0x50655dab, A1:A2:A3:A4:A5:A6 to B1:B2:B3:B4:B5:B6, handle 1"))
    #expect(text.contains("encrypted, and decrypted") && text.contains("packet error rate 9.52 %"))
    let json = try log(["stats", "--json", "--ltk", Self.key, Self.sample]).output
    #expect(json.contains(#""encryption":"decrypted""#) && json.contains(#""retransmissions":2,"badCrc":1"#))
  }

  /// The converted log is an HCI log, also to Wireshark.
  @Test func convertsForWireshark() throws {
    let tshark = try Place.tool("tshark")
    try withFolder { folder in
      let out = folder + "/out.pcapng"
      let run = try log(["convert", Self.sample, "-o", out, "--ltk", Self.key])
      #expect(run.status == 0, "\(run.errors)")
      let text = try Program.output(
        of: tshark,
        ["-r", out, "-Y", "btatt.opcode == 0x1b", "-T", "fields", "-e", "btatt.handle", "-e", "btatt.value"])
      #expect(
        text == "0x0012\t0101010101\n0x0012\t0505050505\n0x0012\t0707070707\n"
          || text == "0x0012\t01:01:01:01:01\n0x0012\t05:05:05:05:05\n0x0012\t07:07:07:07:07\n")
      let ends = try Program.output(
        of: tshark, ["-r", out, "-Y", "bthci_evt.code == 0x05", "-T", "fields", "-e", "bthci_evt.reason"])
      #expect(ends == "0x13\n")
    }
  }
}

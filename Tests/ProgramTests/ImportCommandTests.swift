import BLEPacketLog
import BLEWire
import Foundation
import LogKit
import TestKit
import Testing

/// `ringtap import` reconstructs a recording from its own packet log: the same tables, byte for byte.
@Suite @MainActor struct ImportCommandTests {
  private static func tables(in folder: String) throws -> [String: Data] {
    var tables: [String: Data] = [:]
    for name in try FileManager.default.subpathsOfDirectory(atPath: folder) where name.hasSuffix(".csv") {
      tables[name] = try Data(contentsOf: URL(filePath: folder + "/" + name))
    }
    return tables
  }

  private static func session(_ folder: String) throws -> [String: Any] {
    let data = try Data(contentsOf: URL(filePath: folder + "/session.json"))
    return try #require(JSONSerialization.jsonObject(with: data) as? [String: Any])
  }

  /// Records from an emulated sensor, with nanoseconds in the log as in the tables. For a sensor whose link
  /// is lost after three samples, the count is no multiple of three; otherwise chance would decide whether
  /// the end or the loss came first.
  private func record(_ kind: String, _ options: String, _ folder: String) async throws {
    let run = try await Ringtap.run(
      ["capture"] + (kind == "ring" ? [] : [kind]) + [
        "--transport", "virtual:\(kind)\(options)", "--count",
        kind == "ring" ? "16" : "10", "--log-format", "pcapng", "--output", folder,
      ])
    try #require(run.status == 0, "\(run.errors)")
  }

  @Test(arguments: ["ring", "heart-rate", "thermometer", "cycling", "polar"], ["", ",disconnect-after=3"])
  func givesTheTablesAgain(_ kind: String, _ fault: String) async throws {
    try await withFolder { folder in
      try await record(kind, fault, folder + "/walk")
      let run = try await Ringtap.run(
        ["import", folder + "/walk/packets.pcapng", "--output", folder + "/again"])
      #expect(run.status == 0, "\(run.errors)")
      let (recorded, imported) = (
        try Self.tables(in: folder + "/walk"), try Self.tables(in: folder + "/again")
      )
      #expect(!recorded.isEmpty && recorded.allSatisfy { !$0.value.isEmpty })
      #expect(imported == recorded)
      let (before, after) = (try Self.session(folder + "/walk"), try Self.session(folder + "/again"))
      for member in ["gapCount", "links", "firstSampleAtNs", "lastSampleAtNs"] {
        #expect("\(before[member] ?? "-")" == "\(after[member] ?? "-")", "\(member)")
      }
      if !fault.isEmpty { #expect(after["gapCount"] as? Int ?? 0 > 0) }
    }
  }

  @Test func keepsTwoDevicesApart() async throws {
    try await withFolder { folder in
      let run = try await Ringtap.run([
        "capture", "ring", "heart-rate", "--transport", "virtual:ring+heart-rate", "--duration", "3",
        "--packet-log", folder + "/hci.pcapng", "--output", folder + "/ride",
      ])
      try #require(run.status == 0, "\(run.errors)")
      let again = try await Ringtap.run(["import", folder + "/hci.pcapng", "--output", folder + "/again"])
      #expect(again.status == 0, "\(again.errors)")
      let recorded = try Self.tables(in: folder + "/ride")
      #expect(Set(recorded.keys.map { $0.split(separator: "/")[0] }).count == 2)
      #expect(try Self.tables(in: folder + "/again") == recorded)
    }
  }

  /// Like a log from a phone that knew the device before: without discovery and without the start of the
  /// link.
  @Test(arguments: ["ring", "heart-rate", "polar"])
  func knowsAttributesByTheirValues(_ kind: String) async throws {
    try await withFolder { folder in
      try await record(kind, "", folder + "/walk")
      let log = try Data(contentsOf: URL(filePath: folder + "/walk/packets.pcapng"))
      let discovery: Set<UInt8> = [0x05, 0x07, 0x09, 0x11]
      let packets = LogReading([UInt8](log)).packets.filter { packet in
        // ACL and L2CAP headers have eight bytes. 0x3E is the event that starts a link.
        packet.octets.count < 9 || packet.octets[0] == 0x3E ? false : !discovery.contains(packet.octets[8])
      }
      try Data(LogKit.log(packets)).write(to: URL(filePath: folder + "/phone.btsnoop"))
      let run = try await Ringtap.run(["import", folder + "/phone.btsnoop", "--output", folder + "/again"])
      try #require(run.status == 0, "\(run.errors)")
      for (name, table) in try Self.tables(in: folder + "/walk") {
        // The log has microseconds: everything but the times is the same, and for a Polar sensor the settings
        // from the start.
        let rows = { (table: Data) in
          String(decoding: table, as: UTF8.self).split(separator: "\n").map { $0.split(separator: ",").last }
        }
        let again = try Data(contentsOf: URL(filePath: folder + "/again/" + name))
        #expect(rows(again) == rows(table), "\(name)")
      }
      let origin = try #require(try Self.session(folder + "/again")["importedFrom"] as? [String: Any])
      let attributes = try #require(origin["attributes"] as? [[String: Any]])
      #expect(attributes.contains { $0["knownBy"] as? String == "payload" })
      // It is said in words, too.
      let words = "nown by payload only: 0x"
      #expect(run.output.contains(words), "\(run.output)")
      let analysis = try await Ringtap.run(["analyse", folder + "/again"])
      #expect(analysis.output.contains(words), "\(analysis.output)")
      let report = try await Ringtap.run(["report", folder + "/again"])
      #expect(report.errors.contains(words), "\(report.errors)")
    }
  }

  @Test func takesAPersonsWordForAttributes() async throws {
    try await withFolder { folder in
      // Two temperatures are not enough evidence: IEEE 11073 floats of 36.5 and 36.6 degrees Celsius.
      let values: [[UInt8]] = [[0, 0x6D, 1, 0, 0xFF], [0, 0x6E, 1, 0, 0xFF]]
      let packets = values.enumerated().map { index, value in
        LoggedPacket(
          type: .acl, direction: .controllerToHost,
          octets: [0x40, 0x20, UInt8(7 + value.count), 0, UInt8(3 + value.count), 0, 4, 0, 0x1B, 0x12, 0]
            + value,
          timeNanoseconds: 1_700_000_000_000_000_000 + Int64(index) * 1_000_000_000)
      }
      try Data(LogKit.log(packets)).write(to: URL(filePath: folder + "/log"))
      let blind = try await Ringtap.run(["import", folder + "/log", "--output", folder + "/none"])
      #expect(blind.status == 1 && blind.errors.contains("--attributes"))
      #expect(!FileManager.default.fileExists(atPath: folder + "/none"))
      try Data("# a thermometer\n0x0012 2a1c\n".utf8).write(to: URL(filePath: folder + "/attributes"))
      let run = try await Ringtap.run([
        "import", folder + "/log", "--output", folder + "/warm", "--attributes", folder + "/attributes",
      ])
      #expect(run.status == 0, "\(run.errors)")
      let table = try String(contentsOfFile: folder + "/warm/temperature.csv", encoding: .utf8)
      #expect(
        table.split(separator: "\n").dropFirst().map { $0.split(separator: ",")[2] } == ["36.500", "36.600"])
    }
  }

  /// Other commands give the same output for a capture and for its log.
  @Test func otherCommandsTakeALog() async throws {
    try await withFolder { folder in
      try await record("heart-rate", "", folder + "/walk")
      let log = folder + "/walk/packets.pcapng"
      for command in [["analyse", "--json"], ["convert", "--to", "ndjson", "--output", "-"]] {
        let capture = try await Ringtap.run(command + [folder + "/walk"])
        let imported = try await Ringtap.run(command + [log])
        #expect(capture.status == 0 && imported.status == 0, "\(imported.errors)")
        // Only the recorder knows whether the device is bonded.
        let output = capture.output.replacing(#""security":[{"encrypted":false,"bonded":false}],"#, with: "")
        #expect(!capture.output.isEmpty && imported.output == output)
      }
    }
  }

  /// A phone's log without discovery, of a ring that was worn. The battery level is byte 1 of the only frame
  /// 03, `0360…`.
  @Test(.enabled(if: Place.shared("captures/colmi-r12-qring-sync.btsnoop") != nil, Place.noShared))
  func tellsARingsStory() async throws {
    let log = try #require(Place.shared("captures/colmi-r12-qring-sync.btsnoop"))
    try await withFolder { folder in
      let run = try await Ringtap.run(["import", log, "--output", folder + "/ring"])
      #expect(run.status == 0, "\(run.errors)")
      let battery = try String(contentsOfFile: folder + "/ring/history/battery.csv", encoding: .utf8)
      #expect(battery.split(separator: "\n").map { $0.split(separator: ",")[1] } == ["level_percent", "96"])
      let session = try Self.session(folder + "/ring")
      #expect(session["malformed"] as? Int == 0)
      let origin = try #require(session["importedFrom"] as? [String: Any])
      let messages = try #require(origin["messages"] as? [String: Int])
      #expect(messages["battery"] == 1)
      #expect(!messages.keys.contains { $0.hasPrefix("unknown") || $0.hasPrefix("invalid") })
      let handles = try #require(origin["attributes"] as? [[String: Any]]).map { $0["handle"] as? Int }
      // tshark's btatt.handle of writes and notifications.
      #expect(handles == [0x10, 0x12, 0x16, 0x18])
    }
  }

  @Test func overwritesNothing() async throws {
    try await withFolder { folder in
      try Data("mine".utf8).write(to: URL(filePath: folder + "/mine"))
      let run = try await Ringtap.run(["import", Place.capture("virtual-ring.btsnoop"), "--output", folder])
      #expect(run.status == 1 && run.errors.contains("not empty"))
      #expect(try FileManager.default.contentsOfDirectory(atPath: folder) == ["mine"])
    }
  }
}

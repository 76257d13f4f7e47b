@testable import BLEDissector
import BLEWire
import Foundation
import TestKit
import Testing

import BLEPacketLog

extension Tshark {
  /// One line per packet that passes the filter: the first occurrence of each field.
  static func fields(_ fields: [String], of log: URL, filter: String) throws -> [[String]] {
    let text = try Program.output(
      of: "tshark",
      ["-r", log.path, "-Y", filter, "-T", "fields", "-E", "separator=|", "-E", "occurrence=f"]
        + fields.flatMap { ["-e", $0] })
    return text.split(separator: "\n").map {
      $0.split(separator: "|", omittingEmptySubsequences: false).map(String.init)
    }
  }

  static func number(_ text: String) -> Int? {
    text.hasPrefix("0x") ? Int(text.dropFirst(2), radix: 16) : Int(text)
  }

  /// Number of occurrences of each value of a field.
  static func histogram(_ field: String, of log: URL, filter: String) throws -> [Int: Int] {
    try fields([field], of: log, filter: filter).reduce(into: [:]) { counts, line in
      guard let value = number(line[0]) else { return }
      counts[value, default: 0] += 1
    }
  }
}

/// Expected statistics of the only connection in tshark's list of packets, computed without our code.
private struct Expected {
  var packets: [Tshark.Packet]

  /// Times of the updates of each attribute.
  var updates: [Int: [Int64]] {
    packets.reduce(into: [:]) { times, packet in
      guard packet.opcode == 0x1B || packet.opcode == 0x1D, let handle = packet.handle else { return }
      times[handle, default: []].append(packet.timeNs)
    }
  }

  /// By opcode, from each request to the next response in the opposite direction: ATT has one outstanding at
  /// a time.
  var latencies: [Int: [Int64]] {
    let requests: Set = [0x02, 0x04, 0x06, 0x08, 0x0A, 0x0C, 0x10, 0x12, 0x16, 0x18]
    let responses: Set = [0x01, 0x03, 0x05, 0x07, 0x09, 0x0B, 0x0D, 0x11, 0x13, 0x17, 0x19]
    var latencies: [Int: [Int64]] = [:]
    var asked: Tshark.Packet?
    for packet in packets {
      guard let opcode = packet.opcode else { continue }
      if requests.contains(opcode) {
        asked = packet
      } else if responses.contains(opcode), let request = asked, let asked = request.opcode {
        latencies[asked, default: []].append(packet.timeNs - request.timeNs)
      }
    }
    return latencies
  }

  func check(_ connection: ConnectionReport) throws {
    for (direction, traffic) in [
      ("hostToController", connection.sent), ("controllerToHost", connection.received),
    ] {
      #expect(traffic.packets == packets.count { $0.packetType == "acl" && $0.direction == direction })
    }
    #expect(Set(connection.attributes.map { Int($0.handle.rawValue) }) == Set(updates.keys))
    for attribute in connection.attributes {
      let times = try #require(updates[Int(attribute.handle.rawValue)])
      let name = Comment(rawValue: "attribute \(attribute.handle)")
      #expect(attribute.count == times.count, name)
      let intervals = zip(times.dropFirst(), times).map { $0 - $1 }
      try ExactDurations(intervals).expectAgreement(attribute.intervals, name)
      try ExactDurations(zip(intervals.dropFirst(), intervals).map { abs($0 - $1) })
        .expectAgreement(attribute.jitter, name)
      for gap in attribute.gaps {
        let index = try #require(times.firstIndex(of: gap.time.nanoseconds), name)
        #expect(intervals[index] == gap.duration, name)
      }
      let longest = intervals.sorted(by: >).prefix(attribute.gaps.count)
      #expect(attribute.gaps.map(\.duration) == Array(longest), name)
    }
    #expect(Set(connection.requests.map { Int($0.opcode.rawValue) }) == Set(latencies.keys))
    for request in connection.requests {
      let name = Comment(rawValue: "\(request.opcode.name)")
      let latencies = try #require(latencies[Int(request.opcode.rawValue)], name)
      #expect(request.count == latencies.count, name)
      #expect(request.unanswered == 0, name)
      try ExactDurations(latencies).expectAgreement(request.latency, name)
    }
  }
}

@Suite @MainActor struct StatisticsTsharkTests {
  @Test(
    .enabled(if: Place.treadmill != nil, Place.noShared))
  func agreesOnAPhonesLog() throws {
    let file = URL(filePath: try #require(Place.treadmill))
    let packets = try Tshark.packets(of: file)
    let report = try statistics(of: [UInt8](Data(contentsOf: file)), chunk: 1_000)
    #expect(report.records == packets.count)
    let times = packets.map(\.timeNs)
    let (first, last) = (try #require(times.min()), try #require(times.max()))
    #expect(report.duration == last - first)
    try #require(report.connections.count == 1)
    let connection = report.connections[0]
    try Expected(packets: packets).check(connection)
    let octets = packets.filter { $0.opcode == 0x1B }.reduce(0) { $0 + ($1.value?.count ?? 0) / 2 }
    #expect(connection.attributes.reduce(0) { $0 + $1.octets } == octets)

    let commands = try Tshark.histogram("bthci_cmd.opcode", of: file, filter: "bthci_cmd")
    #expect(Dictionary(uniqueKeysWithValues: report.commands.map { (Int($0.key), $0.value) }) == commands)
    let events = try Tshark.histogram("bthci_evt.code", of: file, filter: "bthci_evt")
    let ours = report.events.reduce(into: [Int: Int]()) {
      $0[Int($1.key.code.rawValue), default: 0] += $1.value
    }
    #expect(ours == events)
    let subevents = try Tshark.histogram("bthci_evt.le_meta_subevent", of: file, filter: "bthci_evt")
    for (subevent, count) in subevents {
      #expect(report.events[LogReport.Event(code: .leMeta, subevent: UInt8(subevent))] == count)
    }
    let errors = try Tshark.fields(
      ["bthci_evt.opcode"], of: file,
      filter: "(bthci_evt.code == 0x0e || bthci_evt.code == 0x0f) && bthci_evt.status != 0")
    #expect(report.commandErrors.values.reduce(0, +) == errors.count)
    let completed = try Tshark.fields(
      ["bthci_evt.num_compl_packets"], of: file, filter: "bthci_evt.code == 0x13"
    )
    .compactMap { Tshark.number($0[0]) }
    #expect(connection.completedPackets == completed.reduce(0, +))
  }

  @Test(
    .enabled(if: Place.treadmill != nil, Place.noShared))
  func agreesOnAPhonesConnectionParameters() throws {
    let file = URL(filePath: try #require(Place.treadmill))
    let lines = try Tshark.fields(
      [
        "bthci_evt.le_con_interval", "bthci_evt.le_con_latency", "bthci_evt.le_supv_timeout",
        "frame.time_epoch",
        "bthci_evt.bd_addr",
      ], of: file, filter: "bthci_evt.le_meta_subevent in {0x01, 0x03, 0x0a}")
    let report = try statistics(of: [UInt8](Data(contentsOf: file)))
    let connection = try #require(report.connections.first)
    try #require(lines.count == connection.changes.count + 1)
    #expect(connection.peer?.description.lowercased() == lines[0][4])
    let parameters = try lines.map { line in
      LinkParameters(
        interval: UInt16(try #require(Tshark.number(line[0]))),
        latency: UInt16(try #require(Tshark.number(line[1]))),
        supervisionTimeout: UInt16(try #require(Tshark.number(line[2]))))
    }
    #expect(connection.parameters == parameters[0])
    #expect(connection.changes.map(\.value) == parameters.dropFirst().map { .timing($0) })
    let times = lines.map { $0[3].filter { $0 != "." } }
    let ours = [connection.startTime.nanoseconds] + connection.changes.map(\.time.nanoseconds)
    #expect(ours.map(String.init) == times)
  }
}

/// The logs in `Captures`, compared with tshark's decode from when they were recorded.
@Test(arguments: ["bumble-ring"])
func measuresCapture(_ name: String) throws {
  let packets = try Tshark.packets(
    in: String(contentsOf: URL(filePath: Place.capture("\(name).tshark.txt")), encoding: .utf8))
  let report = try statistics(of: [UInt8](Data(contentsOf: URL(filePath: Place.capture("\(name).btsnoop")))))
  #expect(report.records == packets.count)
  try #require(report.connections.count == 1)
  try Expected(packets: packets).check(report.connections[0])
  // 60 frames of 16 bytes. The peer offers an MTU of 517, and so do we.
  #expect(report.connections[0].attributes.map(\.octets) == [960])
  #expect(report.connections[0].changes.map(\.value) == [.mtu(517)])
}

import BLEEmulation
import BLELinux
import BLEPacketLog
import BLEStack
import BLEWire
import Foundation
import Recording
import SensorSessions
import TestKit
import Testing

import BLEHost
@testable import BLEReplay

/// A capture replayed from the log of a capture gives the same tables.
@Suite(.timeLimit(.minutes(2))) struct ReplayCaptureTests {
  private static let tables = ["accelerometer.csv", "ppg.csv", "spo2.csv"]
  private static let count = 300

  /// Records live, with the capture's own log and one of all HCI packets.
  private func record(
    in folder: String, _ format: CaptureLogFormat, count: Int? = ReplayCaptureTests.count
  ) async throws -> String {
    let path = folder + "/hci.\(format.rawValue)"
    let log = try await PacketLogFile.start(path)
    let link = try await VirtualLink.open([quietRing()]) { log.capturing($0) }
    let ring = try await SensorFinder.find(SensorKind.ring.search, on: link.adapter, within: .seconds(10))
    var capture = SensorRecording(
      of: ring.address, named: ring.name, on: link.adapter, into: folder + "/live",
      RecordingLimits(count: count))
    capture.logFormat = format
    let result = try await capture.run(.ring)
    #expect(result.failure == nil && result.report.lost.total == 0)
    await link.close()
    #expect(await log.finish().lost == 0)
    return path
  }

  private struct Replayed {
    var result: Result<SensorRecording.Result, HostError>
    var findings: ReplayFindings
    var failure: HostError?
  }

  /// Captures again, with the log instead of the controller.
  private func replay(
    _ log: ReplayLog, in folder: String, speed: ReplaySpeed = .max, link: Int? = nil,
    count: Int? = ReplayCaptureTests.count
  ) async throws -> Replayed {
    let loop = try EventLoop.start()
    defer { loop.stop() }
    let transport = try ReplayTransport(log, ReplaySource(path: "", speed: speed, link: link), on: loop)
    let result: Result<SensorRecording.Result, HostError>
    do throws(HostError) {
      let adapter = try await HostAdapter.open(transport, name: "replay", on: loop)
      do throws(HostError) {
        let search = SensorKind.ring.search
        let peer =
          if let peer = transport.peer { peer } else {
            try await SensorFinder.find(search, on: adapter, within: .seconds(10)).address
          }
        let capture = SensorRecording(of: peer, on: adapter, into: folder, RecordingLimits(count: count))
        let task = Task { () -> Result<SensorRecording.Result, HostError> in
          do throws(HostError) { return .success(try await capture.run(.ring)) } catch {
            return .failure(error)
          }
        }
        transport.whenOver { task.cancel() }
        result = await task.value
      } catch { result = .failure(error) }
      await adapter.close()
    } catch { result = .failure(error) }
    return Replayed(result: result, findings: transport.findings, failure: transport.failure)
  }

  private func table(_ folder: String, _ name: String) throws -> String {
    try String(contentsOfFile: folder + "/" + name, encoding: .utf8)
  }

  /// Cuts each timestamp to microseconds, the resolution of btsnoop.
  private func inMicroseconds(_ table: String) -> String {
    table.split(separator: "\n", omittingEmptySubsequences: false).map { row in
      guard let comma = row.firstIndex(of: ","), row.first?.isNumber == true else { return String(row) }
      return row[..<comma].dropLast(3) + "000" + row[comma...]
    }.joined(separator: "\n")
  }

  private func expectSameTables(
    _ folder: String, _ format: CaptureLogFormat, at location: SourceLocation = #_sourceLocation
  ) throws {
    for name in Self.tables {
      let live = try table(folder + "/live", name)
      #expect(live.split(separator: "\n").count == 1 + Self.count / 3, sourceLocation: location)
      let expected = format == .pcapng ? live : inMicroseconds(live)
      #expect(try table(folder + "/again", name) == expected, "\(name)", sourceLocation: location)
    }
  }

  /// From the log of all HCI packets, including the scan: byte for byte if the log has nanoseconds.
  @Test(arguments: [CaptureLogFormat.pcapng, .btsnoop])
  func recordsTheSameFromAConversation(_ format: CaptureLogFormat) async throws {
    try await withFolder { folder in
      let path = try await record(in: folder, format)
      let log = try ReplayLog.read(path)
      let again = try await replay(log, in: folder + "/again")
      let result = try again.result.get()
      #expect(result.failure == nil && result.report.endReason == "count reached")
      #expect(result.report.received == Self.count && result.report.lost.total == 0)
      #expect(again.findings.differenceCount == 0 && again.findings.played == log.packets.count)
      #expect(
        again.findings.reproduced == log.packets.count { $0.direction == .hostToController })
      #expect(again.failure == nil)
      try expectSameTables(folder, format)
    }
  }

  /// From the capture's own log, which has the ATT channel of one link.
  @Test(arguments: [CaptureLogFormat.pcapng, .btsnoop])
  func recordsTheSameFromTheCapturesOwnLog(_ format: CaptureLogFormat) async throws {
    try await withFolder { folder in
      _ = try await record(in: folder, format)
      let log = try ReplayLog.read(folder + "/live/" + format.fileName)
      let again = try await replay(log, in: folder + "/again")
      let result = try again.result.get()
      #expect(result.failure == nil && result.report.endReason == "count reached")
      #expect(again.findings.differenceCount == 0 && again.findings.played == log.packets.count)
      try expectSameTables(folder, format)
    }
  }

  /// Each link of a capture that lost three: their rows together are those of the capture. Later links had
  /// fewer requests; responses of the first link are used for the missing ones.
  @Test func recordsEachLinkOfACaptureWithGaps() async throws {
    try await withFolder { folder in
      var ring = quietRing()
      ring.disconnectAfter = 90
      let link = try await VirtualLink.open([ring])
      var capture = SensorRecording(
        of: ring.address, on: link.adapter, into: folder + "/live", RecordingLimits(count: Self.count))
      capture.logFormat = .pcapng
      capture.plan.patience = .seconds(20)
      let live = try await capture.run(.ring)
      await link.close()
      #expect(live.failure == nil && live.report.linkCount == 4)

      let log = try ReplayLog.read(folder + "/live/packets.pcapng")
      var again: [String: String] = [:]
      for number in 1...4 {
        let path = folder + "/again\(number)"
        let played = try await replay(log, in: path, link: number, count: nil)
        let result = try played.result.get()
        #expect(result.report.received == (number < 4 ? 90 : 30))
        #expect(result.failure == (number < 4 ? .gatt(.closed(.linkLost(.silence))) : nil))
        for name in Self.tables {
          let rows = try table(path, name)
          again[name, default: ""] +=
            number == 1 ? rows[...] : rows[(rows.firstIndex(of: "\n") ?? rows.startIndex)...].dropFirst()
        }
      }
      for name in Self.tables { #expect(try table(folder + "/live", name) == again[name], "\(name)") }
    }
  }

  /// One link of a recorded conversation, without a count: the end of the replay ends the capture as Ctrl-C
  /// would.
  @Test func recordsALinkToItsEnd() async throws {
    try await withFolder { folder in
      let log = try ReplayLog.read(try await record(in: folder, .pcapng))
      let again = try await replay(log, in: folder + "/again", speed: .times(100), link: 1, count: nil)
      let result = try again.result.get()
      #expect(result.failure == nil && result.report.endReason == "interrupted")
      #expect(again.findings.differenceCount == 0)
      for name in Self.tables {
        // The live capture closed its tables at the count; the log has what arrived until the disconnect.
        let live = try table(folder + "/live", name)
        #expect(try table(folder + "/again", name).hasPrefix(live))
      }
    }
  }

  /// A client with other requests than the recorded one, for bumble's ring: the recorded responses are still
  /// found.
  @Test func answersAClientThatAsksOtherwise() async throws {
    let captures = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent().appending(path: "Captures")
    let log = try ReplayLog.read(captures.appending(path: "bumble-ring.btsnoop").path)
    let loop = try EventLoop.start()
    defer { loop.stop() }
    let transport = try ReplayTransport(log, ReplaySource(path: ""), on: loop)
    let adapter = try await HostAdapter.open(transport, name: "replay", on: loop)
    let peer = try #require(transport.peer)
    let connection = try await adapter.connect(
      to: peer, asking: LinkRequest(), timeout: .seconds(10), tap: nil)
    let database = try await connection.discover()
    // The ring's two services: reference colmi-ring-protocol.md, 1.
    #expect(
      database.services.map(\.uuid.description) == [
        "6e40fff0-b5a3-f393-e0a9-e50e24dcca9e", "de5bf728-d711-4e47-af26-65e3012a5dc7",
      ])
    #expect(database.services.allSatisfy { $0.characteristics.count == 2 })
    await adapter.close()
  }

  // MARK: Damage

  /// The log without the records that `isLost` selects.
  private func log(_ path: String, without isLost: (Int, borrowing PacketRecord) -> Bool) throws -> ReplayLog
  {
    let octets = [UInt8](try Data(contentsOf: URL(filePath: path)))
    var log = ReplayLog()
    var tracker = ConnectionTracker()
    var reader = PacketLogReader()
    var number = 0
    try reader.read(octets.span) { record in
      number += 1
      if !isLost(number, record) { log.take(record, &tracker) }
    }
    return log
  }

  /// Index of the first ATT PDU with this opcode.
  private func first(_ opcode: UInt8, _ path: String) throws -> Int {
    let all = try ReplayLog.read(path).packets
    let found = all.first {
      $0.octets.count > 9 && $0.octets[0] == 2 && $0.octets[7] == 4 && $0.octets[9] == opcode
    }
    return try #require(found).index
  }

  /// The response (0x13) to the first write, a subscription, is missing: the replay continues, and the
  /// request is reported.
  @Test func namesAMissingAnswer() async throws {
    try await withFolder { folder in
      let path = try await record(in: folder, .pcapng)
      let (question, answer) = (try first(0x12, path), try first(0x13, path))
      let log = try log(path) { number, _ in number == answer }
      let again = try await replay(log, in: folder + "/again")
      #expect(again.failure == nil)
      #expect(try again.result.get().failure == nil)
      #expect(again.findings.counts == [.unanswered: 1])
      #expect(again.findings.examples.first?.index == question)
      try expectSameTables(folder, .pcapng)
    }
  }

  /// A request is missing but its response is there: the capture is the same.
  @Test func playsOnWithoutARequest() async throws {
    try await withFolder { folder in
      let path = try await record(in: folder, .pcapng)
      let question = try first(0x12, path)
      let log = try log(path) { number, _ in number == question }
      let again = try await replay(log, in: folder + "/again")
      #expect(try again.result.get().failure == nil)
      // The response was passed before our request arrived, or is matched to it; the start command after it
      // determines the time.
      let counts = again.findings.counts
      #expect(counts == [.unexpected: 1] || counts == [.unasked: 1, .unexpected: 1])
      try expectSameTables(folder, .pcapng)
    }
  }

  /// A truncated log gives the rows up to its end.
  @Test func recordsTheGoodPartOfACutLog() async throws {
    try await withFolder { folder in
      _ = try await record(in: folder, .pcapng)
      let file = URL(filePath: folder + "/live/packets.pcapng")
      let whole = try Data(contentsOf: file)
      try whole.prefix(whole.count * 2 / 3).write(to: file)
      let log = try ReplayLog.read(file.path)
      #expect(log.problem?.contains("records before are good") == true)
      let again = try await replay(log, in: folder + "/again")
      #expect(try again.result.get().report.endReason == "interrupted")
      for name in Self.tables {
        let (live, part) = (try table(folder + "/live", name), try table(folder + "/again", name))
        #expect(live.hasPrefix(part) && part.count > live.count / 2)
      }
    }
  }

  @Test func refusesWhatHasNothingToPlay() async throws {
    try withFolder { folder in
      let path = folder + "/text"
      try Data("no log at all, but long enough".utf8).write(to: URL(filePath: path))
      #expect(throws: HostError.self) { _ = try ReplayLog.read(path) }
      let loop = try EventLoop.start()
      defer { loop.stop() }
      #expect(throws: HostError.self) {
        _ = try ReplayTransport(ReplayLog(), ReplaySource(path: ""), on: loop)
      }
    }
  }
}

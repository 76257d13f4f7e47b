import BLEHost
import BLEPacketLog
import BLEWire
import CaptureTools
import Foundation
import HarnessKit
import Recording
import TestKit
import Testing

@testable import BLEReplay

/// Our stack, driven by logs. `Captures/README.md` describes how each log was made; those in `shared` are
/// from other hosts.
@Suite(.timeLimit(.minutes(2))) struct LogReplayTests {
  private func hostPackets(_ log: ReplayLog) -> Int {
    log.packets.count { $0.direction == .hostToController }
  }

  /// Our packets match byte for byte, and the number of frames is tshark's for the log (opcode 0x1b).
  @Test(arguments: [
    "bumble-ring.btsnoop", "exclusive-hci.btsnoop", "exclusive-monitor.btsnoop", "exclusive-monitor.pcapng",
    "raw-monitor.btsnoop", "virtual-ring.btsnoop",
  ])
  func saysWhatWasSaid(_ name: String) async throws {
    let file = Place.capture(name)
    let log = try ReplayLog.read(file)
    let report = try await LogReplay(log).run()
    #expect(report.findings.differenceCount == 0, "\(report.findings.examples)")
    #expect(report.findings.played == log.packets.count)
    #expect(report.findings.reproduced == hostPackets(log) && hostPackets(log) > 0)
    let decode = URL(filePath: file).deletingPathExtension().appendingPathExtension("tshark.txt")
    let frames = try String(contentsOf: decode, encoding: .utf8).split(separator: "\n").count {
      $0.contains("|0x1b|") || $0.contains("|27|")
    }
    #expect(frames > 0 && report.notifications == frames)
    #expect(report.samples == [frames / 3, frames / 3, frames / 3])
  }

  /// A log of an Android phone: tshark counts 1,047 notifications (opcode 0x1b).
  @Test(
    .enabled(if: Place.treadmill != nil, Place.noShared))
  func playsAnAndroidLog() async throws {
    let log = try ReplayLog.read(try #require(Place.treadmill))
    let report = try await LogReplay(log).run()
    #expect(report.packets == 2572 && report.findings.played == 2572)
    #expect(report.notifications == 1047)
    #expect(report.findings.differenceCount == 0, "\(report.findings.examples)")
    #expect(report.findings.reproduced == hostPackets(log))
  }

  // MARK: Differences

  /// The exclusive log with one packet changed by `edit`, which returns `nil` to remove it.
  private func edited(
    _ index: Int, _ edit: ([UInt8]) -> [UInt8]?
  ) throws -> ReplayLog {
    let whole = try ReplayLog.read(Place.capture("exclusive-hci.btsnoop"))
    var log = ReplayLog()
    var tracker = ConnectionTracker()
    for packet in whole.packets {
      guard let octets = packet.index == index ? edit(packet.octets) : packet.octets else { continue }
      var header = PacketRecordHeader()
      header.index = packet.index
      header.time = packet.time
      header.type = HCIPacketType(rawValue: octets[0])
      header.direction = packet.direction
      let span = octets.span
      log.take(PacketRecord(header, packet: span.extracting(1...)), &tracker)
    }
    return log
  }

  private func findings(_ index: Int, _ edit: ([UInt8]) -> [UInt8]?) async throws -> ReplayFindings {
    try await LogReplay(try edited(index, edit)).run().findings
  }

  /// The response to packet 28, a Find By Type Value Request.
  @Test func namesARequestWithoutAnswer() async throws {
    let found = try await findings(30) { _ in nil }
    #expect(found.counts == [.unanswered: 1])
    #expect(found.examples.first?.index == 28)
  }

  @Test func namesAnAnswerWithoutRequest() async throws {
    let found = try await findings(28) { _ in nil }
    #expect(found.counts == [.unasked: 1])
    #expect(found.examples.first?.index == 30)
  }

  /// The opcode of the Exchange MTU Response becomes that of a request: our server responds, the recorded one
  /// did not.
  @Test func tellsWhatOursSaysAndTheLogDoesNot() async throws {
    let found = try await findings(24) { $0.dropLast(3) + [0x02, 0x05, 0x02] }
    let unexpected = try #require(found.examples.first { $0.kind == .unexpected })
    // Exchange MTU Response, 517. Core 5.4, Vol 3, Part F, 3.4.2.2.
    #expect(unexpected.ours?.suffix(3) == [0x03, 0x05, 0x02])
    #expect(found.counts[.unanswered] == 1)
  }

  /// The Command Complete of Reset is missing: our start-up stops, and the log's own continues.
  @Test func goesOnWithoutAnAnswerOfTheStartUp() async throws {
    let found = try await findings(2) { _ in nil }
    #expect(found.counts[.unanswered] == 1 && found.counts[.missing] == 1)
    #expect(found.reproduced >= 30)
  }

  /// Found by fuzzing replays: a command with more parameters than possible ended the program.
  @Test func playsACommandLongerThanItSays() async throws {
    let packets = try edited(0) { $0 }.packets
    for packet in packets where packet.octets[0] == HCIPacketType.command.rawValue {
      let log = try edited(packet.index) { $0 + [UInt8](repeating: 0x41, count: 300) }
      let report = try await LogReplay(log).run()
      #expect(report.findings.played == log.packets.count, "packet \(packet.index)")
      #expect(report.findings.notPlayed > 0)
    }
  }

  /// Damage anywhere is reported or harmless, and never ends the replay.
  @Test func playsEachPacketLostAndEachCut() async throws {
    let count = try edited(0) { $0 }.packets.count
    for index in 1...count {
      for edit in [{ _ in nil }, { Array($0.dropLast()) }] as [([UInt8]) -> [UInt8]?] {
        let log = try edited(index, edit)
        let report = try await LogReplay(log).run()
        #expect(report.findings.played == log.packets.count, "packet \(index)")
      }
    }
  }

  @Test func playsOneLink() async throws {
    let log = try ReplayLog.read(Place.capture("exclusive-hci.btsnoop"))
    let report = try await LogReplay(log, link: 1).run()
    #expect(report.notifications == 30 && report.packets < log.packets.count)
    #expect(report.findings.differenceCount == 0, "\(report.findings.examples)")
    await #expect(throws: HostError.self) { _ = try await LogReplay(log, link: 2).run() }
  }
}

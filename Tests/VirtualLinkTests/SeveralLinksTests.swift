import BLEEmulation
import BLEHost
import BLEStack
import BLEWire
import Foundation
import Recording
import SensorSessions
import TestKit
import Testing

/// Several rings captured at once over one adapter.
@Suite(.timeLimit(.minutes(2))) struct SeveralLinksTests {
  private static let samples = 300

  /// Each ring breaks a different share of its frames, so that a frame in the wrong capture shows.
  @Test func sixteenRingsEachInItsOwnDirectory() async throws {
    try await withFolder { folder in
      let rings = (1...16).map { quietRing(number: UInt64($0), rate: 90, malformedEvery: $0 + 4) }
      let link = try await VirtualLink.open(rings)
      let found = try await SensorFinder.find(
        (0..<16).map { _ in SensorKind.ring.search }, on: link.adapter, within: .seconds(20)
      ).compactMap(\.self)
      #expect(Set(found.map(\.address)) == Set(rings.map(\.address)))

      let captures = found.map {
        SensorRecording(
          of: $0.address, named: $0.name, on: link.adapter,
          into: RecordingGroup.directory(of: $0.address, in: folder), RecordingLimits(count: Self.samples))
      }
      let outcomes = await RecordingGroup(captures.map { (AnySensorKind(.ring), $0) }).run()
      await link.close()

      #expect(outcomes.count == 16)
      var handles: Set<UInt16> = []
      for (outcome, advertiser) in zip(outcomes, found) {
        let result = try outcome.result.get()
        #expect(result.failure == nil)
        #expect(result.report.lost.total == result.report.malformed)
        #expect(result.report.device == advertiser.address)
        #expect(result.report.streams.reduce(0) { $0 + $1.samples } == Self.samples)
        let every = try #require(rings.first { $0.address == advertiser.address }?.malformedEvery)
        // The number of frames, including the broken ones, until 300 are valid.
        let frames = (Self.samples...).first { $0 - $0 / every == Self.samples }
        #expect(result.report.received == frames)
        #expect(result.report.malformed == frames.map { $0 / every })
        handles.insert(try #require(result.report.connectionHandle).rawValue)

        let session = try Data(contentsOf: URL(filePath: outcome.recording.directory + "/session.json"))
        let object = try #require(try JSONSerialization.jsonObject(with: session) as? [String: Any])
        let device = try #require(object["device"] as? [String: Any])
        #expect(device["address"] as? String == advertiser.address.description)
        let rows = try ["accelerometer", "ppg", "spo2"].reduce(0) { sum, name in
          let text = try String(contentsOfFile: outcome.recording.directory + "/\(name).csv", encoding: .utf8)
          return sum + text.split(separator: "\n").count - 1
        }
        #expect(rows == Self.samples)
      }
      #expect(handles.count == 16)
    }
  }

  /// A lost link does not affect the others.
  @Test func oneLostLinkLeavesTheOthersAlone() async throws {
    try await withFolder { folder in
      var rings = (1...3).map { quietRing(number: UInt64($0)) }
      rings[1].disconnectAfter = 100
      let link = try await VirtualLink.open(rings)
      let captures = rings.map {
        SensorRecording(
          of: $0.address, on: link.adapter, into: RecordingGroup.directory(of: $0.address, in: folder),
          RecordingLimits(count: Self.samples))
      }
      let outcomes = await RecordingGroup(captures.map { (AnySensorKind(.ring), $0) }).run()
      await link.close()
      let reports = try outcomes.map { try $0.result.get() }
      #expect(reports[0].failure == nil && reports[2].failure == nil)
      #expect(reports[0].report.received == Self.samples && reports[2].report.received == Self.samples)
      #expect(reports[1].report.received == 100)
      #expect(reports[1].failure == .gatt(.closed(.linkLost(.silence))))
      // Connection Timeout. Core 5.4, Vol 1, Part F, 2.8.
      #expect(reports[1].report.disconnectReason?.rawValue == 0x08)
    }
  }

  /// A ring, a strap and an H10, found and recorded at once: each has its own tables, all on one clock.
  @Test func sensorsOfDifferentKinds() async throws {
    try await withFolder { folder in
      let specification = try VirtualPeripheralSpecification(
        parsing: "ring,rate=90+heart-rate,rate=20+polar,rate=20")
      let link = try await VirtualLink.open { specification.makePeripherals() }
      let kinds = try ["ring", "heart-rate", "polar"].map { try #require(AnySensorKind(named: $0)) }
      let found = try await SensorFinder.find(kinds.map(\.search), on: link.adapter, within: .seconds(20))
        .map { try #require($0) }
      #expect(Set(found.map(\.address)).count == 3)
      let recordings = found.map {
        SensorRecording(
          of: $0.address, named: $0.name, on: link.adapter,
          into: RecordingGroup.directory(of: $0.address, in: folder), RecordingLimits(count: 30))
      }
      let outcomes = await RecordingGroup(Array(zip(kinds, recordings))).run()
      await link.close()

      let reports = try outcomes.map { try $0.result.get() }
      #expect(reports.allSatisfy { $0.failure == nil && $0.values == 30 && $0.report.lost.total == 0 })
      #expect(
        reports.map { $0.report.streams.map(\.name) }
          == [["accelerometer", "ppg", "spo2"], ["heart_rate", "rr_intervals"], ["ecg"]])
      for report in reports.map(\.report) {
        #expect(report.startedAt.nanoseconds <= (try #require(report.firstSampleAt)).nanoseconds)
      }
    }
  }
}

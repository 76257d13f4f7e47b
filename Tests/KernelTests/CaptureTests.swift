import Foundation
import TestKit
import Testing

extension OverEachWay {
  /// The main use, with an emulated ring and with an independent ring implementation.
  @Suite final class CaptureTests {
    private let scene: Scene

    init() throws { scene = try Scene() }
    isolated deinit { scene.end() }

    /// Finds the ring by its name.
    @Test(arguments: Way.hereWithEmulation)
    func recordsTheEmulatedRingWithoutLoss(_ way: Way) throws {
      let ring = try scene.emulatedRing(over: way, "--rate", "300")
      let path = scene.path("capture")
      let result = try scene.ringtap(
        reaching: ring, "capture", "--count", "\(way.longCount)", "--output", path, "--json")
      result.expectSuccess()

      let capture = try CaptureFolder(path)
      #expect(capture.session.device.address == ring.address)
      #expect(capture.session.mode == way.mode)
      #expect(result.output == (try String(contentsOfFile: path + "/session.json", encoding: .utf8)))
      let frames = try expectAll(way.longCount, capture, way.stamps)
      try expectCapturedFrames(frames, capture)
    }

    /// Connects to the ring's address.
    @Test(arguments: Way.here)
    func recordsABumbleRingWithoutLoss(_ way: Way) throws {
      let ring = try scene.bumbleRing(over: way, "--rate", "300")
      let path = scene.path("capture")
      try scene.ringtap(
        reaching: ring, "capture", ring.address, "--count", "\(way.longCount)", "--output", path
      ).expectSuccess()

      let capture = try CaptureFolder(path)
      #expect(capture.session.device.address == ring.address)
      #expect(capture.session.mode == way.mode)
      _ = try expectAll(way.longCount, capture, way.stamps)
      // The peer numbers its frames: red from 0, PPG from 1600, the x axis from 0.
      let ticks = way.longCount / 3
      #expect(capture.tables["spo2"]?.map { $0.values[0] } == Array(0..<ticks))
      #expect(capture.tables["ppg"]?.map { $0.values[0] } == Array(1600..<1600 + ticks))
      #expect(capture.tables["accelerometer"]?.map { $0.values[0] } == Array(0..<ticks))
    }

    /// The first requested device is absent; this does not delay the ones that are present.
    @Test(arguments: Way.hereWithEmulation)
    func recordsWhileItLooksForAnother(_ way: Way) throws {
      let ring = try scene.emulatedRing(over: way, "--rate", "300")
      let path = scene.path("both")
      let capture = try scene.startRingtap(
        reaching: ring, "capture", "ring@70:CB:0D:00:FF:FF", "ring@" + ring.address, "--timeout", "300",
        "--output", path)
      let own = path + "/" + ring.address.replacing(":", with: "-")
      try scene.waitForRows(of: own)
      capture.send(SIGINT)
      _ = try capture.finish()
      #expect(try scene.wholeCapture(own).rowCount > 0)
    }

    private struct Raw: Decodable {
      var event: String
      var time_ns: UnixNanoseconds?
      var stream: String?
      var spo2_counts: Int?
      var ppg_counts: Int?
      var x_counts: Int?
    }

    @Test(arguments: Way.here)
    func printsTheRawStreamOfABumbleRing(_ way: Way) throws {
      let ring = try scene.bumbleRing(over: way, "--rate", "300")
      let result = try scene.ringtap(reaching: ring, "ring", "raw", ring.address, "--count", "30", "--json")
      result.expectSuccess()
      let objects = try result.objects(Raw.self)
      #expect(objects.last?.event == "end")
      let samples = objects.filter { $0.event == "sample" }
      // The peer numbers its frames: red from 0, which means a dropout, PPG from 1600, the x axis from 0.
      #expect(samples.filter { $0.stream == "spo2" }.map(\.spo2_counts) == [nil] + Array(1..<10))
      #expect(samples.filter { $0.stream == "ppg" }.map(\.ppg_counts) == Array(1600..<1610))
      #expect(samples.filter { $0.stream == "accelerometer" }.map(\.x_counts) == Array(0..<10))
      let times = samples.compactMap(\.time_ns)
      #expect(times.count == 30 && times == times.sorted())
    }

    private func expectAll(
      _ count: Int, _ capture: CaptureFolder, _ stamps: CaptureFolder.Stamps
    ) throws -> [RawFrame] {
      capture.expectNoTrouble(samples: count, stamps: stamps)
      #expect(capture.session.endReason == "count reached")
      #expect(capture.tables.values.allSatisfy { $0.count == count / 3 })

      #expect(try scene.btmonNotifications(capture.packetLog) == count)
      // bumble's ring was not known before: requests for its service, its characteristics, the descriptor and
      // the subscription.
      #expect(try (1...5).contains(scene.requestsBeforeTheStream(capture.packetLog)))
      let frames = try scene.tshark(capture.packetLog)
      #expect(frames.count == count)
      // The log has microseconds.
      for (name, table) in capture.tables {
        let same = zip(table, frames.filter { $0.stream == name }).allSatisfy { row, frame in
          row.values == frame.values && row.timeNs / 1000 == frame.microseconds
        }
        #expect(same, "\(name).csv is not what tshark finds in the log")
      }
      return frames
    }

    private struct Vector: Decodable {
      struct Expectation: Decodable {
        var value: Int?
        var max: Int?
        var min: Int?
        var diff: Int?
        var x: Int?
        var y: Int?
        var z: Int?
      }
      var packets: [String]
      var expect: Expectation
    }

    /// The emulated stream starts with frames from real rings, whose meaning is published.
    private func expectCapturedFrames(_ frames: [RawFrame], _ capture: CaptureFolder) throws {
      let file = try Data(
        contentsOf: URL(filePath: Place.fixture("ColmiRingTests/Fixtures/ring-vectors.json")))
      let vectors = try JSONDecoder().decode([Vector].self, from: file)
      let expected = Dictionary(
        vectors.map { ($0.packets[0], [$0.expect]) }, uniquingKeysWith: { $0 + $1 })
      var known = 0
      for (name, table) in capture.tables {
        for (row, frame) in zip(table, frames.filter { $0.stream == name }).prefix(4) {
          guard let meaning = expected[frame.hex]?.first else { continue }
          let values =
            name == "accelerometer"
            ? [meaning.x, meaning.y, meaning.z] : [meaning.value, meaning.max, meaning.min, meaning.diff]
          #expect(row.values == values, "\(frame.hex)")
          known += 1
        }
      }
      #expect(known >= 9)
    }

    @Test(arguments: Way.hereWithEmulation)
    func recordsOverTheExtendedCommandSet(_ way: Way) throws {
      let ring = try scene.emulatedRing(over: way, "--rate", "300", "--extended", "--quiet")
      let path = scene.path("capture")
      try scene.ringtap(reaching: ring, "capture", "--count", "150", "--output", path).expectSuccess()
      let capture = try CaptureFolder(path)
      #expect(capture.session.device.address == ring.address)
      capture.expectNoTrouble(samples: 150, stamps: way.stamps)
    }

    @Test(arguments: Way.hereWithEmulation)
    func countsMalformedFramesAndGoesOn(_ way: Way) throws {
      let ring = try scene.emulatedRing(over: way, "--rate", "300", "--malformed-every", "10")
      let path = scene.path("capture")
      let result = try scene.ringtap(
        reaching: ring, "capture", "--count", "270", "--output", path, "--verbose")
      #expect(result.status == 3, "what is malformed is lost")
      #expect(result.errors.contains("last malformed: "))
      let capture = try CaptureFolder(path)
      #expect(capture.rowCount == 270)
      // Each tenth of 299 or 300 frames is malformed, with a wrong checksum and half a frame in turn.
      #expect(29...30 ~= capture.session.malformed)
      #expect(capture.session.received == 270 + capture.session.malformed)
      #expect(capture.session.lastMalformed != nil)
      #expect(capture.session.lost == .none)
      #expect(try scene.btmonNotifications(capture.packetLog) == capture.session.received)
    }

    /// Frames with a wrong checksum, cut frames, and ATT PDUs that are shorter than they claim.
    @Test(arguments: Way.here)
    func countsWhatABumbleRingBreaks(_ way: Way) throws {
      let ring = try scene.bumbleRing(over: way, "--rate", "300", "--malformed", "7", "--count", "300")
      let path = scene.path("capture")
      let result = try scene.ringtap(
        reaching: ring, "capture", ring.address, "--count", "300", "--output", path)
      #expect(result.status == 3 && result.errors.contains("\(300 / 7) lost"))
      let capture = try CaptureFolder(path)
      #expect(capture.rowCount == 300)
      #expect(capture.session.malformed == 300 / 7)
      #expect(capture.session.lost == .none)
    }

    /// The kernel keeps a link for two seconds after its socket closes, and the peer keeps the exchanged MTU.
    /// Its responses to the next program are longer than 23 bytes before that program has requested a larger
    /// MTU.
    @Test(arguments: Way.here)
    func recordsAgainAtOnce(_ way: Way) throws {
      let ring = try scene.bumbleRing(over: way, "--rate", "300")
      for name in ["first", "second"] {
        let path = scene.path(name)
        try scene.ringtap(
          reaching: ring, "capture", ring.address, "--count", "300", "--no-remember", "--output", path
        ).expectSuccess()
        try CaptureFolder(path).expectNoTrouble(samples: 300, stamps: way.stamps)
      }
    }

    @Test(arguments: Way.here)
    func stopsTheStreamOnControlC(_ way: Way) throws {
      let ring = try scene.bumbleRing(over: way, "--rate", "300")
      let path = scene.path("capture")
      let program = try scene.startRingtap(reaching: ring, "capture", ring.address, "--output", path)
      try ring.program.line(on: .errors, containing: "command a104")
      program.send(SIGINT)
      let result = try program.finish()
      result.expectSuccess()
      // By the peer's own log it received the stop command before the link ended.
      try ring.program.line(on: .errors, containing: "command a102")
      let sent = try ring.program.line(containing: "sent ").dropFirst("sent ".count)

      let capture = try CaptureFolder(path)
      #expect(capture.session.endReason == "interrupted")
      #expect(capture.rowCount == Int(sent))
      capture.expectNoTrouble(samples: capture.rowCount, stamps: way.stamps)
    }
  }
}

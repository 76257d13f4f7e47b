import Foundation
import TestKit
import Testing

/// Every notification is either received or counted as lost in exactly one place; the sum is the number sent.
extension InTestKernel {
  @Suite final class LossTests {
    private let scene: Scene

    init() throws { scene = try Scene() }
    isolated deinit { scene.end() }

    /// The capture is stopped while the peer sends more than the kernel buffers. No request waits for a
    /// response then, because the kernel would drop and count that, too.
    @Test(arguments: ["raw", "coexist", "exclusive"])
    func countsWhatTheKernelHadNoRoomFor(_ mode: String) throws {
      let (flood, rest) = (15_000, 300)
      let frames = flood + rest
      let ring = try scene.bumbleRing(
        over: mode == "exclusive" ? .userChannel : .kernel, "--rate", "0", "--hold-at", "\(flood)", "--count",
        "\(frames)")
      let path = scene.path("capture")
      let capture = try scene.startRingtap(
        reaching: ring, "capture", ring.address, "--mode", mode, "--output", path)
      try ring.program.line(on: .errors, containing: "streaming 150")
      capture.send(SIGSTOP)
      try ring.program.line(on: .errors, containing: "holding", within: .seconds(120))
      let sizes = try scene.tableSizes(of: path)
      capture.send(SIGCONT)
      // The rest arrives when the waiting packets have been read, however long that takes. The last frame
      // shows that everything has arrived.
      try scene.waitForStillness(of: path, since: sizes)
      ring.program.send(SIGUSR1)
      try scene.waitForTables(of: path, toHold: "spo2.csv", ",\(frames / 3 - 1),")
      #expect(try ring.program.line(containing: "sent ") == "sent \(frames)")
      capture.send(SIGINT)
      let result = try capture.finish()
      #expect(result.status == 3)

      let folder = try CaptureFolder(path)
      #expect(folder.session.mode == mode)
      let lost = folder.session.lost
      #expect(lost.kernelQueue > 0)
      #expect(folder.session.received + lost.kernelQueue == frames)
      #expect(folder.rowCount == folder.session.received)
      #expect(lost.sampleQueue + lost.packetLog + lost.disk == 0)
      #expect(result.output.contains("\(lost.kernelQueue)"))
      #expect(try scene.tshark(folder.packetLog).count == folder.session.received)
    }
  }
}

extension WithoutKernel {
  /// The consumer of a stream is the thread that writes.
  @Suite final class LossTests {
    private let scene: Scene

    init() throws { scene = try Scene() }
    isolated deinit { scene.end() }

    /// A capture at the 2M PHY's limit for the ring's frames, once it has begun to write.
    private func capture(_ count: Int) throws -> (program: Program, path: String) {
      let path = scene.path("capture")
      let program = try scene.startRingtap(
        "capture", "--transport", "virtual:ring,rate=2083,real-time", "--count", "\(count)", "--output", path)
      try scene.waitForTables(of: path)
      return (program, path)
    }

    private func stallWriter(of capture: Program, seconds: Int) throws {
      let stall = try scene.start(
        "python3", [Place.peer("stall_thread.py"), "\(capture.identifier)", "ringtap-writer", "\(seconds)"])
      try stall.line(containing: "stalled")
      #expect(try stall.finish().status == 0)
    }

    @Test func losesNothingWhileTheWriterStandsForASecond() throws {
      let (capture, path) = try capture(6249)
      try stallWriter(of: capture, seconds: 1)
      // On a busy machine the emulated ring drops frames at its link's limit; those are missing by its clock
      // (status 3).
      let result = try capture.finish()
      #expect(
        result.status == 0 || result.status == 3 && result.output.contains("missing by the sensor's clock"))
      try CaptureFolder(path).expectNoTrouble(samples: 6249)
    }

    /// The writer is stopped for longer than its queues last.
    @Test func countsWhatTheQueuesHadNoRoomFor() throws {
      let (capture, path) = try capture(30_000)
      try stallWriter(of: capture, seconds: 12)
      let result = try capture.finish(within: .seconds(120))
      #expect(result.status == 3)

      let folder = try CaptureFolder(path)
      let lost = folder.session.lost
      #expect(folder.session.received == 30_000)
      #expect(lost.sampleQueue > 0)
      #expect(folder.rowCount + lost.sampleQueue == 30_000)
      #expect(try scene.tshark(folder.packetLog).count + lost.packetLog == 30_000)
      #expect(lost.kernelQueue + lost.disk == 0)
      #expect(result.output.contains("\(lost.sampleQueue)"))
    }
  }
}

extension OverEachWay {
  /// Output is slower than the ring: a pipe whose reader has stopped reading.
  @Suite final class SlowReaderTests {
    private let scene: Scene

    init() throws { scene = try Scene() }
    isolated deinit { scene.end() }

    private struct Event: Decodable {
      var event: String
      var values: Int?
      var lost: Int?
    }

    @Test(arguments: Way.sensorsHere)
    func countsWhatTheReaderHadNoTimeFor(_ way: Way) throws {
      let frames = 15_000
      let ring = try scene.bumbleRing(over: way, "--rate", "0", "--count", "\(frames)")
      let (pipe, path) = (scene.path("pipe"), scene.path("lines"))
      try scene.demand("mkfifo", [pipe])
      let reader = try scene.start("bash", ["-c", "exec cat \"$0\" >\"$1\"", pipe, path])
      let program = try scene.start(
        "bash",
        ["-c", "exec \"$0\" ring raw \"${@:2}\" >\"$1\"", Place.ringtap, pipe, "--json"] + ring.options
          + [ring.address])
      try ring.program.line(on: .errors, containing: "streaming 150")
      reader.send(SIGSTOP)
      let told = try ring.program.line(containing: "sent ", within: .seconds(120))
      #expect(told == "sent \(frames)")
      reader.send(SIGCONT)
      program.send(SIGINT)
      let result = try program.finish()
      #expect(try reader.finish().status == 0)

      let events = try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n")
        .map { try JSONDecoder().decode(Event.self, from: Data($0.utf8)) }
      let samples = events.count { $0.event == "sample" }
      let end = try #require(events.last)
      let lost = try #require(end.lost)
      #expect(end.event == "end" && end.values == samples)
      #expect(lost > 0)
      #expect(samples + lost == frames)
      #expect(result.errors.contains("\(lost) values were lost"))
    }
  }
}

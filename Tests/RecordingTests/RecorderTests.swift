import BLEHost
import BLELinux
import BLESensors
import BLEWire
import CTestSystem
import Foundation
import SensorSessions
import Synchronization
import CaptureKit
import TestKit
import TestPeer
import Testing

@testable import Recording

@Suite struct SyncIntervalTests {
  /// Two simultaneous recordings that sync every second and every hour. While the first one syncs twice,
  /// the other does not sync; it syncs at its end. Both hand the same rows to the kernel.
  @Test func sparesTheDisk() async throws {
    try await withFolder { folder in
      let resolved = try #require(realpath(folder, nil))
      defer { free(resolved) }
      let folder = String(cString: resolved)
      test_watch_syncs(folder)
      defer { test_watch_syncs("") }
      let sinks = [RingSink(), RingSink()]
      var recorders: [Recorder] = []
      for (name, interval) in [("often", Duration.seconds(1)), ("seldom", .seconds(3600))] {
        let place = folder + "/" + name
        try FileManager.default.createDirectory(atPath: place, withIntermediateDirectories: true)
        recorders.append(
          try await Recorder.start(
            in: place, sinks[recorders.count].samples, RingTables(), packets: nil,
            syncInterval: interval))
      }
      try await eventually("two turns of the disk") {
        for place in 0...1 {
          for frame in RingFrames.tick { sinks[place].take(frame) }
          recorders[place].wake.signal()
        }
        return test_syncs("/often/ppg.csv") >= 2
      }
      #expect(test_syncs("/seldom/") == 0)
      for recorder in recorders { _ = await recorder.finish() }
      #expect(test_syncs("/seldom/ppg.csv") == 1)
    }
  }
}

@Suite struct RingSinkTests {
  @Test func tellsWhatCame() {
    let sink = RingSink()
    for frame in RingFrames.tick { sink.take(frame) }
    sink.take(RingFrames.malformed)
    sink.take([])
    sink.take(RingFrames.frame("req-battery"))
    sink.take(RingFrames.frame("err-dnd-unsupported"))
    for frame in RingFrames.tick { sink.take(frame, on: 9) }
    #expect(sink.counts.received == 10)
    #expect(sink.counts.malformed == 2)
    #expect(sink.counts.other == 2)
    #expect(sink.counts.repeated == 3)
    #expect(sink.counts.values == 3)
    #expect(sink.lastMalformed == WireError(.ring, offset: 0, .lengthMismatch(claimed: 16, available: 0)))
    #expect((0..<4).map { _ in sink.samples.pop()?.stream } == [.spO2, .ppg, .accelerometer, nil])
  }

  /// The recording ends with the last sample requested; later samples are not part of it.
  @Test func endsWithTheLastSample() {
    let completions = Counter()
    let sink = RingSink(limit: 4) { if $0 == .limit { completions.add() } }
    for _ in 0..<3 {
      sink.take(RingFrames.malformed)
      for frame in RingFrames.tick { sink.take(frame) }
    }
    #expect(sink.counts.values == 4)
    #expect(sink.counts.received == 6)
    #expect(sink.counts.malformed == 2)
    #expect(completions.value == 1)
  }

  @Test func countsWhatFindsNoRoom() {
    let sink = RingSink()
    for _ in 0..<RingSession.queueCapacity + 100 { sink.take(RingFrames.tick[0]) }
    #expect(sink.counts.values == RingSession.queueCapacity + 100)
    #expect(sink.samples.dropped == 100)
  }
}

/// Frames from real Polar sensors and from the published protocol (reference `sensor-test-vectors.json`).
@Suite struct PolarSinkTests {
  /// Only frames of the requested stream count as samples, and only if they contain samples.
  @Test func tellsFramesOfOtherStreams() throws {
    let file = URL(filePath: #filePath).deletingLastPathComponent()
      .appending(path: "../BLESensorsTests/Fixtures/sensor-test-vectors.json")
    let vectors = try #require(
      try JSONSerialization.jsonObject(with: Data(contentsOf: file)) as? [[String: Any]])
    let sink = SampleSink<PolarFrameSample>(for: .recorder)
    for name in [
      "pmd-ppg-raw-type0", "pmd-ppg-raw-type9", "pmd-ecg-type0", "pmd-acc-raw-type1",
      "pmd-frame-truncated-header",
    ] {
      let vector = try #require(vectors.first { $0["name"] as? String == name })
      let octets = octetsOf(try #require(vector["value"] as? String))
      sink.take(octets.span, of: [.ppg], at: ReceiveTime(nanoseconds: 1))
    }
    // Type 9 reports the state of the measurement.
    let counts = sink.counts
    #expect(counts.received == 5 && counts.values == 1 && counts.states == 1)
    #expect(counts.other == 2 && counts.malformed == 1)
  }
}

@Suite(.timeLimit(.minutes(1))) struct RecorderTests {
  @Test func writesWhatWasQueued() async throws {
    try await withFolder { folder in
      let sink = RingSink()
      let recorder = try await Recorder.start(in: folder, sink, packets: nil)
      for number in 1...1_000 as ClosedRange<Int64> {
        for frame in RingFrames.tick { sink.take(frame, at: number) }
        recorder.wake.signal()
      }
      let outcome = await recorder.finish()
      #expect(outcome.rows == [1_000, 1_000, 1_000, 1_000])
      #expect(outcome.failure == nil)
      for stream in RingStream.allCases {
        let rows = rows(folder + "/" + stream.fileName)
        #expect(rows.first.map { $0 + "\n" } == stream.header)
        #expect(rows.dropFirst().map { $0.prefix { $0 != "," } } == (1...1_000).map { "\($0)" })
      }
      #expect(!Files.exists(folder + "/packets.btsnoop"), "no log was requested")
    }
  }

  /// The writer sleeps without a timeout while its queues are empty, and finishing still wakes it.
  @Test func finishesAnEmptyRecording() async throws {
    for _ in 0..<50 {
      try await withFolder { folder in
        let recorder = try await Recorder.start(
          in: folder, RingSink(), packets: PacketQueue(byteCount: 4096))
        let outcome = await recorder.finish()
        #expect(outcome.rows == [0, 0, 0, 0])
        #expect(try LoggedPDU.all(folder + "/packets.btsnoop").isEmpty)
      }
    }
  }

  @Test func tellsWhyItCannotStart() async throws {
    try await withFolder { folder in
      do throws(SystemError) {
        _ = try await Recorder.start(
          in: folder + "/none", RingSink(), packets: nil)
        Issue.record("there is no such folder")
      } catch { #expect(error.number == ENOENT) }
    }
  }

  /// The disk is full at the first row: nothing is written, every sample is counted as lost.
  @Test func tellsAFullDiskAtTheStart() async {
    await #expect(processExitsWith: .success) {
      try await withFolder { folder in
        test_fill("/ppg.csv")
        defer { test_fill("") }
        do throws(SystemError) {
          _ = try await Recorder.start(in: folder, RingSink(), packets: nil)
          Issue.record("the disk is full")
        } catch { #expect(error.number == ENOSPC) }
      }
    }
  }

  /// A file size limit stands for a disk that becomes full. The file ends with a whole row, the rest is
  /// counted, and the failure handler is called.
  @Test func keepsWholeRowsOnAFullDisk() async {
    await #expect(processExitsWith: .success) {
      signal(SIGXFSZ, SIG_IGN)
      var limit = rlimit(rlim_cur: 10_000, rlim_max: 10_000)
      #expect(setrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &limit) == 0)
      try await withFolder { folder in
        let sink = RingSink()
        let recorder = try await Recorder.start(in: folder, sink, packets: nil)
        let failed = Counter()
        recorder.onFailure { failed.add() }
        for number in 1...1_000 as ClosedRange<Int64> {
          sink.take(RingFrames.frame("raw-ppg-ei-1"), at: 1_700_000_000_000_000_000 + number)
        }
        recorder.wake.signal()
        await failed.reaches(1)
        sink.take(RingFrames.frame("raw-spo2-ei-1"))
        let outcome = await recorder.finish()
        #expect(outcome.failure?.number == EFBIG)
        let rows = rows(folder + "/ppg.csv").dropFirst()
        #expect(rows.allSatisfy { $0.hasSuffix(",10625,10957,10689,268") })
        #expect(outcome.rows[..<3] == [0, rows.count, 0])
        #expect(outcome.lostSamples == 1_001 - rows.count)
        #expect((10_000 - 42...10_000).contains(contents(folder + "/ppg.csv").count))
        #expect(failed.value == 1, "once")
      }
    }
  }
}

import BLEHost
import BLELinux
import BLEStack
import BLEWire
import ColmiRing
import Foundation
import SensorSessions
import TestKit
import TestPeer
import Testing

@testable import Recording

/// A complete capture from a scripted ring at the other end of a socket.
@Suite(.timeLimit(.minutes(1))) struct RingCaptureTests {
  private static func ticks(_ count: Int) -> [ScriptedRing.Event] {
    (0..<count).flatMap { _ in RingFrames.tick.map { .frame($0) } }
  }

  private func capture(
    _ ring: ScriptedRing, _ adapter: SocketAdapter, count: Int? = nil, in directory: String
  ) async throws -> SensorRecording.Result {
    try await SensorRecording(
      of: DeviceAddress(bits: 0x70CB_0D00_A1B2, type: .public), named: "R02_A1B2", on: adapter,
      into: directory, RecordingLimits(count: count)
    ).run(.ring)
  }

  private func tables(_ folder: String) -> [String] {
    RingStream.allCases.flatMap { rows(folder + "/" + $0.fileName).dropFirst() }
  }

  /// The requested count, the rows and the log's notifications agree, whatever the ring sends afterwards.
  @Test(arguments: [1, 3, 300]) func recordsTheCountExactly(_ count: Int) async throws {
    try await withFolder { folder in
      let ring = ScriptedRing(Self.ticks(200))
      let adapter = try SocketAdapter(ring)
      let result = try await capture(ring, adapter, count: count, in: folder)
      #expect(result.failure == nil)
      #expect(result.report.endReason == "count reached")
      #expect(result.report.received == count)
      #expect(result.report.lost.total == 0)
      #expect(result.report.malformed == 0 && result.report.withoutKernelStamp == 0)
      #expect(result.report.streams.map(\.samples).reduce(0, +) == count)
      #expect(tables(folder).count == count)
      let logged = try LoggedPDU.all(folder + "/packets.btsnoop").filter { $0.octets[0] == 0x1B }
      #expect(logged.count == count)
      #expect(logged.allSatisfy { $0.isFromRing })
      // The log has microseconds, the tables nanoseconds, of the same timestamps.
      let times = tables(folder).compactMap { Int64($0.prefix { $0 != "," }) }.sorted()
      #expect(times.map { $0 / 1000 } == logged.map { $0.time.nanoseconds / 1000 }.sorted())
      // One start command, then two stops, because a single one does not always take effect.
      await ring.written.reaches(3)
      #expect(ring.commands.map { Array($0.prefix(2)) } == [[0xA1, 0x04], [0xA1, 0x02], [0xA1, 0x02]])
      #expect(try json(folder + "/session.json")["received"] as? Int == count)
      await adapter.close()
    }
  }

  /// The recorder subscribes before it sends the first command, because a ring loses notifications without a
  /// subscription. The second subscription follows the first sample.
  @Test func subscribesBeforeItWrites() async throws {
    try await withFolder { folder in
      let ring = ScriptedRing(Self.ticks(1) + [.secondSubscription] + Self.ticks(1))
      let adapter = try SocketAdapter(ring)
      _ = try await capture(ring, adapter, count: 6, in: folder)
      let writes = try #require(await adapter.peer).received.filter { [0x12, 0x52].contains($0[0]) }
      // A write request, the start as a write without response, another write request.
      #expect(writes.prefix(3).map { Array($0.prefix(2)) } == [[0x12, 0x06], [0x52, 0x03], [0x12, 0x0A]])
      await adapter.close()
    }
  }

  /// Some rings send each frame on both characteristics.
  @Test func recordsARepeatedStreamOnce() async throws {
    try await withFolder { folder in
      let twice: [ScriptedRing.Event] = RingFrames.tick.flatMap { [.frame($0), .bigData($0)] }
      let ring = ScriptedRing(
        Self.ticks(1) + [.secondSubscription] + (0..<10).flatMap { _ in twice } + [.hangUp])
      let adapter = try SocketAdapter(ring)
      let result = try await capture(ring, adapter, in: folder)
      #expect(result.report.received == 63)
      #expect(result.report.repeated == 30)
      #expect(tables(folder).count == 33)
      #expect(result.report.streams.map(\.samples) == [11, 11, 11])
      await adapter.close()
    }
  }

  /// A malformed frame is counted and does not stop the capture.
  @Test func countsMalformedFrames() async throws {
    try await withFolder { folder in
      let bad: [ScriptedRing.Event] = [
        .frame(RingFrames.malformed), .frame([]), .frame(Array(RingFrames.tick[0].prefix(8))),
        .frame(RingFrames.frame("err-dnd-unsupported")),
      ]
      let ring = ScriptedRing(bad + Self.ticks(10) + bad + [.hangUp])
      let adapter = try SocketAdapter(ring)
      let result = try await capture(ring, adapter, in: folder)
      #expect(result.report.received == 38)
      #expect(result.report.malformed == 6)
      #expect(result.report.otherFrames == 2)
      #expect(
        result.report.lastMalformed == "ring frame at byte 0: the length field says 16 bytes, 8 are there")
      #expect(tables(folder).count == 30)
      #expect(try LoggedPDU.all(folder + "/packets.btsnoop").count { $0.octets[0] == 0x1B } == 38)
      await adapter.close()
    }
  }

  /// Losing the link ends the capture; the data so far is complete and readable.
  @Test func keepsWhatCameBeforeALostLink() async throws {
    try await withFolder { folder in
      let ring = ScriptedRing(Self.ticks(100) + [.hangUp])
      let adapter = try SocketAdapter(ring)
      let result = try await capture(ring, adapter, in: folder)
      #expect(result.failure == .gatt(.closed(.linkLost(.unknown))))
      #expect(result.report.endReason == "the link was lost")
      #expect(tables(folder).count == 300)
      #expect(result.report.lost.total == 0)
      let session = try json(folder + "/session.json")
      #expect(session["endReason"] as? String == "the link was lost")
      #expect(session["endedAtNs"] is String)
      #expect(try LoggedPDU.all(folder + "/packets.btsnoop").count { $0.octets[0] == 0x1B } == 300)
      await adapter.close()
    }
  }

  /// Cancelling (Ctrl-C) stops the stream and completes the files.
  @Test func stopsTheStreamWhenCancelled() async throws {
    try await withFolder { folder in
      let ring = ScriptedRing(Self.ticks(10))
      let adapter = try SocketAdapter(ring)
      let task = Task { try await capture(ring, adapter, in: folder) }
      await ring.written.reaches(1)
      task.cancel()
      let result = try await task.value
      #expect(result.failure == nil)
      #expect(result.report.endReason == "interrupted")
      #expect(ring.commands.map { Array($0.prefix(2)) } == [[0xA1, 0x04], [0xA1, 0x02], [0xA1, 0x02]])
      #expect(tables(folder).count == result.report.streams.map(\.samples).reduce(0, +))
      #expect(try json(folder + "/session.json")["endReason"] as? String == "interrupted")
      await adapter.close()
    }
  }

  @Test func refusesAFolderWithACapture() async throws {
    try await withFolder { folder in
      try Data("precious".utf8).write(to: URL(filePath: folder + "/session.json"))
      let ring = ScriptedRing([])
      let adapter = try SocketAdapter(ring)
      do {
        _ = try await capture(ring, adapter, in: folder)
        Issue.record("there is a capture already")
      } catch let error as HostError {
        guard case .system(let cause) = error else {
          Issue.record("\(error)")
          return
        }
        #expect(cause.number == EEXIST)
      }
      #expect(contents(folder + "/session.json") == Array("precious".utf8))
      #expect(ring.commands.isEmpty, "no stream was started")
      // The connection is closed explicitly, not when it is deallocated.
      await adapter.peer?.ended()
      await adapter.close()
    }
  }

  @Test func refusesADeviceThatIsNoRing() async throws {
    try await withFolder { folder in
      let ring = ScriptedRing([], commandService: .heartRate)
      let adapter = try SocketAdapter(ring)
      do {
        _ = try await capture(ring, adapter, in: folder + "/capture")
        Issue.record("it is no ring")
      } catch let error as HostError {
        guard case .unsuitable = error else {
          Issue.record("\(error)")
          return
        }
      }
      #expect(!Files.exists(folder + "/capture"))
      await adapter.peer?.ended()
      await adapter.close()
    }
  }

  /// The writer reports a full disk, the stream is stopped, and the report states what is missing.
  @Test func endsOnAFullDisk() async {
    await #expect(processExitsWith: .success) {
      signal(SIGXFSZ, SIG_IGN)
      var limit = rlimit(rlim_cur: 10_000, rlim_max: 10_000)
      #expect(setrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &limit) == 0)
      try await withFolder { folder in
        let ring = ScriptedRing(
          (0..<200).flatMap { _ in RingFrames.tick.map { ScriptedRing.Event.frame($0) } })
        let adapter = try SocketAdapter(ring)
        let result = try await SensorRecording(of: .any, on: adapter, into: folder).run(.ring)
        guard case .system(let cause)? = result.failure else {
          Issue.record("ended with \(String(describing: result.failure))")
          return
        }
        #expect(cause.number == EFBIG)
        #expect(result.report.endReason == "writing to the disk failed")
        let samples = result.report.streams.map(\.samples).reduce(0, +)
        #expect(samples + result.report.lost.disk == 600)
        let logged = try LoggedPDU.all(folder + "/packets.btsnoop")
        #expect(logged.count < 600)
        #expect(result.report.lost.packetLog > 0)
        for stream in RingStream.allCases {
          #expect(
            rows(folder + "/" + stream.fileName).count - 1 == result.report.streams[stream.rawValue].samples)
        }
        let session = try json(folder + "/session.json")
        #expect((session["lost"] as? [String: Int])?["disk"] == result.report.lost.disk)
        let ticks = try #require(session["ticks"] as? [String: Any])
        #expect(ticks["rows"] as? Int == rows(folder + "/samples.csv").count - 1)
        #expect(result.report.tickRows < result.report.ticks?.ticks ?? 0, "it was full before the last tick")
        #expect(ring.commands.last.map { Array($0.prefix(2)) } == [0xA1, 0x02])
        await adapter.close()
      }
    }
  }
}

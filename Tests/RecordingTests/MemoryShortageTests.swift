import BLEHost
import BLELinux
import BLEStack
import BLEWire
import CTestSystem
import Foundation
import SensorSessions
import TestKit
import TestPeer
import Testing

import Recording

/// System calls that fail because the kernel is out of memory. The test process makes them fail itself.
@Suite(.timeLimit(.minutes(1))) struct MemoryShortageTests {
  private func capture(_ adapter: SocketAdapter, _ folder: String) async -> Result<
    SensorRecording.Result, HostError
  > {
    let recording = SensorRecording(
      of: .any, on: adapter, into: folder + "/capture", RecordingLimits(count: 300))
    do throws(HostError) { return .success(try await recording.run(.ring)) } catch { return .failure(error) }
  }

  private func run(
    failing call: test_call, _ number: CInt, skip: CInt = 0, count: CInt,
    _ check: (Result<SensorRecording.Result, HostError>, ScriptedRing, CInt) throws -> Void
  ) async throws {
    try await withFolder { folder in
      let ring = ScriptedRing((0..<200).flatMap { _ in RingFrames.tick.map { ScriptedRing.Event.frame($0) } })
      let adapter = try SocketAdapter(ring)
      // Only calls on the receive thread fail.
      await Task(executorPreference: adapter.loop) { test_fail(call, number, skip, count) }.value
      let result = await capture(adapter, folder)
      let failures = await Task(executorPreference: adapter.loop) { () -> CInt in
        defer { test_fail(call, 0, 0, 0) }
        return test_failures(call)
      }.value
      try check(result, ring, failures)
      await adapter.close()
    }
  }

  /// Nothing is lost: data waits in the socket until there is memory again.
  @Test(arguments: [ENOMEM, ENOBUFS], [0, 3] as [CInt])
  func receivesAllTheSame(_ number: CInt, _ skip: CInt) async throws {
    try await run(failing: TEST_RECVMMSG, number, skip: skip, count: 20) { result, _, failures in
      let result = try result.get()
      #expect(failures == 20)
      #expect(result.failure == nil && result.report.received == 300 && result.report.lost.total == 0)
      #expect(result.report.streams.map(\.samples).reduce(0, +) == 300)
    }
  }

  /// Each command is sent once.
  @Test(arguments: [ENOMEM, ENOBUFS]) func sendsAllTheSame(_ number: CInt) async throws {
    try await run(failing: TEST_SEND, number, skip: 2, count: 20) { result, ring, failures in
      let result = try result.get()
      #expect(failures == 20)
      #expect(result.failure == nil && result.report.received == 300)
      #expect(ring.commands.first.map { Array($0.prefix(2)) } == [0xA1, 0x04])
      #expect(ring.commands.count { $0.prefix(2) == [0xA1, 0x04] } == 1)
    }
  }

  /// If memory never becomes available, the link ends and the capture reports it.
  @Test(arguments: [TEST_RECVMMSG, TEST_SEND]) func givesUpInTheEnd(_ call: test_call) async throws {
    try await run(failing: call, ENOMEM, count: .max) { result, _, failures in
      #expect(failures >= 1000)
      guard case .failure(let error) = result else {
        Issue.record("there was no memory")
        return
      }
      #expect(error == .gatt(.closed(.linkLost(.unknown))))
    }
  }
}

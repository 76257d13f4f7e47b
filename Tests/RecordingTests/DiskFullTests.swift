import BLEHost
import BLELinux
import BLEStack
import BLEWire
import CTestSystem
import Foundation
import TestKit
import TestPeer
import Testing

import Recording
import SensorSessions

/// The disk is full when a capture starts, or when it completes `session.json`. See also `RecorderTests`,
/// `RingCaptureTests` and, with a real full disk, `InterruptedCaptureTests`.
@Suite(.timeLimit(.minutes(1))) struct DiskFullTests {
  /// There is no room for the packet log's first block: the capture does not start.
  @Test func tellsThatThePacketLogCannotBegin() async {
    await #expect(processExitsWith: .success) {
      try await withFolder { folder in
        test_fill("/packets.btsnoop")
        defer { test_fill("") }
        guard case .system(let error)? = try await capture(folder) else {
          Issue.record("the disk is full")
          return
        }
        #expect(error.number == ENOSPC)
        #expect(error.description.contains("packets.btsnoop"))
        // The file is as it was created.
        #expect(try json(folder + "/session.json")["received"] as? Int == 0)
      }
    }
  }

  /// `session.json` reserves its space when it is created. Without that space the capture does not start.
  @Test func tellsThatTheSessionFileCannotBegin() async {
    await #expect(processExitsWith: .success) {
      limitFiles(to: 4096)
      try await withFolder { folder in
        guard case .system(let error)? = try await capture(folder) else {
          Issue.record("the disk is full")
          return
        }
        #expect(error.number == EFBIG)
        #expect(rows(folder + "/ppg.csv").isEmpty)
      }
    }
  }

  /// If the report outgrows the reserved space, its lists are left out and the file stays valid JSON.
  @Test func keepsTheCountsOfAReportThatDoesNotFit() async {
    await #expect(processExitsWith: .success) {
      limitFiles(to: 9000)
      try withFolder { folder in
        var report = SessionReport(
          device: .any, deviceName: nil, adapter: "hci0", mode: "raw", startedAt: ReceiveTime(nanoseconds: 1))
        var directory = try CaptureDirectory(creating: folder + "/capture", report)
        report.endReason = "count reached"
        report.received = 12345
        let gap = SessionGap(
          end: .linkLost(.silence), reason: HCIStatus(rawValue: 8), lastSampleAt: nil,
          lostAt: ReceiveTime(nanoseconds: 2))
        report.gaps = Array(repeating: gap, count: 200)
        report.gapCount = 200
        do throws(SystemError) {
          try directory.finish(report)
          Issue.record("the disk is full")
        } catch { #expect(error.number == EFBIG) }
        let session = try json(folder + "/capture/session.json")
        #expect(session["received"] as? Int == 12345 && session["gapCount"] as? Int == 200)
        #expect(session["endReason"] as? String == "count reached")
        #expect((session["gaps"] as? [Any])?.isEmpty == true)
      }
    }
  }
}

private func capture(_ folder: String) async throws -> HostError? {
  let adapter = try SocketAdapter(
    ScriptedRing((0..<200).flatMap { _ in RingFrames.tick.map { ScriptedRing.Event.frame($0) } }))
  let recording = SensorRecording(of: .any, on: adapter, into: folder, RecordingLimits(count: 300))
  var failure: HostError?
  do throws(HostError) { failure = try await recording.run(.ring).failure } catch { failure = error }
  await adapter.close()
  return failure
}

private func limitFiles(to byteCount: rlim_t) {
  signal(SIGXFSZ, SIG_IGN)
  var limit = rlimit(rlim_cur: byteCount, rlim_max: byteCount)
  #expect(setrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &limit) == 0)
}

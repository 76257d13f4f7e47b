import BLEHost
import BLELinux
import BLEStack
import BLEWire
import Foundation
import SensorSessions
import TestKit
import TestPeer
import Testing

import Recording

/// The process has reached its limit of open files.
@Suite(.timeLimit(.minutes(2))) struct OpenFilesTests {
  /// During a capture, only a new link opens a file descriptor. If that fails, the data recorded so far is
  /// kept.
  @Test func keepsWhatWasRecordedWhenNoLinkCanBeOpened() async {
    await #expect(processExitsWith: .success) {
      try await withFolder { folder in
        let streaming = Gate()
        let adapter = try SocketAdapter(ScriptedRing(frames(20) + [.wait(streaming), .hangUp]))
        let running = Task {
          await capture(adapter, folder + "/capture", patience: .seconds(30), count: nil)
        }
        await streaming.waitForSomebody()
        // The last file that the capture opens.
        try await eventually("the files are open") { Files.exists(folder + "/capture/packets.btsnoop") }
        // Lower than every open descriptor, so that no number becomes free when one is closed.
        limitNumbers(to: 3)
        streaming.open()
        let result = try await running.value.get()
        limitNumbers(to: 1000)
        guard case .system(let error)? = result.failure else {
          Issue.record("ended with \(String(describing: result.failure))")
          return
        }
        #expect(error.number == EMFILE)
        #expect(result.report.received >= 60 && result.report.received.isMultiple(of: 60))
        let recorded = RingStream.allCases.reduce(0) {
          $0 + rows(folder + "/capture/" + $1.fileName).count - 1
        }
        #expect(recorded == result.report.received)
        let session = try json(folder + "/capture/session.json")
        #expect(session["received"] as? Int == result.report.received)
        let logged = try LoggedPDU.all(folder + "/capture/packets.btsnoop").filter { $0.octets[0] == 0x1B }
        #expect(logged.count == result.report.received)
        await adapter.close()
      }
    }
  }
}

/// Sets the limit of descriptor numbers.
private func limitNumbers(to limit: Int) {
  var limits = rlimit()
  #expect(getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limits) == 0)
  limits.rlim_cur = rlim_t(limit)
  #expect(setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limits) == 0)
}

private func capture(
  _ adapter: SocketAdapter, _ folder: String, patience: Duration = .zero, count: Int?
) async -> Result<SensorRecording.Result, HostError> {
  var recording = SensorRecording(of: .any, on: adapter, into: folder, RecordingLimits(count: count))
  recording.plan.patience = patience
  do throws(HostError) { return .success(try await recording.run(.ring)) } catch { return .failure(error) }
}

private func frames(_ ticks: Int) -> [ScriptedRing.Event] {
  (0..<ticks).flatMap { _ in RingFrames.tick.map { ScriptedRing.Event.frame($0) } }
}

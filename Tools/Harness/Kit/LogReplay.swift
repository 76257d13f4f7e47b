package import BLEHost
import BLELinux
package import BLEReplay
package import BLEWire
import ColmiRing
import Recording
import SensorSessions

/// Results of replaying a whole log.
package struct LogReplayReport: Hashable, Sendable {
  /// Packets in the log to replay.
  package var packets = 0
  package var findings = ReplayFindings()
  /// Values that servers sent to the local hosts.
  package var notifications = 0
  /// Samples of a ring among them, by `RingStream.rawValue`.
  package var samples = [Int](repeating: 0, count: RingStream.allCases.count)
  /// Other frames of a ring.
  package var otherFrames = 0
  /// Times of the first and the last packet.
  package var first: ReceiveTime?
  package var last: ReceiveTime?

  package init() {}
}

/// Replays a packet log into the host stack and compares the stack's packets with the recorded ones.
package struct LogReplay: Sendable {
  package var log: ReplayLog
  package var speed: ReplaySpeed
  /// Number of the link, from 1; `nil` for all links in the log.
  package var link: Int?

  package init(_ log: ReplayLog, speed: ReplaySpeed = .max, link: Int? = nil) {
    self.log = log
    self.speed = speed
    self.link = link
  }

  /// Packets between two calls of `progress` when replaying at full speed.
  private static let progressStep = 4096

  /// Runs to the end of the log, or until the task is cancelled.
  ///
  /// - Parameter progress: called with the number of packets played and the total.
  /// - Throws: if the log has no such link.
  package func run(
    progress: @Sendable (_ played: Int, _ count: Int) -> Void = { _, _ in }
  ) async throws(HostError) -> LogReplayReport {
    var player = try LogPlayer(log, link: link)
    var pace = ReplayPace(speed)
    var report = LogReplayReport()
    report.packets = player.count
    while let packet = player.upcoming {
      let now = SystemClock.monotonic()
      let due = pace.due(packet.time, now: now)
      if now < due {
        progress(player.findings.played, player.count)
        do { try await Task.sleep(for: now.duration(to: due)) } catch { break }
      } else if player.findings.played % Self.progressStep == 0 {
        progress(player.findings.played, player.count)
        if Task.isCancelled { break }
      }
      report.first = report.first ?? packet.time
      report.last = packet.time
      player.step { _, notification, _ in report.take(notification) }
    }
    player.finish()
    report.findings = player.findings
    return report
  }
}

extension LogReplayReport {
  /// Decodes a notification as a capture does.
  fileprivate mutating func take(_ notification: borrowing HandleValueNotification) {
    notifications += 1
    // A value from another device, or a damaged one: count only the notification.
    guard let frame = try? RingFrame(validating: notification.value) else { return }
    guard let stream = RingRawSample(raw: frame).flatMap(RingStream.init) else {
      otherFrames += 1
      return
    }
    samples[stream.rawValue] += 1
  }
}

public import BLEHost
import BLELinux
public import BLEReplay
public import BLEWire
import ColmiRing
import Recording
import SensorSessions

/// What came of the replay of a whole log.
public struct LogReplayReport: Hashable, Sendable {
  /// Packets of the log that there were to play.
  public var packets = 0
  public var findings = ReplayFindings()
  /// Values that servers sent to hosts of ours.
  public var notifications = 0
  /// Samples of a ring in them, by `RingStream.rawValue`.
  public var samples = [Int](repeating: 0, count: RingStream.allCases.count)
  /// Other frames of a ring.
  public var otherFrames = 0
  /// Times of the first and the last packet.
  public var first: ReceiveTime?
  public var last: ReceiveTime?

  public init() {}
}

/// Drives our host stack by a packet log and compares what it says with what was said.
public struct LogReplay: Sendable {
  public var log: ReplayLog
  public var speed: ReplaySpeed
  /// From 1; `nil` for all that is in the log.
  public var link: Int?

  public init(_ log: ReplayLog, speed: ReplaySpeed = .max, link: Int? = nil) {
    self.log = log
    self.speed = speed
    self.link = link
  }

  /// Packets between two calls of `progress` where no time is kept.
  private static let progressStep = 4096

  /// Runs to the end, or until the task is cancelled.
  ///
  /// - Parameter progress: packets played, of how many.
  /// - Throws: where the log has no such link.
  public func run(
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
  /// Decodes as a capture does.
  fileprivate mutating func take(_ notification: borrowing HandleValueNotification) {
    notifications += 1
    // Of another device, or broken: a notification is all that it is.
    guard let frame = try? RingFrame(validating: notification.value) else { return }
    guard let stream = RingRawSample(raw: frame).flatMap(RingStream.init) else {
      otherFrames += 1
      return
    }
    samples[stream.rawValue] += 1
  }
}

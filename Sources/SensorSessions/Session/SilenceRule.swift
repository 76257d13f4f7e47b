import BLEHost
import BLELinux

/// When a stream counts as silent though its link is up: the device hangs, or its controller has started again.
///
/// A kind of sensor has such a rule if it promises to send on and on. A thermometer sends when it has measured, and a bicycle's
/// sensor may rest while nothing turns: they have none.
public struct SilenceRule: Hashable, Sendable {
  /// Mean intervals of the stream's own samples that may pass without one.
  static let intervals = 20
  /// Checks within the time that may pass: what is found silent was so for that time, and for a quarter of it more at most.
  private static let checks = 4
  /// Of links in a row that bring nothing, each may take twice as long as the one before, up to this.
  static let longest = Duration.seconds(600)

  /// The shortest time without a sample that counts.
  public let floor: Duration
  /// Whether a device that has not sent anything yet is measured by it, too.
  public let beginsAtOnce: Bool

  /// - Parameters:
  ///   - floor: the shortest time without a sample that counts.
  ///   - beginsAtOnce: it counts from the start of the stream; else from the first sample of the session.
  public init(floor: Duration, beginsAtOnce: Bool) {
    (self.floor, self.beginsAtOnce) = (floor, beginsAtOnce)
  }

  /// How long the stream may bring nothing.
  ///
  /// - Parameters:
  ///   - interval: mean time between two samples; `nil` if there were none.
  ///   - emptyLinks: links in a row that have brought nothing.
  func limit(at interval: Duration?, after emptyLinks: Int = 0) -> Duration {
    let limit = max(floor, (interval ?? .zero) * Self.intervals)
    return max(limit, min(limit * (1 << min(emptyLinks, 10)), Self.longest))
  }

  /// Waits until a stream has been silent for too long.
  ///
  /// - Returns: for how long; `nil` if the task is cancelled before.
  func silence(
    of times: SampleTimes, after emptyLinks: Int = 0, atMost longest: Duration? = nil, on loop: EventLoop
  ) async -> Duration? {
    var (count, quietChecks) = (times.count, 0)
    while true {
      var limit = limit(at: times.meanInterval, after: emptyLinks)
      if let longest { limit = min(limit, longest) }
      guard (try? await loop.wait(for: limit / Self.checks)) != nil else { return nil }
      let now = times.count
      let isExpected = now > 0 ? !times.mayRest : beginsAtOnce
      quietChecks = now == count && isExpected ? quietChecks + 1 : 0
      count = now
      if quietChecks == Self.checks { return limit }
    }
  }
}

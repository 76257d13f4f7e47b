import BLECore
import BLEHost
import BLELinux

/// When a stream counts as silent though its link is up: the device hangs, or its controller has started again.
///
/// A kind of sensor has such a rule if it promises to send on and on. A thermometer sends when it has measured, and a bicycle's
/// sensor may rest while nothing turns: they have none.
public struct SilenceRule: Hashable, Sendable {
  /// Mean intervals of the stream's own samples that may pass without one.
  static let intervals = 20
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

  /// Waits until a stream has been silent for too long. A stream that runs wakes nobody but once in that time.
  ///
  /// - Returns: for how long; `nil` if the task is cancelled before.
  func silence(
    of times: SampleTimes, after emptyLinks: Int = 0, atMost longest: Duration? = nil, on loop: EventLoop
  ) async -> Duration? {
    var count = times.count
    var passed = Duration.zero
    while true {
      var limit = limit(at: times.meanInterval, after: emptyLinks)
      if let longest { limit = min(limit, longest) }
      let rest = max(limit - passed, limit / 2)
      guard (try? await loop.wait(for: rest)) != nil else { return nil }
      let now = times.count
      let isExpected = now > 0 ? !times.mayRest : beginsAtOnce
      if now == count, isExpected { return limit }
      // How long ago the last sample came. The wall clock may have been set meanwhile: then it counts from now on.
      let elapsed = times.last.map { Duration.nanoseconds((loop.clock.now() - $0).nanoseconds) } ?? .zero
      passed = now != count && isExpected && elapsed > .zero && elapsed < rest ? elapsed : .zero
      count = now
    }
  }
}

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
}

/// Looks whether a stream has been silent for too long. A stream that runs wakes the loop once in that time, and nothing is
/// allocated then. On the loop's thread.
final class SilenceWatch: EventSource {
  private let rule: SilenceRule
  private let times: SampleTimes
  private let emptyLinks: Int
  private let longest: Duration?
  private let loop: EventLoop
  private let whenSilent: (Duration) -> Void
  private var count: Int
  private var token: UInt64?
  private(set) var deadline: MonotonicTime?

  /// - Parameters:
  ///   - emptyLinks: links in a row that have brought nothing.
  ///   - longest: a silence that is told anyway.
  ///   - whenSilent: told for how long, once.
  init(
    _ rule: SilenceRule, of times: SampleTimes, after emptyLinks: Int, atMost longest: Duration?,
    on loop: EventLoop, whenSilent: @escaping (Duration) -> Void
  ) {
    (self.rule, self.times, self.emptyLinks, self.longest) = (rule, times, emptyLinks, longest)
    (self.loop, self.whenSilent, count) = (loop, whenSilent, times.count)
    deadline = loop.clock.monotonic().advanced(by: rest(of: limit, isExpected: true))
    token = loop.add(self)
  }

  private var limit: Duration {
    let limit = rule.limit(at: times.meanInterval, after: emptyLinks)
    return longest.map { min(limit, $0) } ?? limit
  }

  /// By how long ago the last sample came. The wall clock may have been set meanwhile: then it counts from now on.
  private func rest(of limit: Duration, isExpected: Bool) -> Duration {
    var elapsed = Duration.zero
    if let last = times.last { elapsed = .nanoseconds((loop.clock.now() - last).nanoseconds) }
    let rest = max(limit - elapsed, limit / 2)
    return isExpected && elapsed > .zero && elapsed < limit ? rest : limit
  }

  func ready(_ readiness: Readiness) {}

  func expired(now: MonotonicTime) {
    let (limit, newCount) = (limit, times.count)
    let isExpected = newCount > 0 ? !times.mayRest : rule.beginsAtOnce
    if newCount == count, isExpected {
      cancel()
      return whenSilent(limit)
    }
    deadline = now.advanced(by: rest(of: limit, isExpected: newCount != count && isExpected))
    count = newCount
  }

  /// Also what the loop is left with where nobody was told.
  func cancel() {
    deadline = nil
    token.map(loop.remove)
    token = nil
  }
}

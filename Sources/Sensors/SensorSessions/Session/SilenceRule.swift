import BLEHost
import BLELinux
import BLEWire

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

/// Looks whether a stream has been silent for too long, by the loop's clock: a wall clock that is set makes no silence. A stream
/// that runs wakes the loop twice in that time, and nothing is allocated then. On the loop's thread.
final class SilenceWatch: EventSource {
  /// Looks within the time that may pass: a silence is found when it has lasted for that time, and half of it more at most.
  private static let looks = 2

  private let rule: SilenceRule
  private let times: SampleTimes
  private let emptyLinks: Int
  private let longest: Duration?
  private let loop: EventLoop
  private let whenSilent: (Duration) -> Void
  private var count: Int
  /// Looks in a row at which there was nothing new.
  private var quietLooks = 0
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
    deadline = loop.clock.monotonic().advanced(by: limit / Self.looks)
    token = loop.add(self)
  }

  private var limit: Duration {
    let limit = rule.limit(at: times.meanInterval, after: emptyLinks)
    return longest.map { min(limit, $0) } ?? limit
  }

  func ready(_ readiness: Readiness) {}

  func expired(now: MonotonicTime) {
    let (limit, newCount) = (limit, times.count)
    let isExpected = newCount > 0 ? !times.mayRest : rule.beginsAtOnce
    quietLooks = newCount == count && isExpected ? quietLooks + 1 : 0
    count = newCount
    guard quietLooks < Self.looks else {
      cancel()
      return whenSilent(limit)
    }
    deadline = now.advanced(by: limit / Self.looks)
  }

  /// Leaves the loop.
  func cancel() {
    deadline = nil
    token.map(loop.remove)
    token = nil
  }
}

import BLEHost
import BLELinux
import BLEWire

/// Rule for when a stream counts as silent although its link is up. This happens if the device hangs or its
/// controller has restarted.
///
/// A kind of sensor has such a rule if it sends continuously. A thermometer sends only after measuring, and a
/// cycling sensor may pause while the bicycle stands still, so they have no rule.
public struct SilenceRule: Hashable, Sendable {
  /// Number of mean sample intervals of the stream that may pass without a sample.
  static let intervals = 20
  /// Maximum timeout. The timeout doubles with each consecutive link without samples.
  static let longest = Duration.seconds(600)

  /// Floor for a sensor that sends at least once a second. In recordings of real devices, the longest pause
  /// after which the device continued by itself was 1.05 s (`SilenceFloorTests`).
  static let shortestFloor = Duration.seconds(10)

  /// Minimum time without a sample before a stream counts as silent.
  public let floor: Duration
  /// Whether the rule applies before the first sample of the session.
  public let beginsAtOnce: Bool

  /// - Parameters:
  ///   - floor: minimum time without a sample before a stream counts as silent.
  ///   - beginsAtOnce: whether the rule applies from the start of the stream; otherwise it applies from the
  ///     first sample of the session.
  public init(floor: Duration, beginsAtOnce: Bool) {
    (self.floor, self.beginsAtOnce) = (floor, beginsAtOnce)
  }

  /// Maximum time without a sample.
  ///
  /// - Parameters:
  ///   - interval: mean time between two samples; `nil` if there were none.
  ///   - emptyLinks: number of consecutive links without samples.
  func limit(at interval: Duration?, after emptyLinks: Int = 0) -> Duration {
    let limit = max(floor, (interval ?? .zero) * Self.intervals)
    return max(limit, min(limit * (1 << min(emptyLinks, 10)), Self.longest))
  }
}

/// Checks by the loop's clock whether a stream has been silent for too long, so setting the wall clock has no
/// effect. While a stream runs, the watch wakes the loop twice per timeout and allocates nothing. Use it on
/// the loop's thread.
final class SilenceWatch: EventSource {
  /// Number of checks per timeout. A silence is detected after the timeout, or at most half a timeout later.
  private static let looks = 2

  private let rule: SilenceRule
  private let times: SampleTimes
  private let emptyLinks: Int
  private let longest: Duration?
  private let loop: EventLoop
  private let whenSilent: (Duration) -> Void
  private var count: Int
  /// Number of consecutive checks without a new sample.
  private var quietLooks = 0
  private var token: UInt64?
  private(set) var deadline: MonotonicTime?

  /// - Parameters:
  ///   - emptyLinks: number of consecutive links without samples.
  ///   - longest: upper limit of the timeout.
  ///   - whenSilent: called once, with the length of the silence.
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

  /// Removes the watch from the loop.
  func cancel() {
    deadline = nil
    token.map(loop.remove)
    token = nil
  }
}

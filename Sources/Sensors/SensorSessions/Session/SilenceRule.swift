import BLEHost
import BLELinux
import BLEWire

/// Rule for detecting a silent stream on a working link. A stream becomes silent if the device hangs or its
/// controller restarts.
///
/// Only sensors that send continuously have a rule. A thermometer sends only after measuring, and a cycling
/// sensor may pause while the bicycle stands still.
public struct SilenceRule: Hashable, Sendable {
  /// Timeout in mean sample intervals of the stream.
  static let intervals = 20
  /// Maximum timeout. The timeout doubles with each consecutive link without samples.
  static let longest = Duration.seconds(600)

  /// Minimum timeout for a sensor that sends at least once a second. In recordings of real devices, the
  /// longest pause after which samples continued was 1.05 s (`SilenceFloorTests`).
  static let shortestFloor = Duration.seconds(10)

  /// Minimum timeout.
  public let floor: Duration
  /// Whether the rule applies before the first sample of the session.
  public let beginsAtOnce: Bool

  /// Creates a rule.
  ///
  /// - Parameters:
  ///   - floor: minimum timeout.
  ///   - beginsAtOnce: whether the rule applies from the start of the stream. If not, it applies from the
  ///     first sample of the session.
  public init(floor: Duration, beginsAtOnce: Bool) {
    (self.floor, self.beginsAtOnce) = (floor, beginsAtOnce)
  }

  /// Returns the timeout: the maximum time without a sample.
  ///
  /// - Parameters:
  ///   - interval: mean time between two samples; `nil` if unknown.
  ///   - emptyLinks: number of consecutive links without samples.
  func limit(at interval: Duration?, after emptyLinks: Int = 0) -> Duration {
    let limit = max(floor, (interval ?? .zero) * Self.intervals)
    return max(limit, min(limit * (1 << min(emptyLinks, 10)), Self.longest))
  }
}

/// Detects a silent stream. Time is measured on the loop's clock, so setting the wall clock has no effect.
/// The watch wakes the loop twice per timeout and does not allocate memory. Use it on the loop's thread.
final class SilenceWatch: EventSource {
  /// Number of checks per timeout. A silence is detected at most half a timeout late.
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

  /// Starts monitoring a stream.
  ///
  /// - Parameters:
  ///   - emptyLinks: number of consecutive links without samples.
  ///   - longest: maximum timeout; `nil` for no maximum.
  ///   - whenSilent: called once, with the duration of the silence.
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

public import BLEHost
public import BLEStack
public import BLEWire

/// Where a session with a device stands.
public enum SessionState: Hashable, Sendable {
  case idle
  case connecting
  case discovering
  case streaming
  /// The link is gone. `attempt` counts from 1 since then; it begins after `pause`.
  case reconnecting(attempt: Int, pause: Duration)
  case closed
}

/// A time without a link in a session, and what it cost.
public struct SessionGap: Hashable, Sendable {
  /// A connect that failed, or a link that went before it brought a stream.
  public struct Failure: Hashable, Sendable {
    public var time: ReceiveTime
    public var error: HostError
    /// The controller's word for it, where there was a link: 0x3E is one that never had a packet.
    public var reason: HCIStatus?
  }

  static let failureLimit = Limit(
    256, "failures of one gap", by: .air, whenFull: "later ones are not listed",
    counted: "`attempts` of the gap")
  static let historyLimit = Limit(
    4_096, "gaps of a session, and its links", by: .air, whenFull: "the first and the latest are listed",
    counted: "`gapCount` and `links` in session.json")

  /// How the link ended, as its bearer saw it.
  public var end: BearerEnd
  /// The controller's word for it, where that is known: 0x08 is silence, 0x13 the device's own wish. Core 5.4, Vol 1,
  /// Part F, 2.
  public var reason: HCIStatus?
  /// The last sample before it; `nil` where the link brought none.
  public var lastSampleAt: ReceiveTime?
  /// When we learned that the link is gone: after silence, a supervision time-out later than its last packet.
  public var lostAt: ReceiveTime
  /// Links in a row that ended within 3 s of being made, this one included.
  public var shortLinks = 0
  /// The pause before the first connect: it grows while links do not last.
  public var pause = Duration.zero
  /// Connects that were tried since.
  public var attempts = 0
  /// Those of them that failed, in order.
  public var failures: [Failure] = []
  public var connectedAt: ReceiveTime?
  /// The first sample after it; `nil` where none came any more.
  public var firstSampleAt: ReceiveTime?
  /// ATT requests of the new link until then: each is a round trip.
  public var requestsBeforeFirstSample: Int?

  package init(
    end: BearerEnd, reason: HCIStatus? = nil, lastSampleAt: ReceiveTime? = nil, lostAt: ReceiveTime
  ) {
    self.end = end
    self.reason = reason
    self.lastSampleAt = lastSampleAt
    self.lostAt = lostAt
  }

  /// From the loss to the first new sample, in nanoseconds; `nil` also where the samples are of a log, with its times.
  public var recoveryNanoseconds: Int64? {
    firstSampleAt.map { ($0 - lostAt).nanoseconds }.flatMap { $0 < 0 ? nil : $0 }
  }

  /// From the last sample to the next, in nanoseconds.
  public var lengthNanoseconds: Int64? {
    guard let firstSampleAt, let lastSampleAt else { return nil }
    return (firstSampleAt - lastSampleAt).nanoseconds
  }
}

extension [SessionGap] {
  /// From a loss to the first new sample, in nanoseconds; `nil` where no gap has ended.
  public var medianRecoveryNanoseconds: Int64? {
    let sorted = compactMap(\.recoveryNanoseconds).sorted()
    return sorted.isEmpty ? nil : sorted[sorted.count / 2]
  }
}

/// How long a session waits before it connects again: at once, then longer and longer, up to half a minute, or a second if
/// the links bring samples. A link that lasts for 3 s sets it back.
public struct BackOff: Hashable, Sendable {
  public static let first = Duration.milliseconds(250)
  public static let longest = Duration.seconds(30)
  /// A link at the edge of its range is worth more than silence.
  public static let longestBetweenSamples = Duration.seconds(1)

  private var pause = Duration.zero

  public init() {}

  /// The pause before the next attempt.
  ///
  /// - Parameter hadSamples: whether the last link brought any.
  public mutating func next(hadSamples: Bool = false) -> Duration {
    if hadSamples { pause = min(pause, Self.longestBetweenSamples) }
    defer { pause = pause == .zero ? Self.first : min(pause * 2, Self.longest) }
    return pause
  }
}

extension Array {
  /// Appends what a session keeps of its links.
  mutating func append(limited element: Element) {
    if count == SessionGap.historyLimit.count { remove(at: 1) }
    append(element)
  }
}

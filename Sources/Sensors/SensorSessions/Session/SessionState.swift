public import BLEHost
public import BLEStack
public import BLEWire

/// State of a session with a device.
public enum SessionState: Hashable, Sendable {
  case idle
  case connecting
  case discovering
  case streaming
  /// The link was lost. `attempt` counts the attempts since the loss, from 1. The attempt begins after
  /// `pause`.
  case reconnecting(attempt: Int, pause: Duration)
  case closed
}

/// Period without a link in a session, and its effects.
public struct SessionGap: Hashable, Sendable {
  /// Failed connection attempt, or a link that ended before its stream started.
  public struct Failure: Hashable, Sendable {
    public var time: ReceiveTime
    public var error: HostError
    /// Reason reported by the controller, if there was a link. 0x3E means that no packet was received.
    public var reason: HCIStatus?
  }

  static let failureLimit = Limit(
    256, "failures of one gap", by: .air, whenFull: "later ones are not listed",
    counted: "`attempts` of the gap")
  static let historyLimit = Limit(
    4_096, "gaps of a session, and its links", by: .air, whenFull: "the first and the latest are listed",
    counted: "`gapCount` and `links` in session.json")

  /// End of the link, reported by its bearer.
  public var end: BearerEnd
  /// Reason reported by the controller, if known. 0x08 is a supervision timeout, 0x13 a disconnect by the
  /// device. Core 5.4, Vol 1, Part F, 2.
  public var reason: HCIStatus?
  /// Time of the last sample before the gap; `nil` if the link delivered no sample.
  public var lastSampleAt: ReceiveTime?
  /// Time at which the loss was detected. If the device became silent, this is one supervision timeout after
  /// its last packet.
  public var lostAt: ReceiveTime
  /// Number of consecutive links that ended within 3 s, including this link.
  public var shortLinks = 0
  /// Pause before the first attempt to reconnect. It grows while links are short.
  public var pause = Duration.zero
  /// Number of attempts to reconnect since the loss.
  public var attempts = 0
  /// Failed attempts, in order.
  public var failures: [Failure] = []
  public var connectedAt: ReceiveTime?
  /// Time of the first sample after the gap; `nil` if no sample followed.
  public var firstSampleAt: ReceiveTime?
  /// Number of ATT requests on the new link before its first sample. Each request is a round trip.
  public var requestsBeforeFirstSample: Int?

  package init(
    end: BearerEnd, reason: HCIStatus? = nil, lastSampleAt: ReceiveTime? = nil, lostAt: ReceiveTime
  ) {
    self.end = end
    self.reason = reason
    self.lastSampleAt = lastSampleAt
    self.lostAt = lostAt
  }

  /// Time from the loss to the first new sample, in nanoseconds. `nil` if there is no new sample, or if
  /// samples have the timestamps of a log.
  public var recoveryNanoseconds: Int64? {
    firstSampleAt.map { ($0 - lostAt).nanoseconds }.flatMap { $0 < 0 ? nil : $0 }
  }

  /// Time from the last sample before the gap to the first sample after it, in nanoseconds.
  public var lengthNanoseconds: Int64? {
    guard let firstSampleAt, let lastSampleAt else { return nil }
    return (firstSampleAt - lastSampleAt).nanoseconds
  }
}

/// Pause before a session reconnects. The first attempt is immediate, and the pause before the second attempt
/// is 250 ms. The pause then doubles up to 30 s, or up to 1 s if the links deliver samples. A link that lasts
/// 3 s resets the pause.
public struct BackOff: Hashable, Sendable {
  public static let first = Duration.milliseconds(250)
  public static let longest = Duration.seconds(30)
  /// Maximum pause if links deliver samples. A link at the edge of its range is still useful.
  public static let longestBetweenSamples = Duration.seconds(1)

  private var pause = Duration.zero

  public init() {}

  /// Returns the pause before the next attempt, and increases the pause.
  ///
  /// - Parameter hadSamples: whether the last link delivered any samples.
  public mutating func next(hadSamples: Bool = false) -> Duration {
    if hadSamples { pause = min(pause, Self.longestBetweenSamples) }
    defer { pause = pause == .zero ? Self.first : min(pause * 2, Self.longest) }
    return pause
  }
}

extension Array {
  /// Appends a gap or link to the history. If the limit is reached, the second-oldest element is removed.
  mutating func append(limited element: Element) {
    if count == SessionGap.historyLimit.count { remove(at: 1) }
    append(element)
  }
}

public import BLEHost
public import BLEWire

/// Schedules the packets of a log. Its clock starts with the first packet passed to `due`.
public struct ReplayPace: Sendable {
  private let speed: ReplaySpeed
  private var start: (recorded: ReceiveTime, here: MonotonicTime)?

  public init(_ speed: ReplaySpeed) { self.speed = speed }

  /// Returns when a packet is due.
  ///
  /// - Returns: the same time for the same packet on each call; the start of the clock if the packet is due
  ///   at once.
  public mutating func due(_ time: ReceiveTime, now: MonotonicTime) -> MonotonicTime {
    guard case .times(let factor) = speed else { return MonotonicTime(nanoseconds: 0) }
    let start = start ?? (time, now)
    self.start = start
    // Timestamps in a log may have any value.
    let (elapsed, overflow) = time.nanoseconds.subtractingReportingOverflow(start.recorded.nanoseconds)
    let (due, isLater) = start.here.nanoseconds.addingReportingOverflow(
      overflow ? 0 : elapsed / Int64(factor))
    return isLater ? start.here : MonotonicTime(nanoseconds: due)
  }
}

public import BLEHost
public import BLEWire

/// When the packets of a log are due. Its clock starts with the first packet that it is asked about.
public struct ReplayPace: Sendable {
  private let speed: ReplaySpeed
  private var start: (recorded: ReceiveTime, here: MonotonicTime)?

  public init(_ speed: ReplaySpeed) { self.speed = speed }

  /// - Returns: the same for the same packet, whenever it is asked for; the start of the clock where it is due at once.
  public mutating func due(_ time: ReceiveTime, now: MonotonicTime) -> MonotonicTime {
    guard case .times(let factor) = speed else { return MonotonicTime(nanoseconds: 0) }
    let start = start ?? (time, now)
    self.start = start
    // A log may hold any numbers.
    let (elapsed, overflow) = time.nanoseconds.subtractingReportingOverflow(start.recorded.nanoseconds)
    let (due, isLater) = start.here.nanoseconds.addingReportingOverflow(
      overflow ? 0 : elapsed / Int64(factor))
    return isLater ? start.here : MonotonicTime(nanoseconds: due)
  }
}

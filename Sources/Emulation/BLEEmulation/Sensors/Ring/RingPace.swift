import BLEWire

/// The time between two ticks of a stream: a `Duration`, taken apart once instead of with each frame.
struct RingPace {
  /// As a number, for the wearer's time.
  let seconds: Double
  private let nanoseconds: Int64
  /// Below a nanosecond.
  private let attoseconds: Int64

  init(_ interval: Duration) {
    let parts = interval.components
    seconds = Double(parts.seconds) + Double(parts.attoseconds) / 1e18
    nanoseconds = parts.seconds * 1_000_000_000 + parts.attoseconds / 1_000_000_000
    attoseconds = parts.attoseconds % 1_000_000_000
  }

  func time(ofTick tick: Int, since start: MonotonicTime) -> MonotonicTime {
    let number = Int64(tick)
    return start.advanced(nanoseconds: number * nanoseconds + number * attoseconds / 1_000_000_000)
  }
}

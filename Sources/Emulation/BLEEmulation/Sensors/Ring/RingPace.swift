import BLEWire

/// Interval between the ticks of a stream: a `Duration`, decomposed once instead of for each frame.
struct RingPace {
  /// The interval in seconds, for the wearer's time.
  let seconds: Double
  private let nanoseconds: Int64
  /// The part of the interval below a nanosecond.
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

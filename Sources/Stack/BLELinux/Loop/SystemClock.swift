public import BLEWire
import Glibc

/// The kernel's clocks, in nanoseconds.
public enum SystemClock {
  /// CLOCK_REALTIME, the clock of receive timestamps. It may be stepped.
  public static func now() -> ReceiveTime { ReceiveTime(nanoseconds: read(CLOCK_REALTIME)) }

  /// CLOCK_MONOTONIC, for deadlines.
  public static func monotonic() -> MonotonicTime {
    MonotonicTime(nanoseconds: read(CLOCK_MONOTONIC))
  }

  /// CLOCK_BOOTTIME: never set, and advances while the machine is suspended.
  public static func sinceBoot() -> MonotonicTime {
    MonotonicTime(nanoseconds: read(CLOCK_BOOTTIME))
  }

  private static func read(_ clock: clockid_t) -> Int64 {
    var time = timespec()
    // SAFETY: `time` outlives the call.
    unsafe clock_gettime(clock, &time)
    return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
  }
}

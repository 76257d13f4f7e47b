public import BLEWire
import Glibc
import Synchronization

/// The clock of an event loop and of everything on it: the kernel's clocks, or virtual time.
///
/// Virtual time stands still while the loop has work, then jumps to the next deadline. A ten-minute session
/// with a device then takes only as long as the processing of its packets, and every run is identical.
public final class LoopClock: Sendable {
  /// The kernel's clocks.
  public static let system = LoopClock(start: nil)

  /// Creates a clock of virtual time, for one loop.
  ///
  /// - Parameter start: initial value of the wall clock.
  public static func virtual(from start: ReceiveTime) -> LoopClock { LoopClock(start: start) }

  public let isVirtual: Bool
  private let start: Int64
  /// Nanoseconds since the start.
  private let elapsed = Atomic<Int64>(0)
  /// Sum of all wall clock steps, in nanoseconds.
  private let steps = Atomic<Int64>(0)
  private let holds = Mutex<[@Sendable () -> Bool]>([])
  private let stops = Atomic<Int>(0)

  private init(start: ReceiveTime?) {
    isVirtual = start != nil
    self.start = start?.nanoseconds ?? 0
  }

  /// Returns the monotonic time, which is used for deadlines and never stepped.
  public func monotonic() -> MonotonicTime {
    isVirtual ? MonotonicTime(nanoseconds: elapsed.load(ordering: .relaxed)) : SystemClock.monotonic()
  }

  /// Returns the wall clock time, which is used for packets without a kernel timestamp.
  public func now() -> ReceiveTime {
    isVirtual
      ? ReceiveTime(
        nanoseconds: start + elapsed.load(ordering: .relaxed) + steps.load(ordering: .relaxed))
      : SystemClock.now()
  }

  /// Steps the wall clock of virtual time forward or back, as an administrator or NTP would.
  public func step(by duration: Duration) {
    steps.add(Int64(duration / .nanoseconds(1)), ordering: .relaxed)
  }

  /// Stops virtual time while `isBusy` returns `true`. For work of another thread that must finish first.
  /// `isBusy` is polled on the loop's thread.
  public func hold(while isBusy: @escaping @Sendable () -> Bool) {
    if isVirtual { holds.withLock { $0.append(isBusy) } }
  }

  /// Stops virtual time while `body` runs, because it waits for another thread.
  public func standing<Value, Failure: Error>(
    while body: () async throws(Failure) -> Value
  ) async throws(Failure) -> Value {
    stops.add(1, ordering: .relaxed)
    defer { stops.subtract(1, ordering: .relaxed) }
    return try await body()
  }

  /// Advances virtual time to `time`.
  ///
  /// - Returns: Whether virtual time has reached `time`; `false` while time is stopped.
  func leap(to time: MonotonicTime) -> Bool {
    guard stops.load(ordering: .relaxed) == 0, !holds.withLock({ holds in holds.contains { $0() } }) else {
      return false
    }
    let isLater = time.nanoseconds > elapsed.load(ordering: .relaxed)
    if isLater { elapsed.store(time.nanoseconds, ordering: .relaxed) }
    return true
  }
}

/// The kernel's clocks, in nanoseconds.
public enum SystemClock {
  /// Returns CLOCK_REALTIME, the clock of receive timestamps. It may be stepped.
  public static func now() -> ReceiveTime { ReceiveTime(nanoseconds: read(CLOCK_REALTIME)) }

  /// Returns CLOCK_MONOTONIC, for deadlines.
  public static func monotonic() -> MonotonicTime {
    MonotonicTime(nanoseconds: read(CLOCK_MONOTONIC))
  }

  /// Returns CLOCK_BOOTTIME, which is never set, and advances while the machine is suspended.
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

public import BLEWire
import Synchronization

/// The time that an event loop and everything on it goes by: the kernel's, or virtual time.
///
/// Virtual time stands still while the loop has something to do, and then leaps to what comes next: ten minutes with a
/// device take as long as their packets, and each run is the same.
public final class LoopClock: Sendable {
  /// The kernel's clocks.
  public static let system = LoopClock(start: nil)

  /// Virtual time, for one loop.
  ///
  /// - Parameter start: what the wall clock shows at its begin.
  public static func virtual(from start: ReceiveTime) -> LoopClock { LoopClock(start: start) }

  public let isVirtual: Bool
  private let start: Int64
  /// Nanoseconds since the start.
  private let elapsed = Atomic<Int64>(0)
  /// By how much the wall clock was set forward, in nanoseconds.
  private let steps = Atomic<Int64>(0)
  private let holds = Mutex<[@Sendable () -> Bool]>([])
  private let stops = Atomic<Int>(0)

  private init(start: ReceiveTime?) {
    isVirtual = start != nil
    self.start = start?.nanoseconds ?? 0
  }

  /// For deadlines: it is never stepped.
  public func monotonic() -> MonotonicTime {
    isVirtual ? MonotonicTime(nanoseconds: elapsed.load(ordering: .relaxed)) : SystemClock.monotonic()
  }

  /// The wall clock, for what came without a stamp of the kernel's.
  public func now() -> ReceiveTime {
    isVirtual
      ? ReceiveTime(
        nanoseconds: start + elapsed.load(ordering: .relaxed) + steps.load(ordering: .relaxed))
      : SystemClock.now()
  }

  /// Sets the wall clock of virtual time forward, or back, as a person or NTP does.
  public func step(by duration: Duration) {
    steps.add(Int64(duration / .nanoseconds(1)), ordering: .relaxed)
  }

  /// Keeps virtual time from going on while `isBusy` says so: a thread beside the loop has work that the loop must not
  /// leave behind. It is asked again and again, on the loop's thread.
  public func hold(while isBusy: @escaping @Sendable () -> Bool) {
    if isVirtual { holds.withLock { $0.append(isBusy) } }
  }

  /// Keeps virtual time from going on until `body`, which waits for another thread, is done.
  public func standing<Value, Failure: Error>(
    while body: () async throws(Failure) -> Value
  ) async throws(Failure) -> Value {
    stops.add(1, ordering: .relaxed)
    defer { stops.subtract(1, ordering: .relaxed) }
    return try await body()
  }

  /// - Returns: whether virtual time is there now.
  func leap(to time: MonotonicTime) -> Bool {
    guard stops.load(ordering: .relaxed) == 0, !holds.withLock({ holds in holds.contains { $0() } }) else {
      return false
    }
    let isLater = time.nanoseconds > elapsed.load(ordering: .relaxed)
    if isLater { elapsed.store(time.nanoseconds, ordering: .relaxed) }
    return true
  }
}

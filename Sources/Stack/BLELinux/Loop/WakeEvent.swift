import CBluetoothLinux
import Synchronization

/// Wakes one sleeping thread. Signalling costs a system call only while that thread sleeps.
public final class WakeEvent: Sendable {
  private let descriptor: FileDescriptor
  private let rest = Atomic<Rest>(.none)
  private let isUrgent: @Sendable () -> Bool

  /// What the thread does.
  private enum Rest: UInt8, AtomicRepresentable {
    case none
    /// Anything wakes it.
    case sleep
    /// Only what is urgent wakes it.
    case pause
  }

  /// - Parameter isUrgent: whether so much waits that a pause must end: asked at each signal meanwhile, by who signals.
  public init(urgent isUrgent: @escaping @Sendable () -> Bool = { false }) throws(SystemError) {
    descriptor = FileDescriptor(owning: try checked("eventfd") { ringtap_wake_create() })
    self.isUrgent = isUrgent
  }

  /// Wakes the sleeper, if it sleeps. Publish the work first.
  public func signal() {
    // Orders the publishing before the look, as `sleep` orders its mark before its look at the work.
    atomicMemoryFence(ordering: .sequentiallyConsistent)
    switch rest.load(ordering: .relaxed) {
    case .none: return
    case .sleep: break
    case .pause: if !isUrgent() { return }
    }
    // One of several who signal.
    if rest.exchange(.none, ordering: .relaxed) != .none { ringtap_wake_signal(descriptor.rawValue) }
  }

  /// Sleeps until `signal`, or for `milliseconds` (−1: for ever), while `isIdle` holds.
  public func sleep(milliseconds: Int = -1, while isIdle: () -> Bool) {
    wait(.sleep, milliseconds, while: isIdle)
  }

  /// Waits for `milliseconds`, whatever is signalled meanwhile, unless it becomes urgent. `interrupt` ends it too.
  public func pause(milliseconds: Int) { wait(.pause, milliseconds) { !isUrgent() } }

  private func wait(_ kind: Rest, _ milliseconds: Int, while isIdle: () -> Bool) {
    rest.store(kind, ordering: .relaxed)
    atomicMemoryFence(ordering: .sequentiallyConsistent)
    if isIdle() { ringtap_wake_wait(descriptor.rawValue, CInt(clamping: milliseconds)) }
    rest.store(.none, ordering: .relaxed)
  }

  /// Ends a sleep or a pause, or the next one.
  public func interrupt() { ringtap_wake_signal(descriptor.rawValue) }
}

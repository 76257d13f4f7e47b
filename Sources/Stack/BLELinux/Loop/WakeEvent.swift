import CBluetoothLinux
import Synchronization

/// Wakes one sleeping thread. Signalling makes a system call only while that thread sleeps.
public final class WakeEvent: Sendable {
  private let descriptor: FileDescriptor
  private let rest = Atomic<Rest>(.none)
  private let isUrgent: @Sendable () -> Bool

  /// Rest state of the thread.
  private enum Rest: UInt8, AtomicRepresentable {
    case none
    /// The thread sleeps; any signal wakes it.
    case sleep
    /// The thread pauses; only an urgent signal wakes it.
    case pause
  }

  /// Creates the event.
  ///
  /// - Parameter isUrgent: whether enough work is queued to end a pause. Called at each signal during a
  ///   pause, on the signalling thread.
  public init(urgent isUrgent: @escaping @Sendable () -> Bool = { false }) throws(SystemError) {
    descriptor = FileDescriptor(owning: try checked("eventfd") { ringtap_wake_create() })
    self.isUrgent = isUrgent
  }

  /// Wakes the thread if it sleeps. Publish the work before the call.
  public func signal() {
    // Orders the publication of the work before the load of `rest`; `wait` orders its store of `rest` before
    // `isIdle`.
    atomicMemoryFence(ordering: .sequentiallyConsistent)
    switch rest.load(ordering: .relaxed) {
    case .none: return
    case .sleep: break
    case .pause: if !isUrgent() { return }
    }
    // Only one of several concurrent callers makes the system call.
    if rest.exchange(.none, ordering: .relaxed) != .none { ringtap_wake_signal(descriptor.rawValue) }
  }

  /// Sleeps until `signal`, or for `milliseconds` (−1: no limit), if `isIdle` returns `true`.
  public func sleep(milliseconds: Int = -1, while isIdle: () -> Bool) {
    wait(.sleep, milliseconds, while: isIdle)
  }

  /// Sleeps for `milliseconds`. Only an urgent signal or `interrupt` ends it early.
  public func pause(milliseconds: Int) { wait(.pause, milliseconds) { !isUrgent() } }

  private func wait(_ kind: Rest, _ milliseconds: Int, while isIdle: () -> Bool) {
    rest.store(kind, ordering: .relaxed)
    atomicMemoryFence(ordering: .sequentiallyConsistent)
    if isIdle() { ringtap_wake_wait(descriptor.rawValue, CInt(clamping: milliseconds)) }
    rest.store(.none, ordering: .relaxed)
  }

  /// Ends the current sleep or pause, or the next one.
  public func interrupt() { ringtap_wake_signal(descriptor.rawValue) }
}

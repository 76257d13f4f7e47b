import CBluetoothLinux
import Synchronization

/// Wakes one sleeping thread. Signalling costs a system call only while that thread sleeps.
public final class WakeEvent: Sendable {
  private let descriptor: FileDescriptor
  private let isSleeping = Atomic<Bool>(false)

  public init() throws(SystemError) {
    descriptor = FileDescriptor(owning: try checked("eventfd") { ringtap_wake_create() })
  }

  /// Wakes the sleeper, if it sleeps. Publish the work first.
  public func signal() {
    // Orders the publishing before the look, as `sleep` orders its mark before its look at the work.
    atomicMemoryFence(ordering: .sequentiallyConsistent)
    if isSleeping.load(ordering: .relaxed), isSleeping.exchange(false, ordering: .relaxed) {
      ringtap_wake_signal(descriptor.rawValue)
    }
  }

  /// Sleeps until `signal`, or for `milliseconds` (−1: for ever), while `isIdle` holds.
  public func sleep(milliseconds: Int = -1, while isIdle: () -> Bool) {
    isSleeping.store(true, ordering: .relaxed)
    atomicMemoryFence(ordering: .sequentiallyConsistent)
    if isIdle() { ringtap_wake_wait(descriptor.rawValue, CInt(clamping: milliseconds)) }
    isSleeping.store(false, ordering: .relaxed)
  }

  /// Waits for `milliseconds`, whatever is signalled meanwhile. Only `interrupt` ends it early.
  public func pause(milliseconds: Int) {
    ringtap_wake_wait(descriptor.rawValue, CInt(clamping: milliseconds))
  }

  /// Ends a sleep or a pause, or the next one.
  public func interrupt() { ringtap_wake_signal(descriptor.rawValue) }
}

import CBluetoothLinux
import Glibc

/// A detached thread of our own, outside Swift's cooperative pool, which must not block.
package enum SystemThread {
  /// What a thread is to the scheduler.
  package enum Role: Hashable, Sendable {
    case ordinary
    /// Has time: when it wakes, it takes the processor from nobody (SCHED_BATCH).
    case patient
    /// As its loop was asked for.
    case tuned(LoopTuning)
  }

  private final class Body {
    let name: String
    let role: Role
    let run: @Sendable () -> Void
    init(name: String, role: Role, run: @escaping @Sendable () -> Void) {
      self.name = name
      self.role = role
      self.run = run
    }

    /// The thread.
    func main() {
      unsafe ringtap_thread_set_name(name)
      switch role {
      case .ordinary: break
      case .patient: ringtap_thread_be_patient()
      case .tuned(let tuning): if tuning.realTimePriority != nil { ringtap_thread_keep_priority() }
      }
      run()
    }
  }

  /// Checks that so many threads (64 at most) can be made at once, by making them.
  ///
  /// - Throws: EAGAIN where RLIMIT_NPROC or a control group's `pids.max` allows fewer.
  package static func check(count: Int) throws(SystemError) {
    let status = ringtap_threads_try(CInt(count))
    guard status == 0 else { throw SystemError(call: "pthread_create", number: status) }
  }

  /// `pthread_create`. A thread has neither the processor nor the priority of the one that started it.
  ///
  /// - Parameter name: at most 15 characters are kept by the kernel.
  /// - Throws: EPERM for a priority that needs CAP_SYS_NICE, EINVAL for a processor that is not there.
  package static func start(
    named name: String, as role: Role = .ordinary, _ run: @escaping @Sendable () -> Void
  ) throws(SystemError) {
    var tuning = LoopTuning()
    if case .tuned(let wanted) = role { tuning = wanted }
    // SAFETY: the retained box passes its ownership to the new thread, which releases it.
    let opaque = unsafe Unmanaged.passRetained(Body(name: name, role: role, run: run)).toOpaque()
    let status = unsafe ringtap_thread_create(
      { argument in
        // SAFETY: see above; `argument` is the box that was passed.
        let body = unsafe Unmanaged<Body>.fromOpaque(argument!).takeRetainedValue()
        body.main()
        return nil
      }, opaque, CInt(tuning.processor ?? -1), CInt(tuning.realTimePriority ?? 0))
    guard status == 0 else {
      // SAFETY: no thread was made, so the box is still ours.
      unsafe Unmanaged<Body>.fromOpaque(opaque).release()
      throw SystemError(call: "pthread_create", number: status)
    }
  }
}

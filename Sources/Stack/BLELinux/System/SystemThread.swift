import CBluetoothLinux
import Glibc

/// A detached thread outside Swift's cooperative pool, whose threads must not block.
package enum SystemThread {
  /// Scheduling of a thread.
  package enum Role: Hashable, Sendable {
    case ordinary
    /// Not urgent: does not preempt other threads when it wakes up (SCHED_BATCH).
    case patient
    /// According to the tuning of its event loop.
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

  /// Checks that `count` threads (at most 64) can exist at the same time, by creating them.
  ///
  /// - Throws: EAGAIN if RLIMIT_NPROC or a control group's `pids.max` allows fewer.
  package static func check(count: Int) throws(SystemError) {
    let status = ringtap_threads_try(CInt(count))
    guard status == 0 else { throw SystemError(call: "pthread_create", number: status) }
  }

  /// Starts a thread with `pthread_create`. The thread does not inherit the processor affinity or priority of
  /// the calling thread.
  ///
  /// - Parameter name: the kernel keeps at most 15 characters.
  /// - Throws: EPERM for a priority that requires CAP_SYS_NICE, EINVAL for a processor that does not exist.
  package static func start(
    named name: String, as role: Role = .ordinary, _ run: @escaping @Sendable () -> Void
  ) throws(SystemError) {
    var tuning = LoopTuning()
    if case .tuned(let wanted) = role { tuning = wanted }
    // SAFETY: the retained box is passed to the new thread, which releases it.
    let opaque = unsafe Unmanaged.passRetained(Body(name: name, role: role, run: run)).toOpaque()
    let status = unsafe ringtap_thread_create(
      { argument in
        // SAFETY: see above; `argument` is the box that was passed.
        let body = unsafe Unmanaged<Body>.fromOpaque(argument!).takeRetainedValue()
        body.main()
        return nil
      }, opaque, CInt(tuning.processor ?? -1), CInt(tuning.realTimePriority ?? 0))
    guard status == 0 else {
      // SAFETY: no thread was created, so the box still belongs to this function.
      unsafe Unmanaged<Body>.fromOpaque(opaque).release()
      throw SystemError(call: "pthread_create", number: status)
    }
  }
}

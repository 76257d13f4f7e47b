import CBluetoothLinux
import Glibc

/// Resources that the calling thread has used so far. To measure, subtract two values.
package struct ThreadUsage: Sendable, BitwiseCopyable {
  /// Number of system calls that a streaming receive loop makes: waiting, receiving, reading, sending,
  /// waking.
  package var systemCalls: UInt64
  /// User and system time.
  package var processorNanoseconds: Int64

  /// `clock_gettime(CLOCK_THREAD_CPUTIME_ID)`: a system call, so too slow for each notification.
  package static func current() -> ThreadUsage {
    ThreadUsage(systemCalls: currentSystemCalls, processorNanoseconds: nanoseconds(CLOCK_THREAD_CPUTIME_ID))
  }

  /// Number of system calls; costs one memory load, so it may be read often.
  package static var currentSystemCalls: UInt64 { ringtap_system_calls() }

  private static func nanoseconds(_ clock: clockid_t) -> Int64 {
    var time = timespec()
    // SAFETY: `time` outlives the call.
    unsafe clock_gettime(clock, &time)
    return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
  }

  /// User and system time of all threads of this process.
  package static var processNanoseconds: Int64 { nanoseconds(CLOCK_PROCESS_CPUTIME_ID) }
}

extension ProcessFacts {
  /// Resident memory of this process in KiB, from `/proc/self/status`.
  package static var residentKilobytes: Int? {
    guard let status = Files.text(at: "/proc/self/status"),
      let line = status.split(separator: "\n").first(where: { $0.hasPrefix("VmRSS:") })
    else { return nil }
    return Int(line.filter { ("0"..."9").contains($0) })
  }
}

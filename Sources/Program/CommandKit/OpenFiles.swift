import BLELinux
import Glibc

/// Checks the limit on open file descriptors.
package enum OpenFiles {
  /// Largest number of descriptors that a command needs: a capture in NumPy format has its columns, logs and
  /// sockets open. Swift's threads also open descriptors, and trap if they cannot.
  private static let needed = 64

  package static func check() throws {
    guard !ProcessFacts.canOpen(needed) else { return }
    throw Failure(
      "the limit of open files is too low: \(needed) more are needed; raise it, for example with "
        + "`ulimit -n 1024`")
  }
}

/// Checks the limit on threads.
package enum ThreadLimit {
  /// Threads of this program: receive, write, log, streams, signals.
  private static let own = 8
  /// Maximum number of processors counted. Swift's pool has one thread for each processor.
  private static let processorLimit = 24

  private static let outcome: SystemError? = {
    let processors = min(max(1, sysconf(CInt(_SC_NPROCESSORS_ONLN))), processorLimit)
    do throws(SystemError) { try SystemThread.check(count: own + processors) } catch { return error }
    return nil
  }()

  /// Checks the limit. Call this before the first task: Swift's pool waits forever for a thread that it
  /// cannot create.
  package static func check() throws {
    guard let error = outcome else { return }
    throw Failure(
      "cannot start enough threads (\(error)); raise the limit of processes, for example with `ulimit -u "
        + "1024`, or the service's TasksMax"
    )
  }
}

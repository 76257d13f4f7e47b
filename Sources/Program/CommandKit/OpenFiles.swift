import BLELinux
import Glibc

/// Checks the limit of file descriptors.
package enum OpenFiles {
  /// Most descriptors that a command needs. A capture in arrays needs the most: its columns, logs and
  /// sockets, and those that Swift's threads open, which trap if they cannot.
  private static let needed = 64

  package static func check() throws {
    guard !ProcessFacts.canOpen(needed) else { return }
    throw Failure(
      "the limit of open files is too low: \(needed) more are needed; raise it, for example with "
        + "`ulimit -n 1024`")
  }
}

/// Checks the limit of threads.
package enum ThreadLimit {
  /// Threads of this program: receive, write, log, streams, signals.
  private static let own = 8
  /// Processors that are counted at most; Swift's pool has a thread for each processor.
  private static let processorLimit = 24

  private static let outcome: SystemError? = {
    let processors = min(max(1, sysconf(CInt(_SC_NPROCESSORS_ONLN))), processorLimit)
    do throws(SystemError) { try SystemThread.check(count: own + processors) } catch { return error }
    return nil
  }()

  /// Call this before the first task: Swift's pool waits forever for a thread that it cannot create.
  package static func check() throws {
    guard let error = outcome else { return }
    throw Failure(
      "cannot start enough threads (\(error)); raise the limit of processes, for example with `ulimit -u "
        + "1024`, or the service's TasksMax"
    )
  }
}

import BLELinux
import Glibc

/// The descriptors that a command may need.
package enum OpenFiles {
  /// A capture in arrays has the most: its columns, log and sockets, and what Swift's threads open for themselves, which
  /// trap where they cannot.
  private static let needed = 64

  package static func check() throws {
    guard !ProcessFacts.canOpen(needed) else { return }
    throw Failure("the limit of open files leaves less than \(needed); raise it, as with `ulimit -n 1024`")
  }
}

/// The threads that a command may need.
package enum ThreadLimit {
  /// Of our own: receive, write, log, streams, signals.
  private static let own = 8
  /// Of processors, for each of which Swift's pool has a thread.
  private static let processorLimit = 24

  private static let outcome: SystemError? = {
    let processors = min(max(1, sysconf(CInt(_SC_NPROCESSORS_ONLN))), processorLimit)
    do throws(SystemError) { try SystemThread.check(count: own + processors) } catch { return error }
    return nil
  }()

  /// Checked before the first task: Swift's pool waits for ever for a thread that it cannot have.
  package static func check() throws {
    guard let error = outcome else { return }
    throw Failure(
      "the limit of processes leaves too few threads (\(error)); raise it, as with `ulimit -u 1024`, or the service's TasksMax"
    )
  }
}

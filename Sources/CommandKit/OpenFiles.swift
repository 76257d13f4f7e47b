import BLELinux

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

import Glibc
import Synchronization

/// The code of this program and its libraries, as it stands in memory.
public enum ProgramCode {
  private static let isReleased = Atomic(false)

  /// Gives back, once, what has been read of it: most of that only the start needed. What goes on running is mapped again
  /// page by page, without the disk while the kernel has it in its cache.
  ///
  /// For long jobs, on a thread of its own: a start costs half of a program's resident memory, some 14 of 28 MB.
  /// Breakpoints of a debugger are lost.
  ///
  /// `nanosleep`, `madvise(MADV_DONTNEED)` for each executable mapping of a file in `/proc/self/maps`.
  ///
  /// - Parameter delay: until the job is in its steady state.
  public static func releaseOnce(after delay: Duration) {
    guard !isReleased.exchange(true, ordering: .relaxed) else { return }
    // Without it the program is larger, and that is all.
    try? SystemThread.start(named: "release") {
      let parts = delay.components
      var time = timespec(tv_sec: Int(parts.seconds), tv_nsec: Int(parts.attoseconds / 1_000_000_000))
      // SAFETY: `time` outlives the call. An early end does no harm.
      _ = unsafe nanosleep(&time, nil)
      guard let octets = try? Files.octets(of: "/proc/self/maps", limit: 1 << 20) else { return }
      for line in String(decoding: octets, as: UTF8.self).split(separator: "\n") { release(line) }
    }
  }

  /// `address-address r-xp offset device inode path`
  private static func release(_ line: Substring) {
    let fields = line.split(separator: " ", maxSplits: 5)
    guard fields.count == 6, fields[1] == "r-xp", fields[4] != "0" else { return }
    let ends = fields[0].split(separator: "-").compactMap { UInt(String($0), radix: 16) }
    guard ends.count == 2, ends[0] < ends[1] else { return }
    // SAFETY: the mapping is private, of a file, and was never writable: what is read again is what was there.
    _ = unsafe madvise(UnsafeMutableRawPointer(bitPattern: ends[0]), Int(ends[1] - ends[0]), MADV_DONTNEED)
  }
}

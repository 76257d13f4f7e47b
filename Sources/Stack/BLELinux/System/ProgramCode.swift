import CBluetoothLinux
import Glibc
import Synchronization

/// The code pages of this program and its libraries.
public enum ProgramCode {
  private static let isReleased = Atomic(false)

  /// Releases the code pages that were loaded so far, because most of them were needed only at the start.
  /// Takes effect once per process. Pages that are used again are mapped one by one, without disk access if
  /// they are in the page cache.
  ///
  /// Use this for long jobs: startup code accounts for half of the program's resident memory, some 14 of 28
  /// MB. Runs on a dedicated thread. Breakpoints of a debugger are lost.
  ///
  /// `nanosleep`, then `madvise(MADV_DONTNEED)` for each executable file mapping in `/proc/self/maps`.
  ///
  /// - Parameter delay: time until the job is in its steady state.
  public static func releaseOnce(after delay: Duration) {
    guard !isReleased.exchange(true, ordering: .relaxed) else { return }
    // Best effort: on failure the program only uses more memory.
    try? SystemThread.start(named: "release") {
      let parts = delay.components
      var time = timespec(tv_sec: Int(parts.seconds), tv_nsec: Int(parts.attoseconds / 1_000_000_000))
      // SAFETY: `time` outlives the call. Waking early does no harm.
      _ = unsafe nanosleep(&time, nil)
      guard let octets = try? Files.octets(of: "/proc/self/maps", limit: 1 << 20) else { return }
      for line in String(decoding: octets, as: UTF8.self).split(separator: "\n") { release(line) }
    }
  }

  /// Releases the pages of one line of `/proc/self/maps`: `address-address r-xp offset device inode path`.
  private static func release(_ line: Substring) {
    let fields = line.split(separator: " ", maxSplits: 5)
    guard fields.count == 6, fields[1] == "r-xp", fields[4] != "0" else { return }
    let ends = fields[0].split(separator: "-").compactMap { UInt(String($0), radix: 16) }
    guard ends.count == 2, ends[0] < ends[1] else { return }
    // SAFETY: a private file mapping that was never writable: reading it again gives the same content.
    _ = unsafe madvise(UnsafeMutableRawPointer(bitPattern: ends[0]), Int(ends[1] - ends[0]), MADV_DONTNEED)
  }
}

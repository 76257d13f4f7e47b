public import BLELinux
import CBluetoothLinux
import Glibc

/// Small file that is locked while its process lives. The kernel releases the lock whenever the process ends,
/// so readers can check whether the contents are current.
public struct LockedFile: ~Copyable {
  private let descriptor: FileDescriptor
  public let path: String

  /// Writes the complete file and locks it. Replaces a file with the same name left by a killed process.
  ///
  /// Uses `flock(LOCK_EX)`, then `rename`.
  public init(creating path: String, _ octets: [UInt8]) throws(SystemError) {
    let draft = path + ".new"
    let descriptor = FileDescriptor(
      owning: try checked("open \(draft)") {
        // SAFETY: the path is a null-terminated string for the duration of the call.
        unsafe open(draft, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0o644)
      })
    try descriptor.writeAll(octets.span)
    try checked("flock \(draft)") { flock(descriptor.rawValue, LOCK_EX) }
    try checked("rename \(draft)") { unsafe rename(draft, path) }
    self.descriptor = descriptor
    self.path = path
  }

  deinit { unsafe _ = unlink(path) }
}

/// Checks whether the process that wrote a `LockedFile` still holds the lock.
public struct LockWatch: ~Copyable, Sendable {
  private let descriptor: FileDescriptor

  public init(_ path: String) throws(SystemError) {
    descriptor = FileDescriptor(
      owning: try checked("open \(path)") {
        unsafe open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
      })
  }

  /// Whether the process still holds the lock. Uses `flock(LOCK_SH)`, which fails while the process lives.
  public var isHeld: Bool {
    guard flock(descriptor.rawValue, LOCK_SH | LOCK_NB) != 0 else {
      flock(descriptor.rawValue, LOCK_UN)
      return false
    }
    return lastError() == EWOULDBLOCK
  }
}

/// Folder in which running ringtap processes announce themselves.
///
/// For root it is `/run/ringtap`. For other users it is in `$XDG_RUNTIME_DIR`, or in `/tmp` if the variable
/// is not set. `$RINGTAP_RUNTIME_DIR` overrides these.
public enum RuntimeFolder {
  /// Folders that this process reads: of its user and of root.
  public static var all: [String] {
    if let chosen { return [chosen] }
    let own = own
    return own == root ? [root] : [own, root]
  }

  /// Returns the folder of this process's user, and creates it if necessary.
  ///
  /// - Throws: EPERM if the folder belongs to another user. Any user can create it in `/tmp`.
  public static func make() throws(SystemError) -> String {
    let path = chosen ?? own
    try Files.createDirectory(path)
    var info = stat()
    // SAFETY: `info` exists during the call.
    try checked("stat \(path)") { unsafe lstat(path, &info) }
    guard info.st_uid == geteuid(), info.st_mode & S_IFMT == S_IFDIR else {
      throw SystemError(call: "use \(path)", number: EPERM)
    }
    return path
  }

  private static let root = "/run/ringtap"

  private static var chosen: String? { ProcessFacts.environment("RINGTAP_RUNTIME_DIR") }

  private static var own: String {
    if geteuid() == 0 { return root }
    return ProcessFacts.environment("XDG_RUNTIME_DIR").map { $0 + "/ringtap" } ?? "/tmp/ringtap-\(geteuid())"
  }
}

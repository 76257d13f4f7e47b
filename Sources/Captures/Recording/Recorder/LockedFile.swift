public import BLELinux
import CBluetoothLinux
import Glibc

/// A small file that says something as long as its process lives: it is locked all the time, and the kernel takes the
/// lock back however the process ends. So nobody who reads it need guess.
public struct LockedFile: ~Copyable {
  private let descriptor: FileDescriptor
  public let path: String

  /// Writes it whole and locked; a file of that name, which a killed process left, is replaced.
  ///
  /// `flock(LOCK_EX)`, then `rename` into place.
  public init(creating path: String, _ octets: [UInt8]) throws(SystemError) {
    let draft = path + ".new"
    let descriptor = FileDescriptor(
      owning: try checked("open \(draft)") {
        // SAFETY: the path is a null-terminated string for the length of the call.
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

/// Whether the process that wrote a `LockedFile` still has it.
public struct LockWatch: ~Copyable, Sendable {
  private let descriptor: FileDescriptor

  public init(_ path: String) throws(SystemError) {
    descriptor = FileDescriptor(
      owning: try checked("open \(path)") {
        unsafe open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
      })
  }

  /// `flock(LOCK_SH)`, which is refused as long as the writer lives.
  public var isHeld: Bool {
    guard flock(descriptor.rawValue, LOCK_SH | LOCK_NB) != 0 else {
      flock(descriptor.rawValue, LOCK_UN)
      return false
    }
    return lastError() == EWOULDBLOCK
  }
}

/// Where running processes of this program leave word for others.
///
/// Root's is `/run/ringtap`; everybody else's is in `$XDG_RUNTIME_DIR`, or, where there is none, in `/tmp`.
/// `$RINGTAP_RUNTIME_DIR` takes the place of all.
public enum RuntimeFolder {
  /// Where this process looks: in its user's folder, and in root's.
  public static var all: [String] {
    if let chosen { return [chosen] }
    let own = own
    return own == root ? [root] : [own, root]
  }

  /// The folder of this process' user, made where it is not there.
  ///
  /// - Throws: EPERM where it is another user's: somebody else could have made it in `/tmp`.
  public static func make() throws(SystemError) -> String {
    let path = chosen ?? own
    try Files.createDirectory(path)
    var info = stat()
    // SAFETY: `info` outlives the call.
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

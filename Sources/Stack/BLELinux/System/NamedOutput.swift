import Glibc
import Synchronization

/// A file that is written to a path given by the user. The data is written to a draft in the same folder,
/// which `commit` renames to the path. A symbolic link at the path is replaced, not followed. After a crash
/// the path refers to either the old file or the complete new file.
package struct NamedOutput: ~Copyable, Sendable {
  /// Kinds of existing files, other than regular files, that are written in place.
  package enum Target: Hashable, Sendable {
    /// No other kind: a device or pipe at the path is replaced.
    case file
    /// All kinds, for paths given by the user: a device, a pipe, or a path such as `/dev/stdout` is opened
    /// and written in place.
    case anything
  }

  private static let number = Atomic<Int>(0)

  package let descriptor: FileDescriptor
  private let path: String
  /// Path of the draft; `nil` after `commit`, and if the file is written in place.
  private var draft: String?
  private let existing: Files.Existing

  /// Opens the output.
  ///
  /// - Parameters:
  ///   - existing: whether a file or link at the path is replaced. Checked now and at commit.
  ///   - mode: permissions of the new file.
  /// - Throws: EEXIST for a file or link that must not be replaced, EISDIR for a directory, EACCES for a file
  ///   that this process may not write, even if it could replace it.
  package init(
    _ path: String, to target: Target = .file, ifExists existing: Files.Existing = .replace,
    mode: UInt32 = 0o644
  ) throws(SystemError) {
    self.path = path
    self.existing = existing
    guard target == .anything else {
      let draft = Self.draft(of: path)
      descriptor = try Self.create(draft, mode)
      self.draft = draft
      return
    }
    if let number = Self.ownDescriptor(path) {
      let copy = fcntl(number, F_DUPFD_CLOEXEC, 3)
      guard copy >= 0 else { throw SystemError(call: "open \(path)", number: lastError()) }
      descriptor = FileDescriptor(owning: copy)
      return
    }
    var (status, mode) = (stat(), mode)
    // SAFETY: `status` outlives the call, and the path is a null-terminated string.
    if unsafe lstat(path, &status) == 0 {
      switch status.st_mode & S_IFMT {
      case S_IFDIR: throw SystemError(call: "open \(path)", number: EISDIR)
      case S_IFLNK:
        if existing == .refuse { throw SystemError(call: "open \(path)", number: EEXIST) }
      case S_IFREG:
        if existing == .refuse { throw SystemError(call: "open \(path)", number: EEXIST) }
        try checked("open \(path)") { unsafe access(path, W_OK) }
        // The new file must not be readable by more users than the old file.
        mode &= status.st_mode
      default:
        descriptor = FileDescriptor(
          owning: try checked("open \(path)") {
            unsafe open(path, O_WRONLY | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC)
          })
        return
      }
    }
    let draft = Self.draft(of: path)
    descriptor = try Self.create(draft, mode)
    self.draft = draft
  }

  /// Creates an output for a descriptor that is already open for the path, or that needs no path.
  package init(inPlace descriptor: consuming FileDescriptor, _ path: String) {
    self.descriptor = descriptor
    self.path = path
    existing = .replace
  }

  deinit { if let draft { try? Files.remove(draft) } }

  /// Renames the draft to the path. Does nothing for a file that is written in place.
  ///
  /// `fsync`, `rename`, then `fsync` of the folder, so that a power failure does not restore the old file.
  ///
  /// - Throws: EEXIST if `existing` is `.refuse` and a file of this name was created in the meantime.
  package mutating func commit() throws(SystemError) {
    guard let draft else { return }
    let number = descriptor.rawValue
    try checked("fsync \(draft)") { fsync(number) }
    switch existing {
    case .replace: try Files.rename(draft, to: path)
    case .refuse: try Files.rename(draft, toFree: path)
    }
    self.draft = nil
    let folder = Files.folder(of: path)
    let opened = FileDescriptor(
      owning: try checked("open \(folder)") { unsafe open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) })
    // Best effort: some file systems cannot fsync a directory.
    _ = fsync(opened.rawValue)
  }

  /// Lets child processes inherit the descriptor. Returns a path that refers to the descriptor in a child
  /// process.
  package func pathForChildren() -> String {
    let number = descriptor.rawValue
    _ = fcntl(number, F_SETFD, 0)
    return "/proc/self/fd/\(number)"
  }

  /// Returns a unique name for a draft, so that concurrent writers, in this process or another, do not
  /// collide.
  private static func draft(of path: String) -> String {
    "\(path).\(getpid())-\(number.add(1, ordering: .relaxed).newValue).new"
  }

  private static func create(_ draft: String, _ mode: UInt32) throws(SystemError) -> FileDescriptor {
    // A killed process with the same ID may have left a draft behind.
    try? Files.remove(draft)
    return FileDescriptor(
      owning: try checked("open \(draft)") {
        // SAFETY: the path is a null-terminated string for the length of the call.
        unsafe open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode)
      })
  }

  /// Returns the descriptor in this process that a path such as `/dev/stdout` or `/dev/fd/3` refers to.
  static func ownDescriptor(_ path: String) -> CInt? {
    switch path {
    case "/dev/stdout": return STDOUT_FILENO
    case "/dev/stderr": return STDERR_FILENO
    default: break
    }
    for folder in ["/dev/fd/", "/proc/self/fd/"] where path.hasPrefix(folder) {
      return CInt(path.dropFirst(folder.count))
    }
    return nil
  }
}

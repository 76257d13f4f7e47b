import Glibc
import Synchronization

/// What is written under a name that somebody gave: a draft beside it, until `commit` gives it the name. A link of that name
/// is replaced, not followed, and whatever happens, the name stands for what was there before or for all that is new.
package struct NamedOutput: ~Copyable, Sendable {
  /// What the name may stand for beside a file that is replaced.
  package enum Target: Hashable, Sendable {
    /// Nothing: a device or a pipe of that name gives way, too.
    case file
    /// What a person named: a device, a pipe, or `/dev/stdout` and its like, is written as it is.
    case anything
  }

  private static let number = Atomic<Int>(0)

  package let descriptor: FileDescriptor
  private let path: String
  /// `nil` once it has its name, and for what is written in place.
  private var draft: String?
  private let existing: Files.Existing

  /// - Parameters:
  ///   - existing: what becomes of a file or link that has the name, now or when the new file is committed.
  ///   - mode: of the new file.
  /// - Throws: EEXIST for a file or link that is not to be replaced, EISDIR for a directory, and EACCES for a file that this
  ///   process may not write, though it could be replaced.
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
        // What only its owner could read stays so.
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

  /// What is open already, and has its name or needs none.
  package init(inPlace descriptor: consuming FileDescriptor, _ path: String) {
    self.descriptor = descriptor
    self.path = path
    existing = .replace
  }

  deinit { if let draft { try? Files.remove(draft) } }

  /// Gives it its name.
  ///
  /// `fsync`, `rename`, and `fsync` of the folder, so that a power failure does not bring back what was there before. What is
  /// written in place has its name.
  ///
  /// - Throws: EEXIST where something has got the name meanwhile that is not to be replaced.
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
    // A file system that cannot is none the worse.
    _ = fsync(opened.rawValue)
  }

  /// Leaves it open in programs that are started from now on, and says what it is called there.
  package func pathForChildren() -> String {
    let number = descriptor.rawValue
    _ = fcntl(number, F_SETFD, 0)
    return "/proc/self/fd/\(number)"
  }

  /// Two writers at once, of one process or of several, have drafts of their own.
  private static func draft(of path: String) -> String {
    "\(path).\(getpid())-\(number.add(1, ordering: .relaxed).newValue).new"
  }

  private static func create(_ draft: String, _ mode: UInt32) throws(SystemError) -> FileDescriptor {
    // A process that had our number and was killed may have left one.
    try? Files.remove(draft)
    return FileDescriptor(
      owning: try checked("open \(draft)") {
        // SAFETY: the path is a null-terminated string for the length of the call.
        unsafe open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode)
      })
  }

  /// The descriptor of this process that a path stands for: links that the kernel and the system keep.
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
